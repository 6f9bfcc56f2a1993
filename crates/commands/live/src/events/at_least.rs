//! Which numbers of a summary are known: of kinds that were watched; and which may be too low: events were lost, left out, or cannot be seen.

use sockeye_model::{ConnectionEvent, ConnectionEventKind, Protocol};
use sockeye_tracepoints::Accounting;
use sockeye_wire::connections::kind;
use std::fmt::Display;

/// The kinds of events of which there may have been more than were counted, and those that were not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AtLeast {
    /// In the order of [`ConnectionEventKind::ALL`].
    kinds: [bool; ConnectionEventKind::ALL.len()],
    /// In the same order.
    unwatched: [bool; ConnectionEventKind::ALL.len()],
}

impl AtLeast {
    /// Returns it of what became of the records. `is_polled`: without BPF only closes are reported, and the rest is found by polls.
    pub(crate) fn of(counts: &Accounting, is_polled: bool) -> Self {
        // Of these it is not known what they were.
        let is_any = counts.missed > 0 || counts.unknown > 0;
        let is_incomplete = |of_event: ConnectionEventKind| {
            let records = RECORDS.iter().filter(|(_, _, event)| *event == of_event);
            let mut kinds = records.map(|(kind, _, _)| counts.kinds[*kind as usize]);
            kinds.any(|kind| kind.lost + kind.left_out + kind.unseen > 0)
        };
        let is_low = |event: ConnectionEventKind| match event {
            // It is a listing.
            ConnectionEventKind::Present => false,
            ConnectionEventKind::Close => is_any || is_incomplete(event),
            // Which of the two it was the counter does not say.
            ConnectionEventKind::Fail if counts.kinds[kind::OPENED as usize].unseen > 0 => true,
            _ => is_any || is_polled || is_incomplete(event),
        };
        Self {
            kinds: ConnectionEventKind::ALL.map(is_low),
            ..Self::default()
        }
    }

    /// Notes which kinds were watched; otherwise all were.
    pub(crate) fn watching(mut self, is_watched: impl Fn(ConnectionEventKind) -> bool) -> Self {
        self.unwatched = ConnectionEventKind::ALL.map(|kind| !is_watched(kind));
        self
    }

    /// Whether events of a kind were counted.
    pub(crate) fn watched(&self, kind: ConnectionEventKind) -> bool {
        let mut kinds = ConnectionEventKind::ALL.iter().zip(self.unwatched);
        kinds.any(|(one, is_unwatched)| *one == kind && !is_unwatched)
    }

    /// Returns a number of events of a kind, or what is summed up of them; `None` if they were not watched.
    pub(crate) fn number(&self, kind: ConnectionEventKind, number: u64) -> Option<u64> {
        self.watched(kind).then_some(number)
    }

    /// Returns the text of a number of events of a kind, or of what is summed up of them.
    pub(crate) fn text(&self, kind: ConnectionEventKind, number: impl Display) -> String {
        if self.watched(kind) {
            format!("{}{number}", self.sign(kind))
        } else {
            "-".to_owned()
        }
    }

    /// Whether the number of events of a kind may be too low, and so what is summed up of them.
    pub(crate) fn is(&self, kind: ConnectionEventKind) -> bool {
        let mut kinds = ConnectionEventKind::ALL.iter().zip(self.kinds);
        kinds.any(|(one, is_low)| *one == kind && is_low) && self.watched(kind)
    }

    /// Whether any number may be too low.
    pub(crate) fn any(&self) -> bool {
        ConnectionEventKind::ALL.into_iter().any(|kind| self.is(kind))
    }

    /// Returns `>=` for a number of events of a kind that may be too low.
    pub(crate) fn sign(&self, kind: ConnectionEventKind) -> &'static str {
        if self.is(kind) { ">=" } else { "" }
    }

    /// Returns the names of the numbers of groups that may be too low.
    pub(crate) fn group_names(&self) -> impl Iterator<Item = &'static str> {
        let names = [
            ("opened", ConnectionEventKind::Open),
            ("failed", ConnectionEventKind::Fail),
            ("closed", ConnectionEventKind::Close),
            ("sent_bytes", ConnectionEventKind::Close),
            ("received_bytes", ConnectionEventKind::Close),
            ("retransmitted", ConnectionEventKind::Retransmit),
        ];
        names
            .into_iter()
            .filter(|(_, kind)| self.is(*kind))
            .map(|(name, _)| name)
    }
}

/// Counts events that were read, but not shown, as lost.
pub(crate) fn lose(counts: &mut Accounting, events: &[ConnectionEvent]) {
    for event in events {
        let is_of_udp = |kind: u32| matches!(kind, kind::UDP_USED | kind::UDP_CLOSED | kind::UDP_FAILED);
        let is_udp = event.socket.protocol == Protocol::Udp;
        let is_its = |(kind, _, of): &&(u32, &str, ConnectionEventKind)| {
            *of == event.kind && is_of_udp(*kind) == is_udp
        };
        let Some((kind, _, _)) = RECORDS.iter().find(is_its) else {
            continue;
        };
        let kind = &mut counts.kinds[*kind as usize];
        if kind.read > 0 {
            kind.read -= 1;
            kind.lost += 1;
        }
    }
}

/// Kinds of records, what their loss is called, and the events that are lost with them.
pub(crate) const RECORDS: [(u32, &str, ConnectionEventKind); 19] = [
    (kind::OPENED, "opens", ConnectionEventKind::Open),
    (kind::FAILED, "failed opens", ConnectionEventKind::Fail),
    (kind::CLOSED, "closes", ConnectionEventKind::Close),
    (kind::STATE, "states", ConnectionEventKind::State),
    (kind::LISTENS, "listens", ConnectionEventKind::Listen),
    (kind::UNLISTENS, "unlistens", ConnectionEventKind::Unlisten),
    (kind::RESET_SENT, "resets sent", ConnectionEventKind::ResetSent),
    (
        kind::RESET_RECEIVED,
        "resets received",
        ConnectionEventKind::ResetReceived,
    ),
    (
        kind::RETRANSMITTED,
        "retransmissions",
        ConnectionEventKind::Retransmit,
    ),
    (kind::UDP_USED, "first uses", ConnectionEventKind::Open),
    (kind::UDP_CLOSED, "closes of UDP", ConnectionEventKind::Close),
    (kind::UDP_FAILED, "errors", ConnectionEventKind::Error),
    (
        kind::ACCEPT_OVERFLOWS,
        "accept overflows",
        ConnectionEventKind::AcceptOverflow,
    ),
    (
        kind::SYN_OVERFLOWS,
        "syn overflows",
        ConnectionEventKind::SynOverflow,
    ),
    (
        kind::WINDOW_IS_ZERO,
        "zero windows",
        ConnectionEventKind::ZeroWindow,
    ),
    (
        kind::WINDOW_IS_OPEN,
        "windows opened",
        ConnectionEventKind::WindowOpen,
    ),
    (
        kind::CONNECT_FAILED,
        "connect errors",
        ConnectionEventKind::ConnectError,
    ),
    (kind::UNDONE, "undos", ConnectionEventKind::Undo),
    (kind::UNSENT, "unsent segments", ConnectionEventKind::Error),
];

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Socket, State};

    #[test]
    fn what_was_lost_makes_the_numbers_of_its_kind_low() {
        let mut counts = Accounting::default();
        assert!(!AtLeast::of(&counts, false).any());
        counts.kinds[kind::CLOSED as usize].lost = 1;
        let closes = AtLeast::of(&counts, false);
        assert!(closes.is(ConnectionEventKind::Close) && !closes.is(ConnectionEventKind::Open));
        assert_eq!(closes.sign(ConnectionEventKind::Close), ">=");
        let names: Vec<_> = closes.group_names().collect();
        assert_eq!(names, ["closed", "sent_bytes", "received_bytes"]);
        counts = Accounting::default();
        counts.kinds[kind::UDP_USED as usize].left_out = 1;
        assert!(AtLeast::of(&counts, false).is(ConnectionEventKind::Open));
    }

    #[test]
    fn what_was_not_watched_has_no_number() {
        let counts = Accounting {
            missed: 1,
            ..Accounting::default()
        };
        let closes = AtLeast::of(&counts, false).watching(|kind| kind == ConnectionEventKind::Close);
        assert_eq!(closes.text(ConnectionEventKind::Close, 3), ">=3");
        assert_eq!(closes.text(ConnectionEventKind::Open, 0), "-");
        assert_eq!(closes.number(ConnectionEventKind::Close, 3), Some(3));
        assert_eq!(closes.number(ConnectionEventKind::Open, 0), None);
        assert!(closes.any() && !closes.is(ConnectionEventKind::Open));
        assert!(!closes.watching(|_| false).any());
    }

    #[test]
    fn what_was_read_and_not_shown_is_lost() {
        let mut counts = Accounting::default();
        for kind in [kind::OPENED, kind::UDP_USED, kind::UNSENT] {
            (counts.kinds[kind as usize].made, counts.kinds[kind as usize].read) = (5, 5);
        }
        let event = |kind, protocol| ConnectionEvent::new(kind, 1, Socket::new(protocol, State::Close));
        let events = [
            event(ConnectionEventKind::Open, Protocol::Tcp),
            event(ConnectionEventKind::Open, Protocol::Tcp),
            event(ConnectionEventKind::Open, Protocol::Udp),
            event(ConnectionEventKind::Error, Protocol::Tcp),
        ];
        lose(&mut counts, &events);
        let lost = [kind::OPENED, kind::UDP_USED, kind::UNSENT].map(|kind| counts.kinds[kind as usize].lost);
        assert_eq!(lost, [2, 1, 1]);
        assert!(counts.is_balanced() && AtLeast::of(&counts, false).is(ConnectionEventKind::Open));
    }

    #[test]
    fn what_the_kernel_did_not_show_can_have_been_of_any_kind() {
        let counts = Accounting {
            missed: 1,
            ..Accounting::default()
        };
        let all = AtLeast::of(&counts, false);
        assert!(all.is(ConnectionEventKind::Fail) && !all.is(ConnectionEventKind::Present));
        assert_eq!(all.group_names().count(), 6);
    }

    #[test]
    fn polls_find_all_closes_but_not_all_opens() {
        let polled = AtLeast::of(&Accounting::default(), true);
        assert!(polled.is(ConnectionEventKind::Open) && !polled.is(ConnectionEventKind::Close));
    }
}
