//! Size of text, and its division into lines, by the widths of the font of PNG pictures.
//!
//! SVG pictures are drawn with the viewer's font. The usual ones (Segoe UI, San Francisco, Roboto, Liberation) are narrower than
//! this one, so that what fits here also fits there.

use super::font::{self, MONO_WIDTH, Typeface};

/// Divides text into lines of at most `width` pixels; a longer word is divided too.
pub fn wrapped(text: &str, size: f32, bold: bool, width: f32) -> Vec<String> {
    let typeface = Typeface::with_weight(bold);
    let space = font::width(" ", size, typeface);
    let mut lines = Vec::<String>::new();
    let mut end = f32::MAX;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut rest = word;
        while !rest.is_empty() {
            let (part, len) = beginning(rest, size, typeface, width);
            match lines.last_mut() {
                Some(line) if end + space + len <= width => {
                    line.push(' ');
                    line.push_str(part);
                    end += space + len;
                }
                _ => {
                    lines.push(part.to_owned());
                    end = len;
                }
            }
            rest = &rest[part.len()..];
        }
    }
    lines
}

/// Returns as much of a word as fits into `width` pixels, at least one character, and its width.
fn beginning(word: &str, size: f32, typeface: Typeface, width: f32) -> (&str, f32) {
    let mut sum = 0.0;
    let mut buffer = [0; 4];
    for (at, character) in word.char_indices() {
        let next = sum + font::width(character.encode_utf8(&mut buffer), size, typeface);
        if at > 0 && next > width {
            return (&word[..at], sum);
        }
        sum = next;
    }
    (word, sum)
}

/// Divides text into lines of at most `columns` characters.
pub fn wrapped_columns(text: &str, columns: usize) -> Vec<String> {
    let fits = columns.max(8);
    let mut lines = Vec::<String>::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word: Vec<char> = word.chars().collect();
        while !word.is_empty() {
            let len = word.len().min(fits);
            let part: String = word.drain(..len).collect();
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + len <= fits => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    lines
}

/// Returns the width of text, in pixels.
pub fn width_of(text: &str, size: f32, bold: bool) -> f32 {
    font::width(text, size, Typeface::with_weight(bold))
}

/// Returns a text that is at most `width` pixels wide: the end of a longer one is replaced by `…`.
pub fn shortened(text: &str, size: f32, bold: bool, width: f32) -> String {
    if width_of(text, size, bold) <= width {
        return text.to_owned();
    }
    let typeface = Typeface::with_weight(bold);
    let left = width - font::width("…", size, typeface);
    let (begin, len) = beginning(text, size, typeface, left);
    if len > left {
        return String::new();
    }
    format!("{}…", begin.trim_end())
}

/// Returns as much of a text as fits into a box of this width, in a monospace font; empty if that is too little to read.
pub fn boxed(text: &str, width: f32) -> String {
    let fits = ((width - 2.0 * BOX_EDGE) / (BOX_TEXT * MONO_WIDTH)).max(0.0) as usize;
    let length = text.chars().count();
    if length <= fits {
        return text.to_owned();
    }
    if fits < BOX_CHARACTERS_MIN {
        return String::new();
    }
    let mut shown: String = text.chars().take(fits - 1).collect();
    shown.push('…');
    shown
}

/// Size of text in boxes.
pub const BOX_TEXT: f32 = 11.0;
/// Margin left and right of text in boxes.
pub const BOX_EDGE: f32 = 3.0;
/// Margin below the base line of text in boxes.
pub const BOX_BASE: f32 = 4.5;
/// A longer text is not shown with fewer characters than this.
const BOX_CHARACTERS_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_not_wider_than_allowed() {
        let text = "several words, and averyveryveryverylongwordthatfitsnowhere";
        for width in [1, 20, 60, 100, 400] {
            let width = width as f32;
            let lines = wrapped(text, 12.0, true, width);
            assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
            for line in lines.iter().filter(|line| line.chars().count() > 1) {
                assert!(width_of(line, 12.0, true) <= width + 0.01, "{width} {line}");
            }
        }
    }

    #[test]
    fn shortened_text_fits() {
        for width in 0..200 {
            let text = shortened("10.0.0.1:5210 → 10.0.0.2:443", 12.0, false, width as f32);
            assert!(width_of(&text, 12.0, false) <= width as f32, "{width} {text}");
        }
        assert_eq!(shortened("abc", 12.0, false, 100.0), "abc");
        assert!(shortened("abcdefghij", 12.0, false, 40.0).ends_with('…'));
    }
}
