//! How long the queue of a tunnel's device should be.

/// What got through a tunnel with a queue of some length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueuePoint {
    /// Its length (`txqueuelen`).
    pub packets: u32,
    /// The median of what got through.
    pub bytes_per_s: f64,
    /// Packets that the device sent.
    pub sent: f64,
    /// Packets that found it full.
    pub dropped: f64,
}

/// A length to choose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueAdvice {
    /// The length.
    pub packets: u32,
    /// What gets through with it.
    pub bytes_per_s: f64,
    /// That, as a multiple of what the shortest that was tried lets through.
    pub gain: f64,
    /// How long a packet waits in it when it is full.
    pub full_us: Option<f64>,
    /// It drops nevertheless, more than one packet of a thousand.
    pub still_drops: bool,
}

/// The knee of the curve: the shortest queue that drops hardly anything, where nearly as much gets through as with the best.
/// A longer one would only make packets wait. What a shorter queue lets through a longer one can, too: if it did not, the
/// machine was busy. Where all drop, or little gets through without, the shortest that lets nearly as much through as the
/// best.
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
    /// With how long a packet of this mean size waits behind a full queue.
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

/// A device as it is, and what it carried over some time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QueueInUse {
    /// `txqueuelen`
    pub packets: Option<u32>,
    /// Packets it sent, in a second.
    pub sent_per_s: f64,
    /// Packets it dropped, in a second.
    pub dropped_per_s: f64,
    /// Packets it sent since it was made.
    pub sent_ever: u64,
    /// Packets it dropped since it was made.
    pub dropped_ever: u64,
}

/// What to make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueVerdict {
    /// It is too short: set it to this.
    Lengthen(u32),
    /// It is long, and drops: the program that empties it is too slow, or has too little of a processor.
    SlowReader,
    /// It is long enough.
    Fine,
}

/// Whether a queue in use should be longer. It has to hold what comes while its reader is not looking: a turn of the
/// scheduler, 10 ms, at the rate at which packets come, twice over; and at least as many as a TUN device does by itself.
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
    let needed = (come_per_s * ABSENCE_S * 2.0).max(f64::from(usual));
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

/// Near the best: at least this much of it.
const NEAR_PERMILLE: f64 = 850.0;
/// Drops that are no harm: fewer of all packets.
const FEW_PERMILLE: f64 = 1.0;
/// `TUN_READQ_SIZE` of `drivers/net/tun.c`: what a TUN device has if nobody says otherwise.
const USUAL_PACKETS: u32 = 500;
/// How long a reader may be away, in seconds.
const ABSENCE_S: f64 = 0.01;
/// Where it drops, it may take more.
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
    fn the_knee() {
        // The order in which they were measured does not matter.
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
    fn dropping_near_the_best() {
        // As much gets through with 10 as with 100, but 10 drops.
        let points = [
            point(3, 10.0, 900.0),
            point(10, 99.0, 100.0),
            point(100, 100.0, 1.0),
        ];
        assert_eq!(recommend_queue(&points).unwrap().packets, 100);
        // One measurement of a busy machine: what drops let a little more through.
        let points = [
            point(3, 10.0, 900.0),
            point(100, 100.0, 100.0),
            point(500, 60.0, 1.0),
            point(1000, 65.0, 0.0),
        ];
        assert_eq!(recommend_queue(&points).unwrap().packets, 500);
        // Without drops next to nothing gets through.
        let points = [
            point(3, 10.0, 900.0),
            point(100, 100.0, 100.0),
            point(500, 20.0, 0.0),
        ];
        let advice = recommend_queue(&points).unwrap();
        assert_eq!((advice.packets, advice.still_drops), (100, true));
        // Each drops: the shortest that does as well.
        let points = [
            point(3, 10.0, 900.0),
            point(10, 99.0, 100.0),
            point(100, 100.0, 100.0),
        ];
        let advice = recommend_queue(&points).unwrap();
        assert_eq!((advice.packets, advice.still_drops), (10, true));
    }

    #[test]
    fn nothing_to_go_by() {
        assert_eq!(recommend_queue(&[]), None);
        assert_eq!(
            recommend_queue(&[point(3, 0.0, 0.0), point(10, f64::NAN, 0.0)]),
            None
        );
        let advice = recommend_queue(&[point(3, 5.0, 0.0)]).unwrap();
        assert_eq!((advice.packets, advice.gain), (3, 1.0));
    }

    #[test]
    fn queues_in_use() {
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
