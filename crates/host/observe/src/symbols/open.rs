//! Finds and opens the file behind a mapping, whatever happened to its name since.

use crate::Mapping;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Where paths begin: our own root, or that of a process which sees other files.
#[derive(Debug)]
pub(super) enum Root {
    Own,
    Other(OwnedFd),
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// Why there is no file to read.
#[derive(Debug)]
pub(super) enum Unopened {
    /// Another file has its name now.
    Replaced,
    /// Nothing has its name any more.
    Gone,
    /// It is a device, a pipe, a folder.
    NotRegular,
    Failed(io::Error),
}

impl Root {
    /// Of a process; ours, if it sees the same files.
    pub(super) fn of(pid: u32) -> Self {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let same = |what: &str| {
            let theirs = std::fs::metadata(folder.join(what));
            let own = std::fs::metadata(Path::new("/proc/self").join(what));
            matches!((theirs, own), (Ok(theirs), Ok(own)) if identity(&theirs) == identity(&own))
        };
        if same("ns/mnt") && same("root") {
            return Self::Own;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(rustix::fs::CWD, folder.join("root"), flags, Mode::empty()).map_or(Self::Own, Self::Other)
    }

    pub(super) const fn is_own(&self) -> bool {
        matches!(self, Self::Own)
    }

    /// Opens a regular file for reading. What is no such file is not even opened: that could wait, or do something.
    pub(super) fn open(&self, path: &Path) -> Result<File, Unopened> {
        regular(self.locate(path, OFlags::PATH | OFlags::CLOEXEC)?)
    }

    /// A folder, to look into it later.
    pub(super) fn folder(&self, path: &Path) -> Option<OwnedFd> {
        self.locate(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)
            .ok()
    }

    fn locate(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Unopened> {
        let located = match self {
            Self::Own => openat(rustix::fs::CWD, path, flags, Mode::empty()),
            // A link with an absolute path means their root, not ours.
            Self::Other(root) => openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT),
        };
        located.map_err(Unopened::from)
    }
}

/// Opens the file behind a mapping of a process.
pub(super) fn open(pid: u32, mapping: &Mapping, root: &Root) -> Result<File, Unopened> {
    let is_it = |file: &File| file.metadata().is_ok_and(|meta| meta.ino() == mapping.inode);
    // 1. By the mapping itself, whatever its name is: that takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE. The process may
    //    be another program by now, with something else at the same addresses.
    // 2. By the program itself, which takes no more than to be its owner.
    let exact = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    for link in [exact, format!("/proc/{pid}/exe")] {
        if let Ok(file) = Root::Own.open(Path::new(&link))
            && is_it(&file)
        {
            return Ok(file);
        }
    }
    // 3. By its name as the process sees it, through its root while it lives; 4. as we see it.
    let path = named_path(&mapping.path);
    let mut why = None;
    for from in [root, &Root::Own] {
        match from.open(path) {
            Ok(file) if is_it(&file) => return Ok(file),
            Ok(_) => why = Some(Unopened::Replaced),
            Err(error) => {
                why.get_or_insert(error);
            }
        }
        if root.is_own() {
            break;
        }
    }
    match why {
        // Something else has the name now, but it was removed before.
        Some(Unopened::Replaced) | None => Err(Unopened::Replaced),
        Some(other) => Err(other),
    }
}

/// Which file it is.
pub(super) fn identity(meta: &std::fs::Metadata) -> Identity {
    Identity {
        device: meta.dev(),
        inode: meta.ino(),
    }
}

/// The path without what the kernel writes behind one that was removed.
pub(super) fn named_path(path: &[u8]) -> &Path {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Path::new(OsStr::from_bytes(path))
}

/// Opens for reading what was only located.
pub(super) fn regular(located: OwnedFd) -> Result<File, Unopened> {
    let located = File::from(located);
    let meta = located.metadata().map_err(Unopened::Failed)?;
    if !meta.is_file() {
        return Err(Unopened::NotRegular);
    }
    let link = format!("/proc/self/fd/{}", located.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(rustix::fs::CWD, link, flags, Mode::empty())?;
    Ok(File::from(opened))
}

/// A root, shared by all files that were found in it.
pub(super) type SharedRoot = Rc<Root>;

impl From<Errno> for Unopened {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Gone,
            other => Self::Failed(other.into()),
        }
    }
}

impl std::fmt::Display for Unopened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Replaced => f.write_str("another file has its name now"),
            Self::Gone => f.write_str("it was removed, or has another name now"),
            Self::NotRegular => f.write_str("it is no regular file"),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}
