//! TCP states and timers by the numbers and names of the kernel and of `ss`. A second definition on purpose:
//! it must not depend on that of `model`, which is under test.

/// TCP states with the kernel's numbers (include/net/tcp_states.h); other protocols use `Established`,
/// `Listen` and `Close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// TCP_ESTABLISHED
    Established = 1,
    /// TCP_SYN_SENT
    SynSent,
    /// TCP_SYN_RECV
    SynRecv,
    /// TCP_FIN_WAIT1
    FinWait1,
    /// TCP_FIN_WAIT2
    FinWait2,
    /// TCP_TIME_WAIT
    TimeWait,
    /// TCP_CLOSE, of datagram sockets: not connected
    Close,
    /// TCP_CLOSE_WAIT
    CloseWait,
    /// TCP_LAST_ACK
    LastAck,
    /// TCP_LISTEN
    Listen,
    /// TCP_CLOSING
    Closing,
}

impl State {
    /// All states, in the kernel's order.
    pub const ALL: [Self; 11] = [
        Self::Established,
        Self::SynSent,
        Self::SynRecv,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Close,
        Self::CloseWait,
        Self::LastAck,
        Self::Listen,
        Self::Closing,
    ];

    /// The kernel's number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The word in `ss`'s first column.
    pub fn ss_word(self) -> &'static str {
        NAMES[self as usize - 1].0
    }

    /// The kernel's name without `TCP_`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize - 1].1
    }

    pub(crate) fn from_kernel(number: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|state| u32::from(state.number()) == number)
    }
}

/// The names of the states in `ss` and in the kernel, in the kernel's order.
const NAMES: [(&str, &str); 11] = [
    ("ESTAB", "ESTABLISHED"),
    ("SYN-SENT", "SYN_SENT"),
    ("SYN-RECV", "SYN_RECV"),
    ("FIN-WAIT-1", "FIN_WAIT1"),
    ("FIN-WAIT-2", "FIN_WAIT2"),
    ("TIME-WAIT", "TIME_WAIT"),
    ("UNCONN", "CLOSE"),
    ("CLOSE-WAIT", "CLOSE_WAIT"),
    ("LAST-ACK", "LAST_ACK"),
    ("LISTEN", "LISTEN"),
    ("CLOSING", "CLOSING"),
];

/// The timer of a TCP socket, by the numbers that `/proc/net/tcp` and inet_diag share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Timer {
    /// No timer.
    Off = 0,
    /// Retransmission, loss probe or reordering.
    On = 1,
    /// Keepalive, or the lifetime of a SYN_SENT or orphaned socket.
    Keepalive = 2,
    /// The lifetime of TIME_WAIT or of an orphaned FIN_WAIT2.
    TimeWait = 3,
    /// Zero-window probe.
    Persist = 4,
}

impl Timer {
    /// The word in `ss -o`'s `timer:(word,...)`.
    pub fn ss_word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Keepalive => "keepalive",
            Self::TimeWait => "timewait",
            Self::Persist => "persist",
        }
    }

    pub(crate) fn from_kernel(number: u32) -> Option<Self> {
        [
            Self::Off,
            Self::On,
            Self::Keepalive,
            Self::TimeWait,
            Self::Persist,
        ]
        .into_iter()
        .find(|timer| u32::from(*timer as u8) == number)
    }
}
