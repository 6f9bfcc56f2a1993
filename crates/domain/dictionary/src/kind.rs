//! Kinds of entries: each has a name that `explain` accepts and prints, and a file or folder in `data/`.

use core::fmt;

/// What an entry explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A line of the kernel's log.
    Message,
    /// A counter of `/proc/net`.
    Counter,
    /// A reason why the kernel drops a packet (`enum skb_drop_reason`).
    DropReason,
    /// A sysctl.
    Setting,
    /// A state of a connection, a neighbour or a device.
    State,
    /// A timer of a socket.
    Timer,
    /// A column of `ss`, `netstat` and similar tools.
    Column,
    /// A field of `struct tcp_info`.
    TcpInfo,
    /// An error number.
    Error,
    /// A word of the field: a queueing discipline, an offload, a technique.
    Term,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Message,
        Self::Counter,
        Self::DropReason,
        Self::Setting,
        Self::State,
        Self::Timer,
        Self::Column,
        Self::TcpInfo,
        Self::Error,
        Self::Term,
    ];

    /// The name, in the singular.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Counter => "counter",
            Self::DropReason => "drop-reason",
            Self::Setting => "setting",
            Self::State => "state",
            Self::Timer => "timer",
            Self::Column => "column",
            Self::TcpInfo => "tcp-info",
            Self::Error => "error",
            Self::Term => "term",
        }
    }

    /// The kind with this name; the plural is accepted, too (`counters`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace('_', "-");
        let one = name.strip_suffix('s').unwrap_or(&name);
        Self::ALL.into_iter().find(|kind| kind.name() == one)
    }

    /// Name of the file in `data/` with its entries, or of the folder with several files; without `.dict`.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Message => "messages",
            Self::Counter => "counters",
            Self::DropReason => "drop-reasons",
            Self::Setting => "settings",
            Self::State => "states",
            Self::Timer => "timers",
            Self::Column => "columns",
            Self::TcpInfo => "tcp-info",
            Self::Error => "errors",
            Self::Term => "terms",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
