//! Lines for a terminal, broken between words.

use crate::text::display_width;

/// Appends `text` as one line, or as several on a terminal narrower than it, broken between words. Lines after the first
/// are indented by two more.
pub fn push_wrapped(out: &mut Vec<u8>, text: &[u8], indent: &str, width: Option<usize>) {
    out.extend_from_slice(indent.as_bytes());
    let line_width = width.unwrap_or(usize::MAX).max(indent.len() + WIDTH_MIN);
    let mut column = indent.len();
    // Two spaces separate columns of text; at the end of a line they are dropped.
    let mut gap = 0;
    for word in text.split(|&byte| byte == b' ') {
        let length = display_width(word);
        if word.is_empty() {
            gap += 1;
            continue;
        }
        if gap > 0 && column + gap + length > line_width {
            out.push(b'\n');
            out.extend_from_slice(indent.as_bytes());
            out.extend_from_slice(b"  ");
            column = indent.len() + 2;
        } else {
            out.resize(out.len() + gap, b' ');
            column += gap;
        }
        out.extend_from_slice(word);
        column += length;
        gap = 1;
    }
    out.push(b'\n');
}

/// Terminals narrower than this break lines themselves.
const WIDTH_MIN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_breaks_between_words() {
        let mut out = Vec::new();
        push_wrapped(&mut out, b"one two three four five six", "  ", Some(22));
        assert_eq!(out, b"  one two three four\n    five six\n");
        out.clear();
        push_wrapped(&mut out, b"NOTICE  no-carrier  left", "", Some(20));
        assert_eq!(out, b"NOTICE  no-carrier\n  left\n");
    }
}
