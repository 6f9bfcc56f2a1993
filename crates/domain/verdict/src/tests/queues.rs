//! Every rule on queues, buffers and ports, at its threshold and beyond, with what the kernel may leave out.

use super::made::{
    check, check_after, check_in, check_twice, connection, datagrams, end, listener, received, set,
};
use sockeye_model::{Counter, Endpoint, Memory, Protocol, Refusal, Socket, State, Vitals};
use sockeye_verdict::{Limits, ListenerQueue, Refused, Rule, Severity, Snapshot, Subject, Victim};
use std::time::Duration;

#[test]
fn full_accept_queue_is_found() {
    check(&[listener(0, Some(0), 0)], &[]);
    check(&[listener(1, Some(0), 0)], &[Rule::AcceptQueue]);
    check(&[listener(5, Some(5), 0)], &[]);
    check(&[listener(6, Some(5), 0)], &[Rule::AcceptQueue]);
    check(&[listener(12, Some(16), 0)], &[]);
    let findings = check(&[listener(13, Some(16), 0)], &[Rule::AcceptQueue]);
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(findings[0].subject, Subject::Listener(end([0, 0, 0, 0], 80)));
    check(&[listener(u32::MAX, Some(u32::MAX), 0)], &[Rule::AcceptQueue]);
    // /proc does not show the backlog.
    check(&[listener(u32::MAX, None, 0)], &[]);
}

/// A connection that has waited for so long to be accepted, with so much unread.
fn waiting(age_ms: u32, number: u16, unread: u32) -> Socket {
    let mut socket = connection(move |socket, info| {
        (socket.local, socket.peer) = (end([10, 0, 0, 1], 80), end([10, 0, 0, 2], number));
        socket.queues = received(unread);
        (info.last_data_sent_ms, info.bytes_sent) = (Some(age_ms), Some(0));
    });
    socket.inode = None;
    socket
}

#[test]
fn queue_whose_first_is_not_accepted_is_found() {
    let of = |ages: &[u32]| -> Vec<Socket> {
        let each = ages
            .iter()
            .zip(1..)
            .map(|(&age, number)| waiting(age, number, 100));
        each.chain([listener(ages.len() as u32, Some(128), 0)]).collect()
    };
    let second = Duration::from_secs(1);
    // One look is a suspicion.
    check(&of(&[1_999, 100]), &[]);
    let findings = check(&of(&[2_000, 100]), &[Rule::AcceptQueue]);
    assert_eq!(findings[0].severity, Severity::Notice);
    // Two are a proof.
    let findings = check_twice(
        &of(&[2_000, 1_500]),
        second,
        &of(&[3_000, 2_500]),
        &[Rule::AcceptQueue],
    );
    assert_eq!(findings[0].severity, Severity::Warning);
    let facts = &findings[0].facts;
    assert_eq!(
        (facts.value("longest_wait_ms"), facts.value("unread_bytes")),
        (Some(2_000), Some(200))
    );
    let findings = check_twice(&of(&[10_000]), second, &of(&[11_000]), &[Rule::AcceptQueue]);
    assert_eq!(findings[0].severity, Severity::Critical);
    // The first was accepted meanwhile, or another came from the same address.
    check_twice(&of(&[5_000, 4_000]), second, &[waiting(5_000, 2, 0)], &[]);
    check_twice(&of(&[5_000]), second, &of(&[400]), &[]);
    // No socket listens there any more, or the queue is empty.
    check(&[waiting(60_000, 1, 0)], &[]);
    check(&[waiting(60_000, 1, 0), listener(0, Some(128), 0)], &[]);
}

#[test]
fn queue_that_moves_is_not_stalled() {
    let second = Duration::from_secs(1);
    let listening = |waiting| listener(waiting, Some(128), 0);
    // The first of the later look was there before, but it was not the first.
    let before = [waiting(5_000, 1, 0), waiting(4_500, 2, 0), listening(2)];
    let now = [waiting(5_500, 2, 0), waiting(1_200, 3, 0), listening(2)];
    check_after(&before, second, &now, &[]);
    check_twice(&before, second, &now[..2], &[]);
    // Of two that came at the same time either may have been the first.
    let before = [waiting(5_000, 1, 0), waiting(4_995, 2, 0), listening(2)];
    check_after(&before, second, &[waiting(5_995, 2, 0), listening(1)], &[]);
    // A client that gave up behind the first proves nothing.
    let before = [waiting(5_000, 1, 0), waiting(4_000, 2, 0), listening(2)];
    let findings = check_after(
        &before,
        second,
        &[waiting(6_000, 1, 0), listening(1)],
        &[Rule::AcceptQueue],
    );
    assert!(findings[0].meaning.contains("accepted nothing"), "{findings:?}");
    // The queue moves, but its clients wait for long.
    let before = [waiting(14_000, 1, 0), waiting(13_000, 2, 0), listening(2)];
    let now = [waiting(14_000, 2, 0), listening(1)];
    let findings = check_after(&before, second, &now, &[Rule::AcceptQueue]);
    assert!(findings[0].meaning.contains("accepts some"), "{findings:?}");
    assert_eq!(findings[0].severity, Severity::Warning);
}

#[test]
fn segments_that_no_connection_needs_are_no_listener_drops() {
    let mut vitals = Vitals::default();
    vitals.counters.set(Counter::TcpPassiveOpens, 1000);
    vitals.counters.set(Counter::ListenDrops, 0);
    check_in(&vitals, &[listener(0, Some(128), 800)], &[]);
    vitals.counters.set(Counter::ListenDrops, 90);
    let findings = check_in(&vitals, &[listener(0, Some(128), 800)], &[Rule::ListenerDrops]);
    assert_eq!(findings[0].facts.value("drops"), Some(90));
}

/// The program that sees them can only say what the kernel is about to do.
#[test]
fn clients_are_turned_away_only_where_the_kernel_counts_some() {
    let limits = Limits::default();
    let vitals = |drops| {
        let mut vitals = Vitals::default();
        vitals.counters.set(Counter::ListenDrops, drops);
        vitals
    };
    let refused = Victim {
        local: Some(([10, 0, 0, 1], 80).into()),
        peer: Some(([10, 0, 0, 2], 4000).into()),
        refused: Some(Refused {
            queue: ListenerQueue::Accept,
            how: Refusal::SynDropped,
            has_more_ports: false,
            is_at_least: false,
        }),
        ..Victim::default()
    };
    for (drops, expected) in [(5, 0), (6, 1)] {
        let mut before = Snapshot::new(&limits).keep_counters();
        before.namespace(vitals(5));
        let _ = before.findings();
        let before = before.into_baseline();
        let mut now = Snapshot::new(&limits)
            .keep_counters()
            .after(&before, Duration::from_secs(1));
        now.namespace(vitals(drops));
        now.drops(vec![refused.clone()]);
        let _ = now.findings();
        assert_eq!(now.take_drops().len(), expected, "{drops}");
    }
}

#[test]
fn one_of_several_listeners_at_a_port_is_found() {
    let both = |stuck: u32| [listener(0, Some(128), 0), listener(stuck, Some(128), 0)];
    let sockets: Vec<Socket> = both(1).into_iter().chain([waiting(3_000, 1, 0)]).collect();
    let findings = check_twice(
        &sockets,
        Duration::from_secs(1),
        &[waiting(4_000, 1, 0)],
        &[Rule::AcceptQueue],
    );
    assert_eq!(findings[0].facts.value("waiting"), Some(1));
}

#[test]
fn listener_drops_are_found() {
    check(&[listener(0, Some(128), 9)], &[]);
    check(&[listener(0, Some(128), 10)], &[Rule::ListenerDrops]);
    check(&[listener(129, Some(128), 10)], &[Rule::AcceptQueue]);
    let mut busy = Vitals::default();
    busy.counters.set(Counter::TcpPassiveOpens, 1001);
    check_in(&busy, &[listener(0, Some(128), 10)], &[]);
    check_in(&busy, &[listener(0, Some(128), 11)], &[Rule::ListenerDrops]);
    let later = |before, now, rules: &[Rule]| {
        let at = |drops| [listener(0, Some(128), drops)];
        check_after(&at(before), Duration::from_secs(1), &at(now), rules);
    };
    later(100, 100, &[]);
    later(100, 101, &[Rule::ListenerDrops]);
    later(u32::MAX, 0, &[Rule::ListenerDrops]);
}

#[test]
fn capped_backlog_is_found() {
    let small = set(|settings| settings.somaxconn = Some(8));
    check_in(&small, &[listener(3, Some(8), 0)], &[]);
    check_in(&small, &[listener(4, Some(8), 0)], &[Rule::BacklogCapped]);
    check_in(&small, &[listener(4, Some(7), 0)], &[]);
    check_in(
        &small,
        &[listener(0, Some(8), 10)],
        &[Rule::ListenerDrops, Rule::BacklogCapped],
    );
    let none = set(|settings| settings.somaxconn = Some(0));
    check_in(&none, &[listener(0, Some(0), 0)], &[]);
}

#[test]
fn full_syn_queue_is_found() {
    let half_open = |count: u16| {
        (0..count).map(|number| {
            let mut socket = Socket::new(Protocol::Tcp, State::SynRecv);
            socket.local = end([10, 0, 0, 1], 80);
            socket.peer = end([10, 0, 0, 2], 1000 + number);
            socket
        })
    };
    let of = |count, backlog| -> Vec<Socket> {
        half_open(count).chain([listener(0, Some(backlog), 50)]).collect()
    };
    check(&of(9, 1), &[Rule::ListenerDrops]);
    // The queue of half-open ones is why others were turned away.
    check(&of(10, 12), &[Rule::SynQueue]);
    check(&of(10, 13), &[Rule::ListenerDrops]);
    // The limit is that of the listener that the requests are for; of several each has a part.
    let listening = |ip, backlog| {
        let mut socket = listener(0, Some(backlog), 0);
        socket.local = end(ip, 80);
        socket
    };
    let at = |ips: &[[u8; 4]]| -> Vec<Socket> {
        let listeners = ips.iter().map(|ip| listening(*ip, 12));
        half_open(20).chain(listeners).collect()
    };
    let findings = check(&at(&[[0; 4], [10, 0, 0, 1], [10, 0, 0, 9]]), &[Rule::SynQueue]);
    assert_eq!(findings[0].subject, Subject::Listener(end([10, 0, 0, 1], 80)));
    check(&at(&[[10, 0, 0, 9], [0; 4]]), &[Rule::SynQueue]);
    check(&at(&[[10, 0, 0, 1]; 2]), &[Rule::SynQueue; 2]);
    check(&at(&[[10, 0, 0, 1]; 3]), &[]);
    let without_cookies = set(|settings| {
        (settings.syncookies, settings.syn_backlog_max) = (Some(0), Some(16));
    });
    let findings = check_in(&without_cookies, &of(10, 4096), &[Rule::SynQueue]);
    assert_eq!(findings[0].facts.value("half_open_max"), Some(12));
    let with_cookies = set(|settings| {
        (settings.syncookies, settings.syn_backlog_max) = (Some(1), Some(16));
    });
    check_in(&with_cookies, &of(10, 4096), &[Rule::ListenerDrops]);
}

#[test]
fn socket_drops_are_found() {
    check(&[datagrams(0, 1000, 9)], &[]);
    check(&[datagrams(0, 1000, 10)], &[Rule::SocketDrops]);
    let stream = |drops, segments, with_data| {
        connection(move |socket, info| {
            (info.segs_in, info.data_segs_in) = (Some(segments), Some(with_data));
            socket.memory = Some(Memory {
                drops: Some(drops),
                ..Memory::default()
            });
        })
    };
    let losing = |lost: u64| {
        let mut vitals = Vitals::default();
        vitals.counters.set(Counter::TcpRcvQDrop, lost);
        vitals
    };
    let lost = losing(u64::MAX);
    check_in(
        &lost,
        &[stream(10, 1000, 1000)],
        &[Rule::SocketDrops, Rule::Counters],
    );
    // What the socket dropped were duplicates: TCP lost nothing, or it is not known whether it did.
    check_in(&losing(0), &[stream(500, 1000, 1000)], &[]);
    check_in(&losing(9), &[stream(500, 900, 900)], &[]);
    check(&[stream(500, 1000, 1000)], &[]);
    check_in(&lost, &[stream(10, 1001, 1001)], &[Rule::Counters]);
    check_in(&lost, &[stream(9, 9, 9)], &[Rule::Counters]);
    // An idle connection that was probed a thousand times.
    check_in(&lost, &[stream(1000, 1100, 50)], &[Rule::Counters]);
    check_in(
        &lost,
        &[stream(u32::MAX, 0, 0)],
        &[Rule::SocketDrops, Rule::Counters],
    );
    let second = Duration::from_secs(1);
    check_after(&[stream(500, 600, 600)], second, &[stream(500, 900, 900)], &[]);
    check_after(&[datagrams(0, 1000, 10)], second, &[datagrams(0, 1000, 10)], &[]);
    check_after(
        &[datagrams(0, 1000, 10)],
        second,
        &[datagrams(0, 1000, 11)],
        &[Rule::SocketDrops],
    );
}

#[test]
fn full_udp_buffer_is_found() {
    check(&[datagrams(799, 1000, 0)], &[]);
    check(&[datagrams(800, 1000, 0)], &[Rule::UdpUnread]);
    // Full, it is clear why datagrams are dropped.
    check(&[datagrams(1000, 1000, 50)], &[Rule::UdpUnread]);
    check(&[datagrams(0, 0, 0)], &[]);
    check(&[datagrams(u32::MAX, 0, 0)], &[Rule::UdpUnread]);
    let mut unknown = datagrams(1000, 1000, 0);
    unknown.memory.as_mut().expect("it has one").rcvbuf_bytes = None;
    check(&[unknown], &[]);
}

#[test]
fn used_up_ports_are_found() {
    let narrow = set(|settings| {
        (settings.ephemeral_ports, settings.reserved_ports) = (Some((40_000, 40_019)), Some(10));
    });
    let to = |first: u16, count: u16, peer| {
        (first..first + count).map(move |port| {
            connection(|socket, _| {
                (socket.local, socket.peer) = (end([10, 0, 0, 1], port), end([10, 0, 0, 2], peer));
            })
        })
    };
    let all = |list: &[(u16, u16, u16)]| -> Vec<Socket> {
        list.iter()
            .flat_map(|&(first, count, peer)| to(first, count, peer))
            .collect()
    };
    // Of 20 ports 10 are reserved.
    check_in(
        &narrow,
        &all(&[(40_000, 7, 80), (40_000, 7, 443), (30_000, 100, 80)]),
        &[],
    );
    let findings = check_in(&narrow, &all(&[(40_000, 8, 80)]), &[Rule::EphemeralPorts]);
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(findings[0].facts.value("ports"), Some(10));
    let findings = check_in(&narrow, &all(&[(40_000, 10, 80)]), &[Rule::EphemeralPorts]);
    assert_eq!(findings[0].severity, Severity::Critical);
    // Sockets of IPv6 that speak IPv4 take the same ports.
    let mut mixed = all(&[(40_000, 8, 80)]);
    for socket in &mut mixed[..4] {
        let mapped = |end: Endpoint| match end {
            Endpoint::Inet {
                ip: std::net::IpAddr::V4(ip),
                port,
            } => Endpoint::inet(ip.to_ipv6_mapped().into(), port),
            other => other,
        };
        (socket.local, socket.peer) = (mapped(socket.local), mapped(socket.peer));
    }
    check_in(&narrow, &mixed, &[Rule::EphemeralPorts]);
    // TIME_WAIT keeps them too.
    let mut waiting = all(&[(40_000, 8, 80)]);
    for socket in &mut waiting {
        (socket.state, socket.tcp_info, socket.inode) = (State::TimeWait, None, None);
    }
    check_in(&narrow, &waiting, &[Rule::EphemeralPorts]);
    for range in [(40_000, 40_000), (40_001, 40_000), (0, u16::MAX)] {
        let odd = set(|settings| settings.ephemeral_ports = Some(range));
        check_in(&odd, &all(&[(40_000, 1, 80)]), &[]);
    }

    let bound = |count: u16| -> Vec<Socket> {
        (40_000..40_000 + count)
            .map(|port| {
                let mut socket = datagrams(0, 1000, 0);
                socket.local = end([0, 0, 0, 0], port);
                socket
            })
            .collect()
    };
    check_in(&narrow, &bound(7), &[]);
    check_in(&narrow, &bound(8), &[Rule::UdpPorts]);
}
