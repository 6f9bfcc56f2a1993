//! Reads a capture, and reports its segments and connections.

use super::comment_owners::CommentOwners;
use super::digest::{Digest, Input};
use super::pipeline::{DoneBlock, Pipeline, Work};
use super::read_progress::{ReadProgress, bytes_of};
use super::shard_work::{Report, ReportedSegments, SegmentReport, finish, merge};
use crate::output::{CaptureTally, EndOwners};
use anyhow::Context;
use sockeye_source::capture::Capture;
use sockeye_sys::interrupts::Interrupts;
use sockeye_trace::{
    Arrival, Counters, Endpoint, Finished, Keep, Merge, Options, Remaining, Router, SHARDS, SegmentNotes,
    Shard, Trace,
};
use sockeye_wire::packet::Segment;
use std::path::Path;
use std::process::ExitCode;

/// A capture that is being read.
pub(crate) struct CaptureReader {
    /// `None` while it is read, and after an error that is not its own
    capture: Option<Capture>,
    name: String,
    interrupts: Interrupts,
    options: Options,
    threads: usize,
    counters: Counters,
    tally: CaptureTally,
    first_ns: Option<u64>,
    owners: CommentOwners,
}

/// A result of reading a capture.
pub(crate) enum CaptureItem<'a> {
    /// A segment of those that are to be reported.
    Segment(ReportedSegment<'a>),
    /// A connection that ended, or that the end of the capture ends, and its owners.
    Connection(Box<Finished>, EndOwners),
}

/// A segment, and what is known about it.
pub(crate) struct ReportedSegment<'a> {
    pub(crate) frame: u64,
    pub(crate) time_ns: u64,
    /// Time since the first packet of the capture.
    pub(crate) since_ns: u64,
    pub(crate) segment: &'a Segment,
    pub(crate) notes: &'a SegmentNotes,
}

type OnItem<'a> = dyn FnMut(CaptureItem<'_>) -> anyhow::Result<()> + 'a;

impl CaptureReader {
    /// Opens a capture file, or standard input for `-`. Without a number of threads, there is one for each processor.
    pub(crate) fn open(path: &Path, threads: Option<usize>) -> anyhow::Result<Self> {
        Self::with(path, Options::default(), threads)
    }

    /// Opens a capture with other options of the analysis.
    pub(crate) fn with(path: &Path, options: Options, threads: Option<usize>) -> anyhow::Result<Self> {
        let interrupts = Interrupts::catch().context("wait for signals")?;
        let capture = Capture::open_until(path, interrupts).map_err(|error| anyhow::anyhow!("{error}"))?;
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            name: capture.name().to_owned(),
            capture: Some(capture),
            interrupts,
            options,
            threads: threads.unwrap_or_else(processors).clamp(1, SHARDS),
            counters: Counters::default(),
            tally: CaptureTally::default(),
            first_ns: None,
            owners: CommentOwners::default(),
        })
    }

    /// Reads the capture. Calls `on_item` for segments and for connections, in an order that does not depend on the number of
    /// threads; after an error of the capture too, for the connections until then.
    pub(crate) fn run(
        &mut self,
        reported: ReportedSegments,
        on_item: &mut dyn FnMut(CaptureItem<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(mut capture) = self.capture.take() else {
            return Ok(());
        };
        let mut progress = ReadProgress::begin();
        capture.on_read(Some(Box::new(move |position| progress.show(position))));
        let is_parallel = self.options.series == Keep::None;
        let work = Work {
            threads: self.threads,
            is_analyzed: is_parallel,
            reported,
        };
        let pipeline = Pipeline::start(capture, &self.options, work).context("start a thread")?;
        if is_parallel {
            self.merge_shards(pipeline, on_item)
        } else {
            self.analyze_here(pipeline, on_item)
        }
    }

    /// Merges what the shards report.
    fn merge_shards(&mut self, pipeline: Pipeline, on_item: &mut OnItem<'_>) -> anyhow::Result<()> {
        let mut merged = Merge::default();
        while let Some(DoneBlock { digest, outputs }) = pipeline.next() {
            self.count(&digest);
            merge(outputs, &mut |shard, report| match report {
                Report::Event(event) => match merged.add(shard, event) {
                    Some(finished) => self.add_finished(finished, on_item),
                    None => Ok(()),
                },
                Report::Segment(mut report) => {
                    report.notes.connection = merged.number(shard, report.notes.connection);
                    self.add_segment(&report, &digest, on_item)
                }
            })?;
            pipeline.reuse(digest);
        }
        let (outcome, mut shards) = self.finish(pipeline)?;
        let mut remaining = Remaining::new(&mut shards, &merged);
        loop {
            let places = remaining.take(FINISHED_TOGETHER);
            if places.is_empty() {
                return outcome;
            }
            for (shard, mut finished) in finish(&mut shards, &places, self.threads) {
                merged.complete(shard, &mut finished);
                self.add_finished(finished, on_item)?;
            }
        }
    }

    /// Analyses the segments on this thread: graphs share a limit of points.
    fn analyze_here(&mut self, pipeline: Pipeline, on_item: &mut OnItem<'_>) -> anyhow::Result<()> {
        let mut trace = Trace::new(self.options.clone());
        while let Some(DoneBlock { mut digest, .. }) = pipeline.next() {
            self.count(&digest);
            let mut comments = std::mem::take(&mut digest.comments).into_iter().peekable();
            for input in digest.drain_in_order() {
                match input {
                    Input::Error(error) => trace.icmp(error.frame, error.time_ns, &error.error),
                    Input::Segment(origin_ns, arrived) => {
                        let notes = trace.arrive(Arrival {
                            frame: arrived.frame,
                            time_ns: Router::time_ns(origin_ns, arrived.time_ns),
                            origin_ns,
                            segment: &arrived.segment,
                            lookup: arrived.lookup,
                        });
                        while comments.next_if(|(frame, _)| *frame < arrived.frame).is_some() {}
                        if let Some((_, comment)) = comments.next_if(|(frame, _)| *frame == arrived.frame) {
                            self.owners
                                .add(notes.connection, Endpoint::both(&arrived.segment), &comment);
                        }
                    }
                }
                while let Some(finished) = trace.finished() {
                    self.add_finished(Box::new(finished), on_item)?;
                }
            }
            pipeline.reuse(digest);
        }
        let (outcome, _) = self.finish(pipeline)?;
        self.counters = trace.counters();
        for finished in trace.finish() {
            self.add_finished(Box::new(finished), on_item)?;
        }
        outcome
    }

    /// Takes the capture back; returns its error, and the shards.
    fn finish(&mut self, pipeline: Pipeline) -> anyhow::Result<(anyhow::Result<()>, Vec<Shard>)> {
        let remains = pipeline.finish().context("a thread of the analysis has failed")?;
        let mut capture = remains.capture;
        // Removes the line from the terminal.
        capture.on_read(None);
        self.capture = Some(capture);
        self.counters = remains.shards.iter().map(Shard::counters).sum();
        // Its message has the reason already.
        let outcome = remains.outcome.map_err(|error| anyhow::anyhow!("{error}"));
        Ok((outcome, remains.shards))
    }

    /// Counts the packets of a block.
    fn count(&mut self, digest: &Digest) {
        let first_ns = *self.first_ns.get_or_insert(digest.first_ns);
        let since_ns = digest.latest_ns.saturating_sub(first_ns);
        self.tally.duration_ns = self.tally.duration_ns.max(since_ns);
        self.tally.add_packets(&digest.tally);
    }

    fn add_segment(
        &mut self,
        report: &SegmentReport,
        digest: &Digest,
        on_item: &mut OnItem<'_>,
    ) -> anyhow::Result<()> {
        if report.has_comment
            && let Ok(at) = digest
                .comments
                .binary_search_by_key(&report.frame, |(frame, _)| *frame)
        {
            let comment = &digest.comments[at].1;
            self.owners
                .add(report.notes.connection, Endpoint::both(&report.segment), comment);
        }
        on_item(CaptureItem::Segment(ReportedSegment {
            frame: report.frame,
            time_ns: report.time_ns,
            since_ns: report.time_ns.saturating_sub(self.first_ns.unwrap_or(0)),
            segment: &report.segment,
            notes: &report.notes,
        }))
    }

    fn add_finished(&mut self, finished: Box<Finished>, on_item: &mut OnItem<'_>) -> anyhow::Result<()> {
        let owners = self.owners.take(&finished.connection);
        on_item(CaptureItem::Connection(finished, owners))
    }

    /// Returns the counts of the capture, once it is read.
    pub(crate) fn tally(&self) -> CaptureTally {
        let counters = self.counters;
        let Some(capture) = &self.capture else {
            return self.tally;
        };
        let skipped = capture.skipped();
        CaptureTally {
            packets: capture.packets(),
            segments: counters.segments,
            connections: counters.connections,
            too_long: skipped.too_long,
            of_unknown_interfaces: skipped.of_unknown_interfaces,
            without_time: skipped.without_time,
            times_backwards: counters.times_backwards,
            connections_cut_short: counters.connections_cut_short,
            not_waited_for: counters.unacked_left_out,
            dropped: self.dropped(),
            is_interrupted: capture.is_interrupted(),
            is_cut: capture.cut().is_some() || capture.is_packing_cut(),
            ..self.tally
        }
    }

    /// Returns the packets that were lost while capturing; `None` if the file does not have the count.
    fn dropped(&self) -> Option<u64> {
        let interfaces = self.capture.as_ref()?.interfaces().iter();
        interfaces
            .filter_map(|interface| interface.dropped)
            .reduce(u64::saturating_add)
    }

    /// Returns the exit status if a signal ended the reading; else `None`.
    pub(crate) fn interrupted(&self) -> Option<ExitCode> {
        let signal = self
            .interrupts
            .caught()
            .filter(|_| self.capture.as_ref().is_some_and(Capture::is_interrupted))?;
        Some(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)))
    }

    /// Returns the names of the interfaces in the capture, each once; at most 64.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self
            .capture
            .iter()
            .flat_map(sockeye_source::capture::Capture::interfaces)
            .filter_map(|interface| interface.name.as_ref())
        {
            if !names.contains(name) && names.len() < INTERFACES_MAX {
                names.push(name.clone());
            }
        }
        names
    }

    /// Returns the bytes that were read, for messages: `2.3GB of 10.7GB`.
    pub(super) fn bytes_read(&self) -> String {
        bytes_of(self.capture.as_ref().map(Capture::position).unwrap_or_default())
    }

    /// Returns the name of the capture, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Limit for names of interfaces.
const INTERFACES_MAX: usize = 64;

/// Connections that are ended at a time, when the capture is over.
const FINISHED_TOGETHER: usize = 2_048;
