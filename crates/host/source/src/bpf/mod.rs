//! The top rung: programs of our own that read the kernel's tables in place.
//!
//! What they rely on, and what they do where somebody changes a table under their hands, is said where it is
//! done: `bpf/tcp.bpf.c`, `bpf/udp.bpf.c`, `bpf/holders.h`.

mod dedup;
mod file_iterator;
mod holders;
mod keepalive;
mod kernel;
mod netns_file;
mod owned_sockets;
mod tables;
mod task_file;
mod workers;

pub(crate) use holders::Pass;
use holders::{FoundProcess, Holders};
pub(crate) use kernel::Kernel;
pub use kernel::Unavailable;
use netns_file::NetnsFile;
use owned_sockets::OwnedSockets;
pub(crate) use owned_sockets::Selection;
pub(crate) use tables::{TableKind, Tables, WalkStats};
use task_file::TaskFile;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};
use sockeye_model::Socket;
use sockeye_sys::bpf::{LoadError, Loaded, Map, Parts, Program};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The programs, each loaded when it is first needed, and kept.
#[derive(Debug)]
pub struct BpfEngine {
    types: PathBuf,
    kernel: OnceLock<Result<Kernel, Unavailable>>,
    tables: OnceLock<Result<Tables, Unavailable>>,
    tables_with_info: OnceLock<Result<Tables, Unavailable>>,
    udp_tables: OnceLock<Result<Tables, Unavailable>>,
    holders: OnceLock<Result<Holders, Unavailable>>,
    owned_sockets: OnceLock<Result<OwnedSockets, Unavailable>>,
    task_file: OnceLock<Result<TaskFile, Unavailable>>,
    netns_file: OnceLock<Result<NetnsFile, Unavailable>>,
}

impl Default for BpfEngine {
    fn default() -> Self {
        Self::with_types(Kernel::TYPES.into())
    }
}

impl BpfEngine {
    /// Where a kernel describes its own types.
    pub const TYPES: &str = Kernel::TYPES;

    /// An engine that reads the kernel's types (BTF) from this file.
    #[must_use]
    pub fn with_types(types: PathBuf) -> Self {
        Self {
            types,
            kernel: OnceLock::new(),
            tables: OnceLock::new(),
            tables_with_info: OnceLock::new(),
            udp_tables: OnceLock::new(),
            holders: OnceLock::new(),
            owned_sockets: OnceLock::new(),
            task_file: OnceLock::new(),
            netns_file: OnceLock::new(),
        }
    }

    /// The walk over these tables.
    pub(crate) fn tables(&self, of: TableKind) -> Result<&Tables, Unavailable> {
        let place = match of {
            TableKind::Tcp => &self.tables,
            TableKind::TcpWithInfo => &self.tables_with_info,
            TableKind::Udp => &self.udp_tables,
        };
        let loaded = place.get_or_init(|| Tables::load(self.kernel()?, of));
        loaded.as_ref().map_err(Clone::clone)
    }

    /// The look for owners.
    fn holders(&self) -> Result<&Holders, Unavailable> {
        let loaded = self.holders.get_or_init(|| Holders::load(self.kernel()?));
        loaded.as_ref().map_err(Clone::clone)
    }

    /// All processes, with where they are.
    pub(crate) fn processes(&self) -> Result<Vec<FoundProcess>, Unavailable> {
        let socket = sample_socket()?;
        self.holders()?.processes(socket.as_fd())
    }

    /// Who holds which socket.
    pub(crate) fn pass(&self) -> Result<Pass, Unavailable> {
        let socket = sample_socket()?;
        self.holders()?.pass(socket.as_fd())
    }

    /// Who holds which socket, by the kernel's iterator over descriptors.
    pub(crate) fn pass_by_task_file(&self) -> Result<Pass, Unavailable> {
        let load = || TaskFile::load(self.kernel()?);
        match self.task_file.get_or_init(load) {
            Ok(iterator) => iterator.pass(),
            Err(unavailable) => Err(unavailable.clone()),
        }
    }

    /// Which descriptors hold namespaces open, or sockets in other namespaces than their process's.
    pub(crate) fn netns_holders(&self) -> Result<Vec<sockeye_wire::netns_file::Record>, Unavailable> {
        let load = || NetnsFile::load(self.kernel()?);
        match self.netns_file.get_or_init(load) {
            Ok(iterator) => iterator.pass(),
            Err(unavailable) => Err(unavailable.clone()),
        }
    }

    /// The program that gives keepalive to the connections of a cgroup (`sockeye_wire::keeper`), with the maps of its
    /// settings and of its counts, attached to nothing yet. Each call loads another.
    ///
    /// # Errors
    /// When it does not run here.
    pub fn keeper(&self) -> Result<(Program, [Map; 2]), Unavailable> {
        keepalive::load(self.kernel()?)
    }

    /// Programs of a compiled object of whoever asks, made to fit this kernel and attached to nothing yet, with all maps
    /// that the object defines. Each call loads others.
    ///
    /// # Errors
    /// When they do not run here.
    pub fn programs(&self, elf: &[u8], parts: &Parts<'_>) -> Result<Loaded, Unavailable> {
        self.kernel()?.load(elf, parts)
    }

    /// Whether the programs that look for owners are loaded already.
    pub(crate) fn has_loaded_holders(&self) -> bool {
        matches!(self.holders.get(), Some(Ok(_)))
    }

    /// Hands every socket that a process holds to `take`, but TCP's, of those protocols that are wanted.
    pub(crate) fn owned_sockets(
        &self,
        selection: &Selection,
        walked: &mut WalkStats,
        take: &mut dyn FnMut(&Socket) -> ControlFlow<()>,
    ) -> Result<(), Unavailable> {
        let socket = sample_socket()?;
        self.owned_socket_programs()?
            .sockets(socket.as_fd(), selection, walked, take)
    }

    /// Whether sockets can be found by who holds them.
    pub(crate) fn try_owned_sockets(&self) -> Result<(), Unavailable> {
        self.owned_socket_programs().map(drop)
    }

    /// The look for sockets that somebody holds.
    fn owned_socket_programs(&self) -> Result<&OwnedSockets, Unavailable> {
        let loaded = self
            .owned_sockets
            .get_or_init(|| OwnedSockets::load(self.kernel()?));
        loaded.as_ref().map_err(Clone::clone)
    }

    fn kernel(&self) -> Result<&Kernel, Unavailable> {
        let read = self.kernel.get_or_init(|| {
            may_load()?;
            Kernel::read(&self.types)
        });
        read.as_ref().map_err(Clone::clone)
    }
}

/// Whether it is worth trying: to find out what a kernel is like takes some milliseconds, and then it says no.
fn may_load() -> Result<(), Unavailable> {
    let refused = Err(Unavailable::Load(
        LoadError::System("load a BPF program", Errno::PERM),
        Vec::new(),
    ));
    match capabilities(None) {
        Ok(sets) => {
            let has = |set| sets.effective.contains(set);
            // CAP_SYS_ADMIN includes them, as it did alone before Linux 5.8.
            let may =
                has(CapabilitySet::SYS_ADMIN) || (has(CapabilitySet::BPF) && has(CapabilitySet::PERFMON));
            if may { Ok(()) } else { refused }
        }
        Err(_) => Ok(()), // then the kernel will tell
    }
}

/// Any socket will do to show what a socket's file looks like.
fn sample_socket() -> Result<UnixDatagram, Unavailable> {
    UnixDatagram::unbound()
        .map_err(|error| Unavailable::Run(Errno::from_io_error(&error).unwrap_or(Errno::MFILE)))
}
