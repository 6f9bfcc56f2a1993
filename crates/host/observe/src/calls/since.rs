//! The difference of two snapshots.

use super::raw::{Call, RawCalls, RawSyscall, RawWait};
use super::snapshot::Snapshot;
use sockeye_wire::calls::Thread;
use std::collections::HashMap;

impl Snapshot {
    /// Returns the counts since an earlier snapshot.
    pub(super) fn since(mut self, earlier: &Self) -> RawCalls {
        if let Some(calls) = &mut self.calls.syscalls {
            let window_ns = self.at_ns.saturating_sub(earlier.at_ns);
            calls_since(calls, earlier, &self.asleep, window_ns);
        }
        if let Some(waits) = &mut self.calls.waits {
            waits_since(waits, earlier.calls.waits.as_deref().unwrap_or_default());
        }
        self.calls
    }
}

fn calls_since(
    calls: &mut Vec<RawSyscall>,
    earlier: &Snapshot,
    asleep: &HashMap<u32, Thread>,
    window_ns: u64,
) {
    let before = earlier.calls.syscalls.as_deref().unwrap_or_default();
    let before: HashMap<_, _> = before.iter().map(|then| ((then.pid, then.call), then)).collect();
    // The wait before the earlier snapshot, of calls that were in progress then and have returned since.
    let mut earlier_waits: HashMap<(u32, Option<Call>), u64> = HashMap::new();
    for (tid, thread) in &earlier.asleep {
        let has_returned = asleep.get(tid).is_none_or(|now| now.since_ns != thread.since_ns);
        if has_returned {
            *earlier_waits
                .entry((thread.wait.tgid, Call::new(thread.wait.nr)))
                .or_default() += earlier.at_ns.saturating_sub(thread.since_ns);
        }
    }
    for now in calls.iter_mut() {
        let waited = earlier_waits
            .get(&(now.pid, Some(now.call)))
            .copied()
            .unwrap_or(0);
        now.total_ns = now.total_ns.saturating_sub(waited);
        now.max_ns = now.max_ns.min(window_ns);
        if let Some(then) = before.get(&(now.pid, now.call)) {
            now.calls = now.calls.saturating_sub(then.calls);
            now.timed = now.timed.saturating_sub(then.timed).min(now.calls);
            now.errors = now.errors.saturating_sub(then.errors);
            now.total_ns = now.total_ns.saturating_sub(then.total_ns);
            for (errno, count) in &mut now.errnos {
                let then = then.errnos.iter().find(|(same, _)| same == errno);
                *count = count.saturating_sub(then.map_or(0, |(_, count)| *count));
            }
            now.errnos.retain(|(_, count)| *count > 0);
        }
    }
    calls.retain(|now| now.calls > 0 || now.unfinished > 0);
}

fn waits_since(waits: &mut Vec<RawWait>, earlier: &[RawWait]) {
    let key = |wait: &RawWait| {
        (
            wait.process,
            wait.call,
            wait.argument,
            wait.state,
            wait.stack.clone(),
        )
    };
    let before: HashMap<_, _> = earlier.iter().map(|then| (key(then), then)).collect();
    for now in waits.iter_mut() {
        if let Some(then) = before.get(&key(now)) {
            // A wait that was in progress counts, without its time before the earlier snapshot.
            now.count = now.count.saturating_sub(then.count - then.unfinished);
            now.total_ns = now.total_ns.saturating_sub(then.total_ns);
            now.max_ns = now.max_ns.min(now.total_ns);
        }
    }
    waits.retain(|now| now.count > 0);
}
