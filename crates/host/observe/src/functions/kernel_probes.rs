//! Mechanisms for kernel functions: many with one link, an event for each, or a program for each.

use super::links::{
    Probe, ProbeError, ProbeLink, ProbeLocation, ProbePmu, RefusedProbes, errno_is_of_one, link_many, take,
};
use rustix::io::Errno;
use sockeye_sys::bpf::{Kind, LoadError, LoadedObject, ProbePoint, Program};
use sockeye_wire::functions as wire;
use std::ffi::{CStr, CString};

/// The mechanisms for kernel functions, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelProbeMechanism {
    /// One link for many functions: Linux 5.18, with CONFIG_FPROBE.
    Many,
    /// A perf event per entry and return: with CONFIG_KPROBE_EVENTS (cookies: Linux 5.15).
    Single,
    /// A program per entry and exit: with BTF and ftrace's direct calls (cookies: Linux 5.19).
    Traced,
}

/// The loaded programs of a mechanism.
#[derive(Debug)]
pub(super) enum KernelProbes {
    /// One link for all entries, another for all returns.
    Many { entered: Program, left: Program },
    Single {
        entered: Program,
        left: Program,
        pmu: ProbePmu,
    },
    /// One pair per function, in their order.
    Traced(Vec<Result<EntryAndExit, Errno>>),
}

/// The programs of one function.
#[derive(Debug)]
pub(super) struct EntryAndExit {
    began: Program,
    ended: Program,
}

impl KernelProbeMechanism {
    pub(super) const ALL: [Self; 3] = [Self::Many, Self::Single, Self::Traced];

    /// Returns its name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Many => "kprobe_multi",
            Self::Single => "kprobes, one by one",
            Self::Traced => "fentry and fexit",
        }
    }

    /// Returns the most functions that are watched with it.
    pub(super) const fn functions_max(self) -> usize {
        match self {
            Self::Many => usize::MAX,
            Self::Single => SINGLE_MAX,
            Self::Traced => TRACED_MAX,
        }
    }

    /// Returns the BPF programs that it needs for these functions.
    pub(super) fn programs<'a>(self, names: &[&'a str]) -> Vec<(&'a str, Kind<'a>)> {
        match self {
            Self::Many => vec![
                (wire::ENTERED, Kind::KernelProbes),
                (wire::LEFT, Kind::KernelProbes),
            ],
            Self::Single => vec![(wire::ENTERED, Kind::Probe), (wire::LEFT, Kind::Probe)],
            Self::Traced => names
                .iter()
                .flat_map(|name| [(wire::BEGAN, Kind::Entry(name)), (wire::ENDED, Kind::Exit(name))])
                .collect(),
        }
    }
}

impl KernelProbes {
    /// Takes the programs of a mechanism out of the loaded object.
    pub(super) fn new(
        mechanism: KernelProbeMechanism,
        loaded: &mut LoadedObject,
        names: &[&str],
    ) -> Result<Self, ProbeError> {
        Ok(match mechanism {
            KernelProbeMechanism::Many => Self::Many {
                entered: take(loaded, wire::ENTERED)?,
                left: take(loaded, wire::LEFT)?,
            },
            KernelProbeMechanism::Single => Self::Single {
                entered: take(loaded, wire::ENTERED)?,
                left: take(loaded, wire::LEFT)?,
                pmu: ProbePmu::read("kprobe")
                    .map_err(|errno| ProbeError::System("find the kernel's source of kprobes", errno))?,
            },
            KernelProbeMechanism::Traced => Self::Traced(
                names
                    .iter()
                    .map(|name| {
                        Ok(EntryAndExit {
                            began: loaded
                                .program_of(wire::BEGAN, name)
                                .map_err(|error| errno(&error))?,
                            ended: loaded
                                .program_of(wire::ENDED, name)
                                .map_err(|error| errno(&error))?,
                        })
                    })
                    .collect(),
            ),
        })
    }

    pub(super) const fn mechanism(&self) -> KernelProbeMechanism {
        match self {
            Self::Many { .. } => KernelProbeMechanism::Many,
            Self::Single { .. } => KernelProbeMechanism::Single,
            Self::Traced(_) => KernelProbeMechanism::Traced,
        }
    }

    /// Attaches the programs to functions; the cookies are indices in `names`. Returns come first: an entry without the return
    /// would be a call that never ends. Returns the functions that were refused.
    pub(super) fn attach(&self, names: &[CString], links: &mut Vec<ProbeLink>) -> RefusedProbes {
        let mut refused = RefusedProbes::new();
        match self {
            Self::Many { entered, left } => {
                let mut probes: Vec<(usize, &CStr)> =
                    names.iter().map(CString::as_c_str).enumerate().collect();
                for (program, moment) in [(left, ProbePoint::Return), (entered, ProbePoint::Entry)] {
                    probes.retain(|(index, _)| !refused.iter().any(|(known, _)| known == index));
                    let attach = |probes: &[(usize, &CStr)]| link(program, probes, moment);
                    link_many(&probes, &attach, |probe| probe.0, is_of_one, links, &mut refused);
                }
            }
            Self::Single { entered, left, pmu } => {
                for (index, name) in names.iter().enumerate() {
                    // If all were refused so far, the rest is not tried.
                    if refused.len() == index && index >= TRIES_MAX {
                        refused.push((index, refused[0].1));
                        continue;
                    }
                    let probe = Probe {
                        index,
                        offset: 0,
                        cookie: index as u64,
                    };
                    let link = |program, moment| {
                        let location = ProbeLocation {
                            path: name,
                            moment,
                            process: None,
                        };
                        pmu.link(program, location, &probe)
                    };
                    let pair = link(left, ProbePoint::Return)
                        .and_then(|exit| Ok([exit, link(entered, ProbePoint::Entry)?]));
                    match pair {
                        Ok(pair) => links.extend(pair),
                        Err(errno) => refused.push((index, errno)),
                    }
                }
            }
            Self::Traced(pairs) => {
                for (index, pair) in pairs.iter().enumerate() {
                    let attached = pair.as_ref().map_err(|errno| *errno).and_then(|pair| {
                        let exit = pair.ended.attach_traced(Kind::Exit(""), index as u64)?;
                        Ok([exit, pair.began.attach_traced(Kind::Entry(""), index as u64)?])
                    });
                    match attached {
                        Ok(pair) => links.extend(pair.map(|link| ProbeLink::new(link, None))),
                        Err(errno) => refused.push((index, errno)),
                    }
                }
            }
        }
        refused
    }
}

/// Attaches a program to all functions with one link.
fn link(program: &Program, probes: &[(usize, &CStr)], moment: ProbePoint) -> Result<ProbeLink, Errno> {
    let (cookies, names): (Vec<u64>, Vec<&CStr>) =
        probes.iter().map(|(index, name)| (*index as u64, *name)).unzip();
    let link = program.attach_kernel_probes(&names, &cookies, moment)?;
    Ok(ProbeLink::new(link, None))
}

/// Returns whether a single function may be the cause of an error. `EOPNOTSUPP`: the kernel has no such links.
fn is_of_one(errno: Errno) -> bool {
    errno_is_of_one(errno) && errno != Errno::OPNOTSUPP
}

/// Returns the errno of a failure to load.
fn errno(error: &LoadError) -> Errno {
    match error {
        LoadError::System(_, errno) | LoadError::Rejected(errno, _) => *errno,
        _ => Errno::INVAL,
    }
}

/// The kernel needs some ten milliseconds to open and to close an event, and there are two per function.
const SINGLE_MAX: usize = 50;

/// The kernel needs as long for a program.
const TRACED_MAX: usize = 50;

/// After this many refusals from the start, the rest would be refused too.
const TRIES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::super::probes::Probes;
    use super::*;
    use sockeye_lab::Skip;
    use sockeye_source::BpfEngine;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn each_mechanism_counts_calls_and_refuses_missing_functions() {
        let engine = BpfEngine::default();
        let names = [c"no_such_function".to_owned(), c"vfs_write".to_owned()];
        let us = std::process::id().to_ne_bytes();
        let settings = wire::Settings {
            scope: wire::Scope::Members,
            pid_namespace: crate::pid_namespace::own(),
            return_bytes: if cfg!(target_arch = "x86_64") { 8 } else { 0 },
            in_kernel: true,
            own_process: 0,
            paused: false,
        };
        for mechanism in KernelProbeMechanism::ALL {
            let mut probes = match Probes::load_kernel(&engine, mechanism, &names) {
                Ok(probes) => probes,
                Err(error) => {
                    Skip::new(format!("{}: {error}", mechanism.name())).print();
                    continue;
                }
            };
            let refused = probes.attach_kernel(&names);
            assert_eq!(refused.first().map(|(index, _)| *index), Some(0), "{mechanism:?}");
            if let Some((_, errno)) = refused.get(1) {
                Skip::new(format!("{}: {errno}", mechanism.name())).print();
                continue;
            }
            let tables = &probes.tables;
            tables.settings.update(&[0; 4], &settings.bytes()).unwrap();
            tables.members.update(&us, &1_u32.to_ne_bytes()).unwrap();
            let mut null = File::create("/dev/null").unwrap();
            for _ in 0..CALLS {
                null.write_all(b"x").unwrap();
            }
            let key = [us, 1_u32.to_ne_bytes()].concat();
            let mut counts = [0; wire::Counts::BYTES];
            assert!(tables.counts.lookup(&key, &mut counts).unwrap(), "{mechanism:?}");
            let counts = wire::Counts::read(&counts).unwrap();
            // Other tests write too.
            assert!(
                counts.calls >= CALLS && counts.timed >= CALLS,
                "{mechanism:?} {counts:?}"
            );
            assert!(
                counts.self_ns <= counts.total_ns && counts.total_ns < 60_000_000_000,
                "{counts:?}"
            );
        }
    }

    const CALLS: u64 = 1000;
}
