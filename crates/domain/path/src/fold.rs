//! From journeys to hops.

use crate::hop::{Device, Direction, HopKey, HopKind};
use crate::occupancy::Occupancy;
use crate::report::{Hop, PathReport, Qdisc, Reader};
use sockeye_measure::Histogram;
use sockeye_model::Comm;
use sockeye_wire::path::{Journey, Point, QueueLength, SendBuffer, Stamp};
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
    /// It was lost sight of.
    Lost,
    /// It has not ended.
    Unfinished,
}

/// Folds journeys.
#[derive(Debug, Clone)]
pub struct PathFold {
    hops: HashMap<HopKey, HopFold>,
    /// The last reading of each program, and when it was.
    readings: HashMap<(Option<u32>, HopKey), u64>,
    report: PathReport,
}

impl PathFold {
    /// Begins, where one of `sample_every` packets is followed.
    #[must_use]
    pub fn new(sample_every: u32) -> Self {
        Self {
            hops: HashMap::new(),
            readings: HashMap::new(),
            report: PathReport {
                sample_every,
                ..PathReport::default()
            },
        }
    }

    /// Adds a journey. They should come in the order of their ends.
    pub fn add(&mut self, journey: &Journey, direction: Direction, ending: Ending<'_>) {
        *match ending {
            Ending::Complete => &mut self.report.complete,
            Ending::Dropped(_) => &mut self.report.dropped,
            Ending::Divided => &mut self.report.divided,
            Ending::Merged => &mut self.report.merged,
            Ending::Lost => &mut self.report.lost,
            Ending::Unfinished => &mut self.report.unfinished,
        } += 1;
        // What the sender did before is known of some packets only: the places of all are counted from the first queue on.
        let is_before = |stamp: &&Stamp| matches!(stamp.point, Point::ReadBefore | Point::Written);
        let before = journey.stamps.iter().take_while(is_before).count();
        for (nth, pair) in journey.stamps.windows(2).enumerate() {
            let [from, to] = pair else { continue };
            let rank = nth.saturating_sub(before);
            let Some(kind) = HopKind::between(from.point, to.point) else {
                continue;
            };
            let key = key(direction, kind, from);
            let hop = self.hop(key, rank);
            hop.pass(journey, from, to);
            if to.point == Point::Read {
                self.read(key, journey, from.ns, to.ns);
            }
        }
        let rank = journey.stamps.len() - before;
        match (ending, &journey.stamps[..]) {
            (Ending::Dropped(reason), [.., from, _]) => {
                if let Some(kind) = HopKind::after(from.point) {
                    let drops = &mut self.hop(key(direction, kind, from), rank).drops;
                    *drops.entry(reason.to_owned()).or_default() += 1;
                }
            }
            (Ending::Unfinished, [.., from]) => {
                if let Some(kind) = HopKind::after(from.point) {
                    self.hop(key(direction, kind, from), rank).queued_now += 1;
                }
            }
            _ => {}
        }
    }

    /// Returns the devices that packets have passed until now.
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        self.hops.keys().filter_map(|key| key.device)
    }

    /// Returns what was measured.
    #[must_use]
    pub fn finish(mut self) -> PathReport {
        self.merge_guesses();
        let mut hops: Vec<_> = self.hops.into_iter().collect();
        hops.sort_by_key(|(key, hop)| {
            let of_sender = [HopKind::Program, HopKind::Send]
                .iter()
                .position(|kind| *kind == key.kind);
            (key.direction, of_sender.unwrap_or(2), hop.rank_ppm(), *key)
        });
        self.report.hops = hops.into_iter().map(|(key, hop)| hop.finish(key)).collect();
        self.report
    }

    fn hop(&mut self, key: HopKey, rank: usize) -> &mut HopFold {
        let hop = self.hops.entry(key).or_default();
        hop.ranks += rank as u64;
        hop.ranked += 1;
        hop
    }

    /// Counts that a program has read a packet, and how long after the one before, if the packet waited then.
    fn read(&mut self, key: HopKey, journey: &Journey, waited_from_ns: u64, read_ns: u64) {
        let Some(hop) = self.hops.get_mut(&key) else {
            return;
        };
        let comm = Comm::from_c(&journey.comm);
        let place = hop
            .readers
            .iter()
            .position(|reader| reader.pid == journey.reader && reader.comm == comm);
        let place = match place {
            Some(place) => place,
            None if hop.readers.len() < READERS_MAX => {
                hop.readers.push(Reader {
                    pid: journey.reader,
                    comm,
                    packets: 0,
                    between_reads: Histogram::new(),
                    processor_waits: Histogram::new(),
                });
                hop.readers.len() - 1
            }
            None => {
                hop.unlisted_reads += 1;
                return;
            }
        };
        let before = self.readings.insert((journey.reader, key), read_ns);
        let reader = &mut hop.readers[place];
        reader.packets += 1;
        if let Some(ns) = journey.waited_ns {
            reader.processor_waits.record(ns);
        }
        let waited = before.filter(|before| waited_from_ns <= *before && *before <= read_ns);
        if let (Some(before), 1) = (waited, self.report.sample_every) {
            reader.between_reads.record(read_ns - before);
        }
    }

    /// What was dropped or is still there after a driver, is in that of the device's hops that packets pass: only then is known
    /// which one it is.
    fn merge_guesses(&mut self) {
        let guessed: Vec<_> = self
            .hops
            .iter()
            .filter(|(_, hop)| hop.packets == 0)
            .map(|(key, _)| *key)
            .collect();
        for guess in guessed {
            let others: &[HopKind] = match guess.kind {
                HopKind::Device => &[HopKind::Tunnel, HopKind::Ring, HopKind::Upper],
                HopKind::Stack => &[HopKind::Socket, HopKind::Forward, HopKind::Handover],
                _ => &[],
            };
            let passed = others
                .iter()
                .map(|kind| HopKey { kind: *kind, ..guess })
                .find(|key| self.hops.get(key).is_some_and(|hop| hop.packets > 0));
            if let Some(key) = passed
                && let Some(hop) = self.hops.remove(&guess)
                && let Some(into) = self.hops.get_mut(&key)
            {
                into.queued_now += hop.queued_now;
                for (reason, count) in hop.drops {
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

/// A hop on the way to its numbers.
#[derive(Debug, Clone, Default)]
struct HopFold {
    packets: u64,
    bytes: u64,
    delays: Histogram,
    total_ns: u64,
    qdisc: Option<Qdisc>,
    queued_now: u64,
    stays: Occupancy,
    send_buffer: Option<SendBuffer>,
    drops: BTreeMap<String, u64>,
    readers: Vec<Reader>,
    /// Packets that were read when the list was full, by programs that are not in it.
    unlisted_reads: u64,
    /// The sum of its places in the journeys, and how many these were.
    ranks: u64,
    ranked: u64,
}

impl HopFold {
    fn pass(&mut self, journey: &Journey, from: &Stamp, to: &Stamp) {
        // The clocks of two processors differ by less than what is measured, but may differ.
        let ns = to.ns.saturating_sub(from.ns);
        self.packets += 1;
        self.bytes += u64::from(journey.bytes);
        self.delays.record(ns);
        self.total_ns = self.total_ns.saturating_add(ns);
        self.stays.add(from.ns, to.ns);
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

    /// The mean place in journeys.
    fn rank_ppm(&self) -> u64 {
        (self.ranks * 1_000_000).checked_div(self.ranked).unwrap_or(0)
    }

    fn finish(mut self, key: HopKey) -> Hop {
        self.readers
            .sort_by_key(|reader| std::cmp::Reverse(reader.packets));
        Hop {
            key,
            part: None,
            packets: self.packets,
            bytes: self.bytes,
            delays: self.delays,
            total_ns: self.total_ns,
            qdisc: self.qdisc,
            queued_now: self.queued_now,
            queued_max: self.stays.max(),
            ring_bytes: None,
            send_buffer: self.send_buffer,
            drops: self.drops,
            readers: self.readers,
            unlisted_reads: self.unlisted_reads,
        }
    }
}

/// Most readers of a hop: each has two histograms, of 590 KB together.
const READERS_MAX: usize = 32;

#[cfg(test)]
mod tests;
