//! The names of states and of groups of states.

use sockeye_model::{State, StateSet};

/// All names with their sets, in the order of printing: single states first.
///
/// `connected` and `synchronized` are as `ss(8)` documents them, without bound sockets; `all` includes them, `big` does
/// not.
pub(crate) const NAMES: &[(&str, StateSet)] = &[
    ("established", one(State::Established)),
    ("syn-sent", one(State::SynSent)),
    ("syn-recv", SYN_RECV),
    ("fin-wait-1", one(State::FinWait1)),
    ("fin-wait-2", one(State::FinWait2)),
    ("time-wait", one(State::TimeWait)),
    ("unconnected", one(State::Close)),
    ("close-wait", one(State::CloseWait)),
    ("last-ack", one(State::LastAck)),
    ("listening", one(State::Listen)),
    ("closing", one(State::Closing)),
    ("bound-inactive", one(State::BoundInactive)),
    ("all", StateSet::ALL_AND_BOUND),
    ("connected", CONNECTED),
    ("synchronized", CONNECTED.without(State::SynSent)),
    ("bucket", BUCKET),
    ("big", BIG),
    ("close", one(State::Close)),
    ("closed", one(State::Close)),
    ("unconn", one(State::Close)),
    ("listen", one(State::Listen)),
    ("estab", one(State::Established)),
    ("syn-rcv", SYN_RECV),
    ("bound", one(State::BoundInactive)),
];

/// Number of single states in [`NAMES`].
pub(crate) const SINGLE: usize = 12;

/// Returns the set with this name, in any case, with `_` or `-`; `None` if unknown.
pub(crate) fn named(name: &str) -> Option<StateSet> {
    let name = name.replace('_', "-");
    NAMES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(&name))
        .map(|&(_, set)| set)
}

/// Returns names whose union is `set`.
pub(crate) fn names_of(set: StateSet) -> Vec<&'static str> {
    match NAMES.iter().find(|&&(_, known)| known == set) {
        Some(&(name, _)) => vec![name],
        None => NAMES[..SINGLE]
            .iter()
            .filter(|(_, state)| !state.and(set).is_empty())
            .map(|&(name, _)| name)
            .collect(),
    }
}

const fn one(state: State) -> StateSet {
    StateSet::EMPTY.with(state)
}

/// The kernel's distinction between the two is internal; `ss` does not make it either.
const SYN_RECV: StateSet = one(State::SynRecv).with(State::NewSynRecv);
const BUCKET: StateSet = SYN_RECV.with(State::TimeWait);
const BIG: StateSet = StateSet::ALL
    .without(State::SynRecv)
    .without(State::NewSynRecv)
    .without(State::TimeWait);
const CONNECTED: StateSet = StateSet::ALL
    .without(State::Listen)
    .without(State::Close)
    .without(State::BoundInactive);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sets_round_trip() {
        assert_eq!(named("ESTABLISHED"), Some(one(State::Established)));
        assert_eq!(named("time_wait"), Some(one(State::TimeWait)));
        assert_eq!(named("new-syn-recv"), None);
        assert_eq!(named(""), None);
        for &(name, set) in NAMES {
            let back = names_of(set);
            assert_eq!(back.len(), 1, "{name}");
            assert_eq!(named(back[0]), Some(set));
        }
        let two = one(State::TimeWait).with(State::CloseWait);
        assert_eq!(names_of(two), ["time-wait", "close-wait"]);
        assert!(names_of(StateSet::EMPTY).is_empty());
    }
}
