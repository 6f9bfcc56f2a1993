//! From a path to the folder that it leads to, and what has its name there.
//!
//! The path is walked component by component, as the kernel does it, except that a symbolic link is followed only if no
//! other user can have made it. `fs.protected_symlinks` of the kernel does that in sticky folders that all users may
//! write to, unless it is turned off; here it holds in all folders that another user can write to.

use super::folder_of;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, StatxAttributes, StatxFlags, fcntl_getfl,
    fcntl_setfl, fstat, fstatfs, mkdirat, openat, readlinkat, statx,
};
use rustix::io::Errno;
use sockeye_sys::interrupts;
use sockeye_sys::trusted_users::TrustedUsers;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An open folder in which files are created. It stays the same folder when its path leads elsewhere.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) fd: OwnedFd,
    /// As it was reached, without symbolic links.
    pub(super) path: PathBuf,
    /// Who can make and rename entries.
    pub(super) writers: Writers,
    /// Owner of the folder.
    pub(super) uid: u32,
}

/// Users who can make and rename entries of a folder, other than root, its trusted owner, and we.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writers {
    /// None.
    None,
    /// A group, which is often that of one user. They can rename entries.
    Group,
    /// Others, who can rename and delete their own entries only (the sticky bit).
    Sticky,
    /// Others, who can rename and delete all entries; or the folder is another user's.
    All,
}

/// Where a path leads: a name in a folder.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: Folder,
    pub(super) name: OsString,
    /// What has the name; `None` if nothing has.
    pub(super) entry: Option<Entry>,
}

/// What has a name: no folder, and no symbolic link.
#[derive(Debug)]
pub(super) struct Entry {
    /// Opened with `O_PATH`: it is this file, whatever has its name later.
    pub(super) fd: OwnedFd,
    pub(super) stat: Stat,
    /// Whether it is an open descriptor of a process (`/proc/PID/fd/1`, `/dev/stdout`).
    pub(super) is_descriptor: bool,
}

/// A name, and what has it.
type Named = (OsString, Option<Entry>);

/// Why a file is not written to: another user can have put it there.
#[derive(Debug)]
pub(super) struct Refused {
    what: &'static str,
    uid: u32,
    folder: PathBuf,
    why: &'static str,
}

/// Why no file is opened by its name in a folder: another user can put another file in its place at any time.
#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    why: &'static str,
}

impl Place {
    /// Finds the place of a path. The last component may be absent.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let users = TrustedUsers::here();
        Self::from(Folder::start(path, &users)?, path.as_os_str(), &users)
    }

    fn from(start: Folder, path: &OsStr, users: &TrustedUsers) -> io::Result<Self> {
        match start.walk(path, users)? {
            (folder, Some((name, entry))) => Ok(Self { folder, name, entry }),
            (_, None) => Err(Errno::ISDIR.into()),
        }
    }

    /// Returns whether the entry is the root of a mount: a rename cannot replace it.
    pub(super) fn is_mount(&self) -> bool {
        let about = |entry: &Entry| statx(&entry.fd, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
        self.entry
            .as_ref()
            .and_then(|entry| about(entry).ok())
            .is_some_and(|about| {
                about.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
                    && about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
            })
    }

    /// Fails if the entry may be another user's trap: it is another user's, in a folder where that user could put it.
    pub(super) fn check_entry(&self) -> io::Result<()> {
        let Some(entry) = &self.entry else { return Ok(()) };
        if entry.kind() == FileType::BlockDevice {
            return Err(io::Error::other("it is a disk"));
        }
        if entry.is_descriptor
            || self.folder.writers == Writers::None
            || TrustedUsers::here().include(entry.stat.st_uid)
        {
            return Ok(());
        }
        let what = match entry.kind() {
            FileType::RegularFile => "file",
            FileType::Fifo => "FIFO",
            FileType::Socket => "socket",
            _ => "device",
        };
        Err(self.folder.refused(what, entry.stat.st_uid))
    }

    /// Fails if writing to the entry could write to a file elsewhere: a hard link.
    pub(super) fn check_single(&self) -> io::Result<()> {
        match &self.entry {
            Some(entry) if self.folder.writers != Writers::None && entry.stat.st_nlink != 1 => {
                Err(self.folder.refused("hard link to a file", entry.stat.st_uid))
            }
            _ => Ok(()),
        }
    }

    /// Opens the entry for writing.
    pub(super) fn open_entry(&self, flags: OFlags) -> io::Result<Option<File>> {
        let Some(entry) = &self.entry else { return Ok(None) };
        let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        let same = format!("/proc/self/fd/{}", entry.fd.as_raw_fd());
        if entry.kind() == FileType::Fifo && Path::new(&same).exists() {
            return open_fifo(&same, flags).map(Some);
        }
        match rustix::fs::open(same, flags, Mode::empty()) {
            Ok(file) => return Ok(Some(file.into())),
            // Without /proc.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let file = openat(
            &self.folder.fd,
            &self.name,
            flags | OFlags::NOFOLLOW,
            Mode::empty(),
        )?;
        let stat = fstat(&file)?;
        if (stat.st_dev, stat.st_ino) != (entry.stat.st_dev, entry.stat.st_ino) {
            return Err(io::Error::other("another file has just taken its place"));
        }
        Ok(Some(file.into()))
    }

    /// Returns whether only trusted users can have put the entry there.
    pub(super) fn is_private(&self) -> bool {
        self.folder.writers == Writers::None
    }
}

impl Entry {
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

impl Folder {
    /// Opens a folder by its path.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let users = TrustedUsers::here();
        match Self::start(path, &users)?.walk(path.as_os_str(), &users)? {
            (folder, None) => Ok(folder),
            (_, Some((_, None))) => Err(Errno::NOENT.into()),
            (_, Some(_)) => Err(Errno::NOTDIR.into()),
        }
    }

    /// Finds the place of a name in this folder.
    pub(super) fn place(&self, name: &OsStr) -> io::Result<Place> {
        let folder = Self {
            fd: self.fd.try_clone()?,
            path: self.path.clone(),
            ..*self
        };
        Place::from(folder, name, &TrustedUsers::here())
    }

    /// Opens the folder where the kernel begins to walk a path.
    fn start(path: &Path, users: &TrustedUsers) -> io::Result<Self> {
        let start = Path::new(if path.is_absolute() { "/" } else { "." });
        Self::open(CWD, start.as_os_str(), start.to_owned(), users)
    }

    fn open(at: impl AsFd, name: &OsStr, path: PathBuf, users: &TrustedUsers) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(at, name, flags, Mode::empty())?;
        let stat = fstat(&fd)?;
        Ok(Self::new(fd, &stat, path, users))
    }

    fn new(fd: OwnedFd, stat: &Stat, path: PathBuf, users: &TrustedUsers) -> Self {
        let may = |bits| stat.st_mode & bits != 0;
        let writers = if !users.include(stat.st_uid) {
            Writers::All
        } else if !may(0o022) {
            Writers::None
        } else if may(0o1000) {
            Writers::Sticky
        } else if may(0o002) {
            Writers::All
        } else {
            Writers::Group
        };
        Self {
            fd,
            path,
            writers,
            uid: stat.st_uid,
        }
    }

    /// Walks a path from this folder: to a folder, or to a name in a folder and what has it.
    fn walk(mut self, path: &OsStr, users: &TrustedUsers) -> io::Result<(Self, Option<Named>)> {
        let mut ahead: VecDeque<OsString> = VecDeque::new();
        push_front(&mut ahead, path);
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            let is_last = ahead.is_empty();
            if name == ".." || name == "." || name == "/" {
                let path = self.path.join(&name);
                self = Self::open(&self.fd, &name, path, users)?;
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut fd = match openat(&self.fd, &name, flags, Mode::empty()) {
                Err(Errno::NOENT) if is_last => return Ok((self, Some((name, None)))),
                opened => opened?,
            };
            let mut stat = fstat(&fd)?;
            let mut is_descriptor = false;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                // Links of /proc lead to open files and folders, and their text is not always a path.
                if self.is_proc() {
                    fd = openat(&self.fd, &name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                    stat = fstat(&fd)?;
                    is_descriptor = true;
                } else {
                    self.check_link(&stat, users)?;
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP.into());
                    }
                    let target = readlinkat(&fd, "", Vec::new())?;
                    push_front(&mut ahead, OsStr::from_bytes(target.as_bytes()));
                    continue;
                }
            }
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                self = Self::new(fd, &stat, self.path.join(&name), users);
            } else if is_last {
                let entry = Entry {
                    fd,
                    stat,
                    is_descriptor,
                };
                return Ok((self, Some((name, Some(entry)))));
            } else {
                return Err(Errno::NOTDIR.into());
            }
        }
        Ok((self, None))
    }

    /// Fails if a symbolic link in this folder may be another user's.
    fn check_link(&self, link: &Stat, users: &TrustedUsers) -> io::Result<()> {
        let is_safe = match self.writers {
            Writers::None => true,
            Writers::Group | Writers::Sticky => users.include(link.st_uid),
            // Another user can have renamed one of ours.
            Writers::All => false,
        };
        if is_safe {
            Ok(())
        } else {
            Err(self.refused("symbolic link", link.st_uid))
        }
    }

    /// Fails if another user can rename all entries of the folder.
    pub(super) fn check_names(&self) -> io::Result<()> {
        if self.writers == Writers::All {
            Err(io::Error::other(Shared {
                folder: self.path.clone(),
                why: self.why(),
            }))
        } else {
            Ok(())
        }
    }

    /// Opens a folder by its path, and creates it and those above it where they are missing.
    pub(super) fn made(path: &Path) -> io::Result<Self> {
        let absent = match Self::of(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => error,
            found => return found,
        };
        let Some(name) = path.file_name() else {
            return Err(absent);
        };
        match mkdirat(&Self::made(folder_of(path))?.fd, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Self::of(path),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns who can write to the folder, for messages.
    fn why(&self) -> &'static str {
        if TrustedUsers::here().include(self.uid) {
            "that other users can write to"
        } else {
            "of another user"
        }
    }

    pub(super) fn refused(&self, what: &'static str, uid: u32) -> io::Error {
        io::Error::other(Refused {
            what,
            uid,
            folder: self.path.clone(),
            why: self.why(),
        })
    }

    fn is_proc(&self) -> bool {
        fstatfs(&self.fd).is_ok_and(|about| about.f_type == PROC_SUPER_MAGIC)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            uid,
            folder,
            why,
        } = self;
        write!(
            f,
            "refused: it is a {what} of user {uid}, in the folder {folder:?} {why}; delete it, or name a file in a folder of \
             your own"
        )
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "refused: it would be in the folder {:?} {}, who can put another file in its place; name a file in a folder of your \
             own",
            self.folder, self.why
        )
    }
}

impl std::error::Error for Shared {}

/// Opens a FIFO when it has a reader. The kernel would wait for one, too, and a signal that is caught does not end that.
fn open_fifo(path: &str, flags: OFlags) -> io::Result<File> {
    loop {
        match rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::empty()) {
            Ok(file) => {
                let flags = fcntl_getfl(&file)?;
                fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
                return Ok(file.into());
            }
            Err(Errno::NXIO) if interrupts::has_any_arrived() => {
                return Err(io::Error::other("interrupted: this FIFO has no reader"));
            }
            Err(Errno::NXIO) => std::thread::sleep(Duration::from_millis(20)),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Puts the components of a path in front of others.
fn push_front(ahead: &mut VecDeque<OsString>, path: &OsStr) {
    let bytes = path.as_bytes();
    // `file/` has to be a folder.
    if bytes.ends_with(b"/") {
        ahead.push_front(OsString::from("."));
    }
    for name in bytes.split(|&byte| byte == b'/').rev() {
        if !name.is_empty() && name != b"." {
            ahead.push_front(OsStr::from_bytes(name).to_owned());
        }
    }
    if bytes.starts_with(b"/") {
        ahead.push_front(OsString::from("/"));
    }
}

/// `MAXSYMLINKS` of the kernel's `include/linux/namei.h`.
const LINKS_MAX: u32 = 40;
