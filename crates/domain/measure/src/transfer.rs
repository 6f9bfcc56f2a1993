//! A transfer between two hosts, as seen by both ends.

use crate::Partial;
use std::net::SocketAddr;

/// Result of a transfer.
#[derive(Debug, Clone, Default)]
pub struct Transfer {
    /// Local address of the control connection
    pub local: Option<SocketAddr>,
    /// Remote address of the control connection
    pub peer: Option<SocketAddr>,
    /// Results per stream, sent ones first
    pub streams: Vec<StreamTransfer>,
    /// Results per interval, as seen by this end
    pub intervals: Vec<Interval>,
    /// Work of this end
    pub ours: End,
    /// Work of the other end, if reported
    pub theirs: Option<End>,
    /// Why the transfer ended early; `None` if it did not
    pub partial: Option<Partial>,
}

impl Transfer {
    /// Streams of one direction.
    pub fn streams(&self, is_sent: bool) -> impl Iterator<Item = &StreamTransfer> {
        self.streams
            .iter()
            .filter(move |stream| stream.is_sent == is_sent)
    }

    /// Bytes per second that arrived in this direction, summed over all streams.
    #[must_use]
    pub fn bytes_per_s(&self, is_sent: bool) -> Option<f64> {
        // The other end chooses some of these.
        let bytes = self
            .streams(is_sent)
            .filter_map(StreamTransfer::carried_bytes)
            .fold(0, u64::saturating_add);
        let longest = self
            .streams(is_sent)
            .filter_map(StreamTransfer::carried_us)
            .max()?;
        (longest > 0).then(|| bytes as f64 * 1e6 / longest as f64)
    }
}

/// Result of one stream in one direction.
#[derive(Debug, Clone, Default)]
pub struct StreamTransfer {
    /// Number of the stream
    pub number: u16,
    /// Whether this end is the sender
    pub is_sent: bool,
    /// Local address
    pub local: Option<SocketAddr>,
    /// Remote address
    pub peer: Option<SocketAddr>,
    /// The sender's view
    pub sent: Option<Side>,
    /// The receiver's view
    pub received: Option<Side>,
    /// State of the sender's TCP
    pub sender: Option<Sender>,
    /// Datagram counts of the receiver
    pub datagrams: Option<Datagrams>,
}

impl StreamTransfer {
    /// Bytes that arrived; if unknown, bytes that were sent.
    #[must_use]
    pub fn carried_bytes(&self) -> Option<u64> {
        self.received.as_ref().or(self.sent.as_ref())?.bytes
    }

    /// Duration in microseconds of [`carried_bytes`](Self::carried_bytes).
    #[must_use]
    pub fn carried_us(&self) -> Option<u64> {
        self.received.as_ref().or(self.sent.as_ref())?.elapsed_us
    }

    /// Bytes per second that arrived.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        let elapsed = self.carried_us().filter(|&us| us > 0)?;
        Some(self.carried_bytes()? as f64 * 1e6 / elapsed as f64)
    }
}

/// Results of one interval, summed over all streams of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Interval {
    /// Start, since the beginning
    pub from_us: u64,
    /// End, since the beginning
    pub until_us: u64,
    /// Whether it is about sent data
    pub is_sent: bool,
    /// Bytes sent or received
    pub bytes: u64,
    /// Retransmitted segments; only for sent TCP
    pub retransmitted_segs: Option<u64>,
    /// Mean round-trip time of the streams
    pub rtt_us: Option<u64>,
    /// Sum of the congestion windows
    pub cwnd_bytes: Option<u64>,
    /// Lost datagrams; only for received UDP
    pub lost_datagrams: Option<u64>,
}

/// Optional numbers with names for the control protocol.
macro_rules! numbers {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: Option<u64>,)*
        }

        impl $name {
            /// Calls `visit` with the name and value of each known number.
            pub fn visit(&self, mut visit: impl FnMut(&'static str, u64)) {
                $(if let Some(value) = self.$field { visit(stringify!($field), value); })*
            }

            /// Builds it from a function that returns the value of a name.
            #[must_use]
            pub fn find(mut find: impl FnMut(&'static str) -> Option<u64>) -> Self {
                Self { $($field: find(stringify!($field)),)* }
            }
        }
    };
}

numbers! {
    /// One side's view of a stream.
    Side {
        /// Bytes
        bytes,
        /// Time from the beginning to the last byte
        elapsed_us,
        /// User time of the thread that moved them
        cpu_user_us,
        /// System time of that thread
        cpu_system_us,
        /// Time that the thread waited for a processor
        cpu_waited_us,
        /// Running time of the thread
        cpu_wall_us,
        /// All bytes of that processor time, including omitted ones
        cpu_bytes,
        /// System calls that moved bytes
        calls,
    }
}

numbers! {
    /// State of the sender's TCP: changes from beginning to end, and final values.
    Sender {
        /// Time between the first and the last sample
        elapsed_us,
        /// Time with data in flight or waiting
        busy_us,
        /// Of this, limited by the peer's window
        rwnd_limited_us,
        /// Of this, limited by the send buffer
        sndbuf_limited_us,
        /// Number of samples of its state
        samples,
        /// Of these, in recovery after losses
        samples_recovery,
        /// Of these, after a timeout
        samples_loss,
        /// Of these, with a full congestion window
        samples_cwnd_full,
        /// Of these, with space in both windows and data to send: pacing
        samples_paced,
        /// Of these, with a full send buffer, all in flight
        samples_buffer_full,
        /// Of these, without unsent data
        samples_idle,
        /// Of these, with a rate that was limited by the application
        samples_app_limited,
        /// Data segments sent
        data_segs,
        /// Segments retransmitted
        retransmitted_segs,
        /// Bytes retransmitted
        retransmitted_bytes,
        /// Retransmission timeouts
        timeouts,
        /// Detected reorderings
        reorderings,
        /// Segments retransmitted needlessly
        needless_segs,
        /// Segments delivered with a congestion mark (ECN)
        marked_segs,
        /// Median round-trip time
        rtt_us,
        /// Last round-trip time
        rtt_last_us,
        /// Minimal round-trip time
        min_rtt_us,
        /// Median congestion window
        cwnd_segs,
        /// Largest congestion window
        cwnd_max_segs,
        /// Last slow start threshold; absent if none
        ssthresh_segs,
        /// Bytes of a segment
        mss_bytes,
        /// Path MTU
        pmtu_bytes,
        /// Median of the peer's window
        window_bytes,
        /// Last pacing rate; absent if none
        pacing_bytes_per_s,
        /// Maximal pacing rate; absent if unlimited
        pacing_max_bytes_per_s,
        /// Last delivery rate
        delivery_bytes_per_s,
        /// Last size of the send buffer (`SO_SNDBUF`)
        sndbuf_bytes,
    }
}

numbers! {
    /// Datagram counts of a stream.
    Datagrams {
        /// Sent, as the sender counted
        sent,
        /// Received
        received,
        /// Lost
        lost,
        /// Received after one that was sent later
        reordered,
        /// Jitter as defined by RFC 3550
        jitter_us,
        /// Refused by the sending host: its queue was full
        refused_locally,
    }
}

numbers! {
    /// Work of one end.
    Work {
        /// User time of all threads
        cpu_user_us,
        /// System time of all threads
        cpu_system_us,
        /// Duration
        wall_us,
        /// All bytes moved
        bytes,
        /// Processor share of the busiest thread
        busiest_thread_permille,
        /// Idle share of the host's processors
        host_idle_permille,
        /// Busy share of the busiest processor
        busiest_processor_permille,
        /// Share of the host's time taken by the hypervisor
        host_steal_permille,
        /// Number of processors
        processors,
        /// Packets dropped because a processor's backlog was full
        softnet_dropped,
        /// Times that packet processing was deferred
        softnet_squeezed,
        /// Maximum in `net.ipv4.tcp_rmem`
        tcp_rmem_max_bytes,
        /// Maximum in `net.ipv4.tcp_wmem`
        tcp_wmem_max_bytes,
        /// `net.core.rmem_max`
        rmem_max_bytes,
        /// `net.core.wmem_max`
        wmem_max_bytes,
        /// The smallest receive buffer of its streams (`SO_RCVBUF`)
        rcvbuf_bytes,
        /// Retransmitted segments of the network namespace
        retransmitted_segs,
        /// Received segments dropped because a buffer was full
        receive_queue_drops,
        /// Datagrams dropped because a buffer was full
        udp_receive_drops,
    }
}

/// One end: its work, and its devices that carried or dropped packets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct End {
    /// Numbers
    pub work: Work,
    /// Devices that carried or dropped packets
    pub devices: Vec<DeviceWork>,
    /// Congestion control of its streams
    pub congestion: Option<String>,
    /// Program and version
    pub program: Option<String>,
}

impl End {
    /// Nanoseconds of processor time per KiB.
    #[must_use]
    pub fn cpu_ns_per_kib(&self) -> Option<f64> {
        // The fixed cost of a session distorts the result for few bytes.
        let bytes = self.work.bytes.filter(|&bytes| bytes >= COST_BYTES_MIN)?;
        Some(self.cpu_us()? as f64 * 1000.0 * 1024.0 / bytes as f64)
    }

    /// Processor time in thousandths of one processor.
    #[must_use]
    pub fn cpu_permille(&self) -> Option<f64> {
        let wall = self.work.wall_us.filter(|&us| us > 0)?;
        Some(self.cpu_us()? as f64 * 1000.0 / wall as f64)
    }

    fn cpu_us(&self) -> Option<u64> {
        Some(self.work.cpu_user_us?.saturating_add(self.work.cpu_system_us?))
    }
}

/// Activity of a device.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceWork {
    /// Name
    pub name: String,
    /// Kind of the qdisc that dropped most
    pub queue: Option<String>,
    /// Numbers
    pub numbers: DeviceNumbers,
}

numbers! {
    /// Changes of a device's counters.
    DeviceNumbers {
        /// Bytes received
        rx_bytes,
        /// Bytes sent
        tx_bytes,
        /// Dropped on receipt
        rx_dropped,
        /// Dropped by the device on sending
        tx_dropped,
        /// Dropped by its qdisc
        queue_dropped,
        /// `txqueuelen`
        queue_packets,
        /// Missed on receipt because the ring was full
        rx_missed,
    }
}

const COST_BYTES_MIN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_count_received_bytes() {
        let side = |bytes, us| {
            Some(Side {
                bytes: Some(bytes),
                elapsed_us: Some(us),
                ..Side::default()
            })
        };
        let stream = |sent, received| StreamTransfer {
            is_sent: true,
            sent,
            received,
            ..StreamTransfer::default()
        };
        let transfer = Transfer {
            streams: vec![
                stream(side(3000, 1_000_000), side(2000, 2_000_000)),
                stream(side(500, 1_000_000), None),
            ],
            ..Transfer::default()
        };
        assert_eq!(transfer.bytes_per_s(true), Some(1250.0));
        assert_eq!(transfer.bytes_per_s(false), None);
        assert_eq!(transfer.streams[0].bytes_per_s(), Some(1000.0));
        assert_eq!(transfer.streams[1].bytes_per_s(), Some(500.0));
        assert_eq!(stream(None, side(1, 0)).bytes_per_s(), None);
    }

    #[test]
    fn numbers_round_trip_by_name() {
        let sender = Sender {
            rtt_us: Some(7),
            ..Sender::default()
        };
        let mut numbers = Vec::new();
        sender.visit(|name, value| numbers.push((name, value)));
        assert_eq!(numbers, [("rtt_us", 7)]);
        let parsed = Sender::find(|name| (name == "rtt_us").then_some(7));
        assert_eq!(parsed, sender);
    }
}
