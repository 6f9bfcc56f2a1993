//! What the connections of a service did.

use sockeye_model::Rates;
use std::time::Duration;

/// Counts over an interval, or since the begin; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Connections that were opened.
    pub opened: Option<u64>,
    /// Connections that ended.
    pub closed: Option<u64>,
    /// Bytes of data that the peers acknowledged.
    pub sent_bytes: Option<u64>,
    /// Bytes of data that were received.
    pub received_bytes: Option<u64>,
    /// Segments that were sent again.
    pub retrans_segs: Option<u64>,
}

impl Counted {
    /// Nothing happened.
    pub const ZERO: Self = Self {
        opened: Some(0),
        closed: Some(0),
        sent_bytes: Some(0),
        received_bytes: Some(0),
        retrans_segs: Some(0),
    };

    /// Returns what rates over an interval were made of.
    #[must_use]
    pub fn of_rates(rates: &Rates, interval: Duration) -> Self {
        // A rate is a count divided by the interval: rounding gives the count.
        let count = |rate: Option<f64>| rate.map(|rate| (rate * interval.as_secs_f64()).round() as u64);
        Self {
            opened: count(rates.opened_per_s),
            closed: count(rates.closed_per_s),
            sent_bytes: count(rates.sent_bytes_per_s),
            received_bytes: count(rates.received_bytes_per_s),
            retrans_segs: count(rates.retrans_segs_per_s),
        }
    }

    /// Adds what is known of `more`.
    pub fn add(&mut self, more: &Self) {
        for (sum, more) in [
            (&mut self.opened, more.opened),
            (&mut self.closed, more.closed),
            (&mut self.sent_bytes, more.sent_bytes),
            (&mut self.received_bytes, more.received_bytes),
            (&mut self.retrans_segs, more.retrans_segs),
        ] {
            *sum = match (*sum, more) {
                (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
                (sum, more) => sum.or(more),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_give_the_counts_they_were_made_of() {
        let interval = Duration::from_millis(9_973);
        for count in [0_u64, 1, 3, 1_000_000_007, 1 << 52] {
            let rate = Some(count as f64 / interval.as_secs_f64());
            let rates = Rates {
                sent_bytes_per_s: rate,
                opened_per_s: rate,
                ..Rates::default()
            };
            let counted = Counted::of_rates(&rates, interval);
            assert_eq!((counted.sent_bytes, counted.opened), (Some(count), Some(count)));
            assert_eq!(counted.closed, None);
        }
    }

    #[test]
    fn unknown_changes_leave_a_sum_as_it_is() {
        let mut sum = Counted {
            opened: Some(4),
            ..Counted::default()
        };
        let more = Counted {
            opened: None,
            closed: Some(2),
            ..Counted::default()
        };
        sum.add(&more);
        sum.add(&more);
        assert_eq!((sum.opened, sum.closed, sum.sent_bytes), (Some(4), Some(4), None));
    }
}
