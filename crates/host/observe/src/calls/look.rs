//! What the programs have counted, read from their maps and put together.

use super::load::Attached;
use super::sleepers::Sleepers;
use super::{Call, CallLosses, RawCalls, RawSyscall, RawWait, State, Wanted};
use crate::{Incarnation, RawStack, now_ns};
use rustix::io::Errno;
use sockeye_sys::bpf::Table;
use sockeye_wire::calls::{CallCounts, ErrorKey, FRAMES_MAX, Lost, NONE, Running, Thread, Time, Wait};
use std::collections::HashMap;

/// Stacks that were read already: their numbers never change their meaning.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    known: HashMap<i32, Vec<u64>>,
}

/// What there is at a moment: `at_ns` of the programs' clock, if they are not attached any more; else now. What happens
/// while it is read is rather in none of the figures than in two.
pub(super) fn look(
    attached: &Attached,
    wanted: Wanted,
    sleepers: &Sleepers,
    stacks: &mut Stacks,
    at_ns: Option<u64>,
) -> Result<Looked, Errno> {
    // 1. What is over.
    let mut calls = wanted.syscalls.then(|| finished_calls(attached)).transpose()?;
    let waits = wanted.waits.then(|| finished_waits(attached)).transpose()?;
    // 2. What lasts. Who is on a processor now is off none, whatever is read of it later.
    let at_ns = at_ns.unwrap_or_else(now_ns);
    let running = running(attached)?;
    let mut threads = threads(attached)?;
    threads.retain(|(tid, _)| !running.iter().any(|running| running.tid == *tid));
    if let Some(calls) = &mut calls {
        add_unfinished(calls, &running, &threads);
    }
    let waits = waits.map(|waits| told_waits(attached, waits, &threads, sleepers, stacks, at_ns));
    Ok(Looked {
        at_ns,
        calls: RawCalls {
            syscalls: calls.map(told_calls),
            waits,
            losses: losses(attached)?,
        },
        asleep: threads
            .into_iter()
            .filter(|(_, thread)| thread.since_ns != 0)
            .collect(),
    })
}

/// What was there at a moment.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) at_ns: u64,
    pub(super) calls: RawCalls,
    /// Threads that were off the processors.
    pub(super) asleep: HashMap<u32, Thread>,
}

fn running(attached: &Attached) -> Result<Vec<Running>, Errno> {
    let all = copies(&attached.running)?;
    Ok(all
        .iter()
        .filter_map(|bytes| Running::read(bytes))
        .filter(|running| running.is_in_scope)
        .collect())
}

/// Threads in scope that have been off a processor, by their numbers.
fn threads(attached: &Attached) -> Result<Vec<(u32, Thread)>, Errno> {
    let mut threads = Vec::new();
    attached.threads.each(|key, value| {
        if let (Ok(tid), Some(thread)) = (key.try_into(), Thread::read(value)) {
            threads.push((u32::from_ne_bytes(tid), thread));
        }
    })?;
    Ok(threads)
}

/// Calls that have returned, by process and number.
fn finished_calls(attached: &Attached) -> Result<HashMap<u64, Sum>, Errno> {
    let mut all: HashMap<u64, Sum> = HashMap::new();
    let (cells, crowded) = (&attached.cells, &attached.crowded);
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
    // Whose it is says the key: of the copies only that of the processor which came first does.
    crowded.each(|key, values| {
        let Ok(whose) = key.try_into().map(u64::from_ne_bytes) else {
            return;
        };
        for cell in values
            .chunks_exact(crowded.copy_bytes())
            .filter_map(CallCounts::read)
        {
            all.entry(whose).or_default().add(&cell);
        }
    })?;
    attached.errors.each(|key, values| {
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
        let whose = u64::from(tgid) << 32 | u64::from(nr);
        all.entry(whose).or_default().unfinished += 1;
    }
}

fn told_calls(all: HashMap<u64, Sum>) -> Vec<RawSyscall> {
    let mut all: Vec<_> = all
        .into_iter()
        .filter_map(|(whose, sum)| sum.told(whose))
        .collect();
    all.sort_unstable_by_key(|sum| (sum.pid, sum.call));
    all
}

/// Calls of one kind by one process, on all processors.
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

    fn told(mut self, whose: u64) -> Option<RawSyscall> {
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
            pid: (whose >> 32) as u32,
            call: Call::of(whose as u32)?,
            calls: count,
            timed,
            errors,
            errnos: self.errnos,
            total_ns: off_ns.saturating_add(of_all(on_ns, timed, count)),
            max_ns,
            unfinished: self.unfinished,
        })
    }
}

/// How long all took, if some took so long.
fn of_all(some_ns: u64, timed: u64, count: u64) -> u64 {
    if timed == 0 || timed >= count {
        return some_ns;
    }
    let all = u128::from(some_ns) * u128::from(count) / u128::from(timed);
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// Waits that are over.
fn finished_waits(attached: &Attached) -> Result<Vec<(Wait, Time, u64)>, Errno> {
    let mut found = Vec::new();
    attached.waits.each(|key, value| {
        if let (Some(wait), Some(time)) = (Wait::read(key), Time::read(value)) {
            // It is being made just now.
            if time.count > 0 {
                found.push((wait, time, 0));
            }
        }
    })?;
    Ok(found)
}

fn told_waits(
    attached: &Attached,
    mut found: Vec<(Wait, Time, u64)>,
    threads: &[(u32, Thread)],
    sleepers: &Sleepers,
    stacks: &mut Stacks,
    at_ns: u64,
) -> Vec<RawWait> {
    // Who went after that moment still ran then.
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
    // The same stack may have been told in several ways.
    let mut all: HashMap<Same, (Time, u64)> = HashMap::new();
    for (wait, time, unfinished) in found {
        let whose = Incarnation {
            pid: wait.tgid,
            execs: wait.execs,
        };
        let stack = stacks.of(&attached.stacks, &wait, sleepers);
        let key = (
            whose,
            Call::of(wait.nr),
            wait.argument,
            State::of(wait.state),
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
            |((whose, call, argument, state, stack), (time, unfinished))| RawWait {
                whose,
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
    waits.sort_unstable_by_key(|wait| (std::cmp::Reverse(wait.total_ns), wait.whose, wait.call));
    waits
}

/// What waits have in common that are told as one: whose, in which call, its argument, how, where.
type Same = (Incarnation, Option<Call>, u64, State, RawStack);

impl Stacks {
    fn of(&mut self, table: &Table, wait: &Wait, sleepers: &Sleepers) -> RawStack {
        // `sleepers` of bpf/calls.h
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

    fn read(&mut self, table: &Table, number: i32) -> Vec<u64> {
        if number < 0 {
            return Vec::new();
        }
        if let Some(known) = self.known.get(&number) {
            return known.clone();
        }
        let mut bytes = vec![0; 8 * FRAMES_MAX];
        if !matches!(table.lookup(&number.to_ne_bytes(), &mut bytes), Ok(true)) {
            return Vec::new();
        }
        let stack: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
            .take_while(|address| *address != 0)
            .collect();
        self.known.insert(number, stack.clone());
        stack
    }
}

fn losses(attached: &Attached) -> Result<CallLosses, Errno> {
    let mut losses = CallLosses::default();
    for lost in copies(&attached.lost)?
        .iter()
        .filter_map(|bytes| Lost::read(bytes))
    {
        losses.syscalls += lost.calls;
        losses.waits += lost.waits + lost.threads;
        losses.stacks += lost.stacks;
    }
    Ok(losses)
}

/// The values of the first element, one for each processor.
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
    fn those_that_were_not_timed_took_as_long_as_those_that_were() {
        let of = |count, timed, on_ns, off_ns| {
            let mut sum = Sum::default();
            let cell = CallCounts {
                count,
                timed,
                on_ns,
                off_ns,
                ..CallCounts::default()
            };
            sum.add(&cell);
            sum.told(7 << 32).unwrap().total_ns
        };
        assert_eq!(of(10, 10, 100, 50), 150);
        assert_eq!(of(10, 5, 100, 50), 250);
        // Nobody knows how long they were on the processor.
        assert_eq!(of(10, 0, 0, 50), 50);
        assert_eq!(of(u64::MAX, 1, u64::MAX, 1), u64::MAX);
    }
}
