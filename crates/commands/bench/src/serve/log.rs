//! The log of the server: lines on stdout, which no client can multiply and no reader can hold up.

use sockeye_console::{notes, stdout};
use sockeye_model::{counted, counted_were};
use sockeye_output::text::harmless_start;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Writes lines on a thread of its own. Lines beyond a rate, or that a reader does not take, are counted instead.
pub(super) struct ServerLog {
    lines: SyncSender<String>,
    /// Disconnected when the thread has written all lines.
    is_written: Mutex<Receiver<()>>,
    /// Lines that could not be written.
    lost: Arc<AtomicU64>,
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
        let (writing, is_written) = sync_channel::<()>(0);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let write = move || {
            let _writing = writing;
            for text in received {
                // It must not end the server.
                let Err(error) = stdout::write(text.as_bytes()) else {
                    continue;
                };
                // Its reader has read enough.
                if stdout::is_closed_pipe(&error) {
                    continue;
                }
                if counter.fetch_add(text.lines().count() as u64, Ordering::Relaxed) == 0 {
                    notes::say(&format!(
                        "sockeye: bench serve: {error:#}; it serves on, and counts the lines that are lost\n"
                    ));
                }
            }
        };
        std::thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok(Self {
            lines,
            is_written: Mutex::new(is_written),
            lost,
            budget: Mutex::new(Budget {
                left: BURST,
                at: Instant::now(),
                omitted: 0,
            }),
        })
    }

    pub(super) fn say(&self, line: &str) {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        if !budget.take(Instant::now()) {
            budget.omitted += 1;
            return;
        }
        let mut text = String::new();
        if budget.omitted > 0 {
            text = format!("{} left out here\n", counted_were(budget.omitted, "line"));
        }
        text.push_str(&harmless_start(line.as_bytes(), LINE_LEN_MAX));
        text.push('\n');
        match self.lines.try_send(text) {
            Ok(()) => budget.omitted = 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => budget.omitted += 1,
        }
    }

    /// Waits a moment until all lines are written. Returns whether none is lost, and reports those that are.
    pub(super) fn finish(self) -> bool {
        let Self {
            lines,
            is_written,
            lost,
            ..
        } = self;
        drop(lines);
        // A reader that does not read must not hold up the end either.
        let is_written = is_written.into_inner().unwrap_or_else(PoisonError::into_inner);
        let _ = is_written.recv_timeout(WRITE_TIMEOUT);
        let lost = lost.load(Ordering::Relaxed);
        if lost > 0 {
            let lines = counted(lost, "line");
            notes::say(&format!(
                "sockeye: bench serve: {lines} of the log could not be written\n"
            ));
        }
        lost == 0
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

/// Most characters of a line.
const LINE_LEN_MAX: usize = 400;
/// Longest wait at the end for a reader of the log.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
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
}
