//! Names of the reasons.

use crate::profile::Reason;

impl Reason {
    /// The name in JSON, in tables and in folded stacks.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Processor => "processor",
            Self::Sleep => "sleep",
            Self::Lock => "lock",
            Self::KernelLock => "kernel_lock",
            Self::Events => "events",
            Self::Network => "network",
            Self::Peer => "peer",
            Self::Disk => "disk",
            Self::Page => "page",
            Self::Child => "child",
            Self::Stopped => "stopped",
        }
    }

    /// The phrase after "waited ".
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Other => "for something else",
            Self::Processor => "for a processor",
            Self::Sleep => "by its own will (sleep)",
            Self::Lock => "for a lock or condition of the program (futex)",
            Self::KernelLock => "for a lock of the kernel's",
            Self::Events => "for events (poll, epoll, select)",
            Self::Network => "for the network",
            Self::Peer => "for another process (pipe, UNIX socket, terminal)",
            Self::Disk => "for a disk or file system",
            Self::Page => "for pages of memory",
            Self::Child => "for a child to end",
            Self::Stopped => "stopped or traced",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_json() {
        for reason in [
            Reason::Other,
            Reason::Processor,
            Reason::Sleep,
            Reason::Lock,
            Reason::KernelLock,
            Reason::Events,
            Reason::Network,
            Reason::Peer,
            Reason::Disk,
            Reason::Page,
            Reason::Child,
            Reason::Stopped,
        ] {
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.name()));
        }
    }
}
