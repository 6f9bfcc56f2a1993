//! What is open, and what listens, when the watch begins.

use super::owners::KnownOwners;
use super::place::{Place, place};
use anyhow::Context;
use sockeye_model::{
    ConnectionEvent, ConnectionEventKind, NetnsInode, Protocol, ProtocolSet, Socket, State, StateSet,
};
use sockeye_query::context::QueryContext;
use sockeye_source::{Choice, Detail, Ends, Families, NetnsScope, Query, list};
use sockeye_sys::monotonic::now_ns;
use sockeye_tracepoints::Protocols;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Connections that an event has reported before they were listed.
#[derive(Debug, Default)]
pub(crate) struct Opened(HashSet<Place>);

impl Opened {
    /// Notes an event.
    pub(crate) fn add(&mut self, event: &ConnectionEvent) {
        if matches!(
            event.kind,
            ConnectionEventKind::Open | ConnectionEventKind::Listen
        ) {
            self.0.insert(place(&event.socket));
        }
    }
}

/// Lists what is there, by BPF, as events.
///
/// # Errors
/// When nothing can be listed.
pub(crate) fn list_present(
    context: &QueryContext,
    watched: Protocols,
    families: Families,
    netns: Option<NetnsInode>,
    owners: &KnownOwners,
) -> anyhow::Result<Vec<ConnectionEvent>> {
    let protocols = [
        (Protocol::Tcp, watched.tcp),
        (Protocol::Udp, watched.udp),
        (Protocol::Mptcp, watched.mptcp),
    ];
    let protocols: Vec<_> = protocols
        .into_iter()
        .filter_map(|(protocol, is_watched)| is_watched.then_some(protocol))
        .collect();
    let mut states = StateSet::FLOWS.without(State::TimeWait).with(State::Listen);
    if watched.udp {
        // A UDP socket without a peer.
        states = states.with(State::Close);
    }
    let query = Query {
        protocols: ProtocolSet::of(&protocols),
        families,
        states,
        detail: Detail::INODE | Detail::USER | Detail::TCP_INFO,
        program: &[],
        ends: Ends::ANYWHERE,
        choice: Choice::Auto,
        scope: NetnsScope::All,
        quiet: None,
        announce: None,
    };
    let time_ns = now_ns();
    let mut events = Vec::new();
    let listed = list(&context.engine, &query, &mut |socket, _| {
        let is_selected = netns.is_none_or(|netns| socket.netns == Some(netns));
        // What the kernel keeps in FIN_WAIT2 without a process is no connection of anybody.
        let is_kept = socket.state == State::FinWait2 && socket.inode.is_none();
        if is_selected && !is_kept {
            events.push(event(socket.clone(), time_ns, owners));
        }
        ControlFlow::Continue(())
    });
    listed.context("list what is open")?;
    Ok(events)
}

/// Removes what events have reported already.
pub(crate) fn remove_opened(present: &mut Vec<ConnectionEvent>, opened: &Opened) {
    present.retain(|event| !opened.0.contains(&place(&event.socket)));
}

fn event(socket: Socket, time_ns: u64, owners: &KnownOwners) -> ConnectionEvent {
    let (direction, owner) = owners.of_present(&socket);
    let info = socket.tcp_info.filter(|_| socket.state != State::Listen);
    // The kernel counts the peer's FIN as a byte.
    let has_fin = socket.protocol == Protocol::Tcp
        && matches!(socket.state, State::CloseWait | State::LastAck | State::Closing);
    let sent = info.and_then(|info| info.bytes_sent.zip(info.bytes_retrans));
    ConnectionEvent {
        direction,
        owner,
        sent_bytes: sent.map(|(sent, again)| sent.saturating_sub(again)),
        received_bytes: info
            .and_then(|info| info.bytes_received)
            .map(|bytes| bytes.saturating_sub(u64::from(has_fin))),
        ..ConnectionEvent::new(ConnectionEventKind::Present, time_ns, socket)
    }
}
