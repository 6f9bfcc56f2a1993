//! Connections that open or close between two samples, as the kernel's events report them.

use super::watched::{Watched, watched};
use crate::listing::Listing;
use rustix::io::Errno;
use sockeye_flow::{Ended, EndedIn, Fold};
use sockeye_model::{
    ConnectionEnd, ConnectionEvent, ConnectionEventKind, Direction, Entry, Fd, Owner, OwnerKnownBy, Pid,
    Process, State,
};
use sockeye_source::owners::Owners;
use sockeye_tracepoints::ConnectionCollector;
use sockeye_wire::connections::kind;
use std::cell::OnceCell;
use std::collections::HashMap;

/// The ends of connections since the last sample.
#[derive(Debug)]
pub struct Between {
    collector: ConnectionCollector,
    /// Ends after the last sample was read, which has these connections.
    later: Vec<ConnectionEvent>,
    /// Whether sockets carry no namespace, since only our own is listed.
    is_here: bool,
}

/// What ended between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedCounts {
    /// Connections that neither sample has.
    pub short: u64,
    /// Of these the ones of which it is unknown whether the filter means them.
    pub undecided: u64,
    /// Events that were lost.
    pub lost: u64,
}

impl Between {
    /// Begins to watch. `needs_owners`: also who owned what ended.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn begin(listing: &Listing<'_>, needs_owners: bool) -> Result<Self, String> {
        Self::of(listing, vec![kind::CLOSED], needs_owners)
    }

    /// As [`Self::begin`] with owners, and watches connects that fail.
    ///
    /// # Errors
    /// As there.
    pub fn begin_with_failures(listing: &Listing<'_>) -> Result<Self, String> {
        Self::of(listing, vec![kind::CLOSED, kind::FAILED], true)
    }

    fn of(listing: &Listing<'_>, kinds: Vec<u32>, needs_owners: bool) -> Result<Self, String> {
        let Watched { options, is_here } = watched(listing, kinds, needs_owners)?;
        let context = listing.context;
        let collector =
            ConnectionCollector::begin(&context.engine, &options).map_err(|error| error.to_string())?;
        Ok(Self {
            collector,
            later: Vec::new(),
            is_here,
        })
    }

    /// Adds what has ended to a fold that has all connections of its sample.
    pub(super) fn add_to(
        &mut self,
        fold: &mut Fold<'_>,
        listing: &Listing<'_>,
        owners: Option<&Owners>,
    ) -> anyhow::Result<EndedCounts> {
        self.take(
            listing,
            owners,
            &mut |entry, ended| fold.add_ended(entry, ended),
            &mut |_, _| {},
        )
    }

    /// Calls `visit` with each connection that has ended, and its counters at the end. It returns which samples have it: one that is
    /// still in the present sample is visited again with the next. Calls `failed` with each connect that failed, and its errno if that is
    /// known.
    ///
    /// # Errors
    /// If the counts of events cannot be read.
    pub fn take(
        &mut self,
        listing: &Listing<'_>,
        owners: Option<&Owners>,
        visit: &mut dyn FnMut(&Entry<'_>, Ended) -> EndedIn,
        failed: &mut dyn FnMut(&Entry<'_>, Option<Errno>),
    ) -> anyhow::Result<EndedCounts> {
        let collected = self.collector.take()?;
        // Often nothing has ended.
        let by_pid = OnceCell::new();
        let processes = || by_pid.get_or_init(|| owners.map(processes).unwrap_or_default());
        let mut counts = EndedCounts {
            short: 0,
            undecided: 0,
            lost: collected.lost,
        };
        let mut later = Vec::new();
        let events = std::mem::take(&mut self.later).into_iter();
        let read = collected.records().filter_map(ConnectionEvent::from_wire);
        for mut event in events.chain(read) {
            if self.is_here {
                event.socket.netns = None;
            }
            if !listing.selects(&event.socket) {
                continue;
            }
            let has_failed = event.kind == ConnectionEventKind::Fail;
            if has_failed && event.direction != Some(Direction::Active) {
                continue;
            }
            let syn_bytes = if has_failed { 0 } else { prepare(&mut event) };
            let owner = owner(&event).map(|process| Owner {
                process: processes().get(&process.pid).copied().unwrap_or(process),
                fd: Fd(0),
            });
            let of_socket = owners.is_some().then_some(owner.as_slice());
            if has_failed {
                let errno = event.errno.map(Errno::from_raw_os_error);
                listing.visit_ended(&event.socket, of_socket, owners, |entry, _| failed(entry, errno));
                continue;
            }
            let (mut ended_in, mut is_undecided) = (EndedIn::Unknown, false);
            listing.visit_ended(&event.socket, of_socket, owners, |entry, matches| {
                is_undecided = matches.is_none();
                let ended = Ended {
                    matches: matches == Some(true),
                    opened: event.duration_us.is_some(),
                    direction: event.direction,
                    syn_bytes,
                };
                ended_in = visit(entry, ended);
            });
            match ended_in {
                EndedIn::Neither => {
                    counts.short += 1;
                    counts.undecided += u64::from(is_undecided);
                }
                EndedIn::Later => later.push(event),
                EndedIn::Before | EndedIn::Unknown => {}
            }
        }
        self.later = later;
        Ok(counts)
    }
}

/// Makes the socket of an event what a sample would have: established, and without the FINs, which the kernel counts as bytes. Returns
/// how many of its acknowledged bytes are those of a SYN. Does nothing more when it is called again.
fn prepare(event: &mut ConnectionEvent) -> u64 {
    let syn_bytes = u64::from(event.direction == Some(Direction::Active));
    if event.socket.state == State::Established {
        return syn_bytes;
    }
    event.socket.state = State::Established;
    let is_fin_acked = match event.old_state {
        State::FinWait2 | State::Closing | State::TimeWait => true,
        State::LastAck => event.end == Some(ConnectionEnd::Fin),
        _ => false,
    };
    if let Some(info) = &mut event.socket.tcp_info {
        info.bytes_acked = info
            .bytes_acked
            .map(|bytes| bytes.saturating_sub(u64::from(is_fin_acked)));
        info.bytes_received = event.received_bytes;
    }
    syn_bytes
}

/// Returns the process that a connection belonged to: that which closed it, if otherwise only that of the listener is known.
fn owner(event: &ConnectionEvent) -> Option<Process> {
    let owner = event
        .owner
        .filter(|owner| owner.known_by != OwnerKnownBy::Listener || event.closer.is_none());
    owner.map(|owner| owner.process).or(event.closer)
}

/// Returns the processes that have sockets, as a sample names them: with their group.
fn processes(owners: &Owners) -> HashMap<Pid, Process> {
    let all = owners.iter().flat_map(|(_, owners)| owners);
    all.map(|owner| (owner.process.pid, owner.process)).collect()
}
