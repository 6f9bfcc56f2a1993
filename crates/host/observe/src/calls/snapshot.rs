//! Reads the BPF maps and merges the copies of all processors.

use super::options::CallOptions;
use super::programs::Programs;
use super::raw::{Call, CallLosses, RawCalls, RawSyscall, RawWait, State};
use super::sleepers::Sleepers;
use crate::{Incarnation, RawStack, now_ns};
use rustix::io::Errno;
use sockeye_sys::bpf::Table;
use sockeye_wire::calls::{CallCounts, ErrorKey, FRAMES_MAX, Lost, NONE, Running, Thread, Time, Wait};
use std::collections::HashMap;

/// Stacks that were read already, by stack id; an id never changes its stack.
#[derive(Debug, Default)]
pub(super) struct StackCache {
    known: HashMap<i32, Vec<u64>>,
}

/// Reads a snapshot. `at_ns`: when the programs were detached, by their clock; `None`: now. An event during the reading may be
/// missing, but is never counted twice.
pub(super) fn read(
    programs: &Programs,
    options: CallOptions,
    sleepers: &Sleepers,
    stacks: &mut StackCache,
    at_ns: Option<u64>,
) -> Result<Snapshot, Errno> {
    // 1. Calls and waits that have ended.
    let mut calls = options.syscalls.then(|| finished_calls(programs)).transpose()?;
    let waits = options.waits.then(|| finished_waits(programs)).transpose()?;
    // 2. Those in progress. A thread that runs now does not wait, whatever its entry shows later.
    let at_ns = at_ns.unwrap_or_else(now_ns);
    let running = running(programs)?;
    let mut threads = threads(programs)?;
    threads.retain(|(tid, _)| !running.iter().any(|running| running.tid == *tid));
    if let Some(calls) = &mut calls {
        add_unfinished(calls, &running, &threads);
    }
    let waits = waits.map(|waits| merged_waits(programs, waits, &threads, sleepers, stacks, at_ns));
    Ok(Snapshot {
        at_ns,
        calls: RawCalls {
            syscalls: calls.map(merged_calls),
            waits,
            losses: losses(programs)?,
        },
        asleep: threads
            .into_iter()
            .filter(|(_, thread)| thread.since_ns != 0)
            .collect(),
    })
}

/// Counts at a moment.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// The time of the programs' clock, in nanoseconds.
    pub(super) at_ns: u64,
    pub(super) calls: RawCalls,
    /// Threads that were off the processors, by thread id.
    pub(super) asleep: HashMap<u32, Thread>,
}

/// Returns what runs on each processor, if it is in scope.
fn running(programs: &Programs) -> Result<Vec<Running>, Errno> {
    let all = copies(&programs.running)?;
    Ok(all
        .iter()
        .filter_map(|bytes| Running::read(bytes))
        .filter(|running| running.is_in_scope)
        .collect())
}

/// Returns the threads in scope that have been off a processor, by thread id.
fn threads(programs: &Programs) -> Result<Vec<(u32, Thread)>, Errno> {
    let mut threads = Vec::new();
    programs.threads.each(|key, value| {
        if let (Ok(tid), Some(thread)) = (key.try_into(), Thread::read(value)) {
            threads.push((u32::from_ne_bytes(tid), thread));
        }
    })?;
    Ok(threads)
}

/// Returns the calls that have returned, by process (upper half) and call number (lower half).
fn finished_calls(programs: &Programs) -> Result<HashMap<u64, Sum>, Errno> {
    let mut all: HashMap<u64, Sum> = HashMap::new();
    let (cells, overflow) = (&programs.cells, &programs.overflow);
    cells.each(|_, values| {
        for cell in values
            .chunks_exact(cells.copy_bytes())
            .filter_map(CallCounts::read)
        {
            if cell.process_and_call != 0 {
                all.entry(cell.process_and_call).or_default().add(&cell);
            }
        }
    })?;
    // The key has the process and call: only the first processor's copy of the value has it too.
    overflow.each(|key, values| {
        let Ok(key) = key.try_into().map(u64::from_ne_bytes) else {
            return;
        };
        for cell in values
            .chunks_exact(overflow.copy_bytes())
            .filter_map(CallCounts::read)
        {
            all.entry(key).or_default().add(&cell);
        }
    })?;
    programs.errors.each(|key, values| {
        let count: u64 = values
            .chunks_exact(8)
            .map(|value| u64::from_ne_bytes(value.try_into().unwrap_or_default()))
            .sum();
        let Some(failure) = ErrorKey::read(key).filter(|_| count > 0) else {
            return;
        };
        if let Some(sum) = all.get_mut(&failure.process_and_call) {
            let errno = u32::try_from(failure.errno).unwrap_or(u32::MAX);
            sum.errnos.push((errno, count));
        }
    })?;
    Ok(all)
}

/// Adds the calls in progress.
fn add_unfinished(all: &mut HashMap<u64, Sum>, running: &[Running], threads: &[(u32, Thread)]) {
    let off = threads
        .iter()
        .filter(|(_, thread)| thread.since_ns != 0 && thread.wait.nr != NONE)
        .map(|(_, thread)| (thread.wait.tgid, thread.wait.nr));
    let on = running
        .iter()
        .filter(|thread| thread.start_ns != 0)
        .map(|thread| (thread.tgid, thread.nr));
    for (tgid, nr) in off.chain(on) {
        let key = u64::from(tgid) << 32 | u64::from(nr);
        all.entry(key).or_default().unfinished += 1;
    }
}

/// Returns one record per process and call.
fn merged_calls(all: HashMap<u64, Sum>) -> Vec<RawSyscall> {
    let mut all: Vec<_> = all
        .into_iter()
        .filter_map(|(key, sum)| sum.into_record(key))
        .collect();
    all.sort_unstable_by_key(|sum| (sum.pid, sum.call));
    all
}

/// Calls with the same number by one process, on all processors.
#[derive(Debug, Default)]
struct Sum {
    cell: CallCounts,
    errnos: Vec<(u32, u64)>,
    unfinished: u64,
}

impl Sum {
    fn add(&mut self, cell: &CallCounts) {
        let sum = &mut self.cell;
        sum.count += cell.count;
        sum.errors += cell.errors;
        sum.timed += cell.timed;
        sum.on_ns = sum.on_ns.saturating_add(cell.on_ns);
        sum.off_ns = sum.off_ns.saturating_add(cell.off_ns);
        sum.max_ns = sum.max_ns.max(cell.max_ns);
    }

    /// Returns the record of the process and call in `key`.
    fn into_record(mut self, key: u64) -> Option<RawSyscall> {
        let CallCounts {
            count,
            errors,
            timed,
            on_ns,
            off_ns,
            max_ns,
            ..
        } = self.cell;
        self.errnos
            .sort_unstable_by_key(|(errno, count)| (std::cmp::Reverse(*count), *errno));
        Some(RawSyscall {
            pid: (key >> 32) as u32,
            call: Call::new(key as u32)?,
            calls: count,
            timed,
            errors,
            errnos: self.errnos,
            total_ns: off_ns.saturating_add(extrapolate(on_ns, timed, count)),
            max_ns,
            unfinished: self.unfinished,
        })
    }
}

/// Returns the time of all calls, from the time of those that were timed.
fn extrapolate(some_ns: u64, timed: u64, count: u64) -> u64 {
    if timed == 0 || timed >= count {
        return some_ns;
    }
    let all = u128::from(some_ns) * u128::from(count) / u128::from(timed);
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// Returns the waits that have ended.
fn finished_waits(programs: &Programs) -> Result<Vec<(Wait, Time, u64)>, Errno> {
    let mut found = Vec::new();
    programs.waits.each(|key, value| {
        if let (Some(wait), Some(time)) = (Wait::read(key), Time::read(value)) {
            // A count of 0: the entry is being created.
            if time.count > 0 {
                found.push((wait, time, 0));
            }
        }
    })?;
    Ok(found)
}

/// Returns one record for the waits that have the same process, call, argument, state and stack.
fn merged_waits(
    programs: &Programs,
    mut found: Vec<(Wait, Time, u64)>,
    threads: &[(u32, Thread)],
    sleepers: &Sleepers,
    stacks: &mut StackCache,
    at_ns: u64,
) -> Vec<RawWait> {
    // A thread that went to sleep after `at_ns` still ran then.
    let asleep = threads
        .iter()
        .filter(|(_, thread)| (1..=at_ns).contains(&thread.since_ns));
    for (_, thread) in asleep {
        let took = at_ns - thread.since_ns;
        let time = Time {
            count: 1,
            total_ns: took,
            max_ns: took,
        };
        found.push((thread.wait, time, 1));
    }
    // The same stack can have several ids.
    let mut all: HashMap<WaitKey, (Time, u64)> = HashMap::new();
    for (wait, time, unfinished) in found {
        let process = Incarnation {
            pid: wait.tgid,
            execs: wait.execs,
        };
        let stack = stacks.stack(&programs.stacks, &wait, sleepers);
        let key = (
            process,
            Call::new(wait.nr),
            wait.argument,
            State::new(wait.state),
            stack,
        );
        let (sum, still) = all.entry(key).or_default();
        sum.count += time.count;
        sum.total_ns = sum.total_ns.saturating_add(time.total_ns);
        sum.max_ns = sum.max_ns.max(time.max_ns);
        *still += unfinished;
    }
    let with_objects = super::names::calls_with_objects();
    let mut waits: Vec<_> = all
        .into_iter()
        .map(
            |((process, call, argument, state, stack), (time, unfinished))| RawWait {
                process,
                call,
                object: None,
                argument: call
                    .filter(|call| !call.is_compat)
                    .and_then(|call| with_objects.get(call.nr as usize))
                    .filter(|with| **with != 0)
                    .map(|_| argument),
                state,
                stack,
                count: time.count,
                unfinished,
                total_ns: time.total_ns,
                max_ns: time.max_ns,
            },
        )
        .collect();
    waits.sort_unstable_by_key(|wait| (std::cmp::Reverse(wait.total_ns), wait.process, wait.call));
    waits
}

/// What the waits of one record have in common: process, call, argument, state, stack.
type WaitKey = (Incarnation, Option<Call>, u64, State, RawStack);

impl StackCache {
    /// Returns the stack of a wait.
    fn stack(&mut self, table: &Table, wait: &Wait, sleepers: &Sleepers) -> RawStack {
        // Below -1: the stack is that of a thread in `sleepers` (bpf/calls.h).
        if wait.kernel_stack < -1 {
            let tid = u32::try_from(-2 - i64::from(wait.kernel_stack)).unwrap_or(NONE);
            let (kernel, user) = sleepers.stack(tid).cloned().unwrap_or_default();
            return RawStack { kernel, user };
        }
        RawStack {
            kernel: self.read(table, wait.kernel_stack),
            user: self.read(table, wait.user_stack),
        }
    }

    /// Returns the stack with this id; empty for a negative id.
    fn read(&mut self, table: &Table, id: i32) -> Vec<u64> {
        if id < 0 {
            return Vec::new();
        }
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        let mut bytes = vec![0; 8 * FRAMES_MAX];
        if !matches!(table.lookup(&id.to_ne_bytes(), &mut bytes), Ok(true)) {
            return Vec::new();
        }
        let stack: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
            .take_while(|address| *address != 0)
            .collect();
        self.known.insert(id, stack.clone());
        stack
    }
}

fn losses(programs: &Programs) -> Result<CallLosses, Errno> {
    let mut losses = CallLosses::default();
    for lost in copies(&programs.lost)?
        .iter()
        .filter_map(|bytes| Lost::read(bytes))
    {
        losses.syscalls += lost.calls;
        losses.waits += lost.waits + lost.threads;
        losses.stacks += lost.stacks;
    }
    Ok(losses)
}

/// Returns the values of the first element, one per processor.
fn copies(table: &Table) -> Result<Vec<Vec<u8>>, Errno> {
    let mut bytes = vec![0; table.values_bytes()];
    table.lookup(&[0; 4], &mut bytes)?;
    Ok(bytes
        .chunks_exact(table.copy_bytes())
        .map(<[u8]>::to_vec)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untimed_calls_count_like_timed_ones() {
        let total_ns = |count, timed, on_ns, off_ns| {
            let mut sum = Sum::default();
            let cell = CallCounts {
                count,
                timed,
                on_ns,
                off_ns,
                ..CallCounts::default()
            };
            sum.add(&cell);
            sum.into_record(7 << 32).unwrap().total_ns
        };
        assert_eq!(total_ns(10, 10, 100, 50), 150);
        assert_eq!(total_ns(10, 5, 100, 50), 250);
        // Their processor time is unknown.
        assert_eq!(total_ns(10, 0, 0, 50), 50);
        assert_eq!(total_ns(u64::MAX, 1, u64::MAX, 1), u64::MAX);
    }
}
