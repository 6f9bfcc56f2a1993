//! Options of commands that ask a ClickHouse server.

use crate::tls_args::TlsArgs;
use anyhow::Context;
use clap::Args;
use std::path::{Path, PathBuf};

/// The server, and who asks it.
#[derive(Debug, Clone, Args)]
pub struct ServerArgs {
    /// The ClickHouse server, by its HTTP port, or with https:// by that for TLS
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8123")]
    pub url: String,
    /// The database with the tables
    #[arg(long, value_name = "NAME", default_value = "sockeye", value_parser = database)]
    pub database: String,
    /// The user
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub user: String,
    /// File with the password of the user, in its first line
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Whom to trust, with a URL that begins with `https`.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ServerArgs {
    /// Reads the password; `None`: there is none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn password(&self) -> anyhow::Result<Option<String>> {
        self.password_file.as_deref().map(read_password).transpose()
    }
}

/// Reads a password: the first line of a file.
///
/// # Errors
/// If the file cannot be read.
pub fn read_password(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Checks the name of a database.
///
/// # Errors
/// What it may have.
pub fn database(name: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err("expected letters, digits and _".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_is_a_plain_name() {
        assert_eq!(database("sockeye_2").as_deref(), Ok("sockeye_2"));
        for bad in ["", "a.b", "a b", "`a"] {
            assert!(database(bad).is_err(), "{bad}");
        }
    }
}
