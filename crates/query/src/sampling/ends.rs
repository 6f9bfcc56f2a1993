//! Connections that ended, and those that were not established, one by one, as the kernel's events report them.

use super::watched::{Watched, watched};
use crate::listing::Listing;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sockeye_model::ConnectionEvent;
use sockeye_source::names::{ProcessContainer, process_container};
use sockeye_tracepoints::ConnectionCollector;
use sockeye_wire::connections::kind;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Watches the ends of connections.
#[derive(Debug)]
pub struct EndedConnections {
    collector: ConnectionCollector,
    /// Whether sockets carry no namespace, since only our own is listed.
    is_here: bool,
}

/// A connection that has ended, or was not established.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedConnection {
    /// The event, with the counters at the end.
    pub event: ConnectionEvent,
    /// When, in microseconds since 1970.
    pub time_us: u64,
    /// The container of its process; `None` if it is in none, or has ended, too.
    pub container: Option<ProcessContainer>,
}

/// Connections that ended since the last time.
#[derive(Debug, Default)]
pub struct EndedSince {
    /// They, in the order of their ends.
    pub connections: Vec<EndedConnection>,
    /// How many more there were than were asked for.
    pub left_out: u64,
    /// Events that were lost.
    pub lost: u64,
}

impl EndedConnections {
    /// Begins to watch.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn begin(listing: &Listing<'_>) -> Result<Self, String> {
        let Watched { options, is_here } = watched(listing, vec![kind::CLOSED, kind::FAILED], true)?;
        let engine = &listing.context.engine;
        let collector = ConnectionCollector::begin(engine, &options).map_err(|error| error.to_string())?;
        Ok(Self { collector, is_here })
    }

    /// Returns what has ended since the last call in the namespaces of a listing, at most `max` of it.
    ///
    /// # Errors
    /// The errno of `bpf(2)` with which counts are read.
    pub fn take(&mut self, listing: &Listing<'_>, max: usize) -> Result<EndedSince, Errno> {
        let collected = self.collector.take()?;
        let mut found = EndedSince {
            lost: collected.lost,
            ..EndedSince::default()
        };
        let mut containers = HashMap::new();
        let zero_ns = monotonic_zero_ns();
        for event in collected.records().filter_map(ConnectionEvent::from_wire) {
            if !self.is_here && !listing.selects(&event.socket) {
                continue;
            }
            if found.connections.len() == max {
                found.left_out += 1;
                continue;
            }
            let pid = event.owner.map(|owner| owner.process.pid);
            let container =
                pid.and_then(|pid| *containers.entry(pid).or_insert_with(|| process_container(pid)));
            found.connections.push(EndedConnection {
                time_us: u64::try_from((i128::from(event.time_ns) + zero_ns) / 1_000).unwrap_or(0),
                container,
                event,
            });
        }
        Ok(found)
    }
}

/// Returns the time of day at the zero of the monotonic clock, in nanoseconds since 1970.
fn monotonic_zero_ns() -> i128 {
    let monotonic = clock_gettime(ClockId::Monotonic);
    let monotonic_ns = i128::from(monotonic.tv_sec) * 1_000_000_000 + i128::from(monotonic.tv_nsec);
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_nanos() as i128 - monotonic_ns
}
