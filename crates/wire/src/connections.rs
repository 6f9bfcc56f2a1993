//! Records of the BPF programs that watch connections: mirrors `bpf/events.h`, in native byte order.
//!
//! ```
//! use sockeye_wire::connections::{Event, kind};
//!
//! let mut bytes = [0; Event::BYTES];
//! bytes[..4].copy_from_slice(&kind::OPENED.to_ne_bytes());
//! assert_eq!(Event::read(&bytes).unwrap().kind, kind::OPENED);
//! assert_eq!(Event::read(&bytes[..Event::BYTES / 2]), None);
//! ```

use crate::bytes::{array, byte, ne_i32, ne_u16, ne_u32, ne_u64};

/// Kinds of records.
pub mod kind {
    /// A connection is established.
    pub const OPENED: u32 = 1;
    /// A connection was not established.
    pub const FAILED: u32 = 2;
    /// A connection has ended; with [`super::Totals`].
    pub const CLOSED: u32 = 3;
    /// Another change of the state.
    pub const STATE: u32 = 4;
    /// A socket listens.
    pub const LISTENS: u32 = 5;
    /// A socket no longer listens.
    pub const UNLISTENS: u32 = 6;
    /// A RST was sent.
    pub const RESET_SENT: u32 = 7;
    /// A RST was received.
    pub const RESET_RECEIVED: u32 = 8;
    /// A segment was sent again.
    pub const RETRANSMITTED: u32 = 9;
    /// A process used a UDP socket for the first time; with [`super::Datagrams`].
    pub const UDP_USED: u32 = 10;
    /// A process let go of a UDP socket; with [`super::Datagrams`].
    pub const UDP_CLOSED: u32 = 11;
    /// A datagram could not be sent, queued or read; with [`super::Datagrams`].
    pub const UDP_FAILED: u32 = 12;
    /// A listener refuses a connection, because its accept queue is full.
    pub const ACCEPT_OVERFLOWS: u32 = 13;
    /// A listener refuses a connection, or sends a cookie, because its SYN queue is full.
    pub const SYN_OVERFLOWS: u32 = 14;
    /// A side takes no more data.
    pub const WINDOW_IS_ZERO: u32 = 15;
    /// A side takes data again.
    pub const WINDOW_IS_OPEN: u32 = 16;
    /// A `connect(2)` failed before anything was sent.
    pub const CONNECT_FAILED: u32 = 17;
    /// Retransmissions were not needed.
    pub const UNDONE: u32 = 18;
    /// A segment of TCP found no neighbor or no route.
    pub const UNSENT: u32 = 19;
}

/// How an owner is known: [`Event::owner_how`].
pub mod how {
    /// It called `connect(2)`.
    pub const CONNECT: u32 = 1;
    /// It called `listen(2)`.
    pub const LISTENER: u32 = 2;
    /// It has read or written data of an accepted connection.
    pub const ACCEPTING: u32 = 3;
    /// It was the first to send a datagram.
    pub const SENDING: u32 = 4;
    /// It was the first to receive a datagram.
    pub const RECEIVING: u32 = 5;
}

/// What becomes of a request that finds a queue full: [`Event::reason`] of an overflow.
pub mod refusal {
    /// The SYN is dropped.
    pub const SYN_DROPPED: i32 = 1;
    /// The last segment of the handshake is dropped; the peer takes the connection for established.
    pub const ACK_DROPPED: i32 = 2;
    /// The peer gets a RST.
    pub const RESET: i32 = 3;
    /// The peer gets a cookie: the connection can still be made.
    pub const COOKIE: i32 = 4;
}

/// Why a datagram failed: [`Datagrams::cause`]; why a segment was not sent: [`Event::reason`].
pub mod cause {
    /// An error that the socket got, from an ICMP message.
    pub const ICMP: u32 = 1;
    /// A send failed.
    pub const SEND: u32 = 2;
    /// A receive failed.
    pub const RECEIVE: u32 = 3;
    /// The receive buffer was full.
    pub const BUFFER_FULL: u32 = 4;
    /// The memory of the protocol was used up.
    pub const MEMORY: u32 = 5;
    /// The checksum was wrong.
    pub const CHECKSUM: u32 = 6;
    /// The next hop did not answer.
    pub const NO_NEIGHBOR: u32 = 7;
    /// There is no route.
    pub const NO_ROUTE: u32 = 8;
}

/// Who did something: [`Event::direction`], [`Event::first_fin`]; bits of [`Event::resets`].
pub mod side {
    /// Our side.
    pub const OURS: u8 = 1;
    /// The peer.
    pub const PEERS: u8 = 2;
}

record! {
    /// What every record begins with: `struct event`.
    pub struct Event {
        /// One of [`mod@kind`].
        kind: u32 = ne_u32 @ 0;
        /// State before, with the kernel's numbers.
        old_state: u8 = byte @ 4;
        /// State after.
        state: u8 = byte @ 5;
        /// Whether the connection was watched from its beginning: else the fields from `started_ns` to `resets` are 0.
        is_tracked: u8 = byte @ 6;
        /// Whether the peer's FIN was received.
        has_peers_fin: u8 = byte @ 7;
        /// Time of the event, of the monotonic clock.
        time_ns: u64 = ne_u64 @ 8;
        /// Address of the socket, which identifies it as long as it exists.
        sock: u64 = ne_u64 @ 16;
        /// Cookie; 0 if none was generated yet.
        cookie: u64 = ne_u64 @ 24;
        /// Our address, IPv4 mapped into IPv6.
        local: [u8; 16] = array @ 32;
        /// The peer's, likewise.
        peer: [u8; 16] = array @ 48;
        /// Our port.
        local_port: u16 = ne_u16 @ 64;
        /// The peer's port.
        peer_port: u16 = ne_u16 @ 66;
        /// Inode of the network namespace.
        netns: u32 = ne_u32 @ 68;
        /// `AF_INET`, `AF_INET6`
        family: u16 = ne_u16 @ 72;
        /// Of a retransmission, how many segments were sent again.
        segments: u16 = ne_u16 @ 74;
        /// Of a close, how many segments were sent again without a record of it, as the connection's own counter shows.
        unseen: u32 = ne_u32 @ 76;
        /// Interface that it is bound to, or 0.
        interface: u32 = ne_u32 @ 80;
        /// Mark.
        mark: u32 = ne_u32 @ 84;
        /// Id of its cgroup; 0 if unknown.
        cgroup: u64 = ne_u64 @ 88;
        /// User.
        uid: u32 = ne_u32 @ 96;
        /// Inode; 0 without a file.
        inode: u32 = ne_u32 @ 100;
        /// Time of the connect, or when the connection was made for a listener.
        started_ns: u64 = ne_u64 @ 104;
        /// Time when it was established; 0 if it was not.
        opened_ns: u64 = ne_u64 @ 112;
        /// Owner; 0 if unknown.
        owner_pid: u32 = ne_u32 @ 120;
        /// How it is known: one of [`mod@how`].
        owner_how: u32 = ne_u32 @ 124;
        /// Name of the owner, with zeros at its end.
        owner_comm: [u8; 16] = array @ 128;
        /// Process that closed it, or shut down sending; 0 if none did.
        closer_pid: u32 = ne_u32 @ 144;
        /// Its name.
        closer_comm: [u8; 16] = array @ 152;
        /// Who asked for the connection: of [`side`].
        direction: u8 = byte @ 168;
        /// Whose FIN was first: of [`side`].
        first_fin: u8 = byte @ 169;
        /// Resets that were sent or received: bits of [`side`].
        resets: u8 = byte @ 170;
        /// Error of the socket: an errno, or 0.
        error: i32 = ne_i32 @ 176;
        /// Of a reset, its reason, `enum sk_rst_reason`; of a retransmission, the timer that runs, `ICSK_TIME_`; of an overflow, one
        /// of [`mod@refusal`]; of a segment that was not sent, one of [`mod@cause`]; negative if unknown.
        reason: i32 = ne_i32 @ 180;
        /// Whether no process has it any more.
        is_orphan: u8 = byte @ 184;
        /// State of congestion control.
        ca_state: u8 = byte @ 185;
        /// `IPPROTO_TCP`, `IPPROTO_UDP`, `IPPROTO_MPTCP`
        protocol: u16 = ne_u16 @ 186;
        /// Token of the MPTCP connection that it is, or is a subflow of; 0: none.
        token: u32 = ne_u32 @ 188;
    }
}

impl Event {
    /// Length of the record, without totals.
    pub const BYTES: usize = 192;
}

record! {
    /// Counters of a connection that has ended, after the [`Event`]: `struct totals`.
    pub struct Totals {
        /// Bytes that the peer acknowledged, with SYN and FIN.
        bytes_acked: u64 = ne_u64 @ 192;
        /// Bytes received, with FIN.
        bytes_received: u64 = ne_u64 @ 200;
        /// Bytes sent, with retransmissions.
        bytes_sent: u64 = ne_u64 @ 208;
        /// Bytes sent again.
        bytes_retrans: u64 = ne_u64 @ 216;
        /// Segments received.
        segs_in: u32 = ne_u32 @ 224;
        /// Segments sent.
        segs_out: u32 = ne_u32 @ 228;
        /// Segments with data received.
        data_segs_in: u32 = ne_u32 @ 232;
        /// Segments with data sent.
        data_segs_out: u32 = ne_u32 @ 236;
        /// Segments sent again.
        total_retrans: u32 = ne_u32 @ 240;
        /// Smoothed round-trip time; 0 if none was measured.
        srtt_us: u32 = ne_u32 @ 244;
        /// Least round-trip time; `u32::MAX` if none was measured.
        min_rtt_us: u32 = ne_u32 @ 248;
        /// Segments that the peer reported as received twice (D-SACK).
        dsack_dups: u32 = ne_u32 @ 252;
        /// Bytes that were sent and are not acknowledged, with SYN and FIN.
        in_flight: u32 = ne_u32 @ 256;
        /// Whether everything that the process has written was sent, with the FIN if it has closed.
        is_all_sent: u32 = ne_u32 @ 260;
    }
}

record! {
    /// Counters of a UDP socket since the watch has seen it first, after the [`Event`]: `struct datagrams`.
    pub struct Datagrams {
        /// Bytes sent.
        sent_bytes: u64 = ne_u64 @ 192;
        /// Bytes received by processes.
        received_bytes: u64 = ne_u64 @ 200;
        /// Calls that sent.
        sent: u64 = ne_u64 @ 208;
        /// Calls that received.
        received: u64 = ne_u64 @ 216;
        /// Calls that failed.
        failed: u64 = ne_u64 @ 224;
        /// Datagrams that an error concerns; of a close, those that it concerned and that no record has.
        count: u32 = ne_u32 @ 232;
        /// One of [`mod@cause`]; 0 if this is no error.
        cause: u32 = ne_u32 @ 236;
    }
}
