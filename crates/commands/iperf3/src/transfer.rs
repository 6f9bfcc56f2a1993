//! Conversion between iperf3's parameters and outcome and those of `bench stream`.

use super::message::{Direction, Parameters, Processor};
use super::outcome::{Interval as Piece, Outcome, StreamOutcome, total};
use sockeye_load::Transport;
use sockeye_load::stream::{self, Plan, Until};
use sockeye_measure::{Datagrams, End, Interval, Partial, Sender, Side, StreamTransfer, Transfer, Work};

impl Parameters {
    /// Returns the parameters for a plan, as far as iperf3 supports it. Times are rounded up to whole seconds.
    #[must_use]
    pub fn from_plan(plan: &Plan) -> Self {
        let whole = |span: std::time::Duration| span.as_secs() + u64::from(span.subsec_nanos() > 0);
        Self {
            protocol: plan.transport,
            direction: match plan.direction {
                stream::Direction::Send => Direction::ToServer,
                stream::Direction::Receive => Direction::ToClient,
                stream::Direction::Both => Direction::Both,
            },
            time_s: match plan.until {
                Until::Time(time) => whole(time).max(1),
                Until::Bytes(_) => 0,
            },
            bytes: match plan.until {
                Until::Time(_) => 0,
                Until::Bytes(bytes) => bytes,
            },
            omit_s: whole(plan.omit),
            streams: u32::from(plan.streams),
            length: plan.length.unwrap_or(0) as u64,
            window: plan.window.unwrap_or(0) as u64,
            congestion: plan.congestion.clone(),
            bits_per_s: plan.rate.unwrap_or(0).saturating_mul(8),
            server_processor: plan.their_processor.map(|processor| processor as u64),
            wide_counters: plan.transport == Transport::Udp,
            ..Self::default()
        }
    }
}

impl Outcome {
    /// Returns the outcome as a transfer of `bench stream`.
    #[must_use]
    pub fn transfer(&self) -> Transfer {
        let mut intervals = Vec::new();
        for piece in self.intervals.iter().filter(|piece| !piece.is_omitted) {
            let directions = self.directions();
            intervals.extend(directions.into_iter().map(|sends| interval(piece, sends)));
        }
        Transfer {
            local: Some(super::socket::canonical(self.setup.control.0)),
            peer: Some(super::socket::canonical(self.setup.control.1)),
            streams: self
                .streams
                .iter()
                .enumerate()
                .map(|(number, stream)| self.stream_transfer(number, stream))
                .collect(),
            intervals,
            ours: self.ours(),
            theirs: self.theirs(),
            partial: self.error.as_ref().map(|error| Partial {
                code: error.code(),
                text: error.to_string(),
            }),
        }
    }

    fn stream_transfer(&self, number: usize, stream: &StreamOutcome) -> StreamTransfer {
        let sends = stream.sends;
        let side = |bytes: Option<u64>, seconds: f64| {
            bytes.map(|bytes| Side {
                bytes: Some(bytes),
                elapsed_us: Some(micros(seconds)),
                ..Side::default()
            })
        };
        let is_udp = self.setup.parameters.protocol == Transport::Udp;
        StreamTransfer {
            number: u16::try_from(number).unwrap_or(u16::MAX),
            is_sent: sends,
            local: Some(stream.local),
            peer: Some(stream.remote),
            sent: side(stream.sent(), self.sent_seconds(sends)),
            received: side(stream.received(), self.received_seconds(sends)),
            sender: (!is_udp).then(|| sender(stream)).flatten(),
            datagrams: is_udp.then(|| Datagrams {
                sent: stream.packets_sent(),
                received: stream
                    .packets_received()
                    .zip(stream.missing())
                    .map(|(highest, missing)| highest.saturating_sub(missing)),
                lost: stream.missing(),
                reordered: (!sends).then_some(stream.out_of_order),
                jitter_us: stream.jitter_us().map(|us| us.round() as u64),
                refused_locally: None,
            }),
        }
    }

    fn ours(&self) -> End {
        let (around, devices) = self.host_work.clone().unwrap_or_default();
        let used = work(self.processor, self.span_s(), self.moved());
        let busiest = self.streams.iter().map(|stream| stream.busy_permille).max();
        End {
            work: Work {
                cpu_user_us: used.cpu_user_us,
                cpu_system_us: used.cpu_system_us,
                wall_us: used.wall_us,
                bytes: used.bytes,
                busiest_thread_permille: busiest.filter(|&busiest| busiest > 0),
                ..around
            },
            devices,
            congestion: self.congestion.clone(),
            program: Some(concat!("sockeye ", env!("CARGO_PKG_VERSION")).to_owned()),
        }
    }

    fn theirs(&self) -> Option<End> {
        Some(End {
            work: work(self.peer_processor?, self.span_s(), self.moved()),
            congestion: self.peer_congestion.clone(),
            program: Some("iperf3".to_owned()),
            ..End::default()
        })
    }

    /// Returns the time over which processor time was measured, including the omitted time.
    fn span_s(&self) -> f64 {
        self.seconds + self.setup.parameters.omit_s as f64
    }

    /// Returns the bytes of all intervals.
    pub(super) fn moved(&self) -> u64 {
        let pieces = self.intervals.iter().flat_map(|piece| &piece.streams);
        total(pieces.map(|stream| stream.bytes))
    }
}

fn work(processor: Processor, span_s: f64, bytes: u64) -> Work {
    let used = |percent: f64| micros(span_s * percent / 100.0);
    Work {
        cpu_user_us: Some(used(processor.user)),
        cpu_system_us: Some(used(processor.system)),
        wall_us: Some(micros(span_s)),
        bytes: Some(bytes),
        ..Work::default()
    }
}

/// Returns what is known of the sender: the other end reports only its retransmits.
fn sender(stream: &StreamOutcome) -> Option<Sender> {
    stream.sender.or(Some(Sender {
        retransmitted_segs: Some(stream.retransmits()?),
        ..Sender::default()
    }))
}

fn interval(piece: &Piece, sends: bool) -> Interval {
    let streams = || piece.streams.iter().filter(|stream| stream.sends == sends);
    let samples: Vec<_> = streams().filter_map(|stream| stream.tcp).collect();
    let rtts = samples.iter().map(|tcp| u64::from(tcp.rtt_us)).sum::<u64>();
    let missing = streams().fold(0, |sum: i64, stream| sum.saturating_add(stream.missing));
    let is_udp = streams().any(|stream| stream.packets.is_some());
    Interval {
        from_us: micros(piece.start_s),
        until_us: micros(piece.start_s + piece.seconds),
        is_sent: sends,
        bytes: piece.bytes(sends),
        retransmitted_segs: (!samples.is_empty()).then(|| total(samples.iter().map(|tcp| tcp.retransmits))),
        rtt_us: rtts.checked_div(samples.len() as u64),
        cwnd_bytes: (!samples.is_empty()).then(|| total(samples.iter().map(|tcp| tcp.cwnd_bytes))),
        lost_datagrams: (is_udp && !sends).then(|| missing.max(0).unsigned_abs()),
    }
}

fn micros(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e6).round() as u64
}
