//! How long processors worked for a thread, and where.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::time::Duration;

/// Time on a processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// In the program itself
    pub user: Duration,
    /// In the kernel on its behalf
    pub system: Duration,
}

impl ProcessorTime {
    /// Of the calling thread, since it began; none where the kernel does not tell.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self::of(libc::RUSAGE_THREAD)
    }

    /// Of all threads of this process, those that ended as well.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::of(libc::RUSAGE_SELF)
    }

    fn of(whom: libc::c_int) -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: there is room for a `struct rusage`, which the call fills or leaves alone.
        let result = unsafe { libc::getrusage(whom, usage.as_mut_ptr()) };
        if result != 0 {
            return Self::default();
        }
        // SAFETY: the call succeeded, and so has written all of it.
        let usage = unsafe { usage.assume_init() };
        Self {
            user: span(usage.ru_utime),
            system: span(usage.ru_stime),
        }
    }

    /// Both.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    /// What came to it since then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }
}

fn span(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let us = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let before = ProcessorTime::of_this_thread();
        let mut work = 0_u64;
        while ProcessorTime::of_this_thread().since(&before).total() < Duration::from_millis(20) {
            work = work.wrapping_mul(31).wrapping_add(7);
        }
        let process = ProcessorTime::of_this_process();
        assert!(process.total() >= Duration::from_millis(15), "{process:?} {work}");
    }
}
