//! Error of `calls`, `functions` and `sampler`. `Session` continues without the part and turns the error into
//! a `Missing` of the `Profile`; `doctor` prints the errors of the probes in `support.rs`.

use std::fmt;

/// The reason why a part of a profile is missing, completely or partly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// Which part: a word of [`sockeye_profile::Missing::part`].
    pub part: &'static str,
    /// The operation that failed, its object, and why: `attach a BPF program to raw_syscalls:sys_enter: EPERM`.
    pub text: String,
    /// What the user can do about it; `None` if nothing.
    pub remedy: Option<String>,
}

impl Unavailable {
    /// Returns a reason without a remedy.
    #[must_use]
    pub fn new(part: &'static str, text: impl Into<String>) -> Self {
        Self {
            part,
            text: text.into(),
            remedy: None,
        }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl From<Unavailable> for sockeye_profile::Missing {
    fn from(unavailable: Unavailable) -> Self {
        Self {
            part: unavailable.part.to_owned(),
            text: unavailable.text,
            remedy: unavailable.remedy,
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Unavailable {}
