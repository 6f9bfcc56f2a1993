//! How far a long work has come, on a terminal's stderr.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A line that says how many are done, written over itself; nothing where nobody watches, or if it is soon over.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    all: usize,
    done: usize,
    next: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// Begins a progress line for `all` units of `what`.
    pub fn new(what: &'static str, all: usize) -> Self {
        let is_watched = std::io::stderr().is_terminal();
        Self {
            what,
            all,
            done: 0,
            next: is_watched.then(|| Instant::now() + PATIENCE),
            is_shown: false,
        }
    }

    /// Of a work whose end nobody knows.
    pub fn endless(what: &'static str) -> Self {
        Self::new(what, 0)
    }

    /// One more is done.
    pub fn step(&mut self) {
        self.reach(self.done + 1);
    }

    /// So many are done.
    pub fn reach(&mut self, done: usize) {
        self.done = done;
        let Some(next) = self.next else { return };
        let now = Instant::now();
        if now >= next {
            let of_all = match self.all {
                0 => String::new(),
                all => format!(" of {all}"),
            };
            self.show(&format!("\rsockeye: {}{of_all} {}", self.done, self.what));
            self.is_shown = true;
            self.next = Some(now + INTERVAL);
        }
    }

    fn show(&self, text: &str) {
        // That nobody reads it is no reason to fail.
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

const PATIENCE: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(100);
