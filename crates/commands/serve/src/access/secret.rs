//! The secret of a server that others can reach.

use super::token::are_equal;
use anyhow::{Context, ensure};
use rustix::fs::{Mode, fstat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A secret that people type or scripts send.
pub(crate) struct Secret(String);

impl Secret {
    /// Reads the first line of a file that only its owner may read.
    ///
    /// # Errors
    /// If it cannot be read, others may read it, or it is too short to be a secret.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let describe = || format!("--secret-file {}", path.display());
        let file = File::open(path).with_context(describe)?;
        let mode = Mode::from_raw_mode(fstat(&file).with_context(describe)?.st_mode);
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY");
        ensure!(
            !mode.intersects(forbidden_mode(path, credentials.as_deref())),
            "{}: other users may read it: chmod 600",
            describe()
        );
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).with_context(describe)?;
        let line = text.lines().next().unwrap_or_default();
        ensure!(
            line.len() >= BYTES_MIN,
            "{}: its first line has {} bytes, fewer than {BYTES_MIN}: anyone could guess it",
            describe(),
            line.len()
        );
        Ok(Self(line.to_owned()))
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        are_equal(self.0.as_bytes(), text.as_bytes())
    }

    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Returns the rights that others must not have. systemd lets the user of a unit read a credential by an ACL, which shows as rights of
/// the group; others cannot enter the folder of credentials.
fn forbidden_mode(path: &Path, credentials: Option<&OsStr>) -> Mode {
    let others = Mode::WGRP | Mode::ROTH | Mode::WOTH;
    let is_credential = credentials.is_some_and(|folder| path.parent() == Some(Path::new(folder)));
    if is_credential {
        others
    } else {
        others | Mode::RGRP
    }
}

/// Bytes of the shortest secret.
const BYTES_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_credential_may_show_rights_of_the_group() {
        let of = |path: &str| forbidden_mode(Path::new(path), Some(OsStr::new("/run/credentials/serve")));
        assert!(!of("/run/credentials/serve/secret").contains(Mode::RGRP));
        assert!(of("/etc/sockeye/secret").contains(Mode::RGRP));
        assert!(of("/run/credentials/serve/secret").contains(Mode::ROTH | Mode::WGRP));
        assert!(forbidden_mode(Path::new("/a/b"), None).contains(Mode::RGRP));
    }
}
