//! Samples of all sockets with their owners, and of the connections that ended between two samples.

use sockeye_flow::EndedIn;
use sockeye_history::{Identity, Recorded, Values};
use sockeye_model::{Entry, Names as _, NetnsInode, Protocol, ProtocolSet, State, StateSet, WorkloadId};
use sockeye_query::listing::{Listing, ListingReport, QueryOptions, Scope};
use sockeye_query::sampling::Between;
use sockeye_source::Detail;
use sockeye_source::owners::Owners;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Takes one sample after the other.
pub(super) struct Sampler<'a> {
    listing: &'a Listing<'a>,
    between: Option<Between>,
    names: SharedNames,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(listing: &'a Listing<'a>) -> Self {
        Self {
            listing,
            between: None,
            names: SharedNames::default(),
        }
    }

    /// Begins to watch what ends between samples.
    ///
    /// # Errors
    /// Why it is not seen.
    pub(super) fn watch_between(&mut self) -> Result<(), String> {
        self.between = Some(Between::begin(self.listing, true)?);
        Ok(())
    }

    /// Passes the sockets of a sample to `add`, one by one. Returns how many events were lost since the last one.
    ///
    /// # Errors
    /// If they cannot be listed, or the events not be read.
    pub(super) fn sample(
        &mut self,
        at_ms: u64,
        report: &mut ListingReport,
        add: &mut dyn FnMut(Recorded),
    ) -> anyhow::Result<u64> {
        let listing = self.listing;
        let owners = listing.owners(report)?;
        let mut there = Vec::new();
        for (protocols, more) in [
            (
                ProtocolSet::of(&[Protocol::Tcp, Protocol::Mptcp]),
                Detail::TCP_INFO,
            ),
            // The drops of a datagram socket are in its memory.
            (
                ProtocolSet::of(&[Protocol::Udp, Protocol::UdpLite, Protocol::Raw]),
                Detail::MEMORY,
            ),
        ] {
            let options = QueryOptions {
                protocols,
                families: listing.families(),
                states: StateSet::ALL,
                detail: Detail::QUEUES
                    | Detail::INODE
                    | Detail::USER
                    | Detail::OPTIONS
                    | Detail::COOKIE
                    | more,
                scope: Scope::All,
            };
            listing.run(&options, owners.as_ref(), report, &mut |entry, _| {
                let socket = self.names.recorded(listing, entry, at_ms);
                // One in TIME_WAIT has the cookie of a connection that has ended.
                if self.between.is_some() && !socket.values.is_left_over() {
                    there.extend(id(&socket.identity));
                }
                add(socket);
                ControlFlow::Continue(())
            })?;
        }
        there.sort_unstable();
        self.add_ended(&there, at_ms, owners.as_ref(), add)
    }

    /// Adds the connections that ended since the last sample, closed and with their counters at the end. `there`: those that the
    /// sample has, sorted.
    fn add_ended(
        &mut self,
        there: &[ConnectionId],
        at_ms: u64,
        owners: Option<&Owners>,
        add: &mut dyn FnMut(Recorded),
    ) -> anyhow::Result<u64> {
        let (listing, Some(between)) = (self.listing, &mut self.between) else {
            return Ok(0);
        };
        let counts = between.take(listing, owners, &mut |entry, _| {
            let mut ended = self.names.recorded(listing, entry, at_ms);
            if id(&ended.identity).is_some_and(|id| there.binary_search(&id).is_ok()) {
                return EndedIn::Later;
            }
            let mut socket = entry.socket.clone();
            socket.state = State::Close;
            ended.values = Values::of(&socket, at_ms);
            add(ended);
            EndedIn::Neither
        })?;
        Ok(counts.lost)
    }
}

/// Names of workloads. Many sockets share one, and one copy.
#[derive(Debug, Default)]
struct SharedNames(HashMap<WorkloadId, Arc<str>>);

impl SharedNames {
    fn recorded(&mut self, listing: &Listing<'_>, entry: &Entry<'_>, at_ms: u64) -> Recorded {
        if self.0.len() > NAMES_MAX {
            self.0.clear();
        }
        let mut name = |id| {
            if let Some(known) = self.0.get(&id) {
                return Some(Arc::clone(known));
            }
            let name: Arc<str> = listing.context.workload(id)?.into();
            self.0.insert(id, Arc::clone(&name));
            Some(name)
        };
        Recorded {
            identity: Identity::of(entry, &mut name),
            values: Values::of(entry.socket, at_ms),
        }
    }
}

/// Identifies a connection.
type ConnectionId = (u64, Option<NetnsInode>);

fn id(identity: &Identity) -> Option<ConnectionId> {
    Some((identity.cookie?.0, identity.netns))
}

/// Names that are kept.
const NAMES_MAX: usize = 65_536;
