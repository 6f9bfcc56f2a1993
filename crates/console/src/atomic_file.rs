//! A file that is replaced atomically: until it is complete, its path keeps the old file or none.

use anyhow::{Context, bail};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file that appears at its path when it is finished, and not at all if it is dropped before.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    naming: Naming,
}

/// How the file gets its name.
#[derive(Debug)]
enum Naming {
    /// It has its name from the beginning: a device, a FIFO, or a file in a directory without write permission.
    InPlace,
    /// It has no name (`O_TMPFILE`), and vanishes if it gets none.
    Nameless { path: PathBuf, old: Option<Metadata> },
    /// It has a temporary name in the same directory, since the file system does not support `O_TMPFILE`.
    Temporary {
        path: PathBuf,
        old: Option<Metadata>,
        name: PathBuf,
    },
}

impl AtomicFile {
    /// Begins to write a file that will be found at `path`.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        Self::begin(path).map_err(|error| {
            let folder = folder_of(path);
            if error.kind() == ErrorKind::NotFound && !folder.exists() {
                return anyhow::anyhow!("create {path:?}: there is no directory {folder:?}");
            }
            anyhow::Error::new(error).context(format!("create {path:?}"))
        })
    }

    /// Gives the complete file its name.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let (Naming::Nameless { path, old } | Naming::Temporary { path, old, .. }) = &self.naming else {
            return Ok(());
        };
        if let Some(old) = old {
            // Keep the owner and mode of the old file, as far as permitted.
            let (owner, group) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
            let _ = rustix::fs::fchown(&self.file, Some(owner), Some(group));
            let _ = self
                .file
                .set_permissions(fs::Permissions::from_mode(old.mode() & 0o777));
        }
        let path = path.clone();
        self.rename().with_context(|| format!("create {path:?}"))?;
        // Nothing is left to clean up.
        self.naming = Naming::InPlace;
        Ok(())
    }

    /// Returns whether both paths lead to the same regular file.
    pub fn is_same(path: &Path, other: &Path) -> bool {
        let [one, other] = [path, other].map(|path| {
            let file = fs::metadata(path).ok().filter(Metadata::is_file)?;
            Some((file.dev(), file.ino()))
        });
        one.is_some() && one == other
    }

    fn begin(path: &Path) -> io::Result<Self> {
        let old = match fs::metadata(path) {
            Ok(old) => Some(old),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // `/dev/stdout` may be a file that another process has open.
        let is_special = OPEN.iter().any(|open| path.starts_with(open))
            || old.as_ref().is_some_and(|old| !old.is_file())
            || (old.is_none() && path.is_symlink());
        if is_special {
            return Self::in_place(path);
        }
        let target = match &old {
            // The target of a link is replaced, not the link.
            Some(_) => {
                // A rename must not replace a file without write permission.
                OpenOptions::new().append(true).open(path)?;
                fs::canonicalize(path)?
            }
            None => path.to_owned(),
        };
        let folder = folder_of(&target);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::TMPFILE;
        if let Ok(file) = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
            let naming = Naming::Nameless { path: target, old };
            return Ok(Self {
                file: File::from(file),
                naming,
            });
        }
        let exists = old.is_some();
        match Self::temporary(target, old) {
            // The file is writable, but its directory is not.
            Err(_) if exists => Self::in_place(path),
            done => done,
        }
    }

    fn temporary(path: PathBuf, old: Option<Metadata>) -> io::Result<Self> {
        let name = temporary_path(&path);
        Ok(Self {
            file: OpenOptions::new().write(true).create_new(true).open(&name)?,
            naming: Naming::Temporary { path, old, name },
        })
    }

    fn in_place(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // Append to what other processes have written, as `>>` does.
        let is_open = OPEN.iter().any(|open| path.starts_with(open));
        options.create(true).mode(0o666);
        options.append(is_open).write(true).truncate(!is_open);
        Ok(Self {
            file: options.open(path)?,
            naming: Naming::InPlace,
        })
    }

    fn rename(&self) -> anyhow::Result<()> {
        match &self.naming {
            Naming::InPlace => Ok(()),
            Naming::Temporary { path, name, .. } => fs::rename(name, path).map_err(Into::into),
            Naming::Nameless { path, .. } => {
                let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                let link = |to: &Path| rustix::fs::linkat(CWD, &*open, CWD, to, AtFlags::SYMLINK_FOLLOW);
                match link(path) {
                    Ok(()) => return Ok(()),
                    Err(rustix::io::Errno::EXIST) => {}
                    Err(errno) => bail!(io::Error::from(errno)),
                }
                // A link does not replace a file, a rename does.
                let name = temporary_path(path);
                link(&name).map_err(io::Error::from)?;
                fs::rename(&name, path).inspect_err(|_| drop(fs::remove_file(&name)))?;
                Ok(())
            }
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Naming::Temporary { name, .. } = &self.naming {
            let _ = fs::remove_file(name);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Returns a path in the same directory that no other process uses.
fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A name of the maximum length cannot be extended.
    let short: String = name.chars().take(40).collect();
    path.with_file_name(format!(".{short}.{}.part", std::process::id()))
}

/// Paths of files that are already open.
const OPEN: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_file_replaces_only_when_finished() {
        let folder = std::env::temp_dir().join(format!("sockeye-replacement-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a directory");
        let path = folder.join("picture.svg");
        let names = || {
            let entries = fs::read_dir(&folder).expect("list").flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        let write = |text: &[u8]| {
            let mut file = AtomicFile::temporary(path.clone(), fs::metadata(&path).ok()).expect("create");
            file.write_all(text).expect("write");
            file
        };
        write(b"first").finish().expect("rename");
        assert_eq!(fs::read(&path).expect("read"), b"first");
        let half = write(b"half");
        assert_eq!(names().len(), 2);
        drop(half);
        assert_eq!(names(), ["picture.svg"]);
        assert_eq!(fs::read(&path).expect("read"), b"first");
        write(b"second").finish().expect("rename");
        assert_eq!(fs::read(&path).expect("read"), b"second");
        assert_eq!(names(), ["picture.svg"]);
        fs::remove_dir_all(&folder).expect("clean up");
    }
}
