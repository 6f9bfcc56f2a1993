//! The result of a listing apart from the sockets: the sources used, the losses, the errors.

use crate::unavailable::Unavailable;
use rustix::io::Errno;
use sockeye_model::{Losses, NetnsInode};
use sockeye_sys::rights::{CheckedIn, remedy};
use std::fmt;

/// A source of sockets; the order is that of the ladder, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A walk over the kernel's hash tables by our BPF program.
    Walk,
    /// A pass over the descriptors of all processes by our BPF program.
    Descriptors,
    /// `TCPDIAG_GETSOCK`: IPv4 and IPv6 in one dump.
    OnePass,
    /// `SOCK_DIAG_BY_FAMILY`.
    DiagV2,
    /// `/proc/net`.
    Procfs,
    /// What was recorded: not of this moment.
    Store,
}

impl SourceKind {
    /// The name in `doctor`, `-v` and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Walk => "bpf",
            Self::Descriptors => "bpf-fd",
            Self::OnePass => "one-pass",
            Self::DiagV2 => "diag-v2",
            Self::Procfs => "procfs",
            Self::Store => "store",
        }
    }

    /// The measured cost (docs/BENCHMARKS.md) and the coverage, as `doctor` shows them. `by_copying`: the form that BPF programs have
    /// on this kernel ([`crate::BpfEngine::reads_by_copying`]).
    #[must_use]
    pub const fn coverage(self, by_copying: bool) -> &'static str {
        match self {
            Self::Walk if by_copying => {
                "60 to 100 ms to load, because before Linux 6.2 the programs copy what they read: used by itself from 80,000 sockets \
                 on; TCP and UDP of every namespace; only cookies that were requested before"
            }
            Self::Descriptors if by_copying => {
                "loads as slowly as bpf; sockets with a descriptor, of every namespace; cookies as above"
            }
            Self::Walk => {
                "5 ms to load, then 0.2 us a socket; TCP and UDP of every namespace; only cookies that were requested before"
            }
            Self::Descriptors => {
                "6 ms to load, then 0.3 us a descriptor; sockets with a descriptor, of every namespace; cookies as above"
            }
            Self::OnePass => "0.6 us a socket; TCP of one namespace",
            Self::DiagV2 => "0.9 us a socket, 1.3 with tcp_info; one namespace",
            Self::Procfs => {
                "2 us a socket; one namespace; addresses, state, queues, timer, user and inode only"
            }
            Self::Store => "what `sockeye record` kept: TCP, UDP and RAW of an earlier time",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether the kernel applied the query's program to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelVerdict {
    /// The kernel ran the program and the socket passed.
    Passed,
    /// There is no program, the source does not run it, or the kernel refused it.
    NotRun,
}

/// What a source adds to each socket.
#[derive(Debug, Clone, Copy)]
pub struct DumpContext<'a> {
    /// Whether the kernel applied the query's program.
    pub kernel_verdict: KernelVerdict,
    /// The source that reported the socket.
    pub source: SourceKind,
    /// The payload of the kernel's netlink message, for attributes that [`sockeye_model::Socket`] lacks; `None` if the
    /// source is not netlink.
    pub message: Option<&'a [u8]>,
}

impl DumpContext<'_> {
    /// A context with no more than the source.
    pub(crate) const fn only(source: SourceKind) -> Self {
        Self {
            kernel_verdict: KernelVerdict::NotRun,
            source,
            message: None,
        }
    }
}

/// The source that was used for one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolSource {
    /// The protocol: `tcp`, `udp`, `unix`...
    pub what: &'static str,
    /// Whether a kernel may lack the protocol, so that no result is no loss.
    pub optional: bool,
    /// The source that was used; `None` if none worked.
    pub source: Option<SourceKind>,
    /// The better sources that were not used, each with the reason.
    pub not_used: Vec<(SourceKind, Reason)>,
    /// Why the listing is incomplete; `None` if it is complete.
    pub ended_early: Option<Reason>,
}

impl ProtocolSource {
    /// Whether the sockets were read from outside a namespace that could not be entered.
    #[must_use]
    pub fn is_from_outside(&self) -> bool {
        self.source == Some(SourceKind::Procfs)
            && self
                .not_used
                .iter()
                .any(|(_, reason)| matches!(reason, Reason::System("enter the namespace", _)))
    }
}

/// Why a source was not used, or stopped early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// An operation on a netlink socket failed.
    System(&'static str, Errno),
    /// The kernel refused the request: errno, and the text of the extended ack if there is one.
    Refused(Errno, Option<String>),
    /// An operation on a file failed.
    File(&'static str, &'static str, Errno),
    /// No file of `/proc/net` lists these sockets.
    NoTable,
    /// Our BPF program does not run here.
    Bpf(Box<Unavailable>),
    /// There are only so many sockets: a dump ends before a program is loaded.
    FewSockets(u64),
    /// The query selects few of many sockets; netlink skips the others faster.
    NarrowQuery,
    /// There are few processes with few files: reading `/proc` ends before a program is loaded.
    FewProcesses,
    /// The user named another source.
    NotSelected,
    /// The source does not report what the query asks for.
    NotReported(&'static str),
    /// The dump ended without `NLMSG_DONE`.
    Unfinished,
}

impl Reason {
    /// Whether this kernel lacks the source or the protocol.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        match self {
            Self::Refused(errno, _) | Self::File(_, _, errno) => *errno == Errno::NOENT,
            Self::System(_, errno) => *errno == Errno::PROTONOSUPPORT,
            Self::NoTable => true,
            Self::Bpf(_)
            | Self::FewSockets(_)
            | Self::NarrowQuery
            | Self::FewProcesses
            | Self::NotSelected
            | Self::NotReported(_)
            | Self::Unfinished => false,
        }
    }

    /// Whether a missing right is the cause.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        match self {
            Self::System(_, errno) | Self::Refused(errno, _) | Self::File(_, _, errno) => {
                matches!(*errno, Errno::PERM | Errno::ACCESS)
            }
            Self::Bpf(unavailable) => unavailable.is_forbidden(),
            Self::NoTable
            | Self::FewSockets(_)
            | Self::NarrowQuery
            | Self::FewProcesses
            | Self::NotSelected
            | Self::NotReported(_)
            | Self::Unfinished => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(operation, errno) => write!(f, "{operation}: {errno}"),
            Self::Refused(errno, None) => write!(f, "the kernel refused: {errno}"),
            Self::Refused(errno, Some(words)) => write!(f, "the kernel refused: {errno} ({words})"),
            Self::File(operation, path, errno) => write!(f, "{operation} {path}: {errno}"),
            Self::NoTable => f.write_str("has no table for it"),
            Self::Bpf(unavailable) => unavailable.fmt(f),
            Self::FewSockets(count) => write!(f, "not worth its start for {count} sockets"),
            Self::NarrowQuery => f.write_str("netlink skips the other sockets faster"),
            Self::FewProcesses => f.write_str("not worth its start for few processes"),
            Self::NotSelected => f.write_str("another source was named"),
            Self::NotReported(what) => write!(f, "does not report {what}; --source auto asks netlink for it"),
            Self::Unfinished => f.write_str("the dump ended unfinished"),
        }
    }
}

/// The result of a listing apart from the sockets.
#[derive(Debug, Clone, Default)]
pub struct QueryOutcome {
    /// What could not be read.
    pub losses: Losses,
    /// The source of each protocol.
    pub used: Vec<ProtocolSource>,
    /// Hash chains that were walked again because a socket moved during the walk. Their sockets are complete.
    pub rewalked_chains: u64,
    /// Whether the caller stopped the listing before its end.
    pub stopped: bool,
}

/// An error that prevents a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The namespace could not be entered.
    Namespace(NetnsInode, Errno),
    /// Every source failed for every protocol of the query.
    NoSource(Vec<ProtocolSource>),
}

impl Error {
    /// Whether the cause is a lack of free descriptors (`EMFILE`, `ENFILE`).
    #[must_use]
    pub fn lacks_descriptors(&self) -> bool {
        let lacks = |errno: Errno| matches!(errno, Errno::MFILE | Errno::NFILE);
        match self {
            Self::Namespace(_, errno) => lacks(*errno),
            Self::NoSource(all) => all.iter().flat_map(|used| &used.not_used).any(|(_, reason)| {
                matches!(reason, Reason::System(_, errno) | Reason::File(_, _, errno) if lacks(*errno))
            }),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(inode, errno) => {
                write!(f, "cannot enter network namespace {inode}: {errno}")?;
                match *errno {
                    Errno::PERM => write!(
                        f,
                        "; entering a namespace needs CAP_SYS_ADMIN: {}",
                        remedy("CAP_SYS_ADMIN", CheckedIn::Initial)
                    ),
                    Errno::AGAIN => {
                        write!(
                            f,
                            "; entering a namespace needs a thread: raise the limit (ulimit -u)"
                        )
                    }
                    _ => Ok(()),
                }
            }
            Self::NoSource(all) => {
                for (nth, used) in all.iter().enumerate() {
                    let begin = if nth == 0 { "" } else { "; " };
                    write!(f, "{begin}no source could list {} sockets", used.what)?;
                    for (source, reason) in &used.not_used {
                        write!(f, "; {source}: {reason}")?;
                    }
                }
                let procfs = |used: &ProtocolSource| {
                    used.not_used
                        .iter()
                        .any(|(source, _)| *source == SourceKind::Procfs)
                };
                match sockeye_sys::proc_mount::problem().filter(|_| all.iter().any(procfs)) {
                    Some(problem) => write!(f, "; {problem}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Error {}
