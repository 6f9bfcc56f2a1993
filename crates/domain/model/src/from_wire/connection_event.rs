//! Records of the programs that watch connections to `ConnectionEvent`.

use crate::connection_event::{
    ConnectionEnd, ConnectionEvent, ConnectionEventKind, EventOwner, OwnerKnownBy, Retransmission, Side,
};
use crate::{
    CaState, CgroupId, Comm, Cookie, Direction, Endpoint, Family, Inode, InterfaceIndex, NetnsInode, Pid,
    Port, Process, Protocol, Socket, State, TcpInfo, Uid,
};
use sockeye_wire::connections::{Event, Totals, how, kind, side};
use std::net::{IpAddr, Ipv6Addr};

impl ConnectionEvent {
    /// Reads a record; `None` if it is too short or of an unknown kind.
    #[must_use]
    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        let event = Event::read(bytes)?;
        let totals = (event.kind == kind::CLOSED).then(|| Totals::read(bytes));
        let totals = match totals {
            Some(totals) => Some(totals?),
            None => None,
        };
        let kind = kind_of(&event)?;
        let (state, old_state) = (
            State::from_number(event.state),
            State::from_number(event.old_state),
        );
        let is_tracked = event.is_tracked != 0;
        let since = |start: u64| {
            let known = is_tracked && start != 0;
            known.then(|| event.time_ns.saturating_sub(start) / 1000)
        };
        let errno = (event.error != 0).then_some(event.error);
        let (end, ended_by) = end_of(&event, kind);
        let setup_us = match kind {
            ConnectionEventKind::Open | ConnectionEventKind::Fail => since(event.started_ns),
            _ => None,
        };
        Some(Self {
            kind,
            time_ns: event.time_ns,
            identity: event.sock,
            socket: socket_of(&event, state, totals.as_ref()),
            old_state,
            direction: match event.direction {
                side::OURS => Some(Direction::Active),
                side::PEERS => Some(Direction::Passive),
                _ => None,
            },
            owner: process(event.owner_pid, &event.owner_comm).map(|process| EventOwner {
                process,
                known_by: match event.owner_how {
                    how::CONNECT => OwnerKnownBy::Connect,
                    how::ACCEPTING => OwnerKnownBy::Accept,
                    _ => OwnerKnownBy::Listener,
                },
            }),
            closer: process(event.closer_pid, &event.closer_comm),
            setup_us,
            duration_us: since(event.opened_ns).filter(|_| kind == ConnectionEventKind::Close),
            end,
            ended_by,
            errno,
            reset_reason: u32::try_from(event.reason).ok(),
            retransmission: (kind == ConnectionEventKind::Retransmit).then(|| {
                match (state, CaState::from_number(event.ca_state)) {
                    (State::SynSent | State::SynRecv, _) => Retransmission::Syn,
                    (_, CaState::Loss) => Retransmission::Timeout,
                    (_, CaState::Recovery) => Retransmission::Fast,
                    _ => Retransmission::Probe,
                }
            }),
            // Each byte once: what was sent, less what was sent again. The peer may not have received all of it.
            sent_bytes: totals
                .as_ref()
                .map(|totals| totals.bytes_sent.saturating_sub(totals.bytes_retrans)),
            // The kernel counts a FIN as a byte.
            received_bytes: totals.as_ref().map(|totals| {
                let fin = u64::from(event.has_peers_fin != 0);
                totals.bytes_received.saturating_sub(fin)
            }),
        })
    }
}

fn kind_of(event: &Event) -> Option<ConnectionEventKind> {
    Some(match event.kind {
        kind::OPENED => ConnectionEventKind::Open,
        kind::FAILED => ConnectionEventKind::Fail,
        kind::CLOSED => ConnectionEventKind::Close,
        kind::STATE => ConnectionEventKind::State,
        kind::LISTENS => ConnectionEventKind::Listen,
        kind::UNLISTENS => ConnectionEventKind::Unlisten,
        kind::RESET_SENT => ConnectionEventKind::ResetSent,
        kind::RESET_RECEIVED => ConnectionEventKind::ResetReceived,
        kind::RETRANSMITTED => ConnectionEventKind::Retransmit,
        _ => return None,
    })
}

/// Returns how a connection ended, and by whom.
fn end_of(event: &Event, kind: ConnectionEventKind) -> (Option<ConnectionEnd>, Option<Side>) {
    if !matches!(kind, ConnectionEventKind::Close | ConnectionEventKind::Fail) {
        return (None, None);
    }
    // A reset may have been noted for a connection of which nothing else is known.
    let (sent, received) = (event.resets & side::OURS != 0, event.resets & side::PEERS != 0);
    if received || matches!(event.error, CONNECTION_REFUSED | CONNECTION_RESET | BROKEN_PIPE) {
        // Before the connection is established an ICMP message can refuse it as well.
        return if received || kind == ConnectionEventKind::Close {
            (Some(ConnectionEnd::ResetReceived), Some(Side::Peer))
        } else {
            (Some(ConnectionEnd::Error), None)
        };
    }
    if event.error == TIMED_OUT {
        return (Some(ConnectionEnd::Timeout), None);
    }
    if sent {
        return (Some(ConnectionEnd::ResetSent), Some(Side::Local));
    }
    if event.error != 0 {
        return (Some(ConnectionEnd::Error), None);
    }
    if kind == ConnectionEventKind::Fail {
        return if event.local_port == 0 {
            (Some(ConnectionEnd::NoPort), Some(Side::Local))
        } else {
            (Some(ConnectionEnd::Abandoned), Some(Side::Local))
        };
    }
    let first = match event.first_fin {
        side::OURS => Some(Side::Local),
        side::PEERS => Some(Side::Peer),
        _ => None,
    };
    match State::from_number(event.old_state) {
        // Only after the peer's FIN, and only after ours.
        State::LastAck => (Some(ConnectionEnd::Fin), Some(first.unwrap_or(Side::Peer))),
        State::FinWait2 | State::Closing | State::TimeWait => {
            (Some(ConnectionEnd::Fin), Some(first.unwrap_or(Side::Local)))
        }
        _ => (None, first),
    }
}

fn socket_of(event: &Event, state: State, totals: Option<&Totals>) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, state);
    let is_v4 = event.family == AF_INET;
    socket.family = Family::from_number(u8::try_from(event.family).unwrap_or(u8::MAX));
    let endpoint = |address: [u8; 16], port| {
        let address = Ipv6Addr::from(address);
        let ip = match address.to_ipv4_mapped() {
            Some(v4) if is_v4 => IpAddr::V4(v4),
            _ => IpAddr::V6(address),
        };
        Endpoint::inet(ip, Port(port))
    };
    socket.local = endpoint(event.local, event.local_port);
    socket.peer = endpoint(event.peer, event.peer_port);
    socket.interface = (event.interface != 0).then_some(InterfaceIndex(event.interface));
    socket.netns = Some(NetnsInode(event.netns));
    socket.inode = (event.inode != 0).then_some(Inode(event.inode));
    socket.cookie = (event.cookie != 0).then_some(Cookie(event.cookie));
    socket.uid = Some(Uid(event.uid));
    socket.mark = Some(event.mark);
    socket.cgroup = (event.cgroup != 0).then_some(CgroupId(event.cgroup));
    socket.tcp_info = totals.map(|totals| TcpInfo {
        rtt_us: (totals.srtt_us != 0).then_some(totals.srtt_us),
        min_rtt_us: (totals.min_rtt_us != u32::MAX).then_some(totals.min_rtt_us),
        total_retrans_segs: Some(totals.total_retrans),
        bytes_acked: Some(totals.bytes_acked),
        bytes_received: Some(totals.bytes_received),
        bytes_sent: Some(totals.bytes_sent),
        bytes_retrans: Some(totals.bytes_retrans),
        segs_in: Some(totals.segs_in),
        segs_out: Some(totals.segs_out),
        data_segs_in: Some(totals.data_segs_in),
        data_segs_out: Some(totals.data_segs_out),
        ..TcpInfo::default()
    });
    socket
}

fn process(pid: u32, comm: &[u8; 16]) -> Option<Process> {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    (pid != 0).then(|| Process {
        pid: Pid(pid),
        pgid: None,
        comm: Comm::new(&comm[..end]),
    })
}

const AF_INET: u16 = 2;

// Errnos.
const BROKEN_PIPE: i32 = 32;
const CONNECTION_RESET: i32 = 104;
const TIMED_OUT: i32 = 110;
const CONNECTION_REFUSED: i32 = 111;

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of this kind, changed by `change`.
    fn read(kind: u32, old_state: u8, change: impl FnOnce(&mut [u8])) -> ConnectionEvent {
        let mut bytes = vec![0; 256];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        (bytes[4], bytes[5]) = (old_state, 7);
        bytes[64..66].copy_from_slice(&443_u16.to_ne_bytes());
        bytes[72..74].copy_from_slice(&AF_INET.to_ne_bytes());
        bytes[180..184].copy_from_slice(&(-1_i32).to_ne_bytes());
        change(&mut bytes);
        ConnectionEvent::from_wire(&bytes).expect("it is complete")
    }

    fn set(bytes: &mut [u8], at: usize, value: u64) {
        bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }

    #[test]
    fn end_is_the_reset_then_the_error_then_the_fin() {
        let (last_ack, fin_wait_2, established, syn_sent) = (9, 5, 1, 2);
        let error =
            |errno: i32| move |bytes: &mut [u8]| bytes[176..180].copy_from_slice(&errno.to_ne_bytes());
        let check = |event: ConnectionEvent, end, side| assert_eq!((event.end, event.ended_by), (end, side));
        let closed = |state| read(kind::CLOSED, state, |_| ());
        check(closed(last_ack), Some(ConnectionEnd::Fin), Some(Side::Peer));
        check(closed(fin_wait_2), Some(ConnectionEnd::Fin), Some(Side::Local));
        // It may be followed by a RST.
        check(closed(established), None, None);
        let reset = read(kind::CLOSED, established, |bytes| bytes[170] = side::PEERS);
        check(reset, Some(ConnectionEnd::ResetReceived), Some(Side::Peer));
        let timeout = read(kind::CLOSED, established, error(TIMED_OUT));
        check(timeout, Some(ConnectionEnd::Timeout), None);
        let refused = read(kind::FAILED, syn_sent, error(CONNECTION_REFUSED));
        check(refused, Some(ConnectionEnd::Error), None);
        let abandoned = read(kind::FAILED, syn_sent, |_| ());
        check(abandoned, Some(ConnectionEnd::Abandoned), Some(Side::Local));
        let no_port = read(kind::FAILED, syn_sent, |bytes| bytes[64..66].fill(0));
        check(no_port, Some(ConnectionEnd::NoPort), Some(Side::Local));
    }

    #[test]
    fn fin_and_retransmissions_are_no_data() {
        let event = read(kind::CLOSED, 9, |bytes| {
            bytes[7] = 1;
            set(bytes, 200, 101);
            set(bytes, 208, 1500);
            set(bytes, 216, 500);
        });
        assert_eq!((event.received_bytes, event.sent_bytes), (Some(100), Some(1000)));
    }

    #[test]
    fn times_are_unknown_of_what_is_older_than_the_watch() {
        let at = |is_tracked| {
            read(kind::CLOSED, 9, |bytes| {
                bytes[6] = is_tracked;
                set(bytes, 8, 5_000_000);
                set(bytes, 112, 2_000_000);
            })
        };
        assert_eq!((at(1).duration_us, at(0).duration_us), (Some(3_000), None));
        assert_eq!(at(1).setup_us, None);
        assert_eq!(at(1).owner, None);
    }

    #[test]
    fn short_and_unknown_records_are_none() {
        assert_eq!(ConnectionEvent::from_wire(&[0; 185]), None);
        let mut closed = vec![0; 251];
        closed[..4].copy_from_slice(&kind::CLOSED.to_ne_bytes());
        assert_eq!(ConnectionEvent::from_wire(&closed), None);
        assert_eq!(ConnectionEvent::from_wire(&[0xff; 300]), None);
    }
}
