//! Estimates of the congestion window.
//!
//! A sender that only its congestion window limits fills it in each round trip: the maximum in flight is about the window.
//! Other round trips have no estimate: those in which the receiver's window was full, or nothing was in flight or sent for a
//! quarter of the time (the program had nothing to send), or segments were missing or sent again (segments after a gap still
//! count as in flight). A capture near the receiver has no estimates at all, because it shows hardly anything in flight.

use super::derived::windows;
use super::shapes::is_repeated;
use super::view::DirectionView;
use sockeye_trace::{Flag, MarkKind, SegmentPoint};

/// The estimate of one round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Estimate {
    /// Time of its first segment.
    pub(super) from_ns: u64,
    /// Time of its end.
    pub(super) until_ns: u64,
    /// Maximum in flight, in bytes.
    pub(super) bytes: u64,
}

/// Returns the estimates of a direction, in order of time.
pub(super) fn estimates(direction: &DirectionView<'_>) -> Vec<Estimate> {
    let side = &*direction.side;
    if !direction.is_flight_known || side.rtt.is_empty() || side.in_flight.is_empty() {
        return Vec::new();
    }
    let lens = side
        .segments
        .iter()
        .map(|point| point.end.saturating_sub(point.start));
    let full = lens.max().unwrap_or(0).min(FULL_SEGMENT);
    let windows = windows(direction);
    let duplicates = side
        .acks
        .iter()
        .filter(|ack| ack.is_duplicate)
        .map(|ack| ack.time_ns);
    let sacks = side.marks.iter().filter(|mark| mark.kind == MarkKind::Sack);
    let mut missing: Vec<u64> = duplicates.chain(sacks.map(|mark| mark.time_ns)).collect();
    missing.sort_unstable();
    let mut rtts = Cursor::new(&side.rtt);
    let mut flights = Cursor::new(&side.in_flight);
    let mut announced = Cursor::new(&windows);
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(first) = side.segments.get(next) {
        let from_ns = first.time_ns;
        // Before the first measurement, its value.
        let rtt_ns = rtts
            .at(from_ns)
            .or(side.rtt.first().copied())
            .map_or(0, |rtt| rtt.1);
        let until_ns = from_ns.saturating_add(rtt_ns.max(1));
        let len = side.segments[next..].partition_point(|segment| segment.time_ns < until_ns);
        let round = &side.segments[next..next + len.max(1)];
        next += round.len();

        let mut window = announced.at(from_ns).map(|point| point.1);
        let mut flight = flights.at(from_ns).map_or(0, |point| u64::from(point.1));
        let (mut bytes, mut since, mut empty_ns, mut is_window_full) = (0, from_ns, 0, false);
        loop {
            bytes = bytes.max(flight);
            is_window_full |= window.is_some_and(|window| flight.saturating_add(full) > window);
            let (changes, opens) = (flights.peek(until_ns), announced.peek(until_ns));
            let moment = match (changes, opens) {
                (Some(one), Some(other)) => one.0.min(other.0),
                (Some(one), None) => one.0,
                (None, Some(other)) => other.0,
                (None, None) => until_ns,
            };
            if flight == 0 {
                empty_ns += moment.saturating_sub(since);
            }
            since = moment;
            if changes.is_none() && opens.is_none() {
                break;
            }
            // An acknowledgement changes both at once.
            flight = flights.at(moment).map_or(0, |point| u64::from(point.1));
            window = announced.at(moment).map(|point| point.1);
        }
        let continues = side.segments.get(next).is_some_and(|segment| {
            is_data(segment) && segment.time_ns <= until_ns.saturating_add(rtt_ns / 4)
        });
        let first_missing = missing.partition_point(|time_ns| *time_ns < from_ns);
        let has_losses = missing
            .get(first_missing)
            .is_some_and(|time_ns| *time_ns < until_ns)
            || round
                .iter()
                .any(|segment| is_repeated(segment) || segment.flags.has(Flag::OutOfOrder));
        if bytes > 0
            && continues
            && !is_window_full
            && !has_losses
            && empty_ns < rtt_ns / 4
            && round.iter().any(is_data)
        {
            found.push(Estimate {
                from_ns,
                until_ns,
                bytes,
            });
        }
    }
    found
}

/// Returns whether this is more than a SYN or FIN.
fn is_data(segment: &SegmentPoint) -> bool {
    segment.end.saturating_sub(segment.start) > 1
}

/// A position in points that are sorted by time.
struct Cursor<'a, T> {
    points: &'a [(u64, T)],
    next: usize,
}

impl<'a, T: Copy> Cursor<'a, T> {
    const fn new(points: &'a [(u64, T)]) -> Self {
        Self { points, next: 0 }
    }

    /// Advances to the last point up to this time, and returns it.
    fn at(&mut self, time_ns: u64) -> Option<(u64, T)> {
        while self.points.get(self.next).is_some_and(|point| point.0 <= time_ns) {
            self.next += 1;
        }
        self.points[..self.next].last().copied()
    }

    /// Returns the next point, if it is before this time.
    fn peek(&self, time_ns: u64) -> Option<(u64, T)> {
        self.points
            .get(self.next)
            .copied()
            .filter(|point| point.0 < time_ns)
    }
}

/// A full segment; captured ones may be larger (TSO).
const FULL_SEGMENT: u64 = 1460;

#[cfg(test)]
mod tests {
    use super::super::GraphLayout;
    use super::super::view::View;
    use super::*;
    use crate::tests::transfers::{Transfer, connection};
    use sockeye_trace::{Series, SideSeries, WindowPoint};

    const MS: u64 = 1_000_000;

    /// Returns rounds of 100 ms, each with a burst of segments of 1000 bytes, which are acknowledged at its end.
    fn rounds(sizes: &[u32], window: u64) -> Series {
        let mut side = SideSeries::default();
        let mut start = 1;
        for (round, size) in sizes.iter().enumerate() {
            let begin = round as u64 * 100 * MS;
            for nth in 0..u64::from(*size) {
                side.segments.push(SegmentPoint {
                    time_ns: begin + nth * MS / 10,
                    start,
                    end: start + 1000,
                    flags: sockeye_trace::Flags::NONE,
                    frame: 1,
                    is_pushed: false,
                });
                start += 1000;
                side.in_flight
                    .push((begin + nth * MS / 10, (nth as u32 + 1) * 1000));
            }
            side.in_flight.push((begin + 99 * MS, 0));
            side.rtt.push((begin + 99 * MS, 99 * MS));
            side.windows.push(WindowPoint {
                time_ns: begin,
                sequence: start + window,
            });
        }
        Series {
            forward: side,
            ..Series::default()
        }
    }

    #[track_caller]
    fn check(series: &Series, expected: &[u64]) {
        let connection = connection(series);
        let layout = GraphLayout::default();
        let view = View::new(series, &connection, &layout);
        let found: Vec<_> = estimates(&view.directions[0])
            .iter()
            .map(|one| one.bytes / 1000)
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn estimate_is_maximum_in_flight_of_each_round_trip() {
        // No data follows the last one: perhaps the program had no more.
        check(&rounds(&[10, 20, 40, 20], 1 << 20), &[10, 20, 40]);
    }

    #[test]
    fn round_trips_with_other_limits_have_no_estimate() {
        // The receiver's window
        let mut series = rounds(&[10, 20, 30], 1 << 20);
        series.forward.windows = vec![WindowPoint {
            time_ns: 0,
            sequence: 20_500,
        }];
        check(&series, &[10]);
        // The program: half of each round trip nothing was in flight
        let mut series = rounds(&[3, 3, 3], 1 << 20);
        for flight in series.forward.in_flight.iter_mut().filter(|flight| flight.1 == 0) {
            flight.0 -= 50 * MS;
        }
        check(&series, &[]);
        // Losses
        let mut series = rounds(&[5, 5, 5], 1 << 20);
        series.forward.segments[6].flags =
            sockeye_trace::Flags::NONE.with(sockeye_trace::Flag::FastRetransmission);
        check(&series, &[5]);
        let mut series = rounds(&[5, 5, 5, 5], 1 << 20);
        series.forward.acks.push(sockeye_trace::AckPoint {
            time_ns: 150 * MS,
            sequence: 5001,
            is_duplicate: true,
        });
        check(&series, &[5, 5]);
        // A pause
        let mut series = rounds(&[5, 5, 5, 5], 1 << 20);
        for segment in &mut series.forward.segments[10..] {
            segment.time_ns += 500 * MS;
        }
        for flight in &mut series.forward.in_flight[12..] {
            flight.0 += 500 * MS;
        }
        check(&series, &[5, 5]);
    }

    #[test]
    fn estimates_do_not_exceed_known_window() {
        let (series, connection) = Transfer {
            segments: 4_000,
            loss_ppm: 2_000,
            queue: 400,
            ..Transfer::default()
        }
        .run();
        let layout = GraphLayout::default();
        let view = View::new(&series, &connection, &layout);
        let found = estimates(&view.directions[0]);
        let most = series.forward.in_flight.iter().map(|point| point.1).max();
        assert!(found.len() > 10, "{found:?}");
        assert!(
            found
                .iter()
                .all(|one| one.bytes <= u64::from(most.unwrap_or(0)) && one.from_ns < one.until_ns)
        );
        assert!(found.is_sorted_by_key(|one| one.from_ns));
    }
}
