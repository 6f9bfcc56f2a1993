//! What was measured.

use crate::drops::Places;
use crate::hop::{Direction, HopKey, HopKind};
use crate::part::{Fill, Part};
use crate::stuck::{Idle, Stuck, StuckCause};
use crate::unsent::Unsent;
use sockeye_measure::Histogram;
use sockeye_model::{Comm, Process};
use sockeye_wire::path::SendBuffer;
use std::collections::BTreeMap;

/// The numbers of a hop. Delays are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Hop {
    /// Which one.
    pub key: HopKey,
    /// Of rows that are no part of the way of packets: which queue it is.
    pub part: Option<Part>,
    /// Packets that passed; of accept queues: connections that were accepted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long they were there.
    pub delays: Histogram,
    /// The sum of all delays.
    pub total_ns: u64,
    /// The same in which each byte counts, not each packet, and for all packets of the way where the times of some only are known:
    /// what shares are of.
    pub weight_ns: u64,
    /// What the kernel says of the queue.
    pub qdisc: Option<Qdisc>,
    /// Packets that were still there at the end.
    pub queued_now: u64,
    /// Packets that were there at once, at most: of those that were followed.
    pub queued_max: u64,
    /// Bytes in the ring of the device; `None` if that is not known.
    pub ring_bytes: Option<Fill>,
    /// The class in which most of the drops of a qdisc were, as its kernel counts them; `None` if none is known.
    pub dropping_class: Option<u32>,
    /// The fullest send buffer of TCP, of the packets that left one.
    pub send_buffer: Option<SendBuffer>,
    /// Dropped packets by their reason; empty text if the kernel gives none.
    pub drops: BTreeMap<String, u64>,
    /// Where exactly those were dropped of which that is known.
    pub(crate) places: Places,
    /// The programs that read, with the most packets first.
    pub readers: Vec<Reader>,
    /// Packets that other programs read: of a hop so many are kept, and no more.
    pub unlisted_reads: u64,
    /// What stands still there; `None` if nothing is known to.
    pub waiting: Option<Waiting>,
}

/// Data that stand still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// What they wait for.
    pub cause: StuckCause,
    /// For how long, at least.
    pub at_least_ns: u64,
    /// How many bytes; `None` where they are no bytes of a stream or datagrams.
    pub bytes: Option<Fill>,
    /// How much of the buffer is taken, in percent; `None` if unknown.
    pub full_percent: Option<u8>,
    /// The program of the socket; `None` if unknown.
    pub program: Option<Process>,
    /// Further connections of that program that wait for the same.
    pub more: u64,
}

impl Hop {
    /// Whether times are known, and not only what waits.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.part.is_none() || self.packets + self.dropped() > 0
    }

    /// Returns the number of dropped packets.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }
}

/// The queue of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qdisc {
    /// There is none: packets pass at once.
    None,
    /// At most so many packets were in it when one entered.
    Packets(u32),
}

/// A program that reads packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Reader {
    /// Its process; `None` in another pid namespace.
    pub pid: Option<u32>,
    /// Its name.
    pub comm: Comm,
    /// Packets that it read.
    pub packets: u64,
    /// How often it read: of TCP calls, of others packets; 0 if that is not known.
    pub readings: u64,
    /// From one reading to the next, where the next packet waited already. Empty if not each packet is followed.
    pub between_reads: Histogram,
    /// The longest time that data waited and it read nothing; 0 if that is not known.
    pub pause_ns: u64,
    /// From one reading to the next, how long it was ready but had no processor.
    pub processor_waits: Histogram,
}

impl Reader {
    /// Returns the time from one reading to the next, the mean, if data waited already before most readings. A program that rather waits for
    /// data has no pace of its own, whatever the time between some of its readings was.
    #[must_use]
    pub fn pace_ns(&self) -> Option<u64> {
        let gaps = &self.between_reads;
        let mean = gaps.mean().filter(|_| gaps.count() * 2 >= self.readings)?;
        Some(mean.round() as u64)
    }
}

/// What was seen of all packets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathReport {
    /// In the order of the way, each direction for itself.
    pub hops: Vec<Hop>,
    /// What most of the data in send buffers waits for, of each direction in which that is known.
    pub unsent: Vec<Unsent>,
    /// Connections whose data stand still, the worst first.
    pub stuck: Vec<Stuck>,
    /// Further ones that did not fit.
    pub stuck_unlisted: u64,
    /// Sockets that match, at the end; `None` if packets were followed.
    pub sockets: Option<u64>,
    /// Connections in whose queues is nothing, if nothing else was seen; `None` otherwise.
    pub idle: Option<Idle>,
    /// Journeys that ended: read, sent, or done.
    pub complete: u64,
    /// Journeys of packets that were dropped.
    pub dropped: u64,
    /// Journeys of packets that were divided into segments, which have journeys of their own.
    pub divided: u64,
    /// Journeys of packets that were merged into others in a receive queue.
    pub merged: u64,
    /// Journeys of first fragments, which end where the packet is reassembled.
    pub reassembled: u64,
    /// Journeys that were lost sight of.
    pub lost: u64,
    /// Journeys that had not ended.
    pub unfinished: u64,
    /// Of how many packets one was followed.
    pub sample_every: u32,
}

impl PathReport {
    /// Returns the time that shares are of. What programs do between reading and writing is no part of it.
    fn weight_ns(&self) -> u64 {
        let is_on_the_way = |hop: &&Hop| hop.key.kind != HopKind::Program && hop.part.is_none();
        let on_the_way = self.hops.iter().filter(is_on_the_way);
        on_the_way.map(|hop| hop.weight_ns).sum()
    }

    /// Returns a hop's part of that time, in millionths; `None` for programs, and where times are not known.
    #[must_use]
    pub fn share_ppm(&self, hop: &Hop) -> Option<u64> {
        if hop.key.kind == HopKind::Program || hop.part.is_some() {
            return None;
        }
        let total = u128::from(self.weight_ns());
        let part = u128::from(hop.weight_ns) * 1_000_000;
        u64::try_from(part.checked_div(total)?).ok()
    }

    /// Returns the number of packets that were followed.
    #[must_use]
    pub const fn followed(&self) -> u64 {
        self.complete
            + self.dropped
            + self.divided
            + self.merged
            + self.reassembled
            + self.lost
            + self.unfinished
    }

    /// Returns of how many of the packets that have ended the end is known, in millionths. Of one that was merged, and not seen to be read, it
    /// is not.
    #[must_use]
    pub fn matched_ppm(&self) -> Option<u64> {
        let ended = self.complete + self.dropped;
        (ended * 1_000_000).checked_div(ended + self.merged + self.reassembled + self.lost)
    }

    /// Returns the hops of a direction.
    pub fn of(&self, direction: Direction) -> impl Iterator<Item = &Hop> {
        self.hops.iter().filter(move |hop| hop.key.direction == direction)
    }
}
