//! Notes on standard error: what could not be seen, and what to try.

use std::io::Write as _;

/// Writes to stderr. That nobody reads it is no reason to fail.
///
/// What was typed, and what files are called, may turn up in it: control characters are made visible.
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

/// What may be done about missing rights; there is little left to try for root.
pub fn remedy(unprivileged: &'static str) -> &'static str {
    if rustix::process::geteuid().is_root() {
        "root here is confined: try outside the container, or as root of the host"
    } else {
        unprivileged
    }
}
