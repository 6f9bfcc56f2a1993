//! Exit statuses: 0 success, 1 failure, 2 usage error, or something that another process has.

use crate::notes;
use crate::stdout;
use crate::usage::UsageError;
use std::process::ExitCode;
use std::{fmt, io};

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
    if error.downcast_ref::<InUse>().is_some() {
        return ExitCode::from(2);
    }
    ExitCode::FAILURE
}

/// Another process has what this one needs: the address to listen on, or a file that one process writes. To try again does not help as
/// long as it runs, so a service is not started again: the exit status is that of a usage error.
#[derive(Debug)]
pub struct InUse(pub String);

impl InUse {
    /// Returns the error of listening on an address: as this one, if another process listens there.
    #[must_use]
    pub fn of_address(error: io::Error) -> anyhow::Error {
        if error.kind() == io::ErrorKind::AddrInUse {
            Self(error.to_string()).into()
        } else {
            error.into()
        }
    }
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InUse {}

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
