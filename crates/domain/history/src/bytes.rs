//! Numbers of variable length and texts in bytes. A store may be damaged: reading returns an error, and never panics.

use core::fmt;

/// Why bytes of a store could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError {
    /// What was read.
    pub what: &'static str,
    /// Bytes that were left at that point.
    pub left: usize,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes left)", self.what, self.left)
    }
}

impl core::error::Error for DecodeError {}

/// Appends a number, seven bits a byte, the lowest first.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends the difference of two numbers so that small ones of either sign are short.
pub(crate) fn push_difference(out: &mut Vec<u8>, now: u64, before: u64) {
    push_number(out, zigzag(now.wrapping_sub(before)));
}

/// Appends a text with its length.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Maps 0, -1, 1, -2 ... to 0, 1, 2, 3 ...
pub(crate) const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (difference as i64 >> 63) as u64
}

/// The inverse of [`zigzag`].
pub(crate) const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// A reader of what the functions above append.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns how many bytes are left.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) const fn error(&self, what: &'static str) -> DecodeError {
        DecodeError {
            what,
            left: self.bytes.len(),
        }
    }

    pub(crate) fn number(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let mut number = 0;
        for (index, byte) in self.bytes.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * index as u32);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[index + 1..];
                return Ok(number);
            }
        }
        Err(self.error(what))
    }

    /// Reads a number that fits into a smaller type.
    pub(crate) fn small<T: TryFrom<u64>>(&mut self, what: &'static str) -> Result<T, DecodeError> {
        T::try_from(self.number(what)?).map_err(|_| self.error(what))
    }

    pub(crate) fn difference(&mut self, before: u64, what: &'static str) -> Result<u64, DecodeError> {
        Ok(before.wrapping_add(unzigzag(self.number(what)?)))
    }

    pub(crate) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(self.error(what))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.small(what)?;
        self.take(len, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: u64, bytes: &[u8]) {
        let mut out = Vec::new();
        push_number(&mut out, number);
        assert_eq!(out, bytes);
        assert_eq!(Reader::new(bytes).number("number"), Ok(number));
        assert_eq!(unzigzag(zigzag(number)), number);
    }

    #[test]
    fn numbers_take_as_few_bytes_as_they_need() {
        check(0, &[0]);
        check(127, &[0x7f]);
        check(128, &[0x80, 1]);
        check(
            u64::MAX,
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        );
    }

    #[test]
    fn difference_of_either_sign_is_one_byte() {
        for (now, before, byte) in [(5, 5, 0), (4, 5, 1), (6, 5, 2), (0, u64::MAX, 2)] {
            let mut out = Vec::new();
            push_difference(&mut out, now, before);
            assert_eq!(out, [byte]);
            assert_eq!(Reader::new(&out).difference(before, "difference"), Ok(now));
        }
    }

    #[test]
    fn cut_off_number_is_an_error() {
        for bytes in [&[][..], &[0x80], &[0xff; 11]] {
            assert!(Reader::new(bytes).number("number").is_err());
        }
        assert!(Reader::new(&[3, b'a']).text("text").is_err());
        assert!(Reader::new(&[0x80, 4]).small::<u8>("number").is_err());
    }
}
