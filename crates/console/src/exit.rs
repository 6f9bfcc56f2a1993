//! Exit statuses: 0 fine, 1 something failed, 2 a mistake on the command line.

use crate::notes;
use crate::stdout;
use crate::usage::Usage;
use std::process::ExitCode;

/// Reports an error on standard error and returns the exit status for it.
///
/// A closed pipe is success: the reader of our output has read enough, as in `sockeye sockets | head`.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if stdout::is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(usage) = error.downcast_ref::<Usage>() {
        notes::say(&usage.0);
        return ExitCode::from(2);
    }
    notes::say(&format!("sockeye: {error:#}\n"));
    ExitCode::FAILURE
}
