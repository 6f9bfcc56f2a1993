//! Tests which sources work here, without listing anything.

use crate::bpf::{BpfEngine, Start, TableKind};
use crate::ladder;
use crate::outcome::{Reason, SourceKind};
use crate::protocol_group::GROUPS;
use crate::query::{Choice, Ends, Families, NetnsScope, Query};
use crate::unavailable::Unavailable;
use rustix::io::Errno;
use sockeye_model::{Detail, ProtocolSet, StateSet};
use std::os::fd::AsFd;

/// The test of one source for one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The protocol: `tcp`, `udp`, `unix`...; or `all netns`: all namespaces at once
    pub what: &'static str,
    /// The tested source.
    pub source: SourceKind,
    /// The result.
    pub result: ProbeResult,
}

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// The source works.
    Works,
    /// The source does not work, for this reason.
    Fails(Reason),
}

/// Tests every source for every protocol. Netlink requests select no state and files are only opened, so the cost does
/// not depend on the number of sockets.
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
        quiet: None,
        announce: None,
    };
    let probes = GROUPS.iter().flat_map(|group| {
        ladder::sources(group, &query).map(|source| Probe {
            what: group.name,
            source,
            result: {
                // The test is whether it works, not whether it pays off now.
                let choice = if source == SourceKind::Walk {
                    Choice::Bpf
                } else {
                    Choice::Auto
                };
                let query = Query {
                    choice,
                    ..query.clone()
                };
                ladder::try_source(engine, group, source, &query).into()
            },
        })
    });
    let mut probes: Vec<_> = probes.collect();
    // All namespaces: first the sources that list them at once, then those that list one after the other.
    let bpf = |outcome: Result<(), Unavailable>| {
        outcome
            .map_err(|unavailable| Reason::Bpf(Box::new(unavailable)))
            .into()
    };
    for (source, result) in [
        (
            SourceKind::Walk,
            bpf(engine.tables(TableKind::Tcp, Start::Any).map(drop)),
        ),
        (SourceKind::Descriptors, bpf(engine.try_owned_sockets())),
        (SourceKind::DiagV2, may_enter().into()),
        (SourceKind::Procfs, shows_processes().into()),
    ] {
        probes.push(Probe {
            what: "all netns",
            source,
            result,
        });
    }
    probes
}

/// Tests whether `/proc` shows processes, in whose folders the tables of their namespaces are.
fn shows_processes() -> Result<(), Reason> {
    match sockeye_sys::proc_mount::problem() {
        None => Ok(()),
        Some(_) => Err(Reason::File("read", "/proc/self", Errno::NOENT)),
    }
}

/// Tests the right to enter network namespaces by entering our own.
fn may_enter() -> Result<(), Reason> {
    let file = sockeye_sys::netns::open_own()
        .map_err(|errno| Reason::File("open", "/proc/thread-self/ns/net", errno))?;
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
