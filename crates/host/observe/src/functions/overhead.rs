//! What it costs to watch a call, measured on functions of our own.

use super::attach::Probes;
use super::choice::{Choice, Returns, Why};
use rustix::io::Errno;
use sockeye_sys::probe_targets::ProbeTarget;
use sockeye_wire::functions as wire;
use sockeye_wire::proc_maps;
use std::fs::File;
use std::hint::black_box;
use std::time::Instant;

/// In nanoseconds a call, by how a function begins.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Costs {
    emulated: Kind,
    stepped: Kind,
    /// Of an instruction by which a function ends.
    exit_ns: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Kind {
    /// The entry, and the return where the kernel replaces the address.
    pair_ns: f64,
    entry_ns: f64,
}

impl Costs {
    /// Of a call of a function.
    pub(super) fn of(&self, choice: &Choice) -> f64 {
        let kind = if choice.emulated {
            self.emulated
        } else {
            self.stepped
        };
        match choice.returns {
            Returns::Replaced => kind.pair_ns,
            Returns::Exits(_) => kind.entry_ns + self.exit_ns,
            Returns::Unwatched(_) => kind.entry_ns,
        }
    }
}

/// Has a thread of ours call them with and without the programs attached. Nobody is looked at but ourselves meanwhile, and
/// nothing is left of it.
///
/// # Errors
/// When they cannot be attached, or were attached and saw nothing.
pub(super) fn measure(probes: &mut Probes, settings: wire::Settings) -> Result<Costs, Errno> {
    let us = std::process::id();
    let only_us = wire::Settings {
        scope: wire::Scope::Members,
        paused: false,
        ..settings
    };
    probes.tables.settings.update(&[0; 4], &only_us.bytes())?;
    probes
        .tables
        .members
        .update(&us.to_ne_bytes(), &1_u32.to_ne_bytes())?;
    let (file, chosen) = chosen()?;
    let without = a_call_ns(CALLS_WITHOUT);
    let before = probes.attached();
    let refused = probes.attach(&file, &chosen, OURS, Some(us));
    let with = a_call_ns(CALLS_WITH);
    probes.detach_since(before);
    probes.tables.members.delete(&us.to_ne_bytes())?;
    let mut seen = 0;
    for place in 0..chosen.len() as u32 {
        let key = [us.to_ne_bytes(), (OURS + place).to_ne_bytes()].concat();
        let mut counts = [0; wire::Counts::BYTES];
        if probes.tables.counts.lookup(&key, &mut counts)? {
            seen += wire::Counts::read(&counts).map_or(0, |counts| counts.timed);
            probes.tables.counts.delete(&key)?;
        }
    }
    if let Some((_, errno)) = refused.first() {
        return Err(*errno);
    }
    if seen == 0 {
        return Err(Errno::NODATA);
    }
    let cost = |called: ProbeTarget| (with[called as usize] - without[called as usize]).max(0.0);
    let stepped = Kind {
        pair_ns: cost(ProbeTarget::StepOne),
        entry_ns: cost(ProbeTarget::StepOther),
    };
    Ok(Costs {
        emulated: Kind {
            pair_ns: cost(ProbeTarget::PushOne),
            entry_ns: cost(ProbeTarget::PushOther),
        },
        stepped,
        exit_ns: (cost(ProbeTarget::StepThird) - stepped.entry_ns).max(0.0),
    })
}

/// Our own file, and how each of the functions is watched.
fn chosen() -> Result<(File, Vec<Choice>), Errno> {
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let maps = std::fs::read("/proc/self/maps").map_err(errno)?;
    let file = File::open("/proc/self/exe").map_err(errno)?;
    let mut chosen = Vec::new();
    for called in ProbeTarget::ALL {
        let address = called.address();
        let line = proc_maps::executable(&maps)
            .find(|line| (line.start..line.end).contains(&address))
            .ok_or(Errno::NOENT)?;
        let offset = address - line.start + line.offset;
        chosen.push(Choice {
            name: String::new(),
            offset,
            emulated: matches!(called, ProbeTarget::PushOne | ProbeTarget::PushOther),
            returns: match called {
                ProbeTarget::PushOne | ProbeTarget::StepOne => Returns::Replaced,
                ProbeTarget::PushOther | ProbeTarget::StepOther => Returns::Unwatched(Why::Special),
                // Where it is not known where they end, the exit costs what the entry does.
                ProbeTarget::StepThird if called.exit() == 0 => Returns::Unwatched(Why::Special),
                ProbeTarget::StepThird => Returns::Exits(vec![offset + called.exit()]),
            },
        });
    }
    Ok((file, chosen))
}

/// The time of a call of each, in the middle round: others want the processor as well.
fn a_call_ns(calls: u32) -> [f64; ProbeTarget::ALL.len()] {
    let measuring = std::thread::Builder::new()
        .name("overhead".to_owned())
        .spawn(move || ProbeTarget::ALL.map(|called| middle_ns(called, calls)));
    measuring
        .ok()
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default()
}

fn middle_ns(called: ProbeTarget, calls: u32) -> f64 {
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

/// The numbers of our functions, from here on.
const OURS: u32 = u32::MAX - 100;

const ROUNDS: usize = 15;
const CALLS_WITHOUT: u32 = 2_000;
/// A millisecond each, where it takes longest.
const CALLS_WITH: u32 = 50;

#[cfg(test)]
mod tests {
    use super::super::attach::Wish;
    use super::*;
    use sockeye_lab::Skip;
    use sockeye_source::BpfEngine;

    #[test]
    fn each_means_sees_our_own_calls() {
        let engine = BpfEngine::default();
        let settings = wire::Settings {
            return_bytes: 8,
            ..wire::Settings::default()
        };
        for wish in Wish::ALL {
            let mut probes = match Probes::load(&engine, wish) {
                Ok(probes) => probes,
                Err(failure) => {
                    Skip::new(format!("{wish:?}: {failure}")).tell();
                    continue;
                }
            };
            let costs = measure(&mut probes, settings);
            // Before Linux 6.6 such programs can be loaded, but not attached.
            if wish == Wish::Many && costs == Err(Errno::INVAL) {
                Skip::new("this kernel has no uprobe_multi").tell();
                continue;
            }
            let costs = costs.unwrap();
            println!("{wish:?}: {costs:?}");
            for kind in [costs.emulated, costs.stepped] {
                assert!(
                    kind.pair_ns > 100.0 && kind.entry_ns > 50.0,
                    "{wish:?}: {costs:?}"
                );
            }
            assert_eq!(probes.attached(), wire::TRACEPOINTS.len());
        }
    }
}
