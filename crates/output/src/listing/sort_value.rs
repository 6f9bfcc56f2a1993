//! Values by which rows are sorted.

use sockeye_model::natural_order;
use std::cmp::Ordering;
use std::net::IpAddr;

/// The value that rows are sorted by: the value itself, not its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SortValue {
    /// A number.
    Number(u64),
    /// Address and port; v4-mapped addresses are sorted among the IPv4 ones.
    Address(IpAddr, u16),
    /// Two numbers, compared in this order.
    Pair(u64, u64),
    /// Bytes of text.
    Text(Box<[u8]>),
    /// Text in which numbers are compared by value (`web2` before `web10`). A higher rank comes later, also in
    /// descending order.
    Natural(u8, Box<[u8]>),
}

impl SortValue {
    /// Returns the value of a number with a fraction, negative ones as 0.
    pub fn float(number: f64) -> Self {
        // The bits of positive floating-point numbers have the order of the numbers.
        Self::Number(number.max(0.0).to_bits())
    }

    /// Compares two values of which either may be unknown: unknown ones come last, in both directions.
    pub fn compare_known(a: Option<&Self>, b: Option<&Self>, descending: bool) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => a.compare(b, descending),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }

    fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let reversed = |order: Ordering| if descending { order.reverse() } else { order };
        match (self, other) {
            (Self::Natural(rank, a), Self::Natural(other_rank, b)) => {
                rank.cmp(other_rank).then_with(|| reversed(natural_order(a, b)))
            }
            (a, b) => reversed(a.cmp(b)),
        }
    }
}
