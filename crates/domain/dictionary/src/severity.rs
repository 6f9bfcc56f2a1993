//! Scale of severities that entries of the dictionary and findings of `check` share.
//! `explain` and `check` compare it with their flags, so the order of the variants matters.

use core::fmt;

/// Severity, ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// No fault; explains why something is slow.
    Info,
    /// May cause harm later.
    Notice,
    /// Causes harm, or will soon.
    Warning,
    /// Connections fail or stall.
    Critical,
}

impl Severity {
    /// All severities.
    pub const ALL: [Self; 4] = [Self::Info, Self::Notice, Self::Warning, Self::Critical];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// The severity with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.name() == name)
    }
}

impl std::str::FromStr for Severity {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::from_name(name).ok_or("expected info, notice, warning or critical")
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
