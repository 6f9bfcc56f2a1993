//! Paths of files that a library opens by their names: SQLite, which has files next to its own, and sockets.

use super::folder::{Folder, Place, Writers};
use super::folder_of;
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;
use sockeye_sys::trusted_users::TrustedUsers;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Returns where a path leads, without symbolic links, for what opens it by this name. Nothing is created.
///
/// # Errors
/// If another user made a link of the path, or what has the name, where that user could put it.
pub fn followed_path(path: &Path) -> io::Result<PathBuf> {
    Place::of(path).and_then(|place| checked(&place))
}

/// As [`followed_path`], for a database: a file with others next to it, which have these ends of their names. Folders that are missing are
/// created, for their owner only.
///
/// Where another user can make files, what is there already must be ours: call it again when the files are open.
///
/// # Errors
/// As there; of the files next to it, too; and if another user can rename all files of the folder.
pub fn database_path(path: &Path, side_files: &[&str]) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(Errno::ISDIR)?;
    let place = Folder::made(folder_of(path))?.place(name)?;
    let found = checked(&place)?;
    place.folder.check_names()?;
    for end in side_files {
        let mut name = place.name.clone();
        name.push(end);
        check_side_file(&place, &name)?;
    }
    Ok(found)
}

fn checked(place: &Place) -> io::Result<PathBuf> {
    place.check_entry()?;
    place.check_single()?;
    Ok(place.folder.path.join(&place.name))
}

/// Fails if a file next to another is no regular file, or another user's where that user could put it.
fn check_side_file(place: &Place, name: &OsStr) -> io::Result<()> {
    let folder = &place.folder;
    let stat = match statat(&folder.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        stat => stat?,
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    let file = folder.path.join(name);
    let file = file.display();
    if folder.writers == Writers::None {
        return match kind {
            FileType::RegularFile => Ok(()),
            _ => Err(io::Error::other(format!("{file} is no regular file: delete it"))),
        };
    }
    let what = match kind {
        FileType::RegularFile if !TrustedUsers::here().include(stat.st_uid) => "file",
        FileType::RegularFile if stat.st_nlink != 1 => "hard link to a file",
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        _ => "special file",
    };
    let refused = folder.refused(what, stat.st_uid);
    Err(io::Error::other(format!("{file}: {refused}")))
}
