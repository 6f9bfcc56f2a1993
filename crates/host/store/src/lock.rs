//! Locks of files that are written by one process at a time, and whose own locks are another's or that are replaced.

use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Locks the file of this name with `-lock` at its end, which is created; `None`: another process has locked it. The kernel lets the lock go
/// with the file, and so with the process, however that ends.
///
/// # Errors
/// If the file of the lock cannot be opened or locked.
pub fn lock_next_to(path: &Path) -> io::Result<Option<File>> {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    // Who may read it may lock it. A FIFO would let us wait for its reader.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(&name)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!(
            "{} is no regular file: delete it",
            name.display()
        )));
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
