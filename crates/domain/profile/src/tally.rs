//! Totals of a profile's rows: over all processes, or by process, the largest first.

use crate::profile::{Errno, Function, Profile, Reason, Space, Syscall};
use crate::stack_site::{StackSite, site_of};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Totals of a system call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CallTally<'a> {
    pub(crate) pid: Option<u32>,
    pub(crate) name: &'a str,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    /// The most frequent first
    pub(crate) errnos: Vec<Errno>,
    pub(crate) total_ns: u64,
    pub(crate) max_ns: u64,
    /// Number of timed calls
    pub(crate) timed: u64,
    /// Number of calls that `total_ns` is for: if some calls of a process were timed, it is an estimate of
    /// all; if none were (those in progress at the beginning), there is no time
    pub(crate) timed_base: u64,
    pub(crate) unfinished: u64,
}

/// Totals of waits for the same thing at the same place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaitTally<'a> {
    pub(crate) pid: Option<u32>,
    pub(crate) reason: Reason,
    pub(crate) syscall: Option<&'a str>,
    pub(crate) object: Option<&'a str>,
    pub(crate) place: StackSite<'a>,
    pub(crate) count: u64,
    pub(crate) unfinished: u64,
    pub(crate) total_ns: u64,
    pub(crate) max_ns: u64,
}

/// Totals of a function in samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CpuTally<'a> {
    pub(crate) pid: Option<u32>,
    /// `None`: at most the file is known
    pub(crate) function: Option<&'a str>,
    pub(crate) module: Option<&'a str>,
    pub(crate) space: Space,
    /// Samples in the function itself
    pub(crate) own: u64,
    /// Samples in it, or in functions that it called
    pub(crate) total: u64,
}

pub(crate) fn calls(profile: &Profile, by_process: bool) -> Vec<CallTally<'_>> {
    calls_of(profile.syscalls.iter().flatten(), by_process)
}

pub(crate) fn calls_of<'a>(rows: impl Iterator<Item = &'a Syscall>, by_process: bool) -> Vec<CallTally<'a>> {
    let mut tallies = BTreeMap::<_, CallTally<'_>>::new();
    for one in rows {
        let pid = by_process.then_some(one.pid);
        let tally = tallies.entry((pid, one.name.as_str())).or_default();
        (tally.pid, tally.name) = (pid, &one.name);
        tally.calls = tally.calls.saturating_add(one.calls);
        tally.errors = tally.errors.saturating_add(one.errors);
        tally.total_ns = tally.total_ns.saturating_add(one.total_ns);
        tally.max_ns = tally.max_ns.max(one.max_ns);
        tally.timed = tally.timed.saturating_add(one.timed.unwrap_or(one.calls));
        let timed_base = if one.timed == Some(0) { 0 } else { one.calls };
        tally.timed_base = tally.timed_base.saturating_add(timed_base);
        tally.unfinished = tally.unfinished.saturating_add(one.unfinished);
        for errno in &one.errnos {
            match tally.errnos.iter_mut().find(|known| known.name == errno.name) {
                Some(known) => known.count = known.count.saturating_add(errno.count),
                None => tally.errnos.push(errno.clone()),
            }
        }
    }
    let mut tallies: Vec<_> = tallies.into_values().collect();
    for tally in &mut tallies {
        let by_count = |one: &Errno, other: &Errno| {
            other
                .count
                .cmp(&one.count)
                .then_with(|| one.name.cmp(&other.name))
        };
        tally.errnos.sort_by(by_count);
    }
    tallies.sort_by_key(|tally| (Reverse(tally.total_ns), Reverse(tally.calls)));
    tallies
}

pub(crate) fn waits(profile: &Profile, by_process: bool) -> Vec<WaitTally<'_>> {
    let mut tallies = BTreeMap::<_, WaitTally<'_>>::new();
    for one in profile.waits.iter().flatten() {
        let pid = by_process.then_some(one.pid);
        let place = site_of(profile, &one.stack);
        let (syscall, object) = (one.syscall.as_deref(), one.object.as_deref());
        let tally = tallies
            .entry((pid, one.reason, syscall, object, place))
            .or_default();
        (tally.pid, tally.reason, tally.syscall) = (pid, one.reason, syscall);
        (tally.object, tally.place) = (object, place);
        tally.count = tally.count.saturating_add(one.count);
        tally.unfinished = tally.unfinished.saturating_add(one.unfinished);
        tally.total_ns = tally.total_ns.saturating_add(one.total_ns);
        tally.max_ns = tally.max_ns.max(one.max_ns);
    }
    let mut tallies: Vec<_> = tallies.into_values().collect();
    tallies.sort_by_key(|tally| (Reverse(tally.total_ns), Reverse(tally.count)));
    tallies
}

/// Waiting time by reason.
pub(crate) fn reasons(profile: &Profile) -> Vec<(Reason, u64)> {
    let mut sums = BTreeMap::<Reason, u64>::new();
    for one in profile.waits.iter().flatten() {
        let sum = sums.entry(one.reason).or_default();
        *sum = sum.saturating_add(one.total_ns);
    }
    let mut sums: Vec<_> = sums.into_iter().filter(|(_, sum)| *sum > 0).collect();
    sums.sort_by_key(|(_, sum)| Reverse(*sum));
    sums
}

/// By descending number of samples in the function itself.
pub(crate) fn cpu(profile: &Profile, by_process: bool) -> Vec<CpuTally<'_>> {
    // Frames that cannot be distinguished count as one.
    let mut known = HashMap::new();
    let merged: Vec<usize> = profile
        .frames
        .iter()
        .enumerate()
        .map(|(nth, frame)| {
            let key = (frame.function.as_deref(), frame.module.as_deref(), frame.space);
            *known.entry(key).or_insert(nth)
        })
        .collect();
    let mut tallies = HashMap::<(Option<u32>, usize), (u64, u64)>::new();
    let mut seen = HashSet::new();
    for one in profile.cpu.iter().flat_map(|cpu| &cpu.stacks) {
        let pid = by_process.then_some(one.pid);
        let place = |frame: &u32| merged.get(*frame as usize).copied().unwrap_or(usize::MAX);
        seen.clear();
        for frame in &one.stack {
            // A recursive function is counted once.
            if seen.insert(place(frame)) {
                let tally = tallies.entry((pid, place(frame))).or_default();
                tally.1 = tally.1.saturating_add(one.samples);
            }
        }
        let innermost = one.stack.last().map_or(usize::MAX, place);
        let tally = tallies.entry((pid, innermost)).or_default();
        tally.0 = tally.0.saturating_add(one.samples);
        if one.stack.is_empty() {
            tally.1 = tally.1.saturating_add(one.samples);
        }
    }
    let mut tallies: Vec<CpuTally<'_>> = tallies
        .into_iter()
        .map(|((pid, place), (own, total))| {
            let frame = profile.frames.get(place);
            CpuTally {
                pid,
                function: frame.and_then(|frame| frame.function.as_deref()),
                module: frame.and_then(|frame| frame.module.as_deref()),
                space: frame.map_or(Space::User, |frame| frame.space),
                own,
                total,
            }
        })
        .collect();
    tallies.sort_by(|one, other| {
        let words = |tally: &CpuTally<'_>| {
            (
                tally.function.map(str::to_owned),
                tally.module.map(str::to_owned),
                tally.pid,
            )
        };
        other
            .own
            .cmp(&one.own)
            .then(other.total.cmp(&one.total))
            .then_with(|| words(one).cmp(&words(other)))
    });
    tallies
}

pub(crate) fn functions(profile: &Profile, by_process: bool) -> Vec<Function> {
    let mut tallies = BTreeMap::<_, Function>::new();
    for one in profile.functions.iter().flat_map(|functions| &functions.calls) {
        let pid = if by_process { one.pid } else { 0 };
        let key = (pid, one.name.as_str(), one.module.as_str());
        let Some(tally) = tallies.get_mut(&key) else {
            tallies.insert(key, Function { pid, ..one.clone() });
            continue;
        };
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        tally.calls = tally.calls.saturating_add(one.calls);
        tally.total_ns = sum(tally.total_ns, one.total_ns);
        tally.self_ns = sum(tally.self_ns, one.self_ns);
        tally.max_ns = tally.max_ns.max(one.max_ns);
        tally.missed_returns = tally.missed_returns.saturating_add(one.missed_returns);
        tally.unfinished = tally.unfinished.saturating_add(one.unfinished);
    }
    let mut tallies: Vec<_> = tallies.into_values().collect();
    tallies.sort_by_key(|tally| (Reverse(tally.total_ns), Reverse(tally.calls)));
    tallies
}

/// Approximate computing time of this number of samples.
pub(crate) fn computed_ns(samples: u64, samples_per_s: u32) -> Option<u64> {
    let period_ns = 1e9 / f64::from(samples_per_s);
    period_ns
        .is_finite()
        .then_some((samples as f64 * period_ns) as u64)
}

/// The sum, saturating.
pub(crate) fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Cpu, CpuStack, Frame};

    #[test]
    fn recursive_function_counts_once() {
        let frame = |name: &str, offset| Frame {
            function: (!name.is_empty()).then(|| name.to_owned()),
            module: Some("a".to_owned()),
            offset,
            ..Frame::default()
        };
        let profile = Profile {
            frames: vec![frame("f", None), frame("", Some(1)), frame("", Some(2))],
            cpu: Some(Cpu {
                stacks: vec![
                    CpuStack {
                        pid: 1,
                        stack: vec![0, 0, 1],
                        samples: 3,
                    },
                    CpuStack {
                        pid: 2,
                        stack: vec![0, 2],
                        samples: 2,
                    },
                    CpuStack {
                        pid: 2,
                        stack: vec![77],
                        samples: 1,
                    },
                ],
                ..Cpu::default()
            }),
            ..Profile::default()
        };
        let rows: Vec<_> = cpu(&profile, false)
            .into_iter()
            .map(|one| (one.function, one.module, one.own, one.total))
            .collect();
        assert_eq!(
            rows,
            [
                (None, Some("a"), 5, 5),
                (None, None, 1, 1),
                (Some("f"), Some("a"), 0, 5)
            ]
        );
        assert_eq!(cpu(&profile, true).len(), 5);
    }

    #[test]
    fn untimed_calls_have_no_time() {
        let execve = |pid, timed, total_ns| Syscall {
            pid,
            name: "execve".to_owned(),
            calls: 1,
            timed,
            total_ns,
            ..Syscall::default()
        };
        let rows = [execve(1, Some(0), 0), execve(2, None, 700)];
        let tally = &calls_of(rows.iter(), false)[0];
        assert_eq!((tally.calls, tally.timed_base, tally.total_ns), (2, 1, 700));
    }

    #[test]
    fn samples_convert_to_time() {
        assert_eq!(computed_ns(99, 99), Some(1_000_000_000));
        assert_eq!(computed_ns(5, 0), None);
    }
}
