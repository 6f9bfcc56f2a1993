//! Drops and gaps of a check in words, as a store keeps them.

use sockeye_dictionary::DropClass;
use sockeye_drops::classes::class;
use sockeye_history::{CountKey, CountKind, DataKind, Unseen};
use sockeye_query::findings::NotJudged;
use sockeye_verdict::Victim;
use std::collections::BTreeMap;

/// Returns how many packets were dropped, by reason, place and owner. The normal end of a packet is no drop.
pub(super) fn drop_counts(victims: &[Victim]) -> Vec<(CountKey, u64)> {
    let mut counts: BTreeMap<CountKey, u64> = BTreeMap::new();
    for victim in victims {
        let event = &victim.event;
        if class(event.reason.as_deref(), event.place.as_deref()) == Some(DropClass::Normal) {
            continue;
        }
        let key = CountKey {
            kind: CountKind::Drop,
            name: event.reason.clone().unwrap_or_else(|| "NOT_SPECIFIED".to_owned()),
            netns: event.netns,
            function: event.place.clone(),
            device: event.device.map(|device| text(device.as_bytes())),
            owner: victim.owner.map(|owner| text(owner.comm.as_bytes())),
        };
        *counts.entry(key).or_default() += event.count;
    }
    counts.into_iter().collect()
}

/// Returns what could not be judged.
pub(super) fn not_judged(gap: &NotJudged) -> Unseen {
    let why = match &gap.remedy {
        Some(remedy) => format!("{}; {remedy}", gap.text),
        None => gap.text.clone(),
    };
    Unseen {
        kind: DataKind::Findings,
        part: Some(gap.kind.to_owned()),
        why,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_drops::Event;
    use sockeye_model::{Comm, Pid, Process};

    fn victim(reason: &str, count: u64, owner: Option<&str>) -> Victim {
        Victim {
            event: Event {
                reason: Some(reason.to_owned()),
                count,
                ..Event::default()
            },
            owner: owner.map(|comm| Process {
                pid: Pid(1),
                pgid: None,
                comm: Comm::new(comm.as_bytes()),
            }),
            ..Victim::default()
        }
    }

    #[test]
    fn drops_of_a_reason_and_owner_are_one_count() {
        let counts = drop_counts(&[
            victim("SOCKET_RCVBUFF", 2, Some("dns")),
            victim("SOCKET_RCVBUFF", 3, Some("dns")),
            victim("SOCKET_RCVBUFF", 7, None),
            // Its packet was read.
            victim("CONSUMED", 9, None),
        ]);
        let shown: Vec<_> = counts
            .iter()
            .map(|(key, count)| (key.name.as_str(), key.owner.as_deref(), *count))
            .collect();
        assert_eq!(
            shown,
            [("SOCKET_RCVBUFF", None, 7), ("SOCKET_RCVBUFF", Some("dns"), 5)]
        );
    }
}
