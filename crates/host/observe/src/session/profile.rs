//! What was seen, as a profile: numbers and addresses get their names here.

use super::{Session, keeper};
use crate::calls::{Call, RawSyscall, RawWait, State, errno_name};
use crate::frames::Frames;
use crate::processors;
use sockeye_profile::{
    Cause, Cpu, CpuStack, Errno, Function, Missing, Profile, Reason, Syscall, TaskState, Wait,
};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

impl Session {
    pub(super) fn told(&mut self) -> Profile {
        let mut profile = Profile {
            schema_version: Profile::SCHEMA_VERSION,
            target: self.words.clone(),
            duration_ns: nanoseconds(self.looked_for()),
            processors: u32::try_from(processors::online().len()).unwrap_or(1),
            missing: self.missing.clone(),
            ..Profile::default()
        };
        self.tell_calls(&mut profile);
        self.tell_samples(&mut profile);
        self.tell_functions(&mut profile);
        self.tell_processes(&mut profile);
        // Last of all: only now it is known which names could not be found.
        profile
            .missing
            .extend(self.symbols.obstacles().into_iter().map(Missing::from));
        profile.frames = self.frames.all().to_vec();
        let unnamed = profile.frames.iter().filter(|frame| frame.function.is_none());
        profile.losses.unnamed_frames = unnamed.count() as u64;
        profile
    }

    fn looked_for(&self) -> Duration {
        let until = self.looked_until.unwrap_or_else(Instant::now);
        until.saturating_duration_since(self.looking_since)
    }

    fn tell_calls(&mut self, profile: &mut Profile) {
        let Some(calls) = &mut self.calls else { return };
        let raw = match calls.look() {
            Ok(raw) => raw,
            Err(obstacle) => {
                profile.missing.push(obstacle.into());
                return;
            }
        };
        profile.losses.syscalls += raw.losses.syscalls;
        profile.losses.waits += raw.losses.waits;
        profile.losses.stacks += raw.losses.stacks;
        profile.syscalls = raw.syscalls.map(|calls| calls.into_iter().map(syscall).collect());
        let Some(waits) = raw.waits else { return };
        let whose: HashSet<u32> = waits.iter().map(|wait| wait.whose.pid).collect();
        for pid in whose {
            let mut keep = keeper(&mut self.symbols, &mut self.new_files, false);
            self.processes.visit(pid, &mut keep);
        }
        let mut told: BTreeMap<WaitKey, Wait> = BTreeMap::new();
        for raw in waits {
            let wait = self.wait_of(&raw);
            let key = (
                wait.pid,
                wait.stack.clone(),
                wait.syscall.clone(),
                wait.object.clone(),
                wait.reason,
            );
            let sum = told.entry(key).or_insert_with(|| Wait {
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
        let mut told: Vec<Wait> = told.into_values().collect();
        told.sort_by_key(|wait| std::cmp::Reverse(wait.total_ns));
        profile.waits = Some(told);
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
            pid: raw.whose.pid,
            reason: cause.reason,
            syscall,
            object: raw.object.clone().or(cause.detail),
            stack: self
                .frames
                .stack(raw.whose, &stack, &self.processes, &mut self.symbols),
            count: raw.count,
            unfinished: raw.unfinished,
            total_ns: raw.total_ns,
            max_ns: raw.max_ns,
        }
    }

    fn tell_samples(&mut self, profile: &mut Profile) {
        let Some(sampler) = &self.sampler else { return };
        let raw = sampler.look();
        // What was lost may be events of processes: these too are counted, and there cannot have been more samples.
        let seconds = self.looked_for().as_secs_f64();
        let most = seconds * f64::from(raw.samples_per_s) * f64::from(profile.processors);
        profile.losses.samples += raw.lost.min(most.ceil() as u64);
        profile.losses.stacks += raw.lost_stacks;
        profile.losses.events += raw.broken;
        if !self.samples_wanted {
            return;
        }
        let mut stacks: BTreeMap<(u32, Vec<u32>), u64> = BTreeMap::new();
        for (whose, stack, samples) in sampler.stacks() {
            let frames = self
                .frames
                .stack(whose, stack, &self.processes, &mut self.symbols);
            *stacks.entry((whose.pid, frames)).or_default() += samples;
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

    fn tell_functions(&mut self, profile: &mut Profile) {
        let mut seen = Vec::new();
        for functions in &self.kernel_functions {
            profile
                .missing
                .extend(functions.obstacles().into_iter().map(Missing::from));
            seen.push(functions.look());
        }
        for functions in &mut self.functions {
            let obstacles = functions.nothing(&mut self.symbols).into_iter();
            profile
                .missing
                .extend(obstacles.chain(functions.obstacles()).map(Missing::from));
            seen.push(functions.look());
        }
        for seen in seen {
            match seen {
                Ok(seen) => {
                    profile.losses.functions += seen.lost;
                    profile.losses.events += seen.lost_processes;
                    let told = profile.functions.get_or_insert_default();
                    told.calls.extend(seen.counted.calls);
                    told.watched += seen.counted.watched;
                    told.calls_of_others += seen.counted.calls_of_others;
                    for means in seen.counted.means {
                        if !told.means.contains(&means) {
                            told.means.push(means);
                        }
                    }
                    told.overhead_ns_per_call =
                        told.overhead_ns_per_call.or(seen.counted.overhead_ns_per_call);
                }
                Err(obstacle) => profile.missing.push(obstacle.into()),
            }
        }
    }

    /// Of those about whom anything is told.
    fn tell_processes(&mut self, profile: &mut Profile) {
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
        let told: HashSet<u32> = calls.chain(waits).chain(samples).chain(functions).collect();
        for pid in &told {
            let mut keep = keeper(&mut self.symbols, &mut self.new_files, false);
            self.processes.visit(*pid, &mut keep);
        }
        profile.losses.events += self.processes.losses();
        profile.processes = self.processes.all();
        profile.processes.retain(|process| told.contains(&process.pid));
        for process in &mut profile.processes {
            process.began |= self.began == Some(process.pid);
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

/// What waits have in common that are told as one.
type WaitKey = (u32, Vec<u32>, Option<String>, Option<String>, Reason);
