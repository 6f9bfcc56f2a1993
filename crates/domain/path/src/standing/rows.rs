//! Rows of connections whose data stand still.

use crate::hop::{Device, Direction, HopKey, HopKind};
use crate::part::{Fill, Part};
use crate::report::{Hop, PathReport, Waiting};
use crate::sampled::row;
use crate::stuck::{Stuck, StuckCause, Way};
use sockeye_model::{Endpoint, Queues, Socket};
use std::net::SocketAddr;

impl PathReport {
    /// Adds connections whose data stand still, the worst first, with a row for each. Listeners that have a row keep theirs.
    pub fn add_stuck(&mut self, stuck: Vec<Stuck>) {
        for one in &stuck {
            let waiting = one.waiting();
            let part = one.part();
            // Of a connection both directions can stand still.
            let is_listener = matches!(part, Some(Part::Listener { .. }));
            let has_row = |hop: &&mut Hop| is_listener && hop.part == part;
            match self.hops.iter_mut().find(has_row) {
                Some(hop) => hop.waiting = Some(waiting),
                None => self.hops.push(one.row(part, waiting)),
            }
        }
        self.stuck = stuck;
    }
}

impl Stuck {
    fn waiting(&self) -> Waiting {
        let memory = self.socket.memory.unwrap_or_default();
        let (bytes, limit) = match (self.cause.hop().0, self.socket.queues) {
            (_, Queues::Accept { .. } | Queues::Unknown) => (None, None),
            (_, _) if self.cause == StuckCause::HalfOpen => (None, None),
            (Direction::In, Queues::Data { receive_bytes, .. }) => {
                let fill = Fill {
                    now: receive_bytes.into(),
                    max: self.observed.receive_max,
                };
                (
                    Some(fill).filter(|_| self.cause == StuckCause::Unread),
                    memory.rmem_alloc_bytes.zip(memory.rcvbuf_bytes),
                )
            }
            (Direction::Out, Queues::Data { send_bytes, .. }) => {
                let fill = Fill {
                    now: send_bytes.into(),
                    max: self.observed.send_max,
                };
                let is_attempt = self.cause == StuckCause::Connecting;
                (
                    Some(fill).filter(|_| !is_attempt),
                    memory.wmem_queued_bytes.zip(memory.sndbuf_bytes),
                )
            }
        };
        Waiting {
            cause: self.cause,
            at_least_ns: self.waits_ns,
            bytes,
            full_percent: limit.and_then(|(used, all)| {
                let percent = u64::from(used) * 100;
                u8::try_from(percent.checked_div(all.into())?.min(100)).ok()
            }),
            program: self.program.map(|program| program.process),
            more: self.more,
        }
    }

    /// Returns which queue it is; `None` if its ends are no addresses.
    fn part(&self) -> Option<Part> {
        let socket = &self.socket;
        let local = end(&socket.local)?;
        let netns = socket.netns.map(|netns| netns.0);
        Some(match socket.queues {
            Queues::Accept { backlog, .. } => Part::Listener {
                local,
                netns,
                limit: backlog,
            },
            _ => Part::Connection {
                protocol: socket.protocol,
                local,
                peer: end(&socket.peer).filter(|peer| peer.port() != 0),
                netns,
            },
        })
    }

    fn row(&self, part: Option<Part>, waiting: Waiting) -> Hop {
        let (direction, kind) = self.cause.hop();
        // Before the queue of a device packets wait for the link address of the next hop.
        let is_queued = |way: &&Way| kind == HopKind::Qdisc && way.queued_packets > Some(0);
        let device = self.way.as_ref().filter(is_queued).and_then(|way| {
            Some(Device {
                netns: self.socket.netns?.0,
                ifindex: i32::try_from(way.device.index.0).ok()?,
                name: way.device.name,
            })
        });
        let kind = if kind == HopKind::Qdisc && device.is_none() {
            HopKind::Output
        } else {
            kind
        };
        let key = HopKey {
            direction,
            kind,
            device,
        };
        let queued = match (self.socket.queues, &self.way) {
            (Queues::Accept { waiting, .. }, _) => Fill {
                now: waiting.into(),
                max: self.observed.receive_max,
            },
            (_, Some(way)) if kind == HopKind::Qdisc => {
                let packets = way.queued_packets.unwrap_or(0);
                Fill {
                    now: packets,
                    max: packets,
                }
            }
            _ => Fill::default(),
        };
        let mut hop = row(key, Part::Class(0), queued);
        (hop.part, hop.waiting) = (part, Some(waiting));
        hop
    }
}

/// Returns an end with an address.
fn end(endpoint: &Endpoint) -> Option<SocketAddr> {
    let (ip, port) = endpoint.ip().zip(endpoint.port())?;
    Some(SocketAddr::new(ip.to_canonical(), port.0))
}

/// Returns the ends of a connection as they are said: `10.0.0.1:80`.
pub(super) fn address(endpoint: &Endpoint) -> String {
    end(endpoint).map_or_else(|| "an unknown end".to_owned(), |end| end.to_string())
}

/// Returns what a socket has sent and received, and was not acknowledged or read.
pub(super) const fn queued(socket: &Socket) -> (u64, u64) {
    match socket.queues {
        Queues::Data {
            receive_bytes,
            send_bytes,
        } => (send_bytes as u64, receive_bytes as u64),
        _ => (0, 0),
    }
}
