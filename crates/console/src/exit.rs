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
    notes::say(&format!("sockeye: {}\n", with_causes(error)));
    ExitCode::FAILURE
}

/// Returns the text of an error and those of its causes, without a cause that the text has already: errors of some libraries have theirs in
/// their own text.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::with_causes;
    use anyhow::Context;
    use std::io::{Error, ErrorKind};

    #[test]
    fn cause_that_was_named_is_not_repeated() {
        let cause = || Error::from(ErrorKind::NotFound);
        let error = Err::<(), _>(Error::other(cause()));
        let error = error.context(format!("read it: {}", cause())).context("begin");
        assert_eq!(
            with_causes(&error.unwrap_err()),
            format!("begin: read it: {}", cause())
        );
        assert_eq!(
            with_causes(&anyhow::Error::from(cause()).context("begin")),
            format!("begin: {}", cause())
        );
    }
}
