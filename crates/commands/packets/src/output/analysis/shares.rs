//! Shares of time in percent that add up to 100.

use sockeye_trace::{Connection, Limit, Shares};

/// Returns the shares in whole percent, in the order of [`Limit::ALL`]; `None` if no time passed.
///
/// The rest of rounding down is added to the shares with the largest remainders, so that none is off by more than one.
pub(super) fn percent(shares: &Shares) -> Option<[u8; Limit::ALL.len()]> {
    let total = shares.0.iter().map(|part| u128::from(*part)).sum::<u128>();
    if total == 0 {
        return None;
    }
    let mut whole = shares.0.map(|part| (u128::from(part) * 100 / total) as u8);
    let remainders = shares.0.map(|part| u128::from(part) * 100 % total);
    let mut order: Vec<usize> = (0..whole.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(remainders[*index]));
    let sum: u8 = whole.iter().sum();
    for index in order.into_iter().take(usize::from(100 - sum)) {
        whole[index] += 1;
    }
    Some(whole)
}

/// Returns this time as a part of the connection's time: `97% of the time`; never more than 100%.
pub(super) fn share_of(ns: u64, connection: &Connection) -> String {
    let total = u128::from(connection.duration_ns().max(1));
    let percent = (u128::from(ns) * 100 + total / 2) / total;
    if percent == 0 {
        "less than 1% of the time".to_owned()
    } else {
        format!("{}% of the time", percent.min(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_100() {
        let check = |parts: [u64; 7], expected: [u8; 7]| {
            let found = percent(&Shares(parts)).unwrap();
            assert_eq!(found, expected, "{parts:?}");
            assert_eq!(found.iter().sum::<u8>(), 100);
        };
        check([1, 1, 1, 0, 0, 0, 0], [34, 33, 33, 0, 0, 0, 0]);
        check([0, 0, 0, 0, 7, 0, 0], [0, 0, 0, 0, 100, 0, 0]);
        check([1, 1, 1, 1, 1, 1, 1], [15, 15, 14, 14, 14, 14, 14]);
        check([u64::MAX, u64::MAX, 0, 0, 0, 0, 0], [50, 50, 0, 0, 0, 0, 0]);
        check([1, 999, 0, 0, 0, 0, 0], [0, 100, 0, 0, 0, 0, 0]);
        assert_eq!(percent(&Shares::default()), None);
    }
}
