//! Usage errors.

use sockeye_output::UnknownColumn;
use std::fmt;

/// A usage error, with the text that explains it. It ends in a newline.
#[derive(Debug)]
pub struct UsageError(pub String);

impl UsageError {
    /// An unknown column, with the nearest known one and a hint at the list of all, which is too long for an error.
    pub fn unknown_column(option: &str, command: &str, error: &UnknownColumn) -> Self {
        let message = error.message();
        Self(format!(
            "sockeye: {option}: {message}\n`sockeye {command} --columns help` lists all columns.\n"
        ))
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

impl std::error::Error for UsageError {}
