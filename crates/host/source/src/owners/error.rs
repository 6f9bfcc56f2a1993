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
    /// The folder exists, but no proc file system is mounted on it.
    NotProc {
        /// The folder.
        path: PathBuf,
    },
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, .. } => {
                write!(
                    f,
                    "cannot read {}, without which no owner of a socket is known",
                    path.display()
                )
            }
            Self::NotProc { path } => write!(
                f,
                "no proc file system on {0}, without which no owner of a socket is known; try: mount -t proc proc {0}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ScanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { errno, .. } => Some(errno),
            Self::NotProc { .. } => None,
        }
    }
}
