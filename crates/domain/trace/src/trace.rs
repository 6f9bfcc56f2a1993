//! Distributes the segments of a capture to their connections.

use crate::budget::Budget;
use crate::counters::Counters;
use crate::finished::Finished;
use crate::flow::Flow;
use crate::lookups::Lookups;
use crate::rules::{Captured, is_syn};
use crate::tuple::Tuple;
use crate::{Flag, SegmentNotes};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use sockeye_wire::packet::{Notice, Segment, TcpFlags};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Analyses segments in the order of their capture.
///
/// Memory is bounded: finished connections are returned by [`Trace::finished`] and dropped. At
/// [`Options::connections_max`] the connections that were quiet for longest are returned early.
#[derive(Debug)]
pub struct Trace {
    options: Options,
    indices: HashMap<Tuple, u32>,
    /// By index; free indices are in `free`
    flows: Vec<Option<Box<Flow>>>,
    free: Vec<u32>,
    /// Closed connections in the order of closing: index and number
    closed: VecDeque<(u32, u32)>,
    finished: VecDeque<Finished>,
    last: Option<(Tuple, u32)>,
    next_number: u32,
    first_ns: Option<u64>,
    /// Index where the search for a quiet connection continues
    eviction_start: usize,
    budget: Budget,
    /// No connection has points left that could be dropped for others
    is_full_of_points: bool,
    counters: Counters,
    lookups: Lookups,
    /// Servers that accepted a connection; at most [`ACCEPTING_MAX`]
    accepting: HashSet<(IpAddr, u16)>,
}

/// What to keep, and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Connections to keep graph points of
    pub series: Keep,
    /// Most points of unfinished connections together. With [`Keep::All`], the connections with the fewest
    /// points lose theirs when the limit is reached; otherwise later points are dropped
    pub series_points_max: usize,
    /// Most connections at once
    pub connections_max: usize,
    /// Most closed connections that wait for late segments
    pub closed_max: usize,
    /// Longest time that they wait, in nanoseconds
    pub closed_ns_max: u64,
    /// Most events of one connection
    pub events_max: usize,
    /// Most events of one connection with graph points; they count as points
    pub series_events_max: usize,
    /// Most unacknowledged segments of all connections together
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

/// A selection of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// No connection
    None,
    /// All connections
    All,
    /// Connections with these numbers
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

impl Trace {
    /// An analysis without segments.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let budget = Budget {
            left: options.unacked_max,
            refused: 0,
            points_left: options.series_points_max,
            points_refused: 0,
        };
        Self {
            options,
            indices: HashMap::new(),
            flows: Vec::new(),
            free: Vec::new(),
            closed: VecDeque::new(),
            finished: VecDeque::new(),
            last: None,
            next_number: 0,
            first_ns: None,
            eviction_start: 0,
            budget,
            is_full_of_points: false,
            counters: Counters::default(),
            lookups: Lookups::default(),
            accepting: HashSet::new(),
        }
    }

    /// Processes a packet that explains connections: an ICMP error belongs to the one that it quotes, a DNS answer to
    /// those that follow it.
    pub fn notice(&mut self, time_ns: u64, notice: Notice) {
        match notice {
            Notice::Dns(message) => self.lookups.add(time_ns, message),
            Notice::Icmp(error) => {
                let (tuple, from) = Tuple::of_ends(error.source, error.destination);
                let flow = self
                    .find(&tuple)
                    .and_then(|index| self.flows.get_mut(index as usize)?.as_deref_mut());
                if let Some(flow) = flow {
                    flow.icmp(from, time_ns, &error);
                }
            }
        }
    }

    /// Processes the next segment: its frame, counted from 1, and its time.
    pub fn segment(&mut self, frame: u64, time_ns: u64, segment: &Segment) -> SegmentNotes {
        self.counters.segments += 1;
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let time_ns = time_ns.clamp(
            first_ns.saturating_sub(TIME_NS_MAX),
            first_ns.saturating_add(TIME_NS_MAX),
        );
        let (tuple, from) = Tuple::of(segment);
        let captured = Captured {
            frame,
            time_ns,
            segment,
            train: 0,
        };
        let mut notes = SegmentNotes::default();

        let mut index = self.find(&tuple);
        if let Some(old) = index {
            let is_reused = self
                .flow(old)
                .is_some_and(|flow| flow.rules.is_reused(from, segment));
            if is_reused {
                self.retire(old);
                notes.flags = notes.flags.with(Flag::ReusedPorts);
                index = None;
            }
        }
        let is_new = index.is_none();
        let index = index.unwrap_or_else(|| self.open(tuple, from, &captured, first_ns));
        let is_reused = !notes.flags.is_empty();
        let Some(Some(flow)) = self.flows.get_mut(index as usize) else {
            return notes;
        };
        notes.connection = flow.number;
        let is_answer = segment.flags.has(TcpFlags::SYN) && segment.flags.has(TcpFlags::ACK);
        if is_answer && self.accepting.len() < ACCEPTING_MAX {
            self.accepting.insert((segment.source, segment.source_port));
        }
        flow.count_completeness(segment, is_new && !is_reused, is_reused);
        if is_new && is_syn(segment) {
            let (client, server) = flow.addresses();
            if let Some(lookup) = self.lookups.before(time_ns, client, server) {
                flow.set_lookup(lookup);
            }
        }
        let was_closed = flow.is_closed();
        flow.segment(from, captured, &mut notes, &mut self.budget, &mut self.counters);
        if flow.is_closed() && !was_closed {
            self.closed.push_back((index, flow.number));
        }
        if self.budget.points_left == 0 && !self.is_full_of_points {
            self.drop_points();
        }
        self.return_closed(time_ns);
        notes
    }

    /// The next finished connection, in the order of their ends.
    pub fn finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Ends the capture: returns all remaining connections, in the order of their numbers.
    pub fn finish(&mut self) -> impl Iterator<Item = Finished> + use<'_> {
        self.indices.clear();
        self.closed.clear();
        self.last = None;
        let mut indices: Vec<u32> = (0..self.flows.len() as u32).collect();
        indices.retain(|index| self.flows[*index as usize].is_some());
        indices.sort_unstable_by_key(|index| self.flow(*index).map(|flow| flow.number));
        let mut done: VecDeque<Finished> = std::mem::take(&mut self.finished);
        let mut indices = indices.into_iter();
        std::iter::from_fn(move || {
            if let Some(finished) = done.pop_front() {
                return Some(finished);
            }
            let flow = self.flows[indices.next()? as usize].take()?;
            Some(self.finish_flow(flow))
        })
    }

    /// Totals, and what did not fit.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let flows = self
            .flows
            .iter()
            .flatten()
            .map(|flow| flow.memory_bytes())
            .sum::<usize>();
        let tables = self.flows.capacity() * 8 + self.indices.capacity() * (size_of::<Tuple>() + 8);
        Counters {
            connections: u64::from(self.next_number),
            unacked_left_out: self.budget.refused,
            points_left_out: self.budget.points_refused,
            memory_bytes: (flows + tables) as u64,
            ..self.counters
        }
    }

    #[inline]
    fn find(&mut self, tuple: &Tuple) -> Option<u32> {
        if let Some((last, index)) = &self.last
            && last == tuple
        {
            return Some(*index);
        }
        let index = self.indices.get(tuple).copied()?;
        self.last = Some((*tuple, index));
        Some(index)
    }

    fn flow(&self, index: u32) -> Option<&Flow> {
        self.flows.get(index as usize)?.as_deref()
    }

    fn open(&mut self, tuple: Tuple, from: usize, captured: &Captured<'_>, first_ns: u64) -> u32 {
        if self.indices.len() >= self.options.connections_max {
            self.evict_one();
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
        let index = match self.free.pop() {
            Some(index) => {
                self.flows[index as usize] = Some(flow);
                index
            }
            None => {
                self.flows.push(Some(flow));
                (self.flows.len() - 1) as u32
            }
        };
        self.indices.insert(tuple, index);
        self.last = Some((tuple, index));
        index
    }

    /// Returns one connection early: a closed one, or the quietest of some.
    fn evict_one(&mut self) {
        while let Some((index, number)) = self.closed.pop_front() {
            if self.flow(index).is_some_and(|flow| flow.number == number) {
                return self.retire(index);
            }
        }
        let mut oldest: Option<(u64, u32)> = None;
        for _ in 0..EVICTION_SAMPLE.min(self.flows.len()) {
            self.eviction_start = (self.eviction_start + 1) % self.flows.len();
            if let Some(flow) = &self.flows[self.eviction_start] {
                let age = (flow.last_ns, self.eviction_start as u32);
                oldest = Some(oldest.map_or(age, |oldest| oldest.min(age)));
            }
        }
        if let Some((_, index)) = oldest {
            self.counters.connections_cut_short += 1;
            self.retire(index);
        }
    }

    /// Returns connections that were closed for so long that no late segment will come.
    fn return_closed(&mut self, now_ns: u64) {
        while let Some((index, number)) = self.closed.front().copied() {
            let flow = self.flow(index).filter(|flow| flow.number == number);
            let is_crowded = self.closed.len() > self.options.closed_max;
            let may_continue = flow.is_some_and(|flow| {
                !is_crowded && now_ns.saturating_sub(flow.last_ns) <= self.options.closed_ns_max
            });
            if may_continue {
                return;
            }
            let is_open = flow.is_some();
            self.closed.pop_front();
            if is_open {
                self.retire(index);
            }
        }
    }

    /// Frees points: the connections with the fewest lose theirs, until a quarter is free. The largest keeps
    /// its own.
    fn drop_points(&mut self) {
        if self.options.series != Keep::All {
            self.is_full_of_points = true;
            return;
        }
        let points = |(index, flow): (usize, &Option<Box<Flow>>)| Some((flow.as_ref()?.points()?, index));
        let mut kept: Vec<_> = self.flows.iter().enumerate().filter_map(points).collect();
        kept.sort_unstable();
        kept.pop();
        let goal = self.options.series_points_max / 4;
        for (points, index) in kept {
            if self.budget.points_left >= goal {
                break;
            }
            if let Some(flow) = self.flows[index].as_mut() {
                flow.drop_points();
                self.budget.points_left += points;
                self.counters.series_forgotten += 1;
            }
        }
        // One connection needs all of the budget: a new search would find nothing.
        self.is_full_of_points = self.budget.points_left < goal;
    }

    fn retire(&mut self, index: u32) {
        let Some(flow) = self.flows[index as usize].take() else {
            return;
        };
        self.free.push(index);
        self.indices.remove(&flow.tuple);
        self.last = None;
        let finished = self.finish_flow(flow);
        self.finished.push_back(finished);
    }

    fn finish_flow(&mut self, mut flow: Box<Flow>) -> Finished {
        self.budget.release(flow.unacked());
        if let Some(points) = flow.points() {
            let left = self.budget.points_left.saturating_add(points);
            self.budget.points_left = left.min(self.options.series_points_max);
            self.is_full_of_points &= self.budget.points_left < self.options.series_points_max / 4;
        }
        let mut finished = flow.finish();
        let connection = &mut finished.connection;
        let server = (connection.server.ip, connection.server.port);
        connection.has_server_answered = connection.syn_acks == 0 && self.accepting.contains(&server);
        finished
    }
}

/// Seventy years. Larger clock jumps are clamped so that arithmetic with times cannot overflow.
const TIME_NS_MAX: u64 = 1 << 61;
/// Servers that are remembered.
const ACCEPTING_MAX: usize = 65_536;
/// Connections among which the quietest is searched.
const EVICTION_SAMPLE: usize = 16;
