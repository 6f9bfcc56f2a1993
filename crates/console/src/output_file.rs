//! Output files: all files that commands create for the user are created here.
//!
//! A file appears at its path when it is complete ([`OutputFile::create`]), or at once if it grows ([`OutputFile::begin`]).
//! Either way it is a new file that takes the name: what had the name before is not written to, so that hard links keep
//! their content. FIFOs, devices and open descriptors that the user names are written to in place.
//!
//! Other users may have prepared the folder. Where they can write to it (`/tmp`, a folder of mode 0777, their own folder):
//! - their symbolic links are not followed, as the file or as a folder of the path; in a folder without the sticky bit no
//!   link is followed, since they can rename those of others;
//! - their files, FIFOs and devices are not replaced and not written to;
//! - the owner of the new file is we, or the user who called us by sudo; never that of the file before.
//!
//! A file that a library opens by its name, as a database, has its path checked before ([`database_path`], [`followed_path`]).
//!
//! The checks hold for what is opened then, not for a name that may mean another file a moment later: the folder is open,
//! and files are reopened by descriptor.

mod folder;
mod named;

pub use named::{database_path, followed_path};

use anyhow::Context;
use folder::{Folder, Place};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;
use sockeye_sys::trusted_users::{Caller, TrustedUsers};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file that is being written. It has its name from the beginning, or gets it when it is finished, and then has none if
/// it is dropped before.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    naming: Naming,
}

/// Who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Everybody whom the umask allows.
    All,
    /// Its owner (mode 0600); under sudo the caller, whose it then is, and the caller's group (mode 0640).
    Owner,
}

/// A folder for several output files.
#[derive(Debug)]
pub struct OutputFolder {
    folder: Folder,
    path: PathBuf,
}

/// How the file gets its name.
#[derive(Debug)]
enum Naming {
    /// It has its name: it is finished or in place.
    Done,
    /// It has no name (`O_TMPFILE`), and vanishes if it gets none.
    Nameless(Box<Place>),
    /// It has a temporary name in the same folder, since the file system does not support `O_TMPFILE`.
    Temporary(Box<Place>, OsString),
}

impl OutputFile {
    /// Begins to write a file that will be found at `path` when it is finished. Until then the path keeps the old file or
    /// none.
    ///
    /// # Errors
    /// If the file cannot be created, or is refused because another user can have prepared it.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        Self::create_for(path, Readers::All)
    }

    /// As [`create`](Self::create), for a file that not everybody may read.
    ///
    /// # Errors
    /// As there.
    pub fn create_for(path: &Path, readers: Readers) -> anyhow::Result<Self> {
        Place::of(path)
            .and_then(|place| Self::new(place, readers))
            .map_err(|error| not_created(path, error))
    }

    /// Begins to write a file that is found at `path` at once, empty.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn begin(path: &Path, readers: Readers) -> io::Result<Self> {
        Self::begin_at(Place::of(path)?, readers)
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// If another process has made a folder of this name, or the folder was deleted.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let name = match &self.naming {
            Naming::Done => return Ok(()),
            Naming::Nameless(place) | Naming::Temporary(place, _) => place.name.clone(),
        };
        self.publish().with_context(|| format!("create {name:?}"))
    }

    /// Deletes temporary files for this path that a process has left which was killed while it replaced the file: our own ones,
    /// older than a minute.
    pub fn delete_left_over(path: &Path) {
        let (Ok(folder), Some(name)) = (OutputFolder::of(path), path.file_name()) else {
            return;
        };
        let prefix = format!(".{}.", short(name));
        let is_left_over = |file: &OsString| {
            let is_temporary = file.to_str().is_some_and(|file| {
                file.strip_prefix(&prefix)
                    .and_then(|rest| rest.strip_suffix(".part"))
                    .is_some_and(|random| {
                        random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
                    })
            });
            let age = || {
                fs::symlink_metadata(folder.path.join(file))
                    .ok()?
                    .modified()
                    .ok()?
                    .elapsed()
                    .ok()
            };
            is_temporary && age().is_some_and(|age| age > LEFT_OVER_AGE)
        };
        for file in folder.own_files().iter().filter(|file| is_left_over(file)) {
            // Another process may have deleted it.
            let _ = folder.delete(file);
        }
    }

    /// Returns the open file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Returns whether both paths lead to the same regular file.
    pub fn is_same(path: &Path, other: &Path) -> bool {
        let [one, other] = [path, other].map(|path| {
            let file = fs::metadata(path).ok().filter(Metadata::is_file)?;
            Some((file.dev(), file.ino()))
        });
        one.is_some() && one == other
    }

    fn begin_at(place: Place, readers: Readers) -> io::Result<Self> {
        let mut new = Self::new(place, readers)?;
        new.publish()?;
        Ok(new)
    }

    fn new(place: Place, readers: Readers) -> io::Result<Self> {
        place.check_entry()?;
        if let Some(entry) = &place.entry {
            if entry.is_descriptor || entry.kind() != FileType::RegularFile || place.is_mount() {
                return Self::in_place(&place);
            }
            // A rename must not replace a file without write permission.
            place.open_entry(OFlags::empty())?;
        }
        if let Some(file) = Self::nameless(&place, readers) {
            hand_over(&file, &place, readers);
            let naming = Naming::Nameless(Box::new(place));
            return Ok(Self { file, naming });
        }
        let (file, name) = match Self::temporary(&place, readers) {
            // The file is writable, but its folder is not.
            Err(error) if place.entry.is_some() && is_denied(&error) => return Self::in_place(&place),
            done => done?,
        };
        hand_over(&file, &place, readers);
        let naming = Naming::Temporary(Box::new(place), name);
        Ok(Self { file, naming })
    }

    /// Creates a file without a name; `None` if that is not possible.
    fn nameless(place: &Place, readers: Readers) -> Option<File> {
        // Without /proc it could not get a name.
        if !Path::new(OWN_DESCRIPTORS).exists() {
            return None;
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::TMPFILE;
        let file = openat(&place.folder.fd, ".", flags, readers.mode());
        file.ok().map(File::from)
    }

    /// Creates a file with a temporary name.
    fn temporary(place: &Place, readers: Readers) -> io::Result<(File, OsString)> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let create = |name: &OsStr| openat(&place.folder.fd, name, flags, readers.mode());
        with_free_name(&place.name, create).map(|(file, name)| (file.into(), name))
    }

    /// Writes to what has the name: a FIFO, a device, an open descriptor, or a file that cannot be replaced.
    fn in_place(place: &Place) -> io::Result<Self> {
        let is_descriptor = place.entry.as_ref().is_some_and(|entry| entry.is_descriptor);
        // Append to what other processes have written, as `>>` does.
        let flags = if is_descriptor {
            OFlags::APPEND
        } else {
            place.check_single()?;
            OFlags::empty()
        };
        let file = place.open_entry(flags)?.ok_or(ErrorKind::NotFound)?;
        if !is_descriptor && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(Self {
            file,
            naming: Naming::Done,
        })
    }

    /// Gives the file its name, and does so at most once.
    fn publish(&mut self) -> io::Result<()> {
        match &self.naming {
            Naming::Done => return Ok(()),
            Naming::Temporary(place, name) => {
                renameat(&place.folder.fd, name, &place.folder.fd, &place.name)?;
            }
            Naming::Nameless(place) => {
                let folder = &place.folder.fd;
                let open = format!("{OWN_DESCRIPTORS}/{}", self.file.as_raw_fd());
                let link =
                    |name: &OsStr| linkat(rustix::fs::CWD, &*open, folder, name, AtFlags::SYMLINK_FOLLOW);
                match link(&place.name) {
                    Ok(()) => {}
                    // A link does not replace a file, a rename does.
                    Err(Errno::EXIST) => {
                        let ((), name) = with_free_name(&place.name, link)?;
                        renameat(folder, &name, folder, &place.name).inspect_err(|_| {
                            let _ = unlinkat(folder, &name, AtFlags::empty());
                        })?;
                    }
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        // Nothing is left to clean up.
        self.naming = Naming::Done;
        Ok(())
    }
}

impl Readers {
    /// Mode of a file until it is handed over.
    fn mode(self) -> Mode {
        Mode::from_raw_mode(match self {
            Self::All => 0o666,
            Self::Owner => 0o600,
        })
    }
}

impl OutputFolder {
    /// Opens the folder of a path.
    ///
    /// # Errors
    /// If there is none, or a part of its path is another user's link.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            folder: Folder::of(folder_of(path))?,
            path: folder_of(path).to_owned(),
        })
    }

    /// Begins to write a file of this name, as [`OutputFile::begin`].
    ///
    /// # Errors
    /// As there.
    pub fn begin(&self, name: &OsStr, readers: Readers) -> io::Result<OutputFile> {
        OutputFile::begin_at(self.folder.place(name)?, readers)
    }

    /// Returns the names of regular files that we or the caller own.
    pub fn own_files(&self) -> Vec<OsString> {
        let users = TrustedUsers::here();
        let is_own = |entry: &fs::DirEntry| {
            entry
                .metadata()
                .is_ok_and(|file| file.is_file() && users.include(file.uid()))
        };
        let listed = fs::read_dir(&self.path).into_iter().flatten().flatten();
        listed.filter(is_own).map(|entry| entry.file_name()).collect()
    }

    /// Deletes a file of this name, if there is one.
    ///
    /// # Errors
    /// The errno of `unlinkat(2)`.
    pub fn delete(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.folder.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Sets the mode and owner of a new file that has no name yet.
fn hand_over(file: &File, place: &Place, readers: Readers) {
    let caller = Caller::of_sudo();
    // What only its owner may read is the caller's; other files are in the caller's own folder.
    if let Some(caller) = caller.filter(|caller| readers == Readers::Owner || place.folder.uid == caller.uid)
    {
        let (uid, gid) = (Uid::from_raw(caller.uid), Gid::from_raw(caller.gid));
        let is_given = rustix::fs::fchown(file, Some(uid), Some(gid)).is_ok();
        if is_given && readers == Readers::Owner {
            let _ = file.set_permissions(fs::Permissions::from_mode(0o640));
        }
    }
    // The user has set the mode of the file that is replaced.
    if let Some(old) = place.entry.as_ref().filter(|_| place.is_private()) {
        let _ = file.set_permissions(fs::Permissions::from_mode(old.stat.st_mode & 0o777));
    }
}

/// Returns the error of a file that cannot be created.
fn not_created(path: &Path, error: io::Error) -> anyhow::Error {
    let folder = folder_of(path);
    if error.kind() == ErrorKind::NotFound && !folder.exists() {
        return anyhow::anyhow!("create {path:?}: there is no directory {folder:?}");
    }
    anyhow::Error::new(error).context(format!("create {path:?}"))
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Naming::Temporary(place, name) = &self.naming {
            let _ = unlinkat(&place.folder.fd, name, AtFlags::empty());
        }
    }
}

/// Returns whether a file cannot be created because of permissions or a read-only file system.
fn is_denied(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// The beginning of a name, for temporary names: one of the maximum length cannot be extended.
fn short(name: &OsStr) -> String {
    name.to_string_lossy().chars().take(40).collect()
}

/// Calls `create` with names for a temporary file until it finds one that is free. No other user can guess them.
fn with_free_name<T>(
    name: &OsStr,
    mut create: impl FnMut(&OsStr) -> Result<T, Errno>,
) -> io::Result<(T, OsString)> {
    let short = short(name);
    let mut tries = 0;
    loop {
        let random = RandomState::new().hash_one(tries);
        let free = OsString::from(format!(".{short}.{random:016x}.part"));
        match create(&free) {
            Err(Errno::EXIST) if tries < TRIES => tries += 1,
            done => return Ok((done?, free)),
        }
    }
}

/// A temporary file of this age is in use by no process: it has its temporary name for microseconds, or for as long as it is written.
const LEFT_OVER_AGE: Duration = Duration::from_secs(60);
/// Names that are tried for a temporary file.
const TRIES: u32 = 16;
/// Folder of our descriptors.
const OWN_DESCRIPTORS: &str = "/proc/self/fd";

#[cfg(test)]
mod tests;
