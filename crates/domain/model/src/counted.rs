//! Numbers with a noun.

use core::fmt::Display;

/// Returns a number with its noun: `1 socket`, `2 sockets`. Only for nouns with a plural in `s`.
///
/// ```
/// use sockeye_model::counted;
///
/// assert_eq!(counted(1_u64, "socket"), "1 socket");
/// assert_eq!(counted(0_usize, "more socket"), "0 more sockets");
/// ```
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let s = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{s}")
}
