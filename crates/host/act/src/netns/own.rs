//! A network namespace for this process alone, also without rights.

use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use sockeye_sys::netns;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::fmt;

/// How a process got a network namespace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// With the rights that it had.
    Privileged,
    /// As root of a new user namespace, because it lacked CAP_SYS_ADMIN.
    UserNamespace,
}

/// Moves this process into a new network namespace without a name, which ends with its last process and descriptor. Without
/// CAP_SYS_ADMIN it also gets a user namespace, in which its user is root.
///
/// Call it before other threads start: they would stay where they are.
///
/// # Errors
/// The step that failed, and the kernel's errno.
pub fn isolate() -> Result<Isolation, IsolationError> {
    let failed = |step| move |errno| IsolationError { step, errno };
    match netns::unshare() {
        Ok(()) => return Ok(Isolation::Privileged),
        Err(Errno::PERM) => {}
        Err(errno) => return Err(failed(IsolationStep::Network)(errno)),
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    netns::unshare_with_user().map_err(failed(IsolationStep::User))?;
    // The kernel lets an unprivileged process map its group only after it has given up setgroups(2).
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            failed(IsolationStep::Map)(errno)
        })?;
    }
    Ok(Isolation::UserNamespace)
}

/// A failure to get a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IsolationError {
    /// The step that failed.
    pub step: IsolationStep,
    /// The kernel's errno.
    pub errno: Errno,
}

/// The steps, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationStep {
    /// `unshare(CLONE_NEWNET)`
    Network,
    /// `unshare(CLONE_NEWUSER | CLONE_NEWNET)`, without CAP_SYS_ADMIN.
    User,
    /// Writing `uid_map` and `gid_map`.
    Map,
}

impl fmt::Display for IsolationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.step {
            IsolationStep::Network => "cannot make a network namespace",
            IsolationStep::User => "cannot make a network namespace without root, in a user namespace",
            IsolationStep::Map => "cannot map users into a user namespace",
        };
        write!(f, "{what}: {}", self.errno)?;
        let limits = match (self.step, self.errno) {
            (IsolationStep::Network, Errno::NOSPC) => {
                return f.write_str("; `sysctl -w user.max_net_namespaces=N` raises their limit");
            }
            (IsolationStep::User, Errno::NOSPC) => {
                "the sysctls user.max_user_namespaces and user.max_net_namespaces limit them"
            }
            (IsolationStep::User | IsolationStep::Map, Errno::PERM | Errno::ACCESS) => {
                "a seccomp filter (containers), AppArmor (sysctl kernel.apparmor_restrict_unprivileged_userns) or the sysctl \
                 kernel.unprivileged_userns_clone forbids them"
            }
            (IsolationStep::User, Errno::INVAL) => "this kernel has no user namespaces",
            _ => return Ok(()),
        };
        write!(f, "; {}; {limits}", remedy("CAP_SYS_ADMIN", CheckedIn::Initial))
    }
}

/// The errno is in the text and in its field, so `source()` does not repeat it.
impl std::error::Error for IsolationError {}
