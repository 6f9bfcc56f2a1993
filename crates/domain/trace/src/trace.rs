//! Analyses a capture on one thread.

use crate::counters::Counters;
use crate::finished::Finished;
use crate::merge::Merge;
use crate::router::Router;
use crate::shard::{Arrival, SHARDS, Shard};
use crate::{Options, SegmentNotes};
use sockeye_wire::packet::{IcmpError, Notice, Segment};
use std::collections::VecDeque;

/// Analyses segments in the order of their capture.
///
/// Memory is bounded: finished connections are returned by [`Trace::finished`] and dropped. At
/// [`Options::connections_max`] the connections that were quiet for longest are returned early. The parts that it consists of,
/// [`Router`], [`Shard`] and [`Merge`], give the same result on several threads.
#[derive(Debug)]
pub struct Trace {
    options: Options,
    router: Router,
    shards: Vec<Shard>,
    merge: Merge,
    finished: VecDeque<Finished>,
    points_left: usize,
    is_full_of_points: bool,
    frame: u64,
}

impl Trace {
    /// An analysis without segments.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            router: Router::default(),
            shards: (0..SHARDS).map(|_| Shard::new(&options)).collect(),
            merge: Merge::default(),
            finished: VecDeque::new(),
            points_left: options.series_points_max,
            is_full_of_points: false,
            frame: 0,
            options,
        }
    }

    /// Processes a packet that explains connections: an ICMP error belongs to the one that it quotes, a DNS answer to
    /// those that follow it.
    pub fn notice(&mut self, time_ns: u64, notice: Notice) {
        if let Some(error) = self.router.notice(time_ns, notice) {
            self.icmp(self.frame, time_ns, &error);
        }
    }

    /// Processes an ICMP error.
    pub fn icmp(&mut self, frame: u64, time_ns: u64, error: &IcmpError) {
        let shard = Router::shard_of_error(error);
        self.shards[shard].icmp(frame, time_ns, error);
        self.take_events(shard);
    }

    /// Processes the next segment: its frame, counted from 1, and its time.
    pub fn segment(&mut self, frame: u64, time_ns: u64, segment: &Segment) -> SegmentNotes {
        self.frame = frame;
        let origin_ns = self.router.origin_ns(time_ns);
        let time_ns = Router::time_ns(origin_ns, time_ns);
        let lookup = if self.router.has_lookups() {
            self.router.lookup(time_ns, segment)
        } else {
            None
        };
        self.arrive(Arrival {
            frame,
            time_ns,
            origin_ns,
            segment,
            lookup,
        })
    }

    /// Processes the next segment that another [`Router`] prepared.
    pub fn arrive(&mut self, arrival: Arrival<'_>) -> SegmentNotes {
        let index = Router::shard(arrival.segment);
        let shard = &mut self.shards[index];
        shard.next_number = self.merge.next_number();
        shard.is_full_of_points = self.is_full_of_points;
        *shard.points_left() = self.points_left;
        let notes = shard.segment(arrival);
        self.points_left = *shard.points_left();
        self.is_full_of_points = shard.is_full_of_points;
        if shard.has_events() {
            self.take_events(index);
        }
        if self.points_left == 0 && !self.is_full_of_points {
            self.drop_points();
        }
        notes
    }

    /// The next finished connection, in the order of their ends.
    pub fn finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Ends the capture: returns all remaining connections, in the order of their numbers.
    pub fn finish(&mut self) -> impl Iterator<Item = Finished> + use<'_> {
        let mut remaining = Remaining::new(&mut self.shards, &self.merge);
        std::iter::from_fn(move || {
            if let Some(finished) = self.finished.pop_front() {
                return Some(finished);
            }
            remaining
                .next(&mut self.shards, &mut self.merge)
                .map(|finished| *finished)
        })
    }

    /// Totals, and what did not fit.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let shards = self.shards.iter().map(Shard::counters);
        Counters {
            connections: u64::from(self.merge.next_number()),
            ..shards.sum()
        }
    }

    fn take_events(&mut self, index: usize) {
        let mut events: Vec<_> = self.shards[index].drain_events().collect();
        events.sort_by_key(crate::ShardEvent::order);
        for event in events {
            let finished = self.merge.add(index, event);
            self.finished.extend(finished.map(|finished| *finished));
        }
    }

    /// Frees points: the connections with the fewest lose theirs, until a quarter is free. The largest keeps
    /// its own.
    fn drop_points(&mut self) {
        if self.options.series != crate::Keep::All {
            self.is_full_of_points = true;
            return;
        }
        let shards = self.shards.iter().enumerate();
        let mut kept: Vec<_> = shards
            .flat_map(|(shard, flows)| {
                flows
                    .with_points()
                    .map(move |(points, place)| (points, shard, place))
            })
            .collect();
        kept.sort_unstable();
        kept.pop();
        let goal = self.options.series_points_max / 4;
        for (points, shard, place) in kept {
            if self.points_left >= goal {
                break;
            }
            self.shards[shard].drop_points(place);
            self.points_left += points;
        }
        // One connection needs all of the budget: a new search would find nothing.
        self.is_full_of_points = self.points_left < goal;
    }
}

/// The connections that are open at the end of the capture, in the order of their numbers.
#[derive(Debug)]
pub struct Remaining(std::vec::IntoIter<(u32, u8, u32)>);

impl Remaining {
    /// Those of all shards, which get no more segments.
    #[must_use]
    pub fn new(shards: &mut [Shard], merge: &Merge) -> Self {
        let mut all = Vec::new();
        for (index, shard) in shards.iter_mut().enumerate() {
            let of_shard = shard.remaining().into_iter();
            all.reserve_exact(of_shard.len());
            all.extend(of_shard.map(|(number, place)| (merge.number(index, number), index as u8, place)));
        }
        all.sort_unstable();
        Self(all.into_iter())
    }

    /// Removes the next connections, at most `max`: shard and place of each, for [`Shard::finish`].
    pub fn take(&mut self, max: usize) -> Vec<(usize, u32)> {
        let next = self.0.by_ref().take(max);
        next.map(|(_, shard, place)| (usize::from(shard), place))
            .collect()
    }

    /// Ends the next connection, and returns it.
    pub fn next(&mut self, shards: &mut [Shard], merge: &mut Merge) -> Option<Box<Finished>> {
        loop {
            let (_, shard, place) = self.0.next()?;
            let shard = usize::from(shard);
            if let Some(mut finished) = shards.get_mut(shard).and_then(|shard| shard.finish(place)) {
                merge.complete(shard, &mut finished);
                return Some(finished);
            }
        }
    }
}
