//! What a recorder cannot see though it takes samples: for want of rights, or since the kernel lacks it.

use crate::period::Lasting;

/// A kind of what is recorded in addition to sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataKind {
    /// Connections that end between two samples.
    Ends,
    /// Findings of `check`.
    Findings,
    /// Counters of network namespaces.
    Counters,
    /// Packets that the kernel drops, by reason.
    Drops,
    /// Connections that NAT translates.
    Translations,
    /// Processes that own sockets.
    Owners,
}

impl DataKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Ends,
        Self::Findings,
        Self::Counters,
        Self::Drops,
        Self::Translations,
        Self::Owners,
    ];

    /// The name, as in the store and in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ends => "ends",
            Self::Findings => "findings",
            Self::Counters => "counters",
            Self::Drops => "drops",
            Self::Translations => "translations",
            Self::Owners => "owners",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What is not recorded, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// The kind.
    pub kind: DataKind,
    /// Which part of it; `None`: all.
    pub part: Option<String>,
    /// Why, in words.
    pub why: String,
}

impl Lasting for Unseen {
    type Key = (DataKind, Option<String>);

    fn key(&self) -> Self::Key {
        (self.kind, self.part.clone())
    }

    fn update(&mut self, later: Self) {
        *self = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in DataKind::ALL {
            assert_eq!(DataKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(DataKind::from_name("sockets"), None);
    }
}
