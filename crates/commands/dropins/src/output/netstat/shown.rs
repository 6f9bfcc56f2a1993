//! Which sockets are listed.

/// Which sockets are listed; shown in the titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Connected sockets: neither `-a` nor `-l`.
    Connected,
    /// Listening sockets (`-l`).
    Listening,
    /// All sockets (`-a`).
    All,
}

impl Shown {
    pub(super) const fn title(self) -> &'static [u8] {
        match self {
            Self::Connected => b"(w/o servers)",
            Self::Listening => b"(only servers)",
            Self::All => b"(servers and established)",
        }
    }
}
