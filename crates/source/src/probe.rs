//! What each rung of the ladder can do here, without listing anything.

use crate::answer::{Reason, Rung};
use crate::ladder;
use crate::question::{Choice, Detail, Families, Question};
use sockeye_model::{ProtocolSet, StateSet};

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
pub fn probe() -> Vec<Probe> {
    let question = Question {
        protocols: ProtocolSet::ALL,
        families: Families::BOTH,
        states: StateSet::EMPTY,
        detail: Detail::default(),
        program: &[],
        choice: Choice::Auto,
        netns: None,
    };
    let probes = ladder::LISTINGS.iter().flat_map(|listing| {
        ladder::rungs(listing, &question).map(|rung| Probe {
            what: listing.what,
            rung,
            finding: match ladder::try_rung(listing, rung, &question) {
                Ok(()) => Finding::Yes,
                Err(reason) => Finding::No(reason),
            },
        })
    });
    probes.collect()
}
