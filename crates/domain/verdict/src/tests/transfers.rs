//! Rules that compare two samples of a connection: small windows, Nagle's algorithm, connections that grow in number.

use super::made::{check_after, check_in, connection, end, set};
use sockeye_model::{Endpoint, Entry, Inode, Memory, Port, Socket, TcpInfo};
use sockeye_verdict::{Limits, Remedy, Rule, Snapshot};
use std::time::Duration;

const FIVE: Duration = Duration::from_secs(5);

/// A connection that has received so much, with this window, over 40 ms.
fn receiver(received: u64, window: u32) -> Socket {
    connection(move |socket, info| {
        socket.memory = Some(Memory {
            rcvbuf_bytes: Some(window * 2),
            ..Memory::default()
        });
        info.bytes_received = Some(received);
        (info.rcv_wnd_bytes, info.min_rtt_us) = (Some(window), Some(40_000));
    })
}

#[test]
fn small_receive_buffer_is_found() {
    // In 5 s there are 125 round trips: half of the windows are 256,000 bytes.
    let after = |received, window, rules: &[Rule]| {
        check_after(&[receiver(0, window)], FIVE, &[receiver(received, window)], rules)
    };
    after(255_000, 4096, &[]);
    let findings = after(256_000, 4096, &[Rule::ReceiveBuffer]);
    assert_eq!(findings[0].examples[0].facts.value("rcv_wnd_bytes"), Some(4096));
    // A window of 256 KiB is no small one, however full.
    after(1 << 30, 1 << 18, &[]);
    // The path is short, or what came in is not read: then the program is the cause.
    let with = |change: fn(&mut Socket, &mut TcpInfo)| {
        let changed = |received| {
            let mut socket = receiver(received, 4096);
            let mut info = socket.tcp_info.take().expect("it has one");
            change(&mut socket, &mut info);
            socket.tcp_info = Some(info);
            socket
        };
        check_after(&[changed(0)], FIVE, &[changed(1 << 30)], &[])
    };
    with(|_, info| info.min_rtt_us = Some(1_999));
    with(|socket, _| socket.queues = super::made::received(4096));
    with(|_, info| info.rcv_wnd_bytes = None);
}

#[test]
fn setting_that_limits_the_receive_buffer_is_named() {
    let limits = Limits::default();
    let mut earlier = Snapshot::new(&limits).keep_counters();
    earlier.socket(&Entry::new(&receiver(0, 4096)));
    let before = earlier.into_baseline();
    for (most, is_setting) in [(4096, true), (6_291_456, false)] {
        let mut snapshot = Snapshot::new(&limits).after(&before, FIVE);
        snapshot.namespace(set(|settings| settings.tcp_rmem_bytes = Some([4096, 4096, most])));
        snapshot.socket(&Entry::new(&receiver(500_000, 4096)));
        let findings = snapshot.findings();
        assert_eq!(findings[0].rule, Rule::ReceiveBuffer);
        let sets = |remedy: &Remedy| matches!(remedy, Remedy::Inside(text) if text.contains("tcp_rmem"));
        assert_eq!(findings[0].remedies.iter().any(sets), is_setting, "{findings:#?}");
    }
}

/// A connection that has sent so many segments of 50 bytes and was busy so long; the last write is held back or not.
fn writer(segments: u32, busy_us: u64, is_held_back: bool) -> Socket {
    connection(move |_, info| {
        info.data_segs_out = Some(segments);
        info.bytes_sent = Some(u64::from(segments) * 50);
        info.busy_time_us = Some(busy_us);
        (info.min_rtt_us, info.rtt_us) = (Some(60), Some(30_000));
        if is_held_back {
            (info.notsent_bytes, info.unacked_segs) = (Some(50), Some(1));
        }
    })
}

#[test]
fn small_writes_that_wait_for_delayed_acks_are_found() {
    let after = |before: Socket, now: Socket, rules: &[Rule]| check_after(&[before], FIVE, &[now], rules);
    let findings = after(
        writer(0, 0, false),
        writer(240, 4_900_000, true),
        &[Rule::NagleDelayedAck],
    );
    let facts = &findings[0].examples[0].facts;
    assert_eq!(
        (facts.value("mean_segment_bytes"), facts.value("mean_wait_us")),
        (Some(50), Some(20_416))
    );
    // One of two looks that sees a write held back is enough, none is not.
    after(
        writer(0, 0, true),
        writer(240, 4_900_000, false),
        &[Rule::NagleDelayedAck],
    );
    after(writer(0, 0, false), writer(240, 4_900_000, false), &[]);
    // Few segments, fast answers, a long path.
    after(writer(0, 0, true), writer(19, 4_900_000, true), &[]);
    after(writer(0, 0, true), writer(2_000, 4_900_000, true), &[]);
    let far = |segments, busy_us| {
        let mut socket = writer(segments, busy_us, true);
        let info = socket.tcp_info.as_mut().expect("it has one");
        info.min_rtt_us = Some(20_000);
        socket
    };
    after(far(0, 0), far(240, 4_900_000), &[]);
}

#[test]
fn window_without_scaling_is_named() {
    let limited = |options, scaling| {
        let socket = connection(|_, info| {
            (info.busy_time_us, info.rwnd_limited_us) = (Some(6_000_000), Some(5_000_000));
            (info.options, info.snd_wnd_bytes) = (options, Some(65_535));
        });
        let vitals = set(|settings| settings.window_scaling = scaling);
        let findings = check_in(&vitals, &[socket], &[Rule::ReceiverLimited]);
        let sets =
            |remedy: &Remedy| matches!(remedy, Remedy::Inside(text) if text.contains("window_scaling"));
        (
            findings[0].meaning.contains("no window scaling"),
            findings[0].remedies.iter().any(sets),
        )
    };
    assert_eq!(limited(Some(3), Some(0)), (true, true));
    // Off at the peer, or removed on the path.
    assert_eq!(limited(Some(3), Some(1)), (true, false));
    assert_eq!(limited(Some(7), Some(1)), (false, false));
    assert_eq!(limited(None, None), (false, false));
}

/// Connections to one service with these inodes, each of which has sent so much.
fn pool(inodes: std::ops::Range<u16>, sent: u64) -> Vec<Socket> {
    inodes
        .map(|number| {
            connection(move |socket, info| {
                socket.inode = Some(Inode(u32::from(number) + 1000));
                socket.local = end([10, 0, 0, 1], 40_000 + number);
                info.bytes_sent = Some(sent);
            })
        })
        .collect()
}

#[test]
fn connections_that_only_grow_in_number_are_found() {
    let limits = Limits::default();
    let found = |before: &[Socket], now: &[Socket]| {
        let owners = [super::made::owner(1)];
        let fill = |snapshot: &mut Snapshot<'_>, sockets: &[Socket]| {
            for socket in sockets {
                snapshot.socket(&Entry::with_owners(socket, Some(&owners)));
            }
        };
        let mut earlier = Snapshot::new(&limits).keep_counters();
        fill(&mut earlier, before);
        let baseline = earlier.into_baseline();
        let mut snapshot = Snapshot::new(&limits).after(&baseline, FIVE).keep_counters();
        fill(&mut snapshot, now);
        snapshot.findings()
    };
    let findings = found(&pool(0..40, 1), &pool(0..50, 1));
    assert_eq!(findings[0].rule, Rule::ConnectionGrowth);
    assert_eq!(findings[0].facts.value("opened"), Some(10));
    assert_eq!(findings[0].owner, Some(super::made::owner(1).process));
    // Fewer, slower, one was closed, or they are used.
    assert!(found(&pool(0..39, 1), &pool(0..49, 1)).is_empty());
    assert!(found(&pool(0..41, 1), &pool(0..50, 1)).is_empty());
    assert!(found(&pool(0..60, 1), &pool(1..80, 1)).is_empty());
    assert!(found(&pool(0..60, 1), &pool(0..80, 2)).is_empty());
    // Incoming connections have a peer each.
    let incoming: Vec<Socket> = pool(0..80, 1)
        .into_iter()
        .zip(1..)
        .map(|(mut socket, port)| {
            socket.peer = Endpoint::inet([10, 0, 0, 9].into(), Port(port));
            socket
        })
        .collect();
    assert!(found(&incoming[..40], &incoming).is_empty());
}
