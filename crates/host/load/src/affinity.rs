//! Threads pinned to one processor.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns whether this process may run on the processor.
pub(crate) fn may_run_on(processor: usize) -> bool {
    processor < CpuSet::MAX_CPU && sched_getaffinity(None).is_ok_and(|set| set.is_set(processor))
}

/// Pins the calling thread to a processor, if one is given. A missing processor is ignored.
pub fn pin_thread(processor: Option<usize>) {
    if let Some(processor) = processor.filter(|&processor| processor < CpuSet::MAX_CPU) {
        let mut set = CpuSet::new();
        set.set(processor);
        let _ = sched_setaffinity(None, &set);
    }
}
