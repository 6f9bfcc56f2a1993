//! How much room text takes, whatever font it will be in.

/// Text in lines of at most `width` pixels.
pub(crate) fn wrapped(text: &str, size: f32, width: f32) -> Vec<String> {
    wrapped_columns(text, (width / (size * CHARACTER)) as usize)
}

/// Text in lines of at most so many characters.
pub(crate) fn wrapped_columns(text: &str, columns: usize) -> Vec<String> {
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
pub(crate) fn width_of(text: &str, size: f32) -> f32 {
    text.chars().count() as f32 * size * CHARACTER
}

/// How wide a character is, at most on average, of its size
const CHARACTER: f32 = 0.56;
