//! What a drop reason means for the one who waits for the packet. `drops` and `explain` show it.

use core::fmt;

/// Class of a drop reason, ascending by how much it hurts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropClass {
    /// The normal end of a packet: its loss harms no application (the queue of a closed socket, a duplicate, a frame for another host).
    Normal,
    /// The host does not take the packet as it is: no socket, an address that is not its own, a segment that does not fit its connection.
    Refusal,
    /// A rule of the administrator does not allow it: firewall, filter, reverse path, security module.
    Policy,
    /// A packet that an application waits for is lost: no room, no memory, no route, no neighbor, damaged on the way.
    Loss,
}

impl DropClass {
    /// All classes.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Refusal, Self::Policy, Self::Loss];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Refusal => "refusal",
            Self::Policy => "policy",
            Self::Loss => "loss",
        }
    }

    /// The class with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

impl std::str::FromStr for DropClass {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::from_name(name).ok_or("expected normal, refusal, policy or loss")
    }
}

impl fmt::Display for DropClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
