//! How often sockets are listed to find the owners of drops.

use std::time::{Duration, Instant};

/// When the sockets of new drops are listed.
#[derive(Debug)]
pub(super) struct ListingPace {
    next: Instant,
    /// How many keys had been made at the last listing.
    keys: u64,
}

impl ListingPace {
    pub(super) const fn new(next: Instant) -> Self {
        Self { next, keys: 0 }
    }

    /// Whether to list sockets: there are new keys, and it is time.
    pub(super) fn may_list(&self, now: Instant, keys: u64) -> bool {
        keys != self.keys && now >= self.next
    }

    pub(super) fn listed(&mut self, begin: Instant, end: Instant, keys: u64) {
        (self.next, self.keys) = (after_listing(begin, end), keys);
    }
}

/// Returns the earliest time of the listing after one.
pub(super) fn after_listing(begin: Instant, end: Instant) -> Instant {
    end + (end.duration_since(begin) * LISTING_PAUSE).max(LISTING_MIN)
}

/// Shortest time between two listings of sockets for owners of packets, and between two readings of rules.
pub(super) const LISTING_MIN: Duration = Duration::from_secs(1);
/// How many times as long as a listing took the pause after it is: listing takes 2 % of the time at most.
const LISTING_PAUSE: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_listed_for_new_keys_in_two_percent_of_the_time() {
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        let mut pace = ListingPace::new(begin);
        assert!(pace.may_list(begin, 1) && !pace.may_list(begin, 0));
        pace.listed(begin, after(200), 1);
        assert!(!pace.may_list(after(10_199), 2));
        assert!(pace.may_list(after(10_200), 2));
        assert!(!pace.may_list(after(60_000), 1));
        pace.listed(begin, after(1), 1);
        assert!(!pace.may_list(after(1_000), 2));
        assert!(pace.may_list(after(1_001), 2));
    }
}
