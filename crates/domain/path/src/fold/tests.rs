use super::*;
use sockeye_wire::path::{Payload, SendLimit};

/// A journey through points at times, all on the device `tun0`.
fn journey(stamps: &[(u64, Point)]) -> Journey {
    let mut device = [0; 16];
    device[..4].copy_from_slice(b"tun0");
    let stamp = |(ns, point): &(u64, Point)| Stamp {
        ns: *ns,
        netns: 1,
        ifindex: if *point == Point::Read { 0 } else { 2 },
        point: *point,
        length: QueueLength::Unknown,
        device,
    };
    let mut comm = [0; 16];
    comm[..3].copy_from_slice(b"vpn");
    Journey {
        protocol: 17,
        end: stamps.last().map(|(_, point)| *point),
        is_truncated: false,
        source: ([10, 0, 0, 1], 5000).into(),
        destination: ([10, 0, 0, 2], 53).into(),
        bytes: 100,
        reason: None,
        reader: Some(812),
        comm,
        send_buffer: None,
        waited_ns: None,
        is_first_fragment: false,
        limit: None,
        round_trip_us: None,
        is_segment: false,
        points_before: 0,
        socket: None,
        payload: None,
        call: 0,
        stamps: stamps.iter().map(stamp).collect(),
    }
}

fn fold(journeys: &[(&[(u64, Point)], Ending<'_>)]) -> PathReport {
    let mut fold = PathFold::new(1);
    for (stamps, ending) in journeys {
        fold.add(&journey(stamps), Direction::Out, *ending);
    }
    fold.finish()
}

const READ_BY_PROGRAM: [(u64, Point); 3] = [
    (1_000, Point::Queued),
    (1_200, Point::Transmitted),
    (9_200, Point::Read),
];

#[test]
fn hops_have_the_time_between_their_points() {
    let report = fold(&[(&READ_BY_PROGRAM, Ending::Complete)]);
    let hops: Vec<_> = report
        .hops
        .iter()
        .map(|hop| (hop.key.kind, hop.packets, hop.bytes, hop.total_ns))
        .collect();
    assert_eq!(
        hops,
        [(HopKind::Qdisc, 1, 100, 200), (HopKind::Tunnel, 1, 100, 8_000)]
    );
    assert_eq!(report.share_ppm(&report.hops[1]), Some(975_609));
}

#[test]
fn hops_are_in_the_order_of_the_way_where_only_few_packets_have_the_first_ones() {
    let answer = [
        (1, Point::ReadBefore),
        (2, Point::Written),
        (3, Point::Handed),
        (4, Point::Queued),
        (5, Point::Transmitted),
        (6, Point::Received),
        (7, Point::Routed),
        (8, Point::Arrived),
        (9, Point::Delivered),
        (10, Point::Read),
    ];
    let mut journeys = vec![(&answer[..], Ending::Complete)];
    // Whose write, and whose look-up of a route, was not seen.
    let others = [&answer[3..6], &answer[8..]].concat();
    journeys.extend([(&others[..], Ending::Complete); 9]);
    let kinds: Vec<_> = fold(&journeys).hops.iter().map(|hop| hop.key.kind).collect();
    let expected = [
        HopKind::Program,
        HopKind::Send,
        HopKind::Output,
        HopKind::Qdisc,
        HopKind::Device,
        HopKind::Prerouting,
        HopKind::Input,
        HopKind::Stack,
        HopKind::Socket,
    ];
    assert_eq!(kinds, expected);
}

/// A journey that ends with a drop, whose place has this number.
fn dropped_at(stamps: &[(u64, Point)], number: u32) -> Journey {
    let mut journey = journey(&[stamps, &[(9_000, Point::Dropped)]].concat());
    if let Some(last) = journey.stamps.last_mut() {
        last.length = QueueLength::Packets(number);
        // Before a device is known.
        last.ifindex = if number == 1 { 0 } else { last.ifindex };
    }
    journey
}

/// Kind, drops and first sentence of what was dropped at a place; as many packets more have passed all.
fn drops(stamps: &[(u64, Point)], number: u32, reason: &str, passed: usize) -> (HopKind, u64, String) {
    let mut fold = PathFold::new(1);
    for _ in 0..10 {
        fold.add(
            &dropped_at(stamps, number),
            Direction::Out,
            Ending::Dropped(reason),
        );
    }
    let way = [stamps, &[(5_000, Point::Queued), (5_001, Point::Transmitted)]].concat();
    for _ in 0..passed {
        fold.add(&journey(&way), Direction::Out, Ending::Complete);
    }
    let report = fold.finish();
    let hop = report.hops.iter().find(|hop| hop.dropped() > 0).unwrap();
    let sentences = report.sentences();
    let text = sentences.iter().find(|sentence| sentence.code == "drops");
    let text = if passed == 0 {
        &sentences[0].text
    } else {
        &text.unwrap().text
    };
    (hop.key.kind, hop.dropped(), text.clone())
}

#[test]
fn place_of_a_drop_is_where_its_packet_says() {
    let received = [(1_000, Point::Received)];
    let routed = [(1_000, Point::Received), (2_000, Point::Routed)];
    for (stamps, number, reason, kind, words) in [
        (
            &[][..],
            1,
            "NETFILTER_DROP",
            HopKind::Output,
            "(hook output) before the device",
        ),
        (
            &[],
            2,
            "NETFILTER_DROP",
            HopKind::Output,
            "(hook postrouting) before the queue of tun0",
        ),
        (
            &[],
            2,
            "NEIGH_FAILED",
            HopKind::Output,
            "before the queue of tun0",
        ),
        (
            &received,
            4,
            "NETFILTER_DROP",
            HopKind::Prerouting,
            "(hook ingress)",
        ),
        (
            &received,
            4,
            "OTHERHOST",
            HopKind::Prerouting,
            "another MAC address",
        ),
        (
            &received,
            5,
            "NETFILTER_DROP",
            HopKind::Prerouting,
            "(hook prerouting)",
        ),
        (
            &routed,
            5,
            "IP_INNOROUTES",
            HopKind::Forward,
            "where the route is looked up",
        ),
        (&routed, 6, "NETFILTER_DROP", HopKind::Stack, "(hook input)"),
        (&routed, 6, "NO_SOCKET", HopKind::Stack, "to the socket"),
        // The transport has taken the route out of it.
        (&routed, 5, "SOCKET_RCVBUFF", HopKind::Stack, "to the socket"),
        (&received, 5, "SOCKET_RCVBUFF", HopKind::Stack, "to the socket"),
        (&routed, 5, "TCP_OFO_QUEUE_PRUNE", HopKind::Stack, "to the socket"),
        (&received, 4, "PROTO_MEM", HopKind::Stack, "to the socket"),
        (&routed, 7, "NETFILTER_DROP", HopKind::Forward, "(hook forward)"),
        (
            &routed,
            7,
            "PKT_TOO_BIG",
            HopKind::Forward,
            "from tun0 to the next device",
        ),
        (
            &routed,
            8,
            "NETFILTER_DROP",
            HopKind::Forward,
            "(hook postrouting)",
        ),
        (
            &routed,
            13,
            "NETFILTER_DROP",
            HopKind::Forward,
            "(hook egress) before the queue of tun0",
        ),
        (
            &routed,
            13,
            "TC_EGRESS",
            HopKind::Forward,
            "at the egress of tun0, before its queue",
        ),
        (
            &routed,
            14,
            "NETFILTER_DROP",
            HopKind::Forward,
            "(hook postrouting or egress), after tun0",
        ),
        (
            &received,
            10,
            "NETFILTER_DROP",
            HopKind::Forward,
            "(hook bridge forward or postrouting)",
        ),
    ] {
        let (found, dropped, text) = drops(stamps, number, reason, 0);
        assert_eq!((found, dropped), (kind, 10), "{number} {reason}: {text}");
        assert!(
            text.starts_with("10 of 10 packets (100 %) are dropped "),
            "{text}"
        );
        assert!(text.contains(words) && text.contains(reason), "{text}");
    }
}

/// Neighbours that do not answer: some packets wait for one, and others find no room.
#[test]
fn what_waits_on_a_router_is_where_others_are_dropped() {
    let routed = [(1_000, Point::Received), (2_000, Point::Routed)];
    let mut fold = PathFold::new(1);
    fold.add(&journey(&routed), Direction::Out, Ending::Unfinished);
    fold.add(
        &dropped_at(&routed, 8),
        Direction::Out,
        Ending::Dropped("NEIGH_QUEUEFULL"),
    );
    let rows: Vec<_> = fold
        .finish()
        .hops
        .iter()
        .map(|hop| (hop.key.kind, hop.queued_now, hop.dropped()))
        .collect();
    assert_eq!(rows, [(HopKind::Prerouting, 0, 0), (HopKind::Forward, 1, 1)]);
}

#[test]
fn drops_are_a_share_of_what_came_to_their_place() {
    let routed = [(1_000, Point::Received), (2_000, Point::Routed)];
    for (stamps, number) in [(&[][..], 1), (&routed, 7)] {
        let (.., text) = drops(stamps, number, "NETFILTER_DROP", 30);
        assert!(text.starts_with("10 of 40 packets (25 %) are dropped "), "{text}");
    }
}

#[test]
fn drop_after_the_driver_is_in_the_queue_of_the_program() {
    let dropped = [
        (2_000, Point::Queued),
        (2_100, Point::Transmitted),
        (2_200, Point::Dropped),
    ];
    let report = fold(&[
        (&READ_BY_PROGRAM, Ending::Complete),
        (&dropped, Ending::Dropped("FULL_RING")),
    ]);
    let program = report
        .hops
        .iter()
        .find(|hop| hop.key.kind == HopKind::Tunnel)
        .unwrap();
    assert_eq!(program.drops, BTreeMap::from([("FULL_RING".to_owned(), 1)]));
    assert!(report.hops.iter().all(|hop| hop.key.kind != HopKind::Device));
    assert_eq!((report.complete, report.dropped), (1, 1));
}

#[test]
fn time_between_reads_counts_where_the_next_packet_waited() {
    let at = |sent: u64, read: u64| [(sent, Point::Transmitted), (read, Point::Read)];
    let (first, waited, late) = (at(0, 100), at(50, 140), at(900, 950));
    let report = fold(&[
        (&first, Ending::Complete),
        (&waited, Ending::Complete),
        (&late, Ending::Complete),
    ]);
    let reader = &report.hops[0].readers[0];
    assert_eq!((reader.pid, reader.packets), (Some(812), 3));
    assert_eq!(
        (reader.between_reads.count(), reader.between_reads.max()),
        (1, Some(40))
    );
    assert_eq!(report.hops[0].queued_max, 2);
}

#[test]
fn readers_are_bounded_and_packets_of_the_others_are_counted() {
    let mut fold = PathFold::new(1);
    for pid in 0..100 {
        let journey = Journey {
            reader: Some(1 + pid % 50),
            ..journey(&READ_BY_PROGRAM)
        };
        fold.add(&journey, Direction::Out, Ending::Complete);
    }
    assert!(fold.hops.values().all(|hop| hop.readers.len() <= READERS_MAX));
    let report = fold.finish();
    let hop = report.hops.iter().find(|hop| hop.key.kind == HopKind::Tunnel);
    let hop = hop.unwrap();
    let counts: Vec<_> = hop.readers.iter().map(|reader| reader.packets).collect();
    assert_eq!(counts, [2; READERS_MAX]);
    assert_eq!((hop.packets, hop.unlisted_reads), (100, 36));
}

#[test]
fn matched_share_leaves_out_what_has_not_ended() {
    let queued = [(1, Point::Queued)];
    let report = fold(&[
        (&READ_BY_PROGRAM, Ending::Complete),
        (&queued, Ending::Lost),
        (&queued, Ending::Unfinished),
    ]);
    assert_eq!(report.matched_ppm(), Some(500_000));
    assert_eq!(report.followed(), 3);
    assert_eq!(report.hops[0].queued_now, 1);
    assert_eq!(fold(&[]).matched_ppm(), None);
}

#[test]
fn clock_that_goes_back_is_no_time() {
    let report = fold(&[(&[(5, Point::Queued), (4, Point::Transmitted)], Ending::Complete)]);
    assert_eq!(report.hops[0].total_ns, 0);
}

#[test]
fn sentences_name_the_longest_hop_its_program_and_the_short_queue() {
    let at = |sent: u64, read: u64| [(sent, Point::Transmitted), (read, Point::Read)];
    let dropped = [(120_000, Point::Transmitted), (120_100, Point::Dropped)];
    let report = fold(&[
        (&at(0, 100_000), Ending::Complete),
        (&at(50_000, 140_000), Ending::Complete),
        (&dropped, Ending::Dropped("FULL_RING")),
    ]);
    let sentences = report.sentences();
    let texts: Vec<_> = sentences.iter().map(|sentence| sentence.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "100 % of the time on this host is spent in the queue of tun0, whose program (vpn, 812) reads 40.0us per packet.",
            "1 of 3 packets (33 %) is dropped in the queue of tun0, whose program (vpn, 812) reads 40.0us per packet (FULL_RING); \
             at most 2 packets were in it at once.",
            "How long the program of tun0 (vpn, 812) works on a packet, from reading it to writing it elsewhere, is not known, and in no row: the \
             shares are without it.",
        ]
    );
    assert!(sentences[1].remedies[0].starts_with("ip link set dev tun0 txqueuelen 1000 "));
    assert!(fold(&[]).sentences().is_empty());
}

/// The kernel drops it before it is in the queue.
#[test]
fn what_a_full_buffer_does_not_take_is_a_matter_of_the_receive_queue() {
    let read = [(0, Point::Received), (10, Point::Delivered), (5_000, Point::Read)];
    let refused = [(100, Point::Received), (110, Point::Dropped)];
    let report = fold(&[
        (&read, Ending::Complete),
        (&refused, Ending::Dropped("SOCKET_RCVBUFF")),
        (&refused, Ending::Dropped("SOCKET_FILTER")),
    ]);
    let drops = |kind| {
        let hop = report.hops.iter().find(|hop| hop.key.kind == kind);
        hop.map_or(0, Hop::dropped)
    };
    assert_eq!((drops(HopKind::Stack), drops(HopKind::Socket)), (1, 1));
    let texts: Vec<_> = report
        .sentences()
        .into_iter()
        .map(|sentence| sentence.text)
        .collect();
    let expected = "1 of 2 packets (50 %) is dropped in the receive queue of the socket, whose program is vpn, 812 \
                    (SOCKET_RCVBUFF): its buffer is full";
    assert!(texts.iter().any(|text| text.starts_with(expected)), "{texts:#?}");
}

#[test]
fn few_drops_are_less_than_a_percent() {
    let passed = [(0, Point::Transmitted), (10, Point::Read)];
    let dropped = [(5, Point::Transmitted), (6, Point::Dropped)];
    let mut journeys: Vec<(&[(u64, Point)], _)> = vec![(&passed, Ending::Complete); 499];
    journeys.push((&dropped, Ending::Dropped("")));
    let texts: Vec<_> = fold(&journeys)
        .sentences()
        .into_iter()
        .map(|sentence| sentence.text)
        .collect();
    assert!(
        texts[1].starts_with("1 of 500 packets (less than 1 %) is dropped "),
        "{texts:#?}"
    );
}

#[test]
fn time_of_programs_is_no_time_on_the_way() {
    let answer = [
        (0, Point::ReadBefore),
        (5_000, Point::Written),
        (6_000, Point::Queued),
        (6_500, Point::Transmitted),
    ];
    let report = fold(&[(&answer, Ending::Lost)]);
    assert_eq!(report.hops[0].key.kind, HopKind::Program);
    assert_eq!(report.share_ppm(&report.hops[0]), None);
    assert_eq!(report.share_ppm(&report.hops[1]), Some(666_666));
}

/// A segment of 1000 bytes of a stream, through points.
fn segment(seq: u32, stamps: &[(u64, Point)]) -> Journey {
    Journey {
        protocol: 6,
        socket: Some(7),
        payload: Some(Payload { seq, bytes: 1000 }),
        bytes: 1000,
        ..journey(stamps)
    }
}

fn reading(end: u32, ns: u64, call: u32) -> StreamReading {
    let Journey { reader, comm, .. } = journey(&[]);
    StreamReading {
        end,
        socket: 7,
        ns,
        reader,
        call,
        comm,
    }
}

/// Four packets that are there at once, of which three are merged into the first one, are read in parts, by calls each 10 us. That one of
/// them was merged is seen late, of another when packets are followed no more.
#[test]
fn merged_packets_are_read_when_their_last_byte_is() {
    let seq = u32::MAX - 999;
    let mut fold = PathFold::new(1);
    let there = [(0, Point::Received), (10, Point::Delivered)];
    let received = [(10, Point::Received)];
    let end = |bytes: u32| seq.wrapping_add(bytes);
    fold.add(&segment(end(1000), &there), Direction::In, Ending::Merged);
    fold.add_reading(&reading(end(500), 10_010, 1));
    let first = [&there[..], &[(20_010, Point::Read)]].concat();
    let first = Journey {
        call: 2,
        ..segment(seq, &first)
    };
    fold.add(&first, Direction::In, Ending::Complete);
    fold.add_reading(&reading(end(1500), 30_010, 3));
    fold.add_reading(&reading(end(2500), 40_010, 4));
    fold.add(&segment(end(2000), &received), Direction::In, Ending::Merged);
    fold.add_reading(&reading(end(3000), 50_010, 5));
    fold.add_reading(&reading(end(4000), 60_010, 6));
    fold.add(&segment(end(3000), &received), Direction::In, Ending::Unfinished);
    let unread = segment(end(4000), &received);
    fold.add(&unread, Direction::In, Ending::Unfinished);
    fold.add(&segment(end(5000), &there), Direction::In, Ending::Merged);
    let report = fold.finish();
    assert_eq!(
        (
            report.complete,
            report.merged,
            report.unfinished,
            report.followed()
        ),
        (4, 1, 1, 6)
    );
    let socket = report.hops.iter().find(|hop| hop.key.kind == HopKind::Socket);
    let socket = socket.unwrap();
    assert_eq!(
        (socket.packets, socket.total_ns),
        (4, 20_000 + 40_000 + 50_000 + 60_000)
    );
    let gaps = &socket.readers[0].between_reads;
    assert_eq!((gaps.count(), gaps.max()), (5, Some(10_000)));
    // What was merged, and not read, weighs as what was.
    assert_eq!(socket.weight_ns, 170_000 * 5 / 4);
}

/// Of three packets the time in the send buffer is known of one.
#[test]
fn shares_are_of_all_packets_where_times_of_some_are_known() {
    let written = [
        (0, Point::Written),
        (1_000, Point::Handed),
        (1_000, Point::Queued),
        (1_000, Point::Received),
        (1_000, Point::Delivered),
        (2_000, Point::Read),
    ];
    let mut fold = PathFold::new(1);
    for (number, stamps) in [&written[..], &written[1..], &written[1..]]
        .into_iter()
        .enumerate()
    {
        let journey = Journey {
            limit: Some(SendLimit::PeerWindow),
            call: 1,
            ..segment(number as u32 * 1000, stamps)
        };
        fold.add(&journey, Direction::In, Ending::Complete);
    }
    let report = fold.finish();
    let share = |kind| {
        let hop = report.hops.iter().find(|hop| hop.key.kind == kind).unwrap();
        report.share_ppm(hop)
    };
    assert_eq!(share(HopKind::Send), Some(500_000));
    assert_eq!(share(HopKind::Socket), Some(500_000));
    let send = report.hops.iter().find(|hop| hop.key.kind == HopKind::Send);
    assert_eq!(
        report.why_unsent(send.unwrap()),
        ": the receive window of the peer is full, whose program is vpn, 812"
    );
}

/// A packet of two segments has as many bytes in the send buffer as these have in the queue.
#[test]
fn packet_weighs_as_much_as_its_segments() {
    let mut fold = PathFold::new(1);
    let whole = Journey {
        bytes: 2000,
        ..segment(0, &[(0, Point::Written), (500, Point::Queued)])
    };
    fold.add(&whole, Direction::Out, Ending::Divided);
    for seq in [0, 1000] {
        let part = Journey {
            is_segment: true,
            ..segment(seq, &[(500, Point::Queued), (1_000, Point::Transmitted)])
        };
        fold.add(&part, Direction::Out, Ending::Complete);
    }
    let report = fold.finish();
    let shares: Vec<_> = report
        .hops
        .iter()
        .map(|hop| (hop.key.kind, report.share_ppm(hop)))
        .collect();
    assert_eq!(
        shares,
        [(HopKind::Send, Some(500_000)), (HopKind::Qdisc, Some(500_000))]
    );
}

/// A sender whose congestion window is full, with a round trip of 10 us, of which each segment spends this part in a qdisc; it
/// drops one if there are less than 40.
fn limited(limit: SendLimit, in_qdisc_ns: u64, segments: u32) -> PathReport {
    let mut fold = PathFold::new(1);
    let whole = Journey {
        limit: Some(limit),
        round_trip_us: Some(10),
        send_buffer: Some(SendBuffer {
            unsent: 9_000,
            unacked: 39_000,
        }),
        bytes: 40_000,
        ..segment(0, &[(0, Point::Written), (50_000, Point::Queued)])
    };
    fold.add(&whole, Direction::Out, Ending::Divided);
    let part = Journey {
        is_segment: true,
        ..segment(
            0,
            &[
                (50_000, Point::Queued),
                (50_000 + in_qdisc_ns, Point::Transmitted),
            ],
        )
    };
    for _ in 0..segments {
        fold.add(&part, Direction::Out, Ending::Complete);
    }
    if segments < 40 {
        let dropped = Journey {
            is_segment: true,
            ..segment(0, &[(50_000, Point::Queued), (50_000, Point::Dropped)])
        };
        fold.add(&dropped, Direction::Out, Ending::Dropped("QDISC_DROP"));
    }
    fold.finish()
}

#[test]
fn what_fills_the_congestion_window_stands_in_a_qdisc() {
    let sentences = limited(SendLimit::CongestionWindow, 8_000, 40).sentences();
    assert_eq!(
        sentences[0].text,
        "86 % of the time on this host is spent in the send buffer: the congestion window is full, and of 40.0 KB in flight 32.0 KB are \
         in the qdisc of tun0 (8.0us of a round trip of 10.0us), whose rate is the bottleneck."
    );
    assert_eq!(
        sentences[0].remedies,
        ["tc -s qdisc show dev tun0    # in the network namespace of tun0"]
    );
    // What else is in flight to TCP was dropped.
    let sentences = limited(SendLimit::CongestionWindow, 8_000, 20).sentences();
    assert!(
        sentences[0]
            .text
            .contains("of 40.0 KB in flight 20.0 KB are in the qdisc"),
        "{}",
        sentences[0].text
    );
    let typed = |netns, command: &str| Some(format!("enter {netns} {command}"));
    let sentences = limited(SendLimit::Pacing, 8_000, 40).sentences_with(&typed);
    assert!(
        sentences[0]
            .text
            .contains(": the congestion control paces the data, and of 40.0 KB"),
        "{}",
        sentences[0].text
    );
    assert_eq!(sentences[0].remedies, ["enter 1 tc -s qdisc show dev tun0"]);
}

#[test]
fn what_fills_the_congestion_window_is_in_the_network() {
    let sentences = limited(SendLimit::CongestionWindow, 400, 40).sentences();
    assert_eq!(
        sentences[0].text,
        "99 % of the time on this host is spent in the send buffer: the congestion window is full, and what is in flight is not in a \
         queue of this host, but in the network or at the peer: of a round trip of 10.0us packets spend 400ns here."
    );
    assert!(sentences[0].remedies.is_empty());
}

#[test]
fn program_that_limits_its_rate_is_named() {
    let sentences = limited(SendLimit::Rate, 400, 40).sentences();
    let expected = "in the send buffer: its program limits the rate (SO_MAX_PACING_RATE).";
    assert!(sentences[0].text.ends_with(expected), "{}", sentences[0].text);
}

/// Of a few packets the reading by the program is taken for an arrival.
#[test]
fn drops_after_a_driver_are_where_most_packets_pass() {
    let read = [(0, Point::Transmitted), (10, Point::Read)];
    let arrived = [(20, Point::Transmitted), (30, Point::Received)];
    let dropped = [(40, Point::Transmitted), (50, Point::Dropped)];
    let report = fold(&[
        (&read, Ending::Complete),
        (&read, Ending::Complete),
        (&arrived, Ending::Complete),
        (&dropped, Ending::Dropped("FULL_RING")),
    ]);
    let drops: Vec<_> = report
        .hops
        .iter()
        .map(|hop| (hop.key.kind, hop.packets, hop.dropped()))
        .collect();
    assert_eq!(drops, [(HopKind::Tunnel, 2, 1), (HopKind::Device, 1, 0)]);
}

#[test]
fn packet_that_stays_where_no_queue_is_was_lost_sight_of() {
    let second = 1_000_000_000;
    let received = [(0, Point::Transmitted), (10, Point::Received)];
    let transmitted = [(0, Point::Transmitted)];
    let arrived = [
        (2 * second, Point::Transmitted),
        (2 * second + 1, Point::Received),
    ];
    let queued = [(0, Point::Queued)];
    let report = fold(&[
        (&received, Ending::Unfinished),
        (&transmitted, Ending::Unfinished),
        (&queued, Ending::Unfinished),
        (&arrived, Ending::Complete),
        (&arrived, Ending::Unfinished),
    ]);
    // What was received last may be on its way.
    assert_eq!((report.lost, report.unfinished), (2, 2));
    let queued: u64 = report.hops.iter().map(|hop| hop.queued_now).sum();
    assert_eq!(queued, 2);
}

#[test]
fn queue_that_drops_is_in_its_place() {
    let dropped = [(0, Point::Queued), (5, Point::Dropped)];
    let passed = [
        (0, Point::Queued),
        (10, Point::Transmitted),
        (20, Point::Received),
        (30, Point::Delivered),
        (40, Point::Read),
    ];
    let report = fold(&[
        (&passed, Ending::Complete),
        (&dropped, Ending::Dropped("")),
        (&dropped, Ending::Dropped("")),
    ]);
    let kinds: Vec<_> = report.hops.iter().map(|hop| hop.key.kind).collect();
    assert_eq!(
        kinds,
        [HopKind::Qdisc, HopKind::Device, HopKind::Stack, HopKind::Socket]
    );
}

/// While a program reads, TCP merges what arrives before the socket has it.
#[test]
fn packet_that_reached_no_socket_is_read_with_its_connection() {
    let mut fold = PathFold::new(1);
    fold.add(
        &segment(0, &[(1_000, Point::Received), (2_000, Point::Read)]),
        Direction::In,
        Ending::Complete,
    );
    let merged = Journey {
        socket: None,
        ..segment(1000, &[(3_000, Point::Received)])
    };
    fold.add(&merged, Direction::In, Ending::Merged);
    fold.add_reading(&reading(2000, 9_000, 2));
    let report = fold.finish();
    assert_eq!((report.complete, report.merged), (2, 0));
    assert_eq!(report.hops[0].total_ns, 1_000 + 6_000);
}

#[test]
fn hops_of_segments_are_where_their_packet_was() {
    let mut fold = PathFold::new(1);
    let whole = segment(0, &[(0, Point::Transmitted), (10, Point::Received)]);
    fold.add(&whole, Direction::Out, Ending::Divided);
    for seq in 0..3 {
        let part = Journey {
            is_segment: true,
            points_before: 1,
            ..segment(
                seq,
                &[(10, Point::Received), (20, Point::Delivered), (30, Point::Read)],
            )
        };
        fold.add(&part, Direction::Out, Ending::Complete);
    }
    let kinds: Vec<_> = fold.finish().hops.iter().map(|hop| hop.key.kind).collect();
    assert_eq!(kinds, [HopKind::Device, HopKind::Stack, HopKind::Socket]);
}

#[test]
fn device_from_which_no_packet_has_come_is_known() {
    let mut fold = PathFold::new(1);
    fold.add(
        &journey(&[(0, Point::Queued)]),
        Direction::Out,
        Ending::Unfinished,
    );
    assert_eq!(fold.devices().count(), 1);
}

/// A reader that takes at once what comes has no pace, although two of its packets came together.
#[test]
fn program_that_waits_for_data_has_no_pace() {
    let at = |came: u64, read: u64| [(came, Point::Delivered), (read, Point::Read)];
    let mut journeys: Vec<_> = (0..10)
        .map(|nth| at(nth * 1_000_000, nth * 1_000_000 + 5_000))
        .collect();
    journeys.push(at(9_004_000, 9_006_000));
    let all: Vec<_> = journeys
        .iter()
        .map(|stamps| (&stamps[..], Ending::Complete))
        .collect();
    let report = fold(&all);
    let reader = &report.hops[0].readers[0];
    assert_eq!((reader.between_reads.max(), reader.readings), (Some(1_000), 11));
    assert_eq!(reader.pace_ns(), None);
    let text = &report.sentences()[0].text;
    assert!(text.ends_with(", whose program is vpn, 812."), "{text}");
    // Without a number of its socket, too, the packets that one call of TCP takes are no readings.
    let mut fold = PathFold::new(1);
    for (seq, stamps) in (0..).zip([at(0, 100), at(0, 101), at(0, 102)]) {
        let packet = Journey {
            socket: None,
            ..segment(seq * 1000, &stamps)
        };
        fold.add(&packet, Direction::In, Ending::Complete);
    }
    let report = fold.finish();
    assert_eq!(report.hops[0].readers[0].between_reads.count(), 0);
}

/// A program that reads fast, and was stopped once.
#[test]
fn pause_of_a_program_is_named() {
    let second = 1_000_000_000;
    let at = |came: u64, read: u64| [(came, Point::Delivered), (read, Point::Read)];
    let mut journeys: Vec<_> = (0..100).map(|nth| at(nth * 1_000, nth * 1_000 + 900)).collect();
    journeys.extend((0..40).map(|nth| at(second + nth, 2 * second + nth * 10)));
    let all: Vec<_> = journeys
        .iter()
        .map(|stamps| (&stamps[..], Ending::Complete))
        .collect();
    let text = &fold(&all).sentences()[0].text;
    assert!(
        text.ends_with(", whose program (vpn, 812) read nothing for up to 1.00s."),
        "{text}"
    );
}

/// The window is what the buffer takes: the program reads each packet within a microsecond.
#[test]
fn small_receive_buffer_is_no_slow_program() {
    let written = |seq: u64| {
        [
            (seq, Point::Written),
            (seq + 50_000, Point::Queued),
            (seq + 50_000, Point::Received),
            (seq + 50_000, Point::Delivered),
            (seq + 51_000, Point::Read),
        ]
    };
    let mut fold = PathFold::new(1);
    for number in 0..10 {
        let journey = Journey {
            limit: Some(SendLimit::PeerWindow),
            round_trip_us: Some(160),
            send_buffer: Some(SendBuffer {
                unsent: 9_000,
                unacked: 1_000,
            }),
            call: 1 + number,
            ..segment(number * 1000, &written(u64::from(number) * 60_000))
        };
        fold.add(&journey, Direction::In, Ending::Complete);
    }
    let text = &fold.finish().sentences()[0].text;
    let expected = ": the receive window of the peer is full, although its program (vpn, 812) reads within 1.0us (median) what arrives: its \
                    receive buffer is small for a round trip of 160.0us (SO_RCVBUF, net.ipv4.tcp_rmem).";
    assert!(text.ends_with(expected), "{text}");
}

/// What a program of this host reads has been in no network.
#[test]
fn bytes_in_flight_to_a_peer_here_are_in_no_network() {
    let sentence = |in_qdisc_ns: u64, drops: u32| {
        let mut fold = PathFold::new(1);
        let queued = 50_000 + in_qdisc_ns;
        let journey = |seq: u32| Journey {
            limit: Some(SendLimit::CongestionWindow),
            round_trip_us: Some(10),
            send_buffer: Some(SendBuffer {
                unsent: 9_000,
                unacked: 39_000,
            }),
            ..segment(
                seq,
                &[
                    (0, Point::Written),
                    (50_000, Point::Queued),
                    (queued, Point::Transmitted),
                    (queued + 2_000, Point::Received),
                    (queued + 2_000, Point::Delivered),
                    (queued + 2_100, Point::Read),
                ],
            )
        };
        for nth in 0..5 {
            fold.add(&journey(nth * 1000), Direction::Out, Ending::Complete);
        }
        for nth in 0..drops {
            let dropped = segment(
                nth * 1000,
                &[(50_000, Point::Transmitted), (50_000, Point::Dropped)],
            );
            fold.add(&dropped, Direction::Out, Ending::Dropped("FULL_RING"));
        }
        fold.finish().sentences().remove(0).text
    };
    let text = sentence(1_000, 0);
    let expected = "full, and the peer is on this host, where packets spend 3.0us of a round trip of 10.0us: the rest is what no row has";
    assert!(text.contains(expected), "{text}");
    let text = sentence(4_000, 2);
    let expected = "full, and of a round trip of 10.0us packets spend 6.0us on this host, the longest time in the qdisc of tun0; what this \
                    host drops of these connections (2 packets) makes the window smaller.";
    assert!(text.ends_with(expected), "{text}");
    for drops in [0, 2] {
        assert!(!sentence(1_000, drops).contains("network"));
    }
}

/// A router asks for the address of a neighbour that does not answer.
#[test]
fn what_waits_for_a_neighbour_is_on_its_way_to_the_next_device() {
    let second = 1_000_000_000;
    let routed = [(0, Point::Received), (1_000, Point::Routed)];
    let late = [(9 * second, Point::Queued), (9 * second + 1, Point::Transmitted)];
    let mut fold = PathFold::new(1);
    for _ in 0..5 {
        fold.add(&journey(&routed), Direction::Out, Ending::Unfinished);
    }
    fold.add(&journey(&late), Direction::Out, Ending::Complete);
    let report = fold.finish();
    assert_eq!((report.lost, report.unfinished), (0, 5));
    let waiting: Vec<_> = report
        .hops
        .iter()
        .filter(|hop| hop.queued_now > 0)
        .map(|hop| (hop.key.kind, hop.queued_now))
        .collect();
    assert_eq!(waiting, [(HopKind::Forward, 5)]);
    let texts: Vec<_> = report
        .sentences()
        .into_iter()
        .map(|sentence| sentence.text)
        .collect();
    let expected = "5 of 6 packets wait on the way from tun0 to the next device";
    assert!(texts[0].starts_with(expected), "{texts:#?}");
}

/// A socket has received something at that address: what did not come to it was merged there.
#[test]
fn what_a_socket_receives_does_not_wait_for_a_neighbour() {
    let second = 1_000_000_000;
    let routed = [(0, Point::Received), (1_000, Point::Routed)];
    let read = [&routed[..], &[(2_000, Point::Delivered), (3_000, Point::Read)]].concat();
    let late = [(9 * second, Point::Queued), (9 * second + 1, Point::Transmitted)];
    let report = fold(&[
        (&read, Ending::Complete),
        (&routed, Ending::Unfinished),
        (&late, Ending::Complete),
    ]);
    assert_eq!((report.lost, report.unfinished), (1, 0));
}

/// Both ends of a tunnel are on this host: what its program writes into the other device has passed the first one.
#[test]
fn hops_behind_a_tunnel_come_after_it() {
    let into = [(0, Point::Queued), (10, Point::Transmitted), (20, Point::Read)];
    let out = [
        (30, Point::Received),
        (40, Point::Routed),
        (50, Point::Delivered),
        (60, Point::Read),
    ];
    let mut fold = PathFold::new(1);
    for _ in 0..3 {
        fold.add(&journey(&into), Direction::Out, Ending::Complete);
        let mut other_end = journey(&out);
        for stamp in &mut other_end.stamps[..3] {
            stamp.netns = 2;
        }
        fold.add(&other_end, Direction::Out, Ending::Complete);
    }
    let kinds: Vec<_> = fold.finish().hops.iter().map(|hop| hop.key.kind).collect();
    let expected = [
        HopKind::Qdisc,
        HopKind::Tunnel,
        HopKind::Prerouting,
        HopKind::Stack,
        HopKind::Socket,
    ];
    assert_eq!(kinds, expected);
}

/// A segment was lost, and is sent again: what came meanwhile waits for it, and not for the program.
#[test]
fn bytes_that_wait_for_lost_ones_do_not_wait_for_their_program() {
    let mut fold = PathFold::new(1);
    let again = [
        (80_000, Point::Received),
        (80_500, Point::Arrived),
        (81_000, Point::Delivered),
        (90_000, Point::Read),
    ];
    let early = [
        (1_000, Point::Received),
        (1_000, Point::Disordered),
        (90_000, Point::Read),
    ];
    // Of another stream, and of this one later.
    let other = Journey {
        socket: Some(8),
        ..segment(0, &[(85_000, Point::Arrived), (86_000, Point::Read)])
    };
    let later = segment(9_000, &[(89_000, Point::Arrived), (95_000, Point::Read)]);
    for journey in [&other, &segment(0, &again), &segment(1_000, &early), &later] {
        fold.add(journey, Direction::In, Ending::Complete);
    }
    let report = fold.finish();
    let hop = |kind| report.hops.iter().find(|hop| hop.key.kind == kind).unwrap();
    let order = hop(HopKind::Order);
    assert_eq!((order.packets, order.total_ns), (1, 80_000));
    let socket = hop(HopKind::Socket);
    assert_eq!((socket.packets, socket.delays.max()), (4, Some(9_000)));
    let text = &report.sentences()[0].text;
    assert!(
        text.contains(" is spent in TCP, which has the packets and misses bytes before them"),
        "{text}"
    );
}
