//! Fields of a minimum width, padded as by `printf`.

use sockeye_output::number::{push_decimal, push_short};
use sockeye_output::text::push_clean;

/// How untrusted text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextForm {
    /// Unchanged.
    #[default]
    Raw,
    /// With control characters as `\x1b`.
    Clean,
}

/// Pads the text appended since `start` to `width` (`%-Ns`).
#[inline]
pub(super) fn pad(out: &mut Vec<u8>, start: usize, width: usize) {
    push_blanks(out, (start + width).saturating_sub(out.len()));
}

/// Appends blanks. A copy of constant length that is truncated afterwards is a few instructions; one of variable length is
/// a call, which matters because every field is padded.
#[inline]
fn push_blanks(out: &mut Vec<u8>, count: usize) {
    let end = out.len() + count;
    if count <= BLANKS.len() {
        out.extend_from_slice(BLANKS);
        out.truncate(end);
    } else {
        out.resize(end, b' ');
    }
}

const BLANKS: &[u8; 24] = &[b' '; 24];

/// `%-Ns`
#[inline]
pub(super) fn push_left(out: &mut Vec<u8>, text: &[u8], width: usize) {
    let start = out.len();
    push_short(out, text);
    pad(out, start, width);
}

/// `%-Nd`
#[inline]
pub(super) fn push_number_left(out: &mut Vec<u8>, number: i64, width: usize) {
    let start = out.len();
    push_signed(out, number);
    pad(out, start, width);
}

/// `%Nu`
#[inline]
pub(super) fn push_number(out: &mut Vec<u8>, number: u64, width: usize) {
    let digits = if number < 10 {
        1
    } else {
        number.ilog10() as usize + 1
    };
    out.resize(out.len() + width.saturating_sub(digits), b' ');
    push_decimal(out, number);
}

/// `%Nd`
pub(super) fn push_signed_right(out: &mut Vec<u8>, number: i64, width: usize) {
    let start = out.len();
    push_signed(out, number);
    let len = out.len() - start;
    if len < width {
        out.resize(start + width, b' ');
        out[start..].rotate_right(width - len);
    }
}

/// `%d`
pub(super) fn push_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push_decimal(out, number.unsigned_abs());
}

/// Appends untrusted text.
pub(super) fn push_text(out: &mut Vec<u8>, text: &[u8], how: TextForm) {
    match how {
        TextForm::Raw => out.extend_from_slice(text),
        TextForm::Clean => push_clean(out, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_equals_printf() {
        let check = |push: &dyn Fn(&mut Vec<u8>), expected: &str| {
            let mut out = b"|".to_vec();
            push(&mut out);
            out.push(b'|');
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(&|out| push_left(out, b"ab", 4), "|ab  |");
        check(&|out| push_left(out, b"abcde", 4), "|abcde|");
        check(&|out| push_number(out, 7, 3), "|  7|");
        check(&|out| push_number(out, 1000, 3), "|1000|");
        check(&|out| push_number(out, 10, 2), "|10|");
        check(&|out| push_number_left(out, -2, 4), "|-2  |");
        check(&|out| push_signed_right(out, -2, 4), "|  -2|");
        check(&|out| push_signed_right(out, 12345, 4), "|12345|");
        check(&|out| push_text(out, b"a\x1bb", TextForm::Clean), "|a\\x1bb|");
        check(&|out| push_text(out, b"a\x1bb", TextForm::Raw), "|a\x1bb|");
    }
}
