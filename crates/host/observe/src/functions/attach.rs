//! The programs that follow calls, and what they are attached to.

use super::choice::{Choice, Returns};
use super::kernel_means::{KernelMeans, KernelWish};
use rustix::io::Errno;
use sockeye_source::{BpfEngine, Unavailable as NotLoaded};
use sockeye_sys::bpf::{Kind, Link, LoadOptions, LoadedObject, ProbePoint, Program, Table};
use sockeye_sys::perf::{Attributes, Event, PerfTarget};
use sockeye_wire::functions as wire;
use std::ffi::{CStr, CString};
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

/// The programs in the kernel, with their maps.
#[derive(Debug)]
pub(super) struct Probes {
    means: Means,
    /// Functions of the kernel's have none.
    leaving: Option<Program>,
    links: Vec<Attached>,
    pub(super) tables: Tables,
}

#[derive(Debug)]
pub(super) struct Tables {
    pub(super) settings: Table,
    pub(super) members: Table,
    pub(super) cgroup: Table,
    pub(super) counts: Table,
    pub(super) threads: Table,
    pub(super) losses: Table,
}

/// A program at its places.
#[derive(Debug)]
pub(super) struct Attached {
    _link: Link,
    /// What it is attached to, where each function has an event of its own.
    _event: Option<Event>,
    /// In this process alone.
    process: Option<u32>,
}

/// By what means programs are attached.
#[derive(Debug)]
enum Means {
    /// One link for many functions, for entries and returns at once.
    Session(Program),
    /// One link for many functions, another for their returns.
    Many { entered: Program, left: Program },
    /// Of the kernel's functions.
    Kernel(KernelMeans),
    /// An event for each entry, and each return.
    Single {
        entered: Program,
        left: Program,
        source: Source,
    },
}

/// The kernel's source of perf events for probes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    kind: u32,
    /// In the event's configuration: at the return.
    of_return: u64,
}

/// The means, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Session,
    Many,
    Single,
}

/// Functions that could not be watched, and why.
pub(super) type Refused = Vec<(usize, Errno)>;

/// Why there are no programs.
#[derive(Debug)]
pub(super) enum Failure {
    /// They could not be loaded.
    Load(NotLoaded),
    /// A system call failed: which operation, and why.
    System(&'static str, Errno),
}

impl Wish {
    pub(super) const ALL: [Self; 3] = [Self::Session, Self::Many, Self::Single];
}

impl Probes {
    /// Loads the programs, which are attached to nothing yet but to the tracepoints of processes' lives.
    pub(super) fn load(engine: &BpfEngine, wish: Wish) -> Result<Self, Failure> {
        let kind = match wish {
            Wish::Session => Kind::UserSession,
            Wish::Many => Kind::UserProbes,
            Wish::Single => Kind::Probe,
        };
        let exits = if wish == Wish::Single {
            Kind::Probe
        } else {
            Kind::UserProbes
        };
        let mut programs = match wish {
            Wish::Session => vec![(wire::SESSION, kind)],
            Wish::Many | Wish::Single => vec![(wire::ENTERED, kind), (wire::LEFT, kind)],
        };
        let leaving = if wish == Wish::Session {
            wire::SESSION_LEAVING
        } else {
            wire::LEAVING
        };
        programs.push((leaving, exits));
        Self::load_these(engine, programs, |loaded| {
            let leaving = take(loaded, leaving)?;
            let means = match wish {
                Wish::Session => Means::Session(take(loaded, wire::SESSION)?),
                Wish::Many => Means::Many {
                    entered: take(loaded, wire::ENTERED)?,
                    left: take(loaded, wire::LEFT)?,
                },
                Wish::Single => Means::Single {
                    entered: take(loaded, wire::ENTERED)?,
                    left: take(loaded, wire::LEFT)?,
                    source: Source::of("uprobe")
                        .map_err(|errno| Failure::System("find the kernel's source of uprobes", errno))?,
                },
            };
            Ok((means, Some(leaving)))
        })
    }

    /// The same for functions of the kernel, which are named here already: some means want a program for each. Only as many
    /// as there is room for, by these means, are watched.
    pub(super) fn load_kernel(
        engine: &BpfEngine,
        wish: KernelWish,
        names: &[CString],
    ) -> Result<Self, Failure> {
        let names = &names[..names.len().min(wish.functions_max())];
        let names: Vec<&str> = names.iter().filter_map(|name| name.to_str().ok()).collect();
        Self::load_these(engine, wish.programs(&names), |loaded| {
            Ok((Means::Kernel(KernelMeans::of(wish, loaded, &names)?), None))
        })
    }

    fn load_these(
        engine: &BpfEngine,
        mut programs: Vec<(&str, Kind<'_>)>,
        means: impl FnOnce(&mut LoadedObject) -> Result<(Means, Option<Program>), Failure>,
    ) -> Result<Self, Failure> {
        programs.extend(wire::TRACEPOINTS.map(|(program, _)| (program, Kind::RawTracepoint)));
        let parts = LoadOptions {
            programs: &programs,
            ..LoadOptions::default()
        };
        let mut loaded = engine.programs(OBJECT, &parts).map_err(Failure::Load)?;
        let mut links = Vec::new();
        for (program, event) in wire::TRACEPOINTS {
            let link = take(&mut loaded, program)?.attach_raw_tracepoint(event);
            let link =
                link.map_err(|errno| Failure::System("attach a BPF program to a tracepoint", errno))?;
            links.push(Attached::of(link));
        }
        let (means, leaving) = means(&mut loaded)?;
        let mut table = |name| {
            let table = loaded.table(name);
            table.map_err(|error| Failure::Load(NotLoaded::Load(error, Vec::new())))
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
            means,
            leaving,
            links,
            tables,
        })
    }

    /// By what means they are attached, in words.
    pub(super) const fn means(&self) -> &'static str {
        match &self.means {
            Means::Session(_) => "uprobe_session",
            Means::Many { .. } => "uprobe_multi",
            Means::Kernel(means) => means.wish().name(),
            Means::Single { .. } => "uprobes, one by one",
        }
    }

    /// Whether they can be attached in some processes alone. What they replace stays in a child's memory, but they are not
    /// called there before they are attached in it as well.
    pub(super) const fn can_be_of_one(&self) -> bool {
        !matches!(self.means, Means::Kernel { .. })
    }

    /// Attaches them to functions of a file, which get numbers from `first` on, in all processes or in one; those that could
    /// not be attached are told by their places in `choices`.
    pub(super) fn attach(
        &mut self,
        file: &File,
        choices: &[Choice],
        first: u32,
        process: Option<u32>,
    ) -> Refused {
        let Ok(path) = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())) else {
            return Refused::new();
        };
        let mut refused = Refused::new();
        // Returns come first: an entry without the return would be a call that never ends.
        let mut exits: Vec<Probe> = Vec::new();
        let mut returns: Vec<Probe> = Vec::new();
        let mut entries: Vec<Probe> = Vec::new();
        for (place, choice) in choices.iter().enumerate() {
            let number = u64::from(first) + place as u64;
            let probe = |offset, cookie| Probe {
                place,
                offset,
                cookie,
            };
            let flags = match &choice.returns {
                Returns::Replaced => {
                    returns.push(probe(choice.offset, number));
                    0
                }
                Returns::Exits(places) => {
                    exits.extend(places.iter().map(|&offset| probe(offset, number)));
                    wire::BY_EXITS
                }
                Returns::Unwatched(_) => wire::ENTRIES_ONLY,
            };
            entries.push(probe(choice.offset, number | flags));
        }
        let Some(leaving) = &self.leaving else {
            return refused;
        };
        let links = &mut self.links;
        let mut each = |probes: &mut Vec<Probe>, program: &Program, moment, source: Option<Source>| {
            probes.retain(|probe| !refused.iter().any(|(place, _)| *place == probe.place));
            match source {
                None => {
                    let at = Place {
                        path: &path,
                        moment,
                        process,
                    };
                    link_many(program, at, probes, links, &mut refused);
                }
                Some(source) => {
                    for probe in probes {
                        let at = Place {
                            path: &path,
                            moment,
                            process,
                        };
                        match source.link(program, at, probe) {
                            Ok(attached) => links.push(attached),
                            Err(errno) => refused.push((probe.place, errno)),
                        }
                    }
                }
            }
        };
        match &self.means {
            Means::Session(session) => {
                each(&mut exits, leaving, ProbePoint::Entry, None);
                each(&mut entries, session, ProbePoint::Both, None);
            }
            Means::Many { entered, left } => {
                each(&mut exits, leaving, ProbePoint::Entry, None);
                each(&mut returns, left, ProbePoint::Return, None);
                each(&mut entries, entered, ProbePoint::Entry, None);
            }
            // Has no files.
            Means::Kernel(_) => {}
            Means::Single {
                entered,
                left,
                source,
            } => {
                each(&mut exits, leaving, ProbePoint::Entry, Some(*source));
                each(&mut returns, left, ProbePoint::Return, Some(*source));
                each(&mut entries, entered, ProbePoint::Entry, Some(*source));
            }
        }
        refused.sort_by_key(|(place, _)| *place);
        refused.dedup_by_key(|(place, _)| *place);
        refused
    }

    /// Attaches them to functions of the kernel, which get the numbers of their places in `names`; those that could not be
    /// attached are told.
    pub(super) fn attach_kernel(&mut self, names: &[CString]) -> Refused {
        match &self.means {
            Means::Kernel(means) => means.attach(names, &mut self.links),
            _ => Refused::new(),
        }
    }

    /// What is attached now, to be detached again by [`Probes::detach_since`].
    pub(super) fn attached(&self) -> usize {
        self.links.len()
    }

    /// Detaches what was attached since.
    pub(super) fn detach_since(&mut self, attached: usize) {
        self.links.truncate(attached);
    }

    /// Detaches what was attached in a process alone.
    pub(super) fn detach_of(&mut self, process: u32) {
        self.links.retain(|attached| attached.process != Some(process));
    }
}

impl Attached {
    pub(super) const fn of(link: Link) -> Self {
        Self {
            _link: link,
            _event: None,
            process: None,
        }
    }
}

/// Where a program is to be attached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// A file, or the name of a function of the kernel.
    pub(super) path: &'a CStr,
    pub(super) moment: ProbePoint,
    pub(super) process: Option<u32>,
}

/// Something to attach to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Of the function among those chosen.
    pub(super) place: usize,
    pub(super) offset: u64,
    pub(super) cookie: u64,
}

/// Attaches a program to all of them at once; if the kernel refuses, to each half, until those are found that it does not
/// like.
fn link_many(
    program: &Program,
    at: Place<'_>,
    probes: &[Probe],
    links: &mut Vec<Attached>,
    refused: &mut Refused,
) {
    if probes.is_empty() {
        return;
    }
    let (offsets, cookies): (Vec<u64>, Vec<u64>) =
        probes.iter().map(|probe| (probe.offset, probe.cookie)).unzip();
    match program.attach_user_probes(at.path, &offsets, &cookies, at.moment, at.process) {
        Ok(link) => links.push(Attached {
            process: at.process,
            ..Attached::of(link)
        }),
        Err(errno) if probes.len() == 1 || refused.len() >= REFUSED_MAX || !errno_is_of_one(errno) => {
            refused.extend(probes.iter().map(|probe| (probe.place, errno)));
        }
        Err(_) => {
            let (one, other) = probes.split_at(probes.len() / 2);
            link_many(program, at, one, links, refused);
            link_many(program, at, other, links, refused);
        }
    }
}

/// Whether one of many may be to blame.
pub(super) fn errno_is_of_one(errno: Errno) -> bool {
    !matches!(
        errno,
        Errno::PERM | Errno::ACCESS | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::SRCH
    )
}

impl Source {
    /// That of this name.
    pub(super) fn of(name: &str) -> Result<Self, Errno> {
        let folder = format!("/sys/bus/event_source/devices/{name}");
        let read = |file: &str| {
            std::fs::read_to_string(format!("{folder}/{file}"))
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        let kind = read("type")?.trim().parse().map_err(|_| Errno::INVAL)?;
        // `config:0`
        let bit = read("format/retprobe")?;
        let bit: u32 = bit
            .trim()
            .strip_prefix("config:")
            .and_then(|bit| bit.parse().ok())
            .ok_or(Errno::INVAL)?;
        let of_return = 1_u64.checked_shl(bit).ok_or(Errno::INVAL)?;
        Ok(Self { kind, of_return })
    }

    /// Attaches a program to one place: of the file at a path, or behind the beginning of the kernel's function of that name.
    pub(super) fn link(self, program: &Program, at: Place<'_>, probe: &Probe) -> Result<Attached, Errno> {
        let config = if at.moment == ProbePoint::Return {
            self.of_return
        } else {
            0
        };
        let attributes = Attributes::new(self.kind, config);
        // The processor does not matter, nor the thread of the process: the program is called on any.
        let (whom, processor) = match at.process {
            Some(process) => (PerfTarget::Thread(process), None),
            None => (PerfTarget::AllTasks, Some(0)),
        };
        let event = Event::open_probe(&attributes, at.path, probe.offset, whom, processor)?;
        Ok(Attached {
            _link: program.attach_perf_event(event.as_fd(), probe.cookie)?,
            _event: Some(event),
            process: at.process,
        })
    }
}

pub(super) fn take(loaded: &mut LoadedObject, program: &str) -> Result<Program, Failure> {
    let program = loaded.program(program);
    program.map_err(|error| Failure::Load(NotLoaded::Load(error, Vec::new())))
}

impl Failure {
    /// Whether something forbids it.
    pub(super) fn is_forbidden(&self) -> bool {
        match self {
            Self::Load(obstacle) => obstacle.is_forbidden(),
            Self::System(_, errno) => matches!(*errno, Errno::PERM | Errno::ACCESS),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(obstacle) => obstacle.fmt(f),
            Self::System(operation, errno) => write!(f, "{operation}: {errno}"),
        }
    }
}

/// When so many were refused, the rest is not tried one by one.
pub(super) const REFUSED_MAX: usize = 200;

/// The compiled `bpf/functions.bpf.c`.
const OBJECT: &[u8] = include_bytes!("../../../../../bpf/functions.bpf.o");
