//! Progress of long operations, on a terminal's stderr.

use crate::{notes, stdout};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A line with the number of finished units, rewritten in place. Nothing is written if stderr is not a terminal whose
/// cursor moves, or in the first second.
#[derive(Debug)]
pub struct Progress {
    unit: &'static str,
    total: usize,
    done: usize,
    next: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// Begins a progress line for `total` units.
    pub fn new(unit: &'static str, total: usize) -> Self {
        let moves_cursor = std::env::var_os("TERM").is_none_or(|term| !stdout::is_dumb(&term));
        let is_terminal = std::io::stderr().is_terminal() && moves_cursor && !notes::are_collected();
        Self {
            unit,
            total,
            done: 0,
            next: is_terminal.then(|| Instant::now() + DELAY),
            is_shown: false,
        }
    }

    /// Begins a progress line for an unknown number of units.
    pub fn without_total(unit: &'static str) -> Self {
        Self::new(unit, 0)
    }

    /// Counts one more unit.
    pub fn step(&mut self) {
        self.reach(self.done + 1);
    }

    /// Sets the number of finished units.
    pub fn reach(&mut self, done: usize) {
        self.done = done;
        let (total, unit) = (self.total, self.unit);
        self.update(|| match total {
            0 => format!("{done} {unit}"),
            total => format!("{done} of {total} {unit}"),
        });
    }

    /// Shows a text, if the last one has been shown long enough.
    pub fn update(&mut self, text: impl FnOnce() -> String) {
        let Some(next) = self.next else { return };
        let now = Instant::now();
        if now >= next {
            // A shorter text replaces a longer one.
            self.show(&format!("\rsockeye: {}\x1b[K", text()));
            self.is_shown = true;
            self.next = Some(now + INTERVAL);
        }
    }

    fn show(&self, text: &str) {
        // Progress is optional.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            self.show("\r\x1b[K");
        }
    }
}

const DELAY: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(100);
