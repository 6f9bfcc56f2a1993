//! The outcome of a test.

use super::error::Error;
use super::message::{Direction, Parameters, Processor, Results};
use sockeye_load::Transport;
use sockeye_measure::{DeviceWork, Sender, Work};
use std::net::SocketAddr;
use std::time::SystemTime;

/// The properties of a test that are known before data flows.
#[derive(Debug)]
pub struct Setup {
    /// Parameters of the test.
    pub parameters: Parameters,
    /// Whether this end is the client.
    pub is_client: bool,
    /// The server as it was typed, and its port; empty at the server.
    pub host: (String, u16),
    /// Local and peer address of the control connection.
    pub control: (SocketAddr, SocketAddr),
    /// Identifier of the test: 36 letters and digits.
    pub cookie: String,
    /// When the test began.
    pub began: SystemTime,
    /// Largest segment of the control connection, in bytes; `None` at the server.
    pub mss: Option<u32>,
    /// Send and receive buffer of the first stream when it was created, in bytes.
    pub buffers: (u64, u64),
}

/// The outcome of a test, complete or not.
#[derive(Debug)]
pub struct Outcome {
    /// What was known before data flowed.
    pub setup: Setup,
    /// Intervals in order.
    pub intervals: Vec<Interval>,
    /// Streams in the order of their creation.
    pub streams: Vec<StreamOutcome>,
    /// Length after the omitted time, in seconds.
    pub seconds: f64,
    /// Processor time of this end.
    pub processor: Processor,
    /// Processor time of the other end; `None` if it did not report it.
    pub peer_processor: Option<Processor>,
    /// Congestion control of this end; `None` for UDP.
    pub congestion: Option<String>,
    /// Congestion control of the other end; `None` if it did not report it.
    pub peer_congestion: Option<String>,
    /// Whether the other end counts its retransmits.
    pub peer_has_retransmits: bool,
    /// Activity of this host meanwhile; `None` at the server.
    pub host_work: Option<(Work, Vec<DeviceWork>)>,
    /// Why the test ended early; `None` if it did not.
    pub error: Option<Error>,
}

impl Outcome {
    /// Adds the results of the other end.
    pub(crate) fn add_peer_results(&mut self, theirs: &Results) {
        self.peer_processor = Some(theirs.processor);
        self.peer_congestion.clone_from(&theirs.congestion);
        self.peer_has_retransmits = theirs.has_retransmits == 1;
        for stream in &mut self.streams {
            let Some(json) = theirs.streams.iter().find(|json| json.id == stream.id) else {
                continue;
            };
            stream.peer = Some(PeerCount {
                bytes: json.bytes,
                retransmits: u64::try_from(json.retransmits).ok(),
                jitter_us: json.jitter_s * 1e6,
                missing: json
                    .errors
                    .saturating_sub(json.omitted_errors)
                    .max(0)
                    .unsigned_abs(),
                packets: json.packets.saturating_sub(json.omitted_packets),
                seconds: json.seconds.filter(|&seconds| seconds > 0.0),
            });
        }
    }

    /// Returns for each direction whether this end sends, the client's sending direction first.
    #[must_use]
    pub fn directions(&self) -> Vec<bool> {
        match (self.setup.parameters.direction, self.setup.is_client) {
            (Direction::ToServer, is_client) => vec![is_client],
            (Direction::ToClient, is_client) => vec![!is_client],
            (Direction::Both, is_client) => vec![is_client, !is_client],
        }
    }

    /// Returns the streams of one direction.
    pub fn streams_of(&self, sends: bool) -> impl Iterator<Item = &StreamOutcome> {
        self.streams.iter().filter(move |stream| stream.sends == sends)
    }

    /// Returns the bytes that the sender sent; `None` if it did not report them.
    #[must_use]
    pub fn sent(&self, sends: bool) -> Option<u64> {
        total_if_known(self.streams_of(sends).map(StreamOutcome::sent))
    }

    /// Returns the bytes that the receiver got; `None` if it did not report them.
    #[must_use]
    pub fn received(&self, sends: bool) -> Option<u64> {
        total_if_known(self.streams_of(sends).map(StreamOutcome::received))
    }

    /// Returns the sender's time in seconds.
    #[must_use]
    pub fn sent_seconds(&self, sends: bool) -> f64 {
        self.seconds_at(sends, sends)
    }

    /// Returns the receiver's time in seconds.
    #[must_use]
    pub fn received_seconds(&self, sends: bool) -> f64 {
        self.seconds_at(!sends, sends)
    }

    fn seconds_at(&self, is_here: bool, sends: bool) -> f64 {
        let theirs = self
            .streams_of(sends)
            .next()
            .and_then(|stream| stream.peer?.seconds);
        match theirs {
            Some(seconds) if !is_here => seconds,
            _ => self.seconds,
        }
    }

    /// Returns whether retransmits of this direction are known.
    #[must_use]
    pub fn has_retransmits(&self, sends: bool) -> bool {
        self.setup.parameters.protocol == Transport::Tcp && (sends || self.peer_has_retransmits)
    }
}

/// The outcome of one stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOutcome {
    /// Identifier of the stream at both ends.
    pub id: u64,
    /// Number of its descriptor.
    pub socket: i32,
    /// Local address.
    pub local: SocketAddr,
    /// Peer address.
    pub remote: SocketAddr,
    /// Whether this end sends.
    pub sends: bool,
    /// Bytes sent or received.
    pub bytes: u64,
    /// UDP: datagrams sent, or highest number received.
    pub packets: u64,
    /// UDP, received: missing datagrams.
    pub missing: u64,
    /// UDP, received: datagrams out of order.
    pub out_of_order: u64,
    /// UDP, received: variation of the transit time.
    pub jitter_us: f64,
    /// TCP, sent: retransmitted segments.
    pub retransmits: Option<u64>,
    /// TCP, sent: largest sampled congestion window, in bytes.
    pub cwnd_max: u64,
    /// TCP, sent: largest sampled window of the other end, in bytes.
    pub window_max: u64,
    /// TCP, sent: shortest sampled round trip.
    pub rtt_min_us: u64,
    /// TCP, sent: longest sampled round trip.
    pub rtt_max_us: u64,
    /// TCP, sent: mean of the sampled round trips.
    pub rtt_mean_us: u64,
    /// TCP, sent: summary of the samples of its socket.
    pub sender: Option<Sender>,
    /// Share of time that its thread was on a processor, in thousandths.
    pub busy_permille: u64,
    /// Results of the other end; `None` if it did not report them.
    pub peer: Option<PeerCount>,
}

impl StreamOutcome {
    /// Returns the bytes that the sender sent.
    #[must_use]
    pub fn sent(&self) -> Option<u64> {
        self.value(self.sends, self.bytes, |peer| peer.bytes)
    }

    /// Returns the bytes that the receiver got.
    #[must_use]
    pub fn received(&self) -> Option<u64> {
        self.value(!self.sends, self.bytes, |peer| peer.bytes)
    }

    /// Returns the retransmitted segments.
    #[must_use]
    pub fn retransmits(&self) -> Option<u64> {
        self.value(self.sends, self.retransmits, |peer| peer.retransmits)?
    }

    /// UDP: returns the datagrams that the sender sent.
    #[must_use]
    pub fn packets_sent(&self) -> Option<u64> {
        self.value(self.sends, self.packets, |peer| peer.packets)
    }

    /// UDP: returns the highest number that the receiver got.
    #[must_use]
    pub fn packets_received(&self) -> Option<u64> {
        self.value(!self.sends, self.packets, |peer| peer.packets)
    }

    /// UDP: returns the missing datagrams.
    #[must_use]
    pub fn missing(&self) -> Option<u64> {
        self.value(!self.sends, self.missing, |peer| peer.missing)
    }

    /// UDP: returns the variation of the transit time, in microseconds.
    #[must_use]
    pub fn jitter_us(&self) -> Option<f64> {
        self.value(!self.sends, self.jitter_us, |peer| peer.jitter_us)
    }

    /// Returns the value of this end if it `is_here`, else that of the other end.
    fn value<T>(&self, is_here: bool, own: T, of_peer: impl FnOnce(PeerCount) -> T) -> Option<T> {
        if is_here {
            Some(own)
        } else {
            self.peer.map(of_peer)
        }
    }
}

/// Results of the other end for a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeerCount {
    /// Bytes sent or received.
    pub bytes: u64,
    /// TCP, sent: retransmitted segments.
    pub retransmits: Option<u64>,
    /// UDP, received: variation of the transit time.
    pub jitter_us: f64,
    /// UDP, received: missing datagrams.
    pub missing: u64,
    /// UDP: datagrams sent, or highest number received.
    pub packets: u64,
    /// Length of the test at the other end.
    pub seconds: Option<f64>,
}

/// The bytes of an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Start since the end of the omitted time, or since the start of the test in an omitted interval.
    pub start_s: f64,
    /// Length of the interval.
    pub seconds: f64,
    /// Whether it is part of the omitted time.
    pub is_omitted: bool,
    /// Streams in the order of their creation.
    pub streams: Vec<StreamInterval>,
}

impl Interval {
    /// Returns the bytes of one direction.
    #[must_use]
    pub fn bytes(&self, sends: bool) -> u64 {
        let streams = self.streams.iter().filter(|stream| stream.sends == sends);
        total(streams.map(|stream| stream.bytes))
    }
}

/// Returns the sum of counts, at most `u64::MAX`: the other end chooses some of them.
pub(crate) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Returns the sum of counts; `None` if one is unknown.
pub(crate) fn total_if_known(mut counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    counts.try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)))
}

/// The counters of one stream in an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamInterval {
    /// Number of its descriptor.
    pub socket: i32,
    /// Whether this end sends.
    pub sends: bool,
    /// Bytes sent or received.
    pub bytes: u64,
    /// UDP: datagrams sent, or increase of the highest number received; `None` for TCP.
    pub packets: Option<u64>,
    /// UDP, received: missing datagrams; negative if late ones arrived.
    pub missing: i64,
    /// UDP, received: variation of the transit time at the end of the interval.
    pub jitter_us: f64,
    /// TCP, sent: sample of the socket.
    pub tcp: Option<TcpSample>,
}

/// A sample of `tcp_info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSample {
    /// Segments retransmitted in this interval.
    pub retransmits: u64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Window of the other end.
    pub window_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt_us: u32,
    /// Variation of the round-trip time.
    pub rtt_var_us: u32,
    /// Largest packet of the path, in bytes.
    pub path_mtu: u32,
}
