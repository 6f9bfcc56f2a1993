//! Recommended queue length of a tunnel device.

/// Result of a measurement with one queue length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueuePoint {
    /// The length in packets (`txqueuelen`).
    pub packets: u32,
    /// Median rate that arrived.
    pub bytes_per_s: f64,
    /// Packets sent by the device.
    pub sent: f64,
    /// Packets dropped because the queue was full.
    pub dropped: f64,
}

/// A recommended length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueAdvice {
    /// The length in packets.
    pub packets: u32,
    /// Rate with this length.
    pub bytes_per_s: f64,
    /// Rate as a multiple of that with the shortest tested length.
    pub gain: f64,
    /// Waiting time of a packet in a full queue, in microseconds; `None` if the packet size is unknown.
    pub full_us: Option<f64>,
    /// Whether more than one packet in a thousand is still dropped.
    pub still_drops: bool,
}

/// Recommends the shortest queue with few drops and a rate near the best. A longer one would only delay
/// packets. A longer queue carries at least the rate of a shorter one: a lower measured rate shows a busy
/// machine. If all lengths drop, or the rate without drops is low, the shortest with a rate near the best is
/// recommended.
///
/// ```
/// use sockeye_measure::{QueuePoint, recommend_queue};
///
/// let point = |packets, bytes_per_s, dropped| QueuePoint { packets, bytes_per_s, sent: 1e5, dropped };
/// let points = [point(3, 3e6, 9e3), point(100, 2.6e7, 800.0), point(500, 2.7e7, 0.0), point(1000, 2.75e7, 0.0)];
/// let advice = recommend_queue(&points).unwrap();
/// assert_eq!(advice.packets, 500);
/// ```
#[must_use]
pub fn recommend_queue(points: &[QueuePoint]) -> Option<QueueAdvice> {
    let mut points: Vec<_> = points
        .iter()
        .filter(|point| point.bytes_per_s.is_finite() && point.bytes_per_s > 0.0)
        .collect();
    points.sort_by_key(|point| point.packets);
    let shortest = points.first()?;
    let best = points.iter().map(|point| point.bytes_per_s).fold(0.0, f64::max);
    let near = best * NEAR_PERMILLE / 1000.0;
    let mut so_far = 0.0;
    let knee = points.iter().find(|point| {
        so_far = f64::max(so_far, point.bytes_per_s);
        so_far >= near && lost_permille(point) <= FEW_PERMILLE && point.bytes_per_s * 2.0 >= best
    });
    let chosen = knee.or_else(|| points.iter().find(|point| point.bytes_per_s >= near))?;
    Some(QueueAdvice {
        packets: chosen.packets,
        bytes_per_s: chosen.bytes_per_s,
        gain: chosen.bytes_per_s / shortest.bytes_per_s,
        full_us: None,
        still_drops: lost_permille(chosen) > FEW_PERMILLE,
    })
}

impl QueueAdvice {
    /// Adds the waiting time in a full queue for packets of this mean size.
    #[must_use]
    pub fn with_packets_of(self, bytes: f64) -> Self {
        let full_us = f64::from(self.packets) * bytes / self.bytes_per_s * 1e6;
        Self {
            full_us: Some(full_us).filter(|us| us.is_finite()),
            ..self
        }
    }
}

fn lost_permille(point: &QueuePoint) -> f64 {
    let all = point.sent + point.dropped;
    if all > 0.0 {
        point.dropped / all * 1000.0
    } else {
        0.0
    }
}

/// The queue of a device in use, and its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QueueInUse {
    /// `txqueuelen`
    pub packets: Option<u32>,
    /// Packets sent per second.
    pub sent_per_s: f64,
    /// Packets dropped per second.
    pub dropped_per_s: f64,
    /// Packets sent since the device was created.
    pub sent_ever: u64,
    /// Packets dropped since the device was created.
    pub dropped_ever: u64,
}

/// Verdict about a queue in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueVerdict {
    /// Too short: set this length.
    Lengthen(u32),
    /// Long, but drops: the reading program is too slow, or gets too little processor time.
    SlowReader,
    /// Long enough.
    Fine,
}

/// Judges a queue in use. It must hold the packets that arrive while its reader does not run (a scheduler
/// period of 10 ms), twice over; and at least the default of a TUN device.
#[must_use]
pub fn judge_queue(queue: &QueueInUse) -> QueueVerdict {
    let Some(length) = queue.packets else {
        return QueueVerdict::Fine;
    };
    let come_per_s = queue.sent_per_s + queue.dropped_per_s;
    let ever = queue.sent_ever as f64 + queue.dropped_ever as f64;
    let drops_now = queue.dropped_per_s * 1000.0 > FEW_PERMILLE * come_per_s;
    let dropped_before = queue.dropped_ever as f64 * 1000.0 > FEW_PERMILLE * ever;
    let usual = if drops_now || dropped_before {
        AFTER_DROPS
    } else {
        USUAL_PACKETS
    };
    let needed = (come_per_s * READER_PAUSE_S * 2.0).max(f64::from(usual));
    let better = ROUND_LENGTHS
        .into_iter()
        .find(|&round| f64::from(round) >= needed)
        .unwrap_or(LONGEST);
    if length < USUAL_PACKETS || (drops_now && length < better) {
        return QueueVerdict::Lengthen(better);
    }
    if drops_now {
        QueueVerdict::SlowReader
    } else {
        QueueVerdict::Fine
    }
}

/// Near the best: at least this part of its rate.
const NEAR_PERMILLE: f64 = 850.0;
/// Acceptable drops: less than this part of all packets.
const FEW_PERMILLE: f64 = 1.0;
/// `TUN_READQ_SIZE` of `drivers/net/tun.c`: the default of a TUN device.
const USUAL_PACKETS: u32 = 500;
/// Longest pause of a reader, in seconds.
const READER_PAUSE_S: f64 = 0.01;
/// Least length for a queue that drops.
const AFTER_DROPS: u32 = 1000;
const ROUND_LENGTHS: [u32; 5] = [500, 1000, 2000, 5000, LONGEST];
const LONGEST: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn point(packets: u32, bytes_per_s: f64, dropped: f64) -> QueuePoint {
        QueuePoint {
            packets,
            bytes_per_s,
            sent: 10_000.0,
            dropped,
        }
    }

    #[test]
    fn shortest_queue_near_the_best_is_recommended() {
        // The order of measurements does not matter.
        let points = [
            point(1000, 101.0, 0.0),
            point(3, 10.0, 900.0),
            point(100, 98.0, 0.0),
            point(500, 100.0, 0.0),
        ];
        let advice = recommend_queue(&points).unwrap();
        assert_eq!(
            (advice.packets, advice.gain, advice.still_drops),
            (100, 9.8, false)
        );
        let advice = advice.with_packets_of(1500.0);
        assert_eq!(advice.full_us.map(f64::round), Some(1_530_612_245.0));
    }

    #[test]
    fn fewer_drops_are_preferred_near_the_best() {
        // The rates with 10 and 100 are equal, but 10 drops.
        let points = [
            point(3, 10.0, 900.0),
            point(10, 99.0, 100.0),
            point(100, 100.0, 1.0),
        ];
        assert_eq!(recommend_queue(&points).unwrap().packets, 100);
        // A busy machine: a length with drops had a slightly higher rate.
        let points = [
            point(3, 10.0, 900.0),
            point(100, 100.0, 100.0),
            point(500, 60.0, 1.0),
            point(1000, 65.0, 0.0),
        ];
        assert_eq!(recommend_queue(&points).unwrap().packets, 500);
        // The rate without drops is very low.
        let points = [
            point(3, 10.0, 900.0),
            point(100, 100.0, 100.0),
            point(500, 20.0, 0.0),
        ];
        let advice = recommend_queue(&points).unwrap();
        assert_eq!((advice.packets, advice.still_drops), (100, true));
        // All drop: the shortest with an equal rate.
        let points = [
            point(3, 10.0, 900.0),
            point(10, 99.0, 100.0),
            point(100, 100.0, 100.0),
        ];
        let advice = recommend_queue(&points).unwrap();
        assert_eq!((advice.packets, advice.still_drops), (10, true));
    }

    #[test]
    fn no_points_give_no_advice() {
        assert_eq!(recommend_queue(&[]), None);
        assert_eq!(
            recommend_queue(&[point(3, 0.0, 0.0), point(10, f64::NAN, 0.0)]),
            None
        );
        let advice = recommend_queue(&[point(3, 5.0, 0.0)]).unwrap();
        assert_eq!((advice.packets, advice.gain), (3, 1.0));
    }

    #[test]
    fn queue_in_use_is_judged() {
        let queue = |packets, sent_per_s, dropped_per_s| QueueInUse {
            packets: Some(packets),
            sent_per_s,
            dropped_per_s,
            ..QueueInUse::default()
        };
        assert_eq!(judge_queue(&QueueInUse::default()), QueueVerdict::Fine);
        assert_eq!(judge_queue(&queue(500, 0.0, 0.0)), QueueVerdict::Fine);
        assert_eq!(judge_queue(&queue(3, 0.0, 0.0)), QueueVerdict::Lengthen(500));
        assert_eq!(
            judge_queue(&queue(3, 5_000.0, 500.0)),
            QueueVerdict::Lengthen(1000)
        );
        assert_eq!(
            judge_queue(&queue(500, 20_000.0, 100.0)),
            QueueVerdict::Lengthen(1000)
        );
        assert_eq!(
            judge_queue(&queue(500, 200_000.0, 1_000.0)),
            QueueVerdict::Lengthen(5000)
        );
        assert_eq!(
            judge_queue(&queue(5_000, 200_000.0, 1_000.0)),
            QueueVerdict::SlowReader
        );
        assert_eq!(judge_queue(&queue(10_000, 1e9, 1e8)), QueueVerdict::SlowReader);
        assert_eq!(judge_queue(&queue(1_000, 20_000.0, 1.0)), QueueVerdict::Fine);
        let before = QueueInUse {
            packets: Some(3),
            sent_ever: 1000,
            dropped_ever: 100,
            ..QueueInUse::default()
        };
        assert_eq!(judge_queue(&before), QueueVerdict::Lengthen(1000));
    }
}
