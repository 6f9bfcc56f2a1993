//! What a row shows: options, a socket and its details.

use super::level::SsLevel;
use sockeye_model::{Comm, DiagDetails, Names, Owner, Pid, Socket};

/// Which columns and details are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SsLayout {
    /// The release whose output is written.
    pub level: SsLevel,
    /// The column of protocols.
    pub netid: bool,
    /// The column of states.
    pub state: bool,
    /// The columns of queues; all levels before 6.15 have them.
    pub queues: bool,
    /// The column of processes; in 6.1 it is always there, and has the details too.
    pub processes: bool,
    /// Timers (`-o`).
    pub timers: bool,
    /// User, inode, cookie and more (`-e`).
    pub extended: bool,
    /// Memory (`-m`).
    pub memory: bool,
    /// TCP and MPTCP details (`-i`).
    pub info: bool,
    /// Type of service and traffic class (`--tos`).
    pub service_class: bool,
    /// Cgroup (`--cgroup`).
    pub cgroup: bool,
    /// Socket options (`--inet-sockopt`).
    pub options: bool,
    /// Classic BPF filters (`-b`).
    pub bpf: bool,
    /// One line per socket (`-O`).
    pub one_line: bool,
    /// Numbers instead of names (`-n`).
    pub numeric: bool,
    /// Width in columns, of a terminal or from `COLUMNS`; `None`: columns are as wide as their content.
    pub width: Option<usize>,
    /// Whether output goes to a terminal: control characters in untrusted text are replaced then.
    pub terminal: bool,
}

/// A socket with the details to show.
#[derive(Debug, Clone, Copy)]
pub struct SsRow<'a> {
    /// The socket.
    pub socket: &'a Socket,
    /// Details that few options need.
    pub diag_details: &'a DiagDetails<'a>,
    /// Its owners.
    pub owners: SsOwners<'a>,
    /// Whether details of an IP or UNIX socket are left out, whatever the options.
    pub is_brief: bool,
}

/// The owners of a socket.
#[derive(Debug, Clone, Copy)]
pub enum SsOwners<'a> {
    /// Not shown, or none known.
    None,
    /// Processes, sorted by pid and descriptor; shown in reverse.
    Processes(&'a [Owner]),
    /// Threads, in the order in which they are shown.
    Threads(&'a [SsThread]),
}

/// A thread that has a socket open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SsThread {
    /// Name of the thread.
    pub comm: Comm,
    /// Its process.
    pub pid: Pid,
    /// Its thread ID.
    pub tid: Pid,
    /// The descriptor.
    pub fd: u32,
}

/// Names that only `ss` shows.
pub trait SsNames: Names {
    /// Returns the name of a netlink protocol (`/etc/iproute2/nl_protos`).
    fn netlink_protocol(&self, protocol: u8) -> Option<&str>;
    /// Returns the name of the process whose pid is a netlink socket's port ID.
    fn process(&self, pid: u32) -> Option<Comm>;
}
