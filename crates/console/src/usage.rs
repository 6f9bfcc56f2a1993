//! Mistakes on the command line.

use sockeye_output::UnknownColumn;
use std::fmt;

/// A mistake on the command line, with the text that explains it.
#[derive(Debug)]
pub struct Usage(pub String);

impl Usage {
    /// There are far too many columns to list them where one was mistyped.
    pub fn unknown_column(option: &str, command: &str, error: UnknownColumn) -> Self {
        let UnknownColumn { name, nearest, .. } = error;
        let guess = nearest.map_or(String::new(), |nearest| format!("; did you mean '{nearest}'?"));
        Self(format!(
            "sockeye: {option}: unknown column '{name}'{guess}\n`sockeye {command} --columns help` lists all columns.\n"
        ))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

impl std::error::Error for Usage {}
