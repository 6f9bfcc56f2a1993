//! Descriptors inherited from the parent process.
#![allow(unsafe_code)]

use std::io;

/// Sets close-on-exec on every descriptor but stdin, stdout and stderr, so that programs started later do not keep
/// descriptors open that were meant for another process.
///
/// # Errors
/// If `/proc/self/fd` cannot be read.
pub fn close_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(number) = number.filter(|number| *number > libc::STDERR_FILENO) {
            // SAFETY: no preconditions: this flag affects no memory. A descriptor that was closed in the meantime
            // gives an error, which is harmless.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}
