//! What each source of the ladder can do here, without listing anything.

use crate::bpf::{BpfEngine, TableKind, Unavailable};
use crate::ladder;
use crate::outcome::{Reason, SourceKind};
use crate::query::{Choice, Detail, Ends, Families, NetnsScope, Query};
use rustix::io::Errno;
use sockeye_model::{ProtocolSet, StateSet};
use std::os::fd::AsFd;

/// Whether one source can list the sockets of one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Which sockets: `tcp`, `udp`, `unix`...; `all netns`: those of all namespaces at once
    pub what: &'static str,
    /// By which source.
    pub source: SourceKind,
    /// What was found.
    pub result: ProbeResult,
}

/// Whether it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// It works.
    Works,
    /// It does not, for this reason.
    Fails(Reason),
}

/// Tries every source for every protocol. Netlink is asked for no state at all, and files are only opened,
/// so that it costs next to nothing however many sockets there are.
#[must_use]
pub fn probe(engine: &BpfEngine) -> Vec<Probe> {
    let query = Query {
        protocols: ProtocolSet::ALL,
        families: Families::BOTH,
        states: StateSet::EMPTY,
        detail: Detail::default(),
        program: &[],
        ends: Ends::ANYWHERE,
        choice: Choice::Auto,
        scope: NetnsScope::Own,
    };
    let probes = ladder::LISTINGS.iter().flat_map(|listing| {
        ladder::sources(listing, &query).map(|source| Probe {
            what: listing.what,
            source,
            result: {
                // Whether it works, not whether it would be worth it now.
                let choice = if source == SourceKind::Walk {
                    Choice::Bpf
                } else {
                    Choice::Auto
                };
                let query = Query {
                    choice,
                    ..query.clone()
                };
                ladder::try_rung(engine, listing, source, &query).into()
            },
        })
    });
    let mut probes: Vec<_> = probes.collect();
    // Every namespace: those sources that tell of all at once, then those that go from one to the next.
    let bpf = |outcome: Result<(), Unavailable>| {
        outcome
            .map_err(|unavailable| Reason::Bpf(Box::new(unavailable)))
            .into()
    };
    for (source, result) in [
        (SourceKind::Walk, bpf(engine.tables(TableKind::Tcp).map(drop))),
        (SourceKind::Descriptors, bpf(engine.try_owned_sockets())),
        (SourceKind::DiagV2, may_enter().into()),
        (SourceKind::Procfs, ProbeResult::Works),
    ] {
        probes.push(Probe {
            what: "all netns",
            source,
            result,
        });
    }
    probes
}

/// Whether we may enter network namespaces, by entering the one we are in.
fn may_enter() -> Result<(), Reason> {
    let path = "/proc/thread-self/ns/net";
    let file = std::fs::File::open(path)
        .map_err(|error| Reason::File("open", path, Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    sockeye_sys::netns::within(file.as_fd(), || ())
        .map_err(|errno| Reason::System("enter a namespace", errno))
}

impl From<Result<(), Reason>> for ProbeResult {
    fn from(outcome: Result<(), Reason>) -> Self {
        match outcome {
            Ok(()) => Self::Works,
            Err(reason) => Self::Fails(reason),
        }
    }
}
