//! Several programs of one object, with all maps that it defines.

use super::call;
use super::object::{LoadError, Object};
use super::program::Program;
use super::table::{Definition, Table};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};

/// What is taken of an object.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts<'a> {
    /// Its programs to load, by the names of their C functions.
    pub programs: &'a [(&'a str, Kind<'a>)],
    /// How many entries maps are to have, where that is not for the object to say.
    pub entries: &'a [(&'a str, u32)],
    /// Values of its constants (`const volatile`), which the verifier counts on: branches that they exclude are dropped.
    pub constants: &'a [(&'a str, &'a [u8])],
}

/// What a program is for: where it is attached, once it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind<'a> {
    /// To tracepoints, with their own arguments.
    RawTracepoint,
    /// To one by one places in programs or the kernel (uprobes, kprobes), by a perf event.
    Probe,
    /// To many places of a program at once (`uprobe_multi`, Linux 6.6).
    UserProbes,
    /// To many functions of the kernel at once (`kprobe_multi`, Linux 5.18).
    KernelProbes,
    /// The same, called at the entry and at the return (`uprobe_session`, Linux 6.13).
    UserSession,
    /// To the entry and return of many functions of the kernel (`kprobe_session`, Linux 6.10).
    KernelSession,
    /// To the entry of this function of the kernel's (`fentry`).
    Entry(&'a str),
    /// To the exit of this function of the kernel's (`fexit`).
    Exit(&'a str),
    /// To an iterator, by the name of the kernel's function that stands for it: `bpf_iter_task`.
    Iterator(&'a str),
}

/// An object's programs in the kernel, with its maps.
#[derive(Debug)]
pub struct Loaded {
    programs: Vec<Taken>,
    tables: HashMap<String, Table>,
}

/// A program that was asked for.
#[derive(Debug)]
struct Taken {
    name: String,
    /// The function of the kernel's whose entry or exit it is for.
    function: Option<String>,
    /// Only those for functions may be refused.
    program: Result<Program, LoadError>,
}

impl Kind<'_> {
    /// The function of the kernel's that is watched, of many that may be.
    const fn watched(&self) -> Option<&str> {
        match self {
            Self::Entry(name) | Self::Exit(name) => Some(name),
            _ => None,
        }
    }

    /// The function of the kernel's whose BTF id it needs.
    #[must_use]
    pub const fn kernel_function(&self) -> Option<&str> {
        match self {
            Self::Entry(name) | Self::Exit(name) | Self::Iterator(name) => Some(name),
            _ => None,
        }
    }

    pub(super) const fn types(&self) -> (u32, u32) {
        match self {
            Self::RawTracepoint => (RAW_TRACEPOINT, 0),
            Self::Probe => (KPROBE, 0),
            Self::UserProbes => (KPROBE, UPROBE_MULTI),
            Self::KernelProbes => (KPROBE, KPROBE_MULTI),
            Self::UserSession => (KPROBE, UPROBE_SESSION),
            Self::KernelSession => (KPROBE, KPROBE_SESSION),
            Self::Entry(_) => (TRACING, FENTRY),
            Self::Exit(_) => (TRACING, FEXIT),
            Self::Iterator(_) => (TRACING, call::TRACE_ITER),
        }
    }
}

impl Object<'_> {
    /// Makes its maps and loads these of its programs. `btf_id` knows the kernel's functions
    /// ([`Kind::kernel_function`]). That one function cannot be watched ([`Kind::Entry`], [`Kind::Exit`]) does not keep the
    /// others from it: [`Loaded::program_of`] says why.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON; what the verifier says.
    pub fn load(
        mut self,
        parts: &Parts<'_>,
        btf_id: impl Fn(&str) -> Option<u32>,
    ) -> Result<Loaded, LoadError> {
        self.set_constants(parts.constants)?;
        let mut tables = HashMap::new();
        for map in self.maps() {
            let chosen = parts
                .entries
                .iter()
                .find(|(name, _)| *name == map.definition.name);
            let definition = Definition {
                entries: chosen.map_or(map.definition.entries, |(_, entries)| *entries),
                ..map.definition
            };
            let making = |errno| LoadError::System("make a BPF map", errno);
            let table = Table::create(&definition).map_err(making)?;
            if let Some(data) = map.data {
                table.update(&[0; 4], data).map_err(making)?;
                if map.is_constant {
                    table.freeze().map_err(making)?;
                }
            }
            tables.insert(definition.name.to_owned(), table);
        }
        let descriptors: Vec<_> = tables
            .iter()
            .map(|(name, table)| (name.as_str(), table.as_fd().as_raw_fd()))
            .collect();
        let linked = self.link(&descriptors)?;
        let mut programs = Vec::with_capacity(parts.programs.len());
        for (name, kind) in parts.programs {
            let (program_type, attach_type) = kind.types();
            let id = match kind.kernel_function() {
                None => Ok(0),
                Some(function) => btf_id(function).ok_or(LoadError::System(
                    "find a function among the kernel's types",
                    Errno::NOENT,
                )),
            };
            let program = id
                .and_then(|id| linked.load(name, program_type, attach_type, id))
                .map(|fd| Program { fd, array: None });
            let function = kind.watched().map(str::to_owned);
            if function.is_none()
                && let Err(error) = program
            {
                return Err(error);
            }
            programs.push(Taken {
                name: (*name).to_owned(),
                function,
                program,
            });
        }
        Ok(Loaded { programs, tables })
    }
}

impl Loaded {
    /// Takes a program.
    ///
    /// # Errors
    /// If it is not among those that were asked for.
    pub fn program(&mut self, name: &str) -> Result<Program, LoadError> {
        self.take(name, |taken| taken.name == name)
    }

    /// Takes a program that is for the entry or exit of this function of the kernel's.
    ///
    /// # Errors
    /// Why it could not be loaded: `ENOENT` if the kernel's types have no such function, `EINVAL` if it may not be watched.
    pub fn program_of(&mut self, name: &str, function: &str) -> Result<Program, LoadError> {
        self.take(name, |taken| {
            taken.name == name && taken.function.as_deref() == Some(function)
        })
    }

    fn take(&mut self, name: &str, is_it: impl Fn(&Taken) -> bool) -> Result<Program, LoadError> {
        let place = self.programs.iter().position(is_it);
        let place = place.ok_or_else(|| LoadError::Object(format!("it has no program {name}")))?;
        self.programs.swap_remove(place).program
    }

    /// Takes a map.
    ///
    /// # Errors
    /// If the object defines none of this name.
    pub fn table(&mut self, name: &str) -> Result<Table, LoadError> {
        let table = self.tables.remove(name);
        table.ok_or_else(|| LoadError::Object(format!("it has no map {name}")))
    }
}

// `enum bpf_prog_type`
const KPROBE: u32 = 2;
const RAW_TRACEPOINT: u32 = 17;
const TRACING: u32 = 26;

// `enum bpf_attach_type`
const FENTRY: u32 = 24;
const FEXIT: u32 = 25;
const KPROBE_MULTI: u32 = 42;
const UPROBE_MULTI: u32 = 48;
const KPROBE_SESSION: u32 = 56;
const UPROBE_SESSION: u32 = 57;
