//! Asks the user before something is changed: `keepalive`, `kill` and `ns del`, unless `--yes` was typed. Only an answer that
//! was typed on a terminal counts.

use crate::notes;
use crate::usage::UsageError;
use anyhow::Context;
use std::io::{self, BufRead, IsTerminal};

/// Asks a question and returns whether the answer is `y` or `yes`.
///
/// # Errors
/// [`UsageError`] with the text from `usage` if standard input is not a terminal.
pub fn confirm(question: &str, usage: impl FnOnce() -> String) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(UsageError(usage()).into());
    }
    notes::say(&format!("{question} [y/N] "));
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .context("read the answer")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
