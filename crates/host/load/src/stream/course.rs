//! What the threads of a transfer know of each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// When it begins, when it ends, what is left.
#[derive(Debug, Default)]
pub(super) struct Course {
    gate: Mutex<Option<Instant>>,
    opened: Condvar,
    /// Senders end
    stop: AtomicBool,
    /// Nothing more is to be expected: who waits in vain ends
    winding: AtomicBool,
    /// Everybody ends
    abandon: AtomicBool,
    /// Bytes that nobody has taken upon himself yet
    left: Option<AtomicU64>,
}

impl Course {
    pub(super) fn new(bytes: Option<u64>) -> Self {
        Self {
            left: bytes.map(AtomicU64::new),
            ..Self::default()
        }
    }

    /// Lets everybody begin.
    pub(super) fn open(&self) -> Instant {
        let now = Instant::now();
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        self.opened.notify_all();
        now
    }

    /// Waits until then.
    pub(super) fn begin(&self) -> Instant {
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

    pub(super) fn wind_up(&self) {
        self.stop_sending();
        self.winding.store(true, Ordering::Relaxed);
    }

    pub(super) fn abandon(&self) {
        self.wind_up();
        self.abandon.store(true, Ordering::Relaxed);
    }

    pub(super) fn sends(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn is_winding(&self) -> bool {
        self.winding.load(Ordering::Relaxed)
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandon.load(Ordering::Relaxed)
    }

    /// How much of `len` is to be sent; none is left.
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

    /// What was claimed, but not sent.
    pub(super) fn give_back(&self, len: usize) {
        if let (Some(left), 1..) = (&self.left, len) {
            left.fetch_add(len as u64, Ordering::Relaxed);
        }
    }
}

/// What one thread counts; the others only look. By itself on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Meter {
    pub(super) bytes: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) datagrams: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) reordered: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) jitter_ns: AtomicU64,
    /// Since the beginning, when the last byte was moved; 0: none
    pub(super) last_us: AtomicU64,
}

impl Meter {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Only one thread writes it: no need for a bus lock.
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
    fn bytes_are_given_out_once() {
        let course = Course::new(Some(10));
        assert_eq!(course.claim(6), Some(6));
        assert_eq!(course.claim(6), Some(4));
        assert_eq!(course.claim(6), None);
        course.give_back(3);
        assert_eq!(course.claim(6), Some(3));
        assert_eq!(Course::new(None).claim(6), Some(6));
        assert_eq!(Course::new(Some(0)).claim(6), None);
    }
}
