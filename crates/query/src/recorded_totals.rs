//! What talkers that match a filter transferred over time, from the sums of a store.

use sockeye_filter::Filter;
use sockeye_history::Sums;
use sockeye_model::{Comm, Direction, Flow, FlowKey, NetnsInode, Pid, Port, Process, Protocol};
use sockeye_store::{PeriodSums, PeriodTotals, StoreError, StoreReader};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

/// Totals of the talkers that match a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchingTotals {
    /// By time.
    pub totals: Vec<PeriodTotals>,
    /// Whether of each talker all connections match, or none. If not, those of which it is not known are left out.
    pub is_decided: bool,
}

/// Returns the totals of five minutes, or of an hour, between two times in seconds since 1970, of the talkers that match a filter and are
/// in these network namespaces; `None`: in all.
///
/// # Errors
/// If the store is damaged.
pub fn matching_totals(
    store: &StoreReader,
    times_s: (u64, u64),
    by_hour: bool,
    filter: &Filter,
    selected: Option<&HashSet<NetnsInode>>,
) -> Result<MatchingTotals, StoreError> {
    let is_selected = |netns: Option<NetnsInode>| {
        let netns = netns.zip(selected);
        netns.is_none_or(|(netns, selected)| selected.contains(&netns))
    };
    if filter.is_empty() && store.talker_namespaces()?.into_iter().all(is_selected) {
        let totals = store.totals(times_s, by_hour)?;
        return Ok(MatchingTotals {
            totals,
            is_decided: true,
        });
    }
    let length_s = if by_hour { 3600 } else { 300 };
    let mut of_five_minutes: BTreeMap<u64, Sums> = BTreeMap::new();
    let mut is_decided = true;
    store.visit_sums(times_s, &mut |sums| {
        let flow = flow(sums);
        if is_selected(flow.key.netns) {
            let matches = if filter.is_empty() {
                Some(true)
            } else {
                filter.matches_flow(&flow, Protocol::Tcp)
            };
            is_decided &= matches.is_some();
            if matches == Some(true) {
                *of_five_minutes.entry(sums.start_s).or_default() += sums.sums;
            }
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
    let totals = all.map(|(start_s, sums)| PeriodTotals {
        start_s,
        length_s,
        sums,
    });
    Ok(MatchingTotals {
        totals: totals.collect(),
        is_decided,
    })
}

/// Returns a talker as a flow, for filters. Its local address, the states of its connections and the pids of its owner are not recorded
/// in sums.
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
            sums: Sums::default(),
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
