use std::fmt;

/// Why a part of a profile cannot be had, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// Which part: a word of [`sockeye_profile::Missing::part`].
    pub part: &'static str,
    /// What failed, at what, and why: `attach a BPF program to raw_syscalls:sys_enter: EPERM`.
    pub text: String,
    /// What would help, if anything would.
    pub remedy: Option<String>,
}

impl Obstacle {
    /// One for which there is no remedy.
    #[must_use]
    pub fn new(part: &'static str, text: impl Into<String>) -> Self {
        Self {
            part,
            text: text.into(),
            remedy: None,
        }
    }

    /// The same, with what would help.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl From<Obstacle> for sockeye_profile::Missing {
    fn from(obstacle: Obstacle) -> Self {
        Self {
            part: obstacle.part.to_owned(),
            text: obstacle.text,
            remedy: obstacle.remedy,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Obstacle {}
