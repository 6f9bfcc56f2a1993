//! What each rung of the ladder can do here, without listing anything.

use crate::ladder;
use crate::question::{Choice, Detail, Families, ProtocolSet, Question, Rung};
use sockeye_model::StateSet;
use std::ops::ControlFlow;

/// Whether one rung can list the sockets of one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Which sockets: `tcp`, `udp`, `unix`...
    pub what: &'static str,
    /// By which rung.
    pub rung: Rung,
    /// What was found.
    pub finding: Finding,
}

/// An answer that may also be "nobody knows".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It works.
    Yes,
    /// It does not, for this reason.
    No(String),
    /// Something forbids to find out.
    CouldNotTell(String),
}

/// Tries every rung for every protocol, asking for no state at all, which costs the kernel next to
/// nothing.
#[must_use]
pub fn probe() -> Vec<Probe> {
    ladder::LISTINGS
        .iter()
        .flat_map(|listing| {
            ladder::rungs(listing, &question(Choice::Auto)).map(|rung| {
                let finding = match ladder::try_rung(listing, rung, &question(Choice::Auto), &mut |_| {
                    ControlFlow::Continue(())
                }) {
                    Ok(()) => Finding::Yes,
                    Err(reason) if reason.contains("not permitted") || reason.contains("denied") => {
                        Finding::CouldNotTell(reason)
                    }
                    Err(reason) => Finding::No(reason),
                };
                Probe {
                    what: listing.what,
                    rung,
                    finding,
                }
            })
        })
        .collect()
}

const fn question(choice: Choice) -> Question<'static> {
    Question {
        protocols: ProtocolSet::ALL,
        families: Families::BOTH,
        states: StateSet::EMPTY,
        detail: Detail {
            tcp_info: false,
            memory: false,
            congestion: false,
            service_class: false,
        },
        program: &[],
        choice,
        netns: None,
    }
}
