//! Comparison of two captures of the same transfer, made at two points: losses and delays between them.
//!
//! Segments are matched by fields that no path changes: addresses, sequence and acknowledgement number,
//! flags, the sender's timestamp, and the IP identification if present. Data is matched by bytes, since
//! network cards split (TSO) and merge (GRO) segments between a capture and the wire.
//!
//! If addresses are translated between the capture points, handshakes show which connections are the same.
//!
//! Both capture points have their own clocks. The shortest delays in both directions give the offset between
//! them, if these are equal; otherwise half of their difference is the error of [`Paired::offset_ns`] and of
//! the one-direction delays, but not of their sum.

use crate::Percentiles;
use crate::address_translation::{Resolution, TranslatedConnections};
use crate::duplicates::Recent;
use crate::end_pair::EndPair;
use crate::histogram::Histogram;
use crate::sequence::after;
use foldhash::HashMap;
use sockeye_wire::packet::{Segment, TcpFlags};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Matches segments of two captures: first all of one ([`Pairing::first`]), then all of the other
/// ([`Pairing::second`]).
///
/// Memory grows with the first capture, up to a bound; segments beyond it are counted.
#[derive(Debug, Default)]
pub struct Pairing {
    numbers: HashMap<EndPair, u32>,
    directions: Vec<DirectionState>,
    candidates: Vec<Candidate>,
    /// Candidates by direction and sender's timestamp; without timestamps, by sequence number
    alike: HashMap<(u32, u32), Vec<u32>>,
    spans: [Option<(u64, u64)>; 2],
    left_out: u64,
    translated: TranslatedConnections,
}

/// Result of the comparison of two captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paired {
    /// Nanoseconds by which the second capture's clock is ahead of the first one's
    pub offset_ns: i64,
    /// Whether the offset is measured (segments in both directions). If not, the shortest delay counts as 0
    pub is_offset_measured: bool,
    /// All directions of all connections, by descending number of segments
    pub directions: Vec<PairedDirection>,
    /// Segments of the first capture that did not fit
    pub left_out: u64,
}

/// One direction of one connection in both captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairedDirection {
    /// Sending end
    pub source: (IpAddr, u16),
    /// Receiving end
    pub destination: (IpAddr, u16),
    /// Both ends in the second capture, if different: addresses were translated
    pub translated: Option<[(IpAddr, u16); 2]>,
    /// Whether the first capture is nearer to the sender
    pub is_first_nearer: bool,
    /// Segments in both captures
    pub both: u64,
    /// Segments lost between the captures: the one nearer to the sender has them, the other lacks them while
    /// it was running
    pub lost: u64,
    /// Segments only in the capture farther from the sender: the nearer one missed them, they were split in
    /// between, or took another path
    pub unseen: u64,
    /// Segments that were reordered between the captures; if those of the first capture are the later ones,
    /// several in a row count once
    pub reordered: u64,
    /// Lost frames in the capture nearer to the sender; at most a few hundred
    pub lost_frames: Vec<u64>,
    /// One-direction delay between the captures after correction of the clocks, in nanoseconds
    pub delay: Percentiles,
}

/// A segment of the first capture.
#[derive(Debug)]
struct Candidate {
    frame: u64,
    time_ns: u64,
    direction: u32,
    sequence: u32,
    acknowledgement: u32,
    len: u32,
    /// Bytes of it that the second capture has; 1 for a matched segment without data
    covered: u32,
    flags: u16,
    ip_id: u16,
}

/// A segment that only one capture has, or has in whole.
#[derive(Debug, Clone, Copy)]
struct Unmatched {
    frame: u64,
    time_ns: u64,
    /// Data that the other capture lacks
    bytes: u32,
}

#[derive(Debug)]
struct DirectionState {
    ends: EndPair,
    is_of_first: bool,
    /// Least difference of the second clock to the first one
    lowest_ns: i64,
    highest_ns: i64,
    differences_ns: Vec<i64>,
    both: u64,
    only_second: Vec<Unmatched>,
    only_second_more: u64,
    /// MSS option of its SYN, and whether its segments have timestamps
    mss: Option<u16>,
    has_clock: bool,
    latest_frame: u64,
    last_frame: u64,
    /// Segments behind one with a higher frame
    late: u64,
    /// Segments before one with a lower frame
    early: u64,
    /// The latest segments of each capture
    recent: [VecDeque<Recent>; 2],
}

impl Pairing {
    /// An empty comparison.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a segment of the first capture.
    pub fn first(&mut self, frame: u64, time_ns: u64, segment: &Segment) {
        if self.candidates.len() >= CANDIDATES_MAX {
            self.left_out += 1;
            return;
        }
        widen(&mut self.spans[0], time_ns);
        let ends = EndPair::of(segment);
        self.translated.first(ends, segment);
        let direction = self.direction(ends, true);
        let state = &mut self.directions[direction as usize];
        state.mss = segment.options.mss.or(state.mss);
        state.has_clock |= segment.options.timestamps.is_some();
        if state.is_duplicate(0, time_ns, segment) {
            return;
        }
        let candidate = Candidate {
            frame,
            time_ns,
            direction,
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement,
            len: segment.payload_len,
            covered: 0,
            flags: segment.flags.0 & KEPT_FLAGS,
            ip_id: segment.ip_id.unwrap_or(0),
        };
        let place = self.candidates.len() as u32;
        self.candidates.push(candidate);
        self.alike
            .entry((direction, match_key(segment)))
            .or_default()
            .push(place);
    }

    /// Adds a segment of the second capture.
    pub fn second(&mut self, frame: u64, time_ns: u64, segment: &Segment) {
        widen(&mut self.spans[1], time_ns);
        let ends = EndPair::of(segment);
        if let Some(number) = self.numbers.get(&ends).copied()
            && self.directions[number as usize].is_of_first
        {
            return self.compare(number, frame, time_ns, segment);
        }
        match self.translated.second(ends, frame, time_ns, segment) {
            Resolution::Held => {}
            Resolution::As(name, held) => {
                // The waiting SYN of a handshake belongs to the opposite direction.
                for held in held {
                    let own = EndPair::of(&held.segment);
                    let name = if own == ends { name } else { name.reversed() };
                    let number = self.direction(name, false);
                    self.compare(number, held.frame, held.time_ns, &held.segment);
                }
                let number = self.direction(name, false);
                self.compare(number, frame, time_ns, segment);
            }
        }
    }

    fn compare(&mut self, number: u32, frame: u64, time_ns: u64, segment: &Segment) {
        let direction = &mut self.directions[number as usize];
        if direction.is_duplicate(1, time_ns, segment) {
            return;
        }
        let alike = self
            .alike
            .get(&(number, match_key(segment)))
            .map_or(&[][..], Vec::as_slice);
        let mut is_matched = false;
        for place in alike {
            let candidate = &mut self.candidates[*place as usize];
            if !candidate.cover(segment) {
                continue;
            }
            is_matched = true;
            direction.add(
                candidate.frame,
                i128::from(time_ns) - i128::from(candidate.time_ns),
            );
            // A merged segment may cover several; a split one is part of one.
            if candidate.len >= segment.payload_len {
                break;
            }
        }
        if is_matched {
            direction.both += 1;
        } else if direction.only_second.len() < FRAMES_MAX {
            direction.only_second.push(Unmatched {
                frame,
                time_ns,
                bytes: segment.payload_len,
            });
        } else {
            direction.only_second_more += 1;
        }
    }

    /// Returns the result.
    #[must_use]
    pub fn finish(mut self) -> Paired {
        for held in self.translated.rest() {
            let number = self.direction(EndPair::of(&held.segment), false);
            self.compare(number, held.frame, held.time_ns, &held.segment);
        }
        // Several connections of the second capture may be taken for one of the first: the result does not depend on their order.
        let mut names: HashMap<EndPair, EndPair> = HashMap::default();
        for (first, second) in self.translated.translations() {
            let name = names.entry(first).or_insert(second);
            *name = second.min(*name);
        }
        let (offset_ns, is_offset_measured) = self.offset_ns();
        let mut only_first: Vec<Vec<Unmatched>> = self.directions.iter().map(|_| Vec::new()).collect();
        let sizes: Vec<u32> = (self.directions.iter())
            .map(|direction| self.segment_bytes(direction))
            .collect();
        for candidate in self
            .candidates
            .iter()
            .filter(|candidate| candidate.covered < candidate.len.max(1))
        {
            only_first[candidate.direction as usize].push(Unmatched {
                frame: candidate.frame,
                time_ns: candidate.time_ns,
                bytes: candidate.len.saturating_sub(candidate.covered),
            });
        }
        let spans = self.spans;
        let mut directions: Vec<PairedDirection> = self
            .directions
            .into_iter()
            .zip(only_first)
            .zip(sizes)
            .map(|((direction, only_first), segment_bytes)| {
                let name = names
                    .get(&direction.ends)
                    .map(|name| [name.source, name.destination]);
                PairedDirection {
                    translated: name,
                    ..direction.paired(only_first, segment_bytes, spans, offset_ns)
                }
            })
            .collect();
        directions.sort_by_key(|direction| {
            (
                std::cmp::Reverse(direction.both + direction.lost),
                direction.source,
                direction.destination,
            )
        });
        Paired {
            offset_ns,
            is_offset_measured,
            directions,
            left_out: self.left_out,
        }
    }

    /// Data of a full segment in this direction.
    fn segment_bytes(&self, direction: &DirectionState) -> u32 {
        let back = self.numbers.get(&direction.ends.reversed());
        let back = back.and_then(|number| self.directions[*number as usize].mss);
        let mss = direction
            .mss
            .into_iter()
            .chain(back)
            .min()
            .map_or(COMMON_MSS, u32::from);
        let clock_bytes = if direction.has_clock { CLOCK_BYTES } else { 0 };
        mss.saturating_sub(clock_bytes).max(1)
    }

    fn direction(&mut self, ends: EndPair, is_of_first: bool) -> u32 {
        let next = self.directions.len() as u32;
        let number = *self.numbers.entry(ends).or_insert(next);
        if number == next {
            self.directions.push(DirectionState::new(ends, is_of_first));
        }
        number
    }

    /// Clock offset. In one direction the difference is `offset + path`, in the other `offset - path`: the
    /// offset is in the middle of the least of one and the largest of the other.
    fn offset_ns(&self) -> (i64, bool) {
        let mut best: Option<(i64, i64)> = None;
        for direction in self
            .directions
            .iter()
            .filter(|direction| direction.ends.source <= direction.ends.destination)
        {
            let Some(back) = self
                .numbers
                .get(&direction.ends.reversed())
                .map(|number| &self.directions[*number as usize])
            else {
                continue;
            };
            let (Some(one), Some(other)) = (direction.middle_ns(), back.middle_ns()) else {
                continue;
            };
            let (there, back) = if one >= other {
                (direction, back)
            } else {
                (back, direction)
            };
            let round_trip_ns = there.lowest_ns.saturating_sub(back.highest_ns);
            let offset_ns = back.highest_ns.saturating_add(round_trip_ns / 2);
            // The connection with the shortest round trip is the most exact.
            if best.is_none_or(|best| round_trip_ns.abs() < best.0) {
                best = Some((round_trip_ns.abs(), offset_ns));
            }
        }
        match best {
            Some((_, offset_ns)) => (offset_ns, true),
            None => (
                self.directions
                    .iter()
                    .filter(|direction| direction.both > 0)
                    .map(|direction| direction.lowest_ns)
                    .min()
                    .unwrap_or(0),
                false,
            ),
        }
    }
}

impl Candidate {
    /// Whether the second capture has this segment or a part of it; if so, marks that.
    fn cover(&mut self, segment: &Segment) -> bool {
        let is_same_packet = self.len == segment.payload_len;
        let ids_differ = segment
            .ip_id
            .is_some_and(|id| id != 0 && self.ip_id != 0 && id != self.ip_id);
        if self.covered >= self.len.max(1) || is_same_packet && ids_differ {
            return false;
        }
        if segment.payload_len == 0 || self.len == 0 {
            let is_same = is_same_packet
                && self.sequence == segment.sequence
                && self.acknowledgement == segment.acknowledgement
                && self.flags == segment.flags.0 & KEPT_FLAGS;
            self.covered += u32::from(is_same);
            return is_same;
        }
        let (end, other_end) = (
            self.sequence.wrapping_add(self.len),
            segment.sequence.wrapping_add(segment.payload_len),
        );
        let start = if after(self.sequence, segment.sequence) {
            self.sequence
        } else {
            segment.sequence
        };
        let end = if after(end, other_end) { other_end } else { end };
        if !after(end, start) {
            return false;
        }
        self.covered = self.covered.saturating_add(end.wrapping_sub(start));
        true
    }
}

impl DirectionState {
    fn new(ends: EndPair, is_of_first: bool) -> Self {
        Self {
            ends,
            is_of_first,
            lowest_ns: i64::MAX,
            highest_ns: i64::MIN,
            differences_ns: Vec::new(),
            both: 0,
            only_second: Vec::new(),
            only_second_more: 0,
            mss: None,
            has_clock: false,
            latest_frame: 0,
            last_frame: 0,
            late: 0,
            early: 0,
            recent: [VecDeque::new(), VecDeque::new()],
        }
    }

    /// Whether this capture had the identical packet shortly before, as captures on all interfaces of a
    /// router do; if not, remembers it.
    fn is_duplicate(&mut self, capture: usize, time_ns: u64, segment: &Segment) -> bool {
        let this = Recent::of(time_ns, segment);
        let recent = &mut self.recent[capture];
        // Without identification or timestamp, a retransmission looks the same.
        if this.is_distinguishable()
            && recent
                .iter()
                .any(|other| other.is_same(&this) && other.is_within(DUPLICATE_NS, &this))
        {
            return true;
        }
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(this);
        false
    }

    fn add(&mut self, frame: u64, difference_ns: i128) {
        self.late += u64::from(frame < self.latest_frame);
        self.early += u64::from(frame < self.last_frame);
        self.latest_frame = self.latest_frame.max(frame);
        self.last_frame = frame;
        // Half of the range, so that differences of differences do not overflow.
        let difference_ns = difference_ns.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64;
        self.lowest_ns = self.lowest_ns.min(difference_ns);
        self.highest_ns = self.highest_ns.max(difference_ns);
        if self.differences_ns.len() < DIFFERENCES_MAX {
            self.differences_ns.push(difference_ns);
        }
    }

    fn middle_ns(&self) -> Option<i64> {
        let mut differences_ns = self.differences_ns.clone();
        let middle = differences_ns.len() / 2;
        (!differences_ns.is_empty()).then(|| *differences_ns.select_nth_unstable(middle).1)
    }

    fn paired(
        self,
        only_first: Vec<Unmatched>,
        segment_bytes: u32,
        spans: [Option<(u64, u64)>; 2],
        offset_ns: i64,
    ) -> PairedDirection {
        let middle_ns = self.middle_ns().unwrap_or(offset_ns);
        let is_first_nearer = middle_ns >= offset_ns;
        // Packets outside the time of the other capture were not lost.
        let of_first = inside(only_first, spans[1], middle_ns);
        let of_second = inside(self.only_second, spans[0], -middle_ns);
        // Network cards split what one frame of a capture has.
        let segs = |of: &[Unmatched]| -> u64 {
            let segs = of
                .iter()
                .map(|one| u64::from(one.bytes.div_ceil(segment_bytes).max(1)));
            segs.sum()
        };
        let counts = (segs(&of_first), segs(&of_second) + self.only_second_more);
        let (lost, unseen, lost_frames) = if is_first_nearer {
            (counts.0, counts.1, of_first)
        } else {
            (counts.1, counts.0, of_second)
        };
        let mut lost_frames: Vec<u64> = lost_frames.iter().map(|one| one.frame).collect();
        lost_frames.sort_unstable();
        lost_frames.truncate(LOST_FRAMES_MAX);
        let mut delays = Histogram::default();
        for difference_ns in &self.differences_ns {
            let delay_ns = if is_first_nearer {
                difference_ns - offset_ns
            } else {
                offset_ns - difference_ns
            };
            delays.add(u64::try_from(delay_ns).unwrap_or(0), 1);
        }
        PairedDirection {
            source: self.ends.source,
            destination: self.ends.destination,
            translated: None,
            is_first_nearer,
            both: self.both,
            lost,
            unseen,
            reordered: if is_first_nearer { self.late } else { self.early },
            lost_frames,
            delay: delays.percentiles(),
        }
    }
}

/// Those with a time that, converted to the other clock, is within the time of the other capture.
fn inside(unmatched: Vec<Unmatched>, span: Option<(u64, u64)>, shift_ns: i64) -> Vec<Unmatched> {
    let Some((begin_ns, end_ns)) = span else {
        return Vec::new();
    };
    let range = i128::from(begin_ns)..=i128::from(end_ns);
    let is_inside = |time_ns: u64| range.contains(&(i128::from(time_ns) + i128::from(shift_ns)));
    unmatched
        .into_iter()
        .filter(|one| is_inside(one.time_ns))
        .collect()
}

fn match_key(segment: &Segment) -> u32 {
    segment
        .options
        .timestamps
        .map_or(segment.sequence, |stamps| stamps.value)
}

fn widen(span: &mut Option<(u64, u64)>, time_ns: u64) {
    let (begin_ns, end_ns) = span.unwrap_or((time_ns, time_ns));
    *span = Some((begin_ns.min(time_ns), end_ns.max(time_ns)));
}

/// Data of a full segment if no MSS option was captured: Ethernet's. Timestamps take some of it.
const COMMON_MSS: u32 = 1_460;
const CLOCK_BYTES: u32 = 12;

/// Flags that network cards keep when they split segments.
const KEPT_FLAGS: u16 = TcpFlags::SYN
    .or(TcpFlags::FIN)
    .or(TcpFlags::RST)
    .or(TcpFlags::ACK)
    .0;

/// Segments of the first capture that are kept: about 1 GiB.
const CANDIDATES_MAX: usize = 12 << 20;

/// Packets among which a duplicate is searched.
const RECENT: usize = 16;

/// Routers forward faster than this; most retransmissions are slower.
const DUPLICATE_NS: u64 = 5_000_000;

/// Delays that are kept per direction.
const DIFFERENCES_MAX: usize = 1 << 20;

/// Unmatched frames of the second capture that are kept per direction.
const FRAMES_MAX: usize = 1 << 16;

/// Lost frames that are reported per direction.
const LOST_FRAMES_MAX: usize = 256;
