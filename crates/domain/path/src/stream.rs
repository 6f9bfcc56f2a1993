//! Streams of TCP: which reading takes a packet that was merged into another one, and how often a program reads.

use crate::hop::Direction;
use sockeye_model::Comm;
use sockeye_wire::path::{Journey, Payload, Point, QueueLength, Reading, Stamp};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Streams, by socket.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams {
    streams: HashMap<u64, Stream>,
    /// The socket that has received from here to there. What is merged while the socket is in use has reached none.
    sockets: HashMap<(SocketAddr, SocketAddr), u64>,
}

#[derive(Debug, Clone, Default)]
struct Stream {
    /// In the order of their times.
    reads: VecDeque<Read>,
    /// Readings until then are not in the list any more.
    forgotten_ns: u64,
    /// Packets that were merged into others, and were not read until now.
    waiting: Vec<(Journey, Direction)>,
    /// When TCP had the latest bytes before which none were missing: the time, and the number of the first one.
    in_order: VecDeque<(u64, u32)>,
}

/// A program has read up to a byte.
#[derive(Debug, Clone, Copy)]
struct Read {
    end: u32,
    ns: u64,
    call: u32,
    reader: Option<u32>,
    comm: [u8; 16],
    /// Whether it is counted, and the time since the one before.
    is_counted: bool,
    has_gap: bool,
}

/// What a packet that is read says of one of the readings since it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) reader: Option<u32>,
    pub(crate) comm: Comm,
    /// Whether this is the first time that the reading is returned.
    pub(crate) is_new: bool,
    /// The time since the reading before, if the packet waited already, and no packet before has returned it.
    pub(crate) gap_ns: Option<u64>,
    /// For how long the packet had waited since then, or since it came.
    pub(crate) pause_ns: u64,
}

impl Streams {
    /// Adds a reading; returns the packets that it was the last one of.
    pub(crate) fn add_reading(&mut self, reading: &Reading) -> Vec<(Journey, Direction)> {
        let read = Read {
            end: reading.end,
            ns: reading.ns,
            call: reading.call,
            reader: reading.reader,
            comm: reading.comm,
            is_counted: false,
            has_gap: false,
        };
        self.stream(reading.socket)
            .map_or_else(Vec::new, |stream| stream.read(read))
    }

    /// Adds the reading that a packet ends with, if it does; returns others that it was the last one of.
    pub(crate) fn add_read(&mut self, journey: &Journey) -> Vec<(Journey, Direction)> {
        let Some((socket, payload)) = stream_of(journey) else {
            return Vec::new();
        };
        if self.sockets.len() < STREAMS_MAX {
            let ends = (journey.source, journey.destination);
            self.sockets.insert(ends, socket);
        }
        let last = journey.stamps.last().filter(|stamp| stamp.point == Point::Read);
        let (Some(last), Some(stream)) = (last, self.stream(socket)) else {
            return Vec::new();
        };
        stream.read(Read {
            end: payload.end(),
            ns: last.ns,
            call: journey.call,
            reader: journey.reader,
            comm: journey.comm,
            is_counted: false,
            has_gap: false,
        })
    }

    /// Takes a packet that was merged into another one. Returns it with its reading if that is known, `Some(None)` if it `waits` for that,
    /// and `None` if nothing can be known.
    pub(crate) fn merged(
        &mut self,
        journey: &Journey,
        direction: Direction,
        waits: bool,
    ) -> Option<Option<Journey>> {
        let ends = (journey.source, journey.destination);
        let is_received = journey.stamps.last().is_some_and(|last| {
            matches!(
                last.point,
                Point::Received | Point::Routed | Point::Arrived | Point::Disordered
            )
        });
        let of_ends = || self.sockets.get(&ends).copied().filter(|_| is_received);
        let socket = journey.socket.or_else(of_ends);
        let payload = journey.payload.filter(|payload| payload.bytes > 0)?;
        let socket = socket?;
        let arrived_ns = journey.stamps.last()?.ns;
        let stream = self.stream(socket)?;
        if let Some((_, nth)) = stream.reads_of(payload, arrived_ns) {
            return Some(Some(with_read(journey.clone(), &stream.reads[nth])));
        }
        if !waits || arrived_ns < stream.forgotten_ns || stream.waiting.len() >= WAITING_MAX {
            return None;
        }
        stream.waiting.push((journey.clone(), direction));
        Some(None)
    }

    /// Adds when TCP got a packet before which no bytes were missing: those that came before it, and are after it in the stream, were until
    /// then.
    pub(crate) fn add_arrival(&mut self, journey: &Journey) {
        let Some((socket, payload)) = stream_of(journey) else {
            return;
        };
        let mut stamps = journey.stamps.iter().rev();
        let is_arrival = |stamp: &&Stamp| {
            matches!(
                stamp.point,
                Point::Received | Point::Routed | Point::Arrived | Point::Delivered | Point::Disordered
            )
        };
        let Some(arrival) = stamps
            .find(is_arrival)
            .filter(|stamp| stamp.point != Point::Disordered)
        else {
            return;
        };
        // Delivered when all bytes before it were there.
        if stamps.any(|stamp| stamp.point == Point::Disordered) {
            return;
        }
        let Some(stream) = self.stream(socket) else { return };
        if stream.in_order.len() >= ARRIVALS_MAX {
            stream.in_order.pop_front();
        }
        stream.in_order.push_back((arrival.ns, payload.seq));
    }

    /// Adds to a packet that came out of order, and was read, when all bytes before it were there: when the last of them came that was in order. If
    /// that is not known, it was read then.
    pub(crate) fn order(&self, journey: &Journey) -> Option<Journey> {
        let [.., came, read] = &journey.stamps[..] else {
            return None;
        };
        if (came.point, read.point) != (Point::Disordered, Point::Read) {
            return None;
        }
        let found = stream_of(journey).and_then(|(socket, payload)| {
            let is_before = |(ns, seq): &&(u64, u32)| {
                let behind = payload.seq.wrapping_sub(*seq);
                (came.ns..=read.ns).contains(ns) && behind > 0 && behind < WINDOW_MAX
            };
            let arrivals = self.streams.get(&socket)?.in_order.iter();
            arrivals.filter(is_before).map(|(ns, _)| *ns).max()
        });
        let ordered = Stamp {
            ns: found.unwrap_or(read.ns),
            point: Point::Ordered,
            ..*came
        };
        let mut journey = journey.clone();
        journey.stamps.insert(journey.stamps.len() - 1, ordered);
        Some(journey)
    }

    /// Returns what was not read.
    pub(crate) fn rest(&mut self) -> Vec<(Journey, Direction)> {
        self.streams
            .drain()
            .flat_map(|(_, stream)| stream.waiting)
            .collect()
    }

    /// Returns the readings since a packet came that is read now, with the times between them. Where calls have no numbers, what one call
    /// takes cannot be distinguished from several readings: then there are none.
    pub(crate) fn paces(&mut self, journey: &Journey) -> Vec<Pace> {
        let [.., from, read] = &journey.stamps[..] else {
            return Vec::new();
        };
        let (Point::Read, Some((socket, payload))) = (read.point, stream_of(journey)) else {
            return Vec::new();
        };
        let Some(stream) = self.streams.get_mut(&socket) else {
            return Vec::new();
        };
        let Some((first, last)) = stream.reads_of(payload, from.ns) else {
            return Vec::new();
        };
        let mut paces = Vec::new();
        for nth in first..=last {
            let before_ns = if nth > first {
                stream.reads[nth - 1].ns
            } else {
                from.ns
            };
            let read = &mut stream.reads[nth];
            if read.call == 0 {
                continue;
            }
            let pause_ns = read.ns.saturating_sub(before_ns);
            let is_gap = nth > first && !std::mem::replace(&mut read.has_gap, true);
            paces.push(Pace {
                reader: read.reader,
                comm: Comm::from_c(&read.comm),
                is_new: !std::mem::replace(&mut read.is_counted, true),
                gap_ns: is_gap.then_some(pause_ns),
                pause_ns,
            });
        }
        paces
    }

    fn stream(&mut self, socket: u64) -> Option<&mut Stream> {
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&socket) {
            return None;
        }
        Some(self.streams.entry(socket).or_default())
    }
}

impl Stream {
    fn read(&mut self, read: Read) -> Vec<(Journey, Direction)> {
        match self.reads.back_mut() {
            // One call reads several packets.
            Some(last) if read.call != 0 && last.call == read.call => {
                last.end = read.end;
                last.ns = last.ns.max(read.ns);
            }
            _ => self.reads.push_back(read),
        }
        if self.reads.len() > READS_MAX
            && let Some(first) = self.reads.pop_front()
        {
            self.forgotten_ns = first.ns;
        }
        let is_read = |(journey, _): &mut (Journey, Direction)| {
            journey.payload.is_some_and(|payload| covers(read.end, payload))
        };
        let taken: Vec<_> = self.waiting.extract_if(.., is_read).collect();
        taken
            .into_iter()
            .map(|(journey, direction)| (with_read(journey, &read), direction))
            .collect()
    }

    /// Returns the places of the first reading after a time, and of the one that takes the last of these bytes.
    fn reads_of(&self, payload: Payload, since_ns: u64) -> Option<(usize, usize)> {
        if since_ns < self.forgotten_ns {
            return None;
        }
        let first = self.reads.partition_point(|read| read.ns < since_ns);
        let later = self.reads.range(first..).take(SCANNED_MAX);
        let nth = later.into_iter().position(|read| covers(read.end, payload))?;
        Some((first, first + nth))
    }
}

/// Whether a reading up to a byte takes the last of these.
const fn covers(end: u32, payload: Payload) -> bool {
    end.wrapping_sub(payload.end()) < WINDOW_MAX
}

/// The socket and the bytes of a packet of TCP.
fn stream_of(journey: &Journey) -> Option<(u64, Payload)> {
    journey
        .socket
        .zip(journey.payload)
        .filter(|(_, payload)| payload.bytes > 0)
}

fn with_read(mut journey: Journey, read: &Read) -> Journey {
    journey.stamps.push(Stamp {
        ns: read.ns,
        netns: 0,
        ifindex: 0,
        point: Point::Read,
        length: QueueLength::Unknown,
        device: [0; 16],
    });
    journey.end = Some(Point::Read);
    (journey.reader, journey.comm) = (read.reader, read.comm);
    journey
}

/// The largest window of TCP (RFC 7323).
const WINDOW_MAX: u32 = 1 << 30;
const STREAMS_MAX: usize = 1024;
/// Readings and packets of a stream that are kept, and readings that are looked at for one packet.
const READS_MAX: usize = 16_384;
const WAITING_MAX: usize = 4096;
/// Packets of a stream whose arrival is kept: more than are in a receive queue.
const ARRIVALS_MAX: usize = 8192;
const SCANNED_MAX: usize = 4096;
