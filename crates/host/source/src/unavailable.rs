//! Why our BPF programs do not run here.

use rustix::io::Errno;
use sockeye_sys::bpf::LoadError;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::fmt;
use std::path::PathBuf;

/// Why a BPF program of ours does not run here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// The kernel's types cannot be read.
    Types(PathBuf, Errno),
    /// The kernel's types are malformed.
    Format(PathBuf, String),
    /// This kernel lacks something that the program needs.
    Lacks(&'static str),
    /// A run of a program failed.
    Run(Errno),
    /// A program returned an inconsistent reply.
    UnexpectedReply(&'static str),
    /// The program could not be loaded; with the types and fields that this kernel lacks.
    Load(LoadError, Vec<String>),
}

impl Unavailable {
    /// Whether a missing right is the cause.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let errno = match self {
            Self::Types(_, errno) | Self::Run(errno) | Self::Load(LoadError::System(_, errno), _) => *errno,
            _ => return false,
        };
        matches!(errno, Errno::PERM | Errno::ACCESS)
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Types(_, errno) | Self::Run(errno) => Some(errno),
            Self::Load(error, _) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Types(path, error) => write!(f, "read {}: {error}", path.display()),
            Self::Format(path, problem) => write!(f, "read {}: {problem}", path.display()),
            Self::Run(errno) => write!(f, "run a BPF program: {errno}"),
            Self::UnexpectedReply(what) => {
                write!(f, "a BPF program returned an inconsistent reply: {what}")
            }
            Self::Lacks(what) => write!(f, "this kernel has no {what}"),
            // What is missing explains only an error of the verifier.
            Self::Load(error @ LoadError::Rejected(..), missing) if !missing.is_empty() => {
                write!(f, "{error}; this kernel has no {}", missing.join(", "))
            }
            Self::Load(error, _) if self.is_forbidden() => {
                write!(
                    f,
                    "{error}; it needs CAP_BPF and CAP_PERFMON: {}",
                    remedy("them", CheckedIn::Initial)
                )
            }
            Self::Load(error, _) => error.fmt(f),
        }
    }
}
