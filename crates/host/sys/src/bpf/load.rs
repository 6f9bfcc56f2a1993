//! Loading several programs of one object, with all maps that it defines.

use super::attach_call;
use super::object::{Linked, LoadError, Object};
use super::program::Program;
use super::table::{Definition, Table};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What to load from an object.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// Programs, by the names of their C functions.
    pub programs: &'a [(&'a str, Kind<'a>)],
    /// Sizes of maps in entries, where they replace the object's definition.
    pub entries: &'a [(&'a str, u32)],
    /// Whether hash maps allocate all entries at once, also those that are defined to allocate them when needed. Before Linux 6.1 that
    /// is not safe in programs that may interrupt the kernel's allocator, and the kernel warns of it.
    pub preallocates: bool,
    /// Sizes of maps in entries, where those of `entries` or of the object would be too much memory to allocate at once.
    pub preallocated_entries: &'a [(&'a str, u32)],
    /// Values of constants (`const volatile`), which the verifier relies on: it removes branches that they exclude.
    pub constants: &'a [(&'a str, &'a [u8])],
}

/// Type of a program, by where it will be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind<'a> {
    /// A raw tracepoint.
    RawTracepoint,
    /// A raw tracepoint whose arguments the verifier knows the types of (`tp_btf`, Linux 5.5), by the name of the typedef of its
    /// functions: `btf_trace_tcp_probe`.
    TypedTracepoint(&'a str),
    /// A single uprobe or kprobe, through a perf event.
    Probe,
    /// Many offsets of a file at once (`uprobe_multi`, Linux 6.6).
    UserProbes,
    /// Many kernel functions at once (`kprobe_multi`, Linux 5.18).
    KernelProbes,
    /// Entry and return at many offsets of a file (`uprobe_session`, Linux 6.13).
    UserSession,
    /// Entry and return of many kernel functions (`kprobe_session`, Linux 6.10).
    KernelSession,
    /// The entry of this kernel function (`fentry`).
    Entry(&'a str),
    /// The exit of this kernel function (`fexit`).
    Exit(&'a str),
    /// An iterator, by the name of its kernel function: `bpf_iter_task`.
    Iterator(&'a str),
    /// What sockets of a cgroup do.
    Cgroup(CgroupHook),
}

/// Where the kernel runs programs of a cgroup, for the sockets of its processes. They could forbid what happens; Sockeye's only watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupHook {
    /// A packet arrives at a socket, a listener included.
    Ingress,
    /// A process lets go of a socket (Linux 5.9).
    SocketRelease,
    /// A datagram is sent to an address (IPv4).
    Udp4Send,
    /// Likewise, IPv6.
    Udp6Send,
    /// A process asks for the sender of a datagram that it has received (IPv4, Linux 5.2).
    Udp4Receive,
    /// Likewise, IPv6.
    Udp6Receive,
}

impl CgroupHook {
    /// Returns its name, as libbpf names sections.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "cgroup_skb/ingress",
            Self::SocketRelease => "cgroup/sock_release",
            Self::Udp4Send => "cgroup/sendmsg4",
            Self::Udp6Send => "cgroup/sendmsg6",
            Self::Udp4Receive => "cgroup/recvmsg4",
            Self::Udp6Receive => "cgroup/recvmsg6",
        }
    }

    /// Returns the hook with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }

    const ALL: [Self; 6] = [
        Self::Ingress,
        Self::SocketRelease,
        Self::Udp4Send,
        Self::Udp6Send,
        Self::Udp4Receive,
        Self::Udp6Receive,
    ];

    /// Returns the type of its programs, and of their attachment.
    pub(super) const fn types(self) -> (u32, u32) {
        match self {
            Self::Ingress => (CGROUP_SKB, 0),
            Self::SocketRelease => (CGROUP_SOCK, 34),
            Self::Udp4Send => (CGROUP_SOCK_ADDR, 14),
            Self::Udp6Send => (CGROUP_SOCK_ADDR, 15),
            Self::Udp4Receive => (CGROUP_SOCK_ADDR, 19),
            Self::Udp6Receive => (CGROUP_SOCK_ADDR, 20),
        }
    }
}

/// The loaded programs of an object, with its maps.
#[derive(Debug)]
pub struct LoadedObject {
    programs: Vec<Requested>,
    tables: HashMap<String, Table>,
}

/// The result of loading one of the requested programs.
#[derive(Debug)]
struct Requested {
    name: String,
    /// The kernel function, tracepoint or hook to trace; `None` for other kinds.
    function: Option<String>,
    /// An error only for programs that trace a kernel function or a typed tracepoint, and those of cgroups.
    program: Result<Program, LoadError>,
}

impl Kind<'_> {
    /// Returns the kernel function, the typedef of the tracepoint, or the hook, to trace.
    const fn traced_function(&self) -> Option<&str> {
        match self {
            Self::Entry(name) | Self::Exit(name) | Self::TypedTracepoint(name) => Some(name),
            Self::Cgroup(hook) => Some(hook.name()),
            _ => None,
        }
    }

    /// Returns the typedef that must be resolved to a BTF id.
    #[must_use]
    pub const fn kernel_typedef(&self) -> Option<&str> {
        match self {
            Self::TypedTracepoint(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the kernel function that must be resolved to a BTF id.
    #[must_use]
    pub const fn kernel_function(&self) -> Option<&str> {
        match self {
            Self::Entry(name) | Self::Exit(name) | Self::Iterator(name) => Some(name),
            _ => None,
        }
    }

    /// Whether such a program may run while the kernel allocates memory, in the kernel's own opinion (`is_tracing_prog_type` of
    /// kernel/bpf/verifier.c).
    const fn may_interrupt_allocator(&self) -> bool {
        matches!(self.types().0, KPROBE | RAW_TRACEPOINT)
    }

    pub(super) const fn types(&self) -> (u32, u32) {
        match self {
            Self::RawTracepoint => (RAW_TRACEPOINT, 0),
            Self::TypedTracepoint(_) => (TRACING, TRACE_RAW_TP),
            Self::Probe => (KPROBE, 0),
            Self::UserProbes => (KPROBE, UPROBE_MULTI),
            Self::KernelProbes => (KPROBE, KPROBE_MULTI),
            Self::UserSession => (KPROBE, UPROBE_SESSION),
            Self::KernelSession => (KPROBE, KPROBE_SESSION),
            Self::Entry(_) => (TRACING, FENTRY),
            Self::Exit(_) => (TRACING, FEXIT),
            Self::Iterator(_) => (TRACING, attach_call::TRACE_ITER),
            Self::Cgroup(hook) => hook.types(),
        }
    }
}

impl LoadOptions<'_> {
    /// Returns the definition of a map with the size and flags of these options.
    fn adapted<'map>(&self, map: Definition<'map>) -> Definition<'map> {
        let size_of = |sizes: &[(&str, u32)]| Some(sizes.iter().find(|(name, _)| *name == map.name)?.1);
        let entries = size_of(self.entries).unwrap_or(map.entries);
        let is_unsafe = self.preallocates
            && self
                .programs
                .iter()
                .any(|(_, kind)| kind.may_interrupt_allocator())
            && map.allocates_when_needed();
        if is_unsafe {
            Definition {
                entries: size_of(self.preallocated_entries).unwrap_or(entries),
                ..map.preallocated()
            }
        } else {
            Definition { entries, ..map }
        }
    }
}

impl Object<'_> {
    /// Creates the maps and loads the requested programs. `btf_id` returns the BTF id of a kernel function
    /// ([`Kind::kernel_function`]) or of a typedef ([`Kind::kernel_typedef`]). If one cannot be traced ([`Kind::Entry`],
    /// [`Kind::Exit`], [`Kind::TypedTracepoint`], [`Kind::Cgroup`]), the other
    /// programs are still loaded, and [`LoadedObject::program_of`] returns the error.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON; [`LoadError::Rejected`] by the verifier.
    pub fn load(
        mut self,
        options: &LoadOptions<'_>,
        btf_id: impl Fn(&str) -> Option<u32>,
    ) -> Result<LoadedObject, LoadError> {
        self.set_constants(options.constants)?;
        let mut tables = HashMap::new();
        for map in self.maps() {
            let definition = options.adapted(map.definition);
            let failed = |errno| LoadError::of("make a BPF map", errno);
            let table = Table::create(&definition).map_err(failed)?;
            if let Some(data) = map.data {
                table.update(&[0; 4], data).map_err(failed)?;
                if map.is_constant {
                    table.freeze().map_err(failed)?;
                }
            }
            tables.insert(definition.name.to_owned(), table);
        }
        let descriptors: Vec<_> = tables
            .iter()
            .map(|(name, table)| (name.as_str(), table.as_fd().as_raw_fd()))
            .collect();
        let linked = self.link(&descriptors)?;
        let ids = options.programs.iter().map(|(_, kind)| {
            let Some(name) = kind.kernel_function().or(kind.kernel_typedef()) else {
                return Ok(0);
            };
            btf_id(name).ok_or(LoadError::System(
                "find what it is attached to among the kernel's types",
                Errno::NOENT,
            ))
        });
        let ids = ids.collect::<Vec<Result<u32, LoadError>>>();
        let mut programs = Vec::with_capacity(options.programs.len());
        for ((name, kind), program) in options.programs.iter().zip(linked.load_all(options, &ids)) {
            let function = kind.traced_function().map(str::to_owned);
            if function.is_none()
                && let Err(error) = program
            {
                return Err(error);
            }
            programs.push(Requested {
                name: (*name).to_owned(),
                function,
                program: program.map(|fd| Program { fd, array: None }),
            });
        }
        Ok(LoadedObject { programs, tables })
    }
}

impl Linked {
    /// Loads the programs of `options` with these BTF ids, and returns them in their order.
    ///
    /// Most of the start of a command that watches is the verifier, which works on the processor that asks: so a thread for each of a few processors
    /// takes the next program until there is none left. The longest are taken first: one that was taken last would be verified while the other
    /// processors have nothing left to do.
    fn load_all(
        &self,
        options: &LoadOptions<'_>,
        ids: &[Result<u32, LoadError>],
    ) -> Vec<Result<OwnedFd, LoadError>> {
        let loaded: Vec<OnceLock<_>> = ids.iter().map(|_| OnceLock::new()).collect();
        let lengths = options
            .programs
            .iter()
            .map(|(name, _)| self.instructions(name).unwrap_or(0));
        let order = longest_first(lengths);
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&place) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (Some((name, kind)), Some(id), Some(result)) =
                    (options.programs.get(place), ids.get(place), loaded.get(place))
                else {
                    continue;
                };
                let (program_type, attach_type) = kind.types();
                let _ = result.set(
                    id.clone()
                        .and_then(|id| self.load(name, program_type, attach_type, id)),
                );
            }
        };
        let useful = (options.programs.len() / PROGRAMS_PER_THREAD).min(THREADS_MAX);
        let threads = match useful {
            // Without asking for the number of processors.
            0 | 1 => 1,
            _ => thread::available_parallelism().map_or(1, usize::from).min(useful),
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // Without it, the others do its work.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        loaded.into_iter().filter_map(OnceLock::into_inner).collect()
    }
}

/// Returns the places of these lengths, that of the greatest first; of equal ones in their order.
fn longest_first(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut places: Vec<_> = lengths.enumerate().collect();
    places.sort_by_key(|(_, length)| Reverse(*length));
    places.into_iter().map(|(place, _)| place).collect()
}

impl LoadedObject {
    /// Removes a program from this object and returns it.
    ///
    /// # Errors
    /// If it was not requested.
    pub fn program(&mut self, name: &str) -> Result<Program, LoadError> {
        self.take(name, |program| program.name == name)
    }

    /// Removes the program that traces this kernel function, the tracepoint with this typedef or the hook with this name, and returns it.
    ///
    /// # Errors
    /// Why it could not be loaded: `ENOENT` if the kernel's BTF has no such function, `EINVAL` if it may not be traced.
    pub fn program_of(&mut self, name: &str, function: &str) -> Result<Program, LoadError> {
        self.take(name, |program| {
            program.name == name && program.function.as_deref() == Some(function)
        })
    }

    fn take(&mut self, name: &str, is_it: impl Fn(&Requested) -> bool) -> Result<Program, LoadError> {
        let index = self.programs.iter().position(is_it);
        let index = index.ok_or_else(|| LoadError::Object(format!("it has no program {name}")))?;
        self.programs.swap_remove(index).program
    }

    /// Removes a map from this object and returns it.
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
const CGROUP_SKB: u32 = 8;
const CGROUP_SOCK: u32 = 9;
const RAW_TRACEPOINT: u32 = 17;
const CGROUP_SOCK_ADDR: u32 = 18;
const TRACING: u32 = 26;

// `enum bpf_attach_type`
const TRACE_RAW_TP: u32 = 23;
const FENTRY: u32 = 24;
const FEXIT: u32 = 25;
const KPROBE_MULTI: u32 = 42;
const UPROBE_MULTI: u32 = 48;
const KPROBE_SESSION: u32 = 56;
const UPROBE_SESSION: u32 = 57;

/// A thread costs as much as the verification of a small program.
const PROGRAMS_PER_THREAD: usize = 3;
const THREADS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_program_is_loaded_first() {
        assert_eq!(
            longest_first([9, 138, 2377, 138, 600].into_iter()),
            [2, 4, 1, 3, 0]
        );
        assert!(longest_first(std::iter::empty()).is_empty());
    }

    /// Linux 5.15 wrote a warning with a stack into its log when `prof` began: "trace type BPF program uses run-time allocation".
    #[test]
    fn programs_that_may_interrupt_the_allocator_have_maps_without_allocation() {
        const NO_PREALLOC: u32 = 1;
        let map = |kind| Definition {
            name: "overflow",
            kind,
            key_bytes: 4,
            value_bytes: 8,
            entries: 1000,
            flags: NO_PREALLOC | 8,
        };
        let adapted = |preallocates, program, kind| {
            let options = LoadOptions {
                programs: &[("any", program)],
                entries: &[("overflow", 500)],
                preallocates,
                preallocated_entries: &[("overflow", 100)],
                ..LoadOptions::default()
            };
            let adapted = options.adapted(map(kind));
            (adapted.flags, adapted.entries)
        };
        let (hash, per_processor, storage) = (1, 5, 24);
        for kind in [hash, per_processor] {
            assert_eq!(adapted(true, Kind::RawTracepoint, kind), (8, 100));
            assert_eq!(adapted(true, Kind::Probe, kind), (8, 100));
            assert_eq!(
                adapted(true, Kind::TypedTracepoint("x"), kind),
                (NO_PREALLOC | 8, 500)
            );
            assert_eq!(adapted(false, Kind::RawTracepoint, kind), (NO_PREALLOC | 8, 500));
        }
        assert_eq!(
            adapted(true, Kind::RawTracepoint, storage),
            (NO_PREALLOC | 8, 500)
        );
    }
}
