//! The parts of an analysis: half-open connections are kept in little memory without a difference, and shards that run one after
//! the other give the result of one thread.

use sockeye_trace::{
    Arrival, Connection, EventOrder, Finished, Keep, Merge, Options, Remaining, Router, SHARDS, SegmentNotes,
    Shard, Trace,
};
use sockeye_wire::packet::{Segment, TcpFlags, TcpOptions, Timestamps};

/// Numbers that look random.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    /// A segment of one of a few connections: mostly what opens one.
    fn segment(&mut self) -> Segment {
        let from_server = self.next(2) == 1;
        let client = ([10, 0, 0, self.next(3) as u8], 40_000 + self.next(40) as u16);
        let server = ([10, 0, 0, 2], 443);
        let (from, to) = if from_server {
            (server, client)
        } else {
            (client, server)
        };
        let flags = match self.next(8) {
            0 => TcpFlags::ACK,
            1 => TcpFlags(self.next(64) as u16),
            _ if from_server => TcpFlags::SYN.or(TcpFlags::ACK),
            _ => TcpFlags::SYN,
        };
        let number = [1_000, 1_000, 1_000, 77][self.next(4) as usize];
        Segment {
            source: from.0.into(),
            source_port: from.1,
            destination: to.0.into(),
            destination_port: to.1,
            sequence: number + u32::from(!flags.has(TcpFlags::SYN)),
            acknowledgement: [number + 1, 0][usize::from(self.next(9) == 0)],
            flags,
            window: [64_000, 0][usize::from(self.next(20) == 0)],
            payload_len: [0, 100][usize::from(self.next(12) == 0)],
            options: TcpOptions {
                mss: (self.next(3) > 0).then_some(1_460),
                window_scale: (self.next(3) > 0).then_some(7),
                sack_permitted: self.next(2) == 0,
                timestamps: (self.next(2) == 0).then_some(Timestamps {
                    value: self.next(9) as u32,
                    echo: self.next(9) as u32,
                }),
                is_cut: self.next(20) == 0,
                ..TcpOptions::default()
            },
            ip_id: (self.next(2) == 0).then_some(self.next(3) as u16),
            ttl: 60 + self.next(3) as u8,
            ecn: 0,
            bad_checksum: None,
            tunnels: 0,
            is_tls_handshake: false,
        }
    }

    fn segments(&mut self, count: u64) -> Vec<(u64, Segment)> {
        let mut time_ns = 1_000_000_000;
        (0..count)
            .map(|_| {
                time_ns += self.next(40_000_000);
                let back_ns = [0, 200_000_000][usize::from(self.next(60) == 0)];
                (time_ns - back_ns, self.segment())
            })
            .collect()
    }
}

fn analysed(segments: &[(u64, Segment)], options: Options) -> (Vec<SegmentNotes>, Vec<Connection>, Trace) {
    let mut trace = Trace::new(options);
    let (mut notes, mut finished) = (Vec::new(), Vec::new());
    for (number, (time_ns, segment)) in segments.iter().enumerate() {
        notes.push(trace.segment(number as u64 + 1, *time_ns, segment));
        finished.extend(std::iter::from_fn(|| trace.finished()));
    }
    finished.extend(trace.finish());
    let connections = finished.into_iter().map(|finished: Finished| finished.connection);
    (notes, connections.collect(), trace)
}

#[test]
fn half_open_connections_are_judged_as_others() {
    for seed in 1..30 {
        let segments = Chance(seed).segments(600);
        let limits = Options {
            events_max: 1_000,
            series_events_max: 1_000,
            ..Options::default()
        };
        // Connections with points are never kept as the fields of their SYNs.
        let whole = Options {
            series: Keep::All,
            ..limits.clone()
        };
        let (notes, connections, trace) = analysed(&segments, limits);
        let (expected_notes, expected, expected_trace) = analysed(&segments, whole);
        for (number, (notes, expected)) in notes.iter().zip(&expected_notes).enumerate() {
            assert_eq!(notes, expected, "seed {seed}, frame {}", number + 1);
        }
        for (connection, expected) in connections.iter().zip(&expected) {
            assert_eq!(connection, expected, "seed {seed}");
        }
        assert_eq!(connections.len(), expected.len());
        let (counters, expected) = (trace.counters(), expected_trace.counters());
        assert_eq!(counters.times_backwards, expected.times_backwards, "seed {seed}");
    }
}

/// Blocks of segments, each shard after the other.
#[test]
fn shards_by_themselves_give_the_same_result() {
    for seed in 1..10 {
        let segments = Chance(seed).segments(3_000);
        let (_, expected, trace) = analysed(&segments, Options::default());
        let (mut router, mut merge) = (Router::default(), Merge::default());
        let mut shards: Vec<Shard> = (0..SHARDS).map(|_| Shard::new(&Options::default())).collect();
        let mut found = Vec::new();
        for (block, part) in segments.chunks(100).enumerate() {
            let mut events = Vec::new();
            for (index, shard) in shards.iter_mut().enumerate() {
                for (number, (time_ns, segment)) in part.iter().enumerate() {
                    let origin_ns = router.origin_ns(segments[0].0);
                    if Router::shard(segment) == index {
                        shard.segment(Arrival {
                            frame: (block * 100 + number) as u64 + 1,
                            time_ns: Router::time_ns(origin_ns, *time_ns),
                            origin_ns,
                            segment,
                            lookup: None,
                        });
                    }
                }
                let mut of_shard = Vec::new();
                shard.take_events(&mut of_shard);
                events.extend(of_shard.into_iter().map(|event| (event.order(), index, event)));
            }
            events.sort_by_key(|(order, _, _): &((u64, EventOrder), _, _)| *order);
            for (_, shard, event) in events {
                found.extend(merge.add(shard, event).map(|finished| finished.connection));
            }
        }
        let mut remaining = Remaining::new(&mut shards, &merge);
        while let Some(finished) = remaining.next(&mut shards, &mut merge) {
            found.push(finished.connection);
        }
        assert_eq!(found, expected);
        let counters: sockeye_trace::Counters = shards.iter().map(Shard::counters).sum();
        assert_eq!(
            (counters.segments, counters.connections),
            (3_000, trace.counters().connections)
        );
    }
}

fn flood(trace: &mut Trace, count: u32, answers: u32) -> u64 {
    let mut finished = 0;
    let mut frame = 0;
    for number in 0..count {
        let mut syn = Chance(u64::from(number) + 1).segment();
        syn.source = std::net::Ipv4Addr::from(0x0a00_0000 + number).into();
        (syn.source_port, syn.destination_port) = (1_024, 80);
        syn.destination = [192, 0, 2, 1].into();
        (syn.flags, syn.payload_len) = (TcpFlags::SYN, 0);
        let mut answer = syn;
        (answer.source, answer.destination) = (syn.destination, syn.source);
        (answer.source_port, answer.destination_port) = (80, 1_024);
        answer.flags = TcpFlags::SYN.or(TcpFlags::ACK);
        answer.acknowledgement = syn.sequence + 1;
        for segment in std::iter::once(syn).chain((0..answers).map(|_| answer)) {
            frame += 1;
            trace.segment(frame, 1_000_000_000 + frame * 1_000, &segment);
        }
        while trace.finished().is_some() {
            finished += 1;
        }
    }
    finished
}

#[test]
fn half_open_connections_take_little_memory() {
    let mut trace = Trace::new(Options::default());
    assert_eq!(flood(&mut trace, 40_000, 0), 0);
    let counters = trace.counters();
    let each = counters.memory_bytes / 40_000;
    // The capacity of vectors counts, which may be twice of what is used.
    assert!(each < 300, "{each}");
    assert_eq!(trace.finish().count(), 40_000);
}

#[test]
fn oldest_half_open_connections_are_concluded_early() {
    let mut trace = Trace::new(Options {
        half_open_max: 100 * SHARDS,
        ..Options::default()
    });
    let finished = flood(&mut trace, 5_000, 2);
    let counters = trace.counters();
    assert_eq!(
        (counters.connections, counters.connections_cut_short),
        (5_000, finished)
    );
    assert!((3_400..3_700).contains(&finished), "{finished}");
    let rest: Vec<u32> = trace
        .finish()
        .map(|finished| finished.connection.number)
        .collect();
    assert!(rest.is_sorted() && rest.len() as u64 + finished == 5_000);
    assert!(rest[0] > 2_000, "{}", rest[0]);
}
