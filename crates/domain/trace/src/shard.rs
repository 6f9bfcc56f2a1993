//! The connections of one part of a capture. Connections are distributed by a hash of their ends, so that each shard can be
//! analysed without the others, and the result does not depend on which of them run at the same time.

use crate::budget::Budget;
use crate::connection_index::ConnectionIndex;
use crate::counters::Counters;
use crate::finished::Finished;
use crate::flow::Flow;
use crate::opening::{Opening, OpeningSegment, Openings, can_be_kept};
use crate::rules::{Captured, is_syn};
use crate::tuple::Tuple;
use crate::{Flag, NameLookup, Options, SegmentNotes};
use sockeye_wire::packet::{IcmpError, Segment, TcpFlags};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Number of shards of every analysis, however many processors there are: limits and results depend on it.
pub const SHARDS: usize = 16;

/// A part of the connections of a capture.
///
/// [`Merge`](crate::Merge) makes one result of the events of all shards.
#[derive(Debug)]
pub struct Shard {
    options: Options,
    index: ConnectionIndex,
    /// By place; free places are in `free`
    flows: Vec<Option<Box<Flow>>>,
    free: Vec<u32>,
    openings: Openings,
    /// Closed connections in the order of closing: place and number
    closed: VecDeque<(u32, u32)>,
    last: Option<(Tuple, u32)>,
    /// Number of the next connection of this shard
    pub(crate) next_number: u32,
    origin_ns: u64,
    /// Place where the search for a quiet connection continues
    eviction_start: usize,
    budget: Budget,
    /// No connection has points left that could be dropped for others
    pub(crate) is_full_of_points: bool,
    counters: Counters,
    /// Servers that were reported as accepting; forgotten when there are many
    accepting: foldhash::HashSet<(IpAddr, u16)>,
    events: Vec<ShardEvent>,
    /// Memory of finished connections, for new ones
    #[allow(clippy::vec_box)] // the boxes are used again
    spare: Vec<Box<Flow>>,
}

/// A segment on its way to its shard: [`Router`](crate::Router) knows all but the segment and its frame.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// Frame, counted from 1
    pub frame: u64,
    /// Time, from [`Router::time_ns`](crate::Router::time_ns)
    pub time_ns: u64,
    /// Time of the first segment of the capture
    pub origin_ns: u64,
    /// The segment
    pub segment: &'a Segment,
    /// Lookup that this SYN may have waited for, from [`Router::lookup`](crate::Router::lookup)
    pub lookup: Option<Box<NameLookup>>,
}

/// What happened to the connections of a shard, in the order of frames.
#[derive(Debug)]
pub struct ShardEvent {
    pub(crate) frame: u64,
    pub(crate) kind: ShardEventKind,
}

#[derive(Debug)]
pub(crate) enum ShardEventKind {
    /// A connection got this number of the shard
    Opened(u32),
    /// A server answered a SYN
    Accepted((IpAddr, u16)),
    /// A connection is over
    Finished(Box<Finished>),
}

impl Shard {
    /// A shard without connections. Its limits are its share of those in `options`.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let share = |limit: usize| limit.div_ceil(SHARDS);
        let options = Options {
            connections_max: share(options.connections_max),
            half_open_max: share(options.half_open_max),
            closed_max: share(options.closed_max),
            unacked_max: share(options.unacked_max),
            ..options.clone()
        };
        Self {
            index: ConnectionIndex::default(),
            flows: Vec::new(),
            free: Vec::new(),
            openings: Openings::default(),
            closed: VecDeque::new(),
            last: None,
            next_number: 0,
            origin_ns: 0,
            eviction_start: 0,
            budget: Budget {
                left: options.unacked_max,
                refused: 0,
                points_left: options.series_points_max,
                points_refused: 0,
            },
            is_full_of_points: false,
            counters: Counters::default(),
            accepting: foldhash::HashSet::default(),
            events: Vec::new(),
            spare: Vec::new(),
            options,
        }
    }

    /// Processes a segment.
    pub fn segment(&mut self, arrival: Arrival<'_>) -> SegmentNotes {
        self.counters.segments += 1;
        self.origin_ns = arrival.origin_ns;
        let segment = arrival.segment;
        let (tuple, from) = Tuple::of(segment);
        let captured = Captured {
            frame: arrival.frame,
            time_ns: arrival.time_ns,
            segment,
            train: 0,
        };
        let mut notes = SegmentNotes::default();
        let is_answer = segment.flags.has(TcpFlags::SYN) && segment.flags.has(TcpFlags::ACK);
        if is_answer {
            self.accept(arrival.frame, (segment.source, segment.source_port));
        }

        let mut place = self.find(&tuple);
        if let Some(found) = place {
            let is_reused = match self.opening(found) {
                Some(opening) => opening.is_reused_by(from, segment),
                None => self
                    .flow(found)
                    .is_some_and(|flow| flow.rules.is_reused(from, segment)),
            };
            if is_reused {
                self.retire(found, arrival.frame);
                notes.flags = notes.flags.with(Flag::ReusedPorts);
                place = None;
            }
        }
        let is_new = place.is_none();
        let is_reused = !notes.flags.is_empty();
        if is_new && is_syn(segment) && can_be_kept(segment) && !self.wants_series(self.next_number) {
            notes.connection = self.open_half(tuple, from, &captured, is_reused, arrival.lookup);
            self.return_closed(arrival.time_ns, arrival.frame);
            return notes;
        }
        if let Some(found) = place
            && found & OPENING != 0
        {
            if self.opening_segment(found & !OPENING, from, &captured, &mut notes) {
                self.return_closed(arrival.time_ns, arrival.frame);
                return notes;
            }
            place = self.promote(found, &tuple, arrival.frame);
        }
        let place = match place {
            Some(place) => place,
            None => self.open(tuple, from, &captured),
        };
        let Some(Some(flow)) = self.flows.get_mut(place as usize) else {
            return notes;
        };
        notes.connection = flow.number;
        flow.count_completeness(segment, is_new && !is_reused, is_reused);
        if is_new
            && is_syn(segment)
            && let Some(lookup) = arrival.lookup
        {
            flow.set_lookup(lookup);
        }
        let was_closed = flow.is_closed();
        flow.segment(from, captured, &mut notes, &mut self.budget, &mut self.counters);
        if flow.is_closed() && !was_closed {
            self.closed.push_back((place, flow.number));
        }
        self.return_closed(arrival.time_ns, arrival.frame);
        notes
    }

    /// Processes an ICMP error about a connection of this shard.
    pub fn icmp(&mut self, frame: u64, time_ns: u64, error: &IcmpError) {
        let (tuple, from) = Tuple::of_ends(error.source, error.destination);
        let Some(mut place) = self.find(&tuple) else {
            return;
        };
        if place & OPENING != 0 {
            let Some(promoted) = self.promote(place, &tuple, frame) else {
                return;
            };
            place = promoted;
        }
        if let Some(Some(flow)) = self.flows.get_mut(place as usize) {
            flow.icmp(from, time_ns, error);
        }
    }

    /// Moves the events since the last call to the end of `into`.
    pub fn take_events(&mut self, into: &mut Vec<ShardEvent>) {
        into.append(&mut self.events);
    }

    pub(crate) fn drain_events(&mut self) -> std::vec::Drain<'_, ShardEvent> {
        self.events.drain(..)
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Ends the reading: number in this shard and place of each remaining connection, by number.
    #[must_use]
    pub fn remaining(&mut self) -> Vec<(u32, u32)> {
        // No segment is looked up any more.
        self.index = ConnectionIndex::default();
        self.last = None;
        let flows = self.flows.iter().enumerate();
        let full = flows.filter_map(|(place, flow)| Some((flow.as_ref()?.number, place as u32)));
        let half = self.openings.numbers();
        let half = half.map(|(index, number)| (number, index | OPENING));
        let mut all: Vec<(u32, u32)> = full.chain(half).collect();
        all.sort_unstable();
        all
    }

    /// Ends the connection at a place of [`Self::remaining`].
    pub fn finish(&mut self, place: u32) -> Option<Box<Finished>> {
        let flow = if place & OPENING != 0 {
            let opening = self.openings.remove(place & !OPENING)?;
            self.replayed(opening)
        } else {
            self.flows.get_mut(place as usize)?.take()?
        };
        Some(Box::new(self.finish_flow(flow)))
    }

    /// Totals of this shard, and what did not fit.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let flows = self
            .flows
            .iter()
            .flatten()
            .map(|flow| flow.memory_bytes())
            .sum::<usize>();
        let tables = self.flows.capacity() * 8 + self.index.heap_bytes() + self.openings.heap_bytes();
        Counters {
            connections: u64::from(self.next_number),
            unacked_left_out: self.budget.refused,
            points_left_out: self.budget.points_refused,
            memory_bytes: (flows + tables) as u64,
            ..self.counters
        }
    }

    pub(crate) fn points_left(&mut self) -> &mut usize {
        &mut self.budget.points_left
    }

    /// Number of points, place and flow of each connection that has some.
    pub(crate) fn with_points(&self) -> impl Iterator<Item = (usize, usize)> {
        let flows = self.flows.iter().enumerate();
        flows.filter_map(|(place, flow)| Some((flow.as_ref()?.points()?, place)))
    }

    pub(crate) fn drop_points(&mut self, place: usize) {
        if let Some(flow) = self.flows[place].as_mut() {
            flow.drop_points();
            self.counters.series_forgotten += 1;
        }
    }

    #[inline]
    fn find(&mut self, tuple: &Tuple) -> Option<u32> {
        if let Some((last, place)) = &self.last
            && last == tuple
        {
            return Some(*place);
        }
        let is_same = |place: u32| {
            if place & OPENING != 0 {
                self.openings
                    .at(place & !OPENING)
                    .is_some_and(|opening| opening.tuple == *tuple)
            } else {
                self.flow(place).is_some_and(|flow| flow.tuple == *tuple)
            }
        };
        let place = self.index.find(self.index.hash(tuple), is_same)?;
        self.last = Some((*tuple, place));
        Some(place)
    }

    fn flow(&self, place: u32) -> Option<&Flow> {
        self.flows.get(place as usize)?.as_deref()
    }

    fn opening(&self, place: u32) -> Option<&Opening> {
        if place & OPENING == 0 {
            return None;
        }
        self.openings.at(place & !OPENING)
    }

    fn wants_series(&self, number: u32) -> bool {
        self.options.series.has(number)
    }

    /// Reports a server that accepts connections.
    fn accept(&mut self, frame: u64, server: (IpAddr, u16)) {
        if self.accepting.contains(&server) {
            return;
        }
        if self.accepting.len() >= ACCEPTING_MAX {
            self.accepting.clear();
        }
        self.accepting.insert(server);
        self.report(frame, ShardEventKind::Accepted(server));
    }

    fn number_next(&mut self, frame: u64) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        self.report(frame, ShardEventKind::Opened(number));
        number
    }

    fn report(&mut self, frame: u64, kind: ShardEventKind) {
        self.events.push(ShardEvent { frame, kind });
    }

    fn open(&mut self, tuple: Tuple, from: usize, captured: &Captured<'_>) -> u32 {
        let number = self.number_next(captured.frame);
        let is_wanted = self.wants_series(number);
        let keeps_series = is_wanted && !self.is_full_of_points;
        self.counters.series_forgotten += u64::from(is_wanted && !keeps_series);
        let events_max = if keeps_series {
            self.options.series_events_max
        } else {
            self.options.events_max
        };
        let flow = Flow::new(
            tuple,
            number,
            from,
            captured,
            self.origin_ns,
            events_max,
            keeps_series,
        );
        self.make_space(captured.frame);
        let flow = boxed(flow, self.spare.pop());
        let place = self.add_flow(flow);
        self.index.insert(self.index.hash(&tuple), place);
        self.last = Some((tuple, place));
        place
    }

    fn add_flow(&mut self, flow: Box<Flow>) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.flows[place as usize] = Some(flow);
                place
            }
            None => {
                self.flows.push(Some(flow));
                (self.flows.len() - 1) as u32
            }
        }
    }

    /// Opens a connection by a SYN; returns its number.
    fn open_half(
        &mut self,
        tuple: Tuple,
        from: usize,
        captured: &Captured<'_>,
        is_reused: bool,
        lookup: Option<Box<NameLookup>>,
    ) -> u32 {
        if self.openings.len() >= self.options.half_open_max
            && let Some(oldest) = self.openings.oldest()
        {
            self.counters.connections_cut_short += 1;
            self.retire(oldest | OPENING, captured.frame);
        }
        let number = self.number_next(captured.frame);
        let first = OpeningSegment::new(
            captured.frame,
            captured.time_ns,
            from,
            captured.segment,
            is_reused,
        );
        let index = self.openings.add(tuple, number, first);
        if lookup.is_some()
            && let Some(opening) = self.openings.at_mut(index)
        {
            opening.more.get_or_insert_default().lookup = lookup;
        }
        let place = index | OPENING;
        self.index.insert(self.index.hash(&tuple), place);
        self.last = Some((tuple, place));
        number
    }

    /// Processes a segment of a half-open connection; `false` if the connection needs a flow for it.
    fn opening_segment(
        &mut self,
        index: u32,
        from: usize,
        captured: &Captured<'_>,
        notes: &mut SegmentNotes,
    ) -> bool {
        let Some(opening) = self.openings.at(index) else {
            return false;
        };
        if !opening.takes(from, captured.segment) {
            return false;
        }
        notes.connection = opening.number;
        if opening.is_answer(captured.time_ns, captured.segment) {
            notes.acks_frame = Some(opening.first.frame);
            let rtt_ns = captured.time_ns - opening.first.time_ns;
            notes.ack_rtt_ns = Some(rtt_ns).filter(|rtt_ns| *rtt_ns > 0);
        } else {
            let mut flow = self.replay(opening, None);
            let mut budget = self.budget.clone();
            flow.count_completeness(captured.segment, false, false);
            flow.segment(from, *captured, notes, &mut budget, &mut self.counters);
        }
        let segment = OpeningSegment::new(captured.frame, captured.time_ns, from, captured.segment, false);
        self.openings.push(index, segment);
        true
    }

    /// Gives a half-open connection a flow; returns its place.
    fn promote(&mut self, place: u32, tuple: &Tuple, frame: u64) -> Option<u32> {
        self.make_space(frame);
        let opening = self.openings.remove(place & !OPENING)?;
        let flow = self.replayed(opening);
        let new = self.add_flow(flow);
        self.index.replace(self.index.hash(tuple), place, new);
        self.last = Some((*tuple, new));
        Some(new)
    }

    /// The flow of a half-open connection; its transmissions are taken from the budget.
    fn replayed(&mut self, mut opening: Opening) -> Box<Flow> {
        let spare = self.spare.pop();
        let mut flow = self.replay(&opening, spare);
        for _ in 0..flow.unacked() {
            self.budget.take();
        }
        if let Some(lookup) = opening.more.as_mut().and_then(|more| more.lookup.take()) {
            flow.set_lookup(lookup);
        }
        flow
    }

    /// The flow of a half-open connection after all its segments.
    fn replay(&self, opening: &Opening, spare: Option<Box<Flow>>) -> Box<Flow> {
        let (mut budget, mut counters) = (Budget::endless(), Counters::default());
        let segment = opening.first.segment(&opening.tuple);
        let from = opening.client();
        let captured = |kept: &OpeningSegment| (kept.frame, kept.time_ns);
        let (frame, time_ns) = captured(&opening.first);
        let first = Captured {
            frame,
            time_ns,
            segment: &segment,
            train: 0,
        };
        let flow = Flow::new(
            opening.tuple,
            opening.number,
            from,
            &first,
            self.origin_ns,
            self.options.events_max,
            false,
        );
        let mut flow = boxed(flow, spare);
        for (at, kept) in opening.segments().enumerate() {
            let segment = kept.segment(&opening.tuple);
            let is_reused = at == 0 && kept.is_reused();
            flow.count_completeness(&segment, at == 0 && !is_reused, is_reused);
            let (frame, time_ns) = captured(kept);
            let captured = Captured {
                frame,
                time_ns,
                segment: &segment,
                train: 0,
            };
            let mut notes = SegmentNotes::default();
            if is_reused {
                notes.flags = notes.flags.with(Flag::ReusedPorts);
            }
            flow.segment(kept.from(), captured, &mut notes, &mut budget, &mut counters);
        }
        flow
    }

    /// Returns a connection early if there are too many with flows.
    fn make_space(&mut self, frame: u64) {
        if self.flows.len() - self.free.len() >= self.options.connections_max {
            self.evict_one(frame);
        }
    }

    /// Returns one connection early: a closed one, or the quietest of some.
    fn evict_one(&mut self, frame: u64) {
        while let Some((place, number)) = self.closed.pop_front() {
            if self.flow(place).is_some_and(|flow| flow.number == number) {
                return self.retire(place, frame);
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
        if let Some((_, place)) = oldest {
            self.counters.connections_cut_short += 1;
            self.retire(place, frame);
        }
    }

    /// Returns connections that were closed for so long that no late segment will come.
    fn return_closed(&mut self, now_ns: u64, frame: u64) {
        while let Some((place, number)) = self.closed.front().copied() {
            let flow = self.flow(place).filter(|flow| flow.number == number);
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
                self.retire(place, frame);
            }
        }
    }

    fn retire(&mut self, place: u32, frame: u64) {
        let flow = if place & OPENING != 0 {
            let opening = self.openings.remove(place & !OPENING);
            opening.map(|opening| self.replayed(opening))
        } else {
            let flow = self.flows[place as usize].take();
            self.free.extend(flow.is_some().then_some(place));
            flow
        };
        let Some(flow) = flow else { return };
        self.index.remove(self.index.hash(&flow.tuple), place);
        self.last = None;
        let finished = self.finish_flow(flow);
        self.report(frame, ShardEventKind::Finished(Box::new(finished)));
    }

    fn finish_flow(&mut self, mut flow: Box<Flow>) -> Finished {
        self.budget.release(flow.unacked());
        if let Some(points) = flow.points() {
            let left = self.budget.points_left.saturating_add(points);
            self.budget.points_left = left.min(self.options.series_points_max);
            self.is_full_of_points &= self.budget.points_left < self.options.series_points_max / 4;
        }
        let finished = flow.finish();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(flow);
        }
        finished
    }
}

/// A flow in the memory of a finished one, if there is any.
fn boxed(flow: Flow, spare: Option<Box<Flow>>) -> Box<Flow> {
    match spare {
        Some(mut spare) => {
            *spare = flow;
            spare
        }
        None => Box::new(flow),
    }
}

/// Marks places in `openings`.
const OPENING: u32 = 1 << 31;
/// Servers that are remembered to be reported once.
const ACCEPTING_MAX: usize = 4_096;
/// Finished connections whose memory is kept.
const SPARE_MAX: usize = 8;
/// Connections among which the quietest is searched.
const EVICTION_SAMPLE: usize = 16;
