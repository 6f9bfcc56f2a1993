//! Where the files are, and which of them are read.

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A file that may have settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    /// Whether the user named it: then it has to exist.
    pub(crate) is_named: bool,
}

/// What reading a file gave.
#[derive(Debug)]
pub(crate) enum Contents {
    Text(String),
    /// There is none, or it cannot be seen; the reason.
    Absent(String),
    /// There is one that is not read; the reason, with a remedy.
    Refused(String),
}

/// Returns the files, the first of which counts most: that of the user, and that of the system. None if `SOCKEYE_CONFIG` is set and empty.
pub(crate) fn candidates() -> Vec<Candidate> {
    let own = match env::var_os("SOCKEYE_CONFIG") {
        Some(path) if path.is_empty() => return Vec::new(),
        Some(path) => Some(Candidate {
            path: path.into(),
            is_named: true,
        }),
        None => user_folder().map(|folder| Candidate {
            path: folder.join("sockeye/config.toml"),
            is_named: false,
        }),
    };
    let system = Candidate {
        path: SYSTEM.into(),
        is_named: false,
    };
    own.into_iter().chain([system]).collect()
}

/// Returns the folder of the user's settings. Under sudo it is root's, also if sudo left the caller's variables: what root does, the caller
/// does not decide.
fn user_folder() -> Option<PathBuf> {
    let is_sudo = rustix::process::geteuid().is_root() && env::var_os("SUDO_UID").is_some();
    if is_sudo {
        return Some(home_of_root().join(".config"));
    }
    let absolute = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))
}

fn home_of_root() -> PathBuf {
    let users = std::fs::read("/etc/passwd").unwrap_or_default();
    let home = users.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':').skip(2);
        let uid = fields.next()?;
        let home = fields.nth(2)?;
        (uid == b"0" && home.starts_with(b"/")).then(|| {
            let home: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(home);
            PathBuf::from(home)
        })
    });
    home.unwrap_or_else(|| "/root".into())
}

/// Returns whether there is no such file, and need not be.
pub(crate) fn is_absent(candidate: &Candidate) -> bool {
    let opened = open(&candidate.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    !candidate.is_named && matches!(opened, Err(Errno::NOENT | Errno::NOTDIR))
}

/// Reads a file, if only root and the user can have written it.
pub(crate) fn read(candidate: &Candidate) -> Contents {
    let path = &candidate.path;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(errno) => {
            let reason = std::io::Error::from(errno).to_string();
            return match errno {
                Errno::NOENT | Errno::NOTDIR if !candidate.is_named => {
                    Contents::Absent("not there".to_owned())
                }
                // The home of another user, or a file for others: it cannot be seen whether one is there.
                Errno::ACCESS if !candidate.is_named => Contents::Absent(reason),
                _ => Contents::Refused(reason),
            };
        }
    };
    read_open(path, file).unwrap_or_else(Contents::Refused)
}

fn read_open(path: &Path, file: File) -> Result<Contents, String> {
    let stat = fstat(&file).map_err(|errno| std::io::Error::from(errno).to_string())?;
    let shown = path.display();
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("not read: it is no regular file".to_owned());
    }
    let uid = rustix::process::geteuid().as_raw();
    if stat.st_uid != 0 && stat.st_uid != uid {
        return Err(format!(
            "not read: it belongs to user {}, and sockeye runs as user {uid}; `chown {uid} {shown}`",
            stat.st_uid
        ));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(format!(
            "not read: other users can write it; `chmod go-w {shown}`"
        ));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("not read: it is larger than {BYTES_MAX} bytes"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Contents::Text(text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(format!("not read: byte {} is not UTF-8", at + 1))
        }
    }
}

const SYSTEM: &str = "/etc/sockeye/config.toml";
const BYTES_MAX: u64 = 65_536;
