//! The views, and what each lists.

use super::table::Order;
use sockeye_model::{GroupBy, WorkloadKind};

/// What the screen lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Flows,
    Sockets,
    Processes,
    Groups,
    Listeners,
    Drops,
    Findings,
    Devices,
}

impl View {
    /// All views, in the order of the keys `1` and following.
    pub(crate) const ALL: [Self; 8] = [
        Self::Flows,
        Self::Sockets,
        Self::Processes,
        Self::Groups,
        Self::Listeners,
        Self::Drops,
        Self::Findings,
        Self::Devices,
    ];

    /// Returns its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Sockets => "sockets",
            Self::Processes => "processes",
            Self::Groups => "groups",
            Self::Listeners => "listeners",
            Self::Drops => "drops",
            Self::Findings => "findings",
            Self::Devices => "devices",
        }
    }

    /// Returns its index among [`Self::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the view of a key from `1`.
    pub(crate) fn of_digit(digit: char) -> Option<Self> {
        let index = digit.to_digit(10)?.checked_sub(1)?;
        Self::ALL.get(index as usize).copied()
    }

    /// Returns the next view, or the one before.
    pub(crate) const fn neighbour(self, forward: bool) -> Self {
        let count = Self::ALL.len();
        let step = if forward { 1 } else { count - 1 };
        Self::ALL[(self.index() + step) % count]
    }

    /// Whether a filter selects among its rows.
    pub(crate) const fn has_filter(self) -> bool {
        !matches!(self, Self::Drops | Self::Devices)
    }

    /// Returns the name of one row.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Flows => "flow",
            Self::Sockets => "socket",
            Self::Processes => "process",
            Self::Groups => "group",
            Self::Listeners => "listener",
            Self::Drops => "drop",
            Self::Findings => "finding",
            Self::Devices => "device",
        }
    }

    /// Returns the order without a choice.
    pub(crate) const fn order(self) -> Order {
        let (column, descending) = match self {
            Self::Flows | Self::Groups => ("sent_bytes_per_s", true),
            Self::Sockets | Self::Processes => ("traffic_bytes_per_s", true),
            Self::Listeners => ("recv_queue_bytes", true),
            Self::Drops => ("packet_drops_per_s", true),
            // As they come: the worst first.
            Self::Findings => ("", true),
            Self::Devices => ("received_bytes_per_s", true),
        };
        Order { column, descending }
    }
}

/// What the key `o` groups by, in turn.
pub(crate) const GROUPS: [GroupBy; 6] = [
    GroupBy::Workload(WorkloadKind::Container),
    GroupBy::Workload(WorkloadKind::Unit),
    GroupBy::Workload(WorkloadKind::Cgroup),
    GroupBy::Uid,
    GroupBy::Workload(WorkloadKind::Exe),
    GroupBy::Netns,
];

/// Returns the name of a group, as `--group-by` takes it.
pub(crate) fn group_name(group: GroupBy) -> &'static str {
    match group {
        GroupBy::Workload(kind) => kind.name(),
        GroupBy::Uid => "user",
        GroupBy::Netns => "netns",
        GroupBy::Process => "process",
        GroupBy::Port => "port",
        GroupBy::Host | GroupBy::Prefix { .. } => "host",
    }
}
