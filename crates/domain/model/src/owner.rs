//! Owner of a socket: process and descriptor. `host/source/src/owners/` finds them.
//! Both types are `Copy` and of fixed size, so a table of owners needs no allocation per process name.

use crate::{Fd, Pgid, Pid, ShortText};

/// Name of a process (comm): at most 15 bytes, any but NUL.
pub type Comm = ShortText<16>;

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Process id (the kernel's thread group id).
    pub pid: Pid,
    /// Process group; `None` if unknown.
    pub pgid: Option<Pgid>,
    /// Name; empty if unknown.
    pub comm: Comm,
}

/// A descriptor through which a process owns a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The process.
    pub process: Process,
    /// The descriptor.
    pub fd: Fd,
}
