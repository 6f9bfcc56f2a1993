//! Lines for a terminal, broken between words.

use crate::text::display_width;

/// Appends `text` as one line, or as several on a terminal narrower than it, broken between words. Lines after the first
/// are indented by two more.
pub fn push_wrapped(out: &mut Vec<u8>, text: &[u8], indent: &str, width: Option<usize>) {
    let least = indent.len() + WIDTH_MIN;
    push(
        out,
        text,
        indent,
        indent.len() + 2,
        width.map(|width| width.max(least)),
    );
}

/// Appends the last cell of a row behind the others, which are `first`, as one line or as several, broken between words. Lines after the
/// first begin below the cell; on a terminal with too little space for that, further left.
pub fn push_last_cell(out: &mut Vec<u8>, first: &str, text: &[u8], width: Option<usize>) {
    let column = display_width(first.as_bytes());
    let has_space = width.is_none_or(|width| column + WIDTH_MIN <= width);
    let indent = if has_space { column } else { 2 };
    push(out, text, first, indent, width.map(|width| width.max(WIDTH_MIN)));
}

/// Appends `first` and the words of `text`. Lines after the first are indented by `indent`.
fn push(out: &mut Vec<u8>, text: &[u8], first: &str, indent: usize, width: Option<usize>) {
    out.extend_from_slice(first.as_bytes());
    let mut column = display_width(first.as_bytes());
    let line_width = width.unwrap_or(usize::MAX);
    // Two spaces separate columns of text; at the end of a line they are dropped.
    let mut gap = 0;
    for word in text.split(|&byte| byte == b' ') {
        let length = display_width(word);
        if word.is_empty() {
            gap += 1;
            continue;
        }
        // The first word of a line is there, however long it is.
        if (gap > 0 || column > indent) && column + gap + length > line_width {
            while out.last() == Some(&b' ') {
                out.pop();
            }
            out.push(b'\n');
            out.resize(out.len() + indent, b' ');
            column = indent;
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

    #[test]
    fn last_cell_goes_on_below_itself() {
        let mut out = Vec::new();
        push_last_cell(
            &mut out,
            "CAP_BPF  yes  ",
            b"with CAP_PERFMON: prof, big listings",
            Some(34),
        );
        assert_eq!(
            String::from_utf8_lossy(&out),
            "CAP_BPF  yes  with CAP_PERFMON:\n              prof, big listings\n"
        );
        out.clear();
        push_last_cell(
            &mut out,
            "CAP_BPF  yes  ",
            b"with CAP_PERFMON: prof, big listings",
            Some(24),
        );
        assert_eq!(
            String::from_utf8_lossy(&out),
            "CAP_BPF  yes  with\n  CAP_PERFMON: prof, big\n  listings\n"
        );
        out.clear();
        push_last_cell(&mut out, "a  ", b"two  words", None);
        assert_eq!(out, b"a  two  words\n");
    }
}
