//! State that the threads of a transfer share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Start, end and remaining bytes of a transfer.
#[derive(Debug, Default)]
pub(super) struct Control {
    gate: Mutex<Option<Instant>>,
    opened: Condvar,
    /// Senders end.
    stop: AtomicBool,
    /// Receivers end when nothing more arrives.
    finishing: AtomicBool,
    /// All threads end at once.
    abort: AtomicBool,
    /// Bytes that no thread has claimed yet; `None`: no limit.
    left: Option<AtomicU64>,
}

impl Control {
    pub(super) fn new(bytes: Option<u64>) -> Self {
        Self {
            left: bytes.map(AtomicU64::new),
            ..Self::default()
        }
    }

    /// Starts all threads.
    pub(super) fn start(&self) -> Instant {
        let now = Instant::now();
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        self.opened.notify_all();
        now
    }

    /// Waits for the start.
    pub(super) fn await_start(&self) -> Instant {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(beginning) = *gate {
                return beginning;
            }
            gate = self.opened.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn stop_sending(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn finish(&self) {
        self.stop_sending();
        self.finishing.store(true, Ordering::Relaxed);
    }

    pub(super) fn abort(&self) {
        self.finish();
        self.abort.store(true, Ordering::Relaxed);
    }

    pub(super) fn sends(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Relaxed)
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// Claims up to `len` bytes to send; `None` if none is left.
    pub(super) fn claim(&self, len: usize) -> Option<usize> {
        let Some(left) = &self.left else {
            return Some(len);
        };
        let take = |left: u64| left.checked_sub((len as u64).min(left));
        let before = left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()?;
        usize::try_from(before.min(len as u64))
            .ok()
            .filter(|&share| share > 0)
    }

    /// Returns bytes that were claimed but not sent.
    pub(super) fn release(&self, len: usize) {
        if let (Some(left), 1..) = (&self.left, len) {
            left.fetch_add(len as u64, Ordering::Relaxed);
        }
    }
}

/// Counters of one thread, which others only read; on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counters {
    pub(super) bytes: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) datagrams: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) reordered: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) jitter_ns: AtomicU64,
    /// Time of the last byte since the start; 0: none.
    pub(super) last_us: AtomicU64,
}

impl Counters {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Adds to a counter that only one thread writes, without an atomic read-modify-write.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_claimed_once() {
        let control = Control::new(Some(10));
        assert_eq!(control.claim(6), Some(6));
        assert_eq!(control.claim(6), Some(4));
        assert_eq!(control.claim(6), None);
        control.release(3);
        assert_eq!(control.claim(6), Some(3));
        assert_eq!(Control::new(None).claim(6), Some(6));
        assert_eq!(Control::new(Some(0)).claim(6), None);
    }
}
