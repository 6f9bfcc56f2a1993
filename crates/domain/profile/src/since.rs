//! The difference of two profiles of the same run.

use crate::profile::{Cpu, CpuStack, Errno, Function, Functions, Losses, Profile, Syscall, Wait};
use std::collections::HashMap;
use std::hash::Hash;

impl Profile {
    /// The profile of the time since `earlier`, which must be of the same run: counts and times are
    /// differences, rows without a change are omitted.
    ///
    /// Maxima stay those of the whole run, because their time is unknown. Unfinished calls are those at the
    /// end. Stacks are compared by content, because indices of frames may differ.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let frames = Frames::new(self, earlier);
        Self {
            duration_ns: self.duration_ns.saturating_sub(earlier.duration_ns),
            syscalls: self.syscalls.as_ref().map(|now| {
                let before = earlier.syscalls.as_deref().unwrap_or_default();
                let before = by_key(before, |one| (one.pid, one.name.as_str()));
                let rows = now
                    .iter()
                    .map(|one| match before.get(&(one.pid, one.name.as_str())) {
                        Some(then) => syscall(one, then),
                        None => one.clone(),
                    });
                rows.filter(|one| one.calls > 0 || one.unfinished > 0).collect()
            }),
            waits: self.waits.as_ref().map(|now| {
                let before = earlier.waits.as_deref().unwrap_or_default();
                let before = by_key(before, |one| wait_key(one, frames.earlier(&one.stack)));
                let rows = now.iter().map(|one| {
                    let key = wait_key(one, one.stack.clone());
                    match before.get(&key) {
                        Some(then) => Wait {
                            count: one.count.saturating_sub(then.count),
                            total_ns: one.total_ns.saturating_sub(then.total_ns),
                            ..one.clone()
                        },
                        None => one.clone(),
                    }
                });
                rows.filter(|one| one.count > 0 || one.total_ns > 0).collect()
            }),
            cpu: self.cpu.as_ref().map(|now| match &earlier.cpu {
                Some(then) => cpu(now, then, &frames),
                None => now.clone(),
            }),
            functions: self.functions.as_ref().map(|now| match &earlier.functions {
                Some(then) => functions(now, then),
                None => now.clone(),
            }),
            losses: losses(&self.losses, &earlier.losses),
            ..self.clone()
        }
    }
}

/// Maps frames of the earlier profile to the later one.
struct Frames(Option<Vec<u32>>);

impl Frames {
    fn new(now: &Profile, then: &Profile) -> Self {
        // The later profile usually appends frames to the earlier ones.
        if now.frames.starts_with(&then.frames) {
            return Self(None);
        }
        let places: HashMap<_, u32> = now.frames.iter().zip(0..).collect();
        let place = |frame| places.get(frame).copied().unwrap_or(u32::MAX);
        Self(Some(then.frames.iter().map(place).collect()))
    }

    /// A stack of the earlier profile with indices of the later one.
    fn earlier(&self, stack: &[u32]) -> Vec<u32> {
        let Some(places) = &self.0 else {
            return stack.to_vec();
        };
        let place = |frame: &u32| places.get(*frame as usize).copied().unwrap_or(u32::MAX);
        stack.iter().map(place).collect()
    }
}

type WaitKey<'a> = (
    u32,
    crate::profile::Reason,
    Option<&'a str>,
    Option<&'a str>,
    Vec<u32>,
);

fn wait_key(wait: &Wait, stack: Vec<u32>) -> WaitKey<'_> {
    (
        wait.pid,
        wait.reason,
        wait.syscall.as_deref(),
        wait.object.as_deref(),
        stack,
    )
}

fn by_key<'a, T, K: Eq + Hash>(rows: &'a [T], key: impl Fn(&'a T) -> K) -> HashMap<K, &'a T> {
    rows.iter().map(|row| (key(row), row)).collect()
}

fn syscall(now: &Syscall, then: &Syscall) -> Syscall {
    let mut errnos: Vec<Errno> = now
        .errnos
        .iter()
        .map(|errno| {
            let before = then.errnos.iter().find(|other| other.name == errno.name);
            Errno {
                name: errno.name.clone(),
                count: errno.count.saturating_sub(before.map_or(0, |other| other.count)),
            }
        })
        .filter(|errno| errno.count > 0)
        .collect();
    errnos.sort_by(|one, other| {
        other
            .count
            .cmp(&one.count)
            .then_with(|| one.name.cmp(&other.name))
    });
    Syscall {
        calls: now.calls.saturating_sub(then.calls),
        errors: now.errors.saturating_sub(then.errors),
        errnos,
        total_ns: now.total_ns.saturating_sub(then.total_ns),
        timed: timed_since(now, then),
        ..now.clone()
    }
}

/// Number of timed calls in between; `None`: all.
fn timed_since(now: &Syscall, then: &Syscall) -> Option<u64> {
    let calls = now.calls.saturating_sub(then.calls);
    let timed = |one: &Syscall| one.timed.unwrap_or(one.calls);
    let timed = timed(now).saturating_sub(timed(then));
    (timed < calls).then_some(timed)
}

fn cpu(now: &Cpu, then: &Cpu, frames: &Frames) -> Cpu {
    let before: HashMap<_, u64> = then
        .stacks
        .iter()
        .map(|one| ((one.pid, frames.earlier(&one.stack)), one.samples))
        .collect();
    let stacks = now.stacks.iter().map(|one| CpuStack {
        samples: one
            .samples
            .saturating_sub(before.get(&(one.pid, one.stack.clone())).copied().unwrap_or(0)),
        ..one.clone()
    });
    Cpu {
        samples: now.samples.saturating_sub(then.samples),
        kernel_samples: now.kernel_samples.saturating_sub(then.kernel_samples),
        cut_stacks: now.cut_stacks.saturating_sub(then.cut_stacks),
        stacks: stacks.filter(|one| one.samples > 0).collect(),
        ..now.clone()
    }
}

fn functions(now: &Functions, then: &Functions) -> Functions {
    let key = |one: &Function| (one.pid, one.name.clone(), one.module.clone());
    let before: HashMap<_, &Function> = then.calls.iter().map(|one| (key(one), one)).collect();
    let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
    let calls = now.calls.iter().map(|one| match before.get(&key(one)) {
        Some(then) => Function {
            calls: one.calls.saturating_sub(then.calls),
            total_ns: less(one.total_ns, then.total_ns),
            self_ns: less(one.self_ns, then.self_ns),
            missed_returns: one.missed_returns.saturating_sub(then.missed_returns),
            ..one.clone()
        },
        None => one.clone(),
    });
    Functions {
        calls: calls
            .filter(|one| one.calls > 0 || one.unfinished > 0 || one.missed_returns > 0)
            .collect(),
        ..now.clone()
    }
}

fn losses(now: &Losses, then: &Losses) -> Losses {
    Losses {
        samples: now.samples.saturating_sub(then.samples),
        syscalls: now.syscalls.saturating_sub(then.syscalls),
        waits: now.waits.saturating_sub(then.waits),
        stacks: now.stacks.saturating_sub(then.stacks),
        functions: now.functions.saturating_sub(then.functions),
        events: now.events.saturating_sub(then.events),
        unnamed_frames: now.unnamed_frames.saturating_sub(then.unnamed_frames),
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Cpu, CpuStack, Errno, Frame, Losses, Profile, Syscall, Wait};

    fn frame(name: &str) -> Frame {
        Frame {
            function: Some(name.to_owned()),
            ..Frame::default()
        }
    }

    fn profile_at(times: u64, frames: &[&str], stack: &[u32]) -> Profile {
        Profile {
            duration_ns: times * 1_000,
            syscalls: Some(vec![Syscall {
                pid: 1,
                name: "read".to_owned(),
                calls: times,
                errors: times,
                errnos: vec![Errno {
                    name: "EIO".to_owned(),
                    count: times,
                }],
                total_ns: times * 10,
                max_ns: 12,
                ..Syscall::default()
            }]),
            waits: Some(vec![Wait {
                pid: 1,
                stack: stack.to_vec(),
                count: times,
                total_ns: times * 7,
                max_ns: 9,
                ..Wait::default()
            }]),
            cpu: Some(Cpu {
                samples: times,
                stacks: vec![CpuStack {
                    pid: 1,
                    stack: stack.to_vec(),
                    samples: times,
                }],
                ..Cpu::default()
            }),
            frames: frames.iter().map(|name| frame(name)).collect(),
            losses: Losses {
                samples: times,
                ..Losses::default()
            },
            ..Profile::default()
        }
    }

    #[track_caller]
    fn check(now: &Profile, then: &Profile) {
        let between = now.since(then);
        assert_eq!(between.duration_ns, 3_000);
        let call = &between.syscalls.as_ref().unwrap()[0];
        assert_eq!(
            (call.calls, call.errors, call.total_ns, call.max_ns),
            (3, 3, 30, 12)
        );
        assert_eq!(call.errnos[0].count, 3);
        let wait = &between.waits.as_ref().unwrap()[0];
        assert_eq!((wait.count, wait.total_ns, wait.max_ns), (3, 21, 9));
        let cpu = between.cpu.as_ref().unwrap();
        assert_eq!((cpu.samples, cpu.stacks[0].samples), (3, 3));
        assert_eq!(between.losses.samples, 3);
    }

    #[test]
    fn since_subtracts_the_earlier_profile() {
        check(
            &profile_at(5, &["a", "b"], &[0, 1]),
            &profile_at(2, &["a", "b"], &[0, 1]),
        );
        // Frames with different indices.
        check(
            &profile_at(5, &["b", "c", "a"], &[2, 0]),
            &profile_at(2, &["a", "b"], &[0, 1]),
        );
    }

    #[test]
    fn unchanged_rows_are_omitted() {
        let now = profile_at(5, &["a"], &[0]);
        let between = now.since(&now);
        assert_eq!(between.syscalls, Some(Vec::new()));
        assert_eq!(between.waits, Some(Vec::new()));
        assert_eq!(between.cpu.unwrap().stacks, Vec::new());
        // All of it is new.
        assert_eq!(now.since(&Profile::default()), now);
        // Another run, or wrong order: nothing becomes negative.
        assert_eq!(profile_at(1, &["a"], &[0]).since(&now).duration_ns, 0);
    }
}
