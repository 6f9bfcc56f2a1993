//! Why a scan of `/proc` for socket owners cannot start; `Owners::scan` returns it. A single process that
//! cannot be read is no error: `procfs_scan.rs` counts it as a loss.

use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;

/// Why no process could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanError {
    /// The folder cannot be opened or read.
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The error of the kernel.
        errno: Errno,
    },
    /// The folder is missing, or no proc file system is mounted on it.
    NotProc {
        /// The folder.
        path: PathBuf,
    },
    /// The proc file system there is that of a pid namespace in which this process has no pid.
    OtherPidNamespace {
        /// The folder.
        path: PathBuf,
    },
}

impl ScanError {
    /// The error of a folder that cannot be opened.
    pub(crate) fn of(path: PathBuf, errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::NotProc { path },
            errno => Self::Unreadable { path, errno },
        }
    }
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, .. } => {
                write!(f, "cannot read {}", path.display())
            }
            Self::OtherPidNamespace { path } => write!(
                f,
                "{0} is that of another pid namespace and does not show this process; try, in a mount namespace of its own: \
                 mount -t proc proc {0}",
                path.display()
            ),
            Self::NotProc { path } => write!(
                f,
                "no proc file system is mounted on {0}; try: mount -t proc proc {0}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ScanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { errno, .. } => Some(errno),
            Self::NotProc { .. } | Self::OtherPidNamespace { .. } => None,
        }
    }
}
