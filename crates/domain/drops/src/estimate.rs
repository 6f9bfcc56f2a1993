//! Numbers that are estimated from a sample, of which the sum is known.

/// Changes estimates of the parts of a sum so that they are together what was counted, each in proportion.
///
/// ```
/// let mut estimates = [60, 30, 0];
/// sockeye_drops::fit(&mut estimates, 100);
/// assert_eq!(estimates, [67, 33, 0]);
/// ```
pub fn fit(estimates: &mut [u64], sum: u64) {
    let all: u128 = estimates.iter().map(|estimate| u128::from(*estimate)).sum();
    if all == 0 {
        return;
    }
    // The bound of each part by the parts before it: what is rounded off of one is in the next.
    let (mut before, mut given) = (0, 0);
    for estimate in estimates {
        before += u128::from(*estimate);
        let until = u64::try_from(before.saturating_mul(sum.into()).saturating_add(all / 2) / all)
            .unwrap_or(u64::MAX);
        *estimate = until.saturating_sub(given);
        given = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(estimates: &[u64], sum: u64, expected: &[u64]) {
        let mut fitted = estimates.to_vec();
        fit(&mut fitted, sum);
        assert_eq!(fitted, expected, "{estimates:?} {sum}");
    }

    #[test]
    fn parts_are_together_what_was_counted() {
        check(&[119_384], 99_997, &[99_997]);
        check(&[1, 1, 1], 10, &[3, 4, 3]);
        check(&[100, 0, 50], 30, &[20, 0, 10]);
        check(&[5, 5], 0, &[0, 0]);
        check(&[u64::MAX / 2; 2], u64::MAX, &[1 << 63, u64::MAX / 2]);
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        check(&[0, 0], 7, &[0, 0]);
        check(&[], 7, &[]);
    }
}
