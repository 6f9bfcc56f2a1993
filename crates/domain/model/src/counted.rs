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

/// Returns a number with its noun and verb: `1 socket was`, `2 sockets were`.
///
/// ```
/// use sockeye_model::counted_were;
///
/// assert_eq!(counted_were(1_u64, "packet"), "1 packet was");
/// assert_eq!(counted_were(732_u64, "packet"), "732 packets were");
/// ```
pub fn counted_were<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let verb = if number == N::from(1) { "was" } else { "were" };
    format!("{} {verb}", counted(number, noun))
}
