use crate::{
    Algorithm, CgroupId, CongestionInfo, Cookie, Endpoint, Family, Inode, InterfaceIndex, Memory, MptcpInfo,
    NetnsInode, Protocol, ShortText, State, TcpInfo, Timer, Uid,
};

/// One socket, whatever its family and whoever told of it.
///
/// Each `None` is something the source did not say: it was not asked, may not tell, or does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct Socket {
    /// What it speaks.
    pub protocol: Protocol,
    /// Its address family.
    pub family: Family,
    /// Its state.
    pub state: State,
    /// Our end.
    pub local: Endpoint,
    /// The other end.
    pub peer: Endpoint,
    /// The interface it is bound to (`SO_BINDTODEVICE`), or that a PACKET socket listens on.
    pub interface: Option<InterfaceIndex>,
    /// The network namespace it lives in; `None` where only one is being looked at.
    pub netns: Option<NetnsInode>,
    /// Its inode; `None` when no file holds it (TIME_WAIT, SYN_RECV, orphans).
    pub inode: Option<Inode>,
    /// Its name for life.
    pub cookie: Option<Cookie>,
    /// Who made it. A socket without a file may not remember: TIME_WAIT never does.
    pub uid: Option<Uid>,
    /// What waits in it.
    pub queues: Queues,
    /// What it waits for; `None`: no timer runs, or the source does not know.
    pub timer: Option<Timer>,
    /// Firewall mark (`SO_MARK`); told to CAP_NET_ADMIN only.
    pub mark: Option<u32>,
    /// Its cgroup v2.
    pub cgroup: Option<CgroupId>,
    /// Its net_cls class or priority.
    pub class_id: Option<u32>,
    /// IPv4 type of service.
    pub tos: Option<u8>,
    /// IPv6 traffic class.
    pub tclass: Option<u8>,
    /// Which halves are shut down.
    pub shutdown: Option<Shutdown>,
    /// `IPV6_V6ONLY`, of listening and unconnected sockets.
    pub v6only: Option<bool>,
    /// Other options.
    pub options: Option<Options>,
    /// Its memory.
    pub memory: Option<Memory>,
    /// Its congestion control.
    pub congestion: Option<Algorithm>,
    /// What that tells about itself.
    pub congestion_info: Option<CongestionInfo>,
    /// A protocol layered upon TCP.
    pub ulp: Option<Ulp>,
    /// What TCP knows.
    pub tcp_info: Option<TcpInfo>,
    /// What MPTCP knows.
    pub mptcp_info: Option<MptcpInfo>,
    /// References held to it (procfs only).
    pub references: Option<u32>,
}

/// What waits in a socket. The kernel uses the same two numbers for different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// The source does not say.
    Unknown,
    /// Of a connected or unconnected socket.
    Data {
        /// Received, not yet read.
        receive_bytes: u32,
        /// Sent or to be sent, not yet acknowledged.
        send_bytes: u32,
    },
    /// Of a listener.
    Accept {
        /// Connections established and waiting for `accept`.
        waiting: u32,
        /// How many may wait; `None` where the source does not know.
        backlog: Option<u32>,
    },
}

/// Halves of a connection that were shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// No more will be received.
    pub receive: bool,
    /// No more will be sent.
    pub send: bool,
}

/// Socket options as the kernel reports them together (Linux 5.10): bits in the order of
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

    /// Whether the option with this place in [`Options::NAMES`] is set.
    #[must_use]
    pub const fn is_set(self, place: usize) -> bool {
        place < 16 && self.0 & 1 << place != 0
    }
}

/// Name of an upper layer protocol (`tls`, `mptcp`, ...).
pub type Ulp = ShortText<16>;

impl Socket {
    /// A socket of which nothing else is known.
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

    /// Forgets everything, for the next socket to be read into the same place.
    ///
    /// As [`Socket::new`], but writes only the marks of absence: a socket is over a kilobyte, and a dump
    /// of 100,000 must not copy 100,000 of them.
    #[inline]
    pub const fn clear(&mut self, protocol: Protocol, state: State) {
        self.protocol = protocol;
        self.state = state;
        // By name, so that a new field is not forgotten here.
        let Self {
            protocol: _,
            state: _,
            family,
            local,
            peer,
            interface,
            netns,
            inode,
            cookie,
            uid,
            queues,
            timer,
            mark,
            cgroup,
            class_id,
            tos,
            tclass,
            shutdown,
            v6only,
            options,
            memory,
            congestion,
            congestion_info,
            ulp,
            tcp_info,
            mptcp_info,
            references,
        } = self;
        *family = Family::Unknown(0);
        *local = Endpoint::None;
        *peer = Endpoint::None;
        *interface = None;
        *netns = None;
        *inode = None;
        *cookie = None;
        *uid = None;
        *queues = Queues::Unknown;
        *timer = None;
        *mark = None;
        *cgroup = None;
        *class_id = None;
        *tos = None;
        *tclass = None;
        *shutdown = None;
        *v6only = None;
        *options = None;
        *memory = None;
        *congestion = None;
        *congestion_info = None;
        *ulp = None;
        *tcp_info = None;
        *mptcp_info = None;
        *references = None;
    }

    /// Milliseconds since data was last sent or received, whichever is later; keepalives are no data. `None` also where
    /// nothing ever was: of a connection that is being made the kernel tells how long the host is up.
    #[must_use]
    pub fn idle_ms(&self) -> Option<u32> {
        if matches!(
            self.state,
            State::SynSent | State::SynRecv | State::NewSynRecv | State::Listen
        ) {
            return None;
        }
        let (info, mptcp) = (self.tcp_info.as_ref(), self.mptcp_info.as_ref());
        let sent = info
            .and_then(|info| info.last_data_sent_ms)
            .or_else(|| mptcp?.last_data_sent_ms);
        let received = info
            .and_then(|info| info.last_data_recv_ms)
            .or_else(|| mptcp?.last_data_recv_ms);
        match (sent, received) {
            (Some(sent), Some(received)) => Some(sent.min(received)),
            (one, None) | (None, one) => one,
        }
    }

    /// Whether it waits for others to connect or to send: a TCP or UNIX listener, or a bound UDP socket
    /// that is not connected.
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
    /// From the kernel's bits: 1 receive, 2 send.
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
    fn who_never_spoke_is_not_idle() {
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
    fn cleared_is_as_good_as_new() {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet([127, 0, 0, 1].into(), Port(1));
        socket.tcp_info = Some(TcpInfo::default());
        (socket.uid, socket.references) = (Some(Uid(7)), Some(2));
        socket.clear(Protocol::Udp, State::Close);
        assert_eq!(socket, Socket::new(Protocol::Udp, State::Close));
    }
}
