//! Segments made by hand, in a line each.
use sockeye_trace::{Connection, Finished, Flag, Options, SegmentNotes, Trace};
use sockeye_wire::packet::{Segment, TcpFlags, TcpOptions, Timestamps};

/// The two ends.
pub(crate) const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
pub(crate) const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 443);

/// A segment from one end to the other, which more is said of.
#[derive(Clone, Copy)]
pub(crate) struct Hand {
    pub(crate) time_us: u64,
    pub(crate) segment: Segment,
}

pub(crate) fn from_client(time_us: u64, sequence: u32, acknowledgement: u32, len: u32) -> Hand {
    segment(time_us, CLIENT, SERVER, sequence, acknowledgement, len)
}

pub(crate) fn from_server(time_us: u64, sequence: u32, acknowledgement: u32, len: u32) -> Hand {
    segment(time_us, SERVER, CLIENT, sequence, acknowledgement, len)
}

fn segment(
    time_us: u64,
    from: ([u8; 4], u16),
    to: ([u8; 4], u16),
    sequence: u32,
    ack: u32,
    len: u32,
) -> Hand {
    let segment = Segment {
        source: from.0.into(),
        source_port: from.1,
        destination: to.0.into(),
        destination_port: to.1,
        sequence,
        acknowledgement: ack,
        flags: TcpFlags::ACK,
        window: 9_000,
        payload_len: len,
        options: TcpOptions::default(),
        ip_id: None,
        ttl: 64,
        ecn: 0,
        bad_checksum: None,
        tunnels: 0,
        is_tls_handshake: false,
    };
    Hand { time_us, segment }
}

impl Hand {
    pub(crate) fn flags(mut self, flags: TcpFlags) -> Self {
        self.segment.flags = flags;
        self
    }

    pub(crate) fn window(mut self, window: u16) -> Self {
        self.segment.window = window;
        self
    }

    pub(crate) fn id(mut self, id: u16) -> Self {
        self.segment.ip_id = Some(id);
        self
    }

    pub(crate) fn clock(mut self, value: u32, echo: u32) -> Self {
        self.segment.options.timestamps = Some(Timestamps { value, echo });
        self
    }

    pub(crate) fn sack(mut self, blocks: &[(u32, u32)]) -> Self {
        for (start, end) in blocks {
            self.segment.options.sack.push(*start, *end);
        }
        self
    }

    pub(crate) fn scale(mut self, shift: u8) -> Self {
        self.segment.options.window_scale = Some(shift);
        self
    }

    pub(crate) fn mss(mut self, mss: u16) -> Self {
        self.segment.options.mss = Some(mss);
        self
    }
}

/// SYN, SYN and ACK, ACK, a round trip of 10 ms; sequence numbers go on with 1,001 and 5,001.
pub(crate) fn handshake() -> Vec<Hand> {
    vec![
        from_client(0, 1_000, 0, 0)
            .flags(TcpFlags::SYN)
            .scale(0)
            .mss(1_000),
        from_server(10_000, 5_000, 1_001, 0)
            .flags(TcpFlags::SYN.or(TcpFlags::ACK))
            .scale(0)
            .mss(1_000),
        from_client(10_010, 1_001, 5_001, 0),
    ]
}

/// Returns the notes for each segment, and the connections.
pub(crate) fn analysed(segments: &[Hand]) -> (Vec<SegmentNotes>, Vec<Connection>) {
    let mut trace = Trace::new(Options::default());
    let mut notes = Vec::new();
    let mut finished: Vec<Finished> = Vec::new();
    for (number, hand) in segments.iter().enumerate() {
        notes.push(trace.segment(number as u64 + 1, hand.time_us * 1_000, &hand.segment));
        finished.extend(std::iter::from_fn(|| trace.finished()));
    }
    finished.extend(trace.finish());
    (
        notes,
        finished.into_iter().map(|finished| finished.connection).collect(),
    )
}

/// Of these segments, the last has exactly these flags.
#[track_caller]
pub(crate) fn check(segments: &[Hand], flags: &[Flag]) -> SegmentNotes {
    let (notes, connections) = analysed(segments);
    for connection in &connections {
        for side in [&connection.forward, &connection.backward] {
            let total = side.shares.total();
            assert!(
                total == 0 || total == connection.end_ns - connection.begin_ns,
                "shares add up: {side:?}"
            );
        }
    }
    let last = *notes.last().expect("a segment");
    let found: Vec<Flag> = last.flags.iter().collect();
    assert_eq!(found, flags);
    last
}
