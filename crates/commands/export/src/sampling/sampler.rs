//! Takes samples of the host, and adds them to its metrics.

use super::drops::DropCounter;
use super::events::{EventSelection, FindingsThere, HostEvents, now_us};
use super::findings::Found;
use super::recorder::RecorderWatch;
use super::resets::Resets;
use super::visitor::Visitor;
use crate::sample_args::SampleArgs;
use sockeye_console::envelope;
use sockeye_console::notes::say;
use sockeye_metrics::{HostMetrics, HostSample, ServiceNames, Source};
use sockeye_model::{GroupBy, Protocol, StateSet};
use sockeye_output::flow::connections;
use sockeye_query::listing::{Listing, ListingReport};
use sockeye_query::sampling::{EndedConnections, FlowSampler, SamplingOptions};
use sockeye_source::{ProtocolSource, SourceKind, ephemeral_ports};
use std::ops::RangeInclusive;
use std::time::Instant;

/// Takes one sample after the other.
pub(super) struct Sampler<'a> {
    listing: &'a Listing<'a>,
    flows: FlowSampler<'a>,
    /// `None` if resets are not counted.
    resets: Option<Resets>,
    /// `None` if drops are not counted.
    drops: Option<DropCounter>,
    /// `None` if the ends of connections are not wanted, or not seen.
    ended: Option<EndedConnections>,
    recorder: RecorderWatch,
    findings: FindingsThere,
    events: HostEvents,
    metrics: HostMetrics,
    /// When the sockets of the last sample were read.
    taken: Option<Instant>,
    /// Whether there is only one sample.
    is_single: bool,
}

impl<'a> Sampler<'a> {
    /// Prepares the samples of a listing. `is_single`: there is only one, so that nothing can be counted between two.
    pub(super) fn new(
        listing: &'a Listing<'a>,
        args: &SampleArgs,
        is_single: bool,
        events: EventSelection,
    ) -> Self {
        let version = envelope::now().origin.version;
        let mut metrics = HostMetrics::new(args.services.into(), version);
        let options = SamplingOptions {
            group_by: GroupBy::Port,
            protocol: Protocol::Tcp,
            states: StateSet::FLOWS,
            totals: false,
            rates: !is_single,
        };
        let mut flows = FlowSampler::new(listing, options);
        let sources = &mut metrics.exporter.sources;
        let (mut resets, mut drops) = (None, None);
        if !is_single {
            let watched = flows.watch_between(false);
            sources.insert(Source::ShortConnections, watched.is_ok());
            if let Err(reason) = watched {
                say(&connections::unseen_note(&reason));
            }
            resets = available(Resets::begin(listing), "resets are not counted");
            drops = available(DropCounter::begin(listing), "dropped packets are not counted");
            sources.insert(Source::Resets, resets.is_some());
            sources.insert(Source::Drops, drops.is_some());
        }
        let ended = events.ended.then(|| EndedConnections::begin(listing));
        let ended = ended.and_then(|begun| available(begun, "connections that end are not logged"));
        Self {
            listing,
            ended,
            recorder: RecorderWatch::new(args.store.as_deref()),
            findings: FindingsThere::default(),
            events: HostEvents::default(),
            flows,
            resets,
            drops,
            metrics,
            taken: None,
            is_single,
        }
    }

    /// Returns what all samples gave.
    pub(super) const fn metrics(&self) -> &HostMetrics {
        &self.metrics
    }

    /// Returns what happened since the last call.
    pub(super) fn take_events(&mut self) -> HostEvents {
        std::mem::take(&mut self.events)
    }

    /// Replaces the findings; `None`: they cannot be found.
    pub(super) fn set_findings(&mut self, found: Option<Found>) {
        let exporter = &mut self.metrics.exporter;
        exporter.sources.insert(Source::Findings, found.is_some());
        if let Some(found) = found {
            self.metrics.set_findings(found.kinds.into_iter());
            let events = self.findings.replace(found.records, now_us());
            self.events.findings.extend(events);
        }
    }

    /// Takes a sample, and counts it if it fails.
    ///
    /// # Errors
    /// Why it failed.
    pub(super) fn sample(&mut self) -> anyhow::Result<ListingReport> {
        let sampled = self.take();
        match sampled {
            Ok(_) => self.metrics.exporter.samples += 1,
            Err(_) => self.metrics.exporter.failed_samples += 1,
        }
        sampled
    }

    fn take(&mut self) -> anyhow::Result<ListingReport> {
        let (listing, begun) = (self.listing, Instant::now());
        let mut report = listing.begin();
        let interval = self.taken.map(|taken| begun.duration_since(taken));
        let names = ServiceNames::new(listing.context, ephemeral_ports().unwrap_or(DEFAULT_EPHEMERAL));
        let mut visitor = Visitor(HostSample::new(names, interval));
        let taken = self.flows.sample_visiting(&mut report, &mut visitor)?;
        let Visitor(mut sample) = visitor;
        if let Some(before) = self.taken.replace(taken.taken) {
            let interval = taken.taken.duration_since(before);
            let mut reader = taken.flows.reader();
            for place in taken.flows.places() {
                sample.flow(reader.read(place), interval);
            }
        }
        let is_counted = |used: &ProtocolSource| used.source != Some(SourceKind::Procfs);
        let counts_changes = !self.is_single && report.used.iter().all(is_counted);
        self.metrics
            .add(sample.finish(counts_changes), taken.totals.as_ref());
        let lost_resets = self
            .resets
            .as_mut()
            .map_or(Ok(0), |resets| resets.add_to(listing, &mut self.metrics))?;
        if let Some(drops) = &mut self.drops {
            drops.add_to(&mut self.metrics);
        }
        if let Some(ended) = &mut self.ended {
            let since = ended.take(listing, ENDED_MAX)?;
            self.events.ended.extend(since.connections);
            let left_out = self.metrics.exporter.losses.entry("log_records").or_default();
            *left_out += since.left_out + since.lost;
        }
        self.recorder.add_to(&mut self.metrics, now_us() / 1_000);
        let totals = taken.totals.unwrap_or_default();
        let exporter = &mut self.metrics.exporter;
        exporter
            .sources
            .insert(Source::Owners, report.owners_error.is_none());
        let lost_events = totals.lost_events.unwrap_or(0) + lost_resets;
        exporter.add_losses(&report.losses, lost_events, totals.unseen);
        exporter.duration = Some(begun.elapsed());
        exporter.sampled_at_s = Some(taken.envelope.time_us as f64 / 1e6);
        Ok(report)
    }
}

/// Returns what was begun, or notes why it was not.
fn available<T>(begun: Result<T, String>, effect: &str) -> Option<T> {
    begun
        .inspect_err(|reason| say(&format!("sockeye: {effect}: {reason}\n")))
        .ok()
}

/// Connections of an interval that are logged one by one.
const ENDED_MAX: usize = 5_000;

/// The kernel's default, if the setting cannot be read.
const DEFAULT_EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;
