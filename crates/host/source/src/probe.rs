//! What each rung of the ladder can do here, without listing anything.

use crate::answer::{Reason, Rung};
use crate::bpf::{Engine, Obstacle, Of};
use crate::ladder;
use crate::question::{Choice, Detail, Ends, Families, Question, Where};
use rustix::io::Errno;
use sockeye_model::{ProtocolSet, StateSet};
use std::os::fd::AsFd;

/// Whether one rung can list the sockets of one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Which sockets: `tcp`, `udp`, `unix`...; `all netns`: those of all namespaces at once
    pub what: &'static str,
    /// By which rung.
    pub rung: Rung,
    /// What was found.
    pub finding: Finding,
}

/// Whether it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It works.
    Yes,
    /// It does not, for this reason.
    No(Reason),
}

/// Tries every rung for every protocol. Netlink is asked for no state at all, and files are only opened,
/// so that it costs next to nothing however many sockets there are.
#[must_use]
pub fn probe(engine: &Engine) -> Vec<Probe> {
    let question = Question {
        protocols: ProtocolSet::ALL,
        families: Families::BOTH,
        states: StateSet::EMPTY,
        detail: Detail::default(),
        program: &[],
        ends: Ends::ANYWHERE,
        choice: Choice::Auto,
        place: Where::Here,
    };
    let probes = ladder::LISTINGS.iter().flat_map(|listing| {
        ladder::rungs(listing, &question).map(|rung| Probe {
            what: listing.what,
            rung,
            finding: {
                // Whether it works, not whether it would be worth it now.
                let choice = if rung == Rung::Walk {
                    Choice::Bpf
                } else {
                    Choice::Auto
                };
                let question = Question {
                    choice,
                    ..question.clone()
                };
                ladder::try_rung(engine, listing, rung, &question).into()
            },
        })
    });
    let mut probes: Vec<_> = probes.collect();
    // Every namespace: those rungs that tell of all at once, then those that go from one to the next.
    let bpf =
        |outcome: Result<(), Obstacle>| outcome.map_err(|obstacle| Reason::Bpf(Box::new(obstacle))).into();
    for (rung, finding) in [
        (Rung::Walk, bpf(engine.tables(Of::Tcp).map(drop))),
        (Rung::Held, bpf(engine.try_held())),
        (Rung::DiagV2, may_enter().into()),
        (Rung::Procfs, Finding::Yes),
    ] {
        probes.push(Probe {
            what: "all netns",
            rung,
            finding,
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

impl From<Result<(), Reason>> for Finding {
    fn from(outcome: Result<(), Reason>) -> Self {
        match outcome {
            Ok(()) => Self::Yes,
            Err(reason) => Self::No(reason),
        }
    }
}
