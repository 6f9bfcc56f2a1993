//! What happens to a connection: an event, with the connection as it is then.

use crate::{Direction, Process, Socket, State};

/// An event of a connection or of a listener.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionEvent {
    /// What happened.
    pub kind: ConnectionEventKind,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Identifies the socket as long as it exists.
    pub identity: u64,
    /// The socket at this time. Of a connection that has ended, `tcp_info` has the counters.
    pub socket: Socket,
    /// The state before the event.
    pub old_state: State,
    /// Who asked for the connection; `None` if it is older than the watch.
    pub direction: Option<Direction>,
    /// Its owner; `None` if unknown.
    pub owner: Option<EventOwner>,
    /// The process that closed it, or shut down sending; `None` if none did, or if that was before the watch.
    pub closer: Option<Process>,
    /// From `connect(2)`, or from the peer's last ACK, until it was established or failed.
    pub setup_us: Option<u64>,
    /// How long it was established.
    pub duration_us: Option<u64>,
    /// How it ended; `None` if it has not, or if that is unknown.
    pub end: Option<ConnectionEnd>,
    /// Who ended it; `None` if it has not ended, or if that is unknown.
    pub ended_by: Option<Side>,
    /// The error of the socket.
    pub errno: Option<i32>,
    /// Reason of a RST that was sent, a number of `enum sk_rst_reason`; `None` if this kernel gives none (before Linux 6.11).
    pub reset_reason: Option<u32>,
    /// Why a segment was sent again.
    pub retransmission: Option<Retransmission>,
    /// Bytes of data that were sent, each once.
    pub sent_bytes: Option<u64>,
    /// Bytes of data that were received, each once.
    pub received_bytes: Option<u64>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionEventKind {
    /// A connection is established.
    Open,
    /// A connection was not established.
    Fail,
    /// A connection has ended.
    Close,
    /// The state has changed otherwise.
    State,
    /// A socket listens.
    Listen,
    /// A socket no longer listens.
    Unlisten,
    /// A RST was sent for a socket.
    ResetSent,
    /// A RST was received.
    ResetReceived,
    /// A segment was sent again.
    Retransmit,
}

impl ConnectionEventKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Open,
        Self::Fail,
        Self::Close,
        Self::State,
        Self::Listen,
        Self::Unlisten,
        Self::ResetSent,
        Self::ResetReceived,
        Self::Retransmit,
    ];

    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Fail => "fail",
            Self::Close => "close",
            Self::State => "state",
            Self::Listen => "listen",
            Self::Unlisten => "unlisten",
            Self::ResetSent => "reset-sent",
            Self::ResetReceived => "reset-received",
            Self::Retransmit => "retransmit",
        }
    }
}

/// The owner of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOwner {
    /// The process.
    pub process: Process,
    /// How it is known.
    pub known_by: OwnerKnownBy,
}

/// How the owner of a connection is known, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKnownBy {
    /// It called `connect(2)`.
    Connect,
    /// It was the first to read data of an accepted connection.
    Accept,
    /// It closed the connection.
    Closer,
    /// It called `listen(2)` on the socket that accepted the connection. Another process may serve it.
    Listener,
    /// It had a descriptor of the socket when the watch began.
    Walk,
}

impl OwnerKnownBy {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::Closer => "closer",
            Self::Listener => "listener",
            Self::Walk => "walk",
        }
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionEnd {
    /// By FIN.
    Fin,
    /// We sent a RST.
    ResetSent,
    /// The peer sent a RST.
    ResetReceived,
    /// The peer did not answer.
    Timeout,
    /// Another error of the network: [`ConnectionEvent::errno`].
    Error,
    /// The process gave up before the peer answered.
    Abandoned,
    /// No local port was free for it.
    NoPort,
}

impl ConnectionEnd {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::ResetSent => "reset-sent",
            Self::ResetReceived => "reset-received",
            Self::Timeout => "timeout",
            Self::Error => "error",
            Self::Abandoned => "abandoned",
            Self::NoPort => "no-port",
        }
    }
}

/// One of the two sides of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Ours.
    Local,
    /// The peer's.
    Peer,
}

impl Side {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Peer => "peer",
        }
    }
}

/// Why a segment was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Retransmission {
    /// A SYN or SYN-ACK was not answered.
    Syn,
    /// The retransmission timeout.
    Timeout,
    /// Duplicate acknowledgements, or RACK.
    Fast,
    /// A probe for the loss of the last segments.
    Probe,
}

impl Retransmission {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syn => "syn",
            Self::Timeout => "rto",
            Self::Fast => "fast",
            Self::Probe => "tlp",
        }
    }
}

impl ConnectionEvent {
    /// Records that a RST was sent right after the connection had closed, which is how the kernel aborts one.
    pub fn add_reset(&mut self, reason: Option<u32>) {
        if self.end != Some(ConnectionEnd::ResetReceived) && self.end != Some(ConnectionEnd::Timeout) {
            (self.end, self.ended_by) = (Some(ConnectionEnd::ResetSent), Some(Side::Local));
            self.reset_reason = reason.or(self.reset_reason);
        }
    }
}
