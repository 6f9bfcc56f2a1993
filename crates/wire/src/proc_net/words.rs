//! Words separated by blanks and tabs, for files that are read once and completely.

/// Iterates over the words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// Parses a decimal number, which may be negative: overflow wraps around, as with `strtoull(3)`.
pub(crate) fn decimal(word: &[u8]) -> Option<u64> {
    let (negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let value: u64 = core::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// Parses a hexadecimal number of at most 32 bits.
pub(super) fn hex(word: &[u8]) -> Option<u32> {
    u32::from_str_radix(core::str::from_utf8(word).ok()?, 16).ok()
}

/// Parses an IPv4 address, which the kernel prints as a number in its native byte order.
pub(super) fn ipv4(word: &[u8]) -> Option<[u8; 4]> {
    hex(word).map(u32::to_ne_bytes)
}

/// Parses an IPv6 address of 32 digits in network order.
pub(super) fn ipv6(word: &[u8]) -> Option<[u8; 16]> {
    let mut address = [0; 16];
    if word.len() != 32 {
        return None;
    }
    for (byte, digits) in address.iter_mut().zip(word.chunks(2)) {
        *byte = u8::try_from(hex(digits)?).ok()?;
    }
    Some(address)
}
