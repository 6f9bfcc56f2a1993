//! Events of several messages: a transmit hang, the reset of the NIC, and the link that goes down and comes back.

use crate::messages::MatchedLine;
use crate::{Entry, Placeholder, Severity};

/// What an entry is in events, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Role {
    begins: bool,
    follows: bool,
}

impl Role {
    pub(crate) fn of(entry: &Entry<'_>) -> Self {
        let has = |parts: &[&str]| parts.iter().any(|part| entry.name.contains(part));
        Self {
            begins: entry.severity >= Some(Severity::Warning) && has(&HEADS),
            follows: has(&FOLLOWERS),
        }
    }
}

/// An open event: the entry that began it, and where.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// Number of the entry
    pub(crate) number: usize,
    interface: String,
    /// Seconds since boot, if the log has them
    begin: Option<f64>,
    /// Messages since
    messages: u32,
}

impl Event {
    /// The event that a message begins, if it is one that others follow.
    pub(crate) fn begun_by(known: &MatchedLine<'_>, role: Role, time: Option<&str>) -> Option<Self> {
        Some(Self {
            number: known.number,
            interface: interface(known).filter(|_| role.begins)?.to_owned(),
            begin: seconds(time),
            messages: 0,
        })
    }

    /// Whether a message is a consequence of the event.
    pub(crate) fn is_followed_by(&mut self, known: &MatchedLine<'_>, role: Role, time: Option<&str>) -> bool {
        self.messages += 1;
        if !role.follows || known.number == self.number || interface(known) != Some(self.interface.as_str()) {
            return false;
        }
        match (self.begin, seconds(time)) {
            (Some(begin), Some(time)) => (0.0..=SECONDS_MAX).contains(&(time - begin)),
            // Without seconds only the number of messages says what is soon.
            _ => self.messages <= MESSAGES_MAX,
        }
    }
}

fn interface<'l>(known: &MatchedLine<'l>) -> Option<&'l str> {
    let mut values = known.values.iter();
    values
        .find(|(place, _)| *place == Placeholder::Interface)
        .map(|(_, interface)| *interface)
}

/// Seconds since boot of `12.345678`.
fn seconds(time: Option<&str>) -> Option<f64> {
    time?.parse().ok()
}

/// Parts of the names of entries that begin an event.
const HEADS: [&str; 6] = ["hang", "watchdog", "timed-out", "timeout", "tx-fault", "fatal"];
/// Parts of the names of entries that follow.
const FOLLOWERS: [&str; 9] = [
    "reset",
    "link-down",
    "link-up",
    "link-is-",
    "recover",
    "hang",
    "watchdog",
    "timed-out",
    "timeout",
];
/// How long a NIC takes to come back.
const SECONDS_MAX: f64 = 30.0;
const MESSAGES_MAX: u32 = 20;
