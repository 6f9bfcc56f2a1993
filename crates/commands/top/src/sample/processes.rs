//! Processes: their connections of TCP folded, and what they move over UDP.

use super::drops::say_of_sample;
use super::rows::{About, Rows};
use super::sink::Totals;
use crate::output::records::{ProcessRow, Processes};
use crate::state::Plan;
use crate::traffic::ProcessTraffic;
use anyhow::Context as _;
use sockeye_model::{GroupBy, NetnsInode, Protocol, StateSet};
use sockeye_output::flow::connections;
use sockeye_output::listing::{Column, all_columns};
use sockeye_query::drops::DropSelection;
use sockeye_query::listing::{Listing, ListingReport};
use sockeye_query::sampling::{FlowSampler, SamplingOptions};
use sockeye_tracepoints::{UdpBytes, UdpBytesWatch};
use sockeye_wire::udp_bytes;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Instant;

/// What takes samples of processes.
pub(crate) struct ProcessView<'a> {
    listing: &'a Listing<'a>,
    sampler: FlowSampler<'a>,
    /// `None` if bytes of UDP cannot be counted.
    udp: Option<UdpBytesWatch>,
    /// What cannot be seen, and why.
    unseen: Vec<String>,
    before: Option<(BTreeMap<udp_bytes::Key, udp_bytes::Totals>, Instant)>,
    has_sample: bool,
    /// Losses that were reported.
    said_losses: Vec<&'static str>,
}

impl<'a> ProcessView<'a> {
    pub(crate) fn new(listing: &'a Listing<'a>, plan: &Plan) -> Self {
        let states = listing.filter().states().unwrap_or(StateSet::FLOWS);
        let options = SamplingOptions {
            group_by: GroupBy::Process,
            protocol: Protocol::Tcp,
            states: states.and(StateSet::FLOWS),
            totals: false,
            rates: true,
        };
        let mut sampler = FlowSampler::new(listing, options);
        let unseen_between = sampler
            .watch_between(true)
            .err()
            .map(|reason| connections::unseen_between(&reason));
        let udp = if plan.filter.is_empty() {
            UdpBytesWatch::begin(&listing.context.engine).map_err(|error| error.to_string())
        } else {
            Err("they are counted by process, not by socket, and a filter selects sockets".to_owned())
        };
        let unseen = udp
            .as_ref()
            .err()
            .map(|error| format!("no bytes of UDP: {error}"));
        let unseen = unseen_between.into_iter().chain(unseen).collect();
        Self {
            listing,
            sampler,
            udp: udp.ok(),
            unseen,
            before: None,
            has_sample: false,
            said_losses: Vec::new(),
        }
    }

    /// Returns the columns of the table.
    pub(crate) fn columns(&self, are_all: bool) -> Vec<&'static Column<Processes>> {
        let are_many = self.listing.context.namespaces.are_many();
        all_columns::<Processes>()
            .filter(|column| are_many || column.name != "netns")
            .filter(|column| are_all || self.udp.is_some() || !column.name.starts_with("udp_"))
            .collect()
    }

    /// Takes a sample.
    pub(crate) fn take(
        &mut self,
        rows: &mut impl Rows<Processes>,
        report: &mut ListingReport,
    ) -> anyhow::Result<Totals> {
        let is_first = !std::mem::replace(&mut self.has_sample, true);
        for unseen in &self.unseen {
            say_of_sample(unseen, is_first);
        }
        let sample = self.sampler.sample(report)?;
        let mut traffic = ProcessTraffic::default();
        let mut reader = sample.flows.reader();
        for place in sample.flows.places() {
            traffic.add_flow(reader.read(place));
        }
        self.add_udp(&mut traffic)?;
        for (netns, process, traffic) in traffic.iter() {
            let row = ProcessRow {
                names: self.listing.context,
                netns,
                process,
                traffic,
            };
            rows.add(&row, &|| about(&row))?;
        }
        Ok(Totals {
            connections: sample.totals,
            ..Totals::default()
        })
    }

    /// Adds what was sent and received over UDP since the last sample.
    fn add_udp(&mut self, traffic: &mut ProcessTraffic) -> anyhow::Result<()> {
        let Some(udp) = &self.udp else { return Ok(()) };
        let taken = Instant::now();
        let UdpBytes {
            totals: now,
            evicted,
            refused,
        } = udp.totals().context("read the counts of UDP")?;
        let lost = [
            (
                evicted,
                "entries of processes that use UDP have made room for others: their bytes are not shown",
            ),
            (
                refused,
                "calls of UDP are not counted: their processes found no room",
            ),
        ];
        for (number, what) in lost {
            let said = self.said_losses.contains(&what);
            if number > 0 {
                say_of_sample(&format!("{number} {what}"), !said);
            }
            if number > 0 && !said {
                self.said_losses.push(what);
            }
        }
        if let Some((before, at)) = &self.before {
            let selection = DropSelection::of(self.listing);
            // As of connections: those of a namespace that was asked for by name have it, too.
            let targets = self.listing.targets.candidates();
            let has_netns = targets.iter().any(|target| target.netns.is_some());
            let netns_of = |netns: NetnsInode| {
                selection
                    .namespaces
                    .contains(&netns)
                    .then(|| Some(netns).filter(|_| has_netns))
            };
            traffic.add_udp(before, &now, taken.duration_since(*at), netns_of);
        }
        self.before = Some((now, taken));
        Ok(())
    }
}

fn about(row: &ProcessRow<'_>) -> About {
    let mut hasher = DefaultHasher::new();
    (row.netns, row.process.map(|process| process.pid)).hash(&mut hasher);
    About {
        id: hasher.finish(),
        filter: row
            .process
            .map(|process| format!("pid = {}", process.pid.0).into()),
        ..About::default()
    }
}
