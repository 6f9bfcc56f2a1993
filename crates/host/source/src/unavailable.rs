//! Why our BPF programs do not run here.

use rustix::io::Errno;
use sockeye_sys::bpf::LoadError;
use sockeye_sys::capabilities::{self, CapabilitySet};
use sockeye_sys::rights::{CheckedIn, in_user_namespace, remedy};
use std::fmt;
use std::path::{Path, PathBuf};

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
    /// The program takes the verifier too long here for what it gains.
    SlowStart,
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

/// Its text has the cause.
impl std::error::Error for Unavailable {}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Types(path, Errno::NOENT) if path == Path::new(KERNEL_TYPES) => {
                write!(f, "read {}: {}", path.display(), no_types())
            }
            Self::Types(path, error) => write!(f, "read {}: {error}", path.display()),
            Self::Format(path, problem) => write!(f, "read {}: {problem}", path.display()),
            // ENOTSUPP of the kernel, which is no errno of user space.
            Self::Run(errno) if errno.raw_os_error() == ENOTSUPP => f.write_str(
                "run a BPF program: this kernel cannot run such a program without an event (Linux 5.10)",
            ),
            Self::Run(errno) => write!(f, "run a BPF program: {errno}"),
            Self::SlowStart => f.write_str("loading takes too long before Linux 6.2"),
            Self::UnexpectedReply(what) => {
                write!(f, "a BPF program returned an inconsistent reply: {what}")
            }
            Self::Lacks(what) => write!(f, "this kernel has no {what}"),
            Self::Load(error @ LoadError::Rejected(_, reason), _)
                if reason.contains("bpf_probe_read") && has_confidential_lockdown() =>
            {
                write!(
                    f,
                    "{error}; the kernel's lockdown (confidentiality) forbids programs to read its memory"
                )
            }
            // What is missing explains only an error of the verifier.
            Self::Load(error @ LoadError::Rejected(..), missing) if !missing.is_empty() => {
                write!(f, "{error}; this kernel has no {}", missing.join(", "))
            }
            Self::Load(error, _) if self.is_forbidden() && has_rights() && !in_user_namespace() => {
                write!(
                    f,
                    "{error}; CAP_BPF and CAP_PERFMON are there: a security module, a seccomp filter or the kernel's \
                     lockdown forbids it"
                )
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

/// Why there is no file with the kernel's types.
fn no_types() -> &'static str {
    if Path::new("/sys/kernel").exists() {
        "this kernel has none (CONFIG_DEBUG_INFO_BTF); --btf names another file"
    } else {
        "/sys is not mounted; --btf names another file"
    }
}

/// Whether the calling thread has the capabilities that our programs need.
pub(crate) fn has_rights() -> bool {
    // Unknown: the load will show it.
    capabilities::effective().map_or(true, |own| {
        // CAP_SYS_ADMIN includes them, as it did alone before Linux 5.8.
        own.contains(CapabilitySet::SYS_ADMIN) || own.contains(CapabilitySet::BPF | CapabilitySet::PERFMON)
    })
}

/// Whether the kernel is locked down so that not even root may read its memory.
fn has_confidential_lockdown() -> bool {
    std::fs::read_to_string("/sys/kernel/security/lockdown")
        .is_ok_and(|text| text.contains("[confidentiality]"))
}

/// Path of the types of a kernel with CONFIG_DEBUG_INFO_BTF.
pub(crate) const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// `include/linux/errno.h`
pub(crate) const ENOTSUPP: i32 = 524;
/// `BPF_CMPXCHG` and `BPF_FETCH`
pub(crate) const ATOMIC_RESULTS: &str =
    "atomic operations of BPF that return a value (Linux 5.12, on arm64 5.18)";
