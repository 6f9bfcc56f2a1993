use core::fmt;

/// How bad something is, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing is wrong; it says why something is as slow as it is.
    Info,
    /// It may hurt one day.
    Notice,
    /// It hurts, or will soon.
    Warning,
    /// Connections fail, or stand still.
    Critical,
}

impl Severity {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Info, Self::Notice, Self::Warning, Self::Critical];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// The one with this name.
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
