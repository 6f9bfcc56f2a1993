//! Reading a line column by column, with each number checked: no unexpected sign, no overflow, and no
//! other characters in its column.

use crate::{Error, Layer};

/// The unread part of a line.
///
/// The first error is kept, and everything read after it is 0: one check at the end of a line
/// instead of one after each column makes reading a third faster.
#[derive(Debug, Clone)]
pub(super) struct Columns<'a> {
    line: &'a [u8],
    at: usize,
    layer: Layer,
    error: Option<Error>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(line: &'a [u8], layer: Layer) -> Self {
        Self {
            line: line.strip_suffix(b"\n").unwrap_or(line),
            at: 0,
            layer,
            error: None,
        }
    }

    /// Returns `value`, or the first error of the columns read so far.
    #[inline]
    pub(super) fn finish<T>(self, value: T) -> Result<T, Error> {
        match self.error {
            None => Ok(value),
            Some(error) => Err(error),
        }
    }

    /// Skips blanks. Returns whether anything is left.
    #[inline]
    pub(super) fn more(&mut self) -> bool {
        // Columns are padded by up to eight blanks, and lines of IPv4 sockets to 150 characters.
        while let Some(chunk) = self.chunk() {
            let blanks = blanks_before(chunk);
            self.at += blanks;
            if blanks < 8 {
                return true;
            }
        }
        while self.line.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        self.at < self.line.len()
    }

    /// Reads the next column as text.
    #[inline]
    pub(super) fn word(&mut self) -> &'a [u8] {
        if !self.more() {
            self.fail(self.at, 1, 0);
            return &[];
        }
        let rest = &self.line[self.at..];
        let len = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Reads exactly this byte, without blanks before it.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        if !self.has_byte(byte) {
            self.fail(self.at, 1, 0);
        }
    }

    /// Skips this byte if it is the next one.
    #[inline]
    pub(super) fn has_byte(&mut self, byte: u8) -> bool {
        let found = self.line.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    /// Reads a column of hexadecimal digits, or the part of one before a colon.
    #[inline]
    pub(super) fn hex(&mut self) -> u64 {
        self.more();
        match self.eight_and_end() {
            Some(value) => u64::from(value),
            None => self.digits(16),
        }
    }

    /// As [`Columns::hex`], of at most 32 bits.
    #[inline]
    pub(super) fn hex_u32(&mut self) -> u32 {
        self.more();
        match self.eight_and_end() {
            Some(value) => value,
            None => self.digits(8) as u32,
        }
    }

    /// As [`Columns::hex`], of at most 16 bits.
    #[inline]
    pub(super) fn hex_u16(&mut self) -> u16 {
        self.more();
        self.digits(4) as u16
    }

    /// As [`Columns::hex`], of at most 8 bits.
    #[inline]
    pub(super) fn hex_u8(&mut self) -> u8 {
        self.more();
        self.digits(2) as u8
    }

    /// Reads exactly eight hexadecimal digits of any case here, without checking what follows them.
    #[inline]
    pub(super) fn eight(&mut self) -> u32 {
        match self.chunk().and_then(hex8) {
            Some(value) => {
                self.at += 8;
                value
            }
            None => self.eight_slowly(),
        }
    }

    #[cold]
    fn eight_slowly(&mut self) -> u32 {
        let rest = self.line.get(self.at..).unwrap_or_default();
        let digits = rest.iter().take(8).map(|&byte| NIBBLES[usize::from(byte)]);
        let (value, got) = digits
            .take_while(|&digit| digit < 16)
            .fold((0, 0), |(value, got), digit| {
                (value << 4 | u32::from(digit), got + 1)
            });
        if got < 8 {
            self.fail(self.at, 8, got);
        } else {
            self.at += 8;
        }
        value
    }

    /// Reads a column of eight upper-case digits, the fast path.
    #[inline]
    fn eight_and_end(&mut self) -> Option<u32> {
        let value = hex8(self.chunk()?)?;
        if !matches!(self.line.get(self.at + 8), None | Some(b' ' | b':')) {
            return None;
        }
        self.at += 8;
        Some(value)
    }

    #[inline]
    fn chunk(&self) -> Option<[u8; 8]> {
        self.peek().copied()
    }

    /// Reads a column of decimal digits.
    #[inline]
    pub(super) fn decimal(&mut self) -> u64 {
        self.more();
        let start = self.at;
        let rest = self.line.get(start..).unwrap_or_default();
        let mut value = 0_u64;
        let mut len = 0;
        while let Some(&byte) = rest.get(len) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            len += 1;
            // 19 digits cannot overflow.
            if len < 20 {
                value = value * 10 + u64::from(digit);
            } else if let Some(grown) = value
                .checked_mul(10)
                .and_then(|value| value.checked_add(u64::from(digit)))
            {
                value = grown;
            } else {
                self.fail(start, 20, len);
                return 0;
            }
        }
        self.end_number(rest, len);
        value
    }

    /// As [`Columns::decimal`], of at most 32 bits.
    #[inline]
    pub(super) fn decimal_u32(&mut self) -> u32 {
        self.more();
        let start = self.at;
        let value = self.decimal();
        u32::try_from(value).unwrap_or_else(|_| {
            self.fail(start, 10, self.at - start);
            0
        })
    }

    /// Reads a column of decimal digits with an optional minus.
    #[inline]
    pub(super) fn signed(&mut self) -> i64 {
        self.more();
        let negative = self.has_byte(b'-');
        if negative && self.line.get(self.at) == Some(&b' ') {
            self.fail(self.at, 1, 0);
        }
        let start = self.at;
        let value = self.decimal();
        match i64::try_from(value) {
            Ok(value) if negative => -value,
            Ok(value) => value,
            Err(_) => {
                self.fail(start, 19, self.at - start);
                0
            }
        }
    }

    /// Returns the next `N` bytes, if there are that many.
    #[inline]
    pub(super) fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.line.get(self.at..)?.first_chunk()
    }

    /// Whether a column ends before the byte `len` from here.
    #[inline]
    pub(super) fn ends_at(&self, len: usize) -> bool {
        matches!(self.line.get(self.at + len), None | Some(b' '))
    }

    /// Skips `len` bytes, whose presence [`Columns::peek`] has shown.
    #[inline]
    pub(super) fn skip(&mut self, len: usize) {
        self.at += len;
    }

    /// Returns the rest of the line, including blanks.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    /// Reads hexadecimal digits; leading zeros beyond `digits_max` are accepted.
    #[inline]
    fn digits(&mut self, digits_max: u32) -> u64 {
        let start = self.at;
        let rest = self.line.get(start..).unwrap_or_default();
        let mut value = 0_u64;
        let mut len = 0;
        let limit = u64::MAX >> (64 - 4 * digits_max);
        while let Some(&byte) = rest.get(len) {
            let digit = u64::from(NIBBLES[usize::from(byte)]);
            if digit > 15 {
                break;
            }
            len += 1;
            if value > limit >> 4 {
                self.fail(start, digits_max as usize, len);
                return 0;
            }
            value = value << 4 | digit;
        }
        self.end_number(rest, len);
        value
    }

    /// Skips a number of `len` digits; an error without digits, or with another character after them.
    #[inline]
    fn end_number(&mut self, rest: &[u8], len: usize) {
        self.at += len;
        if len == 0 || !matches!(rest.get(len), None | Some(b' ' | b':')) {
            self.fail(self.at, 1, 0);
        }
    }

    /// Keeps the first error.
    #[cold]
    pub(super) fn fail(&mut self, offset: usize, needed: usize, got: usize) {
        let error = Error {
            layer: self.layer,
            offset,
            needed,
            got,
        };
        self.error.get_or_insert(error);
        self.at = self.line.len();
    }
}

/// Returns the number of leading blanks.
#[inline]
fn blanks_before(bytes: [u8; 8]) -> usize {
    let differences = u64::from_le_bytes(bytes) ^ 0x2020_2020_2020_2020;
    differences.trailing_zeros() as usize / 8
}

/// Parses eight upper-case hexadecimal digits at once; `None` if any byte is another character.
///
/// Each byte's low nibble (plus 9 for a letter) is its value, which must be below 16. The values are
/// then converted back to digits and compared with the input, which finds every other invalid byte.
#[inline]
pub(super) fn hex8(text: [u8; 8]) -> Option<u32> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let text = u64::from_be_bytes(text);
    let values = (text & (0x0f * ONES)) + 9 * (text >> 6 & ONES);
    let letters = (values + 0x76 * ONES) >> 7 & ONES;
    if values & (0xf0 * ONES) != 0 || values + 0x30 * ONES + 7 * letters != text {
        return None;
    }
    let bytes = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let halves = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    Some((halves | halves >> 16) as u32)
}

/// Parses four upper-case hexadecimal digits.
#[inline]
pub(super) fn hex4([a, b, c, d]: [u8; 4]) -> Option<u32> {
    hex8([b'0', b'0', b'0', b'0', a, b, c, d])
}

/// Value of each hexadecimal digit, 255 for other bytes.
const NIBBLES: [u8; 256] = {
    let mut table = [255; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        table[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(line: &[u8]) -> Columns<'_> {
        Columns::new(line, Layer::ProcNetInet)
    }

    #[test]
    fn eight_digits_at_once_are_checked_byte_by_byte() {
        assert_eq!(hex8(*b"0123ABCD"), Some(0x0123_abcd));
        assert_eq!(hex8(*b"FFFFFFFF"), Some(u32::MAX));
        for place in 0..8 {
            let step = if cfg!(miri) { 23 } else { 1 };
            for byte in (0..=u8::MAX).step_by(step) {
                let mut text = *b"9A0F1B2C";
                text[place] = byte;
                let expected = text.iter().try_fold(0_u32, |value, &byte| {
                    let digit = char::from(byte).to_digit(16)?;
                    (!byte.is_ascii_lowercase()).then_some(value << 4 | digit)
                });
                assert_eq!(hex8(text), expected, "{byte} at {place}");
            }
        }
    }

    fn read<'a, T>(line: &'a [u8], column: impl FnOnce(&mut Columns<'a>) -> T) -> Result<T, Error> {
        let mut columns = columns(line);
        let value = column(&mut columns);
        columns.finish(value)
    }

    #[test]
    fn numbers_of_any_width_are_read() {
        let mut line = columns(b"  7: 00000000000000ff ffffffffffffffff 12 -1 18446744073709551615\n");
        assert_eq!(line.decimal(), 7);
        line.byte(b':');
        assert_eq!((line.hex_u8(), line.hex()), (255, u64::MAX));
        assert_eq!((line.decimal_u32(), line.signed()), (12, -1));
        assert_eq!(line.decimal(), u64::MAX);
        assert!(!line.more());
        assert_eq!(line.finish(()), Ok(()));
        assert_eq!(read(b"000000001", Columns::hex_u32), Ok(1));
        assert_eq!(read(b"abcdef01", Columns::eight), Ok(0xabcd_ef01));
        assert_eq!(read(b"0000000000000000000000001", Columns::decimal_u32), Ok(1));
    }

    #[test]
    fn invalid_number_is_an_error_with_its_offset() {
        for bad in [
            &b""[..],
            b"   ",
            b"x1",
            b"1x",
            b"-",
            b"18446744073709551616",
            b"99999999999999999999999",
        ] {
            assert!(read(bad, Columns::decimal).is_err(), "{}", bad.escape_ascii());
        }
        for bad in [&b"-"[..], b"--1", b"- 1", b"9223372036854775808", b"+1"] {
            assert!(read(bad, Columns::signed).is_err(), "{}", bad.escape_ascii());
        }
        for bad in [&b"100"[..], b"G", b"0x1", b" 1\t"] {
            assert!(read(bad, Columns::hex_u8).is_err(), "{}", bad.escape_ascii());
        }
        let error = read(b"  4294967296", Columns::decimal_u32).unwrap_err();
        assert_eq!((error.offset, error.needed, error.got), (2, 10, 10));
        let error = read(b"123456789", Columns::hex_u32).unwrap_err();
        assert_eq!((error.offset, error.needed), (0, 8));
        assert_eq!(read(b"12345", Columns::eight).map_err(|e| e.got), Err(5));
    }

    #[test]
    fn first_error_is_kept() {
        let mut line = columns(b"1 x 2 y");
        assert_eq!((line.decimal(), line.decimal(), line.decimal()), (1, 0, 0));
        assert_eq!(line.finish(()).map_err(|error| error.offset), Err(2));
    }

    #[test]
    fn words_of_any_width_are_read() {
        let mut line = columns(b"  0000000011111111 ab          cdefghijklmnop q");
        assert_eq!(line.word(), b"0000000011111111");
        assert_eq!(line.word(), b"ab");
        assert_eq!(line.word(), b"cdefghijklmnop");
        assert_eq!((line.word(), line.clone().finish(())), (&b"q"[..], Ok(())));
        assert!(line.word().is_empty() && line.finish(()).is_err());
    }
}
