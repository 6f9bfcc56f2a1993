//! Shares in thousandths, and how full a table or limit is.

use crate::Severity;
use sockeye_model::Fill;

/// `part` in thousandths of `whole`; 0 if both are 0.
pub(crate) fn permille(part: u64, whole: u64) -> u64 {
    let thousandths = u128::from(part) * 1000 / u128::from(whole).max(1);
    u64::try_from(thousandths).unwrap_or(u64::MAX)
}

/// The share in thousandths, if it is at least `least_share`.
pub(crate) fn fill_above(fill: Fill, least_share: u64) -> Option<u64> {
    let share = permille(fill.used, fill.max);
    (fill.used > 0 && share >= least_share).then_some(share)
}

/// Nearly full is a warning; from here on a burst does not fit.
pub(crate) const fn severity_of_fill(share: u64) -> Severity {
    if share >= 950 {
        Severity::Critical
    } else {
        Severity::Warning
    }
}
