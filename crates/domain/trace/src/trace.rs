//! Segments of many connections, each told to its own.

use crate::flow::Flow;
use crate::rules::{Captured, Room};
use crate::{Connection, SegmentNotes, Series};
use foldhash::{HashMap, HashMapExt};
use sockeye_wire::packet::Segment;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Takes segments in the order of their capture.
///
/// Memory is bounded: connections that are over are given out by [`Trace::finished`] and forgotten, and at
/// [`Options::connections_max`] those that were quiet for longest are.
#[derive(Debug)]
pub struct Trace {
    options: Options,
    numbers: HashMap<Tuple, u32>,
    /// By place; empty places are in `free`
    flows: Vec<Option<Box<Flow>>>,
    free: Vec<u32>,
    /// Closed connections, in that order: place and number
    closed: VecDeque<(u32, u32)>,
    finished: VecDeque<Finished>,
    last: Option<(Tuple, u32)>,
    next_number: u32,
    first_ns: Option<u64>,
    hand: usize,
    room: Room,
    /// No more points can be forgotten for others
    is_full_of_points: bool,
    counters: Counters,
}

/// What to keep, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which connections to keep the points of a graph of
    pub series: Keep,
    /// At most so many points of all connections together that are not given out. Of [`Keep::All`], the connections that have
    /// fewest lose theirs when there is no room left; else what comes later has none
    pub series_points_max: usize,
    /// At most so many connections at once
    pub connections_max: usize,
    /// At most so many closed connections that wait for stragglers
    pub closed_max: usize,
    /// And at most for so long, in nanoseconds
    pub closed_ns_max: u64,
    /// At most so many events of one connection
    pub events_max: usize,
    /// The same, of one whose points are kept; they count as points
    pub series_events_max: usize,
    /// At most so many segments without acknowledgement of all connections together
    pub unacked_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            series: Keep::None,
            series_points_max: 16 << 20,
            connections_max: 120_000,
            closed_max: 4_096,
            closed_ns_max: 120_000_000_000,
            events_max: 256,
            series_events_max: 1 << 17,
            unacked_max: 500_000,
        }
    }
}

/// Connections to keep something of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// None of them
    None,
    /// Each of them
    All,
    /// Those with these numbers
    Numbers(Vec<u32>),
}

impl Keep {
    fn has(&self, number: u32) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Numbers(numbers) => numbers.contains(&number),
        }
    }
}

/// A connection that is over, or the capture is.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// What is known of it
    pub connection: Connection,
    /// Points of its graph, if they were wanted and not forgotten
    pub series: Option<Box<Series>>,
}

/// What there was, and what there was no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Segments
    pub segments: u64,
    /// Connections
    pub connections: u64,
    /// Connections that were given out before they were over, as there were too many at once
    pub connections_cut_short: u64,
    /// Segments that were not waited for, as too many waited: their acknowledgements measure nothing
    pub unacked_left_out: u64,
    /// Segments that are missing in graphs, as there was no room
    pub points_left_out: u64,
    /// Connections of which there are no points (any more), as those of others need the room
    pub series_forgotten: u64,
    /// Segments whose time is before that of the one before them
    pub times_backwards: u64,
    /// Memory of all that is kept now, about, in bytes
    pub memory_bytes: u64,
}

impl Trace {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let room = Room {
            left: options.unacked_max,
            refused: 0,
            points_left: options.series_points_max,
            points_refused: 0,
        };
        Self {
            options,
            numbers: HashMap::new(),
            flows: Vec::new(),
            free: Vec::new(),
            closed: VecDeque::new(),
            finished: VecDeque::new(),
            last: None,
            next_number: 0,
            first_ns: None,
            hand: 0,
            room,
            is_full_of_points: false,
            counters: Counters::default(),
        }
    }

    /// The next segment: its frame, counted from 1, and its time.
    pub fn segment(&mut self, frame: u64, time_ns: u64, segment: &Segment) -> SegmentNotes {
        self.counters.segments += 1;
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let time_ns = time_ns.clamp(
            first_ns.saturating_sub(LASTING_NS_MAX),
            first_ns.saturating_add(LASTING_NS_MAX),
        );
        let (tuple, from) = Tuple::of(segment);
        let captured = Captured {
            frame,
            time_ns,
            segment,
            train: 0,
        };
        let mut notes = SegmentNotes::default();

        let mut place = self.find(&tuple);
        if let Some(old) = place {
            let is_reused = self
                .flow(old)
                .is_some_and(|flow| flow.rules.is_reused(from, segment));
            if is_reused {
                self.give_out(old);
                notes.flags = notes.flags.with(crate::Flag::ReusedPorts);
                place = None;
            }
        }
        let is_new = place.is_none();
        let place = place.unwrap_or_else(|| self.open(tuple, from, &captured, first_ns));
        let is_reused = !notes.flags.is_empty();
        let Some(Some(flow)) = self.flows.get_mut(place as usize) else {
            return notes;
        };
        notes.connection = flow.number;
        flow.count_completeness(segment, is_new && !is_reused, is_reused);
        let was_closed = flow.is_closed();
        flow.segment(from, captured, &mut notes, &mut self.room, &mut self.counters);
        if flow.is_closed() && !was_closed {
            self.closed.push_back((place, flow.number));
        }
        if self.room.points_left == 0 && !self.is_full_of_points {
            self.forget_points();
        }
        self.forget_closed(time_ns);
        notes
    }

    /// The next connection that is over, in the order in which they ended.
    pub fn finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// The capture is over: each connection that was not given out before, in the order of their numbers.
    pub fn finish(&mut self) -> impl Iterator<Item = Finished> + use<'_> {
        self.numbers.clear();
        self.closed.clear();
        self.last = None;
        let mut places: Vec<u32> = (0..self.flows.len() as u32).collect();
        places.retain(|place| self.flows[*place as usize].is_some());
        places.sort_unstable_by_key(|place| self.flow(*place).map(|flow| flow.number));
        let mut done: VecDeque<Finished> = std::mem::take(&mut self.finished);
        let mut places = places.into_iter();
        std::iter::from_fn(move || {
            if let Some(finished) = done.pop_front() {
                return Some(finished);
            }
            let flow = self.flows[places.next()? as usize].take()?;
            Some(self.conclude(*flow))
        })
    }

    /// What there was, and what there was no room for.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let flows = self
            .flows
            .iter()
            .flatten()
            .map(|flow| flow.memory_bytes())
            .sum::<usize>();
        let tables = self.flows.capacity() * 8 + self.numbers.capacity() * (size_of::<Tuple>() + 8);
        Counters {
            connections: u64::from(self.next_number),
            unacked_left_out: self.room.refused,
            points_left_out: self.room.points_refused,
            memory_bytes: (flows + tables) as u64,
            ..self.counters
        }
    }

    fn find(&mut self, tuple: &Tuple) -> Option<u32> {
        if let Some((last, place)) = &self.last
            && last == tuple
        {
            return Some(*place);
        }
        let place = self.numbers.get(tuple).copied()?;
        self.last = Some((*tuple, place));
        Some(place)
    }

    fn flow(&self, place: u32) -> Option<&Flow> {
        self.flows.get(place as usize)?.as_deref()
    }

    fn open(&mut self, tuple: Tuple, from: usize, captured: &Captured<'_>, first_ns: u64) -> u32 {
        if self.numbers.len() >= self.options.connections_max {
            self.make_room();
        }
        let number = self.next_number;
        self.next_number += 1;
        let is_wanted = self.options.series.has(number);
        let keeps_series = is_wanted && !self.is_full_of_points;
        self.counters.series_forgotten += u64::from(is_wanted && !keeps_series);
        let events_max = if keeps_series {
            self.options.series_events_max
        } else {
            self.options.events_max
        };
        let flow = Box::new(Flow::new(
            tuple,
            number,
            from,
            captured,
            first_ns,
            events_max,
            keeps_series,
        ));
        let place = match self.free.pop() {
            Some(place) => {
                self.flows[place as usize] = Some(flow);
                place
            }
            None => {
                self.flows.push(Some(flow));
                (self.flows.len() - 1) as u32
            }
        };
        self.numbers.insert(tuple, place);
        self.last = Some((tuple, place));
        place
    }

    /// Gives out one connection before its end: a closed one, else of some the one that was quiet for longest.
    fn make_room(&mut self) {
        while let Some((place, number)) = self.closed.pop_front() {
            if self.flow(place).is_some_and(|flow| flow.number == number) {
                return self.give_out(place);
            }
        }
        let mut oldest: Option<(u64, u32)> = None;
        for _ in 0..LOOKED_AT.min(self.flows.len()) {
            self.hand = (self.hand + 1) % self.flows.len();
            if let Some(flow) = &self.flows[self.hand] {
                let age = (flow.last_ns, self.hand as u32);
                oldest = Some(oldest.map_or(age, |oldest| oldest.min(age)));
            }
        }
        if let Some((_, place)) = oldest {
            self.counters.connections_cut_short += 1;
            self.give_out(place);
        }
    }

    /// Gives out connections that were closed for so long that no straggler will come.
    fn forget_closed(&mut self, now_ns: u64) {
        while let Some((place, number)) = self.closed.front().copied() {
            let flow = self.flow(place).filter(|flow| flow.number == number);
            let is_crowded = self.closed.len() > self.options.closed_max;
            let stays = flow.is_some_and(|flow| {
                !is_crowded && now_ns.saturating_sub(flow.last_ns) <= self.options.closed_ns_max
            });
            if stays {
                return;
            }
            let is_there = flow.is_some();
            self.closed.pop_front();
            if is_there {
                self.give_out(place);
            }
        }
    }

    /// Makes room for points: the connections that have fewest lose theirs, until a quarter is free. The biggest keeps its own.
    fn forget_points(&mut self) {
        if self.options.series != Keep::All {
            self.is_full_of_points = true;
            return;
        }
        let points = |(place, flow): (usize, &Option<Box<Flow>>)| Some((flow.as_ref()?.points()?, place));
        let mut kept: Vec<_> = self.flows.iter().enumerate().filter_map(points).collect();
        kept.sort_unstable();
        kept.pop();
        let wanted = self.options.series_points_max / 4;
        for (points, place) in kept {
            if self.room.points_left >= wanted {
                break;
            }
            if let Some(flow) = self.flows[place].as_mut() {
                flow.forget_points();
                self.room.points_left += points;
                self.counters.series_forgotten += 1;
            }
        }
        // One alone needs all of it: looking again and again would find nothing.
        self.is_full_of_points = self.room.points_left < wanted;
    }

    fn give_out(&mut self, place: u32) {
        let Some(flow) = self.flows[place as usize].take() else {
            return;
        };
        self.free.push(place);
        self.numbers.remove(&flow.tuple);
        self.last = None;
        let finished = self.conclude(*flow);
        self.finished.push_back(finished);
    }

    fn conclude(&mut self, flow: Flow) -> Finished {
        self.room.give_back(flow.unacked());
        if let Some(points) = flow.points() {
            let left = self.room.points_left.saturating_add(points);
            self.room.points_left = left.min(self.options.series_points_max);
            self.is_full_of_points &= self.room.points_left < self.options.series_points_max / 4;
        }
        flow.finish()
    }
}

/// Both ends of a connection, in an order that does not depend on who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    pub(crate) ips: [IpAddr; 2],
    pub(crate) ports: [u16; 2],
}

impl Tuple {
    /// Of this segment, and which of the two ends sent it.
    fn of(segment: &Segment) -> (Self, usize) {
        let source = (segment.source, segment.source_port);
        let destination = (segment.destination, segment.destination_port);
        let is_higher = source > destination;
        let (low, high) = if is_higher {
            (destination, source)
        } else {
            (source, destination)
        };
        (
            Self {
                ips: [low.0, high.0],
                ports: [low.1, high.1],
            },
            usize::from(is_higher),
        )
    }
}

/// Seventy years. Clocks that jump further do not matter for what they are; what is reckoned with times must have room.
const LASTING_NS_MAX: u64 = 1 << 61;
/// Of so many connections, the quietest makes room.
const LOOKED_AT: usize = 16;
