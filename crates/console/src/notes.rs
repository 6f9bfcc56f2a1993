//! Notes on standard error.

use std::io::Write as _;

/// Writes to stderr; errors are ignored. Control characters are escaped, since arguments and file names may have some.
pub fn say(text: &str) {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\n' {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    let _ = std::io::stderr().write_all(clean.as_bytes());
}

/// Returns how to get missing rights: `unprivileged`, or another text for root without all capabilities.
pub fn remedy(unprivileged: &'static str) -> &'static str {
    if rustix::process::geteuid().is_root() {
        "root here is confined: try outside the container, or as root of the host"
    } else {
        unprivileged
    }
}
