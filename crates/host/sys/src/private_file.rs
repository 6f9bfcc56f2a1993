//! Files with secrets: no other user knows what is in them.

use crate::trusted_users::TrustedUsers;
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a file is not read as a secret.
#[derive(Debug)]
pub struct PrivateFileError {
    path: PathBuf,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    Unreadable(io::Error),
    /// It is a FIFO, a device or a folder.
    NoFile,
    /// Others can access it; its mode.
    Exposed(u32),
    /// Another user can read and replace it.
    OfUser(u32),
    /// It has more bytes than this.
    Long(usize),
}

/// Reads a file of at most `max` bytes that belongs to a trusted user, and that no other user can access.
///
/// # Errors
/// If it cannot be read, is longer, or another user can access it.
pub fn read(path: &Path, max: usize) -> Result<Vec<u8>, PrivateFileError> {
    let failed = |reason| PrivateFileError {
        path: path.to_owned(),
        reason,
    };
    let unreadable = |error| failed(Reason::Unreadable(error));
    // The opening of a FIFO would wait for its writer, and no signal that is caught ends that.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err(failed(Reason::NoFile));
    }
    let mode = about.permissions().mode() & 0o777;
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY");
    if mode & forbidden_mode(path, credentials.as_deref()) != 0 {
        return Err(failed(Reason::Exposed(mode)));
    }
    if !TrustedUsers::here().include(about.uid()) {
        return Err(failed(Reason::OfUser(about.uid())));
    }
    let mut bytes = Vec::new();
    file.take(max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() > max {
        return Err(failed(Reason::Long(max)));
    }
    Ok(bytes)
}

/// Returns the mode bits that give others access.
///
/// systemd lets the user of a unit read a credential by an ACL, whose mask is what the mode shows as rights of the group. Others cannot
/// enter the folder of credentials.
fn forbidden_mode(path: &Path, credentials: Option<&OsStr>) -> u32 {
    if credentials.is_some_and(|folder| path.parent() == Some(Path::new(folder))) {
        0o037
    } else {
        0o077
    }
}

impl fmt::Display for PrivateFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.reason {
            Reason::Unreadable(error) => write!(f, "read the secret in {path}: {error}"),
            Reason::NoFile => write!(f, "read the secret in {path}: not a regular file"),
            Reason::Exposed(mode) => write!(
                f,
                "the secret in {path} is open to other users (mode {mode:04o}): `chmod 600 {path}`"
            ),
            Reason::OfUser(uid) => write!(
                f,
                "the secret in {path} belongs to user {uid}, who knows it and can replace it: make one of your own"
            ),
            Reason::Long(max) => write!(f, "the secret in {path} has more than {max} bytes"),
        }
    }
}

impl std::error::Error for PrivateFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            Reason::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_credential_of_systemd_may_show_rights_of_the_group() {
        let credentials = Some(OsStr::new("/run/credentials/sockeye-bench.service"));
        let path = Path::new("/run/credentials/sockeye-bench.service/secret");
        for (path, credentials, refused) in [
            (path, credentials, 0o037),
            (path, None, 0o077),
            (Path::new("/etc/sockeye/bench-secret"), credentials, 0o077),
            (
                Path::new("/run/credentials/sockeye-bench.service/sub/secret"),
                credentials,
                0o077,
            ),
        ] {
            assert_eq!(forbidden_mode(path, credentials), refused, "{}", path.display());
        }
    }
}
