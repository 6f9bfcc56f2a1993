//! The secret of a server that others can reach.

use super::token::are_equal;
use anyhow::{Context, ensure};
use sockeye_sys::private_file;
use std::path::Path;

/// A secret that people type or scripts send.
pub(crate) struct Secret(String);

impl Secret {
    /// Reads the first line of a file that only its owner may read.
    ///
    /// # Errors
    /// If it cannot be read, others may read it, or it is too short to be a secret.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = private_file::read(path, BYTES_MAX)?;
        let text = String::from_utf8(bytes)
            .with_context(|| format!("--secret-file {}: it is not UTF-8", path.display()))?;
        let line = text.lines().next().unwrap_or_default();
        ensure!(
            line.len() >= BYTES_MIN,
            "--secret-file {}: its first line has {} bytes, fewer than {BYTES_MIN}: anyone could guess it",
            path.display(),
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

/// Bytes of the shortest secret.
const BYTES_MIN: usize = 16;
/// Bytes of the longest file.
const BYTES_MAX: usize = 4096;
