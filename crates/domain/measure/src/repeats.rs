//! The same measurement made several times.

/// Results of the same measurement, in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Repeats(Vec<f64>);

impl Repeats {
    /// Adds a result; values that are not finite are dropped.
    pub fn push(&mut self, result: f64) {
        if result.is_finite() {
            self.0.push(result);
        }
    }

    /// Number of results.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All results.
    #[must_use]
    pub fn all(&self) -> &[f64] {
        &self.0
    }

    /// The median; `None` if empty.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let sorted = self.sorted();
        let upper = *sorted.get(sorted.len() / 2)?;
        if sorted.len() % 2 == 1 {
            return Some(upper);
        }
        Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
    }

    /// The smallest and the largest result.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let sorted = self.sorted();
        Some((*sorted.first()?, *sorted.last()?))
    }

    /// Bounds of the middle half; of three results both are the median.
    #[must_use]
    pub fn middle(&self) -> Option<(f64, f64)> {
        let sorted = self.sorted();
        let outer = (sorted.len() + 1) / 4;
        Some((
            *sorted.get(outer)?,
            *sorted.get(sorted.len().checked_sub(outer + 1)?)?,
        ))
    }

    /// Difference of the largest and the smallest result, in thousandths of the median; `None` below two
    /// results, or around 0.
    #[must_use]
    pub fn spread_permille(&self) -> Option<f64> {
        let median = self.median().filter(|&median| median > 0.0 && self.0.len() > 1)?;
        let (low, high) = self.range()?;
        Some((high - low) / median * 1000.0)
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

impl FromIterator<f64> for Repeats {
    fn from_iter<I: IntoIterator<Item = f64>>(results: I) -> Self {
        let mut repeats = Self::default();
        results.into_iter().for_each(|result| repeats.push(result));
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_range_and_spread() {
        let of = |results: &[f64]| results.iter().copied().collect::<Repeats>();
        assert_eq!(of(&[]).median(), None);
        assert_eq!(of(&[]).range(), None);
        assert_eq!(of(&[3.0]).median(), Some(3.0));
        assert_eq!(of(&[3.0]).spread_permille(), None);
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]).median(), Some(2.5));
        assert_eq!(of(&[]).middle(), None);
        assert_eq!(of(&[1.0, 3.0, 2.0]).middle(), Some((2.0, 2.0)));
        assert_eq!(of(&[1.0, 3.0]).middle(), Some((1.0, 3.0)));
        assert_eq!(of(&[9.0, 4.0, 3.0, 1.0, 2.0]).middle(), Some((2.0, 4.0)));
        assert_eq!(of(&[90.0, 110.0, 100.0]).spread_permille(), Some(200.0));
        assert_eq!(of(&[0.0, 0.0]).spread_permille(), None);
        assert_eq!(of(&[f64::NAN, 1.0]).len(), 1);
    }
}
