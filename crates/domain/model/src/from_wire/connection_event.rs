//! Records of the programs that watch connections to `ConnectionEvent`.

use crate::connection_event::{
    ConnectionEnd, ConnectionEvent, ConnectionEventKind, ErrorCause, EventDetails, EventOwner, OwnerKnownBy,
    Refusal, Retransmission, Side,
};
use crate::{
    CaState, CgroupId, Comm, Cookie, Direction, Endpoint, Family, Inode, InterfaceIndex, NetnsInode, Pid,
    Port, Process, Protocol, Socket, State, TcpInfo, Uid,
};
use sockeye_wire::connections::{Datagrams, Event, Totals, cause, how, kind, refusal, side};
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
        let datagrams = match event.kind {
            kind::UDP_USED | kind::UDP_CLOSED | kind::UDP_FAILED => Some(Datagrams::read(bytes)?),
            _ => None,
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
        let setup_us = match event.kind {
            kind::OPENED | kind::FAILED => since(event.started_ns),
            _ => None,
        };
        let is_counted = event.kind == kind::UDP_CLOSED && is_tracked;
        let counted = datagrams.as_ref().filter(|_| is_counted);
        Some(Self {
            kind,
            // Of the first use of a UDP socket, when it began: an error can be there before it ends.
            time_ns: match event.kind {
                kind::UDP_USED if is_tracked && event.started_ns != 0 => event.started_ns,
                _ => event.time_ns,
            },
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
                    how::SENDING => OwnerKnownBy::Send,
                    how::RECEIVING => OwnerKnownBy::Receive,
                    _ => OwnerKnownBy::Listener,
                },
            }),
            closer: process(event.closer_pid, &event.closer_comm),
            setup_us,
            duration_us: since(event.opened_ns)
                .filter(|_| matches!(kind, ConnectionEventKind::Close | ConnectionEventKind::WindowOpen)),
            end,
            ended_by,
            errno,
            reset_reason: u32::try_from(event.reason)
                .ok()
                .filter(|_| event.kind == kind::RESET_SENT),
            retransmission: retransmission_of(&event, state),
            sent_bytes: totals
                .as_ref()
                .map(|totals| sent_bytes(&event, totals))
                .or(counted.map(|counted| counted.sent_bytes)),
            // The kernel counts a FIN as a byte.
            received_bytes: totals
                .as_ref()
                .map(|totals| {
                    // That of MPTCP has none.
                    let has_fin = event.has_peers_fin != 0 && event.protocol != MPTCP;
                    totals.bytes_received.saturating_sub(u64::from(has_fin))
                })
                .or(counted.map(|counted| counted.received_bytes)),
            details: EventDetails {
                sent_datagrams: counted.map(|counted| counted.sent),
                received_datagrams: counted.map(|counted| counted.received),
                dsack_dups: totals.as_ref().map(|totals| totals.dsack_dups),
                ..details_of(&event, datagrams.as_ref())
            },
        })
    }
}

/// Returns how many bytes of data were sent, each once. The peer may not have received all of them.
fn sent_bytes(event: &Event, totals: &Totals) -> u64 {
    let counted = totals.bytes_sent.saturating_sub(totals.bytes_retrans);
    if event.protocol == MPTCP {
        return counted;
    }
    // A segment that this host drops itself, at a full queue or without a route, is counted as sent. It is sent again later, but the
    // kernel does not count that as a retransmission. Sequence numbers are used once only; SYN and FIN use one each.
    let has_syn = event.direction == side::OURS;
    let is_closed_by_us = matches!(
        State::from_number(event.old_state),
        State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck | State::TimeWait
    );
    let has_fin = is_closed_by_us && totals.is_all_sent != 0;
    let numbers = totals.bytes_acked.saturating_add(totals.in_flight.into());
    counted.min(numbers.saturating_sub(u64::from(has_syn) + u64::from(has_fin)))
}

/// Returns why a segment was sent again; `None` if this is unknown, or another event.
fn retransmission_of(event: &Event, state: State) -> Option<Retransmission> {
    if !matches!(event.kind, kind::RETRANSMITTED | kind::UNDONE) {
        return None;
    }
    match (state, CaState::from_number(event.ca_state)) {
        (State::SynSent | State::SynRecv, _) => Some(Retransmission::Syn),
        (_, CaState::Loss) if event.reason == SMALLER_MTU => Some(Retransmission::Mtu),
        (_, CaState::Loss) => Some(Retransmission::Timeout),
        // The timer of a probe still runs when a duplicate acknowledgement begins the recovery; a probe is sent outside of it only
        // (`tcp_schedule_loss_probe()` of net/ipv4/tcp_output.c).
        (_, CaState::Recovery) => Some(Retransmission::Fast),
        _ if event.kind == kind::RETRANSMITTED && event.reason == LOSS_PROBE_TIMER => {
            Some(Retransmission::Probe)
        }
        _ => None,
    }
}

/// Returns what the event itself says, without counters.
fn details_of(event: &Event, datagrams: Option<&Datagrams>) -> EventDetails {
    let is_overflow = matches!(event.kind, kind::ACCEPT_OVERFLOWS | kind::SYN_OVERFLOWS);
    let is_window = matches!(event.kind, kind::WINDOW_IS_ZERO | kind::WINDOW_IS_OPEN);
    let number = match (datagrams, event.kind) {
        (Some(datagrams), _) => datagrams.cause,
        (None, kind::UNSENT) => u32::try_from(event.reason).unwrap_or(0),
        _ => 0,
    };
    let cause = match number {
        cause::ICMP => Some(ErrorCause::Icmp),
        cause::SEND => Some(ErrorCause::Send),
        cause::RECEIVE => Some(ErrorCause::Receive),
        cause::BUFFER_FULL => Some(ErrorCause::BufferFull),
        cause::MEMORY => Some(ErrorCause::Memory),
        cause::CHECKSUM => Some(ErrorCause::Checksum),
        cause::NO_NEIGHBOR => Some(ErrorCause::NoNeighbor),
        cause::NO_ROUTE => Some(ErrorCause::NoRoute),
        _ => None,
    };
    EventDetails {
        cause,
        failed_datagrams: datagrams
            .map(|datagrams| u64::from(datagrams.count))
            .filter(|count| *count > 0),
        refusal: match event.reason {
            refusal::SYN_DROPPED if is_overflow => Some(Refusal::SynDropped),
            refusal::ACK_DROPPED if is_overflow => Some(Refusal::AckDropped),
            refusal::RESET if is_overflow => Some(Refusal::Reset),
            refusal::COOKIE if is_overflow => Some(Refusal::Cookie),
            _ => None,
        },
        window_of: match event.first_fin {
            side::OURS if is_window => Some(Side::Local),
            side::PEERS if is_window => Some(Side::Peer),
            _ => None,
        },
        mptcp_token: (event.token != 0).then_some(event.token),
        retransmitted_segs: (event.kind == kind::RETRANSMITTED).then_some(event.segments.into()),
        ..EventDetails::default()
    }
}

fn kind_of(event: &Event) -> Option<ConnectionEventKind> {
    Some(match event.kind {
        kind::OPENED | kind::UDP_USED => ConnectionEventKind::Open,
        kind::FAILED => ConnectionEventKind::Fail,
        kind::CLOSED | kind::UDP_CLOSED => ConnectionEventKind::Close,
        kind::STATE => ConnectionEventKind::State,
        kind::LISTENS => ConnectionEventKind::Listen,
        kind::UNLISTENS => ConnectionEventKind::Unlisten,
        kind::RESET_SENT => ConnectionEventKind::ResetSent,
        kind::RESET_RECEIVED => ConnectionEventKind::ResetReceived,
        kind::RETRANSMITTED => ConnectionEventKind::Retransmit,
        kind::UDP_FAILED | kind::UNSENT => ConnectionEventKind::Error,
        kind::ACCEPT_OVERFLOWS => ConnectionEventKind::AcceptOverflow,
        kind::SYN_OVERFLOWS => ConnectionEventKind::SynOverflow,
        kind::WINDOW_IS_ZERO => ConnectionEventKind::ZeroWindow,
        kind::WINDOW_IS_OPEN => ConnectionEventKind::WindowOpen,
        kind::CONNECT_FAILED => ConnectionEventKind::ConnectError,
        kind::UNDONE => ConnectionEventKind::Undo,
        _ => return None,
    })
}

/// Returns how a connection ended, and by whom.
fn end_of(event: &Event, kind: ConnectionEventKind) -> (Option<ConnectionEnd>, Option<Side>) {
    if !matches!(kind, ConnectionEventKind::Close | ConnectionEventKind::Fail)
        || event.kind == kind::UDP_CLOSED
    {
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
    if event.error == NO_ADDRESS && kind == ConnectionEventKind::Fail {
        return (Some(ConnectionEnd::NoPort), Some(Side::Local));
    }
    if event.error != 0 {
        return (Some(ConnectionEnd::Error), None);
    }
    if kind == ConnectionEventKind::Fail {
        return (Some(ConnectionEnd::Abandoned), Some(Side::Local));
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
    let protocol = match event.protocol {
        UDP => Protocol::Udp,
        MPTCP => Protocol::Mptcp,
        _ => Protocol::Tcp,
    };
    let mut socket = Socket::new(protocol, state);
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
        dsack_dups: Some(totals.dsack_dups),
        ..TcpInfo::default()
    });
    socket
}

fn process(pid: u32, comm: &[u8; 16]) -> Option<Process> {
    (pid != 0).then(|| Process {
        pid: Pid(pid),
        pgid: None,
        comm: Comm::from_array(comm),
    })
}

const AF_INET: u16 = 2;
/// `ICSK_TIME_LOSS_PROBE`
const LOSS_PROBE_TIMER: i32 = 5;
/// In place of a timer: `bpf/events_retransmit.h`
const SMALLER_MTU: i32 = 256;
// Protocols.
const UDP: u16 = 17;
const MPTCP: u16 = 262;

// Errnos.
const BROKEN_PIPE: i32 = 32;
const NO_ADDRESS: i32 = 99;
const CONNECTION_RESET: i32 = 104;
const TIMED_OUT: i32 = 110;
const CONNECTION_REFUSED: i32 = 111;

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of this kind, changed by `change`.
    fn read(kind: u32, old_state: u8, change: impl FnOnce(&mut [u8])) -> ConnectionEvent {
        let mut bytes = vec![0; 264];
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
        let no_port = read(kind::FAILED, syn_sent, error(NO_ADDRESS));
        check(no_port, Some(ConnectionEnd::NoPort), Some(Side::Local));
    }

    #[test]
    fn fin_and_retransmissions_are_no_data() {
        let event = read(kind::CLOSED, 9, |bytes| {
            bytes[7] = 1;
            set(bytes, 192, 1001);
            set(bytes, 200, 101);
            set(bytes, 208, 1500);
            set(bytes, 216, 500);
            bytes[260] = 1;
        });
        assert_eq!((event.received_bytes, event.sent_bytes), (Some(100), Some(1000)));
    }

    #[test]
    fn segments_that_this_host_drops_are_counted_once() {
        let (established, fin_wait_2) = (1, 5);
        let sent = |old_state, protocol: u16, acked: u64, in_flight: u32, is_all_sent: u8| {
            let event = read(kind::CLOSED, old_state, |bytes| {
                bytes[168] = side::OURS;
                bytes[186..188].copy_from_slice(&protocol.to_ne_bytes());
                set(bytes, 192, acked);
                set(bytes, 208, 3000);
                bytes[256..260].copy_from_slice(&in_flight.to_ne_bytes());
                bytes[260] = is_all_sent;
            });
            event.sent_bytes
        };
        // The SYN, 1000 bytes and the FIN.
        assert_eq!(sent(fin_wait_2, 6, 1002, 0, 1), Some(1000));
        assert_eq!(sent(fin_wait_2, 6, 502, 500, 1), Some(1000));
        // Its FIN was never sent.
        assert_eq!(sent(fin_wait_2, 6, 501, 500, 0), Some(1000));
        assert_eq!(sent(established, 6, 501, 500, 1), Some(1000));
        assert_eq!(sent(established, 6, 9000, 0, 1), Some(3000));
        assert_eq!(sent(established, MPTCP, 501, 0, 0), Some(3000));
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
    fn udp_has_counters_at_its_close_only() {
        let of = |kind: u32, is_tracked| {
            read(kind, 7, |bytes| {
                bytes[6] = is_tracked;
                bytes[186..188].copy_from_slice(&UDP.to_ne_bytes());
                set(bytes, 192, 1200);
                set(bytes, 208, 3);
                bytes[232..236].copy_from_slice(&5_u32.to_ne_bytes());
                bytes[236..240].copy_from_slice(&cause::BUFFER_FULL.to_ne_bytes());
            })
        };
        let close = of(kind::UDP_CLOSED, 1);
        assert_eq!(
            (close.kind, close.socket.protocol),
            (ConnectionEventKind::Close, Protocol::Udp)
        );
        assert_eq!(
            (close.sent_bytes, close.details.sent_datagrams),
            (Some(1200), Some(3))
        );
        assert_eq!((close.end, close.ended_by), (None, None));
        assert_eq!(of(kind::UDP_CLOSED, 0).sent_bytes, None);
        let failed = of(kind::UDP_FAILED, 1);
        assert_eq!((failed.sent_bytes, failed.details.sent_datagrams), (None, None));
        assert_eq!(
            (failed.details.cause, failed.details.failed_datagrams),
            (Some(ErrorCause::BufferFull), Some(5))
        );
    }

    #[test]
    fn reason_is_that_of_the_kind() {
        let of = |kind: u32, reason: i32, ca_state: u8| {
            read(kind, 1, |bytes| {
                bytes[5] = 1;
                bytes[180..184].copy_from_slice(&reason.to_ne_bytes());
                bytes[185] = ca_state;
            })
        };
        let overflow = of(kind::ACCEPT_OVERFLOWS, refusal::ACK_DROPPED, 0);
        assert_eq!(
            (overflow.details.refusal, overflow.reset_reason),
            (Some(Refusal::AckDropped), None)
        );
        assert_eq!(of(kind::RESET_SENT, 4, 0).reset_reason, Some(4));
        let (recovery, loss) = (3, 4);
        let retransmission = |timer, ca_state| of(kind::RETRANSMITTED, timer, ca_state).retransmission;
        for outside_of_recovery in 0..recovery {
            assert_eq!(
                retransmission(LOSS_PROBE_TIMER, outside_of_recovery),
                Some(Retransmission::Probe)
            );
        }
        assert_eq!(
            retransmission(LOSS_PROBE_TIMER, recovery),
            Some(Retransmission::Fast)
        );
        assert_eq!(retransmission(1, recovery), Some(Retransmission::Fast));
        assert_eq!(retransmission(1, loss), Some(Retransmission::Timeout));
        assert_eq!(retransmission(1, 0), None);
        assert_eq!(
            of(kind::UNDONE, -1, loss).retransmission,
            Some(Retransmission::Timeout)
        );
    }

    #[test]
    fn segment_that_is_not_sent_has_its_cause() {
        let event = read(kind::UNSENT, 1, |bytes| {
            bytes[180..184].copy_from_slice(&7_i32.to_ne_bytes());
        });
        assert_eq!(
            (event.kind, event.details.cause, event.reset_reason),
            (ConnectionEventKind::Error, Some(ErrorCause::NoNeighbor), None)
        );
    }

    #[test]
    fn retransmission_has_the_number_of_its_segments() {
        let of = |kind: u32| {
            let event = read(kind, 1, |bytes| {
                bytes[74..76].copy_from_slice(&15_u16.to_ne_bytes());
            });
            event.details.retransmitted_segs
        };
        assert_eq!((of(kind::RETRANSMITTED), of(kind::OPENED)), (Some(15), None));
    }

    #[test]
    fn short_and_unknown_records_are_none() {
        assert_eq!(ConnectionEvent::from_wire(&[0; 191]), None);
        let mut closed = vec![0; 263];
        closed[..4].copy_from_slice(&kind::CLOSED.to_ne_bytes());
        assert_eq!(ConnectionEvent::from_wire(&closed), None);
        assert_eq!(ConnectionEvent::from_wire(&[0xff; 300]), None);
    }
}
