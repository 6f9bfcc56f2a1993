//! Flows and groups: connections folded by what they have in common.

use super::drops::say_of_sample;
use super::rows::{About, Rows};
use super::sink::Totals;
use crate::state::Plan;
use crate::state::view::View;
use sockeye_model::{Direction, Flow, FlowKey, GroupBy, Names, Protocol, StateSet, WorkloadKind};
use sockeye_output::flow::{FlowDetails, FlowLayout, FlowRow, Flows, connections};
use sockeye_output::listing::{Column, named_columns};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, ListingReport};
use sockeye_query::sampling::{FlowSampler, PreviousFlows, SamplingOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// What takes samples of flows.
pub(crate) struct FlowView<'a> {
    listing: &'a Listing<'a>,
    sampler: FlowSampler<'a>,
    /// What cannot be seen, and why; empty if nothing is missing.
    unseen: String,
    has_sample: bool,
    group_by: GroupBy,
    has_owners: bool,
    /// Whether a database says where peers are.
    has_places: bool,
}

impl<'a> FlowView<'a> {
    pub(crate) fn new(listing: &'a Listing<'a>, plan: &Plan, has_places: bool) -> Self {
        let group_by = match plan.view {
            View::Groups => plan.group_by,
            // Of recorded time, which has no bytes of UDP.
            View::Processes => GroupBy::Process,
            _ => GroupBy::Host,
        };
        let states = listing.filter().states().unwrap_or(StateSet::FLOWS);
        let options = SamplingOptions {
            group_by,
            protocol: Protocol::Tcp,
            states: states.and(StateSet::FLOWS),
            totals: true,
            rates: true,
        };
        let has_owners = plan.view != View::Groups;
        let mut sampler = FlowSampler::new(listing, options);
        // What was recorded has no events.
        let unseen = match listing.context.looks_back() {
            true => String::new(),
            false => (sampler.watch_between(has_owners).err())
                .map_or_else(String::new, |reason| connections::unseen_between(&reason)),
        };
        Self {
            listing,
            sampler,
            unseen,
            has_sample: false,
            group_by,
            has_owners,
            has_places,
        }
    }

    /// Compares the next sample with one of another listing.
    pub(super) fn after(mut self, previous: Option<PreviousFlows>) -> Self {
        self.sampler = self.sampler.after(previous);
        self
    }

    /// Returns what the next sample is compared with.
    pub(super) fn into_previous(self) -> Option<PreviousFlows> {
        self.sampler.into_previous()
    }

    /// Returns the columns of the table.
    pub(crate) fn columns(&self) -> Vec<&'static Column<Flows>> {
        let layout = FlowLayout {
            group_by: self.group_by,
            details: FlowDetails {
                netns: self.listing.context.namespaces.are_many(),
                rates: true,
                ..FlowDetails::default()
            },
            ..FlowLayout::default()
        };
        let mut columns = layout.listing().columns;
        columns.extend(named_columns::<Flows>(&["rtt_us_median"]));
        if self.has_owners {
            columns.extend(named_columns::<Flows>(&["owners"]));
        }
        if self.has_places && self.group_by == GroupBy::Host {
            columns.extend(named_columns::<Flows>(&["peer_place"]));
        }
        columns
    }

    /// Takes a sample.
    pub(crate) fn take(
        &mut self,
        names: &dyn Names,
        rows: &mut impl Rows<Flows>,
        report: &mut ListingReport,
    ) -> anyhow::Result<Totals> {
        say_of_sample(&self.unseen, !std::mem::replace(&mut self.has_sample, true));
        let mut sample = self.sampler.sample(report)?;
        let context = self.listing.context;
        sample.flows.sort(|id| context.workload(id));
        let mut reader = sample.flows.reader();
        for place in sample.flows.places() {
            let flow = reader.read(place);
            let row = FlowRow {
                flow,
                names,
                protocol: Protocol::Tcp,
                has_owners: self.has_owners,
            };
            rows.add(&row, &|| about(flow, self.group_by, context))?;
        }
        Ok(Totals {
            connections: sample.totals,
            ..Totals::default()
        })
    }
}

fn about(flow: &Flow, group_by: GroupBy, context: &QueryContext) -> About {
    let mut hasher = DefaultHasher::new();
    flow.key.hash(&mut hasher);
    About {
        id: hasher.finish(),
        filter: filter(&flow.key, group_by, context).map(Into::into),
        socket: None,
        capture: None,
        no_keepalive: None,
        text: None,
        explained: None,
        ips: [
            flow.key.local,
            flow.key.peer.filter(|_| flow.key.peer_prefix.is_none()),
        ],
        rtt_us: flow.totals.as_ref().and_then(|totals| totals.rtt_us_median),
    }
}

/// Returns the filter for the sockets of a flow; `None` if the language has no words for it.
fn filter(key: &FlowKey, group_by: GroupBy, names: &dyn Names) -> Option<String> {
    match group_by {
        GroupBy::Process => Some(format!("pid = {}", key.process?.pid.0)),
        GroupBy::Uid => Some(format!("uid = {}", key.uid?.0)),
        GroupBy::Netns => Some(format!("netns = {}", key.netns?.0)),
        GroupBy::Workload(kind) => {
            let name = names.workload(key.workload?.id)?;
            let word = match kind {
                WorkloadKind::Container => "container",
                WorkloadKind::Unit => "unit",
                WorkloadKind::Cgroup => "cgroup",
                WorkloadKind::Exe => "exe",
            };
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./@:".contains(&byte);
            (!name.is_empty() && name.bytes().all(is_plain)).then(|| format!("{word} = {name}"))
        }
        GroupBy::Host | GroupBy::Port | GroupBy::Prefix { .. } => {
            let mut parts = Vec::new();
            // Several namespaces may have the same addresses.
            parts.extend(key.netns.map(|netns| format!("netns = {}", netns.0)));
            parts.extend(key.local.map(|ip| format!("src {}", bracketed(ip))));
            parts.extend(key.peer.map(|ip| format!("dst {}", bracketed(ip))));
            let word = match key.direction {
                Direction::Active => "dport",
                Direction::Passive => "sport",
            };
            parts.extend(key.port.map(|port| format!("{word} = :{}", port.0)));
            Some(parts.join(" and ")).filter(|filter| !filter.is_empty())
        }
    }
}

fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_filter::{NoResolve, parse};
    use sockeye_model::{Comm, NetnsInode, NoNames, Pid, Port, Process};

    fn key() -> FlowKey {
        FlowKey {
            netns: None,
            direction: Direction::Active,
            local: Some([10, 0, 0, 1].into()),
            peer: Some("2001:db8::1".parse().unwrap()),
            peer_prefix: None,
            port: Some(Port(443)),
            process: Some(Process {
                pid: Pid(7),
                pgid: None,
                comm: Comm::new(b"nginx"),
            }),
            uid: None,
            workload: None,
        }
    }

    #[test]
    fn rows_have_filters_that_can_be_parsed() {
        let of = |group_by| filter(&key(), group_by, &NoNames);
        assert_eq!(
            of(GroupBy::Host).as_deref(),
            Some("src 10.0.0.1 and dst [2001:db8::1] and dport = :443")
        );
        let of_many = FlowKey {
            netns: Some(NetnsInode(7)),
            ..key()
        };
        assert_eq!(
            filter(&of_many, GroupBy::Host, &NoNames).as_deref(),
            Some("netns = 7 and src 10.0.0.1 and dst [2001:db8::1] and dport = :443")
        );
        assert_eq!(of(GroupBy::Process).as_deref(), Some("pid = 7"));
        assert_eq!(of(GroupBy::Uid), None);
        for group_by in [GroupBy::Host, GroupBy::Process] {
            let text = of(group_by).unwrap();
            assert!(parse(&text, &NoResolve).is_ok(), "{text}");
        }
    }
}
