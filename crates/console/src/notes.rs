//! Notes on standard error.

use sockeye_output::is_hidden;
use std::io::Write as _;

/// Writes to stderr; errors are ignored. Control characters and those that reorder or hide text are escaped, since arguments
/// and file names may have some.
pub fn say(text: &str) {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if (character.is_control() && character != '\n') || is_hidden(character) {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    let _ = std::io::stderr().write_all(clean.as_bytes());
}
