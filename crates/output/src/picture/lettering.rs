//! How much room text takes, whatever font it will be in.

/// Text in lines of at most `width` pixels.
pub fn wrapped(text: &str, size: f32, width: f32) -> Vec<String> {
    wrapped_columns(text, (width / (size * CHARACTER)) as usize)
}

/// Text in lines of at most so many characters.
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

/// About how wide text is.
pub fn width_of(text: &str, size: f32) -> f32 {
    text.chars().count() as f32 * size * CHARACTER
}

/// As much of a text as a box of this width has room for, in letters that are all as wide; nothing if that says nothing.
pub fn boxed(text: &str, width: f32) -> String {
    let room = ((width - 2.0 * BOX_EDGE) / (BOX_TEXT * BOX_CHARACTER)).max(0.0) as usize;
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    if room < BOX_FEWEST {
        return String::new();
    }
    let mut shown: String = text.chars().take(room - 1).collect();
    shown.push('…');
    shown
}

/// Size of text in boxes
pub const BOX_TEXT: f32 = 11.0;
/// What stays free left and right of it
pub const BOX_EDGE: f32 = 3.0;
/// And below its base line
pub const BOX_BASE: f32 = 4.5;
/// How wide a letter is there, of its size
const BOX_CHARACTER: f32 = 0.602;
/// Less than so many characters of a longer text say nothing
const BOX_FEWEST: usize = 3;

/// How wide a character is, at most on average, of its size
const CHARACTER: f32 = 0.56;
