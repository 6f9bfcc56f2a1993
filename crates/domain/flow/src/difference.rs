//! What differs between the flows of two moments: what came, went, grew or slowed down.

use sockeye_model::{Flow, FlowKey, Totals};
use std::collections::BTreeMap;

/// How a flow differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Only the later moment has it.
    Came,
    /// Only the earlier moment has it.
    Went,
    /// Its round trip time is longer.
    Slower,
    /// It has more connections.
    More,
    /// It has fewer connections.
    Fewer,
    /// Its round trip time is shorter.
    Faster,
}

impl Change {
    /// The name, as in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Came => "came",
            Self::Went => "went",
            Self::Slower => "slower",
            Self::More => "more",
            Self::Fewer => "fewer",
            Self::Faster => "faster",
        }
    }
}

/// A flow at both moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowDifference {
    /// The flow.
    pub key: FlowKey,
    /// How it differs, by what matters most.
    pub change: Change,
    /// Connections at the earlier moment.
    pub connections_before: u32,
    /// Connections at the later one.
    pub connections: u32,
    /// Totals at the earlier moment.
    pub totals_before: Option<Totals>,
    /// Totals at the later one.
    pub totals: Option<Totals>,
}

/// Returns the flows that differ, by kind of change and then by key.
pub fn differences(
    before: impl Iterator<Item = Flow>,
    after: impl Iterator<Item = Flow>,
) -> Vec<FlowDifference> {
    let mut flows: BTreeMap<FlowKey, (Option<Flow>, Option<Flow>)> = BTreeMap::new();
    for flow in before {
        let key = flow.key;
        flows.entry(key).or_default().0 = Some(flow);
    }
    for flow in after {
        let key = flow.key;
        flows.entry(key).or_default().1 = Some(flow);
    }
    let differs = |(key, (before, after)): (FlowKey, (Option<Flow>, Option<Flow>))| {
        let connections = |flow: &Option<Flow>| flow.as_ref().map_or(0, |flow| flow.connections);
        let totals = |flow: &Option<Flow>| flow.as_ref().and_then(|flow| flow.totals);
        Some(FlowDifference {
            key,
            change: change(before.as_ref(), after.as_ref())?,
            connections_before: connections(&before),
            connections: connections(&after),
            totals_before: totals(&before),
            totals: totals(&after),
        })
    };
    let mut all: Vec<_> = flows.into_iter().filter_map(differs).collect();
    all.sort_by_key(|difference| difference.change);
    all
}

fn change(before: Option<&Flow>, after: Option<&Flow>) -> Option<Change> {
    let (before, after) = match (before, after) {
        (None, _) => return after.map(|_| Change::Came),
        (Some(_), None) => return Some(Change::Went),
        (Some(before), Some(after)) => (before, after),
    };
    let rtt = |flow: &Flow| flow.totals.and_then(|totals| totals.rtt_us_median);
    let is_longer = |one: Option<u32>, other: Option<u32>| {
        one.zip(other)
            .is_some_and(|(one, other)| one / 2 >= other && one - other >= RTT_US_MIN)
    };
    if is_longer(rtt(after), rtt(before)) {
        return Some(Change::Slower);
    }
    match after.connections.cmp(&before.connections) {
        std::cmp::Ordering::Greater => Some(Change::More),
        std::cmp::Ordering::Less => Some(Change::Fewer),
        std::cmp::Ordering::Equal if is_longer(rtt(before), rtt(after)) => Some(Change::Faster),
        std::cmp::Ordering::Equal => None,
    }
}

/// A round trip time that doubles is longer only if it is so by this much: below it, the host itself decides.
const RTT_US_MIN: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Direction, Port};

    fn flow(port: u16, connections: u32, rtt_us: u32) -> Flow {
        let mut flow = Flow::new(FlowKey {
            netns: None,
            direction: Direction::Active,
            local: None,
            peer: None,
            peer_prefix: None,
            port: Some(Port(port)),
            process: None,
            uid: None,
            workload: None,
        });
        flow.connections = connections;
        flow.totals = Some(Totals {
            rtt_us_median: Some(rtt_us),
            ..Totals::default()
        });
        flow
    }

    #[test]
    fn each_flow_has_the_change_that_matters_most() {
        let before = [
            flow(1, 5, 1_000),
            flow(2, 5, 1_000),
            flow(3, 5, 1_000),
            flow(4, 5, 9_000),
            flow(6, 5, 100),
        ];
        let after = [
            flow(1, 5, 1_100),
            flow(3, 9, 9_000),
            flow(4, 7, 9_000),
            flow(5, 1, 0),
            flow(6, 5, 900),
        ];
        let found = differences(before.into_iter(), after.into_iter());
        let found: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.change.name(),
                    one.key.port.unwrap().0,
                    one.connections_before,
                    one.connections,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("came", 5, 0, 1),
                ("went", 2, 5, 0),
                ("slower", 3, 5, 9),
                ("more", 4, 5, 7)
            ]
        );
    }

    #[test]
    fn fewer_connections_and_shorter_times_are_changes() {
        let found = |before, after| differences([before].into_iter(), [after].into_iter())[0].change;
        assert_eq!(found(flow(1, 5, 1_000), flow(1, 4, 1_000)), Change::Fewer);
        assert_eq!(found(flow(1, 5, 9_000), flow(1, 5, 1_000)), Change::Faster);
    }
}
