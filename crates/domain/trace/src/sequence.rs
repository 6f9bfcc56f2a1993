//! Comparison of 32-bit sequence numbers, modulo 2^32.

/// Whether `left` comes after `right`.
pub(crate) const fn after(left: u32, right: u32) -> bool {
    (right.wrapping_sub(left) as i32) < 0
}

/// Whether `left` comes before `right`.
pub(crate) const fn before(left: u32, right: u32) -> bool {
    after(right, left)
}

/// Whether `left` does not come after `right`.
///
/// Not the opposite of [`after`]: numbers half the space apart are each before the other.
pub(crate) const fn not_after(left: u32, right: u32) -> bool {
    (left.wrapping_sub(right) as i32) <= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_wraps_at_2_pow_32() {
        assert!(after(5, u32::MAX - 5) && before(u32::MAX, 0) && not_after(7, 7));
    }
}
