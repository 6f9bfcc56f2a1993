//! Processor time of threads and processes.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::time::Duration;

/// Processor time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Time in user mode
    pub user: Duration,
    /// Time in the kernel
    pub system: Duration,
}

impl ProcessorTime {
    /// Returns the time of the calling thread since it started; 0 if the kernel does not report it.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self::of(libc::RUSAGE_THREAD)
    }

    /// Returns the time of all threads of this process, including threads that have ended.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::of(libc::RUSAGE_SELF)
    }

    fn of(who: libc::c_int) -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: `usage` has the size of a `struct rusage`, which the call fills or leaves alone.
        let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
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

    /// Returns the sum of user and kernel time.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    /// Returns the time that was added since `before`.
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
    fn busy_loop_takes_processor_time() {
        let before = ProcessorTime::of_this_thread();
        let mut work = 0_u64;
        while ProcessorTime::of_this_thread().since(&before).total() < Duration::from_millis(20) {
            work = work.wrapping_mul(31).wrapping_add(7);
        }
        let process = ProcessorTime::of_this_process();
        assert!(process.total() >= Duration::from_millis(15), "{process:?} {work}");
    }
}
