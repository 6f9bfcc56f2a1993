//! Texts of system errors.

use std::io;

/// Returns the text of `perror(3)` for an error: without the number that the standard library appends.
pub(crate) fn errno_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}
