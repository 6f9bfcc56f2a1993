//! Which sockets have data that stand still, from looks at them one after the other.

use foldhash::fast::FixedState;
use sockeye_model::{Endpoint, Inode, NetnsInode, Protocol, Queues, Socket, State};
use std::collections::HashMap;

/// Compares looks at sockets: since when nothing has moved in their queues.
#[derive(Debug, Clone, Default)]
pub struct StuckFold {
    sockets: HashMap<Key, Tracked, FixedState>,
    left_out: u64,
}

/// What was seen of a socket, up to the last look. Times are in nanoseconds, and are lower bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// Since when its program has read nothing, while something waited in the receive queue; of a listener: since when connections wait.
    pub unread_ns: Option<u64>,
    /// Since when nothing of the send buffer was acknowledged; of a connection attempt, since when it was seen.
    pub unsent_ns: Option<u64>,
    /// Since when a part of that is in queues below the socket.
    pub lower_ns: Option<u64>,
    /// Since when only segments after a missing one are there.
    pub missing_ns: Option<u64>,
    /// Most bytes in the receive queue; of a listener: most connections.
    pub receive_max: u64,
    /// Most bytes in the send buffer.
    pub send_max: u64,
    /// Packets that the socket dropped since the first look; `None` if unknown.
    pub drops: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    netns: Option<NetnsInode>,
    protocol: Protocol,
    local: Endpoint,
    peer: Endpoint,
    inode: Option<Inode>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tracked {
    receive: Option<Standing>,
    send: Option<Standing>,
    /// Since when bytes are in lower queues
    lower: Option<u64>,
    missing: Option<Standing>,
    receive_max: u64,
    send_max: u64,
    first_drops: Option<u32>,
}

/// A queue that stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    /// How much has left it since the connection began, or what else changes if it moves.
    position: u64,
    since_ns: u64,
}

impl Standing {
    /// Returns the state of a queue after a look: the same one if it is where it was.
    fn next(
        before: Option<Self>,
        position: Option<u64>,
        is_same: fn(u64, u64) -> bool,
        at_ns: u64,
    ) -> Option<Self> {
        let position = position?;
        let since_ns = before
            .filter(|before| is_same(before.position, position))
            .map_or(at_ns, |before| before.since_ns);
        Some(Self { position, since_ns })
    }
}

impl StuckFold {
    /// Adds a look at a socket.
    pub fn observe(&mut self, at_ns: u64, socket: &Socket) {
        let key = Key::of(socket);
        let queues = Standings::of(socket);
        if queues.is_empty() {
            self.sockets.remove(&key);
            return;
        }
        if self.sockets.len() >= SOCKETS_MAX && !self.sockets.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let drops = socket.memory.and_then(|memory| memory.drops);
        let tracked = self.sockets.entry(key).or_insert_with(|| Tracked {
            first_drops: drops,
            ..Tracked::default()
        });
        let is_equal = |before, now| before == now;
        let is_same_received: fn(u64, u64) -> bool = match socket.protocol {
            Protocol::Tcp => is_equal,
            // Of datagrams only is known how much is there: a program that reads makes it less.
            _ => |before, now| now >= before,
        };
        tracked.receive = Standing::next(tracked.receive, queues.receive, is_same_received, at_ns);
        tracked.send = Standing::next(tracked.send, queues.send, is_equal, at_ns);
        tracked.missing = Standing::next(tracked.missing, queues.missing, is_equal, at_ns);
        tracked.lower = queues.has_lower.then(|| {
            let before = tracked
                .lower
                .filter(|_| tracked.send.is_some_and(|send| send.since_ns < at_ns));
            before.unwrap_or(at_ns)
        });
        tracked.receive_max = tracked.receive_max.max(queues.receive_bytes);
        tracked.send_max = tracked.send_max.max(queues.send_bytes);
    }

    /// Returns what is known of a socket whose last look was at this time; `None` if nothing waits in it.
    #[must_use]
    pub fn observed(&self, at_ns: u64, socket: &Socket) -> Option<Observed> {
        let tracked = self.sockets.get(&Key::of(socket))?;
        let age = |since_ns: u64| at_ns.saturating_sub(since_ns);
        let standing = |standing: Option<Standing>| standing.map(|standing| age(standing.since_ns));
        let now = socket.memory.and_then(|memory| memory.drops);
        Some(Observed {
            unread_ns: standing(tracked.receive),
            unsent_ns: standing(tracked.send),
            lower_ns: tracked.lower.map(age),
            missing_ns: standing(tracked.missing),
            receive_max: tracked.receive_max,
            send_max: tracked.send_max,
            drops: tracked
                .first_drops
                .zip(now)
                .map(|(first, now)| now.saturating_sub(first).into()),
        })
    }

    /// Returns how many looks at sockets did not fit.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Key {
    const fn of(socket: &Socket) -> Self {
        Self {
            netns: socket.netns,
            protocol: socket.protocol,
            local: socket.local,
            peer: socket.peer,
            inode: socket.inode,
        }
    }
}

/// Where the queues of a socket are; `None` if nothing is in one, or if it is not known whether it moves.
#[derive(Debug, Default)]
struct Standings {
    receive: Option<u64>,
    send: Option<u64>,
    missing: Option<u64>,
    has_lower: bool,
    receive_bytes: u64,
    send_bytes: u64,
}

impl Standings {
    fn of(socket: &Socket) -> Self {
        let (receive, send) = match socket.queues {
            Queues::Data {
                receive_bytes,
                send_bytes,
            } => (u64::from(receive_bytes), u64::from(send_bytes)),
            Queues::Accept { waiting, .. } => {
                return Self {
                    receive: (waiting > 0).then_some(0),
                    receive_bytes: waiting.into(),
                    ..Self::default()
                };
            }
            Queues::Unknown => return Self::default(),
        };
        let memory = socket.memory.unwrap_or_default();
        let is_tcp = socket.protocol == Protocol::Tcp;
        let info = socket.tcp_info.as_ref();
        let read = |received: u64| received.saturating_sub(receive);
        let unread = receive.saturating_sub(fin_received(socket.state));
        let is_attempt = matches!(socket.state, State::SynSent | State::SynRecv | State::NewSynRecv);
        let has_sent = !matches!(socket.state, State::TimeWait | State::Close | State::Listen) || !is_tcp;
        Self {
            receive: match info {
                _ if unread == 0 => None,
                Some(info) if is_tcp => info.bytes_received.map(read),
                _ if is_tcp => None,
                _ => Some(receive),
            },
            send: match info {
                _ if is_attempt => Some(0),
                _ if send == 0 || !has_sent => None,
                Some(info) if is_tcp => info.bytes_acked,
                _ if is_tcp => None,
                _ => Some(send),
            },
            missing: info
                .filter(|_| is_tcp && socket.state == State::Established)
                .and_then(|info| {
                    let out_of_order = memory.rmem_alloc_bytes.is_some_and(|bytes| bytes > 0) && receive == 0;
                    info.bytes_received.filter(|_| out_of_order)
                }),
            has_lower: is_tcp && memory.wmem_alloc_bytes.is_some_and(|bytes| bytes > 0),
            receive_bytes: unread,
            send_bytes: send,
        }
    }

    const fn is_empty(&self) -> bool {
        self.receive.is_none() && self.send.is_none() && self.missing.is_none()
    }
}

/// Returns how many bytes of a receive queue are the FIN of the peer.
pub(crate) const fn fin_received(state: State) -> u64 {
    matches!(state, State::CloseWait | State::LastAck | State::Closing) as u64
}

/// Sockets that are kept.
const SOCKETS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Memory, Port, TcpInfo};

    fn tcp(received: u64, receive_bytes: u32, acked: u64, send_bytes: u32) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(80));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(5000));
        socket.queues = Queues::Data {
            receive_bytes,
            send_bytes,
        };
        socket.tcp_info = Some(TcpInfo {
            bytes_received: Some(received),
            bytes_acked: Some(acked),
            ..TcpInfo::default()
        });
        socket
    }

    /// The times of the receive queue and the send buffer after these looks, a second apart.
    fn times(looks: &[Socket]) -> Option<(Option<u64>, Option<u64>)> {
        let mut fold = StuckFold::default();
        let mut at_ns = 0;
        for socket in looks {
            at_ns += 1_000;
            fold.observe(at_ns, socket);
        }
        let observed = fold.observed(at_ns, looks.last()?)?;
        Some((observed.unread_ns, observed.unsent_ns))
    }

    #[test]
    fn queue_stands_still_while_nothing_leaves_it() {
        // More comes in, and nothing is read.
        let unread = [tcp(100, 100, 0, 0), tcp(300, 300, 0, 0), tcp(300, 300, 0, 0)];
        assert_eq!(times(&unread), Some((Some(2_000), None)));
        // As much is read as comes in: it is as full as before.
        let read = [tcp(100, 100, 0, 0), tcp(200, 100, 0, 0)];
        assert_eq!(times(&read), Some((Some(0), None)));
        let unsent = [tcp(0, 0, 5, 70), tcp(0, 0, 5, 90)];
        assert_eq!(times(&unsent), Some((None, Some(1_000))));
        let acknowledged = [tcp(0, 0, 5, 70), tcp(0, 0, 25, 70)];
        assert_eq!(times(&acknowledged), Some((None, Some(0))));
        assert_eq!(times(&[tcp(0, 0, 5, 70), tcp(0, 0, 75, 0)]), None);
        // It was empty in between.
        let again = [tcp(9, 9, 0, 0), tcp(9, 0, 0, 0), tcp(9, 9, 0, 0)];
        assert_eq!(times(&again), Some((Some(0), None)));
    }

    #[test]
    fn datagrams_are_read_if_fewer_are_there() {
        let udp = |receive_bytes| {
            let mut socket = tcp(0, receive_bytes, 0, 0);
            (socket.protocol, socket.tcp_info) = (Protocol::Udp, None);
            socket
        };
        assert_eq!(times(&[udp(700), udp(900)]), Some((Some(1_000), None)));
        assert_eq!(times(&[udp(900), udp(700), udp(700)]), Some((Some(1_000), None)));
    }

    #[test]
    fn end_of_the_peer_is_not_unread_data() {
        let mut socket = tcp(1, 1, 0, 0);
        socket.state = State::CloseWait;
        assert_eq!(times(&[socket]), None);
    }

    #[test]
    fn unknown_progress_is_not_standing_still() {
        let mut socket = tcp(100, 100, 0, 7);
        socket.tcp_info = Some(TcpInfo::default());
        assert_eq!(times(&[socket.clone(), socket]), None);
    }

    #[test]
    fn segments_after_a_missing_one_are_in_memory_only() {
        let mut socket = tcp(100, 0, 0, 0);
        socket.memory = Some(Memory {
            rmem_alloc_bytes: Some(2304),
            ..Memory::default()
        });
        let mut fold = StuckFold::default();
        fold.observe(1, &socket);
        fold.observe(8, &socket);
        assert_eq!(fold.observed(8, &socket).unwrap().missing_ns, Some(7));
    }
}
