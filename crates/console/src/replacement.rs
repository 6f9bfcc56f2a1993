//! A file that appears under its name as a whole, or not at all: what stood there before stays until then.

use anyhow::{Context, bail};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file that is being written.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    way: Way,
}

/// How it gets its name.
#[derive(Debug)]
enum Way {
    /// It has it: a device, a FIFO, or a file in a directory that takes no new one
    Straight,
    /// It has none yet, and goes away with us
    Nameless { wanted: PathBuf, old: Option<Metadata> },
    /// It has another beside it, where the file system knows no files without names
    Beside {
        wanted: PathBuf,
        old: Option<Metadata>,
        name: PathBuf,
    },
}

impl Replacement {
    /// Begins to write what will be found at `path`.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        Self::begin(path).map_err(|error| {
            let folder = folder_of(path);
            if error.kind() == ErrorKind::NotFound && !folder.exists() {
                return anyhow::anyhow!("create {path:?}: there is no directory {folder:?}");
            }
            anyhow::Error::new(error).context(format!("create {path:?}"))
        })
    }

    /// All was written: from here on it is found under its name.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let (Way::Nameless { wanted, old } | Way::Beside { wanted, old, .. }) = &self.way else {
            return Ok(());
        };
        if let Some(old) = old {
            // As far as we may: it belongs to whom the old one belonged to.
            let (owner, group) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
            let _ = rustix::fs::fchown(&self.file, Some(owner), Some(group));
            let _ = self
                .file
                .set_permissions(fs::Permissions::from_mode(old.mode() & 0o777));
        }
        let wanted = wanted.clone();
        self.rename().with_context(|| format!("create {wanted:?}"))?;
        // Nothing is left to be cleaned up.
        self.way = Way::Straight;
        Ok(())
    }

    /// Whether it would be this very file.
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
        // `/dev/stdout` may be a file that somebody else has open.
        let is_special = OPEN.iter().any(|open| path.starts_with(open))
            || old.as_ref().is_some_and(|old| !old.is_file())
            || (old.is_none() && path.is_symlink());
        if is_special {
            return Self::straight(path);
        }
        let wanted = match &old {
            // What a link leads to is replaced, not the link.
            Some(_) => {
                // Nobody may lose by renaming what he could not have written to.
                OpenOptions::new().append(true).open(path)?;
                fs::canonicalize(path)?
            }
            None => path.to_owned(),
        };
        let folder = folder_of(&wanted);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::TMPFILE;
        if let Ok(file) = rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
            let way = Way::Nameless { wanted, old };
            return Ok(Self {
                file: File::from(file),
                way,
            });
        }
        let is_there = old.is_some();
        match Self::beside(wanted, old) {
            // It can be written to, but nothing beside it.
            Err(_) if is_there => Self::straight(path),
            done => done,
        }
    }

    fn beside(wanted: PathBuf, old: Option<Metadata>) -> io::Result<Self> {
        let name = beside(&wanted);
        Ok(Self {
            file: OpenOptions::new().write(true).create_new(true).open(&name)?,
            way: Way::Beside { wanted, old, name },
        })
    }

    fn straight(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // Behind what somebody else has written to it, as `>>` wants it.
        let is_open = OPEN.iter().any(|open| path.starts_with(open));
        options.create(true).mode(0o666);
        options.append(is_open).write(true).truncate(!is_open);
        Ok(Self {
            file: options.open(path)?,
            way: Way::Straight,
        })
    }

    fn rename(&self) -> anyhow::Result<()> {
        match &self.way {
            Way::Straight => Ok(()),
            Way::Beside { wanted, name, .. } => fs::rename(name, wanted).map_err(Into::into),
            Way::Nameless { wanted, .. } => {
                let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                let link = |to: &Path| rustix::fs::linkat(CWD, &*open, CWD, to, AtFlags::SYMLINK_FOLLOW);
                match link(wanted) {
                    Ok(()) => return Ok(()),
                    Err(rustix::io::Errno::EXIST) => {}
                    Err(errno) => bail!(io::Error::from(errno)),
                }
                // A link replaces nothing, but a rename does.
                let name = beside(wanted);
                link(&name).map_err(io::Error::from)?;
                fs::rename(&name, wanted).inspect_err(|_| drop(fs::remove_file(&name)))?;
                Ok(())
            }
        }
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Way::Beside { name, .. } = &self.way {
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

/// A name in the same directory that nobody else takes.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Names of the longest kind have no room for more.
    let short: String = name.chars().take(40).collect();
    path.with_file_name(format!(".{short}.{}.part", std::process::id()))
}

/// Names of what is open already
const OPEN: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the file system knows no files without names.
    #[test]
    fn beside_the_wanted_name() {
        let folder = std::env::temp_dir().join(format!("sockeye-replacement-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a directory");
        let wanted = folder.join("picture.svg");
        let names = || {
            let entries = fs::read_dir(&folder).expect("list").flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        let write = |text: &[u8]| {
            let mut file = Replacement::beside(wanted.clone(), fs::metadata(&wanted).ok()).expect("create");
            file.write_all(text).expect("write");
            file
        };
        write(b"first").finish().expect("rename");
        assert_eq!(fs::read(&wanted).expect("read"), b"first");
        let half = write(b"half");
        assert_eq!(names().len(), 2);
        drop(half);
        assert_eq!(names(), ["picture.svg"]);
        assert_eq!(fs::read(&wanted).expect("read"), b"first");
        write(b"second").finish().expect("rename");
        assert_eq!(fs::read(&wanted).expect("read"), b"second");
        assert_eq!(names(), ["picture.svg"]);
        fs::remove_dir_all(&folder).expect("clean up");
    }
}
