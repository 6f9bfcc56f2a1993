//! The log of the server: lines on stdout, which no client can multiply and no reader can hold up.

use sockeye_console::stdout;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Writes lines on a thread of its own. Lines beyond a rate, or that a reader does not take, are counted instead.
pub(super) struct ServerLog {
    lines: Option<SyncSender<String>>,
    writer: Option<JoinHandle<()>>,
    budget: Mutex<Budget>,
}

#[derive(Debug)]
struct Budget {
    /// Lines that may be written now.
    left: f64,
    at: Instant,
    omitted: u64,
}

impl ServerLog {
    pub(super) fn start() -> std::io::Result<Self> {
        let (lines, received) = sync_channel::<String>(LINES_MAX);
        let write = move || {
            for line in received {
                // A closed stdout must not end the server.
                let _ = stdout::write(line.as_bytes());
            }
        };
        let writer = std::thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok(Self {
            lines: Some(lines),
            writer: Some(writer),
            budget: Mutex::new(Budget {
                left: BURST,
                at: Instant::now(),
                omitted: 0,
            }),
        })
    }

    pub(super) fn say(&self, line: &str) {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let is_allowed = budget.take(Instant::now());
        let Some(lines) = self.lines.as_ref().filter(|_| is_allowed) else {
            budget.omitted += 1;
            return;
        };
        let mut text = String::new();
        if budget.omitted > 0 {
            text = format!("{} lines were left out here\n", budget.omitted);
        }
        text.push_str(&harmless(line));
        text.push('\n');
        match lines.try_send(text) {
            Ok(()) => budget.omitted = 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => budget.omitted += 1,
        }
    }
}

impl Budget {
    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at);
        self.at = now;
        self.left = (self.left + passed.as_secs_f64() / LINE_INTERVAL.as_secs_f64()).min(BURST);
        let is_allowed = self.left >= 1.0;
        if is_allowed {
            self.left -= 1.0;
        }
        is_allowed
    }
}

impl Drop for ServerLog {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Escapes control characters, since lines contain text of clients.
fn harmless(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    for character in line.chars() {
        if character.is_control() {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean
}

/// Most lines at once.
const BURST: f64 = 200.0;
/// Time after which one more line may be written.
const LINE_INTERVAL: Duration = Duration::from_millis(50);
/// Most lines that a slow reader has not taken.
const LINES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_rate_are_not_written() {
        let at = Instant::now();
        let mut budget = Budget {
            left: BURST,
            at,
            omitted: 0,
        };
        let allowed = (0..1000).filter(|_| budget.take(at)).count();
        assert_eq!(allowed, 200);
        assert!(budget.take(at + LINE_INTERVAL));
        assert!(!budget.take(at + LINE_INTERVAL));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(harmless("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
    }
}
