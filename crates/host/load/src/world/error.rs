//! Errors of building the world.

use super::Role;
use rustix::io::Errno;
use sockeye_act::RouteError;
use sockeye_act::netns::IsolationError;
use std::fmt;

/// A step of building the world that failed.
#[derive(Debug)]
pub enum WorldError {
    /// This process got no network namespace of its own.
    Isolation(IsolationError),
    /// A namespace, device or address could not be made.
    Network(RouteError),
    /// A program could not be started, or failed to begin its work.
    Program {
        /// The program.
        role: Role,
        /// What it reported, or why it was not started.
        reason: String,
    },
}

impl From<IsolationError> for WorldError {
    fn from(error: IsolationError) -> Self {
        Self::Isolation(error)
    }
}

impl From<RouteError> for WorldError {
    fn from(error: RouteError) -> Self {
        Self::Network(error)
    }
}

impl From<Errno> for WorldError {
    fn from(errno: Errno) -> Self {
        Self::Network(errno.into())
    }
}

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isolation(error) => error.fmt(f),
            Self::Network(error) => {
                write!(f, "cannot make namespaces and devices: {error}")?;
                match error.errno {
                    Errno::OPNOTSUPP => f.write_str("; this kernel has no veth: `modprobe veth`"),
                    Errno::PERM | Errno::ACCESS => f.write_str(
                        "; run as root. Without root, AppArmor may take the rights from user namespaces: sysctl \
                         kernel.apparmor_restrict_unprivileged_userns",
                    ),
                    Errno::NOSPC => {
                        f.write_str("; `sysctl -w user.max_net_namespaces=N` raises the limit of namespaces")
                    }
                    _ => Ok(()),
                }
            }
            Self::Program { role, reason } => write!(f, "{role} did not start: {reason}"),
        }
    }
}

/// The causes are in the text, so `source()` does not repeat them.
impl std::error::Error for WorldError {}
