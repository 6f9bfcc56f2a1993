//! Queries single sockets by `sock_diag`, for what a BPF walk cannot read.

use crate::query::{NetnsScope, Query};
use crate::request_bits::extensions;
use sockeye_model::{Protocol, Socket, State};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::inet_diag::{self, InetDiag, SOCK_DIAG_BY_FAMILY, SocketId};
use sockeye_wire::netlink::Messages;
use sockeye_wire::walk::Record;
use std::ops::Range;

/// Queries single sockets in the namespace of a query.
///
/// A walk reads the fields of TCP. An upper layer (TLS, MPTCP) or a congestion control whose layout we do not know
/// reports its state by its own code, which only the kernel can run. Such sockets are few. A socket that is closed
/// before it is queried keeps what the walk read.
pub(crate) struct ExactQuery<'a> {
    query: &'a Query<'a>,
    socket: Option<Result<NetlinkSocket, ()>>,
    sequence: u32,
    buffer: Vec<u8>,
    /// Queries without a reply.
    pub(crate) unanswered: u64,
}

impl<'a> ExactQuery<'a> {
    pub(crate) fn new(query: &'a Query<'a>) -> Self {
        Self {
            query,
            socket: None,
            sequence: 0,
            buffer: Vec::new(),
            unanswered: 0,
        }
    }

    /// Completes `socket`, which was read from `record`, from `sock_diag`, and returns the payload of the reply; `None` if the
    /// socket is gone, or the query covers all namespaces.
    pub(crate) fn ask(&mut self, record: &Record<'_>, socket: &mut Socket) -> Option<&[u8]> {
        // With all namespaces, each would have to be entered.
        if matches!(self.query.scope, NetnsScope::All) {
            return None;
        }
        match self.query_one(record) {
            Ok(Some((found, message))) => {
                // The socket may have been replaced meanwhile, and of several listeners at one address the kernel returns any:
                // it must be the same socket.
                if (found.local, found.peer, found.state, found.inode)
                    == (socket.local, socket.peer, socket.state, socket.inode)
                {
                    (socket.cookie, socket.ulp) = (found.cookie, found.ulp);
                    (socket.congestion, socket.congestion_info) = (found.congestion, found.congestion_info);
                    return self.buffer.get(message);
                }
            }
            Ok(None) => {} // it has gone
            Err(()) => self.unanswered += 1,
        }
        None
    }

    /// Queries one socket. Returns it with the position of the payload in the buffer; `None` if there is no such socket.
    fn query_one(&mut self, record: &Record<'_>) -> Result<Option<(Socket, Range<usize>)>, ()> {
        let query = self.query;
        let opened = self.socket.get_or_insert_with(|| {
            let opened = query.inside(NetlinkSocket::open);
            opened.map_err(drop).and_then(|socket| socket.map_err(drop))
        });
        let Ok(socket) = opened else { return Err(()) };
        self.sequence += 1;
        let request = inet_diag::Query {
            states: u32::MAX,
            extensions: extensions(query.detail),
            ports: (0, 0),
            bytecode: &[],
        };
        let id = SocketId {
            family: u8::try_from(record.family()).map_err(drop)?,
            local_port: record.local_port(),
            peer_port: record.peer_port(),
            local: record.local(),
            peer: record.peer(),
            interface: record.interface(),
        };
        socket
            .send(&request.exact(&id, TCP, self.sequence))
            .map_err(drop)?;
        self.buffer.resize(BUFFER_BYTES, 0);
        // Late replies to earlier queries are skipped.
        for _ in 0..LATE_MAX {
            let received = socket.receive(&mut self.buffer).map_err(drop)?;
            let message = Messages::new(self.buffer.get(..received.len).unwrap_or_default())
                .next()
                .ok_or(())?
                .map_err(drop)?;
            if message.sequence != self.sequence {
                continue;
            }
            if message.kind != SOCK_DIAG_BY_FAMILY {
                return Ok(None); // an error: ENOENT if the socket is gone
            }
            let mut found = Socket::new(Protocol::Tcp, State::Close);
            let wire = InetDiag::parse(message.payload).map_err(drop)?;
            found.read_inet_diag(&wire, Protocol::Tcp).map_err(drop)?;
            let start = message.payload.as_ptr() as usize - self.buffer.as_ptr() as usize;
            return Ok(Some((found, start..start + message.payload.len())));
        }
        Err(())
    }
}

/// Number of late replies that are skipped.
const LATE_MAX: u32 = 16;

/// `IPPROTO_TCP`
const TCP: u8 = 6;

/// Longest reply.
const BUFFER_BYTES: usize = 8192;
