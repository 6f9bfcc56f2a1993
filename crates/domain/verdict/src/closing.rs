//! Rules about half-closed connections: one end has closed and the other does not. A leak does not drain, while a
//! handler that works after its client has closed its end finishes some time.

use crate::finding::{Example, Facts, Subject};
use crate::suspects::{HALF_CLOSED_SETTLED_MS, Outstanding, Sighting, SocketKey, Suspicion, closing_ages};
use crate::{Finding, Limit, Limits, Rule, Severity, remedy};
use foldhash::fast::FixedState;
use sockeye_model::{NetnsInode, Process, Protocol, State};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The half-closed connections of all owners.
#[derive(Debug, Default)]
pub(crate) struct HalfClosed<'a> {
    groups: HashMap<(Rule, Option<NetnsInode>, Option<Process>), Group<'a>, FixedState>,
}

/// Half-closed connections of one owner.
#[derive(Debug, Default)]
struct Group<'a> {
    /// Those that did not change between two looks; without a second look all.
    lasting: Vec<Lasting<'a>>,
    /// Those that were gone or had moved at the second look.
    drained: u64,
}

/// A half-closed connection that stays.
#[derive(Debug, Clone, Copy)]
struct Lasting<'a> {
    key: &'a SocketKey,
    sighting: &'a Sighting,
    outstanding: Outstanding,
    /// Its age at the later look
    age_ms: u64,
}

impl Lasting<'_> {
    /// Whether many like it that do not drain are a leak.
    fn is_suspect(&self, limits: &Limits) -> bool {
        let [_, _, many_with_answer] = closing_ages(self.sighting.state, limits);
        let least = match self.outstanding {
            Outstanding::Nothing => HALF_CLOSED_SETTLED_MS,
            Outstanding::Answer | Outstanding::Read => many_with_answer.min(UNANSWERED_MS),
        };
        self.age_ms >= least
    }

    /// Whether a handler may well be working for it.
    fn may_be_worked_on(&self, limits: &Limits) -> bool {
        let [_, _, many_with_answer] = closing_ages(self.sighting.state, limits);
        self.outstanding == Outstanding::Answer && self.age_ms < many_with_answer
    }
}

impl<'a> HalfClosed<'a> {
    /// Adds a suspicious socket. `is_unchanged`: `None` without a second look. `later_ms`: time from this look to the
    /// later one.
    pub(crate) fn add(
        &mut self,
        key: &'a SocketKey,
        sighting: &'a Sighting,
        is_unchanged: Option<bool>,
        later_ms: u64,
        limits: &Limits,
    ) {
        let Suspicion::HalfClosed(outstanding) = sighting.suspicion else {
            return;
        };
        // The rule `unread` reports what is not read.
        if outstanding == Outstanding::Read {
            return;
        }
        let rule = match sighting.state {
            State::CloseWait => Rule::CloseWait,
            _ => Rule::FinWait2,
        };
        let group = self.groups.entry((rule, key.netns, sighting.owner)).or_default();
        let one = Lasting {
            key,
            sighting,
            outstanding,
            age_ms: sighting.age_ms.saturating_add(later_ms),
        };
        if is_unchanged != Some(false) {
            group.lasting.push(one);
        } else if one.is_suspect(limits) {
            group.drained += 1;
        }
    }

    /// Returns a finding for each owner that leaks connections. `looked_twice`: whether there was a second look.
    pub(crate) fn findings(&self, limits: &Limits, looked_twice: bool) -> Vec<Finding> {
        let groups = self.groups.iter();
        groups
            .filter_map(|(&(rule, netns, owner), group)| {
                group.finding(rule, netns, owner, limits, looked_twice)
            })
            .collect()
    }
}

impl Group<'_> {
    fn finding(
        &self,
        rule: Rule,
        netns: Option<NetnsInode>,
        owner: Option<Process>,
        limits: &Limits,
        looked_twice: bool,
    ) -> Option<Finding> {
        let (state, count) = match rule {
            Rule::CloseWait => (State::CloseWait, limits.of(Limit::CloseWaitCount)),
            _ => (State::FinWait2, limits.of(Limit::FinWait2Count)),
        };
        let [idle, with_something, _] = closing_ages(state, limits);
        let is_old = |one: &Lasting<'_>| {
            let least = match one.outstanding {
                Outstanding::Nothing | Outstanding::Read => idle,
                Outstanding::Answer => with_something,
            };
            one.age_ms >= least
        };
        let suspects = self.lasting.iter().filter(|one| one.is_suspect(limits)).count() as u64;
        // Handlers that may still work for their answer: if any of them has finished, the others may, too.
        let may_all_work = self.lasting.iter().all(|one| one.may_be_worked_on(limits));
        let does_not_drain = looked_twice
            && suspects >= count
            && self.drained.saturating_mul(DRAIN_FACTOR) <= suspects
            && (self.drained == 0 || !may_all_work);
        let accused = self.lasting.iter();
        let mut accused: Vec<&Lasting<'_>> = accused
            .filter(|one| is_old(one) || (does_not_drain && one.is_suspect(limits)))
            .collect();
        if accused.is_empty() {
            return None;
        }
        accused.sort_by_key(|one| (Reverse(one.age_ms), one.key.local.port(), one.key.peer.port()));
        let unanswered = accused
            .iter()
            .filter(|one| one.outstanding == Outstanding::Answer)
            .count() as u64;
        let examples = accused.iter().take(EXAMPLES_MAX);
        let mut finding = Finding {
            owner,
            facts: Facts::NONE
                .with("drained", looked_twice.then_some(self.drained))
                .with("unanswered", Some(unanswered).filter(|count| *count > 0)),
            sockets: accused.len() as u64,
            examples: examples.map(|one| example(one)).collect(),
            ..Finding::about(rule, netns, Subject::Sockets)
        };
        // No handler of this owner has finished, but each may still be working.
        if accused.iter().all(|one| one.may_be_worked_on(limits)) {
            finding.severity = Severity::Notice;
            finding.meaning = match rule {
                Rule::CloseWait => UNANSWERED,
                _ => NOT_ANSWERED,
            };
        }
        finding.remedies = remedy::remedies(&finding);
        Some(finding)
    }
}

fn example(one: &Lasting<'_>) -> Example {
    let Lasting {
        key,
        sighting,
        age_ms,
        ..
    } = *one;
    // The FIN of the peer counts as a byte.
    let fin = u64::from(sighting.state == State::CloseWait);
    let unread = sighting.recvq_bytes.map(|bytes| bytes.saturating_sub(fin));
    Example {
        protocol: Protocol::Tcp,
        state: sighting.state,
        local: key.local,
        peer: key.peer,
        inode: sighting.inode,
        uid: sighting.uid,
        facts: Facts::NONE
            .with("age_ms", age_ms)
            .with("recvq_bytes", unread.filter(|bytes| *bytes > 0)),
    }
}

const UNANSWERED: &str = "Peers have closed their end, their requests are not answered, and none of the connections drains: handlers work for long, or the program does not close them.";
const NOT_ANSWERED: &str = "The program has shut down its end, the peers neither answer nor close, and none of the connections drains: they work for long, or the peer does not close them.";
/// Requests that are unanswered for so long are worth a notice, if they are many and none of them drains.
const UNANSWERED_MS: u64 = 8_000;
/// So many times more must stay than drain.
const DRAIN_FACTOR: u64 = 10;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;
