//! Makes UNIX sockets in a namespace: stream, datagram and seqpacket; named, abstract and pairs.

use crate::or_panic::OrPanic;
use crate::{LabSocket, Namespace, Pair, Protocol, State, UnixName};
use socket2::{Domain, SockAddr, Socket, Type};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Type of a UNIX socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnixKind {
    /// SOCK_STREAM
    Stream,
    /// SOCK_DGRAM
    Datagram,
    /// SOCK_SEQPACKET
    Seqpacket,
}

impl UnixKind {
    fn kind(self) -> Type {
        match self {
            Self::Stream => Type::STREAM,
            Self::Datagram => Type::DGRAM,
            Self::Seqpacket => Type::SEQPACKET,
        }
    }

    fn protocol(self) -> Protocol {
        match self {
            Self::Stream => Protocol::UnixStream,
            Self::Datagram => Protocol::UnixDatagram,
            Self::Seqpacket => Protocol::UnixSeqpacket,
        }
    }
}

/// UNIX sockets, which also belong to a network namespace. Names come from
/// [`Lab::unix_path`](crate::Lab::unix_path) and [`Lab::unix_abstract`](crate::Lab::unix_abstract).
impl Namespace {
    /// A named socket; stream and seqpacket sockets listen, a datagram socket is only bound.
    #[track_caller]
    pub fn unix_bound(&self, kind: UnixKind, name: &UnixName) -> LabSocket {
        let make = || {
            let socket = Socket::new(Domain::UNIX, kind.kind(), None)?;
            socket.bind(&address(name)?)?;
            if kind != UnixKind::Datagram {
                socket.listen(128)?;
            }
            Ok::<_, io::Error>(socket)
        };
        let socket = self.run(make).or_panic(format_args!("bind {kind:?} to {name:?}"));
        let state = if kind == UnixKind::Datagram {
            State::Close
        } else {
            State::Listen
        };
        let mut lab_socket = LabSocket::of(socket, self, kind.protocol(), state);
        if state == State::Listen {
            lab_socket.send_queue = 128;
        }
        lab_socket
    }

    /// A client connected to a named socket; the server's end has the name, the client's has none.
    ///
    /// For stream and seqpacket sockets the accepted end is the pair's server, and the bound one its
    /// listener. For datagram sockets the bound one is the server, which has no peer but is ESTABLISHED.
    #[track_caller]
    pub fn unix_connected(&self, kind: UnixKind, name: &UnixName) -> Pair {
        let mut bound = self.unix_bound(kind, name);
        let connect = || {
            let socket = Socket::new(Domain::UNIX, kind.kind(), None)?;
            socket.connect(&address(name)?)?;
            Ok::<_, io::Error>(socket)
        };
        let client = self
            .run(connect)
            .or_panic(format_args!("connect {kind:?} to {name:?}"));
        let mut client = LabSocket::of(client, self, kind.protocol(), State::Established);
        if kind == UnixKind::Datagram {
            client.peer_inode = Some(bound.inode);
            // Since Linux 5.15 unix_dgram_connect marks both ends as connected.
            bound.state = State::Established;
            return Pair {
                client,
                server: bound,
                listener: None,
            };
        }
        let (accepted, _) = bound.socket().accept().or_panic("accept");
        let mut server = LabSocket::of(accepted, self, kind.protocol(), State::Established);
        client.peer_inode = Some(server.inode);
        server.peer_inode = Some(client.inode);
        Pair {
            client,
            server,
            listener: Some(bound),
        }
    }

    /// A socketpair: two connected sockets without names.
    #[track_caller]
    pub fn unix_pair(&self, kind: UnixKind) -> Pair {
        let (one, other) = self
            .run(|| Socket::pair(Domain::UNIX, kind.kind(), None))
            .or_panic("make a socketpair");
        let mut client = LabSocket::of(one, self, kind.protocol(), State::Established);
        let mut server = LabSocket::of(other, self, kind.protocol(), State::Established);
        client.peer_inode = Some(server.inode);
        server.peer_inode = Some(client.inode);
        Pair {
            client,
            server,
            listener: None,
        }
    }
}

fn address(name: &UnixName) -> io::Result<SockAddr> {
    match name {
        UnixName::Unnamed => Err(io::Error::other("an unnamed socket has no address")),
        UnixName::Path(path) => SockAddr::unix(path),
        UnixName::Abstract(name) => {
            let mut bytes = vec![0];
            bytes.extend_from_slice(name);
            SockAddr::unix(OsStr::from_bytes(&bytes))
        }
    }
}
