//! Medians, quartiles and ratios of a few samples.

/// The median; for an even number of samples the mean of the two in the middle, rounded down. `None` without
/// samples.
pub fn median(samples: &[u64]) -> Option<u64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = sorted[middle - 1];
    Some(lower + (upper - lower) / 2)
}

/// Half the distance between the quartiles, as a part of the median: a measure of the spread. `None` below
/// four samples, where quartiles mean nothing.
pub fn scatter(samples: &[u64]) -> Option<f64> {
    if samples.len() < 4 {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let half = sorted.len() / 2;
    let low = median(&sorted[..half])?;
    let high = median(&sorted[sorted.len() - half..])?;
    ratio((high - low) / 2, median(&sorted)?)
}

/// `ours` as a multiple of `theirs`; `None` if `theirs` is 0.
pub fn ratio(ours: u64, theirs: u64) -> Option<f64> {
    (theirs != 0).then(|| ours as f64 / theirs as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median(&[3, 1, 2]), Some(2));
        assert_eq!(median(&[4, 1, 3, 2]), Some(2));
        assert_eq!(median(&[10, 20]), Some(15));
        assert_eq!(median(&[7]), Some(7));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn median_of_huge_samples_does_not_overflow() {
        assert_eq!(median(&[u64::MAX, u64::MAX - 2]), Some(u64::MAX - 1));
    }

    #[test]
    fn one_outlier_moves_neither_median_nor_scatter() {
        let calm = [100, 101, 99, 100, 102, 98, 100];
        let disturbed = [100, 101, 99, 100, 9_000, 98, 100];
        assert_eq!(median(&calm), median(&disturbed));
        assert!(
            scatter(&disturbed).is_some_and(|s| s < 0.02),
            "{:?}",
            scatter(&disturbed)
        );
    }

    #[test]
    fn scatter_needs_four_samples() {
        assert_eq!(scatter(&[1, 2, 3]), None);
        assert_eq!(scatter(&[80, 80, 120, 120]), Some(0.2));
    }

    #[test]
    fn ratio_with_nothing_is_none() {
        assert_eq!(ratio(3, 2), Some(1.5));
        assert_eq!(ratio(3, 0), None);
        assert_eq!(ratio(0, 5), Some(0.0));
    }
}
