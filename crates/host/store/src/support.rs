//! Whether a store can be written, without writing one.

use rustix::fs::{Access, AtFlags, CWD, StatVfs, accessat, statfs, statvfs};
use rustix::io::Errno;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a store cannot be written at a place, or not well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreProblem {
    /// This file or folder is not writable.
    NotWritable(PathBuf, Errno),
    /// It is on a file system that other hosts may have, too, of this name: SQLite's log needs memory that all who use the store share.
    Remote(PathBuf, &'static str),
    /// So many bytes are free there.
    LittleSpace(PathBuf, u64),
}

impl StoreProblem {
    /// Whether nothing is recorded there.
    #[must_use]
    pub const fn prevents(&self) -> bool {
        matches!(self, Self::NotWritable(..))
    }
}

impl fmt::Display for StoreProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWritable(path, errno) => write!(
                f,
                "{} cannot be written to: {}; --store FILE names another place",
                path.display(),
                std::io::Error::from(*errno)
            ),
            Self::Remote(path, kind) => write!(
                f,
                "{} is on {kind}, where SQLite's log (WAL) does not work for several hosts; --store FILE on a local disk is safe",
                path.display()
            ),
            Self::LittleSpace(path, bytes) => write!(
                f,
                "only {} MB are free at {}; --store FILE names another place",
                bytes / 1_000_000,
                path.display()
            ),
        }
    }
}

/// Looks for what keeps a store from being written at this path, by rights, file system and free space. Nothing is created or changed.
#[must_use]
pub fn problem_at(path: &Path) -> Option<StoreProblem> {
    let may = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS);
    // A store that is there; its log is made next to it.
    match may(path, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Some(StoreProblem::NotWritable(path.to_owned(), errno)),
    }
    let mut folder = path.parent()?;
    loop {
        // A name without a folder is in the current one.
        let place = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        match may(place, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => return problem_of_file_system(place),
            // `record` creates it.
            Err(Errno::NOENT) => folder = folder.parent()?,
            Err(errno) => return Some(StoreProblem::NotWritable(place.to_owned(), errno)),
        }
    }
}

fn problem_of_file_system(folder: &Path) -> Option<StoreProblem> {
    let kind = statfs(folder).ok().and_then(|found| remote(found.f_type as u32));
    if let Some(kind) = kind {
        return Some(StoreProblem::Remote(folder.to_owned(), kind));
    }
    let StatVfs {
        f_bavail, f_frsize, ..
    } = statvfs(folder).ok()?;
    let free = f_bavail.saturating_mul(f_frsize);
    (free < SPACE_BYTES_MIN).then(|| StoreProblem::LittleSpace(folder.to_owned(), free))
}

/// Returns the name of a file system that several hosts can have, by its number (`include/uapi/linux/magic.h`, `fs/smb/common/smbglob.h`).
const fn remote(number: u32) -> Option<&'static str> {
    Some(match number {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x0102_1997 => "9p",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "Ceph",
        0x7461_636f => "OCFS2",
        0x0116_1970 => "GFS2",
        _ => return None,
    })
}

/// A store of an hour of a busy host.
const SPACE_BYTES_MIN: u64 = 64_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_not_there_are_created() {
        let folder = std::env::temp_dir();
        let path = folder.join("sockeye-no-such-folder/deeper/record.db");
        assert_ne!(
            problem_at(&path).map(|problem| problem.prevents()),
            Some(true),
            "{path:?}"
        );
        assert!(!path.exists());
    }

    #[test]
    fn place_that_cannot_be_written_to_is_named() {
        // Not even root may.
        let path = Path::new("/proc/sys/net/record.db");
        match problem_at(path) {
            Some(StoreProblem::NotWritable(place, _)) => assert_eq!(place, Path::new("/proc/sys/net")),
            other => panic!("{other:?}"),
        }
        let below_a_file = Path::new("/proc/version/sockeye/record.db");
        assert!(problem_at(below_a_file).is_some_and(|problem| problem.prevents()));
    }

    #[test]
    fn file_systems_of_several_hosts_are_known_by_their_numbers() {
        assert_eq!(remote(0x6969), Some("NFS"));
        // ext4, tmpfs
        assert_eq!((remote(0xef53), remote(0x0102_1994)), (None, None));
    }
}
