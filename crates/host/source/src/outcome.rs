//! What a source says beside the sockets: where they came from, what was lost, why nothing came.

use rustix::io::Errno;
use sockeye_model::{Losses, NetnsInode};
use std::fmt;

/// One source of the ladder of sources, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A walk over the kernel's tables by a BPF program of our own.
    Walk,
    /// What the descriptors of all processes lead to, by a BPF program of our own.
    Descriptors,
    /// `TCPDIAG_GETSOCK`: IPv4 and IPv6 in one walk of the kernel.
    OnePass,
    /// `SOCK_DIAG_BY_FAMILY`.
    DiagV2,
    /// `/proc/net`.
    Procfs,
}

impl SourceKind {
    /// Name, as `doctor`, `-v` and JSON show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Walk => "bpf",
            Self::Descriptors => "bpf-held",
            Self::OnePass => "one-pass",
            Self::DiagV2 => "diag-v2",
            Self::Procfs => "procfs",
        }
    }
}

impl SourceKind {
    /// What it costs, as measured (docs/BENCHMARKS.md), and what it covers.
    #[must_use]
    pub const fn coverage(self) -> &'static str {
        match self {
            Self::Walk => {
                "5 ms to load, then 0.2 us a socket; TCP and UDP of every namespace; no cookie that nobody asked for yet"
            }
            Self::Descriptors => {
                "6 ms to load, then 0.3 us a descriptor; of every namespace what a process holds; no cookie, as above"
            }
            Self::OnePass => "0.6 us a socket; TCP of one namespace",
            Self::DiagV2 => "0.9 us a socket, 1.3 with tcp_info; one namespace",
            Self::Procfs => {
                "2 us a socket; one namespace; addresses, state, queues, timer, user and inode only"
            }
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a socket was let through by the query's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelVerdict {
    /// The kernel ran the program.
    Passed,
    /// There is none, or the source does not run it, or the kernel refused it.
    NotRun,
}

/// What comes context with a socket that is handed out.
#[derive(Debug, Clone, Copy)]
pub struct DumpContext<'a> {
    /// Whether the query's program ran.
    pub kernel_verdict: KernelVerdict,
    /// Where it came from.
    pub source: SourceKind,
    /// The payload of the kernel's message about it, for what a [`sockeye_model::Socket`] has no room for; `None` where
    /// the source was not netlink.
    pub message: Option<&'a [u8]>,
}

impl DumpContext<'_> {
    /// Nothing but where it came from.
    pub(crate) const fn only(source: SourceKind) -> Self {
        Self {
            kernel_verdict: KernelVerdict::NotRun,
            source,
            message: None,
        }
    }
}

/// Where the sockets of one protocol came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolSource {
    /// What was asked for: `tcp`, `udp`, `unix`...
    pub what: &'static str,
    /// Kernels may lack it, so that no answer is no loss.
    pub optional: bool,
    /// The source that answered; `None` if none did.
    pub source: Option<SourceKind>,
    /// The better sources that did not answer, each with the reason.
    pub not_used: Vec<(SourceKind, Reason)>,
    /// Why the answer ended before its end, if it did.
    pub ended_early: Option<Reason>,
}

impl ProtocolSource {
    /// Whether the sockets are those of a namespace that could not be entered.
    #[must_use]
    pub fn is_from_outside(&self) -> bool {
        self.source == Some(SourceKind::Procfs)
            && self
                .not_used
                .iter()
                .any(|(_, reason)| matches!(reason, Reason::System("enter the namespace", _)))
    }
}

/// Why a source did not answer, or not to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// An operation on a netlink socket failed.
    System(&'static str, Errno),
    /// The kernel refused the request: errno, and its own words where it has any.
    Refused(Errno, Option<String>),
    /// An operation on a file failed.
    File(&'static str, &'static str, Errno),
    /// There is no file that lists these sockets.
    NoTable,
    /// No BPF program of ours runs here.
    Bpf(Box<crate::bpf::Unavailable>),
    /// It is not worth its start: there are only so many sockets.
    FewSockets(u64),
    /// Few sockets are wanted of many, and netlink passes over the others faster.
    NarrowQuery,
    /// It is not worth its start: there are few processes with few files.
    FewProcesses,
    /// Another source was named.
    NotSelected,
    /// It does not tell what is asked for.
    NotReported(&'static str),
    /// The dump ended without the kernel's saying that it was done.
    Unfinished,
}

impl Reason {
    /// Whether this kernel has not got what was asked for.
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

    /// Whether something forbids it.
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
            Self::NarrowQuery => f.write_str("netlink passes over what is not wanted faster"),
            Self::FewProcesses => f.write_str("not worth its start for few processes"),
            Self::NotSelected => f.write_str("another source was named"),
            Self::NotReported(what) => write!(f, "does not tell {what}; --source auto asks netlink for it"),
            Self::Unfinished => f.write_str("the dump ended unfinished"),
        }
    }
}

/// What a source says when it has told all its sockets.
#[derive(Debug, Clone, Default)]
pub struct QueryOutcome {
    /// What could not be seen.
    pub losses: Losses,
    /// Where each protocol's sockets came from.
    pub used: Vec<ProtocolSource>,
    /// Chains of the kernel's tables that were walked again, since somebody moved a socket under our hands; what came
    /// of it is whole.
    pub rewalked_chains: u64,
    /// Whether the reader of the sockets had enough before the end.
    pub stopped: bool,
}

/// No socket could be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The namespace could not be entered.
    Namespace(NetnsInode, Errno),
    /// Every source was tried in vain, for every protocol asked for.
    NoSource(Vec<ProtocolSource>),
}

impl Error {
    /// Whether it was for want of a free descriptor.
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
                    Errno::PERM => write!(f, "; entering a namespace needs CAP_SYS_ADMIN: run as root"),
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
                Ok(())
            }
        }
    }
}

impl std::error::Error for Error {}
