//! Descriptors that others left open for us.
#![allow(unsafe_code)]

use std::io;

/// Has every descriptor but stdin, stdout and stderr closed in programs that are started from now on: those that whoever
/// started us wanted to pass on to another are not for them to hold open.
///
/// # Errors
/// When `/proc/self/fd` cannot be read.
pub fn close_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(number) = number.filter(|number| *number > libc::STDERR_FILENO) {
            // SAFETY: it has no conditions: this flag of a descriptor, ours or another's, matters to no memory. One
            // that is closed by now gives an error, which is as good.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}
