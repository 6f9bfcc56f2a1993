//! The BPF programs that follow calls, and their probes.

use super::kernel_probes::{KernelProbeMechanism, KernelProbes};
use super::links::{
    Probe, ProbeError, ProbeLink, ProbeLocation, ProbePmu, RefusedProbes, errno_is_of_one, link_many, take,
};
use super::selection::{ReturnProbes, SelectedFunction};
use rustix::io::Errno;
use sockeye_source::{BpfEngine, Unavailable as NotLoaded};
use sockeye_sys::bpf::{Kind, LoadOptions, LoadedObject, ProbePoint, Program, Table};
use sockeye_wire::functions as wire;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;

/// LoadedObject BPF programs with their maps and links.
#[derive(Debug)]
pub(super) struct Probes {
    programs: Programs,
    /// The program for exits that are watched as instructions; `None` for kernel functions.
    leaving: Option<Program>,
    links: Vec<ProbeLink>,
    pub(super) tables: Tables,
}

/// The BPF maps (see `bpf/functions.bpf.c`).
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) settings: Table,
    pub(super) members: Table,
    pub(super) cgroup: Table,
    pub(super) counts: Table,
    pub(super) threads: Table,
    pub(super) losses: Table,
}

/// The programs by the mechanism that attaches them.
#[derive(Debug)]
enum Programs {
    /// One link for many functions, for entries and returns at once.
    Session(Program),
    /// One link for many functions, another for their returns.
    Many { entered: Program, left: Program },
    /// Those for kernel functions.
    Kernel(KernelProbes),
    /// An event for each entry, and each return.
    Single {
        entered: Program,
        left: Program,
        pmu: ProbePmu,
    },
}

/// The mechanisms for user functions, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeMechanism {
    /// One link for entries and returns (Linux 6.13).
    Session,
    /// One link for entries and one for returns (Linux 6.6).
    Many,
    /// A perf event per entry and return.
    Single,
}

impl ProbeMechanism {
    pub(super) const ALL: [Self; 3] = [Self::Session, Self::Many, Self::Single];

    /// Returns its name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Session => "uprobe_session",
            Self::Many => "uprobe_multi",
            Self::Single => "uprobes, one by one",
        }
    }
}

impl Probes {
    /// Loads the programs for user functions and attaches those that follow processes.
    pub(super) fn load(engine: &BpfEngine, mechanism: ProbeMechanism) -> Result<Self, ProbeError> {
        let kind = match mechanism {
            ProbeMechanism::Session => Kind::UserSession,
            ProbeMechanism::Many => Kind::UserProbes,
            ProbeMechanism::Single => Kind::Probe,
        };
        let exits = if mechanism == ProbeMechanism::Single {
            Kind::Probe
        } else {
            Kind::UserProbes
        };
        let mut programs = match mechanism {
            ProbeMechanism::Session => vec![(wire::SESSION, kind)],
            ProbeMechanism::Many | ProbeMechanism::Single => vec![(wire::ENTERED, kind), (wire::LEFT, kind)],
        };
        let leaving = if mechanism == ProbeMechanism::Session {
            wire::SESSION_LEAVING
        } else {
            wire::LEAVING
        };
        programs.push((leaving, exits));
        Self::load_these(engine, programs, |loaded| {
            let leaving = take(loaded, leaving)?;
            let programs = match mechanism {
                ProbeMechanism::Session => Programs::Session(take(loaded, wire::SESSION)?),
                ProbeMechanism::Many => Programs::Many {
                    entered: take(loaded, wire::ENTERED)?,
                    left: take(loaded, wire::LEFT)?,
                },
                ProbeMechanism::Single => Programs::Single {
                    entered: take(loaded, wire::ENTERED)?,
                    left: take(loaded, wire::LEFT)?,
                    pmu: ProbePmu::read("uprobe")
                        .map_err(|errno| ProbeError::System("find the kernel's source of uprobes", errno))?,
                },
            };
            Ok((programs, Some(leaving)))
        })
    }

    /// Loads the programs for kernel functions, of which only as many are watched as the mechanism allows. Some mechanisms
    /// need a program for each function.
    pub(super) fn load_kernel(
        engine: &BpfEngine,
        mechanism: KernelProbeMechanism,
        names: &[CString],
    ) -> Result<Self, ProbeError> {
        let names = &names[..names.len().min(mechanism.functions_max())];
        let names: Vec<&str> = names.iter().filter_map(|name| name.to_str().ok()).collect();
        Self::load_these(engine, mechanism.programs(&names), |loaded| {
            Ok((
                Programs::Kernel(KernelProbes::new(mechanism, loaded, &names)?),
                None,
            ))
        })
    }

    fn load_these(
        engine: &BpfEngine,
        mut programs: Vec<(&str, Kind<'_>)>,
        select: impl FnOnce(&mut LoadedObject) -> Result<(Programs, Option<Program>), ProbeError>,
    ) -> Result<Self, ProbeError> {
        programs.extend(wire::TRACEPOINTS.map(|(program, _)| (program, Kind::RawTracepoint)));
        let parts = LoadOptions {
            programs: &programs,
            ..LoadOptions::default()
        };
        engine.try_atomic_results().map_err(ProbeError::Load)?;
        let mut loaded = engine.programs(OBJECT, &parts).map_err(ProbeError::Load)?;
        let mut links = Vec::new();
        for (program, event) in wire::TRACEPOINTS {
            let link = take(&mut loaded, program)?.attach_raw_tracepoint(event);
            let link =
                link.map_err(|errno| ProbeError::System("attach a BPF program to a tracepoint", errno))?;
            links.push(ProbeLink::new(link, None));
        }
        let (programs, leaving) = select(&mut loaded)?;
        let mut table = |name| {
            let table = loaded.table(name);
            table.map_err(|error| ProbeError::Load(NotLoaded::Load(error, Vec::new())))
        };
        let tables = Tables {
            settings: table(wire::SETTINGS)?,
            members: table(wire::MEMBERS)?,
            cgroup: table(wire::CGROUP)?,
            counts: table(wire::COUNTS)?,
            threads: table(wire::THREADS)?,
            losses: table(wire::LOSSES)?,
        };
        Ok(Self {
            programs,
            leaving,
            links,
            tables,
        })
    }

    /// Returns the mechanism in words.
    pub(super) const fn mechanism(&self) -> &'static str {
        match &self.programs {
            Programs::Session(_) => ProbeMechanism::Session.name(),
            Programs::Many { .. } => ProbeMechanism::Many.name(),
            Programs::Kernel(probes) => probes.mechanism().name(),
            Programs::Single { .. } => ProbeMechanism::Single.name(),
        }
    }

    /// Returns whether they can be attached in single processes. A child inherits the breakpoints in its memory, but the
    /// programs do not run there before they are attached in the child as well.
    pub(super) const fn can_attach_per_process(&self) -> bool {
        !matches!(self.programs, Programs::Kernel { .. })
    }

    /// Attaches the programs to functions of a file, numbered from `first`, in all processes or in one. Returns those that
    /// were refused.
    pub(super) fn attach(
        &mut self,
        file: &File,
        functions: &[SelectedFunction],
        first: u32,
        process: Option<u32>,
    ) -> RefusedProbes {
        let Ok(path) = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())) else {
            return RefusedProbes::new();
        };
        let mut refused = RefusedProbes::new();
        // Returns come first: an entry without the return would be a call that never ends.
        let mut exits: Vec<Probe> = Vec::new();
        let mut returns: Vec<Probe> = Vec::new();
        let mut entries: Vec<Probe> = Vec::new();
        for (index, function) in functions.iter().enumerate() {
            let number = u64::from(first) + index as u64;
            let probe = |offset, cookie| Probe {
                index,
                offset,
                cookie,
            };
            let flags = match &function.returns {
                ReturnProbes::Replaced => {
                    returns.push(probe(function.offset, number));
                    0
                }
                ReturnProbes::Exits(offsets) => {
                    exits.extend(offsets.iter().map(|&offset| probe(offset, number)));
                    wire::BY_EXITS
                }
                ReturnProbes::Unwatched(_) => wire::ENTRIES_ONLY,
            };
            entries.push(probe(function.offset, number | flags));
        }
        let Some(leaving) = &self.leaving else {
            return refused;
        };
        let links = &mut self.links;
        let mut attach = |probes: &mut Vec<Probe>, program: &Program, moment, pmu: Option<ProbePmu>| {
            probes.retain(|probe| !refused.iter().any(|(index, _)| *index == probe.index));
            let location = ProbeLocation {
                path: &path,
                moment,
                process,
            };
            match pmu {
                None => {
                    let attach = |probes: &[Probe]| link(program, location, probes);
                    link_many(
                        probes,
                        &attach,
                        |probe| probe.index,
                        errno_is_of_one,
                        links,
                        &mut refused,
                    );
                }
                Some(pmu) => {
                    for probe in probes {
                        match pmu.link(program, location, probe) {
                            Ok(link) => links.push(link),
                            Err(errno) => refused.push((probe.index, errno)),
                        }
                    }
                }
            }
        };
        match &self.programs {
            Programs::Session(session) => {
                attach(&mut exits, leaving, ProbePoint::Entry, None);
                attach(&mut entries, session, ProbePoint::Both, None);
            }
            Programs::Many { entered, left } => {
                attach(&mut exits, leaving, ProbePoint::Entry, None);
                attach(&mut returns, left, ProbePoint::Return, None);
                attach(&mut entries, entered, ProbePoint::Entry, None);
            }
            // Kernel functions have no file.
            Programs::Kernel(_) => {}
            Programs::Single { entered, left, pmu } => {
                attach(&mut exits, leaving, ProbePoint::Entry, Some(*pmu));
                attach(&mut returns, left, ProbePoint::Return, Some(*pmu));
                attach(&mut entries, entered, ProbePoint::Entry, Some(*pmu));
            }
        }
        refused.sort_by_key(|(index, _)| *index);
        refused.dedup_by_key(|(index, _)| *index);
        refused
    }

    /// Attaches the programs to kernel functions, numbered by their indices in `names`. Returns those that were refused.
    pub(super) fn attach_kernel(&mut self, names: &[CString]) -> RefusedProbes {
        match &self.programs {
            Programs::Kernel(probes) => probes.attach(names, &mut self.links),
            _ => RefusedProbes::new(),
        }
    }

    /// Returns the number of links, for [`Probes::detach_since`].
    pub(super) fn links(&self) -> usize {
        self.links.len()
    }

    /// Removes the links after the first `links`.
    pub(super) fn detach_since(&mut self, links: usize) {
        self.links.truncate(links);
    }

    /// Removes the links that are only in this process.
    pub(super) fn detach_process(&mut self, process: u32) {
        self.links.retain(|link| link.process != Some(process));
    }
}

/// Attaches a program to all probes with one link.
fn link(program: &Program, location: ProbeLocation<'_>, probes: &[Probe]) -> Result<ProbeLink, Errno> {
    let (offsets, cookies): (Vec<u64>, Vec<u64>) =
        probes.iter().map(|probe| (probe.offset, probe.cookie)).unzip();
    let ProbeLocation {
        path,
        moment,
        process,
    } = location;
    let link = program.attach_user_probes(path, &offsets, &cookies, moment, process)?;
    Ok(ProbeLink::new(link, process))
}

/// The compiled `bpf/functions.bpf.c`.
pub(super) const OBJECT: &[u8] = include_bytes!("../../../../../bpf/functions.bpf.o");
