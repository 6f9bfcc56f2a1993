//! Central record: every source fills it, every filter, fold, rule and renderer reads it.
//! It must stay of fixed size without allocations: one value is reused for all sockets of a dump.

use crate::{
    Algorithm, CgroupId, CongestionInfo, Cookie, Endpoint, Family, Inode, InterfaceIndex, Memory, MptcpInfo,
    NetnsInode, Protocol, ShortText, State, TcpInfo, Timer, Uid,
};

/// A socket of any family, from any source.
///
/// A field is `None` if the source did not report it: it was not requested, not permitted, or is unknown to the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Socket {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its address family.
    pub family: Family,
    /// Its state.
    pub state: State,
    /// Local endpoint.
    pub local: Endpoint,
    /// Endpoint of the peer.
    pub peer: Endpoint,
    /// The interface it is bound to (`SO_BINDTODEVICE`), or that a PACKET socket listens on.
    pub interface: Option<InterfaceIndex>,
    /// Its network namespace; `None` if only one is listed.
    pub netns: Option<NetnsInode>,
    /// Its inode; `None` without a file (TIME_WAIT, SYN_RECV, orphans).
    pub inode: Option<Inode>,
    /// Its cookie, which identifies it until reboot.
    pub cookie: Option<Cookie>,
    /// Its user; `None` if unknown. A socket without a file may have none: one in TIME_WAIT never has.
    pub uid: Option<Uid>,
    /// Its queues.
    pub queues: Queues,
    /// Its timer; `None` if none runs or it is unknown.
    pub timer: Option<Timer>,
    /// Firewall mark (`SO_MARK`); only reported with CAP_NET_ADMIN.
    pub mark: Option<u32>,
    /// Its cgroup (v2).
    pub cgroup: Option<CgroupId>,
    /// net_cls class or priority.
    pub class_id: Option<u32>,
    /// IPv4 type of service.
    pub tos: Option<u8>,
    /// IPv6 traffic class.
    pub tclass: Option<u8>,
    /// The directions that are shut down.
    pub shutdown: Option<Shutdown>,
    /// `IPV6_V6ONLY`, of listening and unconnected sockets.
    pub v6only: Option<bool>,
    /// Other options.
    pub options: Option<Options>,
    /// Memory use and limits.
    pub memory: Option<Memory>,
    /// Congestion control algorithm.
    pub congestion: Option<Algorithm>,
    /// Private data of the congestion control.
    pub congestion_info: Option<CongestionInfo>,
    /// Upper layer protocol on TCP.
    pub ulp: Option<Ulp>,
    /// tcp_info.
    pub tcp_info: Option<TcpInfo>,
    /// Info of an MPTCP connection.
    pub mptcp_info: Option<MptcpInfo>,
    /// Reference count (procfs only).
    pub references: Option<u32>,
}

/// The queues of a socket. The kernel reports two numbers, whose meaning depends on the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// Not reported.
    Unknown,
    /// Queues of a connected or unconnected socket.
    Data {
        /// Received, not yet read.
        receive_bytes: u32,
        /// Sent or to be sent, not yet acknowledged.
        send_bytes: u32,
    },
    /// Queue of a listener.
    Accept {
        /// Established connections that wait for `accept`.
        waiting: u32,
        /// Maximum of `waiting`; `None` if unknown.
        backlog: Option<u32>,
    },
}

/// The directions of a connection that are shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// Receiving is shut down.
    pub receive: bool,
    /// Sending is shut down.
    pub send: bool,
}

/// Socket options that the kernel reports together (Linux 5.10), as bits in the order of
/// `struct inet_diag_sockopt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options(pub u16);

impl Options {
    /// Names of the bits, lowest first.
    pub const NAMES: [&'static str; 11] = [
        "recverr",
        "is_icsk",
        "freebind",
        "hdrincl",
        "mc_loop",
        "transparent",
        "mc_all",
        "nodefrag",
        "bind_address_no_port",
        "recverr_rfc4884",
        "defer_connect",
    ];

    /// Whether the option with this index in [`Options::NAMES`] is set.
    #[must_use]
    pub const fn is_set(self, place: usize) -> bool {
        place < 16 && self.0 & 1 << place != 0
    }
}

/// Name of an upper layer protocol (`tls`, `mptcp`, ...).
pub type Ulp = ShortText<16>;

/// Sets all fields but `protocol` and `state`. Destructures, so that a new field cannot be forgotten.
macro_rules! set {
    ($socket:expr, $($field:ident = $value:expr;)*) => {{
        let Self { protocol: _, state: _, $($field),* } = $socket;
        $(*$field = $value;)*
    }};
}

impl Socket {
    /// Creates a socket of which nothing else is known.
    #[must_use]
    #[inline]
    pub const fn new(protocol: Protocol, state: State) -> Self {
        Self {
            protocol,
            family: Family::Unknown(0),
            state,
            local: Endpoint::None,
            peer: Endpoint::None,
            interface: None,
            netns: None,
            inode: None,
            cookie: None,
            uid: None,
            queues: Queues::Unknown,
            timer: None,
            mark: None,
            cgroup: None,
            class_id: None,
            tos: None,
            tclass: None,
            shutdown: None,
            v6only: None,
            options: None,
            memory: None,
            congestion: None,
            congestion_info: None,
            ulp: None,
            tcp_info: None,
            mptcp_info: None,
            references: None,
        }
    }

    /// Resets the value, so that the next socket can be read into it.
    ///
    /// Same result as [`Socket::new`], but this writes only the discriminants: a socket has over a kilobyte, and a dump
    /// of 100,000 must not copy 100,000 of them.
    #[inline]
    pub const fn clear(&mut self, protocol: Protocol, state: State) {
        self.protocol = protocol;
        self.state = state;
        set! { self,
            family = Family::Unknown(0);
            local = Endpoint::None;
            peer = Endpoint::None;
            interface = None;
            netns = None;
            inode = None;
            cookie = None;
            uid = None;
            queues = Queues::Unknown;
            timer = None;
            mark = None;
            cgroup = None;
            class_id = None;
            tos = None;
            tclass = None;
            shutdown = None;
            v6only = None;
            options = None;
            memory = None;
            congestion = None;
            congestion_info = None;
            ulp = None;
            tcp_info = None;
            mptcp_info = None;
            references = None;
        }
    }

    /// Milliseconds since data was last sent or received, whichever is later; keepalive probes are no data. `None` also if
    /// there was no data yet: for a connection in setup the kernel reports the uptime of the host.
    #[must_use]
    pub fn idle_ms(&self) -> Option<u32> {
        if matches!(
            self.state,
            State::SynSent | State::SynRecv | State::NewSynRecv | State::Listen
        ) {
            return None;
        }
        let (sent, received) = (self.last_data_sent_ms(), self.last_data_recv_ms());
        match (sent, received) {
            (Some(sent), Some(received)) => Some(sent.min(received)),
            (one, None) | (None, one) => one,
        }
    }

    /// Milliseconds since data was last sent, by TCP or MPTCP; `None` if unknown.
    #[must_use]
    #[inline]
    pub fn last_data_sent_ms(&self) -> Option<u32> {
        let of_tcp = self.tcp_info.as_ref().and_then(|info| info.last_data_sent_ms);
        of_tcp.or_else(|| self.mptcp_info.as_ref()?.last_data_sent_ms)
    }

    /// Milliseconds since data was last received, by TCP or MPTCP; `None` if unknown.
    #[must_use]
    #[inline]
    pub fn last_data_recv_ms(&self) -> Option<u32> {
        let of_tcp = self.tcp_info.as_ref().and_then(|info| info.last_data_recv_ms);
        of_tcp.or_else(|| self.mptcp_info.as_ref()?.last_data_recv_ms)
    }

    /// Whether it waits for connections or datagrams: a TCP or UNIX listener, or a bound UDP socket
    /// without a peer.
    #[must_use]
    pub fn is_listener(&self) -> bool {
        match self.protocol {
            Protocol::Udp | Protocol::UdpLite | Protocol::Raw => {
                self.state == State::Close && self.local.port().is_some_and(|port| port.0 != 0)
            }
            _ => self.state == State::Listen,
        }
    }
}

impl Shutdown {
    /// Converts the kernel's bits: 1 receive, 2 send.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self {
            receive: bits & 1 != 0,
            send: bits & 2 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Port;

    #[test]
    fn connection_without_data_is_not_idle() {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        assert_eq!(socket.idle_ms(), None);
        socket.tcp_info = Some(TcpInfo {
            last_data_sent_ms: Some(7),
            last_data_recv_ms: Some(5),
            ..TcpInfo::default()
        });
        assert_eq!(socket.idle_ms(), Some(5));
        socket.state = State::SynSent;
        assert_eq!(socket.idle_ms(), None);
    }

    #[test]
    fn cleared_socket_equals_new_one() {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet([127, 0, 0, 1].into(), Port(1));
        socket.tcp_info = Some(TcpInfo::default());
        (socket.uid, socket.references) = (Some(Uid(7)), Some(2));
        socket.clear(Protocol::Udp, State::Close);
        assert_eq!(socket, Socket::new(Protocol::Udp, State::Close));
    }
}
