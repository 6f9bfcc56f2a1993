//! Finds programs in `PATH`.

use rustix::fs::{Access, FileType, access, stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns the path of a program as `execvp(3)` finds it: the name itself if it has a slash, else the first executable in
/// the folders of `PATH`.
///
/// # Errors
/// `EACCES` if all files of this name are not executable, `ENOENT` if there is none.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, Errno> {
    if name.as_bytes().contains(&b'/') {
        return check(Path::new(name)).map(|()| name.into());
    }
    if name.is_empty() {
        return Err(Errno::NOENT);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut error = Errno::NOENT;
    for folder in std::env::split_paths(&path) {
        let file = match folder.as_os_str().is_empty() {
            true => Path::new(".").join(name),
            false => folder.join(name),
        };
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(Errno::ACCESS) => error = Errno::ACCESS,
            Err(_) => {}
        }
    }
    Err(error)
}

/// Fails unless it is a regular file that we may execute.
fn check(file: &Path) -> Result<(), Errno> {
    if FileType::from_raw_mode(stat(file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    access(file, Access::EXEC_OK)
}

/// `_PATH_DEFPATH` of the C library.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_searches_path_and_takes_names_with_slash_as_they_are() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(find(own.as_os_str()), Ok(own));
        assert!(find(OsStr::new("sh")).is_ok());
        assert_eq!(find(OsStr::new("no such program")), Err(Errno::NOENT));
        assert_eq!(find(OsStr::new("")), Err(Errno::NOENT));
        assert_eq!(find(OsStr::new("/etc/passwd")), Err(Errno::ACCESS));
    }
}
