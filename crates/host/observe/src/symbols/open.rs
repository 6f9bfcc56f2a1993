//! Opens the file of a mapping, even if it was renamed or removed.

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

/// The root of paths: ours, or that of a process in another mount namespace or chroot.
#[derive(Debug)]
pub(super) enum Root {
    Own,
    Other(OwnedFd),
}

/// The identity of a file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// Why a file cannot be opened.
#[derive(Debug)]
pub(super) enum OpenError {
    /// Another file has its name now.
    Replaced,
    /// No file has its name any more.
    Gone,
    /// It is not a regular file.
    NotRegular,
    /// The operation failed.
    Failed(io::Error),
}

impl Root {
    /// Returns the root of a process; ours if it sees the same files.
    pub(super) fn of_process(pid: u32) -> Self {
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

    /// Opens a regular file for reading. Other files are not opened at all: opening a pipe or device can block or have effects.
    pub(super) fn open(&self, path: &Path) -> Result<File, OpenError> {
        open_regular(self.locate(path, OFlags::PATH | OFlags::CLOEXEC)?)
    }

    /// Opens a folder, to open files in it later.
    pub(super) fn folder(&self, path: &Path) -> Option<OwnedFd> {
        self.locate(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)
            .ok()
    }

    fn locate(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, OpenError> {
        let located = match self {
            Self::Own => openat(rustix::fs::CWD, path, flags, Mode::empty()),
            // Absolute symbolic links are relative to this root.
            Self::Other(root) => openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT),
        };
        located.map_err(OpenError::from)
    }
}

/// Opens the file of a mapping of a process.
pub(super) fn open_mapped(pid: u32, mapping: &Mapping, root: &Root) -> Result<File, OpenError> {
    let is_same = |file: &File| file.metadata().is_ok_and(|meta| meta.ino() == mapping.inode);
    // 1. By the mapping, independent of the name: needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE. After an exec another
    //    file may be mapped at the same addresses.
    // 2. By the link to the program: needs only the same owner.
    let exact = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    for link in [exact, format!("/proc/{pid}/exe")] {
        if let Ok(file) = Root::Own.open(Path::new(&link))
            && is_same(&file)
        {
            return Ok(file);
        }
    }
    // 3. By its name in the root of the process; 4. by its name in our root.
    let path = named_path(&mapping.path);
    let mut why = None;
    for from in [root, &Root::Own] {
        match from.open(path) {
            Ok(file) if is_same(&file) => return Ok(file),
            Ok(_) => why = Some(OpenError::Replaced),
            Err(error) => {
                why.get_or_insert(error);
            }
        }
        if root.is_own() {
            break;
        }
    }
    match why {
        // Another file has the name now.
        Some(OpenError::Replaced) | None => Err(OpenError::Replaced),
        Some(other) => Err(other),
    }
}

/// Returns the identity of a file.
pub(super) fn identity(meta: &std::fs::Metadata) -> FileIdentity {
    FileIdentity {
        device: meta.dev(),
        inode: meta.ino(),
    }
}

/// Returns the path without the suffix that the kernel adds for a removed file.
pub(super) fn named_path(path: &[u8]) -> &Path {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Path::new(OsStr::from_bytes(path))
}

/// Opens an `O_PATH` descriptor for reading, if it is a regular file.
pub(super) fn open_regular(located: OwnedFd) -> Result<File, OpenError> {
    let located = File::from(located);
    let meta = located.metadata().map_err(OpenError::Failed)?;
    if !meta.is_file() {
        return Err(OpenError::NotRegular);
    }
    let link = format!("/proc/self/fd/{}", located.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(rustix::fs::CWD, link, flags, Mode::empty())?;
    Ok(File::from(opened))
}

/// A root, shared by all its files.
pub(super) type SharedRoot = Rc<Root>;

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Gone,
            other => Self::Failed(other.into()),
        }
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Replaced => f.write_str("another file has its name now"),
            Self::Gone => f.write_str("it was removed, or has another name now"),
            Self::NotRegular => f.write_str("it is no regular file"),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}
