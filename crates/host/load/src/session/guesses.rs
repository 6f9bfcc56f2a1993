//! Limits how many wrong secrets an address can try. An address that has tried too many waits; only then is the next one
//! compared.

use super::limits::{AddressGroup, GUESSES_BURST, GUESSES_PER_S};
use std::collections::HashMap;
use std::time::Instant;

/// Recent wrong proofs by address.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    recent: HashMap<AddressGroup, Recent>,
}

#[derive(Debug, Clone, Copy)]
struct Recent {
    /// Wrong proofs; one is forgiven every `1 / GUESSES_PER_S`.
    count: f64,
    at: Instant,
}

impl Recent {
    fn count(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.count - passed * GUESSES_PER_S).max(0.0)
    }
}

impl Guesses {
    /// Returns whether a proof from this address may be compared now.
    pub(super) fn allows(&self, group: AddressGroup, now: Instant) -> bool {
        let recent = self.recent.get(&group);
        recent.is_none_or(|recent| recent.count(now) + 1.0 <= GUESSES_BURST)
    }

    /// Records a wrong proof.
    pub(super) fn fail(&mut self, group: AddressGroup, now: Instant) {
        if self.recent.len() >= ADDRESSES_MAX {
            self.recent.retain(|_, recent| recent.count(now) > 0.0);
        }
        // More addresses than these have no limit each, but few guesses each.
        if self.recent.len() >= ADDRESSES_MAX && !self.recent.contains_key(&group) {
            return;
        }
        let recent = self.recent.entry(group).or_insert(Recent { count: 0.0, at: now });
        *recent = Recent {
            count: recent.count(now) + 1.0,
            at: now,
        };
    }
}

/// Most addresses that are remembered.
const ADDRESSES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn address_with_many_wrong_secrets_waits() {
        let (mut guesses, begun) = (Guesses::default(), Instant::now());
        let group = |last: u8| AddressGroup::of([10, 0, 0, last].into());
        let mut count = 0;
        while guesses.allows(group(1), begun) {
            guesses.fail(group(1), begun);
            count += 1;
        }
        assert!((f64::from(count) - GUESSES_BURST).abs() < 0.5, "{count}");
        assert!(guesses.allows(group(2), begun));
        let later = begun + Duration::from_secs_f64(1.0 / GUESSES_PER_S + 0.001);
        assert!(guesses.allows(group(1), later));
        guesses.fail(group(1), later);
        assert!(!guesses.allows(group(1), later));
    }

    #[test]
    fn number_of_addresses_has_a_bound() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        for number in 0..2 * ADDRESSES_MAX as u32 {
            guesses.fail(AddressGroup::V4(number.into()), now);
        }
        assert_eq!(guesses.recent.len(), ADDRESSES_MAX);
        guesses.fail(
            AddressGroup::V4([9, 9, 9, 9].into()),
            now + Duration::from_secs(60),
        );
        assert_eq!(guesses.recent.len(), 1);
    }
}
