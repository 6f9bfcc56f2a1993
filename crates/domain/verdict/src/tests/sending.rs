//! Connections that cannot send, with what the look-up of their way says, and those that only look like it.

use super::made::{self, connection, sending, set, timer};
use sockeye_model::{
    BridgePort, Counter, Device, DeviceName, Entry, InterfaceIndex, NextHop, PathQuery, Route, SendPath,
    ShortText, Socket, State, TcpInfo, TimerKind, Traffic, Vitals,
};
use sockeye_verdict::{Finding, Limits, Rule, Snapshot, Subject};
use std::time::Duration;

/// The persist timer runs: data waits and nothing is in flight, though the window is open.
fn unsent(change: impl FnOnce(&mut TcpInfo)) -> Socket {
    connection(|socket, info| {
        socket.timer = timer(TimerKind::ZeroWindowProbe, 100, 3);
        socket.queues = sending(5000);
        (info.notsent_bytes, info.unacked_segs) = (Some(5000), Some(0));
        (info.snd_wnd_bytes, info.backoff) = (Some(60_000), Some(3));
        change(info);
    })
}

/// Retransmissions are due, and none is under way (`failed`), or they are sent and not answered.
fn retransmitting(failed: bool) -> Socket {
    connection(move |socket, info| {
        socket.timer = timer(TimerKind::Retransmission, 100, 5);
        socket.queues = sending(500);
        (info.unacked_segs, info.lost_segs) = (Some(1), Some(1));
        info.retrans_segs = Some(u32::from(!failed));
        (info.backoff, info.rto_us) = (Some(5), Some(6_400_000));
        info.last_ack_recv_ms = Some(20_000);
    })
}

fn device(is_up: bool, carrier: bool) -> Vitals {
    let device = Device {
        is_up,
        has_carrier: Some(carrier),
        carrier_changes: Some(3),
        ..made::device(b"eth0", b"veth")
    };
    Vitals {
        devices: vec![device],
        ..set(|_| ())
    }
}

fn via(gateway: Option<[u8; 4]>) -> Route {
    Route::Via {
        device: InterfaceIndex(2),
        gateway: gateway.map(Into::into),
    }
}

#[track_caller]
fn check(
    vitals: Vitals,
    route: Route,
    next_hop: Option<NextHop>,
    sockets: &[Socket],
    expected: &[&str],
) -> Vec<Finding> {
    let limits = Limits::default();
    let mut snapshot = Snapshot::new(&limits);
    snapshot.namespace(vitals);
    for socket in sockets {
        snapshot.socket(&Entry::new(socket));
    }
    let queries = snapshot.paths_to_look_up();
    let paths = queries.into_iter().map(|query| SendPath {
        query,
        route,
        next_hop,
        bridge_port: BridgePort::Unknown,
    });
    snapshot.send_paths(paths.collect());
    let found = snapshot.findings();
    let names: Vec<String> = found
        .iter()
        .map(|finding| format!("{} {}", finding.severity, finding.rule))
        .collect();
    assert_eq!(names, expected, "{found:#?}");
    found
}

const CANNOT_SEND: &[&str] = &["critical cannot-send"];

#[test]
fn lost_route_is_the_cause_of_unsent_data() {
    let both = [unsent(|_| ()), retransmitting(true)];
    let found = check(device(true, true), Route::Refused(101), None, &both, CANNOT_SEND);
    assert!(found[0].meaning.contains("no route"), "{found:?}");
    assert_eq!(found[0].sockets, 2);
    let found = check(device(true, true), Route::Refused(13), None, &both, CANNOT_SEND);
    assert!(found[0].meaning.contains("rejects"), "{found:?}");
    let mut moved = device(true, true);
    moved.devices[0].addresses = vec![[10, 0, 0, 9].into()];
    let found = check(moved, Route::Refused(22), None, &both, CANNOT_SEND);
    assert!(found[0].meaning.contains("local address"), "{found:?}");
    // Retransmissions leave the host: its route is not what the look-up shows.
    let sent = [retransmitting(false)];
    check(
        device(true, true),
        Route::Refused(101),
        None,
        &sent,
        &["critical peer-silent"],
    );
}

#[test]
fn device_and_next_hop_are_the_cause_whatever_the_socket_shows() {
    let both = [retransmitting(false), unsent(|_| ())];
    let found = check(device(true, false), via(None), None, &both, CANNOT_SEND);
    assert_eq!(found[0].subject, Subject::Device(DeviceName::new(b"eth0")));
    let found = check(device(false, false), via(None), None, &both, CANNOT_SEND);
    assert!(found[0].meaning.contains("is down"), "{found:?}");
    let found = check(
        device(true, true),
        via(Some([10, 0, 0, 254])),
        Some(NextHop::Unanswered),
        &both,
        CANNOT_SEND,
    );
    let expected = Subject::NextHop {
        ip: [10, 0, 0, 254].into(),
        device: Some(DeviceName::new(b"eth0")),
    };
    assert_eq!(found[0].subject, expected);
}

#[test]
fn device_below_and_peer_on_the_link_are_named() {
    let both = [retransmitting(false), unsent(|_| ())];
    let mut stacked = device(true, false);
    stacked.devices[0].lower = Some(InterfaceIndex(9));
    stacked.devices[0].driver = ShortText::new(b"macvlan");
    let below = Device {
        index: InterfaceIndex(9),
        has_carrier: Some(false),
        addresses: Vec::new(),
        ..made::device(b"eth9", b"")
    };
    stacked.devices.push(below);
    let found = check(stacked, via(None), None, &both, CANNOT_SEND);
    assert_eq!(found[0].subject, Subject::Device(DeviceName::new(b"eth9")));
    let unanswered = Some(NextHop::Unanswered);
    let found = check(device(true, true), via(None), unanswered, &both, CANNOT_SEND);
    assert!(found[0].meaning.starts_with("The peer should be"), "{found:?}");
}

#[test]
fn data_that_is_dropped_on_this_host_is_found() {
    let open = [unsent(|_| ())];
    let found = check(
        device(true, true),
        via(None),
        Some(NextHop::Known),
        &open,
        CANNOT_SEND,
    );
    assert!(found[0].meaning.contains("firewall"), "{found:?}");
    check(device(true, true), Route::Unknown, None, &open, CANNOT_SEND);
    check(
        device(true, true),
        via(None),
        None,
        &[retransmitting(true)],
        CANNOT_SEND,
    );
}

#[test]
fn sockets_that_can_send_are_not_accused() {
    let quiet = |socket: Socket| {
        check(
            device(true, true),
            via(None),
            Some(NextHop::Known),
            &[socket],
            &[],
        )
    };
    // The peer's window is closed, or has no room for the next segment; some data is in flight.
    quiet(unsent(|info| info.snd_wnd_bytes = Some(0)));
    quiet(unsent(|info| info.snd_wnd_bytes = Some(1000)));
    quiet(unsent(|info| info.unacked_segs = Some(1)));
    quiet(unsent(|info| info.snd_wnd_bytes = None));
    // A paced connection runs the same timer, but is never probed twice.
    let mut paced = unsent(|_| ());
    paced.timer = timer(TimerKind::ZeroWindowProbe, 100, 1);
    quiet(paced);
    // What is sent is not answered: that is no fault of this host.
    let silent = [retransmitting(false)];
    check(
        device(true, true),
        via(None),
        Some(NextHop::Known),
        &silent,
        &["critical peer-silent"],
    );
}

/// An attempt to connect that was not repeated yet.
fn connecting() -> Socket {
    connection(|socket, _| {
        socket.state = State::SynSent;
        socket.timer = timer(TimerKind::Retransmission, 700, 0);
    })
}

/// Paths of all queries, through eth0 to a peer on the link.
fn paths(queries: Vec<PathQuery>, next_hop: NextHop) -> Vec<SendPath> {
    let path = |query| SendPath {
        query,
        bridge_port: BridgePort::Unknown,
        route: via(None),
        next_hop: Some(next_hop),
    };
    queries.into_iter().map(path).collect()
}

#[test]
fn next_hop_of_a_first_attempt_must_fail_twice() {
    let limits = Limits::default();
    for (second, expected) in [(NextHop::Unanswered, 1), (NextHop::Known, 0)] {
        let mut snapshot = Snapshot::new(&limits);
        snapshot.namespace(device(true, true));
        snapshot.socket(&Entry::new(&connecting()));
        assert!(!snapshot.needs_second_look());
        let first = paths(snapshot.paths_to_look_up(), NextHop::Unanswered);
        snapshot.send_paths(first);
        assert!(snapshot.needs_second_look());
        let again = paths(snapshot.paths_to_confirm(), second);
        assert_eq!(again.len(), 1);
        snapshot.confirm_paths(&again);
        assert_eq!(snapshot.findings().len(), expected);
    }
    // With samples, the earlier one is the first look.
    let mut earlier = Snapshot::new(&limits).keep_counters();
    earlier.namespace(device(true, true));
    earlier.socket(&Entry::new(&connecting()));
    let found = paths(earlier.paths_to_look_up(), NextHop::Unanswered);
    earlier.send_paths(found);
    assert!(earlier.findings().is_empty());
    let before = earlier.into_baseline();
    let mut snapshot = Snapshot::new(&limits).after(&before, Duration::from_secs(2));
    snapshot.namespace(device(true, true));
    snapshot.socket(&Entry::new(&connecting()));
    let found = paths(snapshot.paths_to_look_up(), NextHop::Unanswered);
    snapshot.send_paths(found);
    assert_eq!(snapshot.findings()[0].rule, Rule::CannotSend);
}

#[test]
fn answers_that_reverse_path_filtering_discards_need_a_counter_and_a_device() {
    let limits = Limits::default();
    let namespace = |discarded: u64, received: u64| {
        let mut vitals = device(true, true);
        let mut other = made::device(b"eth1", b"veth");
        other.index = InterfaceIndex(3);
        other.addresses.clear();
        other.traffic = Some(Traffic {
            rx_packets: received,
            ..Traffic::default()
        });
        vitals.devices.push(other);
        vitals.counters.set(Counter::IpReversePathFilter, discarded);
        vitals
    };
    for (discarded, received, expected) in [
        (9, 900, Rule::ReversePath),
        (5, 900, Rule::PeerSilent),
        (9, 500, Rule::PeerSilent),
    ] {
        let mut earlier = Snapshot::new(&limits).keep_counters();
        earlier.namespace(namespace(5, 500));
        let before = earlier.into_baseline();
        let mut snapshot = Snapshot::new(&limits).after(&before, Duration::from_secs(10));
        snapshot.namespace(namespace(discarded, received));
        snapshot.socket(&Entry::new(&retransmitting(false)));
        let found = paths(snapshot.paths_to_look_up(), NextHop::Known);
        snapshot.send_paths(found);
        let findings = snapshot.findings();
        assert_eq!(findings[0].rule, expected, "{findings:#?}");
    }
}

#[test]
fn device_that_is_down_is_the_cause_of_a_lost_route() {
    let stuck = [retransmitting(true)];
    let found = check(
        device(false, false),
        Route::Refused(101),
        None,
        &stuck,
        CANNOT_SEND,
    );
    assert_eq!(found[0].subject, Subject::Device(DeviceName::new(b"eth0")));
}

#[test]
fn bridge_without_a_forwarding_port_is_named() {
    let mut vitals = device(true, false);
    vitals.devices[0].driver = ShortText::new(b"bridge");
    let found = check(vitals, via(None), None, &[retransmitting(false)], CANNOT_SEND);
    assert!(found[0].meaning.contains("no port of the bridge"), "{found:?}");
}

#[test]
fn silent_peer_has_the_other_possible_causes() {
    let silent = [retransmitting(false)];
    let next_hop = Some(NextHop::Permanent);
    let found = check(
        device(true, true),
        via(None),
        next_hop,
        &silent,
        &["critical peer-silent"],
    );
    assert!(found[0].meaning.contains("permanent"), "{found:?}");
}
