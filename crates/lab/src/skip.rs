//! The skip of a test where the machine lacks something, and the macro `need!`. `scripts/test` counts skips
//! through the file in `SOCKEYE_SKIPS`. A failure of the lab itself is a panic, not a skip.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;

/// Why a test cannot run here: a missing permission, program or kernel feature.
///
/// [`need!`](crate::need) prints it to stderr and returns from the test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    reason: String,
}

impl Skip {
    /// A skip; `reason` names what is missing and, if known, how to get it.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// What is missing.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Prints `SKIP: TEST: reason` to the real stderr, past the test runner's capture, and appends the line
    /// to the file in the environment variable `SOCKEYE_SKIPS`, if set, so that a script can count skips.
    pub fn print(&self) {
        let thread = std::thread::current();
        let line = format!("SKIP: {}: {}\n", thread.name().unwrap_or("?"), self.reason);
        // eprint! would be hidden for a passing test.
        let _ = std::io::stderr().write_all(line.as_bytes());
        if let Some(path) = std::env::var_os("SOCKEYE_SKIPS") {
            let log = OpenOptions::new().append(true).create(true).open(path);
            let _ = log.and_then(|mut file| file.write_all(line.as_bytes()));
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skip: {}", self.reason)
    }
}

impl std::error::Error for Skip {}

/// Unwraps a `Result<T, Skip>`; a skip is reported and returns from the test.
///
/// ```no_run
/// # use sockeye_lab::{need, Lab};
/// fn a_kernel_test() {
///     let lab = need!(Lab::new("docs"));
///     let _web = lab.namespace("web");
/// }
/// # a_kernel_test();
/// ```
#[macro_export]
macro_rules! need {
    ($attempt:expr) => {
        match $attempt {
            Ok(value) => value,
            Err(skip) => {
                $crate::Skip::print(&skip);
                return;
            }
        }
    };
}
