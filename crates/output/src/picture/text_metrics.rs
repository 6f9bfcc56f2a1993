//! Estimated size of text, and its division into lines, independent of the font.

/// Divides text into lines of at most `width` pixels.
pub fn wrapped(text: &str, size: f32, width: f32) -> Vec<String> {
    wrapped_columns(text, (width / (size * CHARACTER)) as usize)
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

/// Returns the estimated width of text, in pixels.
pub fn width_of(text: &str, size: f32) -> f32 {
    text.chars().count() as f32 * size * CHARACTER
}

/// Returns as much of a text as fits into a box of this width, in a monospace font; empty if that is too little to read.
pub fn boxed(text: &str, width: f32) -> String {
    let fits = ((width - 2.0 * BOX_EDGE) / (BOX_TEXT * BOX_CHARACTER)).max(0.0) as usize;
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
/// Width of a character in boxes, as a fraction of its size.
const BOX_CHARACTER: f32 = 0.602;
/// A longer text is not shown with fewer characters than this.
const BOX_CHARACTERS_MIN: usize = 3;

/// Upper estimate of the average width of a character, as a fraction of its size.
const CHARACTER: f32 = 0.56;
