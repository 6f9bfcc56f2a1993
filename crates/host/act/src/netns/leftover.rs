//! Leftover files: names without a namespace, because the process that created or deleted them was killed in the
//! middle.

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open, stat, unlink};
use rustix::io::Errno;
use sockeye_sys::netns;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// What was found at the path of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// A namespace, or a file of another kind.
    Taken,
    /// A leftover file, which was removed.
    Cleared,
}

/// Checks the path of a name, and removes a leftover: an empty file that is neither locked (as ours are while they are
/// being created) nor new (`ip netns` locks nothing, and creates the namespace between the file and the mount). It
/// waits until such a file is a namespace, or too old to become one.
pub(super) fn clear(path: &Path) -> Result<Found, Errno> {
    loop {
        let file = match empty_file(path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(Found::Taken),
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(errno) => return Err(errno),
        };
        if is_young(&file)? || flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            drop(file);
            sleep(INTERVAL);
            continue;
        }
        if remove_locked(path, &file)? {
            return Ok(Found::Cleared);
        }
    }
}

/// Removes the file with this inode that was created for a name, unless it is a namespace now.
pub(super) fn clear_inode(path: &Path, inode: u64) -> Result<(), Errno> {
    match empty_file(path) {
        Ok(Some(file)) if fstat(&file)?.st_ino == inode => {
            let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
            remove_locked(path, &file).map(drop)
        }
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Unlinks `path` if it is still this file. Only the owner of the file's lock unlinks it, so that it cannot be replaced
/// between the check and the unlink.
fn remove_locked(path: &Path, file: &OwnedFd) -> Result<bool, Errno> {
    let (locked, current) = match (fstat(file), stat(path)) {
        (Ok(locked), Ok(current)) => (locked, current),
        (_, Err(Errno::NOENT)) => return Ok(false),
        (Err(errno), _) | (_, Err(errno)) => return Err(errno),
    };
    if (locked.st_dev, locked.st_ino) != (current.st_dev, current.st_ino) {
        return Ok(false);
    }
    match unlink(path) {
        Ok(()) => Ok(true),
        // A namespace was mounted on it, or another process has removed it.
        Err(Errno::BUSY | Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Opens the file if it is an empty regular file; `None` for a namespace and for all other files.
fn empty_file(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let found = fstat(&file)?;
    let is_ordinary = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
    let is_namespace = netns::is_namespace(&file)?;
    Ok((is_ordinary && found.st_size == 0 && !is_namespace).then_some(file))
}

fn is_young(file: &OwnedFd) -> Result<bool, Errno> {
    let made = fstat(file)?.st_mtime;
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    // A time in the future does not count as young.
    let age = i64::try_from(now.as_secs())
        .unwrap_or(i64::MAX)
        .saturating_sub(made);
    Ok((0..=YOUNG_SECONDS).contains(&age))
}

/// `ip netns add` needs milliseconds between the file and the mount; with a load of 200 on two processors it was more than a second.
const YOUNG_SECONDS: i64 = 3;
const INTERVAL: Duration = Duration::from_millis(20);
