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
    /// What only some kinds of events have.
    pub details: EventDetails,
}

impl ConnectionEvent {
    /// An event of a socket, of which nothing more is known.
    #[must_use]
    pub fn new(kind: ConnectionEventKind, time_ns: u64, socket: Socket) -> Self {
        Self {
            kind,
            time_ns,
            identity: 0,
            old_state: socket.state,
            socket,
            direction: None,
            owner: None,
            closer: None,
            setup_us: None,
            duration_us: None,
            end: None,
            ended_by: None,
            errno: None,
            reset_reason: None,
            retransmission: None,
            sent_bytes: None,
            received_bytes: None,
            details: EventDetails::default(),
        }
    }
}

/// What only some kinds of events have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventDetails {
    /// Why a packet failed.
    pub cause: Option<ErrorCause>,
    /// Datagrams that an error concerns.
    pub failed_datagrams: Option<u64>,
    /// Calls that sent a datagram by the socket.
    pub sent_datagrams: Option<u64>,
    /// Calls that received one.
    pub received_datagrams: Option<u64>,
    /// What became of a connection request that found a queue full.
    pub refusal: Option<Refusal>,
    /// Whose window became zero, or open again.
    pub window_of: Option<Side>,
    /// Segments that were sent again at once.
    pub retransmitted_segs: Option<u32>,
    /// Segments that the peer got twice, as it reported: they were sent again without need.
    pub dsack_dups: Option<u32>,
    /// Token of the MPTCP connection that this is, or is a subflow of.
    pub mptcp_token: Option<u32>,
}

/// Why a packet could not be sent, queued or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCause {
    /// The socket got an error, from an ICMP message.
    Icmp,
    /// Sending failed.
    Send,
    /// Receiving failed.
    Receive,
    /// The receive buffer was full.
    BufferFull,
    /// The memory of the protocol was used up.
    Memory,
    /// The checksum was wrong.
    Checksum,
    /// The next hop did not answer: ARP or neighbour discovery failed.
    NoNeighbor,
    /// There is no route.
    NoRoute,
}

impl ErrorCause {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::BufferFull => "buffer-full",
            Self::Memory => "memory",
            Self::Checksum => "checksum",
            Self::NoNeighbor => "no-neighbor",
            Self::NoRoute => "no-route",
        }
    }
}

/// What a listener does with a connection request that finds a queue full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// It drops the SYN.
    SynDropped,
    /// It drops the last segment of the handshake; the peer takes the connection for established.
    AckDropped,
    /// It sends a RST.
    Reset,
    /// It sends a cookie: the connection can still be made.
    Cookie,
}

impl Refusal {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SynDropped => "syn-dropped",
            Self::AckDropped => "ack-dropped",
            Self::Reset => "reset",
            Self::Cookie => "cookie",
        }
    }
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
    /// A connection or a listener that was there when the watch began.
    Present,
    /// Segments were sent again without need.
    Undo,
    /// A `connect(2)` failed before anything was sent.
    ConnectError,
    /// A listener refused a connection: its accept queue was full.
    AcceptOverflow,
    /// A listener refused a connection, or sent a cookie: its SYN queue was full.
    SynOverflow,
    /// A side takes no more data.
    ZeroWindow,
    /// It takes data again.
    WindowOpen,
    /// A datagram could not be sent, queued or read, or a segment not be sent.
    Error,
}

impl ConnectionEventKind {
    /// All kinds.
    pub const ALL: [Self; 17] = [
        Self::Open,
        Self::Fail,
        Self::Close,
        Self::State,
        Self::Listen,
        Self::Unlisten,
        Self::ResetSent,
        Self::ResetReceived,
        Self::Retransmit,
        Self::Present,
        Self::Undo,
        Self::ConnectError,
        Self::AcceptOverflow,
        Self::SynOverflow,
        Self::ZeroWindow,
        Self::WindowOpen,
        Self::Error,
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
            Self::Present => "present",
            Self::Undo => "undo",
            Self::ConnectError => "connect-error",
            Self::AcceptOverflow => "accept-overflow",
            Self::SynOverflow => "syn-overflow",
            Self::ZeroWindow => "zero-window",
            Self::WindowOpen => "window-open",
            Self::Error => "error",
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
    /// It was the first to send a datagram.
    Send,
    /// It was the first to receive a datagram.
    Receive,
    /// It closed the connection.
    Closer,
    /// It called `listen(2)` on the socket that accepted the connection. Another process may serve it.
    Listener,
    /// It had a descriptor of the socket when the watch began or, without BPF, when a poll found the socket.
    Walk,
}

impl OwnerKnownBy {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::Send => "send",
            Self::Receive => "receive",
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
    /// A router has answered that the segment is longer than its link takes.
    Mtu,
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
            Self::Mtu => "mtu",
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
