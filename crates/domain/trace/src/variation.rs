//! How much delays vary, and whether they grow with the data in flight.
//!
//! A sender's timestamps show when it sent each segment, by a clock of milliseconds: the time until the capture varies only
//! with the path between them, not with the sender's program. Round trips that grow with the data in flight show a queue that
//! the connection fills itself.

use crate::histogram::Histogram;
use crate::percentiles::Percentiles;

/// Variation of delays in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelayVariation {
    /// Delays from the sender to the capture above the shortest one, by the sender's timestamps
    pub one_way: Percentiles,
    /// Mean difference of two successive delays, in nanoseconds: small while a queue fills or drains
    pub one_way_step_ns: u64,
    /// Correlation of the delays from the sender to the capture with the data in flight, likewise
    pub one_way_correlation_percent: Option<i8>,
    /// Correlation of round trips with the data in flight, in percent, from -100 to 100; `None`: too few or constant
    pub flight_correlation_percent: Option<i8>,
}

/// Delays between sender and capture, by the sender's timestamps.
#[derive(Debug, Default)]
pub(crate) struct OneWayDelay {
    first: Option<(u64, u32)>,
    last: (u64, u32),
    /// Least difference of both clocks since `since_ns`, and in the period before
    least_ns: i64,
    before_ns: Option<i64>,
    since_ns: u64,
    /// Least difference in the first period
    first_least_ns: i64,
    is_first_period: bool,
    /// Correlation of the delays with the data in flight
    correlation: FlightCorrelation,
    /// Empty until the connection is long enough
    above: Histogram,
    ticks_seen: u32,
    last_difference_ns: i64,
    steps_ns: u64,
}

impl OneWayDelay {
    /// Records a segment with this timestamp, if it is the first with it, and the data in flight then.
    pub(crate) fn add(&mut self, now_ns: u64, clock: u32, flight: u64) {
        // Most segments have the timestamp of the one before.
        if clock.wrapping_sub(self.last.1) as i32 <= 0 && self.first.is_some() {
            return;
        }
        let Some((first_ns, first_clock)) = self.first else {
            self.first = Some((now_ns, clock));
            (self.last, self.since_ns) = ((now_ns, clock), now_ns);
            self.is_first_period = true;
            return;
        };
        self.last = (now_ns, clock);
        let difference_ns = difference_ns((first_ns, first_clock), (now_ns, clock));
        // Clocks drift: the shortest delay is that of the last seconds.
        let since_ns = now_ns.saturating_sub(self.since_ns);
        if since_ns > DRIFT_NS {
            self.before_ns = (since_ns <= STALE_NS).then_some(self.least_ns);
            (self.since_ns, self.least_ns) = (now_ns, difference_ns);
            self.is_first_period = false;
        }
        self.least_ns = self.least_ns.min(difference_ns);
        if self.is_first_period {
            self.first_least_ns = self.least_ns;
        }
        if self.ticks_seen < TICKS_BEFORE {
            self.ticks_seen += 1;
            self.last_difference_ns = difference_ns;
            return;
        }
        let step_ns = difference_ns.abs_diff(self.last_difference_ns);
        self.last_difference_ns = difference_ns;
        self.steps_ns = self.steps_ns.saturating_add(step_ns);
        let above_ns = u64::try_from(difference_ns - self.base_ns()).unwrap_or(0);
        self.above.add(above_ns, 1);
        self.correlation.add(above_ns, flight);
    }

    /// How much longer than the shortest delay a segment with this timestamp took.
    pub(crate) fn above_ns(&self, now_ns: u64, clock: u32) -> u64 {
        let Some(first) = self.first else { return 0 };
        u64::try_from(difference_ns(first, (now_ns, clock)) - self.base_ns()).unwrap_or(0)
    }

    /// How much longer than the shortest delay of the seconds after it the first segment took.
    pub(crate) fn first_above_ns(&self) -> u64 {
        u64::try_from(-self.first_least_ns).unwrap_or(0)
    }

    /// The shortest delay of the last periods.
    fn base_ns(&self) -> i64 {
        self.before_ns
            .map_or(self.least_ns, |before_ns| before_ns.min(self.least_ns))
    }

    /// Correlation of the delays with the data in flight, in percent; `None` if there are too few values.
    pub(crate) fn correlation_percent(&self) -> Option<i8> {
        self.correlation.percent()
    }

    /// Whether the clock counts milliseconds, as far as the time between the first and the last segment shows.
    pub(crate) fn is_in_ms(&self) -> bool {
        let Some((first_ns, first_clock)) = self.first else {
            return false;
        };
        let ticks = u64::from(self.last.1.wrapping_sub(first_clock));
        let passed_ns = self.last.0.saturating_sub(first_ns);
        let clock_ns = ticks.saturating_mul(TICK_NS as u64);
        // The last segment may have been the one that took longest.
        let most_ns = self.above.percentile(100).unwrap_or(0).min(passed_ns / 3);
        ticks >= TICKS_MIN && clock_ns.abs_diff(passed_ns) <= passed_ns / 20 + most_ns
    }

    /// The delays above the shortest; none if the clock does not count milliseconds.
    pub(crate) fn percentiles(&self) -> Percentiles {
        let most_ns = self.above.percentile(99).unwrap_or(0);
        let passed_ns = self
            .first
            .map_or(0, |(first_ns, _)| self.last.0.saturating_sub(first_ns));
        if self.is_in_ms() && passed_ns / 2 >= most_ns {
            self.above.percentiles()
        } else {
            Percentiles::default()
        }
    }

    /// Mean difference of two successive delays, in nanoseconds; 0 if there are none.
    pub(crate) fn mean_step_ns(&self) -> u64 {
        self.steps_ns.checked_div(self.above.count()).unwrap_or(0)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.above.heap_bytes()
    }
}

/// Difference of the time that passed since the first segment and what the sender's clock says.
fn difference_ns((first_ns, first_clock): (u64, u32), (now_ns, clock): (u64, u32)) -> i64 {
    let clock_ns = i64::from(clock.wrapping_sub(first_clock) as i32) * TICK_NS;
    i64::try_from(now_ns.saturating_sub(first_ns).min(PASSED_NS_MAX)).unwrap_or(0) - clock_ns
}

/// Sums for the correlation of round trips with the data in flight.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FlightCorrelation {
    count: f64,
    flight: f64,
    rtt: f64,
    flight_squares: f64,
    rtt_squares: f64,
    products: f64,
}

impl FlightCorrelation {
    /// Records a round trip, and the data in flight when it ended.
    pub(crate) fn add(&mut self, rtt_ns: u64, flight: u64) {
        let (rtt, flight) = (rtt_ns as f64 / 1e3, flight as f64);
        self.count += 1.0;
        self.flight += flight;
        self.rtt += rtt;
        self.flight_squares += flight * flight;
        self.rtt_squares += rtt * rtt;
        self.products += flight * rtt;
    }

    /// The correlation in percent; `None` if there are too few values, or one of both is constant.
    pub(crate) fn percent(&self) -> Option<i8> {
        if self.count < SAMPLES_MIN {
            return None;
        }
        let of_flight = self.count * self.flight_squares - self.flight * self.flight;
        let of_rtt = self.count * self.rtt_squares - self.rtt * self.rtt;
        let product = self.count * self.products - self.flight * self.rtt;
        let divisor = of_flight.max(0.0).sqrt() * of_rtt.max(0.0).sqrt();
        (divisor > 1.0).then(|| (product / divisor * 100.0).clamp(-100.0, 100.0) as i8)
    }
}

/// Clocks of timestamps count milliseconds (Linux, Windows, BSD).
const TICK_NS: i64 = 1_000_000;

/// Timestamps that only find the shortest delay: short connections need no memory for the others.
const TICKS_BEFORE: u32 = 8;

/// Ticks that are enough to know the unit of a clock.
const TICKS_MIN: u64 = 200;

/// Quartz clocks drift by less than a millisecond in this time.
const DRIFT_NS: u64 = 10_000_000_000;

/// Longer times are wrong, and would overflow.
const PASSED_NS_MAX: u64 = 1 << 61;

/// After this time, a period says nothing about the next one.
const STALE_NS: u64 = 60_000_000_000;

/// Round trips that are enough for a correlation.
const SAMPLES_MIN: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn one_way_delay_varies_without_the_program() {
        let mut delay = OneWayDelay::default();
        for number in 0..200_u64 {
            let sent_ms = number * 7 + number % 3 * 40;
            delay.add((sent_ms + 20 + number % 5 * 10) * MS, sent_ms as u32 + 77, 0);
        }
        let found = delay.percentiles();
        assert!(
            found.count > 50 && (39..=41).contains(&(found.max_ns / MS)),
            "{found:?}"
        );
        assert!((10..=31).contains(&(found.p50_ns / MS)), "{found:?}");
    }

    #[test]
    fn one_delayed_segment_is_recognised() {
        let mut delay = OneWayDelay::default();
        // The first segment is late, too.
        delay.add(1_120 * MS, 1_000, 0);
        for sent_ms in (1_200..25_000_u64).step_by(100) {
            delay.add((sent_ms + 20) * MS, sent_ms as u32, 0);
        }
        assert_eq!(delay.first_above_ns() / MS, 100);
        assert_eq!(delay.above_ns(25_720 * MS, 25_000) / MS, 700);
        assert_eq!(delay.above_ns(25_020 * MS, 25_000), 0);
        assert!(delay.is_in_ms());
    }

    #[test]
    fn clock_of_another_unit_says_nothing() {
        let mut delay = OneWayDelay::default();
        for number in 0..2_000_u64 {
            delay.add(number * 4 * MS, number as u32, 0);
        }
        assert_eq!(delay.percentiles().count, 0);
    }

    #[test]
    fn growing_round_trips_correlate_with_the_flight() {
        let (mut grows, mut varies, mut constant) = (
            FlightCorrelation::default(),
            FlightCorrelation::default(),
            FlightCorrelation::default(),
        );
        for number in 1..100_u64 {
            grows.add(20 * MS + number * MS, number * 1_448);
            varies.add(20 * MS + number * 37 % 50 * MS, number * 61 % 40 * 1_448);
            constant.add(20 * MS, number * 1_448);
        }
        assert!(grows.percent() >= Some(95), "{:?}", grows.percent());
        assert!(
            varies.percent().is_some_and(|percent| percent.abs() < 40),
            "{:?}",
            varies.percent()
        );
        assert_eq!(constant.percent(), None);
    }
}
