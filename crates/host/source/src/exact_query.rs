//! One socket at a time from `sock_diag`: for what only that can tell.

use crate::ladder::extensions;
use crate::query::{NetnsScope, Query};
use sockeye_model::{Protocol, Socket, State};
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::inet_diag::{self, InetDiag, SOCK_DIAG_BY_FAMILY, SocketId};
use sockeye_wire::netlink::Messages;
use sockeye_wire::walk::Record;
use std::ops::Range;

/// Asks for single sockets in the place that a query is about.
///
/// A walk reads what TCP knows; an upper layer (TLS, MPTCP), or a congestion control that we do not know from
/// inside, tells of itself by code of its own, which only the kernel can run. Such sockets are few. One that has
/// gone by the time it is asked for stays as it was read.
pub(crate) struct ExactQuery<'a> {
    query: &'a Query<'a>,
    socket: Option<Result<DiagSocket, ()>>,
    sequence: u32,
    buffer: Vec<u8>,
    /// Questions that the kernel did not answer.
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

    /// Adds to `place` what `sock_diag` says of it beyond what `record` has, and gives the message that said it.
    pub(crate) fn ask(&mut self, record: &Record<'_>, place: &mut Socket) -> Option<&[u8]> {
        // From outside nobody is asked: there each namespace would have to be entered.
        if matches!(self.query.scope, NetnsScope::All) {
            return None;
        }
        match self.answer(record) {
            Ok(Some((found, message))) => {
                // Moments have passed, and of several listeners at one address the kernel picks whichever it likes: it
                // must be the same socket.
                if (found.local, found.peer, found.state, found.inode)
                    == (place.local, place.peer, place.state, place.inode)
                {
                    (place.cookie, place.ulp) = (found.cookie, found.ulp);
                    (place.congestion, place.congestion_info) = (found.congestion, found.congestion_info);
                    return self.buffer.get(message);
                }
            }
            Ok(None) => {} // it has gone
            Err(()) => self.unanswered += 1,
        }
        None
    }

    /// What the kernel says of one socket, and where in the buffer; `None`: that there is none.
    fn answer(&mut self, record: &Record<'_>) -> Result<Option<(Socket, Range<usize>)>, ()> {
        let query = self.query;
        let opened = self.socket.get_or_insert_with(|| {
            let opened = query.inside(DiagSocket::open);
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
        // What was asked before and came too late is passed over.
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
                return Ok(None); // an error, which is ENOENT for one that has gone
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

/// So many answers that came too late are passed over.
const LATE_MAX: u32 = 16;

/// `IPPROTO_TCP`
const TCP: u8 = 6;

/// One message of one socket.
const BUFFER_BYTES: usize = 8192;
