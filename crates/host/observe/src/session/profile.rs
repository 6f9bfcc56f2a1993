//! Builds the profile of a session: resolves calls and addresses to names.

use super::{Session, file_opener};
use crate::calls::{Call, RawSyscall, RawWait, State, errno_name};
use crate::frames::Frames;
use sockeye_profile::{
    Cause, Cpu, CpuStack, Errno, Function, Missing, Profile, Reason, Syscall, TaskState, Wait,
};
use sockeye_sys::processors;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

impl Session {
    /// Returns the profile of what was recorded so far.
    pub(super) fn profile(&mut self) -> Profile {
        let mut profile = Profile {
            schema_version: Profile::SCHEMA_VERSION,
            target: self.description.clone(),
            duration_ns: nanoseconds(self.duration()),
            processors: u32::try_from(processors::online().len()).unwrap_or(1),
            missing: self.missing.clone(),
            ..Profile::default()
        };
        self.add_calls(&mut profile);
        self.add_samples(&mut profile);
        self.add_functions(&mut profile);
        self.add_processes(&mut profile);
        // Last: only now it is known which names are missing.
        profile
            .missing
            .extend(self.symbols.missing_parts().into_iter().map(Missing::from));
        profile.frames = self.frames.all().to_vec();
        let unnamed = profile.frames.iter().filter(|frame| frame.function.is_none());
        profile.losses.unnamed_frames = unnamed.count() as u64;
        profile
    }

    fn duration(&self) -> Duration {
        let until = self.finished.unwrap_or_else(Instant::now);
        until.saturating_duration_since(self.started)
    }

    fn add_calls(&mut self, profile: &mut Profile) {
        let Some(calls) = &mut self.calls else { return };
        let raw = match calls.read() {
            Ok(raw) => raw,
            Err(unavailable) => {
                profile.missing.push(unavailable.into());
                return;
            }
        };
        profile.losses.syscalls += raw.losses.syscalls;
        profile.losses.waits += raw.losses.waits;
        profile.losses.stacks += raw.losses.stacks;
        profile.syscalls = raw.syscalls.map(|calls| calls.into_iter().map(syscall).collect());
        let Some(waits) = raw.waits else { return };
        let pids: HashSet<u32> = waits.iter().map(|wait| wait.process.pid).collect();
        for pid in pids {
            let mut on_mapping = file_opener(&mut self.symbols, &mut self.new_files, false);
            self.processes.add(pid, &mut on_mapping);
        }
        let mut merged: BTreeMap<WaitKey, Wait> = BTreeMap::new();
        for raw in waits {
            let wait = self.wait_of(&raw);
            let key = (
                wait.pid,
                wait.stack.clone(),
                wait.syscall.clone(),
                wait.object.clone(),
                wait.reason,
            );
            let sum = merged.entry(key).or_insert_with(|| Wait {
                count: 0,
                unfinished: 0,
                total_ns: 0,
                max_ns: 0,
                ..wait
            });
            sum.count += raw.count;
            sum.unfinished += raw.unfinished;
            sum.total_ns = sum.total_ns.saturating_add(raw.total_ns);
            sum.max_ns = sum.max_ns.max(raw.max_ns);
        }
        let mut merged: Vec<Wait> = merged.into_values().collect();
        merged.sort_by_key(|wait| std::cmp::Reverse(wait.total_ns));
        profile.waits = Some(merged);
    }

    fn wait_of(&mut self, raw: &RawWait) -> Wait {
        let syscall = raw.call.map(Call::name);
        let state = match raw.state {
            State::Runnable => TaskState::Runnable,
            State::Stopped => TaskState::Stopped,
            _ => TaskState::Waiting,
        };
        let stack = Frames::of_wait(&raw.stack, &mut self.symbols);
        let kernel = self.frames.kernel_functions(&stack, &mut self.symbols);
        let cause = Cause::of(syscall.as_deref(), state, &kernel);
        Wait {
            pid: raw.process.pid,
            reason: cause.reason,
            syscall,
            object: raw.object.clone().or(cause.detail),
            stack: self
                .frames
                .stack(raw.process, &stack, &self.processes, &mut self.symbols),
            count: raw.count,
            unfinished: raw.unfinished,
            total_ns: raw.total_ns,
            max_ns: raw.max_ns,
        }
    }

    fn add_samples(&mut self, profile: &mut Profile) {
        let Some(sampler) = &self.sampler else { return };
        let raw = sampler.counts();
        // Lost records include process events; there cannot have been more samples than the rate allows.
        let seconds = self.duration().as_secs_f64();
        let most = seconds * f64::from(raw.samples_per_s) * f64::from(profile.processors);
        profile.losses.samples += raw.lost.min(most.ceil() as u64);
        profile.losses.stacks += raw.lost_stacks;
        profile.losses.events += raw.broken;
        if !self.has_samples {
            return;
        }
        let mut stacks: BTreeMap<(u32, Vec<u32>), u64> = BTreeMap::new();
        for (process, stack, samples) in sampler.stacks() {
            let frames = self
                .frames
                .stack(process, stack, &self.processes, &mut self.symbols);
            *stacks.entry((process.pid, frames)).or_default() += samples;
        }
        let mut stacks: Vec<CpuStack> = stacks
            .into_iter()
            .map(|((pid, stack), samples)| CpuStack { pid, stack, samples })
            .collect();
        stacks.sort_by_key(|stack| std::cmp::Reverse(stack.samples));
        profile.cpu = Some(Cpu {
            samples_per_s: raw.samples_per_s,
            samples: raw.samples,
            kernel_samples: raw.kernel_samples,
            cut_stacks: raw.cut_stacks,
            user_only: raw.user_only,
            ready_ns: raw.ready_ns,
            stacks,
        });
    }

    fn add_functions(&mut self, profile: &mut Profile) {
        let mut counts = Vec::new();
        for functions in &self.kernel_functions {
            profile
                .missing
                .extend(functions.missing_parts().into_iter().map(Missing::from));
            counts.push(functions.read());
        }
        for functions in &mut self.functions {
            let missing_parts = functions.no_match(&mut self.symbols).into_iter();
            profile
                .missing
                .extend(missing_parts.chain(functions.missing_parts()).map(Missing::from));
            counts.push(functions.read());
        }
        for counts in counts {
            match counts {
                Ok(counts) => {
                    profile.losses.functions += counts.lost;
                    profile.losses.events += counts.lost_processes;
                    let sum = profile.functions.get_or_insert_default();
                    sum.calls.extend(counts.functions.calls);
                    sum.watched += counts.functions.watched;
                    sum.calls_of_others += counts.functions.calls_of_others;
                    for means in counts.functions.means {
                        if !sum.means.contains(&means) {
                            sum.means.push(means);
                        }
                    }
                    sum.overhead_ns_per_call =
                        sum.overhead_ns_per_call.or(counts.functions.overhead_ns_per_call);
                }
                Err(unavailable) => profile.missing.push(unavailable.into()),
            }
        }
    }

    /// Adds the processes that other parts of the profile mention.
    fn add_processes(&mut self, profile: &mut Profile) {
        let calls = profile.syscalls.iter().flatten().map(|call| call.pid);
        let waits = profile.waits.iter().flatten().map(|wait| wait.pid);
        let samples = profile
            .cpu
            .iter()
            .flat_map(|cpu| &cpu.stacks)
            .map(|stack| stack.pid);
        let functions = profile.functions.iter().flat_map(|functions| &functions.calls);
        let functions = functions
            .map(|function: &Function| function.pid)
            .filter(|pid| *pid != 0);
        let mentioned: HashSet<u32> = calls.chain(waits).chain(samples).chain(functions).collect();
        for pid in &mentioned {
            let mut on_mapping = file_opener(&mut self.symbols, &mut self.new_files, false);
            self.processes.add(*pid, &mut on_mapping);
        }
        profile.losses.events += self.processes.losses();
        profile.processes = self.processes.all();
        profile
            .processes
            .retain(|process| mentioned.contains(&process.pid));
        for process in &mut profile.processes {
            process.began |= self.command_pid == Some(process.pid);
        }
    }
}

fn syscall(raw: RawSyscall) -> Syscall {
    Syscall {
        pid: raw.pid,
        name: raw.call.name(),
        calls: raw.calls,
        errors: raw.errors,
        errnos: raw
            .errnos
            .into_iter()
            .map(|(number, count)| Errno {
                name: errno_name(number),
                count,
            })
            .collect(),
        total_ns: raw.total_ns,
        max_ns: raw.max_ns,
        timed: (raw.timed < raw.calls).then_some(raw.timed),
        unfinished: raw.unfinished,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What the waits of one row have in common: pid, stack, call, object, reason.
type WaitKey = (u32, Vec<u32>, Option<String>, Option<String>, Reason);
