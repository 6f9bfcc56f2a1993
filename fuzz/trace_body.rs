//! Body of the fuzz target `segments`, and of the test that replays its corpus: segments in an order that bytes choose.

use sockeye_trace::{Connection, Counters, Finished, Flag, Keep, Options, Pairing, SegmentNotes, Trace};
use sockeye_wire::packet::{SackBlocks, Segment, TcpFlags, TcpOptions, Timestamps};

/// The first two bytes are limits; each eight bytes after them are a segment.
pub(crate) fn segments(bytes: &[u8]) {
    let Some(([kept, at_once], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let options = Options {
        series: [Keep::None, Keep::All, Keep::Numbers(vec![0, 2])][usize::from(kept % 3)].clone(),
        series_points_max: usize::from(kept / 3) * 4,
        connections_max: 1 + usize::from(at_once % 8),
        closed_max: usize::from(at_once / 8 % 4),
        events_max: usize::from(at_once / 32),
        unacked_max: [0, 5, 500_000][usize::from(kept % 3)],
        ..Options::default()
    };
    let mut ends = Ends::default();
    let segments: Vec<_> = rest.as_chunks().0.iter().map(|word| ends.next(word)).collect();

    let analysis = analyse(&options, &segments);
    assert!(analysis == analyse(&options, &segments), "the same twice");
    let (notes, finished, counters) = &analysis;
    check(&options, notes, finished, counters);

    // Two captures of the same segments, each incomplete.
    let mut pairing = Pairing::new();
    for (number, (time_ns, segment)) in (1..).zip(&segments) {
        if number % 5 != 0 {
            pairing.first(number, *time_ns, segment);
        }
    }
    let mut second = 0;
    for (number, (time_ns, segment)) in (1..).zip(&segments) {
        if number % 7 != 0 {
            second += 1;
            pairing.second(number, time_ns.wrapping_add(5), segment);
        }
    }
    for direction in pairing.finish().directions {
        let frames = second.max(segments.len() as u64);
        // A frame may carry several segments, each of a byte at least.
        let bytes: u64 = segments
            .iter()
            .map(|(_, segment)| u64::from(segment.payload_len))
            .sum();
        let most = frames.saturating_add(bytes);
        assert!(direction.both <= second && direction.lost <= most && direction.unseen <= most);
        assert!(
            direction.delay.min_ns <= direction.delay.p50_ns
                && direction.delay.p50_ns <= direction.delay.max_ns
        );
    }
}

/// Notes, finished connections and counters of these segments.
type Analysis = (Vec<SegmentNotes>, Vec<Finished>, Counters);

fn analyse(options: &Options, segments: &[(u64, Segment)]) -> Analysis {
    let mut trace = Trace::new(options.clone());
    let (mut notes, mut finished) = (Vec::new(), Vec::new());
    for (frame, (time_ns, segment)) in (1..).zip(segments) {
        notes.push(trace.segment(frame, *time_ns, segment));
        while let Some(over) = trace.finished() {
            finished.push(over);
        }
        let bytes = trace.counters().memory_bytes;
        let max = 64 * 1024 + options.connections_max as u64 * 256 * 1024;
        assert!(
            bytes < max,
            "{bytes} bytes for {} connections",
            options.connections_max
        );
    }
    let counters = trace.counters();
    finished.extend(trace.finish());
    (notes, finished, counters)
}

fn check(options: &Options, notes: &[SegmentNotes], finished: &[Finished], counters: &Counters) {
    assert_eq!(counters.segments, notes.len() as u64);
    assert_eq!(counters.connections, finished.len() as u64);
    let mut numbers: Vec<u32> = finished.iter().map(|over| over.connection.number).collect();
    numbers.sort_unstable();
    assert!(
        numbers.iter().zip(0..).all(|(number, nth)| *number == nth),
        "each once"
    );
    let mut packets = 0;
    for Finished { connection, series } in finished {
        packets += connection.forward.packets + connection.backward.packets;
        check_connection(options, connection);
        let of_it = || notes.iter().filter(|notes| notes.connection == connection.number);
        for (at, flag) in Flag::ALL.into_iter().enumerate() {
            let counted = connection.forward.flags[at] + connection.backward.flags[at];
            assert_eq!(
                counted,
                of_it().filter(|notes| notes.flags.has(flag)).count() as u64,
                "{flag:?}"
            );
        }
        let is_kept = match &options.series {
            Keep::None => false,
            Keep::All => true,
            Keep::Numbers(numbers) => numbers.contains(&connection.number),
        };
        // Without enough memory, the smallest connections lose their points.
        let is_forgotten = is_kept && series.is_none() && counters.series_forgotten > 0;
        assert!(series.is_some() == is_kept || is_forgotten);
    }
    assert_eq!(packets, counters.segments);
}

fn check_connection(options: &Options, connection: &Connection) {
    let Connection { begin_ns, end_ns, .. } = *connection;
    assert!(begin_ns <= end_ns);
    // Connections with points have more events.
    assert!(connection.events.len() <= options.events_max.max(options.series_events_max));
    for side in [&connection.forward, &connection.backward] {
        let total: u128 = side.shares.0.iter().map(|part| u128::from(*part)).sum();
        assert!(
            total == 0 || total == u128::from(end_ns - begin_ns),
            "{side:?} of {begin_ns} to {end_ns}"
        );
        assert!(
            side.bytes <= side.bytes_sent && u128::from(side.busy_ns) <= total,
            "{side:?}"
        );
        let rtt = side.rtt;
        let times = [rtt.min_ns, rtt.p50_ns, rtt.p90_ns, rtt.p99_ns, rtt.max_ns];
        assert!(times.is_sorted(), "{rtt:?}");
        let judgements = side.judgements;
        assert!(judgements.lost_before <= judgements.lost, "{judgements:?}");
        assert!(
            judgements.duplicated_by_capture + judgements.duplicated_by_network
                <= side.packets + connection.forward.packets + connection.backward.packets,
            "{judgements:?}"
        );
        assert_eq!(side.verdict.limit.is_some(), total > 0, "{side:?}");
        assert!(side.verdict.queue_segs.is_none_or(|(least, most)| least <= most));
    }
}

/// The next sequence numbers of both ends of each connection.
#[derive(Default)]
struct Ends {
    time_ns: u64,
    next: [[u32; 2]; 8],
    clock: u32,
}

impl Ends {
    /// Builds a segment of: connection and end, flags, position and length, acknowledgement, window, time, options, oddities.
    fn next(&mut self, word: &[u8; 8]) -> (u64, Segment) {
        let [who, flags, place, acked, window, time, options, odd] = *word;
        let connection = usize::from(who & 7);
        let end = usize::from(who >> 3 & 1);
        let step_ns: u64 = STEPS_NS[usize::from(time % 8)] * u64::from(time / 8 + 1);
        self.time_ns = match time {
            255 => 0,
            254 => u64::MAX - 1_000,
            _ if odd & 128 != 0 => self.time_ns.saturating_sub(step_ns),
            _ => self.time_ns.saturating_add(step_ns),
        };
        let len = LENGTHS[usize::from(place % 8)];
        let near = |number: u32, how: u8| match how {
            0..8 => number,
            8..16 => number.wrapping_sub(LENGTHS[usize::from(how % 8)]),
            16..24 => number.wrapping_add(LENGTHS[usize::from(how % 8)]),
            24 => 0,
            25 => u32::MAX,
            26 => number ^ 1 << 31,
            27 => number.wrapping_sub(1),
            28 => number.wrapping_add(1),
            _ => number.wrapping_mul(0x9E37_79B9),
        };
        let own = self.next[connection][end];
        let other = self.next[connection][1 - end];
        let sequence = near(own, place / 8);
        let acknowledgement = near(other, acked / 8);
        let flags = match flags {
            0..200 => TcpFlags(0x10 | u16::from(flags & 8)),
            200..215 => TcpFlags::SYN,
            215..225 => TcpFlags::SYN.or(TcpFlags::ACK),
            225..240 => TcpFlags::FIN.or(TcpFlags::ACK),
            _ => TcpFlags(u16::from(flags) << 4 | u16::from(acked)),
        };
        let mark = u32::from(flags.has(TcpFlags::SYN.or(TcpFlags::FIN)));
        if place / 8 < 8 || odd & 64 != 0 {
            self.next[connection][end] = sequence.wrapping_add(len).wrapping_add(mark);
        }
        self.clock = self.clock.wrapping_add(u32::from(odd & 3));
        let mut sack = SackBlocks::default();
        for nth in 0..u32::from(options & 7) {
            let begin = acknowledgement.wrapping_add(
                nth.wrapping_mul(LENGTHS[usize::from(odd % 8)])
                    .wrapping_mul(2)
                    .wrapping_add(1_000),
            );
            sack.push(begin, begin.wrapping_add(u32::from(odd) * 100));
        }
        let ips = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let ports = [4_000 + (connection as u16), 80];
        let segment = Segment {
            source: ips[end].into(),
            source_port: ports[end],
            destination: ips[1 - end].into(),
            destination_port: ports[1 - end],
            sequence,
            acknowledgement,
            flags,
            window: [0, 1, 500, u16::MAX][usize::from(window % 4)].min(u16::from(window) << 8 | 0xff),
            payload_len: len,
            options: TcpOptions {
                mss: (options & 8 != 0).then_some(u16::from(odd) * 6),
                window_scale: (options & 16 != 0).then_some(odd % 16),
                sack_permitted: options & 32 != 0,
                timestamps: (options & 64 != 0).then_some(Timestamps {
                    value: self.clock,
                    echo: self.clock.wrapping_sub(u32::from(odd >> 2 & 7)),
                }),
                is_cut: options & 128 != 0,
                sack,
            },
            ip_id: (odd & 32 != 0).then_some(u16::from(window)),
            ttl: 64,
            ecn: odd & 3,
            bad_checksum: None,
            tunnels: 0,
            is_tls_handshake: false,
        };
        (self.time_ns, segment)
    }
}

const LENGTHS: [u32; 8] = [0, 0, 1, 100, 1_448, 1_448, 65_000, 2_000_000_000];
const STEPS_NS: [u64; 8] = [
    0,
    1,
    1_000,
    100_000,
    3_000_000,
    50_000_000,
    2_000_000_000,
    150_000_000_000,
];
