//! Every rule on connections, at its threshold and beyond, with what the kernel may leave out.

use super::made::{check, check_after, check_twice, connection, end, listener, received, sending, timer};
use sockeye_model::{Endpoint, Entry, Inode, Port, Protocol, Queues, Socket, State, TcpInfo, TimerKind};
use sockeye_verdict::{Limits, Remedy, Rule, Severity, Snapshot};
use std::time::Duration;

const HOUR_MS: u32 = 3_600_000;

#[test]
fn healthy_connection_has_no_finding() {
    check(&[connection(|_, _| {})], &[]);
    check(&[Socket::new(Protocol::Tcp, State::Established)], &[]);
    check(&[Socket::new(Protocol::Udp, State::Close)], &[]);
    check(&[connection(|_, info| *info = TcpInfo::default())], &[]);
}

#[test]
fn missing_keepalive_is_found() {
    let idle = |sent, heard| {
        connection(move |_, info| {
            (info.last_data_sent_ms, info.last_data_recv_ms) = (sent, heard);
            info.last_ack_recv_ms = heard;
        })
    };
    check(&[idle(Some(HOUR_MS - 1), Some(u32::MAX))], &[]);
    check(&[idle(Some(HOUR_MS), Some(HOUR_MS))], &[Rule::NoKeepalive]);
    check(&[idle(Some(u32::MAX), Some(u32::MAX))], &[Rule::NoKeepalive]);
    // One of the two is not known.
    check(&[idle(None, Some(HOUR_MS))], &[]);
    check(&[idle(Some(HOUR_MS), None)], &[]);
    let mut local = idle(Some(HOUR_MS), Some(HOUR_MS));
    local.peer = end([127, 0, 0, 2], 80);
    assert_eq!(
        check(&[local], &[Rule::NoKeepalive])[0].severity,
        Severity::Notice
    );
    let mut mapped = idle(Some(HOUR_MS), Some(HOUR_MS));
    mapped.peer = Endpoint::inet("::ffff:127.0.0.1".parse().expect("an address"), Port(80));
    assert_eq!(
        check(&[mapped], &[Rule::NoKeepalive])[0].severity,
        Severity::Notice
    );
    // A closing socket has other timers.
    let mut closing = idle(Some(HOUR_MS), Some(HOUR_MS));
    closing.state = State::LastAck;
    check(&[closing], &[]);
}

#[test]
fn late_and_unanswered_keepalive_are_found() {
    let with = |expires_ms, probes| {
        connection(move |socket, _| socket.timer = timer(TimerKind::Keepalive, expires_ms, probes))
    };
    check(&[with(240_000, 0)], &[]);
    check(&[with(240_001, 0)], &[Rule::KeepaliveLate]);
    check(&[with(u32::MAX, 0)], &[Rule::KeepaliveLate]);
    check(&[with(1000, 1)], &[]);
    let findings = check(&[with(1000, 2)], &[Rule::KeepaliveUnanswered]);
    assert_eq!(findings[0].examples[0].facts.value("unanswered_probes"), Some(2));
    check(&[with(u32::MAX, u32::MAX)], &[Rule::KeepaliveUnanswered]);
    // FIN_WAIT2 without a process runs the same timer.
    let mut orphan = with(50_000, 3);
    (orphan.state, orphan.inode) = (State::FinWait2, None);
    check(&[orphan], &[]);
}

/// Data that is sent again and again: so often, each time after so long, since then heard of the peer so long ago.
fn unanswered(tries: u8, heard_ms: u32, queued: u32) -> Socket {
    connection(|socket, info| {
        socket.timer = timer(TimerKind::Retransmission, 100, tries.into());
        socket.queues = sending(queued);
        info.rto_us = Some(200_000 << tries.min(9));
        info.backoff = Some(tries);
        info.retransmits = Some(tries);
        info.unacked_segs = Some(1);
        info.last_ack_recv_ms = Some(heard_ms);
        info.last_data_recv_ms = Some(heard_ms);
        (info.bytes_acked, info.delivered_segs) = (Some(500), Some(3));
    })
}

#[test]
fn silent_peer_is_found() {
    check(&[unanswered(3, 1_500, 100)], &[]);
    let findings = check(&[unanswered(4, 6_500, 100)], &[Rule::PeerSilent]);
    // 200, 400, 800 and 1600 ms, and of 3200 all but 100
    assert_eq!(findings[0].examples[0].facts.value("stalled_ms"), Some(6_100));
    assert_eq!(findings[0].severity, Severity::Critical);
    check(&[unanswered(255, u32::MAX, u32::MAX)], &[Rule::PeerSilent]);
    let mut nobodys = unanswered(4, 6_500, 100);
    (nobodys.inode, nobodys.state) = (None, State::FinWait1);
    assert_eq!(
        check(&[nobodys], &[Rule::PeerSilent])[0].severity,
        Severity::Notice
    );
    // An old kernel does not report how long a timeout is.
    let mut short = unanswered(4, 6_500, 9_000);
    short.tcp_info.as_mut().expect("it has one").rto_us = None;
    check(&[short], &[Rule::PeerSilent]);
}

#[test]
fn mtu_black_hole_is_found() {
    // Since the first transmission of the segment the peer acknowledged something else.
    check(&[unanswered(3, 100, 9_000)], &[Rule::MtuBlackHole]);
    check(&[unanswered(2, 100, 9_000)], &[]);
    // Not for its length, if it is short.
    check(&[unanswered(4, 100, 1000)], &[Rule::PeerSilent]);
    let sacked = connection(|socket, info| {
        let stalled = unanswered(4, u32::MAX, 9_000);
        *info = stalled.tcp_info.expect("it has one");
        info.sacked_segs = Some(1);
        (socket.timer, socket.queues) = (stalled.timer, stalled.queues);
    });
    check(&[sacked], &[Rule::MtuBlackHole]);
    // Another connection receives from the same peer; also if it is listed later.
    let stalled = unanswered(4, u32::MAX, 9_000);
    check(&[stalled.clone(), connection(|_, _| {})], &[Rule::MtuBlackHole]);
    // But what carried long segments before is not held up by their length.
    let mut forgotten = stalled;
    let info = forgotten.tcp_info.as_mut().expect("it has one");
    (info.bytes_acked, info.delivered_segs) = (Some(1_448_000), Some(1001));
    check(&[forgotten, connection(|_, _| {})], &[Rule::PeerSilent]);
    // What was not sent yet says nothing about what was: two short segments are in flight.
    let mut short = unanswered(4, 100, 9_000);
    let info = short.tcp_info.as_mut().expect("it has one");
    (info.notsent_bytes, info.unacked_segs) = (Some(7_500), Some(2));
    let findings = check(&[short.clone()], &[Rule::PeerSilent]);
    assert_eq!(findings[0].examples[0].facts.value("untried_pmtu_bytes"), None);
    let info = short.tcp_info.as_mut().expect("it has one");
    info.notsent_bytes = Some(9_000 - 2 * 1448);
    check(&[short], &[Rule::MtuBlackHole]);
    // No path takes less.
    let mut smallest = unanswered(4, 100, 9_000);
    smallest.tcp_info.as_mut().expect("it has one").snd_mss_bytes = Some(536);
    check(&[smallest], &[Rule::PeerSilent]);
}

#[test]
fn unanswered_connect_is_found() {
    let calling = |tries| {
        connection(move |socket, _| {
            socket.state = State::SynSent;
            socket.timer = timer(TimerKind::Retransmission, 900, tries);
        })
    };
    check(&[calling(1)], &[]);
    check(&[calling(2)], &[Rule::ConnectUnanswered]);
    check(&[calling(u32::MAX)], &[Rule::ConnectUnanswered]);
    // A full queue on this host is the cause, also if it is listed later.
    let mut full = listener(5, Some(4), 0);
    full.local = end([10, 0, 0, 2], 443);
    check(&[calling(2), full.clone()], &[Rule::AcceptQueue]);
    full.local = end([10, 0, 0, 3], 443);
    check(&[full, calling(2)], &[Rule::AcceptQueue, Rule::ConnectUnanswered]);
}

fn closed_window(sent_ms: u32, backoff: Option<u8>) -> Socket {
    connection(|socket, info| {
        socket.timer = timer(TimerKind::ZeroWindowProbe, 100, 0);
        socket.queues = sending(5000);
        info.last_data_sent_ms = Some(sent_ms);
        (info.rto_us, info.backoff) = (Some(200_000), backoff);
        info.snd_wnd_bytes = Some(0);
    })
}

#[test]
fn zero_window_is_found() {
    check(&[closed_window(9_999, Some(7))], &[]);
    check(&[closed_window(10_000, Some(7))], &[Rule::ZeroWindow]);
    check(&[closed_window(u32::MAX, None)], &[Rule::ZeroWindow]);
    let findings = check(&[closed_window(HOUR_MS, Some(255))], &[Rule::ZeroWindow]);
    assert_eq!(
        findings[0].examples[0].facts.value("stalled_ms"),
        Some(HOUR_MS.into())
    );
    // Written a moment ago, after a long silence: one pause has passed.
    check(&[closed_window(HOUR_MS, Some(1))], &[]);
    let mut nothing = closed_window(HOUR_MS, None);
    nothing.queues = sending(0);
    check(&[nothing.clone()], &[]);
    nothing.queues = Queues::Unknown;
    check(&[nothing], &[]);
    // The timer runs, but the window is open.
    let open = |change: fn(&mut TcpInfo)| {
        let mut socket = closed_window(HOUR_MS, Some(7));
        let info = socket.tcp_info.as_mut().expect("it has one");
        (info.notsent_bytes, info.snd_wnd_bytes) = (Some(5000), Some(60_000));
        change(info);
        socket
    };
    check(&[open(|_| ())], &[]);
    check(
        &[open(|info| info.snd_wnd_bytes = Some(1447))],
        &[Rule::ZeroWindow],
    );
    // An older kernel does not report the window: the peer answers the probes, or it does not.
    check(&[open(|info| info.snd_wnd_bytes = None)], &[Rule::ZeroWindow]);
    let silent = open(|info| (info.snd_wnd_bytes, info.last_ack_recv_ms) = (None, Some(HOUR_MS)));
    check(&[silent], &[]);
}

#[test]
fn zero_window_of_a_local_reader_is_reported_once() {
    let writer = closed_window(20_000, Some(8));
    let reader = connection(|socket, info| {
        (socket.local, socket.peer) = (writer.peer, writer.local);
        socket.queues = received(60_000);
        info.last_data_recv_ms = Some(20_000);
    });
    check(&[writer.clone(), reader.clone()], &[Rule::Unread]);
    check(&[reader, writer], &[Rule::Unread]);
}

#[test]
fn stuck_data_is_found() {
    let waiting = |sent, heard, expires_ms| {
        connection(move |socket, info| {
            socket.timer = timer(TimerKind::Retransmission, expires_ms, 0);
            socket.queues = sending(1000);
            (info.unacked_segs, info.rto_us) = (Some(1), Some(60_000_000));
            (info.last_data_sent_ms, info.last_ack_recv_ms) = (Some(sent), Some(heard));
        })
    };
    check(&[waiting(20_000, 20_000, 40_001)], &[]);
    check(&[waiting(20_000, 20_000, 40_000)], &[Rule::SendStuck]);
    check(&[waiting(20_000, 19_999, 40_000)], &[]);
    // Nothing was heard for an hour, but nothing was sent either until now.
    check(&[waiting(10, HOUR_MS, 59_990)], &[]);
    let mut without_timer = waiting(20_000, 20_000, 0);
    without_timer.timer = None;
    check(&[without_timer], &[Rule::SendStuck]);
    let mut nothing = waiting(20_000, 20_000, 0);
    nothing.tcp_info.as_mut().expect("it has one").unacked_segs = Some(0);
    check(&[nothing.clone()], &[]);
    nothing.tcp_info.as_mut().expect("it has one").unacked_segs = None;
    check(&[nothing], &[]);
}

/// A half-closed connection that has been quiet for so long, with what may be outstanding.
fn half_closed(
    state: State,
    quiet_ms: u32,
    number: u16,
    change: impl FnOnce(&mut Socket, &mut TcpInfo),
) -> Socket {
    connection(move |socket, info| {
        socket.state = state;
        socket.peer = end([10, 0, 0, 2], number);
        info.last_ack_recv_ms = Some(quiet_ms);
        info.last_data_recv_ms = Some(quiet_ms.saturating_add(10));
        info.last_data_sent_ms = Some(quiet_ms.saturating_add(5));
        info.bytes_received = Some(100);
        info.bytes_acked = Some(2);
        // The FIN of the peer counts as a byte.
        socket.queues = received(u32::from(state == State::CloseWait));
        change(socket, info);
    })
}

#[test]
fn old_half_closed_connection_is_a_leak() {
    let one = |state, age| half_closed(state, age, 1, |_, _| ());
    check(&[one(State::CloseWait, 59_999)], &[]);
    check(&[one(State::CloseWait, 60_000)], &[Rule::CloseWait]);
    check(&[one(State::FinWait2, 119_999)], &[]);
    check(&[one(State::FinWait2, 120_000)], &[Rule::FinWait2]);
    let mut orphan = one(State::FinWait2, u32::MAX);
    orphan.inode = None;
    check(&[orphan], &[]);
    let unknown = half_closed(State::CloseWait, 60_000, 1, |_, info| {
        info.last_ack_recv_ms = None;
    });
    check(&[unknown], &[]);
    // It still sends.
    let sends = half_closed(State::CloseWait, 60_000, 1, |_, info| {
        info.last_data_sent_ms = Some(100);
    });
    check(&[sends], &[]);
}

#[test]
fn many_half_closed_connections_are_a_leak_if_they_do_not_drain() {
    let many = |count, age| -> Vec<Socket> {
        let numbers = 0..count;
        numbers
            .map(|number| half_closed(State::CloseWait, age, number, |_, _| ()))
            .collect()
    };
    let second = Duration::from_secs(1);
    // One look is no proof.
    check(&many(50, 30_000), &[]);
    let findings = check_twice(&many(10, 4_000), second, &many(10, 5_000), &[Rule::CloseWait]);
    assert_eq!((findings[0].sockets, findings[0].examples.len()), (10, 5));
    check_twice(&many(9, 5_000), second, &many(9, 6_000), &[]);
    check_twice(&many(10, 3_999), second, &many(10, 4_999), &[]);
    // Some are gone meanwhile, or others took their addresses.
    check_twice(&many(30, 5_000), second, &many(27, 6_000), &[]);
    check_twice(&many(30, 5_000), second, &many(30, 500), &[]);
}

#[test]
fn client_that_received_its_answer_has_nothing_outstanding() {
    let pooled = |age| -> Vec<Socket> {
        let one = |number| {
            half_closed(State::CloseWait, age, number, |socket, info| {
                socket.local = end([10, 0, 0, 1], 40_000 + number);
                socket.peer = end([10, 0, 0, 2], 443);
                info.last_data_sent_ms = Some(age + 50);
            })
        };
        (0..10).map(one).collect()
    };
    let second = Duration::from_secs(1);
    let findings = check_twice(&pooled(5_000), second, &pooled(6_000), &[Rule::CloseWait]);
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(findings[0].facts.value("unanswered"), None);
}

#[test]
fn half_closed_connections_with_a_working_handler_are_not_accused() {
    // The request was read, nothing was answered yet.
    let works = |state, count, age| -> Vec<Socket> {
        let one = |number| {
            half_closed(state, age, number, |socket, info| {
                if state == State::CloseWait {
                    socket.local = end([10, 0, 0, 1], 443);
                    info.last_data_sent_ms = Some(age.saturating_add(50));
                } else {
                    // We asked last.
                    (info.bytes_acked, info.last_data_recv_ms) = (Some(100), Some(age.saturating_add(50)));
                }
            })
        };
        (0..count).map(one).collect()
    };
    let second = Duration::from_secs(1);
    // One handler has finished meanwhile: the others may, too.
    let of = |count, age| works(State::CloseWait, count, age);
    check_twice(&of(500, 9_000), second, &of(499, 10_000), &[]);
    for (state, rule, many_ms, one_ms) in [
        (State::CloseWait, Rule::CloseWait, 20_000, 300_000),
        (State::FinWait2, Rule::FinWait2, 40_000, 600_000),
    ] {
        let twice = |count, age, rules: &[Rule]| {
            check_twice(
                &works(state, count, age),
                second,
                &works(state, count, age + 1000),
                rules,
            )
        };
        twice(500, 6_999, &[]);
        let findings = twice(500, 7_000, &[rule]);
        assert_eq!(findings[0].severity, Severity::Notice);
        assert_eq!(twice(500, many_ms - 1000, &[rule])[0].severity, Severity::Warning);
        twice(9, one_ms - 1001, &[]);
        let findings = twice(10, many_ms - 1000, &[rule]);
        assert_eq!(findings[0].facts.value("unanswered"), Some(10));
        let kills = |remedy: &Remedy| matches!(remedy, Remedy::Sockeye(text) if text.starts_with("kill"));
        assert_eq!(
            findings[0].remedies.iter().any(kills),
            state == State::FinWait2,
            "{:?}",
            findings[0].remedies
        );
        check(&works(state, 1, one_ms), &[rule]);
    }
    // What is not read is reported as such.
    let unread = half_closed(State::CloseWait, 60_000, 1, |socket, _| {
        socket.queues = received(101);
    });
    check(&[unread], &[Rule::Unread]);
}

#[test]
fn unread_data_is_found() {
    let waiting = |bytes, since| {
        connection(move |socket, info| {
            socket.queues = received(bytes);
            info.last_data_recv_ms = Some(since);
        })
    };
    check(&[waiting(1, 9_999)], &[]);
    check(&[waiting(0, 10_000)], &[]);
    check(&[waiting(1, 10_000)], &[Rule::Unread]);
    check(&[waiting(u32::MAX, u32::MAX)], &[Rule::Unread]);
    let mut unaccepted = waiting(100, 20_000);
    unaccepted.inode = None;
    check(&[unaccepted], &[]);
}

fn sent(segments: u32, again: u32, needless: u32, reorderings: u32) -> Socket {
    connection(|_, info| {
        info.data_segs_out = Some(segments);
        info.total_retrans_segs = Some(again);
        info.dsack_dups = Some(needless);
        info.reord_seen = Some(reorderings);
    })
}

#[test]
fn losses_and_reordering_are_found() {
    check(&[sent(666, 19, 0, 0)], &[]);
    check(&[sent(667, 20, 0, 0)], &[]);
    check(&[sent(666, 20, 0, 0)], &[Rule::Retransmissions]);
    check(&[sent(100, 20, 0, 0)], &[Rule::Retransmissions]);
    check(&[sent(0, u32::MAX, 0, 0)], &[Rule::Retransmissions]);
    // Most retransmissions were needless ...
    check(&[sent(1000, 40, 20, 0)], &[Rule::SpuriousRetransmissions]);
    check(&[sent(1000, 40, 19, 0)], &[Rule::Retransmissions]);
    // ... unless they are few compared with what was sent.
    check(&[sent(100_000, 40, 40, 0)], &[]);
    check(&[sent(20_000, 0, 0, 20)], &[Rule::Reordering]);
    check(&[sent(20_001, 0, 0, 20)], &[]);
    check(&[sent(100, 0, 0, 19)], &[]);
}

#[test]
fn losses_are_counted_between_two_samples() {
    let second = Duration::from_secs(1);
    let old = [sent(1000, 500, 0, 0)];
    check_after(&old, second, &old, &[]);
    let findings = check_after(&old, second, &[sent(2000, 600, 0, 0)], &[Rule::Retransmissions]);
    let facts = findings[0].examples[0].facts;
    assert_eq!(
        (facts.value("share_permille"), facts.value("sent_segs")),
        (Some(100), Some(1000))
    );
    // Counters begin anew.
    check_after(
        &[sent(u32::MAX, u32::MAX, 0, 0)],
        second,
        &[sent(299, 29, 0, 0)],
        &[Rule::Retransmissions],
    );
    // One that was not there is judged by its whole life.
    let mut other = sent(100, 50, 0, 0);
    other.inode = Some(Inode(99));
    check_after(&old, second, &[other], &[Rule::Retransmissions]);
}

#[test]
fn window_and_pacing_floors_are_found() {
    let waiting = |cwnd, unacked, pacing| {
        connection(move |_, info| {
            (info.notsent_bytes, info.snd_cwnd_segs) = (Some(50_000), Some(cwnd));
            (info.unacked_segs, info.pacing_rate_bytes_per_s) = (Some(unacked), Some(pacing));
            info.busy_time_us = Some(1_000_000);
        })
    };
    let stays = |socket: Socket, rules: &[Rule]| {
        let both = [socket];
        check_twice(&both, Duration::from_secs(1), &both, rules);
    };
    stays(waiting(4, 4, 3_000_000), &[Rule::CwndFloor]);
    stays(waiting(4, 3, 3_000_000), &[]);
    stays(waiting(5, 5, 3_000_000), &[]);
    stays(waiting(0, 0, 0), &[Rule::CwndFloor]);
    // BBR is at the floor for a moment every ten seconds: one look is no proof.
    check(&[waiting(4, 4, 3_000_000)], &[]);
    let second = Duration::from_secs(1);
    check_twice(
        &[waiting(4, 4, 3_000_000)],
        second,
        &[waiting(40, 40, 3_000_000)],
        &[],
    );
    let mut young = waiting(4, 4, 3_000_000);
    young.tcp_info.as_mut().expect("it has one").busy_time_us = Some(999_999);
    stays(young, &[]);
    let mut timed_out = waiting(1, 1, 400_000);
    timed_out.timer = timer(TimerKind::Retransmission, 100, 1);
    stays(timed_out, &[]);
    let mut nothing = waiting(2, 2, 400_000);
    nothing.tcp_info.as_mut().expect("it has one").notsent_bytes = Some(0);
    stays(nothing, &[]);

    check(&[waiting(10, 1, 125_000)], &[Rule::PacingFloor]);
    check(&[waiting(10, 1, 125_001)], &[]);
    check(&[waiting(10, 10, 125_000)], &[]);
    check(&[waiting(10, 1, 0)], &[]);
}

#[test]
fn receiver_and_buffer_limits_are_found() {
    let held = |busy, by_receiver, by_buffer, rate| {
        connection(move |_, info| {
            info.busy_time_us = Some(busy);
            info.rwnd_limited_us = Some(by_receiver);
            info.sndbuf_limited_us = Some(by_buffer);
            info.delivery_rate_bytes_per_s = rate;
        })
    };
    let slow = Some(1_000_000);
    check(&[held(5_000_000, 2_500_000, 0, slow)], &[Rule::ReceiverLimited]);
    check(&[held(5_000_000, 2_499_999, 0, slow)], &[]);
    check(&[held(4_999_999, 4_999_999, 0, slow)], &[]);
    // It is fast enough.
    check(&[held(5_000_000, 5_000_000, 0, Some(125_000_000))], &[]);
    check(&[held(5_000_000, 5_000_000, 0, None)], &[]);
    check(
        &[held(u64::MAX, u64::MAX, u64::MAX, Some(0))],
        &[Rule::ReceiverLimited],
    );
    check(&[held(5_000_000, 0, 1_500_000, slow)], &[Rule::SendBufferLimited]);
    check(&[held(5_000_000, 0, 1_499_999, slow)], &[]);
}

#[test]
fn application_limit_needs_two_samples() {
    let at = |sent, busy| {
        connection(move |_, info| (info.bytes_sent, info.busy_time_us) = (Some(sent), Some(busy)))
    };
    let second = Duration::from_secs(1);
    let before = [at(1_000_000, 3_000_000)];
    let findings = check_after(
        &before,
        second,
        &[at(2_000_000, 3_500_000)],
        &[Rule::ApplicationLimited],
    );
    assert_eq!(findings[0].severity, Severity::Info);
    check_after(&before, second, &[at(2_000_000, 3_500_001 + 1_000)], &[]);
    check_after(&before, second, &[at(1_999_999, 3_000_000)], &[]);
    check_after(&before, Duration::ZERO, &[at(9_000_000, 3_000_000)], &[]);
    // A single look knows no time.
    check(&before, &[]);
}

#[test]
fn rtt_inflation_is_found() {
    let slow = |now, least, heard| {
        connection(move |_, info| {
            (info.rtt_us, info.min_rtt_us) = (now, least);
            info.last_ack_recv_ms = heard;
        })
    };
    check(
        &[slow(Some(125_000), Some(25_000), Some(9_999))],
        &[Rule::RttInflation],
    );
    check(&[slow(Some(124_999), Some(25_000), Some(9_999))], &[]);
    check(&[slow(Some(100_999), Some(1_000), Some(0))], &[]);
    // That was long ago.
    check(&[slow(Some(125_000), Some(25_000), Some(10_000))], &[]);
    check(&[slow(Some(u32::MAX), Some(0), Some(0))], &[Rule::RttInflation]);
    check(&[slow(Some(u32::MAX), None, Some(0))], &[]);
    check(&[slow(None, Some(1), Some(0))], &[]);
}

/// A recorded sample has neither timers nor what was sent: an idle connection with keepalive looked like one without, and one segment that
/// was retransmitted like 100 % of them.
#[test]
fn recorded_connection_is_judged_by_what_is_recorded_only() {
    let limits = Limits::default();
    let judge = |is_recorded: bool, socket: &Socket| {
        let mut snapshot = if is_recorded {
            Snapshot::of_record(&limits)
        } else {
            Snapshot::new(&limits)
        };
        snapshot.socket(&Entry::new(socket));
        let found = snapshot.findings();
        found.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    let lossy = connection(|_, info| {
        info.total_retrans_segs = Some(319);
        (info.segs_out, info.data_segs_out) = (None, None);
    });
    let idle = connection(|socket, info| {
        socket.timer = None;
        info.last_data_sent_ms = Some(7_200_000);
        info.last_data_recv_ms = Some(7_200_000);
    });
    let held_back = connection(|_, info| {
        info.total_retrans_segs = Some(319);
        (info.busy_time_us, info.rwnd_limited_us) = (Some(60_000_000), Some(59_000_000));
        info.delivery_rate_bytes_per_s = Some(10_000);
    });
    assert_eq!(judge(true, &lossy), []);
    // Old kernels do not count what was sent either.
    assert_eq!(judge(false, &lossy), []);
    assert_eq!(judge(true, &idle), []);
    assert_eq!(judge(false, &idle), [Rule::NoKeepalive]);
    assert_eq!(judge(true, &held_back), [Rule::ReceiverLimited]);
}
