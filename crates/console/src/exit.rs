//! Exit statuses: 0 success, 1 failure, 2 usage error.

use crate::notes;
use crate::stdout;
use crate::usage::UsageError;
use std::process::ExitCode;

/// Reports an error on standard error and returns the exit status for it.
///
/// A closed pipe is success: the reader of our output ended, as in `sockeye sockets | head`.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if stdout::is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(usage) = error.downcast_ref::<UsageError>() {
        notes::say(&usage.0);
        return ExitCode::from(2);
    }
    notes::say(&format!("sockeye: {error:#}\n"));
    ExitCode::FAILURE
}
