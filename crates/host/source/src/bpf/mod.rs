//! The top of the ladder: our BPF programs, which read the kernel's tables in place.
//!
//! `bpf/tcp.bpf.c`, `bpf/udp.bpf.c` and `bpf/descriptors.h` document what the programs rely on and how they handle tables
//! that change during the walk.
//!
//! Each is compiled twice ([`kernel::Compiled`]): once for kernels with `bpf_rdonly_cast` (Linux 6.2), and once for kernels from
//! 5.10 on. Which one is used is asked of the kernel: whether its types have the function, and whether its verifier accepts the
//! program.

mod dedup;
mod descriptor_walk;
mod file_iterator;
mod keepalive;
mod kernel;
mod netns_file;
mod owned_sockets;
mod tables;
mod task_file;
mod workers;

use crate::process_descriptors::{FoundProcess, ProcessDescriptors};
use crate::query::Query;
use crate::unavailable::{ATOMIC_RESULTS, ENOTSUPP, Unavailable, has_rights};
use descriptor_walk::DescriptorWalk;
pub use kernel::KernelNumbers;
pub(crate) use kernel::{Kernel, Start};
use netns_file::NetnsFile;
use owned_sockets::OwnedSockets;
pub(crate) use tables::{RecordThreads, TableKind, Tables, Take as TakeRecord, WalkStats};
use task_file::TaskFile;

use rustix::io::Errno;
use sockeye_model::Socket;
use sockeye_sys::bpf::{Kind, LoadError, LoadOptions, LoadedObject, Map, Program};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Our BPF programs. Each is loaded at its first use and stays loaded.
#[derive(Debug)]
pub struct BpfEngine {
    types: PathBuf,
    without_cast: bool,
    kernel: Lazy<Kernel>,
    tables: Lazy<Tables>,
    tables_with_info: Lazy<Tables>,
    udp_tables: Lazy<Tables>,
    descriptor_walk: Lazy<DescriptorWalk>,
    owned_sockets: Lazy<OwnedSockets>,
    task_file: Lazy<TaskFile>,
    netns_file: Lazy<NetnsFile>,
    /// Whether a dump has given the sockets of TCP their cookies: later ones are few.
    has_cookies: AtomicBool,
}

impl Default for BpfEngine {
    fn default() -> Self {
        Self::with_types(Kernel::TYPES.into())
    }
}

impl BpfEngine {
    /// The default path of the kernel's types (BTF).
    pub const TYPES: &str = Kernel::TYPES;

    /// Creates an engine that reads the kernel's types (BTF) from this file.
    #[must_use]
    pub fn with_types(types: PathBuf) -> Self {
        Self {
            types,
            without_cast: false,
            kernel: Lazy::default(),
            tables: Lazy::default(),
            tables_with_info: Lazy::default(),
            udp_tables: Lazy::default(),
            descriptor_walk: Lazy::default(),
            owned_sockets: Lazy::default(),
            task_file: Lazy::default(),
            netns_file: Lazy::default(),
            has_cookies: AtomicBool::new(false),
        }
    }

    /// Whether most sockets of TCP have been given their cookies.
    pub(crate) fn has_cookies(&self) -> bool {
        self.has_cookies.load(Ordering::Relaxed)
    }

    pub(crate) fn set_has_cookies(&self, has_cookies: bool) {
        self.has_cookies.store(has_cookies, Ordering::Relaxed);
    }

    /// Makes the engine treat this kernel as one before Linux 6.2, without `bpf_rdonly_cast`, whose programs read by copying. For
    /// tests.
    #[must_use]
    pub fn without_cast(mut self) -> Self {
        self.without_cast = true;
        self
    }

    /// Returns the walk over these tables, loaded.
    pub(crate) fn tables(&self, of: TableKind, start: Start) -> Result<&Tables, Unavailable> {
        self.tables_of(of).get(|| Tables::load(self.kernel()?, of, start))
    }

    /// Whether the walk over these tables is loaded.
    pub(crate) fn has_loaded_tables(&self, of: TableKind) -> bool {
        self.tables_of(of).is_loaded()
    }

    const fn tables_of(&self, of: TableKind) -> &Lazy<Tables> {
        match of {
            TableKind::Tcp => &self.tables,
            TableKind::TcpWithInfo => &self.tables_with_info,
            TableKind::Udp => &self.udp_tables,
        }
    }

    /// Returns the programs that find owners, loaded.
    fn descriptor_walk(&self, start: Start) -> Result<&DescriptorWalk, Unavailable> {
        self.descriptor_walk
            .get(|| DescriptorWalk::load(self.kernel()?, start))
    }

    /// Lists all processes with their namespace and cgroup.
    pub(crate) fn processes(&self) -> Result<Vec<FoundProcess>, Unavailable> {
        let socket = sample_socket()?;
        self.descriptor_walk(Start::Any)?.processes(socket.as_fd())
    }

    /// Lists all processes and their socket descriptors.
    pub(crate) fn pass(&self) -> Result<ProcessDescriptors, Unavailable> {
        let socket = sample_socket()?;
        self.descriptor_walk(Start::Any)?.pass(socket.as_fd())
    }

    /// Lists all processes and their socket descriptors by the kernel's iterator over descriptors.
    pub(crate) fn pass_by_task_file(&self) -> Result<ProcessDescriptors, Unavailable> {
        self.task_file.get(|| TaskFile::load(self.kernel()?))?.pass()
    }

    /// Lists the descriptors of namespaces, and of sockets in other namespaces than their process's.
    pub(crate) fn netns_descriptors(&self) -> Result<Vec<sockeye_wire::netns_file::Record>, Unavailable> {
        self.netns_file.get(|| NetnsFile::load(self.kernel()?))?.pass()
    }

    /// The program that gives keepalive to the connections of a cgroup (`sockeye_wire::keepalive_program`), with the maps of its
    /// settings and of its counts, attached to nothing yet. Each call loads another.
    ///
    /// # Errors
    /// When the program does not run here.
    pub fn keepalive_program(&self) -> Result<(Program, [Map; 2]), Unavailable> {
        keepalive::load(self.kernel()?)
    }

    /// Loads another copy of these programs of a compiled object, adapted to this kernel, with all maps that the object
    /// defines. They are not attached yet.
    ///
    /// # Errors
    /// When they do not run here.
    pub fn programs(&self, elf: &[u8], parts: &LoadOptions<'_>) -> Result<LoadedObject, Unavailable> {
        self.kernel()?.load(elf, parts)
    }

    /// Returns numbers of these tracepoints and of these enumerators, of any enum, that differ between kernels. The types are read once for all of
    /// them: a command that watches sees nothing before it knows them.
    ///
    /// # Errors
    /// When the kernel's types cannot be read.
    pub fn numbers(&self, events: &[&str], enumerators: &[&str]) -> Result<KernelNumbers, Unavailable> {
        self.kernel()?.numbers(events, enumerators)
    }

    /// Returns values and names of an enum of the kernel; none if it does not have it.
    ///
    /// # Errors
    /// When the kernel's types cannot be read.
    pub fn enumerators(&self, enumeration: &str) -> Result<Vec<(i64, String)>, Unavailable> {
        self.kernel()?.enumerators(enumeration)
    }

    /// Returns values and names of an enum of a module; none if the module is not loaded, or has no such enum.
    ///
    /// # Errors
    /// When the kernel's types cannot be read.
    pub fn module_enumerators(
        &self,
        module: &str,
        enumeration: &str,
    ) -> Result<Vec<(i64, String)>, Unavailable> {
        self.kernel()?.module_enumerators(module, enumeration)
    }

    /// Loads a program of this type that does nothing: the cheapest test of whether the kernel accepts the type.
    ///
    /// # Errors
    /// When it does not.
    pub fn empty_program(&self, kind: Kind<'_>) -> Result<Program, Unavailable> {
        let id = match kind.kernel_function() {
            None => 0,
            Some(name) => self.kernel()?.function_id(name)?.ok_or_else(|| {
                let error = LoadError::System("find a function among the kernel's types", Errno::NOENT);
                Unavailable::Load(error, Vec::new())
            })?,
        };
        Program::load_empty(kind, id).map_err(|error| Unavailable::Load(error, Vec::new()))
    }

    /// Returns whether this kernel has a helper of BPF programs, such as `task_pt_regs`, by its types.
    ///
    /// # Errors
    /// If the types of the kernel cannot be read.
    pub fn has_helper(&self, name: &str) -> Result<bool, Unavailable> {
        self.kernel()?.has_enumerator(&format!("BPF_FUNC_{name}"))
    }

    /// Tests whether programs may use atomic operations that return a value.
    ///
    /// # Errors
    /// [`Unavailable::Lacks`] if this kernel does not have them, else as for [`empty_program`](Self::empty_program).
    pub fn try_atomic_results(&self) -> Result<(), Unavailable> {
        match Program::try_atomic_results() {
            Err(LoadError::System(_, errno)) if errno == Errno::INVAL || errno.raw_os_error() == ENOTSUPP => {
                Err(Unavailable::Lacks(ATOMIC_RESULTS))
            }
            tested => tested.map_err(|error| Unavailable::Load(error, Vec::new())),
        }
    }

    /// Loads the programs that find owners, and returns whether this takes too long: before Linux 6.2 they have to read by copying.
    pub(crate) fn starts_owners_slowly(&self) -> bool {
        matches!(self.descriptor_walk(Start::Quick), Err(Unavailable::SlowStart))
    }

    /// Whether the programs that were loaded copy what they read, because this kernel is older than 6.2; that takes the verifier
    /// longer. False before the first one is loaded.
    #[must_use]
    pub fn reads_by_copying(&self) -> bool {
        self.kernel().is_ok_and(Kernel::lacks_cast)
    }

    /// Whether this kernel reports TCP sockets that are only bound (Linux 6.8).
    pub(crate) fn reports_bound_sockets(&self) -> bool {
        let has = |kernel: &Kernel| kernel.has_enumerator("TCP_BOUND_INACTIVE");
        self.kernel().is_ok_and(|kernel| has(kernel).unwrap_or(true))
    }

    /// Whether the programs that find owners are loaded.
    pub(crate) fn has_loaded_descriptor_walk(&self) -> bool {
        self.descriptor_walk.is_loaded()
    }

    /// Passes the sockets of the query that processes have descriptors of to `take`. TCP is not included.
    pub(crate) fn owned_sockets(
        &self,
        query: &Query<'_>,
        walked: &mut WalkStats,
        take: &mut dyn FnMut(&Socket) -> ControlFlow<()>,
    ) -> Result<(), Unavailable> {
        let socket = sample_socket()?;
        self.owned_socket_programs()?
            .sockets(socket.as_fd(), query, walked, take)
    }

    /// Tests whether sockets can be found by the descriptors of processes.
    pub(crate) fn try_owned_sockets(&self) -> Result<(), Unavailable> {
        self.owned_socket_programs().map(drop)
    }

    /// Whether the programs that find sockets by descriptors are loaded.
    pub(crate) fn has_loaded_owned_sockets(&self) -> bool {
        self.owned_sockets.is_loaded()
    }

    /// Returns the programs that find sockets by descriptors, loaded.
    fn owned_socket_programs(&self) -> Result<&OwnedSockets, Unavailable> {
        self.owned_sockets.get(|| OwnedSockets::load(self.kernel()?))
    }

    fn kernel(&self) -> Result<&Kernel, Unavailable> {
        self.kernel.get(|| {
            may_load()?;
            Kernel::read(&self.types, self.without_cast)
        })
    }
}

/// A program that is loaded at its first use. Another thread that needs it meanwhile waits.
#[derive(Debug)]
struct Lazy<T> {
    loaded: OnceLock<Result<T, Unavailable>>,
    loading: Mutex<()>,
}

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Self {
            loaded: OnceLock::new(),
            loading: Mutex::new(()),
        }
    }
}

impl<T> Lazy<T> {
    fn get(&self, load: impl FnOnce() -> Result<T, Unavailable>) -> Result<&T, Unavailable> {
        if self.loaded.get().is_none() {
            let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
            if self.loaded.get().is_none() {
                match load() {
                    // Where it gains more it may be loaded.
                    Err(Unavailable::SlowStart) => return Err(Unavailable::SlowStart),
                    loaded => drop(self.loaded.set(loaded)),
                }
            }
        }
        let loaded = self.loaded.get().ok_or(Unavailable::SlowStart)?;
        loaded.as_ref().map_err(Clone::clone)
    }

    fn is_loaded(&self) -> bool {
        matches!(self.loaded.get(), Some(Ok(_)))
    }
}

/// Checks our capabilities, since reading the kernel's types takes some milliseconds before a load is refused.
fn may_load() -> Result<(), Unavailable> {
    if has_rights() {
        return Ok(());
    }
    let error = LoadError::System("load a BPF program", Errno::PERM);
    Err(Unavailable::Load(error, Vec::new()))
}

/// Opens a socket of ours, with which the programs recognize the files of sockets.
fn sample_socket() -> Result<UnixDatagram, Unavailable> {
    UnixDatagram::unbound()
        .map_err(|error| Unavailable::Run(Errno::from_io_error(&error).unwrap_or(Errno::MFILE)))
}
