//! Measures the overhead of a watched call, with functions of our own.

use super::probes::Probes;
use super::selection::{CallsOnlyReason, ReturnProbes, SelectedFunction};
use rustix::io::Errno;
use sockeye_sys::probe_targets::ProbeTarget;
use sockeye_wire::functions as wire;
use sockeye_wire::proc_maps;
use std::fs::File;
use std::hint::black_box;
use std::time::Instant;

/// Overhead per call in nanoseconds, by the first instruction of the function.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Costs {
    /// The kernel emulates the instruction.
    emulated: EntryCosts,
    /// The kernel single-steps it.
    stepped: EntryCosts,
    /// Of a probe on an exit instruction.
    exit_ns: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct EntryCosts {
    /// Of an entry and a return probe.
    pair_ns: f64,
    /// Of an entry probe only.
    entry_ns: f64,
}

impl Costs {
    /// Returns the overhead of a call of a function.
    pub(super) fn of(&self, function: &SelectedFunction) -> f64 {
        let kind = if function.emulated {
            self.emulated
        } else {
            self.stepped
        };
        match function.returns {
            ReturnProbes::Replaced => kind.pair_ns,
            ReturnProbes::Exits(_) => kind.entry_ns + self.exit_ns,
            ReturnProbes::Unwatched(_) => kind.entry_ns,
        }
    }
}

/// Calls functions of our own with and without probes and measures the difference. Only our process is in scope meanwhile, and
/// the counts are removed afterwards.
///
/// # Errors
/// If the probes cannot be attached, or count no calls (`ENODATA`).
pub(super) fn measure(probes: &mut Probes, settings: wire::Settings) -> Result<Costs, Errno> {
    let own_pid = std::process::id();
    let only_own = wire::Settings {
        scope: wire::Scope::Members,
        paused: false,
        ..settings
    };
    probes.tables.settings.update(&[0; 4], &only_own.bytes())?;
    probes
        .tables
        .members
        .update(&own_pid.to_ne_bytes(), &1_u32.to_ne_bytes())?;
    let (file, functions) = own_functions()?;
    let without = call_times_ns(CALLS_WITHOUT);
    let links = probes.links();
    let refused = probes.attach(&file, &functions, FIRST_NUMBER, Some(own_pid));
    let with = call_times_ns(CALLS_WITH);
    probes.detach_since(links);
    probes.tables.members.delete(&own_pid.to_ne_bytes())?;
    let mut counted = 0;
    for index in 0..functions.len() as u32 {
        let key = [own_pid.to_ne_bytes(), (FIRST_NUMBER + index).to_ne_bytes()].concat();
        let mut counts = [0; wire::Counts::BYTES];
        if probes.tables.counts.lookup(&key, &mut counts)? {
            counted += wire::Counts::read(&counts).map_or(0, |counts| counts.timed);
            probes.tables.counts.delete(&key)?;
        }
    }
    if let Some((_, errno)) = refused.first() {
        return Err(*errno);
    }
    if counted == 0 {
        return Err(Errno::NODATA);
    }
    let cost = |called: ProbeTarget| (with[called as usize] - without[called as usize]).max(0.0);
    let stepped = EntryCosts {
        pair_ns: cost(ProbeTarget::StepOne),
        entry_ns: cost(ProbeTarget::StepOther),
    };
    Ok(Costs {
        emulated: EntryCosts {
            pair_ns: cost(ProbeTarget::PushOne),
            entry_ns: cost(ProbeTarget::PushOther),
        },
        stepped,
        exit_ns: (cost(ProbeTarget::StepThird) - stepped.entry_ns).max(0.0),
    })
}

/// Returns our own file and how each of the functions is watched.
fn own_functions() -> Result<(File, Vec<SelectedFunction>), Errno> {
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let maps = std::fs::read("/proc/self/maps").map_err(errno)?;
    let file = File::open("/proc/self/exe").map_err(errno)?;
    let mut functions = Vec::new();
    for called in ProbeTarget::ALL {
        let address = called.address();
        let line = proc_maps::executable(&maps)
            .find(|line| (line.start..line.end).contains(&address))
            .ok_or(Errno::NOENT)?;
        let offset = address - line.start + line.offset;
        functions.push(SelectedFunction {
            name: String::new(),
            offset,
            emulated: matches!(called, ProbeTarget::PushOne | ProbeTarget::PushOther),
            returns: match called {
                ProbeTarget::PushOne | ProbeTarget::StepOne => ReturnProbes::Replaced,
                ProbeTarget::PushOther | ProbeTarget::StepOther => {
                    ReturnProbes::Unwatched(CallsOnlyReason::Special)
                }
                // Without a known exit it is measured like an entry.
                ProbeTarget::StepThird if called.exit() == 0 => {
                    ReturnProbes::Unwatched(CallsOnlyReason::Special)
                }
                ProbeTarget::StepThird => ReturnProbes::Exits(vec![offset + called.exit()]),
            },
        });
    }
    Ok((file, functions))
}

/// Returns the time of a call of each function: the median of some rounds, because other processes use the processor too.
fn call_times_ns(calls: u32) -> [f64; ProbeTarget::ALL.len()] {
    let thread = std::thread::Builder::new()
        .name("overhead".to_owned())
        .spawn(move || ProbeTarget::ALL.map(|called| median_ns(called, calls)));
    thread
        .ok()
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default()
}

/// Returns the median time of a call.
fn median_ns(called: ProbeTarget, calls: u32) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for number in 0..calls {
                black_box(called.call(black_box(u64::from(number))));
            }
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// The number of our first function.
const FIRST_NUMBER: u32 = u32::MAX - 100;

const ROUNDS: usize = 15;
const CALLS_WITHOUT: u32 = 2_000;
/// A millisecond per round on the slowest kernels.
const CALLS_WITH: u32 = 50;

#[cfg(test)]
mod tests {
    use super::super::probes::ProbeMechanism;
    use super::*;
    use sockeye_lab::Skip;
    use sockeye_source::BpfEngine;

    #[test]
    fn each_mechanism_counts_own_calls() {
        let engine = BpfEngine::default();
        let settings = wire::Settings {
            return_bytes: 8,
            ..wire::Settings::default()
        };
        for mechanism in ProbeMechanism::ALL {
            let mut probes = match Probes::load(&engine, mechanism) {
                Ok(probes) => probes,
                Err(error) => {
                    Skip::new(format!("{mechanism:?}: {error}")).print();
                    continue;
                }
            };
            let costs = measure(&mut probes, settings);
            // Before Linux 6.6 such programs can be loaded, but not attached.
            if mechanism == ProbeMechanism::Many && costs == Err(Errno::INVAL) {
                Skip::new("this kernel has no uprobe_multi").print();
                continue;
            }
            let costs = costs.unwrap();
            println!("{mechanism:?}: {costs:?}");
            for kind in [costs.emulated, costs.stepped] {
                assert!(
                    kind.pair_ns > 100.0 && kind.entry_ns > 50.0,
                    "{mechanism:?}: {costs:?}"
                );
            }
            assert_eq!(probes.links(), wire::TRACEPOINTS.len());
        }
    }
}
