//! The kernel's error of a call that rustix does not wrap.

use rustix::io::Errno;
use std::io;

/// Returns the `errno` of the last failed call of this thread.
pub(crate) fn last_errno() -> Errno {
    errno_of(&io::Error::last_os_error())
}

/// Returns the kernel's error; `EIO` for an error that is not the kernel's.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Returns the error of a call that returns 0 if it succeeds.
pub(crate) fn checked(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}
