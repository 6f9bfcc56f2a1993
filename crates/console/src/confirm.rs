//! Whether what was typed is really meant.

use crate::notes;
use crate::usage::Usage;
use anyhow::Context;
use std::io::{self, BufRead, IsTerminal};

/// Puts a question that only `y` and `yes` answer with yes. Without anybody to ask it is a mistake on the command line,
/// and `mistake` says which.
pub fn confirm(question: &str, mistake: impl FnOnce() -> String) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Usage(mistake()).into());
    }
    notes::say(&format!("{question} [y/N] "));
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .context("read the answer")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
