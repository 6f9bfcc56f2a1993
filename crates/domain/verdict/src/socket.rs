//! Rules about what waits in a socket, and what it dropped.

use crate::share::permille;
use crate::socket_counters::SocketCounters;
use crate::symptom::Symptom;
use crate::{Limit, Limits, Rule};
use foldhash::fast::FixedState;
use sockeye_model::{Counter, NetnsInode, Protocol, Queues, Socket, State, Vitals};
use std::collections::HashMap;

pub(crate) fn unread(socket: &Socket, limits: &Limits) -> Option<Symptom> {
    // The FIN of the peer counts as a byte.
    let fin = u64::from(socket.state == State::CloseWait);
    let waiting = receive_queue(socket)?.saturating_sub(fin);
    if waiting < limits.of(Limit::UnreadBytes).max(1) {
        return None;
    }
    // A closed socket has no program that could read.
    socket.inode?;
    let since = u64::from(socket.tcp_info.as_ref()?.last_data_recv_ms?);
    let applies = since >= limits.of(Limit::UnreadFor);
    applies.then(|| {
        Symptom::new(Rule::Unread, waiting)
            .fact("recvq_bytes", waiting)
            .fact("waiting_ms", since)
            .fact(
                "rcv_wnd_bytes",
                socket.tcp_info.as_ref().and_then(|info| info.rcv_wnd_bytes),
            )
    })
}

/// What TCP lost of the segments that had reached a socket, by namespace.
///
/// A socket's own counter (`sk_drops`) also has what TCP does not need: segments that it already has, whose
/// acknowledgement was lost or late, and segments outside of the window (`tcp_data_queue()`, `tcp_data_queue_ofo()`,
/// `tcp_validate_incoming()` in `net/ipv4/tcp_input.c` all end in `tcp_drop_reason()`). Only the counters of the namespace
/// distinguish them: duplicates are in `DelayedACKLost` and `TCPDSACKOfoSent`, losses in the ones below.
#[derive(Debug, Default)]
pub(crate) struct TcpLosses(HashMap<Option<NetnsInode>, u64, FixedState>);

impl TcpLosses {
    /// Adds the losses of a namespace since the earlier sample, or since it was created.
    pub(crate) fn add_namespace(&mut self, vitals: &Vitals, before: Option<&Vitals>) {
        let since = |counter: Counter| {
            let now = vitals.counters.value(counter)?;
            let before = before
                .and_then(|before| before.counters.value(counter))
                .unwrap_or(0);
            Some(now.checked_sub(before).unwrap_or(now))
        };
        let known: Vec<u64> = LOSSES.iter().filter_map(|counter| since(*counter)).collect();
        if !known.is_empty() {
            let sum = known.into_iter().fold(0, u64::saturating_add);
            self.0.insert(vitals.netns, sum);
        }
    }

    /// The losses of all sockets of a namespace; `None` if its counters are not known.
    pub(crate) fn of(&self, netns: Option<NetnsInode>) -> Option<u64> {
        self.0.get(&netns).copied()
    }
}

/// Losses of segments at a socket.
const LOSSES: [Counter; 7] = [
    Counter::TcpRcvQDrop,
    Counter::TcpOfoDrop,
    Counter::OfoPruned,
    Counter::TcpZeroWindowDrop,
    Counter::TcpBacklogDrop,
    Counter::TcpMinTtlDrop,
    Counter::PfMemallocDrop,
];

/// `is_recent`: the change is that since an earlier sample, not that of the whole life. `tcp_losses`: what TCP lost in that
/// time in the socket's namespace; `None` if unknown.
pub(crate) fn dropped(
    socket: &Socket,
    change: &SocketCounters,
    is_recent: bool,
    tcp_losses: Option<u64>,
    limits: &Limits,
) -> Option<Symptom> {
    let is_tcp = socket.protocol == Protocol::Tcp;
    // TCP counts answered probes as drops, of keepalive or of a closed window. Segments without data may have
    // been such probes.
    let data = u64::from(change.received_data_segs);
    let without_data = change.received_segs.saturating_sub(change.received_data_segs);
    let drops = if is_tcp {
        let with_data = u64::from(change.drops).saturating_sub(without_data.into());
        with_data.min(tcp_losses.unwrap_or(0))
    } else {
        change.drops.into()
    };
    // Between two samples one drop is enough; but what TCP drops is sent again.
    let least = if is_recent && !is_tcp {
        1
    } else {
        limits.of(Limit::SocketDropsCount)
    };
    let enough = !is_tcp || permille(drops, data.max(drops)) >= limits.of(Limit::SocketDropsShare);
    (drops > 0 && drops >= least && enough).then(|| {
        Symptom::new(Rule::SocketDrops, drops)
            .fact("drops", drops)
            .fact("received_data_segs", Some(data).filter(|_| is_tcp))
            .fact("recvq_bytes", receive_queue(socket))
            .fact(
                "rcvbuf_bytes",
                socket.memory.and_then(|memory| memory.rcvbuf_bytes),
            )
    })
}

/// `drops`: those since the earlier sample, or since the socket was created.
pub(crate) fn udp_unread(socket: &Socket, drops: u32, limits: &Limits) -> Option<Symptom> {
    let memory = socket.memory?;
    let (used, max) = (
        u64::from(memory.rmem_alloc_bytes?),
        u64::from(memory.rcvbuf_bytes?),
    );
    let share = permille(used, max);
    let applies = used > 0 && share >= limits.of(Limit::UdpUnreadShare);
    applies.then(|| {
        Symptom::new(Rule::UdpUnread, share)
            .fact("share_permille", share)
            .fact("recvq_bytes", used)
            .fact("rcvbuf_bytes", max)
            .fact("drops", memory.drops.map(|_| drops))
    })
}

fn receive_queue(socket: &Socket) -> Option<u64> {
    match socket.queues {
        Queues::Data { receive_bytes, .. } => Some(receive_bytes.into()),
        Queues::Accept { .. } | Queues::Unknown => None,
    }
}
