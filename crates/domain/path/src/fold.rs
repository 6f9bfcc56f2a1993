//! From journeys to hops.

use crate::drops::{Drop, Offered, Places, is_full_buffer};
use crate::ends::Ends;
use crate::hop::{Device, Direction, HopKey, HopKind};
use crate::occupancy::Occupancy;
use crate::report::{Hop, PathReport, Qdisc, Reader};
use crate::stream::{Pace, Streams};
use crate::unsent::{Senders, wait_of};
use crate::weight::Passed;
use sockeye_measure::Histogram;
use sockeye_model::Comm;
use sockeye_wire::path::{Journey, Point, QueueLength, Reading as StreamReading, SendBuffer, Stamp};
use std::collections::{BTreeMap, HashMap};

/// How a journey ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending<'a> {
    /// The packet was read, has left, or has done its work.
    Complete,
    /// It was dropped, for this reason: empty if the kernel gives none.
    Dropped(&'a str),
    /// It was divided into segments, which have journeys of their own.
    Divided,
    /// It was merged into another packet that is read in its place.
    Merged,
    /// It was the first fragment of a packet, and is not followed from where that was reassembled.
    Reassembled,
    /// It was lost sight of.
    Lost,
    /// It has not ended.
    Unfinished,
}

/// Folds journeys.
#[derive(Debug, Clone)]
pub struct PathFold {
    hops: HashMap<HopKey, HopFold>,
    streams: Streams,
    senders: Senders,
    ends: Ends,
    /// What had not ended, and when the latest point was passed.
    unfinished: Vec<(Journey, Direction)>,
    latest_ns: u64,
    /// What goes out and what comes in.
    passed: [Passed; 2],
    offered: Offered,
    report: PathReport,
}

impl PathFold {
    /// Begins, where one of `sample_every` packets is followed.
    #[must_use]
    pub fn new(sample_every: u32) -> Self {
        Self {
            hops: HashMap::new(),
            streams: Streams::default(),
            senders: Senders::default(),
            ends: Ends::default(),
            unfinished: Vec::new(),
            latest_ns: 0,
            passed: [Passed::default(); 2],
            offered: Offered::default(),
            report: PathReport {
                sample_every,
                ..PathReport::default()
            },
        }
    }

    /// Adds that a program has read from a socket of TCP.
    pub fn add_reading(&mut self, reading: &StreamReading) {
        let read = self.streams.add_reading(reading);
        self.pass_read(read);
    }

    /// Adds packets that were merged into others, and have been read with them.
    fn pass_read(&mut self, read: Vec<(Journey, Direction)>) {
        for (journey, direction) in read {
            self.pass(&journey, direction, Ending::Complete);
        }
    }

    /// Adds a journey. They should come in the order of their ends.
    pub fn add(&mut self, journey: &Journey, direction: Direction, ending: Ending<'_>) {
        if matches!(ending, Ending::Complete | Ending::Merged | Ending::Unfinished) {
            self.streams.add_arrival(journey);
        }
        let last = journey.stamps.last();
        self.latest_ns = self.latest_ns.max(last.map_or(0, |stamp| stamp.ns));
        if matches!(ending, Ending::Merged | Ending::Unfinished)
            && let Some(journey) = self.streams.merged(journey, direction, ending == Ending::Merged)
        {
            // When it is read is known, or may be known later.
            if let Some(read) = journey {
                self.pass(&read, direction, Ending::Complete);
            }
            return;
        }
        if ending == Ending::Unfinished {
            // Whether it is in a queue is known when the others are.
            self.unfinished.push((journey.clone(), direction));
            return;
        }
        let read = self.streams.add_read(journey);
        self.pass(journey, direction, ending);
        self.pass_read(read);
    }

    /// Passes what had not ended. No packet stays in a hop without a queue: its end was not seen.
    fn pass_unfinished(&mut self) {
        for (journey, direction) in std::mem::take(&mut self.unfinished) {
            let is_waiting = journey.stamps.last().is_none_or(|last| {
                let is_recent = self.latest_ns.saturating_sub(last.ns) < PASSING_NS_MAX;
                is_recent || self.can_wait(direction, last) || self.ends.is_passing(&journey)
            });
            let ending = if is_waiting {
                Ending::Unfinished
            } else {
                Ending::Lost
            };
            self.pass(&journey, direction, ending);
        }
    }

    /// Whether packets wait in a queue after a point.
    fn can_wait(&self, direction: Direction, last: &Stamp) -> bool {
        let packets = |kind| {
            let hop = self.hops.get(&key(direction, kind, last));
            hop.map_or(0, |hop| hop.packets)
        };
        match last.point {
            Point::Backlogged | Point::Received | Point::Routed | Point::Arrived | Point::Disordered => false,
            // A program reads the device, or it has a ring; unless what it sends arrives at once.
            Point::Transmitted => {
                let passing = packets(HopKind::Device) + packets(HopKind::Upper);
                passing <= packets(HopKind::Tunnel) + packets(HopKind::Ring)
            }
            _ => true,
        }
    }

    fn pass(&mut self, journey: &Journey, direction: Direction, ending: Ending<'_>) {
        let ordered = self.streams.order(journey);
        let journey = ordered.as_ref().unwrap_or(journey);
        let passed = &mut self.passed[usize::from(direction == Direction::In)];
        passed.add(journey, matches!(ending, Ending::Merged));
        self.offered.add(journey, direction);
        *match ending {
            Ending::Complete => &mut self.report.complete,
            Ending::Dropped(_) => &mut self.report.dropped,
            Ending::Divided => &mut self.report.divided,
            Ending::Merged => &mut self.report.merged,
            Ending::Reassembled => &mut self.report.reassembled,
            Ending::Lost => &mut self.report.lost,
            Ending::Unfinished => &mut self.report.unfinished,
        } += 1;
        // What the sender did before is known of some packets only: the places of all are counted from the first queue on.
        let is_before =
            |stamp: &&Stamp| matches!(stamp.point, Point::ReadBefore | Point::Written | Point::Handed);
        let before = journey.stamps.iter().take_while(is_before).count();
        let first = journey.points_before as usize + self.ends.hops_before(journey, direction);
        let hops = journey.stamps.len().saturating_sub(before + 1);
        self.ends.add(journey, direction, first, hops);
        if let Some(wait_ns) = wait_of(journey) {
            self.senders.wait(journey, direction, wait_ns);
        }
        self.pass_hops_of_sender(journey, direction, ending);
        for (nth, pair) in journey.stamps.windows(2).enumerate() {
            let [from, to] = pair else { continue };
            let rank = nth.saturating_sub(before) + first;
            let Some(kind) = HopKind::between(from.point, to.point) else {
                continue;
            };
            let is_sampled = self.report.sample_every > 1;
            let hop = self.hop(key(direction, kind, from), rank);
            hop.pass(journey, from, to);
            if to.point == Point::Read {
                hop.read(&Reading {
                    // TCP, also where its socket was not seen: one call takes many packets.
                    is_stream: journey.payload.is_some(),
                    pid: journey.reader,
                    comm: Comm::from_c(&journey.comm),
                    waited_ns: journey.waited_ns,
                    from_ns: from.ns,
                    read_ns: to.ns,
                    is_sampled,
                });
            }
        }
        let paces = self.streams.paces(journey);
        if let (Some(from), false) = (journey.stamps.iter().rev().nth(1), paces.is_empty()) {
            let key = key(direction, HopKind::Socket, from);
            let hop = self.hop(key, journey.stamps.len() - 2 - before);
            for pace in &paces {
                hop.pace(pace);
            }
        }
        // That of what begins at the last point on the way.
        let rank = |after: usize| (journey.stamps.len() - before).saturating_sub(after) + first;
        match (ending, &journey.stamps[..]) {
            (Ending::Dropped(reason), [.., _]) if journey.dropped_at().is_some() => {
                self.drop_at(journey, direction, reason, rank(2));
            }
            (Ending::Dropped(reason), [.., from, _]) => {
                if let Some(kind) = HopKind::after(from.point) {
                    let drops = &mut self.hop(key(direction, kind, from), rank(2)).drops;
                    *drops.entry(reason.to_owned()).or_default() += 1;
                }
            }
            (Ending::Unfinished, [.., from]) => {
                // Nothing was received at its address: it waits for a neighbour, or in a queue of netfilter.
                let is_passing = self.ends.is_passing(journey);
                let kind = is_passing.then_some(HopKind::Forward);
                if let Some(kind) = kind.or(HopKind::after(from.point)) {
                    self.hop(key(direction, kind, from), rank(1)).queued_now += 1;
                }
            }
            _ => {}
        }
    }

    /// Adds the hops of a packet to those of its sender, if data waits there.
    fn pass_hops_of_sender(&mut self, journey: &Journey, direction: Direction, ending: Ending<'_>) {
        let Some(mut sender) = self.senders.sender_of(journey, direction) else {
            return;
        };
        if matches!(ending, Ending::Dropped(_)) {
            sender.drop_one();
        }
        for pair in journey.stamps.windows(2) {
            let [from, to] = pair else { continue };
            if let Some(kind) = HopKind::between(from.point, to.point) {
                if kind == HopKind::Socket {
                    sender.read_one();
                }
                sender.pass(key(direction, kind, from), journey.bytes, from.ns, to.ns);
            }
        }
    }

    /// Returns the devices that packets have passed until now, or are at.
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        let passed = self.hops.keys().filter_map(|key| key.device);
        let last = |(journey, _): &(Journey, Direction)| journey.stamps.last().and_then(Device::of);
        passed.chain(self.unfinished.iter().filter_map(last))
    }

    /// Returns what was measured.
    #[must_use]
    pub fn finish(mut self) -> PathReport {
        for (journey, direction) in self.streams.rest() {
            self.pass(&journey, direction, Ending::Merged);
        }
        self.pass_unfinished();
        self.merge_guesses();
        let ranks: HashMap<HopKey, u64> = self
            .hops
            .iter()
            .map(|(key, hop)| (*key, hop.rank_ppm()))
            .collect();
        // The points between a device and a socket, or the next device, are seen of some packets only: their hops come before the last one,
        // which all packets have.
        let rank = |key: &HopKey| {
            let last: &[HopKind] = match key.kind {
                HopKind::Prerouting => &[HopKind::Forward, HopKind::Input, HopKind::Stack],
                HopKind::Input => &[HopKind::Stack],
                HopKind::Order => &[HopKind::Socket],
                _ => &[],
            };
            let of_device = last.iter().map(|kind| HopKey { kind: *kind, ..*key });
            std::iter::once(*key)
                .chain(of_device)
                .filter_map(|key| ranks.get(&key).copied())
                .min()
        };
        let mut hops: Vec<_> = self.hops.into_iter().collect();
        hops.sort_by_key(|(key, _)| {
            let of_sender = [HopKind::Program, HopKind::Send, HopKind::Output]
                .iter()
                .position(|kind| *kind == key.kind);
            (key.direction, of_sender.unwrap_or(3), rank(key), *key)
        });
        let (passed, offered) = (self.passed, self.offered);
        let finished = hops.into_iter().map(|(key, hop)| {
            let passed = &passed[usize::from(key.direction == Direction::In)];
            let weight_ns = passed.weight_ns(key.kind, hop.bytes, hop.byte_ns);
            let mut hop = Hop {
                weight_ns,
                ..hop.finish(key)
            };
            hop.places.all = offered.to(&key);
            hop
        });
        self.report.hops = finished.collect();
        move_full_buffers(&mut self.report.hops);
        self.report.unsent = self.senders.finish(self.report.sample_every);
        self.report
    }

    fn hop(&mut self, key: HopKey, rank: usize) -> &mut HopFold {
        let hop = self.hops.entry(key).or_default();
        hop.ranks += rank as u64;
        hop.ranked += 1;
        hop
    }

    /// Counts a packet that was dropped where what it had says how far it was.
    fn drop_at(&mut self, journey: &Journey, direction: Direction, reason: &str, rank: usize) {
        let Some(drop) = Drop::of(journey, reason) else {
            return;
        };
        let key = HopKey {
            direction,
            kind: drop.hop,
            device: drop.from,
        };
        let hop = self.hop(key, rank);
        hop.drop_one(reason);
        hop.is_exact = true;
        hop.places.add(drop, reason);
    }

    /// What was dropped or is still there after a driver, is in that of the device's hops that packets pass: only then is known
    /// which one it is.
    fn merge_guesses(&mut self) {
        let is_guess = |hop: &HopFold| hop.queued_now > 0 || !hop.drops.is_empty();
        let guessed: Vec<_> = self
            .hops
            .iter()
            .filter(|(_, hop)| is_guess(hop))
            .map(|(key, hop)| (*key, hop.packets))
            .collect();
        for (guess, packets) in guessed {
            let others: &[HopKind] = match guess.kind {
                HopKind::Device => &[HopKind::Tunnel, HopKind::Ring, HopKind::Upper],
                HopKind::Stack if self.hops.get(&guess).is_some_and(|hop| hop.is_exact) => &[HopKind::Socket],
                HopKind::Stack => &[HopKind::Socket, HopKind::Forward, HopKind::Handover],
                _ => &[],
            };
            let passed = others.iter().map(|kind| HopKey { kind: *kind, ..guess });
            let most = passed
                .filter_map(|key| Some((self.hops.get(&key)?.packets, key)))
                .max_by_key(|(passed, _)| *passed)
                .filter(|(passed, key)| *passed > packets || packets == 0 && self.hops[key].is_exact);
            let Some((_, key)) = most else { continue };
            let Some(hop) = self.hops.get_mut(&guess) else {
                continue;
            };
            let (queued_now, drops) = (hop.queued_now, std::mem::take(&mut hop.drops));
            hop.queued_now = 0;
            if packets == 0 {
                self.hops.remove(&guess);
            }
            if let Some(into) = self.hops.get_mut(&key) {
                into.queued_now += queued_now;
                for (reason, count) in drops {
                    *into.drops.entry(reason).or_default() += count;
                }
            }
        }
    }
}

fn key(direction: Direction, kind: HopKind, from: &Stamp) -> HopKey {
    HopKey {
        direction,
        kind,
        // What TCP has received while the program held the socket was not seen on its way into the receive queue.
        device: Device::of(from).filter(|_| kind != HopKind::Socket),
    }
}

/// What a program has read, or accepted.
pub(crate) struct Reading {
    pub(crate) pid: Option<u32>,
    pub(crate) comm: Comm,
    /// For how long it was ready and had no processor, since the reading before.
    pub(crate) waited_ns: Option<u64>,
    /// Since when it waited for the program.
    pub(crate) from_ns: u64,
    pub(crate) read_ns: u64,
    /// Whether others were not followed.
    pub(crate) is_sampled: bool,
    /// Whether the pace of its reader is that of calls that read a stream.
    pub(crate) is_stream: bool,
}

/// A hop on the way to its numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct HopFold {
    packets: u64,
    bytes: u64,
    delays: Histogram,
    total_ns: u64,
    /// The sum of each packet's delay times its bytes.
    byte_ns: u128,
    qdisc: Option<Qdisc>,
    queued_now: u64,
    stays: Occupancy,
    send_buffer: Option<SendBuffer>,
    drops: BTreeMap<String, u64>,
    places: Places,
    /// Whether it is known of what was dropped that it was here.
    is_exact: bool,
    /// With the time of the last reading of the process.
    readers: Vec<(Reader, u64)>,
    /// Packets that were read when the list was full, by programs that are not in it.
    unlisted_reads: u64,
    /// The sum of its places in the journeys, and how many these were.
    ranks: u64,
    ranked: u64,
}

impl HopFold {
    fn pass(&mut self, journey: &Journey, from: &Stamp, to: &Stamp) {
        self.bytes += u64::from(journey.bytes);
        self.byte_ns += u128::from(to.ns.saturating_sub(from.ns)) * u128::from(journey.bytes);
        self.stay(from.ns, to.ns);
        if let (Point::Written, Some(now)) = (from.point, journey.send_buffer) {
            let max = self.send_buffer.get_or_insert(now);
            max.unsent = max.unsent.max(now.unsent);
            max.unacked = max.unacked.max(now.unacked);
        }
        match (from.length, self.qdisc) {
            (QueueLength::NoQueue, None) => self.qdisc = Some(Qdisc::None),
            (QueueLength::Packets(now), Some(Qdisc::Packets(max))) => {
                self.qdisc = Some(Qdisc::Packets(max.max(now)));
            }
            (QueueLength::Packets(now), _) => self.qdisc = Some(Qdisc::Packets(now)),
            _ => {}
        }
    }

    /// Counts one that was there from then until then.
    pub(crate) fn stay(&mut self, from_ns: u64, to_ns: u64) {
        // The clocks of two processors differ by less than what is measured, but may differ.
        let ns = to_ns.saturating_sub(from_ns);
        self.packets += 1;
        self.delays.record(ns);
        self.total_ns = self.total_ns.saturating_add(ns);
        self.stays.add(from_ns, to_ns);
    }

    /// Counts one that left without being read.
    pub(crate) fn drop_one(&mut self, reason: &str) {
        *self.drops.entry(reason.to_owned()).or_default() += 1;
    }

    /// Counts that a program has read a packet, and how long after the one before, if the packet waited then.
    pub(crate) fn read(&mut self, reading: &Reading) {
        let Reading { pid, comm, .. } = *reading;
        let place = match self.place_of(pid, comm) {
            Some(place) => place,
            None if self.readers.len() < READERS_MAX => {
                let reader = Reader {
                    pid,
                    comm,
                    packets: 0,
                    readings: 0,
                    pause_ns: 0,
                    between_reads: Histogram::new(),
                    processor_waits: Histogram::new(),
                };
                self.readers.push((reader, 0));
                self.readers.len() - 1
            }
            None => {
                self.unlisted_reads += 1;
                return;
            }
        };
        let (reader, last_ns) = &mut self.readers[place];
        let before = std::mem::replace(last_ns, reading.read_ns);
        reader.packets += 1;
        if let Some(ns) = reading.waited_ns {
            reader.processor_waits.record(ns);
        }
        if reading.is_sampled || reading.is_stream {
            return;
        }
        reader.readings += 1;
        let pause_ns = reading.read_ns.saturating_sub(reading.from_ns.max(before));
        reader.pause_ns = reader.pause_ns.max(pause_ns);
        let waited = reading.from_ns <= before && before <= reading.read_ns;
        if waited && before > 0 {
            reader.between_reads.record(reading.read_ns - before);
        }
    }

    fn place_of(&self, pid: Option<u32>, comm: Comm) -> Option<usize> {
        let is = |(reader, _): &(Reader, u64)| reader.pid == pid && reader.comm == comm;
        self.readers.iter().position(is)
    }

    /// Counts a reading of a stream, and the time since the one before.
    fn pace(&mut self, pace: &Pace) {
        let Some(place) = self.place_of(pace.reader, pace.comm) else {
            return;
        };
        let reader = &mut self.readers[place].0;
        reader.readings += u64::from(pace.is_new);
        reader.pause_ns = reader.pause_ns.max(pace.pause_ns);
        if let Some(ns) = pace.gap_ns {
            reader.between_reads.record(ns);
        }
    }

    /// Adds what another one has.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.delays.merge(&other.delays);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.stays.merge(&other.stays);
        for (reason, count) in &other.drops {
            *self.drops.entry(reason.clone()).or_default() += count;
        }
        for (reader, last_ns) in &other.readers {
            let is_same = |(one, _): &(Reader, u64)| one.pid == reader.pid && one.comm == reader.comm;
            match self.readers.iter().position(is_same) {
                Some(place) => {
                    let one = &mut self.readers[place].0;
                    one.packets += reader.packets;
                    one.readings += reader.readings;
                    one.pause_ns = one.pause_ns.max(reader.pause_ns);
                    one.between_reads.merge(&reader.between_reads);
                    one.processor_waits.merge(&reader.processor_waits);
                }
                None if self.readers.len() < READERS_MAX => self.readers.push((reader.clone(), *last_ns)),
                None => self.unlisted_reads += reader.packets,
            }
        }
        self.unlisted_reads += other.unlisted_reads;
    }

    /// The mean place in journeys.
    fn rank_ppm(&self) -> u64 {
        (self.ranks * 1_000_000).checked_div(self.ranked).unwrap_or(0)
    }

    pub(crate) fn finish(self, key: HopKey) -> Hop {
        let mut readers: Vec<Reader> = self.readers.into_iter().map(|(reader, _)| reader).collect();
        readers.sort_by_key(|reader| std::cmp::Reverse(reader.packets));
        Hop {
            key,
            part: None,
            packets: self.packets,
            bytes: self.bytes,
            delays: self.delays,
            total_ns: self.total_ns,
            weight_ns: self.total_ns,
            qdisc: self.qdisc,
            queued_now: self.queued_now,
            queued_max: self.stays.max().max(self.queued_now),
            ring_bytes: None,
            dropping_class: None,
            send_buffer: self.send_buffer,
            drops: self.drops,
            places: self.places,
            readers,
            unlisted_reads: self.unlisted_reads,
            waiting: None,
        }
    }
}

/// What a full buffer of a socket does not take is dropped on the way to it, and is a matter of its receive queue.
fn move_full_buffers(hops: &mut [Hop]) {
    for direction in [Direction::Out, Direction::In] {
        let is = |hop: &Hop, kind| hop.key.kind == kind && hop.key.direction == direction;
        if !hops.iter().any(|hop| is(hop, HopKind::Socket)) {
            continue;
        }
        let mut moved: BTreeMap<String, u64> = BTreeMap::new();
        for hop in hops.iter_mut().filter(|hop| is(hop, HopKind::Stack)) {
            hop.drops.retain(|reason, count| {
                let is_moved = is_full_buffer(reason);
                if is_moved {
                    *moved.entry(reason.clone()).or_default() += *count;
                }
                !is_moved
            });
        }
        if let Some(socket) = hops.iter_mut().find(|hop| is(hop, HopKind::Socket)) {
            for (reason, count) in moved {
                *socket.drops.entry(reason).or_default() += count;
            }
        }
    }
}

/// No packet stays longer where there is no queue.
const PASSING_NS_MAX: u64 = 100_000_000;

/// Most readers of a hop: each has two histograms, of 590 KB together.
const READERS_MAX: usize = 32;

#[cfg(test)]
mod tests;
