//! The kinds of tests, and the default port.

/// The kind of test of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// As many bytes as possible.
    Stream,
    /// Requests and answers over persistent connections.
    Rr,
    /// Requests and answers with one connection each.
    Crr,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Self; 3] = [Self::Stream, Self::Rr, Self::Crr];

    /// Returns the name in the protocol.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Rr => "rr",
            Self::Crr => "crr",
        }
    }

    /// Returns the kind with this name in the protocol.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Default port of `bench serve`, TCP and UDP.
pub const PORT: u16 = 5210;
