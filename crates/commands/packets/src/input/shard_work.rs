//! The analysis of a part of the connections in a block, and the merging of what all parts report.

use super::digest::ShardInput;
use sockeye_trace::{Arrival, EventOrder, Finished, Router, SegmentNotes, Shard, ShardEvent};
use sockeye_wire::packet::Segment;
use std::panic::resume_unwind;
use std::thread;

/// What one shard reports of a block.
#[derive(Debug, Default)]
pub(super) struct ShardOutput {
    events: Vec<ShardEvent>,
    segments: Vec<SegmentReport>,
}

/// A segment with flags, or with a comment.
#[derive(Debug)]
pub(super) struct SegmentReport {
    pub(super) frame: u64,
    pub(super) time_ns: u64,
    pub(super) segment: Segment,
    pub(super) has_comment: bool,
    /// With the number of the connection in its shard
    pub(super) notes: SegmentNotes,
}

/// What is reported of a block, in order.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there are few of each block
pub(super) enum Report {
    Event(ShardEvent),
    Segment(SegmentReport),
}

/// Which segments are reported, beyond those with comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportedSegments {
    /// No others.
    None,
    /// Those with flags.
    Flagged,
    /// All.
    All,
}

/// Analyses what a shard gets of a block.
pub(super) fn analyze(shard: &mut Shard, input: &mut ShardInput, reported: ReportedSegments) -> ShardOutput {
    let mut output = ShardOutput::default();
    let mut errors = input.errors.drain(..).peekable();
    // By reference: a segment is larger than what its analysis needs of it.
    for arrived in &mut input.segments {
        while let Some(error) = errors.next_if(|error| error.frame < arrived.frame) {
            shard.icmp(error.frame, error.time_ns, &error.error);
        }
        let notes = shard.segment(Arrival {
            frame: arrived.frame,
            time_ns: Router::time_ns(input.origin_ns, arrived.time_ns),
            origin_ns: input.origin_ns,
            segment: &arrived.segment,
            lookup: arrived.lookup.take(),
        });
        let is_reported = match reported {
            ReportedSegments::None => false,
            ReportedSegments::Flagged => !notes.flags.is_empty(),
            ReportedSegments::All => true,
        };
        if is_reported || arrived.has_comment {
            output.segments.push(SegmentReport {
                frame: arrived.frame,
                time_ns: arrived.time_ns,
                segment: arrived.segment,
                has_comment: arrived.has_comment,
                notes,
            });
        }
    }
    for error in errors {
        shard.icmp(error.frame, error.time_ns, &error.error);
    }
    input.segments.clear();
    shard.take_events(&mut output.events);
    output
}

/// Calls `each` with what all shards report of a block, and the shard, in the order in which one thread would report it.
pub(super) fn merge(
    outputs: Vec<ShardOutput>,
    each: &mut impl FnMut(usize, Report) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut order = Vec::new();
    for (shard, output) in outputs.iter().enumerate() {
        order.extend(output.events.iter().map(|event| (event.order(), shard)));
        let segments = output.segments.iter();
        order.extend(segments.map(|segment| ((segment.frame, EventOrder::Segment), shard)));
    }
    if order.is_empty() {
        return Ok(());
    }
    // A frame belongs to one shard, whose events of it are in this order, too.
    order.sort();
    let mut outputs: Vec<_> = outputs
        .into_iter()
        .map(|mut output| {
            output.events.sort_by_key(ShardEvent::order);
            (output.events.into_iter(), output.segments.into_iter())
        })
        .collect();
    for ((_, kind), shard) in order {
        let (events, segments) = &mut outputs[shard];
        let report = match kind {
            EventOrder::Segment => segments.next().map(Report::Segment),
            _ => events.next().map(Report::Event),
        };
        if let Some(report) = report {
            each(shard, report)?;
        }
    }
    Ok(())
}

/// Ends connections at these places of shards, on several threads; returns them in the same order.
pub(super) fn finish(
    shards: &mut [Shard],
    places: &[(usize, u32)],
    threads: usize,
) -> Vec<(usize, Box<Finished>)> {
    let mut all: Vec<Option<Box<Finished>>> = Vec::new();
    all.resize_with(places.len(), || None);
    let each = shards.len().div_ceil(threads.max(1)).max(1);
    let of_part = |first: usize, part: &mut [Shard]| -> Vec<(usize, Box<Finished>)> {
        let places = places.iter().enumerate();
        let own = places.filter(|(_, (shard, _))| (first..first + part.len()).contains(shard));
        let own: Vec<_> = own.collect();
        own.into_iter()
            .filter_map(|(at, (shard, place))| Some((at, part[shard - first].finish(*place)?)))
            .collect()
    };
    if threads <= 1 || places.len() < FEW {
        all = of_part(0, shards)
            .into_iter()
            .map(|(_, finished)| Some(finished))
            .collect();
    } else {
        thread::scope(|scope| {
            let parts = shards.chunks_mut(each).enumerate();
            let running: Vec<_> = parts
                .map(|(number, part)| scope.spawn(move || of_part(number * each, part)))
                .collect();
            for part in running {
                for (at, finished) in part.join().unwrap_or_else(|panic| resume_unwind(panic)) {
                    all[at] = Some(finished);
                }
            }
        });
    }
    let shards = places.iter().map(|(shard, _)| *shard);
    shards
        .zip(all)
        .filter_map(|(shard, finished)| Some((shard, finished?)))
        .collect()
}

/// Fewer connections are ended by the thread that needs them.
const FEW: usize = 64;
