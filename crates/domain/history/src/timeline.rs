//! A selection of connections over time: how many there are, and what they transferred from one point to the next.

use crate::gap::GapReason;
use crate::sums::Sums;
use std::collections::HashMap;
use std::hash::Hash;

/// A connection at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PointConnection {
    /// Bytes that the peer acknowledged; `None` if unknown.
    pub bytes_acked: Option<u64>,
    /// Bytes received.
    pub bytes_received: Option<u64>,
    /// Segments retransmitted.
    pub retrans_segs: Option<u64>,
    /// Round trip time.
    pub rtt_us: Option<u32>,
}

/// The connections of a sample.
#[derive(Debug, Clone)]
pub struct SampleConnections<K> {
    /// Those that are there, by what identifies them.
    pub there: HashMap<K, PointConnection>,
    /// Those that have ended since the sample before, with their counters at the end; `None` for one that was in no sample.
    pub ended: Vec<(Option<K>, PointConnection)>,
}

impl<K> Default for SampleConnections<K> {
    fn default() -> Self {
        Self {
            there: HashMap::new(),
            ended: Vec::new(),
        }
    }
}

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Number of connections; `None` in a gap.
    pub connections: Option<u64>,
    /// What was sent since the point before, also by connections that have ended; `None` if it is not known, as in a gap. What was sent
    /// between two samples is spread evenly over the time between them.
    pub sent_bytes: Option<u64>,
    /// The same, received.
    pub received_bytes: Option<u64>,
    /// Segments retransmitted since the point before.
    pub retrans_segs: Option<u64>,
    /// Median of the round trip times.
    pub rtt_us_median: Option<u32>,
    /// Findings that were there since the point before; `None` if there was no check.
    pub findings: Option<u64>,
    /// Why there is no sample, here or since the point before.
    pub gap: Option<GapReason>,
}

/// Makes points out of samples. Both are added by time: a point after the sample that answers for it.
#[derive(Debug)]
pub struct Timeline<K> {
    since_ms: u64,
    points: Vec<Point>,
    before: Option<(u64, HashMap<K, PointConnection>)>,
    /// Number and median of the round trip times at the last sample.
    last: (u64, Option<u32>),
    differences: Vec<Difference>,
    /// A gap since the last point.
    gap: Option<GapReason>,
}

/// What was transferred between two samples.
#[derive(Debug, Clone, Copy)]
struct Difference {
    from_ms: u64,
    to_ms: u64,
    sent_bytes: u64,
    received_bytes: u64,
    retrans_segs: u64,
}

impl<K: Eq + Hash> Timeline<K> {
    /// Begins at a time, in milliseconds since 1970: the first point has what was transferred since then.
    #[must_use]
    pub fn new(since_ms: u64) -> Self {
        Self {
            since_ms,
            points: Vec::new(),
            before: None,
            last: (0, None),
            differences: Vec::new(),
            gap: None,
        }
    }

    /// Adds a sample. It is compared with the one before.
    pub fn add_sample(&mut self, at_ms: u64, connections: SampleConnections<K>) {
        let SampleConnections { there, ended } = connections;
        if let Some((from_ms, before)) = self.before.take() {
            let sum = |value: fn(&PointConnection) -> Option<u64>| -> u64 {
                let since = |id: Option<&K>, now: &PointConnection| {
                    let then = id.and_then(|id| before.get(id)).and_then(value).unwrap_or(0);
                    Some(value(now)?.saturating_sub(then))
                };
                let there = there.iter().filter_map(|(id, now)| since(Some(id), now));
                let ended = ended.iter().filter_map(|(id, now)| since(id.as_ref(), now));
                there.chain(ended).sum()
            };
            self.differences.push(Difference {
                from_ms,
                to_ms: at_ms,
                sent_bytes: sum(|one| one.bytes_acked),
                received_bytes: sum(|one| one.bytes_received),
                retrans_segs: sum(|one| one.retrans_segs),
            });
        }
        let mut rtts: Vec<u32> = there.values().filter_map(|one| one.rtt_us).collect();
        rtts.sort_unstable();
        self.last = (there.len() as u64, rtts.get(rtts.len() / 2).copied());
        self.before = Some((at_ms, there));
    }

    /// Adds what was transferred in a time, which is known without samples. Such times are added by time, and do not overlap with those
    /// between samples.
    pub fn add_transferred(&mut self, (from_ms, to_ms): (u64, u64), sums: &Sums) {
        if from_ms < to_ms {
            self.differences.push(Difference {
                from_ms,
                to_ms,
                sent_bytes: sums.sent_bytes,
                received_bytes: sums.received_bytes,
                retrans_segs: sums.retrans_segs,
            });
        }
    }

    /// Forgets the last sample: no difference may span what follows.
    pub fn forget(&mut self) {
        self.before = None;
    }

    /// Adds a point for which the last sample answers.
    pub fn add_point(&mut self, at_ms: u64) {
        let (connections, rtt_us_median) = self.last;
        self.push(at_ms, Some(connections), rtt_us_median);
    }

    /// Adds a point for which no sample answers.
    pub fn add_gap(&mut self, at_ms: u64, reason: GapReason) {
        self.gap = Some(reason);
        self.push(at_ms, None, None);
    }

    /// Notes a gap between the last point and the next one, which has a sample and shows it.
    pub fn note_gap(&mut self, reason: GapReason) {
        self.gap = Some(reason);
    }

    fn push(&mut self, at_ms: u64, connections: Option<u64>, rtt_us_median: Option<u32>) {
        self.points.push(Point {
            at_ms,
            connections,
            sent_bytes: None,
            received_bytes: None,
            retrans_segs: None,
            rtt_us_median,
            findings: None,
            gap: self.gap.take(),
        });
    }

    /// Returns the points.
    #[must_use]
    pub fn finish(self) -> Vec<Point> {
        let mut points = self.points;
        let mut from_ms = self.since_ms;
        let mut differences = &self.differences[..];
        for point in &mut points {
            let to_ms = point.at_ms;
            let (mut known_ms, mut sums) = (0, [0; 3]);
            for difference in differences.iter().take_while(|one| one.from_ms < to_ms) {
                known_ms += difference.part_in(from_ms, to_ms, &mut sums);
            }
            let passed = differences.iter().take_while(|one| one.to_ms <= to_ms).count();
            differences = &differences[passed..];
            // What is known of less than half of the time would look like less traffic.
            if known_ms * 2 >= to_ms.saturating_sub(from_ms) && known_ms > 0 {
                [point.sent_bytes, point.received_bytes, point.retrans_segs] = sums.map(Some);
            }
            from_ms = to_ms;
        }
        points
    }
}

impl Difference {
    /// Adds the part that belongs to a time; returns how long of it the two samples have between them.
    fn part_in(&self, from_ms: u64, to_ms: u64, sums: &mut [u64; 3]) -> u64 {
        let (from_ms, to_ms) = (from_ms.max(self.from_ms), to_ms.min(self.to_ms));
        if from_ms >= to_ms {
            return 0;
        }
        let length_ms = u128::from(self.to_ms - self.from_ms);
        // Parts that follow one another add up to the whole.
        let until = |whole: u64, at_ms: u64| {
            (u128::from(whole) * u128::from(at_ms - self.from_ms) / length_ms) as u64
        };
        let wholes = [self.sent_bytes, self.received_bytes, self.retrans_segs];
        for (sum, whole) in sums.iter_mut().zip(wholes) {
            *sum += until(whole, to_ms) - until(whole, from_ms);
        }
        to_ms - from_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(bytes: u64, rtt_us: u32) -> PointConnection {
        PointConnection {
            bytes_acked: Some(bytes),
            rtt_us: Some(rtt_us),
            ..PointConnection::default()
        }
    }

    fn there<const N: usize>(all: [(u64, PointConnection); N]) -> SampleConnections<u64> {
        SampleConnections {
            there: HashMap::from(all),
            ended: Vec::new(),
        }
    }

    fn sent_bytes(timeline: Timeline<u64>) -> Vec<Option<u64>> {
        let points = timeline.finish();
        points.iter().map(|point| point.sent_bytes).collect()
    }

    #[test]
    fn differences_end_at_gaps() {
        let mut timeline = Timeline::new(0);
        timeline.add_sample(0, there([(1, sent(100, 9))]));
        timeline.add_point(0);
        timeline.add_sample(10, there([(1, sent(150, 9)), (2, sent(7, 3)), (3, sent(0, 5))]));
        timeline.add_point(10);
        timeline.add_gap(20, GapReason::Reboot);
        timeline.forget();
        timeline.add_sample(30, there([(1, sent(999, 4))]));
        timeline.add_point(30);
        let points = timeline.finish();
        let of = |value: fn(&Point) -> Option<u64>| points.iter().map(value).collect::<Vec<_>>();
        assert_eq!(of(|point| point.sent_bytes), [None, Some(57), None, None]);
        assert_eq!(of(|point| point.connections), [Some(1), Some(3), None, Some(1)]);
        assert_eq!(points[1].rtt_us_median, Some(5));
        // No connection reports what it received.
        assert_eq!(points[1].received_bytes, Some(0));
        assert_eq!(points[2].gap, Some(GapReason::Reboot));
    }

    #[test]
    fn gap_between_two_points_is_that_of_the_second() {
        let mut timeline = Timeline::new(0);
        timeline.add_sample(0, there([(1, sent(100, 9))]));
        timeline.add_point(0);
        timeline.note_gap(GapReason::Reboot);
        timeline.forget();
        timeline.add_sample(10, there([(1, sent(150, 9))]));
        timeline.add_point(10);
        timeline.add_sample(20, there([(1, sent(160, 9))]));
        timeline.add_point(20);
        let shown: Vec<_> = timeline
            .finish()
            .iter()
            .map(|point| (point.gap, point.sent_bytes))
            .collect();
        assert_eq!(
            shown,
            [(None, None), (Some(GapReason::Reboot), None), (None, Some(10))]
        );
    }

    #[test]
    fn points_between_two_samples_share_what_was_sent() {
        let mut timeline = Timeline::new(0);
        for at_ms in [0, 50, 100] {
            timeline.add_sample(at_ms, there([(1, sent(at_ms * 7, 9))]));
            let until = if at_ms == 100 { 130 } else { at_ms + 50 };
            (at_ms..until)
                .step_by(10)
                .for_each(|at_ms| timeline.add_point(at_ms));
        }
        let mut expected = vec![None];
        expected.extend([Some(70); 10]);
        // Of the time after the last sample nothing is known yet.
        expected.extend([None; 2]);
        assert_eq!(sent_bytes(timeline), expected);
    }

    #[test]
    fn nothing_is_lost_where_points_and_samples_alternate() {
        let mut timeline = Timeline::new(3);
        let mut point_ms = 3;
        for sample_ms in (0..=100).step_by(9) {
            while point_ms < sample_ms {
                timeline.add_point(point_ms);
                point_ms += 7;
            }
            timeline.add_sample(sample_ms, there([(1, sent(sample_ms * 11, 9))]));
        }
        let sums: u64 = sent_bytes(timeline).iter().flatten().sum();
        // The last point is at 94.
        assert_eq!(sums, (94 - 3) * 11);
    }

    #[test]
    fn connections_that_ended_between_two_samples_count() {
        let mut timeline = Timeline::new(0);
        timeline.add_sample(0, there([(1, sent(100, 9))]));
        let mut sample = there([]);
        sample.ended = vec![(Some(1), sent(130, 9)), (None, sent(5, 9)), (Some(4), sent(1, 9))];
        timeline.add_sample(10, sample);
        timeline.add_point(10);
        assert_eq!(sent_bytes(timeline), [Some(36)]);
    }
}
