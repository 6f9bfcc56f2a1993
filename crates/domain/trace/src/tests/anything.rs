//! Whatever comes, there is an answer, and memory is bounded.

use super::hand::{Hand, analysed, from_client, from_server, handshake};
use sockeye_trace::{Confidence, Connection, EventKind, Keep, Options, Pairing, SHARDS, Trace};
use sockeye_wire::packet::{SackBlocks, Segment, TcpFlags, Timestamps};

/// Numbers that look like chance.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    /// Near one of a few places, so that segments have to do with each other, or anywhere.
    fn sequence(&mut self) -> u32 {
        match self.next(4) {
            0 => self.next(3_000) as u32,
            1 => (u32::MAX - 1_500).wrapping_add(self.next(3_000) as u32),
            2 => (1 << 31) + self.next(3_000) as u32,
            _ => self.0 as u32,
        }
    }

    fn hand(&mut self) -> Hand {
        let (sequence, acknowledgement) = (self.sequence(), self.sequence());
        let len = [0, 0, 1, 1_000, 65_000, u32::MAX][self.next(6) as usize];
        let time_us = [self.next(1_000), self.next(1_000_000), u64::MAX / 2_000][self.next(3) as usize];
        let ends = if self.next(2) == 0 {
            from_client
        } else {
            from_server
        };
        let mut hand = ends(time_us, sequence, acknowledgement, len);
        let segment = &mut hand.segment;
        segment.source_port = segment.source_port.wrapping_add(self.next(3) as u16);
        segment.flags = TcpFlags(self.next(512) as u16);
        segment.window = [0, 1, 500, u16::MAX][self.next(4) as usize];
        segment.ip_id = (self.next(2) == 0).then(|| self.next(9) as u16);
        let options = &mut segment.options;
        options.mss = (self.next(3) == 0).then(|| [0, 1, 12, 1_460][self.next(4) as usize]);
        options.window_scale = (self.next(3) == 0).then(|| self.next(256) as u8);
        let stamps = Timestamps {
            value: self.sequence(),
            echo: self.sequence(),
        };
        options.timestamps = (self.next(2) == 0).then_some(stamps);
        options.sack = SackBlocks::default();
        for _ in 0..self.next(5) {
            options.sack.push(self.sequence(), self.sequence());
        }
        hand
    }
}

#[test]
fn nothing_panics_and_shares_add_up() {
    for seed in 1..40 {
        let mut chance = Chance(seed);
        let mut segments: Vec<Hand> = if seed % 2 == 0 { handshake() } else { Vec::new() };
        segments.extend((0..1_500).map(|_| chance.hand()));
        for Connection {
            forward,
            backward,
            begin_ns,
            end_ns,
            ..
        } in analysed(&segments).1
        {
            for side in [forward, backward] {
                let total = side.shares.total();
                assert!(total == 0 || total == end_ns - begin_ns, "seed {seed}: {side:?}");
                assert!(side.bytes <= side.bytes_sent, "seed {seed}: {side:?}");
            }
        }
        let mut pairing = Pairing::new();
        let half = segments.len() / 2;
        for (number, hand) in segments.iter().enumerate() {
            let time_ns = hand.time_us * 1_000;
            if number < half {
                pairing.first(number as u64, time_ns, &hand.segment);
            } else {
                pairing.second(number as u64, time_ns, &hand.segment);
            }
        }
        let paired = pairing.finish();
        assert_eq!(paired.left_out, 0);
    }
}

#[test]
fn same_segments_give_the_same_analysis() {
    let mut chance = Chance(7);
    let segments: Vec<Hand> = (0..3_000).map(|_| chance.hand()).collect();
    assert_eq!(analysed(&segments), analysed(&segments));
}

#[test]
fn many_connections_take_bounded_memory() {
    let options = Options {
        connections_max: 6 * SHARDS,
        closed_max: SHARDS,
        series: Keep::All,
        series_points_max: 500,
        ..Options::default()
    };
    let mut trace = Trace::new(options);
    let mut given_out = 0;
    let mut largest = 0;
    for number in 0..5_000_u32 {
        for (at, hand) in handshake().iter().enumerate() {
            let mut segment: Segment = hand.segment;
            let port = 1_024 + (number % 50_000) as u16;
            if segment.source_port == 443 {
                segment.destination_port = port;
            } else {
                segment.source_port = port;
            }
            trace.segment(
                u64::from(number) * 3 + at as u64 + 1,
                u64::from(number) * 1_000,
                &segment,
            );
        }
        while trace.finished().is_some() {
            given_out += 1;
        }
        largest = largest.max(trace.counters().memory_bytes);
    }
    assert!(given_out >= 4_900 && largest < 1_000_000, "{given_out} {largest}");
    let counters = trace.counters();
    assert_eq!(counters.connections, 5_000);
    assert!(
        counters.connections_cut_short >= 4_900 && counters.series_forgotten > 0,
        "{counters:?}"
    );
}

/// One connection goes on while many come and go: where the points of all exceed the limit, it is not its own that are lost.
#[test]
fn largest_connection_keeps_its_points() {
    let mut trace = Trace::new(Options {
        series: Keep::All,
        series_points_max: 4_000,
        ..Options::default()
    });
    let mut frame = 0;
    let mut take = |trace: &mut Trace, hand: &Hand, port: u16| {
        let mut segment: Segment = hand.segment;
        if segment.source_port == 443 {
            segment.destination_port = port;
        } else {
            segment.source_port = port;
        }
        frame += 1;
        trace.segment(frame, frame * 1_000, &segment);
    };
    for hand in handshake() {
        take(&mut trace, &hand, 1_000);
    }
    let mut largest = 0;
    for number in 0..600_u32 {
        for hand in handshake() {
            take(&mut trace, &hand, 2_000 + number as u16);
        }
        take(
            &mut trace,
            &from_client(0, 101 + number * 1_000, 301, 1_000),
            1_000,
        );
        take(&mut trace, &from_server(0, 301, 1_101 + number * 1_000, 0), 1_000);
        largest = largest.max(trace.counters().memory_bytes);
    }
    let counters = trace.counters();
    assert!(
        counters.series_forgotten > 100 && counters.points_left_out == 0,
        "{counters:?}"
    );
    let all: Vec<_> = trace.finish().collect();
    assert_eq!(all.len(), 601);
    let series = all[0].series.as_ref().expect("its points");
    let data = series
        .forward
        .segments
        .iter()
        .filter(|point| point.end - point.start == 1_000);
    assert_eq!((data.count(), series.segments_left_out), (600, 0));
    assert!(all.iter().filter(|other| other.series.is_none()).count() > 100);
}

/// What exceeds the limit of one alone is counted.
#[test]
fn points_beyond_the_maximum_are_counted() {
    for keep in [Keep::All, Keep::Numbers(vec![0])] {
        let mut trace = Trace::new(Options {
            series: keep,
            series_points_max: 300,
            ..Options::default()
        });
        for number in 0..500_u32 {
            let hand = from_client(u64::from(number), 101 + number * 1_000, 301, 1_000);
            trace.segment(u64::from(number) + 1, u64::from(number) * 1_000, &hand.segment);
        }
        let left_out = trace.counters().points_left_out;
        let finished = trace.finish().next().expect("the connection");
        let series = finished.series.expect("its points");
        assert!(
            left_out > 100 && series.segments_left_out == left_out,
            "{left_out}"
        );
        assert_eq!(series.forward.segments.len() as u64 + left_out, 500);
    }
}

#[test]
fn one_way_captures_are_bounded() {
    let mut trace = Trace::new(Options {
        unacked_max: 1_000 * SHARDS,
        ..Options::default()
    });
    for number in 0..5_000_u32 {
        let hand = from_client(u64::from(number), 1_001 + number * 100, 1, 100);
        trace.segment(u64::from(number) + 1, u64::from(number) * 1_000, &hand.segment);
    }
    assert_eq!(trace.counters().unacked_left_out, 4_000);
    assert_eq!(trace.finish().count(), 1);
}

/// The only event of these segments.
#[track_caller]
fn check_event(more: &[Hand], kind: EventKind, confidence: Confidence) {
    let segments = [handshake(), more.to_vec()].concat();
    let connection = &analysed(&segments).1[0];
    let events: Vec<_> = connection
        .events
        .iter()
        .map(|event| (event.kind, event.confidence))
        .collect();
    assert_eq!(events, [(kind, confidence)], "{:?}", connection.events);
}

#[test]
fn segment_captured_twice_is_a_capture_duplicate() {
    let data = from_client(20_000, 1_001, 5_001, 500).id(7);
    let twin = Hand {
        time_us: 20_003,
        ..data
    };
    check_event(&[data, twin], EventKind::DuplicatedByCapture, Confidence::Likely);
}

#[test]
fn segment_delivered_twice_is_a_network_duplicate() {
    let data = from_client(20_000, 1_001, 5_001, 500).id(7);
    let twin = Hand {
        time_us: 23_000,
        ..data
    };
    check_event(&[data, twin], EventKind::DuplicatedByNetwork, Confidence::Likely);
    let dsack = from_server(33_000, 5_001, 1_501, 0).sack(&[(1_001, 1_501)]);
    check_event(
        &[data, twin, dsack],
        EventKind::DuplicatedByNetwork,
        Confidence::Proven,
    );
    check_event(&[data, dsack], EventKind::DuplicatedByNetwork, Confidence::Proven);
}

fn kinds(more: &[Hand]) -> Vec<EventKind> {
    let segments = [handshake(), more.to_vec()].concat();
    let events = &analysed(&segments).1[0].events;
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn retransmission_shows_a_loss_or_is_spurious() {
    let sent = [
        from_client(20_000, 1_001, 5_001, 500).clock(20, 1),
        from_client(20_100, 1_501, 5_001, 500).clock(20, 1),
        from_client(20_200, 2_001, 5_001, 500).clock(20, 1),
        from_server(30_000, 5_001, 1_001, 0)
            .clock(31, 20)
            .sack(&[(1_501, 2_501)]),
        from_client(40_000, 1_001, 5_001, 500).clock(40, 31),
    ];
    let of_second = [&sent[..], &[from_server(50_000, 5_001, 2_501, 0).clock(50, 40)]].concat();
    check_event(&of_second, EventKind::Lost, Confidence::Proven);
    // Eifel: the acknowledgement was made by the first copy.
    let of_first = [&sent[..], &[from_server(50_000, 5_001, 2_501, 0).clock(50, 20)]].concat();
    let sent_for_nothing = [EventKind::Spurious, EventKind::Reordered];
    assert_eq!(kinds(&of_first), sent_for_nothing);
    let twice = from_server(60_000, 5_001, 2_501, 0)
        .clock(60, 40)
        .sack(&[(1_001, 1_501)]);
    let both = [&of_second[..], &[twice]].concat();
    assert_eq!(kinds(&both), sent_for_nothing);
    // Never sent again, and acknowledged nevertheless.
    let late = [&sent[..4], &[from_server(50_000, 5_001, 2_501, 0).clock(50, 20)]].concat();
    check_event(&late, EventKind::Reordered, Confidence::Proven);
}

#[test]
fn acknowledged_gap_is_missing_in_the_capture() {
    let gap = [
        from_client(20_000, 1_001, 5_001, 500),
        from_client(20_100, 2_001, 5_001, 500),
        from_server(30_000, 5_001, 2_501, 0),
    ];
    check_event(&gap, EventKind::MissingInCapture, Confidence::Proven);
    let tail = [
        from_client(20_000, 1_001, 5_001, 500),
        from_server(30_000, 5_001, 2_501, 0),
    ];
    check_event(&tail, EventKind::MissingInCapture, Confidence::Proven);
}

#[test]
fn late_segment_is_reordered() {
    let late = [
        from_client(20_000, 1_001, 5_001, 500).id(10).clock(20, 1),
        from_client(20_100, 2_001, 5_001, 500).id(12).clock(20, 1),
        from_client(20_200, 1_501, 5_001, 500).id(11).clock(20, 1),
    ];
    check_event(&late, EventKind::Reordered, Confidence::Likely);
    let again = [
        late[0],
        late[1],
        from_client(60_000, 1_501, 5_001, 500).id(13).clock(60, 31),
    ];
    check_event(&again, EventKind::Lost, Confidence::Proven);
}

#[test]
fn closed_window_and_stall_are_events() {
    let closed = [
        from_client(20_000, 1_001, 5_001, 500),
        from_server(30_000, 5_001, 1_501, 0).window(0),
        from_server(130_000, 5_001, 1_501, 0).window(900),
    ];
    check_event(
        &closed,
        EventKind::WindowClosed {
            duration_ns: 100_000_000,
        },
        Confidence::Likely,
    );
    let stalled = [
        from_client(20_000, 1_001, 5_001, 500),
        from_server(520_000, 5_001, 1_501, 0),
    ];
    check_event(
        &stalled,
        EventKind::Stall {
            duration_ns: 500_000_000,
        },
        Confidence::Likely,
    );
}
