//! Which samples answer for the points of a timeline, and what of the store has to be read for them: samples between are read for the
//! connections that ended before the next point.

use sockeye_history::{Gap, GapReason, GroupReader, Identity, SampleConnections, Sums, Timeline, Values};
use sockeye_model::{Cookie, Losses, NetnsInode};
use sockeye_query::context::QueryContext;
use sockeye_store::{Moment, Nearest, PeriodTotals, SampleTime, StoreReader, Toward, WalkedSample};
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

/// Identifies a connection.
pub(super) type ConnectionId = (Option<NetnsInode>, Cookie);

/// The points of a timeline, by time.
pub(super) struct PointPlan {
    since_ms: u64,
    points: Vec<PlannedPoint>,
    /// Numbers of the samples whose connections are compared.
    samples: BTreeSet<i64>,
    /// What was transferred, by time, if it is known without comparing samples.
    transferred: Option<Vec<Transferred>>,
}

/// What was transferred in a time, in milliseconds since 1970.
struct Transferred {
    times_ms: (u64, u64),
    sums: Sums,
}

struct PlannedPoint {
    at_ms: u64,
    nearest: Nearest<SampleTime>,
    /// A gap since the point before.
    gap: Option<GapReason>,
}

impl PointPlan {
    /// Finds the samples that answer for points at these times.
    pub(super) fn new(
        store: &StoreReader,
        since_ms: u64,
        times_ms: Vec<u64>,
        totals: Option<Vec<PeriodTotals>>,
    ) -> anyhow::Result<Self> {
        let until_ms = times_ms.last().copied().unwrap_or(since_ms);
        let mut gaps = store.gaps_within((since_ms, until_ms))?;
        // One that was late has lost nothing.
        gaps.retain(|gap| gap.reason != GapReason::Late);
        let mut samples = BTreeSet::new();
        let mut add = |nearest: &Nearest<SampleTime>| {
            if let Nearest::Sample(sample) = nearest {
                samples.insert(sample.id);
            }
        };
        if totals.is_none() {
            // What was transferred is known from the sample before the begin to the one after the end, and up to each gap.
            add(&store.sample_at(since_ms)?);
            if let Some(after_ms) = store.next_sample(until_ms, Toward::Future)? {
                add(&store.sample_at(after_ms)?);
            }
            for gap in gaps.iter().take(GAPS_MAX) {
                add(&store.sample_at(gap.from_ms)?);
                add(&store.sample_at(gap.to_ms)?);
            }
        }
        let transferred = totals
            .map(|totals| transferred(store, (since_ms, until_ms), &totals))
            .transpose()?;
        let mut points = Vec::with_capacity(times_ms.len());
        let mut before_ms = since_ms;
        for at_ms in times_ms {
            let between = std::mem::replace(&mut before_ms, at_ms)..at_ms;
            let nearest = store.sample_at(at_ms)?;
            add(&nearest);
            let gap = gaps.iter().find(|gap| overlaps(gap, &between));
            points.push(PlannedPoint {
                at_ms,
                nearest,
                gap: gap.map(|gap| gap.reason),
            });
        }
        Ok(Self {
            since_ms,
            points,
            samples,
            transferred,
        })
    }

    /// Reads the samples. `connections` returns those of the moment that the context lists.
    pub(super) fn read(
        self,
        store: &StoreReader,
        context: &mut QueryContext,
        connections: &dyn Fn(&QueryContext) -> anyhow::Result<SampleConnections<ConnectionId>>,
    ) -> anyhow::Result<Timeline<ConnectionId>> {
        let mut timeline = Timeline::new(self.since_ms);
        let mut points = self.points.into_iter().peekable();
        let mut ended: Vec<(Identity, Values)> = Vec::new();
        let mut is_separate = false;
        let mut failed = None;
        // The most sockets of a sample, if none of any is in a selected network namespace.
        let mut elsewhere = Some(0);
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            points.for_each(|point| point.add_to(&mut timeline));
            return Ok(timeline);
        };
        let is_summed = self.transferred.is_some();
        for transferred in self.transferred.iter().flatten() {
            timeline.add_transferred(transferred.times_ms, &transferred.sums);
        }
        // With sums no sample between is needed.
        let ranges: Vec<_> = if is_summed {
            self.samples.iter().map(|id| (*id, *id)).collect()
        } else {
            vec![(*first, *last)]
        };
        let mut visit = |sample: &WalkedSample, sockets: &GroupReader| {
            is_separate |= sample.is_separate || is_summed;
            if !self.samples.contains(&sample.id) {
                ended.extend(
                    sockets
                        .ended()
                        .map(|(identity, values)| (identity.clone(), *values)),
                );
                return ControlFlow::Continue(());
            }
            while let Some(point) = points.next_if(|point| point.is_before(sample)) {
                point.add_to(&mut timeline);
            }
            if std::mem::take(&mut is_separate) {
                timeline.forget();
            }
            let netns_names = match store.netns_names(sample.at_ms) {
                Ok(names) => names,
                Err(error) => {
                    failed = Some(error.into());
                    return ControlFlow::Break(());
                }
            };
            context.set_moment(Moment {
                at_ms: sample.at_ms,
                sockets: sockets.clone().with(std::mem::take(&mut ended)),
                losses: Losses::default(),
                boot_id: sample.boot_id.clone(),
                host: sample.host.clone(),
                has_ends: false,
                netns_names,
            });
            elsewhere = elsewhere.and_then(|most| Some(context.recorded_elsewhere()?.max(most)));
            match connections(context) {
                Ok(found) => timeline.add_sample(sample.at_ms, found),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            while let Some(point) = points.next_if(|point| point.sample() == Some(sample.id)) {
                point.add_to(&mut timeline);
            }
            ControlFlow::Continue(())
        };
        for range in ranges {
            store.visit_samples(range, &mut visit)?;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        points.for_each(|point| point.add_to(&mut timeline));
        if elsewhere.is_some() {
            context.note_elsewhere();
        }
        Ok(timeline)
    }
}

/// Returns what the totals of five minutes have between two times, in milliseconds since 1970. A period with gaps has its totals in parts
/// as long as what was recorded of it: where in it they were transferred is not known.
fn transferred(
    store: &StoreReader,
    (since_ms, until_ms): (u64, u64),
    totals: &[PeriodTotals],
) -> anyhow::Result<Vec<Transferred>> {
    let coverage = store.coverage((since_ms / 1000, until_ms.div_ceil(1000)), false)?;
    let mut all = Vec::new();
    for covered in &coverage {
        let place = totals.binary_search_by_key(&covered.start_s, |period| period.start_s);
        let sums = place.map_or_else(|_| Sums::default(), |place| totals[place].sums);
        let parts_ms: u64 = covered.parts.iter().map(|(from_ms, to_ms)| to_ms - from_ms).sum();
        let share =
            |sum: u64, ms: u64| (u128::from(sum) * u128::from(ms) / u128::from(parts_ms.max(1))) as u64;
        let mut passed_ms = 0;
        for (from_ms, to_ms) in &covered.parts {
            let before_ms = passed_ms;
            passed_ms += to_ms - from_ms;
            // Parts add up to the whole.
            let part = |sum: u64| share(sum, passed_ms) - share(sum, before_ms);
            all.push(Transferred {
                times_ms: (*from_ms, *to_ms),
                sums: Sums {
                    sent_bytes: part(sums.sent_bytes),
                    received_bytes: part(sums.received_bytes),
                    retrans_segs: part(sums.retrans_segs),
                    ..Sums::default()
                },
            });
        }
    }
    Ok(all)
}

impl PlannedPoint {
    /// Returns the number of the sample that answers for it.
    const fn sample(&self) -> Option<i64> {
        match self.nearest {
            Nearest::Sample(sample) => Some(sample.id),
            _ => None,
        }
    }

    /// Whether it has to be added before a sample.
    fn is_before(&self, sample: &WalkedSample) -> bool {
        match self.sample() {
            Some(id) => id < sample.id,
            None => self.at_ms < sample.at_ms,
        }
    }

    fn add_to(self, timeline: &mut Timeline<ConnectionId>) {
        match self.nearest {
            Nearest::Sample(_) => {
                if let Some(reason) = self.gap {
                    timeline.note_gap(reason);
                }
                timeline.add_point(self.at_ms);
            }
            Nearest::Gap(gap) => timeline.add_gap(self.at_ms, gap.reason),
            // Nothing was recorded before the first sample, and after the last.
            Nearest::Before(_) | Nearest::After(_) | Nearest::Nothing => {
                timeline.add_gap(self.at_ms, GapReason::NotRunning);
            }
        }
    }
}

/// Whether no sample was taken in some part of a time.
fn overlaps(gap: &Gap, times_ms: &Range<u64>) -> bool {
    let (from_ms, to_ms) = (gap.from_ms.min(gap.to_ms), gap.from_ms.max(gap.to_ms));
    to_ms > times_ms.start && from_ms < times_ms.end
}

/// Gaps at whose ends samples are compared: with more, what was transferred in a point with a gap is known for a smaller part of it.
const GAPS_MAX: usize = 1_000;
