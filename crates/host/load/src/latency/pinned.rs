//! Threads that stay on one processor.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Whether this program may run there.
pub(super) fn may_run_on(processor: usize) -> bool {
    processor < CpuSet::MAX_CPU && sched_getaffinity(None).is_ok_and(|set| set.is_set(processor))
}

/// Keeps the calling thread there. That there is such a processor was seen before.
pub(super) fn stay_on(processor: Option<usize>) {
    if let Some(processor) = processor.filter(|&processor| processor < CpuSet::MAX_CPU) {
        let mut set = CpuSet::new();
        set.set(processor);
        let _ = sched_setaffinity(None, &set);
    }
}
