//! Notes on standard error.

use sockeye_output::is_hidden;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes to stderr, or below the next frame of a live screen; errors are ignored. Control characters and those that reorder or hide text are escaped, since arguments
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
    if are_collected()
        && std::io::stderr().is_terminal()
        && let Ok(mut collected) = COLLECTED.lock()
    {
        collected.push_str(&clean);
        return;
    }
    let _ = std::io::stderr().write_all(clean.as_bytes());
}

/// Lets notes wait for a live screen, or no longer: nothing else may write to its terminal.
pub fn collect(does: bool) {
    COLLECTS.store(does, Ordering::Relaxed);
}

/// Returns whether notes wait for a live screen.
pub fn are_collected() -> bool {
    COLLECTS.load(Ordering::Relaxed)
}

/// Returns the notes since the last call that wait for a live screen.
pub fn take() -> String {
    COLLECTED
        .lock()
        .map(|mut collected| std::mem::take(&mut *collected))
        .unwrap_or_default()
}

static COLLECTS: AtomicBool = AtomicBool::new(false);
/// Notes that a live screen has not shown yet.
static COLLECTED: Mutex<String> = Mutex::new(String::new());
