//! A socket of the lab with the values that a test expects of it: addresses, state, queues, timer, inode,
//! cookie. `tcp.rs`, `datagram.rs`, `unix.rs` and `process.rs` make them; tests compare listings with them.

use crate::or_panic::OrPanic;
use crate::procnet::Row;
use crate::{Namespace, State, Timer, lookup, wait_for};
use rustix::net::netlink::SocketAddrNetlink;
use socket2::Socket;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// A real socket with its expected values at the time of creation.
///
/// Its descriptor stays open as long as this value, unless it has none ([`inode`](Self::inode) 0: TIME_WAIT
/// and other orphans) or another process owns it.
#[derive(Debug)]
pub struct LabSocket {
    /// Network namespace.
    pub namespace: Namespace,
    /// Address family.
    pub family: Family,
    /// Protocol.
    pub protocol: Protocol,
    /// State.
    pub state: State,
    /// Local address as the kernel reports it (v4-mapped stays `::ffff:a.b.c.d`, link-local has its scope
    /// id); `None` outside AF_INET and AF_INET6.
    pub local: Option<SocketAddr>,
    /// Peer's address, if it has one.
    pub peer: Option<SocketAddr>,
    /// Bound name of a UNIX socket.
    pub name: Option<UnixName>,
    /// Inode of the other end of a UNIX socket.
    pub peer_inode: Option<u64>,
    /// Inode of the socket's file; 0 if it has none.
    pub inode: u64,
    /// The kernel's socket cookie; `None` without a descriptor in this process.
    pub cookie: Option<u64>,
    /// User who created it; 0 for a socket without a file.
    pub uid: u32,
    /// Process that owns it; `None` if there is none.
    pub pid: Option<u32>,
    /// Bytes (for a listener: connections) in the receive queue; an unread FIN counts as one.
    pub recv_queue: u32,
    /// Bytes in the send queue (for a listener: the backlog); an unacknowledged SYN or FIN counts as one.
    pub send_queue: u32,
    /// The running timer.
    pub timer: Timer,
    pub(crate) socket: Option<Socket>,
}

impl LabSocket {
    /// Describes an open socket of this process by its current state.
    #[track_caller]
    pub(crate) fn of(socket: Socket, namespace: &Namespace, protocol: Protocol, state: State) -> Self {
        let family = Family::of(&socket);
        let local = socket.local_addr().ok();
        let peer = socket.peer_addr().ok();
        let name = (family == Family::Unix).then(|| local.as_ref().map_or(UnixName::Unnamed, UnixName::of));
        Self {
            protocol,
            local: local.and_then(|address| address.as_socket()),
            peer: peer.and_then(|address| address.as_socket()),
            name,
            inode: inode_of(socket.as_fd()),
            cookie: socket.cookie().ok(),
            uid: rustix::process::geteuid().as_raw(),
            pid: Some(std::process::id()),
            socket: Some(socket),
            ..Self::without_file(namespace, family, state)
        }
    }

    /// Describes a TCP socket without a file and without addresses.
    pub(crate) fn without_file(namespace: &Namespace, family: Family, state: State) -> Self {
        Self {
            namespace: namespace.clone(),
            family,
            protocol: Protocol::Tcp,
            state,
            local: None,
            peer: None,
            name: None,
            peer_inode: None,
            inode: 0,
            cookie: None,
            uid: 0,
            pid: None,
            recv_queue: 0,
            send_queue: 0,
            timer: Timer::Off,
            socket: None,
        }
    }

    /// The local port; 0 if there is none.
    pub fn port(&self) -> u16 {
        self.local.map_or(0, |address| address.port())
    }

    /// The socket itself, to send, read or set options; panics if this process has no descriptor.
    #[track_caller]
    pub fn socket(&self) -> &Socket {
        self.socket
            .as_ref()
            .unwrap_or_else(|| panic!("lab: this process has no descriptor of {self:?}"))
    }

    /// Its descriptor, if this process has one.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(Socket::as_fd)
    }

    /// A second descriptor for the same socket; panics if this process has none.
    #[track_caller]
    pub fn duplicate(&self) -> OwnedFd {
        self.socket().try_clone().or_panic("dup a socket").into()
    }

    /// Waits for a listener's next connection, such as from a [`Process`](crate::Process).
    #[track_caller]
    pub fn accept(&self) -> Self {
        self.socket()
            .set_nonblocking(true)
            .or_panic("make the listener non-blocking");
        let accepted = wait_for("a connection to accept", || match self.socket().accept() {
            Ok((socket, _)) => Some(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => panic!("lab: accept: {error}"),
        });
        accepted
            .set_nonblocking(false)
            .or_panic("make the connection blocking");
        Self::of(accepted, &self.namespace, self.protocol, State::Established)
    }

    /// The port id of a netlink socket (`ss` and `/proc/net/netlink` call it port or Pid).
    pub fn netlink_port(&self) -> Option<u32> {
        let address = rustix::net::getsockname(self.fd()?).ok()?;
        SocketAddrNetlink::try_from(address)
            .ok()
            .map(|address| address.pid())
    }

    /// The current row of a TCP socket in inet_diag, found by its addresses.
    pub fn row(&self) -> Option<Row> {
        let (local, peer) = (self.local?, self.peer);
        let row = self.namespace.run(|| lookup::tcp(local, peer));
        if row.is_none() && self.state == State::Listen {
            // The lookup has no device, so it does not match a listener that is bound to one.
            return self
                .namespace
                .tcp_rows()
                .into_iter()
                .find(|row| row.inode == self.inode);
        }
        row
    }

    /// Waits until the row of a TCP socket meets `condition`, and returns that row.
    #[track_caller]
    pub fn wait_row(&self, what: &str, condition: impl Fn(&Row) -> bool) -> Row {
        let mut seen = None;
        let name = format!("{what} of {:?} -> {:?}", self.local, self.peer);
        wait_for(name, || {
            seen = self.row();
            seen.clone().filter(|row| condition(row))
        })
    }

    /// Waits for a state in the kernel, and records it.
    #[track_caller]
    pub(crate) fn wait_for_state(&mut self, state: State) {
        self.wait_row(state.name(), |row| row.state == state);
        self.state = state;
        // Nothing was read or acknowledged: a SYN or FIN counts as a byte in its queue.
        (self.recv_queue, self.send_queue) = match state {
            State::SynSent | State::FinWait1 => (0, 1),
            State::CloseWait => (1, 0),
            State::Closing | State::LastAck => (1, 1),
            _ => (0, 0),
        };
    }

    /// Closes this process's descriptor; the remaining kernel socket has no inode, user or process.
    pub(crate) fn orphan(&mut self) {
        self.socket = None;
        self.inode = 0;
        self.uid = 0;
        self.pid = None;
        self.cookie = None;
    }
}

/// Both ends of a connection, and its listener if it has its own.
#[derive(Debug)]
pub struct Pair {
    /// The active side (or the first of a socketpair).
    pub client: LabSocket,
    /// The passive side (or the second of a socketpair).
    pub server: LabSocket,
    /// The listener for this connection alone; `None` if it is shared, or there is none.
    pub listener: Option<LabSocket>,
}

impl Pair {
    /// All its sockets, the listener last.
    pub fn lab_sockets(&self) -> impl Iterator<Item = &LabSocket> {
        [&self.client, &self.server]
            .into_iter()
            .chain(self.listener.as_ref())
    }
}

/// Address family of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// AF_UNIX
    Unix,
    /// AF_INET
    Inet,
    /// AF_INET6, v4-mapped connections included
    Inet6,
    /// AF_NETLINK
    Netlink,
    /// AF_PACKET
    Packet,
}

impl Family {
    #[track_caller]
    fn of(socket: &Socket) -> Self {
        let domain = i32::from(socket.domain().or_panic("SO_DOMAIN"));
        // include/linux/socket.h
        match domain {
            1 => Self::Unix,
            2 => Self::Inet,
            10 => Self::Inet6,
            16 => Self::Netlink,
            17 => Self::Packet,
            other => panic!("lab: address family {other}"),
        }
    }
}

/// Protocol of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// IPPROTO_TCP
    Tcp,
    /// IPPROTO_MPTCP
    Mptcp,
    /// IPPROTO_UDP
    Udp,
    /// IPPROTO_UDPLITE
    UdpLite,
    /// SOCK_RAW over IP with this protocol number
    Raw(u8),
    /// SOCK_STREAM of AF_UNIX
    UnixStream,
    /// SOCK_DGRAM of AF_UNIX
    UnixDatagram,
    /// SOCK_SEQPACKET of AF_UNIX
    UnixSeqpacket,
    /// SOCK_RAW of AF_PACKET, with its ethertype
    Packet(u16),
    /// AF_NETLINK, with its family (NETLINK_ROUTE is 0)
    Netlink(u8),
}

/// The name of a UNIX socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UnixName {
    /// Not bound.
    Unnamed,
    /// A file.
    Path(PathBuf),
    /// An abstract name, without its leading NUL.
    Abstract(Vec<u8>),
}

impl UnixName {
    fn of(address: &socket2::SockAddr) -> Self {
        if let Some(path) = address.as_pathname() {
            return Self::Path(path.to_owned());
        }
        address
            .as_abstract_namespace()
            .map_or(Self::Unnamed, |name| Self::Abstract(name.to_owned()))
    }
}

pub(crate) fn inode_of(fd: BorrowedFd<'_>) -> u64 {
    rustix::fs::fstat(fd).or_panic("fstat a socket").st_ino
}

/// The v4-mapped form `::ffff:a.b.c.d` of an IPv4 address, as an AF_INET6 socket shows it.
pub(crate) fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => IpAddr::V6(Ipv6Addr::from(v4.to_ipv6_mapped().octets())),
        v6 @ IpAddr::V6(_) => v6,
    }
}
