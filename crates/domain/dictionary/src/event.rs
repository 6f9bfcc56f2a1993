//! Events of several messages: a transmit hang, the reset of the NIC, and the link that goes down and comes back.

use crate::messages::MatchedLine;
use crate::unknown::device_of;
use crate::{Entry, Placeholder, Severity};

/// What an entry is in events, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Role {
    begins: bool,
    follows: bool,
    /// Whether it has neither interface nor device, and belongs to the message that stands next to it
    is_next_to: bool,
}

impl Role {
    pub(crate) fn of(entry: &Entry<'_>) -> Self {
        let name = entry.name.as_ref();
        // Whole words: a change is no hang.
        let has = |parts: &[&str]| {
            parts.iter().any(|part| {
                let mut places = name.match_indices(part);
                places.any(|(at, _)| {
                    let behind = name.as_bytes().get(at + part.len());
                    (at == 0 || name.as_bytes()[at - 1] == b'-') && matches!(behind, None | Some(b'-'))
                })
            })
        };
        Self {
            begins: entry.severity >= Some(Severity::Warning) && has(&HEADS),
            follows: has(&FOLLOWERS),
            is_next_to: name == WATCHDOG_WARNING,
        }
    }
}

/// The open events of a log: of one device each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Vec<Event>);

/// An open event: the entry that began it, and where.
#[derive(Debug, Clone)]
struct Event {
    /// Number of the entry
    number: usize,
    /// Network interface and address on the bus; a line may have only one of them
    interface: Option<String>,
    device: Option<String>,
    /// Seconds of its last message, if the log has them
    at: Option<f64>,
    /// Messages since
    messages: u32,
}

impl Events {
    /// Takes a message; returns the number of the entry that began the event which it is a consequence of.
    pub(crate) fn take(
        &mut self,
        known: &MatchedLine<'_>,
        role: Role,
        text: &str,
        time: Option<&str>,
    ) -> Option<usize> {
        for event in &mut self.0 {
            event.messages = event.messages.saturating_add(1);
        }
        if !(role.begins || role.follows || role.is_next_to) {
            return None;
        }
        let at = seconds(time);
        if role.is_next_to {
            let mut events = self.0.iter_mut();
            return events.find(|event| event.messages <= 1).map(|event| {
                event.messages = 0;
                event.number
            });
        }
        let (interface, device) = (interface(known), device_of(text));
        let mut same = self.0.iter_mut();
        let same = same.find(|event| event.is_of(interface, device));
        if let Some(event) = same {
            if role.follows && known.number != event.number && event.is_soon(at) {
                // Each message has one of the two; the next one may have the other.
                if event.interface.is_none() {
                    event.interface = interface.map(str::to_owned);
                }
                if event.device.is_none() {
                    event.device = device.map(str::to_owned);
                }
                event.at = at.or(event.at);
                event.messages = 0;
                return Some(event.number);
            }
            if role.begins {
                event.number = known.number;
                event.at = at;
                event.messages = 0;
            }
            return None;
        }
        if role.begins && (interface.is_some() || device.is_some()) {
            if self.0.len() >= EVENTS_MAX {
                self.0.remove(0);
            }
            self.0.push(Event {
                number: known.number,
                interface: interface.map(str::to_owned),
                device: device.map(str::to_owned),
                at,
                messages: 0,
            });
        }
        None
    }
}

impl Event {
    /// Whether a message is about the same device.
    fn is_of(&self, interface: Option<&str>, device: Option<&str>) -> bool {
        let is_same =
            |ours: &Option<String>, other: Option<&str>| other.is_some() && ours.as_deref() == other;
        is_same(&self.interface, interface) || is_same(&self.device, device)
    }

    /// Whether a message at this time may be its consequence.
    fn is_soon(&self, at: Option<f64>) -> bool {
        let since = self.at.zip(at).map(|(before, at)| at - before);
        match since {
            Some(since) if since >= 0.0 => since <= SECONDS_MAX,
            // Without seconds, or with those since the line before, only the number of messages says what is soon.
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

/// Seconds of `12.345678`, of `12:00:00` in a date, and of microseconds since 1970 or since boot.
fn seconds(time: Option<&str>) -> Option<f64> {
    let time = time?;
    // `+0.000012` is the time since the line before.
    let first = time.split(' ').next().filter(|first| !first.starts_with('+'))?;
    if first.bytes().all(|byte| byte.is_ascii_digit()) {
        return first.parse::<f64>().ok().map(|micros| micros / 1e6);
    }
    if let Ok(seconds) = first.parse() {
        return Some(seconds);
    }
    let clock = time.as_bytes().windows(8).find(|window| {
        window.iter().enumerate().all(|(nth, byte)| match nth {
            2 | 5 => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
    })?;
    let two = |at: usize| f64::from(clock[at] - b'0') * 10.0 + f64::from(clock[at + 1] - b'0');
    Some(two(0) * 3600.0 + two(3) * 60.0 + two(6))
}

/// Parts of the names of entries that begin an event.
const HEADS: [&str; 9] = [
    "hang",
    "hanged",
    "watchdog",
    "timed-out",
    "timeout",
    "tx-fault",
    "fatal",
    "tx-error",
    "panic-dump",
];
/// Parts of the names of entries that follow.
const FOLLOWERS: [&str; 18] = [
    "reset",
    "resetting",
    "link-down",
    "link-up",
    "link-is",
    "link-becomes-ready",
    "link-not-ready",
    "recover",
    "recovery",
    "hang",
    "hanged",
    "watchdog",
    "timed-out",
    "timeout",
    "tx-error",
    "flow-control",
    "queue-not-empty",
    "panic-dump",
];
/// The warning with the trace that the kernel prints next to the watchdog's message.
const WATCHDOG_WARNING: &str = "kernel-watchdog-warning";
/// How long a NIC takes for its next step back.
const SECONDS_MAX: f64 = 30.0;
const MESSAGES_MAX: u32 = 20;
/// Devices with an open event.
const EVENTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_logs_are_seconds() {
        for (time, expected) in [
            ("12.5", Some(12.5)),
            ("12.5 <    0.000012>", Some(12.5)),
            ("+0.000012", None),
            ("1700000000123456", Some(1_700_000_000.123_456)),
            ("5678901", Some(5.678_901)),
            ("Nov 20 12:00:01", Some(43_201.0)),
            ("2026-11-20T12:00:01,123456+00:00", Some(43_201.0)),
            ("Fri Nov 20 12:00:01 2026", Some(43_201.0)),
            ("Nov20 12:00", None),
            ("", None),
        ] {
            assert_eq!(
                seconds(Some(time)).filter(|_| !time.is_empty()),
                expected,
                "{time}"
            );
        }
        assert_eq!(seconds(None), None);
    }

    #[test]
    fn parts_of_names_are_whole_words() {
        let role = |name: &'static str, severity| {
            let mut entry = Entry::new(crate::Kind::Message);
            entry.name = name.into();
            entry.severity = Some(severity);
            Role::of(&entry)
        };
        assert!(role("e1000e-hardware-unit-hang", Severity::Critical).begins);
        assert!(!role("name-change-rollback", Severity::Warning).begins);
        assert!(!role("intel-vf-trust-changed", Severity::Warning).follows);
        assert!(role("nic-link-up-fast", Severity::Info).follows);
    }
}
