//! A selection of connections over time: how many there are, and what they transferred from one point to the next.

use crate::gap::GapReason;
use std::collections::HashMap;

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

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Number of connections; `None` in a gap.
    pub connections: Option<u64>,
    /// What was transferred since the point before by connections that are there; `None` if there is no point before.
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

/// Makes points out of samples, by time.
#[derive(Debug)]
pub struct Timeline<K> {
    points: Vec<Point>,
    before: Option<HashMap<K, PointConnection>>,
    /// A gap since the last point.
    gap: Option<GapReason>,
}

impl<K> Default for Timeline<K> {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            before: None,
            gap: None,
        }
    }
}

impl<K: Eq + std::hash::Hash> Timeline<K> {
    /// Adds a sample: its connections by what identifies them.
    pub fn add(&mut self, at_ms: u64, connections: HashMap<K, PointConnection>) {
        let before = self.before.take();
        let since = |value: fn(&PointConnection) -> Option<u64>| {
            let before = before.as_ref()?;
            let of_one = |(id, now): (&K, &PointConnection)| {
                let then = before.get(id).and_then(value).unwrap_or(0);
                Some(value(now)?.saturating_sub(then))
            };
            Some(connections.iter().filter_map(of_one).sum())
        };
        let mut rtts: Vec<u32> = connections.values().filter_map(|one| one.rtt_us).collect();
        rtts.sort_unstable();
        self.points.push(Point {
            at_ms,
            connections: Some(connections.len() as u64),
            sent_bytes: since(|one| one.bytes_acked),
            received_bytes: since(|one| one.bytes_received),
            retrans_segs: since(|one| one.retrans_segs),
            rtt_us_median: rtts.get(rtts.len() / 2).copied(),
            findings: None,
            gap: self.gap.take(),
        });
        self.before = Some(connections);
    }

    /// Adds a time without a sample. What was transferred across it is not counted.
    pub fn add_gap(&mut self, at_ms: u64, reason: GapReason) {
        (self.before, self.gap) = (None, None);
        self.points.push(Point {
            at_ms,
            connections: None,
            sent_bytes: None,
            received_bytes: None,
            retrans_segs: None,
            rtt_us_median: None,
            findings: None,
            gap: Some(reason),
        });
    }

    /// Notes a gap between the last point and the next one, which has a sample: nothing is compared across it, and that point shows it.
    pub fn note_gap(&mut self, reason: GapReason) {
        (self.before, self.gap) = (None, Some(reason));
    }

    /// Returns the points.
    #[must_use]
    pub fn finish(self) -> Vec<Point> {
        self.points
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

    #[test]
    fn differences_end_at_gaps() {
        let mut timeline = Timeline::default();
        timeline.add(0, HashMap::from([(1, sent(100, 9))]));
        timeline.add(
            10,
            HashMap::from([(1, sent(150, 9)), (2, sent(7, 3)), (3, sent(0, 5))]),
        );
        timeline.add_gap(20, GapReason::Reboot);
        timeline.add(30, HashMap::from([(1, sent(999, 4))]));
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
        let mut timeline = Timeline::default();
        timeline.add(0, HashMap::from([(1, sent(100, 9))]));
        timeline.note_gap(GapReason::Reboot);
        timeline.add(10, HashMap::from([(1, sent(150, 9))]));
        timeline.add(20, HashMap::from([(1, sent(160, 9))]));
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
}
