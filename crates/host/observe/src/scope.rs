use std::path::PathBuf;

/// Whom to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// These processes, with all their threads, and whatever they start from now on.
    Processes(Vec<u32>),
    /// Everybody in a cgroup (v2) and in those below.
    Cgroup {
        /// Its folder.
        folder: PathBuf,
        /// Its number: the inode of its folder.
        id: u64,
    },
    /// Everybody.
    System,
}

impl Scope {
    /// Whether only some are meant.
    #[must_use]
    pub const fn is_everybody(&self) -> bool {
        matches!(self, Self::System)
    }
}
