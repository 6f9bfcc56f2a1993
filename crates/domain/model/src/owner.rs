use crate::{Fd, Pgid, Pid, ShortText};

/// Name of a process as the kernel keeps it: at most 15 bytes, any but NUL.
pub type Comm = ShortText<16>;

/// A process, as far as a listing of sockets cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its number (the kernel's thread group).
    pub pid: Pid,
    /// Its process group, where it could be read.
    pub pgid: Option<Pgid>,
    /// Its name.
    pub comm: Comm,
}

/// One descriptor of one process through which a socket is held open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Who holds it.
    pub process: Process,
    /// By which descriptor.
    pub fd: Fd,
}
