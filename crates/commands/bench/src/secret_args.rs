//! The option --secret-file.

use clap::Args;
use sockeye_load::session::{Secret, SecretError};
use std::path::PathBuf;

/// The secret that both ends share.
#[derive(Debug, Clone, Args)]
pub(crate) struct SecretArgs {
    /// File with the secret of both ends, which each proves to know; only its owner may have rights to it
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
}

impl SecretArgs {
    /// Reads the secret, if one was asked for.
    pub(crate) fn secret(&self) -> Result<Option<Secret>, SecretError> {
        self.secret_file.as_deref().map(Secret::read).transpose()
    }

    /// Returns the file as it was typed, for remedies.
    pub(crate) fn typed(&self) -> Option<String> {
        let path = self.secret_file.as_ref()?;
        Some(path.display().to_string())
    }
}
