//! Points of a timeline from recorded totals. Pure, but for the sums that a filter selects.

use crate::moments::Gap;
use crate::view::{PROTOCOL, Point};
use sockeye_filter::Filter;
use sockeye_history::Sums;
use sockeye_model::{Comm, Direction, Flow, FlowKey, NetnsInode, Pid, Port, Process};
use sockeye_store::{PeriodSums, PeriodTotals, StoreError, StoreReader};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Returns a point for each period, in the middle of its longest part outside of gaps. One that has not ended at `last_us`, the last
/// sample, is as long as it is so far.
pub(super) fn points(totals: &[PeriodTotals], gaps: &[Gap], last_us: u64) -> Vec<(u64, Point)> {
    let of_period = |period: &PeriodTotals| {
        let begin_us = period.start_s * 1_000_000;
        let end_us = last_us.min(begin_us + period.length_s * 1_000_000);
        let parts = parts((begin_us, end_us), gaps);
        let length_us: u64 = parts.iter().map(|(from_us, to_us)| to_us - from_us).sum();
        let longest = parts.iter().max_by_key(|(from_us, to_us)| to_us - from_us);
        let middle_us = longest.map_or(begin_us, |(from_us, to_us)| from_us.midpoint(*to_us));
        let Sums {
            sent_bytes,
            received_bytes,
            retrans_segs,
            connections,
            ..
        } = period.sums;
        let rate = |count: u64| (length_us > 0).then(|| count as f64 * 1e6 / length_us as f64);
        let point = Point {
            connections,
            sent_bytes_per_s: rate(sent_bytes),
            received_bytes_per_s: rate(received_bytes),
            retrans_segs_per_s: rate(retrans_segs),
            // Sums do not have it.
            rtt_us_median: None,
        };
        (middle_us, point)
    };
    totals.iter().map(of_period).collect()
}

/// Returns the parts of a time that are in no gap. Gaps are by time.
fn parts((begin_us, end_us): (u64, u64), gaps: &[Gap]) -> Vec<(u64, u64)> {
    let mut parts = Vec::new();
    let mut from_us = begin_us;
    for gap in gaps
        .iter()
        .filter(|gap| gap.from_us < end_us && gap.to_us > begin_us)
    {
        if gap.from_us > from_us {
            parts.push((from_us, gap.from_us));
        }
        from_us = from_us.max(gap.to_us);
    }
    if from_us < end_us {
        parts.push((from_us, end_us));
    }
    parts
}

/// Returns the totals of the talkers that match a filter.
pub(super) fn matching(
    store: &StoreReader,
    times_s: (u64, u64),
    by_hour: bool,
    filter: &Filter,
) -> Result<Vec<PeriodTotals>, StoreError> {
    let length_s = if by_hour { 3600 } else { 300 };
    let mut of_five_minutes: BTreeMap<u64, Sums> = BTreeMap::new();
    store.visit_sums(times_s, &mut |sums| {
        if filter.matches_flow(&flow(sums), PROTOCOL) == Some(true) {
            *of_five_minutes.entry(sums.start_s).or_default() += sums.sums;
        }
        ControlFlow::Continue(())
    })?;
    let mut totals: BTreeMap<u64, Sums> = BTreeMap::new();
    for (start_s, sums) in of_five_minutes {
        let total = totals.entry(start_s / length_s * length_s).or_default();
        // The largest number at a time, not those of all five minutes.
        let connections = total.connections.max(sums.connections);
        *total += sums;
        total.connections = connections;
    }
    let all = totals.into_iter();
    Ok(all
        .map(|(start_s, sums)| PeriodTotals {
            start_s,
            length_s,
            sums,
        })
        .collect())
}

/// Returns a talker as a flow, for filters. Its local address and the pids of its owner are not recorded in sums.
fn flow(sums: &PeriodSums) -> Flow {
    let mut flow = Flow::new(FlowKey {
        netns: sums
            .netns_inode
            .and_then(|inode| u32::try_from(inode).ok())
            .map(NetnsInode),
        direction: if sums.direction == "passive" {
            Direction::Passive
        } else {
            Direction::Active
        },
        local: None,
        peer: sums.peer.parse().ok(),
        peer_prefix: None,
        port: u16::try_from(sums.port).ok().map(Port),
        process: None,
        uid: None,
        workload: None,
    });
    flow.connections = u32::try_from(sums.sums.connections).unwrap_or(u32::MAX);
    flow.owners = sums
        .owner
        .iter()
        .map(|name| Process {
            pid: Pid(0),
            pgid: None,
            comm: Comm::new(name.as_bytes()),
        })
        .collect();
    flow
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(sent_bytes: u64) -> Sums {
        Sums {
            sent_bytes,
            connections: 3,
            ..Sums::default()
        }
    }

    #[test]
    fn rates_are_averages_of_the_part_that_has_passed() {
        let period = |start_s, sent_bytes| PeriodTotals {
            start_s,
            length_s: 300,
            sums: sums(sent_bytes),
        };
        let points = points(&[period(600, 3000), period(900, 600)], &[], 960_000_000);
        let seen: Vec<_> = points
            .iter()
            .map(|(time_us, point)| (*time_us, point.sent_bytes_per_s, point.rtt_us_median))
            .collect();
        let expected = [(750_000_000, Some(10.0), None), (930_000_000, Some(10.0), None)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn gaps_count_neither_for_rates_nor_for_places() {
        let gap = |from_s: u64, to_s: u64| Gap {
            from_us: from_s * 1_000_000,
            to_us: to_s * 1_000_000,
            reason: String::new(),
        };
        let of = |gaps: &[Gap]| {
            let period = PeriodTotals {
                start_s: 600,
                length_s: 300,
                sums: sums(3000),
            };
            let (time_us, point) = points(&[period], gaps, u64::MAX)[0];
            (time_us / 1_000_000, point.sent_bytes_per_s)
        };
        assert_eq!(of(&[gap(0, 700), gap(900, 999)]), (800, Some(15.0)));
        assert_eq!(of(&[gap(650, 700), gap(690, 750)]), (825, Some(15.0)));
        // What was recorded in a time that is a gap as a whole: the clock was set.
        assert_eq!(of(&[gap(500, 1000)]), (600, None));
    }

    #[test]
    fn talker_is_a_flow_that_filters_test() {
        let talker = PeriodSums {
            start_s: 0,
            netns_inode: Some(7),
            direction: "active".to_owned(),
            peer: "10.0.0.9".to_owned(),
            port: 443,
            owner: Some("nginx".to_owned()),
            container: None,
            sums: sums(1),
        };
        let flow = flow(&talker);
        assert_eq!(flow.key.peer, Some([10, 0, 0, 9].into()));
        assert_eq!(
            (flow.key.port, flow.key.netns),
            (Some(Port(443)), Some(NetnsInode(7)))
        );
        assert_eq!(flow.owners[0].comm.as_bytes(), b"nginx");
    }
}
