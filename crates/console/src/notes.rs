//! Notes on standard error.

use sockeye_output::is_hidden;
use sockeye_output::text::display_width;
use sockeye_output::wrap::push_wrapped;
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
    let out = match terminal_width() {
        Some(width) => wrapped(&clean, width),
        None => clean.into_bytes(),
    };
    let _ = std::io::stderr().write_all(&out);
}

/// Returns the width of the terminal that shows stderr; `None` if it is none, or has none.
fn terminal_width() -> Option<usize> {
    let stderr = std::io::stderr();
    if !stderr.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stderr).ok()?;
    // The kernel reports an unknown size as 0.
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// Breaks lines that are longer than a terminal between words.
fn wrapped(text: &str, width: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words = line.trim_end_matches('\n');
        if display_width(words.as_bytes()) <= width {
            out.extend_from_slice(line.as_bytes());
            continue;
        }
        push_wrapped(&mut out, words.as_bytes(), "", Some(width));
        // What is asked for is typed on the same line.
        if words.len() == line.len() && out.last() == Some(&b'\n') {
            out.pop();
        }
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_broken_between_words() {
        let text = |text: &str| String::from_utf8(wrapped(text, 40)).unwrap();
        let short = "sockeye: short\n";
        assert_eq!(text(short), short);
        let long = "sockeye: 17 packets were not followed: another one had the slot of its address\n";
        let broken = text(&[short, long].concat());
        assert!(broken.lines().all(|line| line.len() <= 40), "{broken}");
        assert!(
            broken.starts_with(short) && broken.ends_with("address\n"),
            "{broken}"
        );
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&broken), words(&[short, long].concat()));
        assert!(!text(long.trim_end()).ends_with('\n'));
    }
}
