//! What came of a test.

use super::message::{Processor, Results, Wishes};
use super::trouble::Trouble;
use super::{Protocol, Toward};
use sockeye_measure::{DeviceWork, Sender, Work};
use std::net::SocketAddr;
use std::time::SystemTime;

/// A test, to its end or as far as it got.
#[derive(Debug)]
pub struct Outcome {
    /// What was asked for.
    pub wishes: Wishes,
    /// Whether we were the client.
    pub is_client: bool,
    /// The server as it was named, and its port.
    pub host: (String, u16),
    /// Our address of the control connection, and theirs.
    pub control: (SocketAddr, SocketAddr),
    /// By which connections knew each other.
    pub cookie: String,
    /// When it began.
    pub began: SystemTime,
    /// The largest segment of the control connection.
    pub mss: Option<u32>,
    /// Send and receive buffer of the first stream when it was made.
    pub buffers: (u64, u64),
    /// In order.
    pub intervals: Vec<Interval>,
    /// In the order in which they were made.
    pub streams: Vec<StreamOutcome>,
    /// How long it took, after what is omitted.
    pub seconds: f64,
    /// Processor time of this end.
    pub processor: Processor,
    /// Of the other end, if it got to say so.
    pub peer_processor: Option<Processor>,
    /// Congestion control of this end's streams.
    pub congestion: Option<String>,
    /// And of the other end's.
    pub peer_congestion: Option<String>,
    /// Whether the other end counts the retransmissions of what it sends.
    pub peer_tells_retransmits: bool,
    /// What this host did meanwhile, of a client.
    pub surroundings: Option<(Work, Vec<DeviceWork>)>,
    /// Why it did not get to its end.
    pub trouble: Option<Trouble>,
}

impl Outcome {
    /// What the other end counted, put to the streams.
    pub(crate) fn take(&mut self, theirs: &Results) {
        self.peer_processor = Some(theirs.processor);
        self.peer_congestion.clone_from(&theirs.congestion);
        self.peer_tells_retransmits = theirs.tells_retransmits == 1;
        for stream in &mut self.streams {
            let Some(said) = theirs.streams.iter().find(|said| said.id == stream.id) else {
                continue;
            };
            stream.peer = Some(PeerCount {
                bytes: said.bytes,
                retransmits: u64::try_from(said.retransmits).ok(),
                jitter_us: said.jitter_s * 1e6,
                missing: (said.errors - said.omitted_errors).max(0).unsigned_abs(),
                packets: said.packets.saturating_sub(said.omitted_packets),
                seconds: said.seconds.filter(|&seconds| seconds > 0.0),
            });
        }
    }

    /// The directions there are, the client's sending first: whether this end sends in it.
    #[must_use]
    pub fn directions(&self) -> Vec<bool> {
        match (self.wishes.toward, self.is_client) {
            (Toward::Server, is_client) => vec![is_client],
            (Toward::Client, is_client) => vec![!is_client],
            (Toward::Both, is_client) => vec![is_client, !is_client],
        }
    }

    /// Streams of one direction.
    pub fn streams_of(&self, sends: bool) -> impl Iterator<Item = &StreamOutcome> {
        self.streams.iter().filter(move |stream| stream.sends == sends)
    }

    /// Bytes that the sender sent; None where it did not get to say so.
    #[must_use]
    pub fn sent(&self, sends: bool) -> Option<u64> {
        self.streams_of(sends).map(StreamOutcome::sent).sum()
    }

    /// Bytes that the receiver got; None where it did not get to say so.
    #[must_use]
    pub fn received(&self, sends: bool) -> Option<u64> {
        self.streams_of(sends).map(StreamOutcome::received).sum()
    }

    /// How long the sender sent.
    #[must_use]
    pub fn sent_seconds(&self, sends: bool) -> f64 {
        self.seconds_at(sends, sends)
    }

    /// How long the receiver received.
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

    /// Whether it is known how often was retransmitted in this direction.
    #[must_use]
    pub fn tells_retransmits(&self, sends: bool) -> bool {
        self.wishes.protocol == Protocol::Tcp && (sends || self.peer_tells_retransmits)
    }
}

/// One stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOutcome {
    /// By which both ends know it.
    pub id: u64,
    /// The number of its descriptor.
    pub socket: i32,
    /// Our address.
    pub local: SocketAddr,
    /// Theirs.
    pub remote: SocketAddr,
    /// Whether this end sends.
    pub sends: bool,
    /// Sent, or received.
    pub bytes: u64,
    /// UDP: datagrams sent, or the highest number that came.
    pub packets: u64,
    /// UDP, received: those that did not come.
    pub missing: u64,
    /// UDP, received: those that came too late.
    pub out_of_order: u64,
    /// UDP, received: how much the way's length varies.
    pub jitter_us: f64,
    /// TCP, sent: segments that were sent again.
    pub retransmits: Option<u64>,
    /// TCP, sent: the largest congestion window of any sample, in bytes.
    pub cwnd_max: u64,
    /// TCP, sent: the other end's largest window.
    pub window_max: u64,
    /// TCP, sent: round trips of the samples.
    pub rtt_min_us: u64,
    /// The longest.
    pub rtt_max_us: u64,
    /// The mean.
    pub rtt_mean_us: u64,
    /// TCP, sent: what its socket told from beginning to end.
    pub seen: Option<Sender>,
    /// How much of its time its thread was on a processor, in thousandths.
    pub busy_permille: u64,
    /// What the other end counted.
    pub peer: Option<PeerCount>,
}

impl StreamOutcome {
    /// Bytes that the sender sent.
    #[must_use]
    pub fn sent(&self) -> Option<u64> {
        if self.sends {
            Some(self.bytes)
        } else {
            Some(self.peer?.bytes)
        }
    }

    /// Bytes that the receiver got.
    #[must_use]
    pub fn received(&self) -> Option<u64> {
        if self.sends {
            Some(self.peer?.bytes)
        } else {
            Some(self.bytes)
        }
    }

    /// Segments that were sent again.
    #[must_use]
    pub fn retransmits(&self) -> Option<u64> {
        if self.sends {
            self.retransmits
        } else {
            self.peer?.retransmits
        }
    }

    /// UDP: datagrams that the sender sent.
    #[must_use]
    pub fn packets_sent(&self) -> Option<u64> {
        if self.sends {
            Some(self.packets)
        } else {
            Some(self.peer?.packets)
        }
    }

    /// UDP: the highest number that the receiver got.
    #[must_use]
    pub fn packets_received(&self) -> Option<u64> {
        if self.sends {
            Some(self.peer?.packets)
        } else {
            Some(self.packets)
        }
    }

    /// UDP: datagrams that did not come.
    #[must_use]
    pub fn missing(&self) -> Option<u64> {
        if self.sends {
            Some(self.peer?.missing)
        } else {
            Some(self.missing)
        }
    }

    /// UDP: how much the way's length varied.
    #[must_use]
    pub fn jitter_us(&self) -> Option<f64> {
        if self.sends {
            Some(self.peer?.jitter_us)
        } else {
            Some(self.jitter_us)
        }
    }
}

/// What the other end counted of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeerCount {
    /// Sent, or received.
    pub bytes: u64,
    /// TCP, sent: segments that were sent again.
    pub retransmits: Option<u64>,
    /// UDP, received.
    pub jitter_us: f64,
    /// UDP, received.
    pub missing: u64,
    /// UDP: sent, or the highest number that came.
    pub packets: u64,
    /// How long it took there.
    pub seconds: Option<f64>,
}

/// What moved in a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Since what is omitted was over, or since the beginning if it is not.
    pub start_s: f64,
    /// How long it was.
    pub seconds: f64,
    /// Whether it does not count.
    pub is_omitted: bool,
    /// In the order in which they were made.
    pub streams: Vec<StreamInterval>,
}

impl Interval {
    /// Bytes of one direction.
    #[must_use]
    pub fn bytes(&self, sends: bool) -> u64 {
        let streams = self.streams.iter().filter(|stream| stream.sends == sends);
        streams.map(|stream| stream.bytes).sum()
    }
}

/// What moved on one stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamInterval {
    /// The number of its descriptor.
    pub socket: i32,
    /// Whether this end sends.
    pub sends: bool,
    /// Sent, or received.
    pub bytes: u64,
    /// UDP: datagrams sent, or by how many the numbers that came went on.
    pub packets: Option<u64>,
    /// UDP, received: those that did not come; below 0 where some came after all.
    pub missing: i64,
    /// UDP, received: at the end of the interval.
    pub jitter_us: f64,
    /// TCP, sent.
    pub tcp: Option<TcpSample>,
}

/// What a socket tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSample {
    /// Segments that were sent again, in this interval.
    pub retransmits: u64,
    /// The congestion window.
    pub cwnd_bytes: u64,
    /// The other end's window.
    pub window_bytes: u64,
    /// Smoothed.
    pub rtt_us: u32,
    /// Its variation.
    pub rtt_var_us: u32,
    /// The longest packet that gets through.
    pub path_mtu: u32,
}
