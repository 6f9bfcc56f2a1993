//! A transfer of bytes between two hosts, as both ends saw it.

use crate::Partial;
use std::net::SocketAddr;

/// What came out of it.
#[derive(Debug, Clone, Default)]
pub struct Transfer {
    /// Our address, of the control connection
    pub local: Option<SocketAddr>,
    /// The other end's
    pub peer: Option<SocketAddr>,
    /// What each stream carried, those that we sent first
    pub lanes: Vec<Lane>,
    /// The course of it, as we saw it
    pub intervals: Vec<Interval>,
    /// What our end had to do for it
    pub ours: End,
    /// What the other end had to do, if it said so
    pub theirs: Option<End>,
    /// Why it did not get to its end
    pub partial: Option<Partial>,
}

impl Transfer {
    /// Streams that we sent, or those that we received.
    pub fn lanes(&self, is_sent: bool) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(move |lane| lane.is_sent == is_sent)
    }

    /// Bytes a second that got through in this direction; the sum of all streams.
    #[must_use]
    pub fn bytes_per_s(&self, is_sent: bool) -> Option<f64> {
        let bytes: u64 = self.lanes(is_sent).filter_map(Lane::carried_bytes).sum();
        let longest = self.lanes(is_sent).filter_map(Lane::carried_us).max()?;
        (longest > 0).then(|| bytes as f64 * 1e6 / longest as f64)
    }
}

/// One stream in one direction.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    /// Its number
    pub number: u16,
    /// Whether we are its sender
    pub is_sent: bool,
    /// Our address
    pub local: Option<SocketAddr>,
    /// The other end's
    pub peer: Option<SocketAddr>,
    /// What the sender saw
    pub sent: Option<Side>,
    /// What the receiver saw
    pub received: Option<Side>,
    /// What TCP tells at the sender
    pub sender: Option<Sender>,
    /// What became of datagrams, as the receiver counted
    pub datagrams: Option<Datagrams>,
}

impl Lane {
    /// What arrived; where nobody knows, what was sent.
    #[must_use]
    pub fn carried_bytes(&self) -> Option<u64> {
        self.received.as_ref().or(self.sent.as_ref())?.bytes
    }

    /// In what time.
    #[must_use]
    pub fn carried_us(&self) -> Option<u64> {
        self.received.as_ref().or(self.sent.as_ref())?.elapsed_us
    }

    /// Bytes a second that got through.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        let elapsed = self.carried_us().filter(|&us| us > 0)?;
        Some(self.carried_bytes()? as f64 * 1e6 / elapsed as f64)
    }
}

/// What we saw in a piece of time, all streams of one direction together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Interval {
    /// From when on, since the beginning
    pub from_us: u64,
    /// Until when
    pub until_us: u64,
    /// Whether it is about what we sent
    pub is_sent: bool,
    /// Bytes that we sent or received
    pub bytes: u64,
    /// Segments that were sent again, where we sent over TCP
    pub retransmitted_segs: Option<u64>,
    /// Round trip, of the streams the mean
    pub rtt_us: Option<u64>,
    /// Congestion windows together
    pub cwnd_bytes: Option<u64>,
    /// Datagrams lost, where we received over UDP
    pub lost_datagrams: Option<u64>,
}

/// Plain numbers, each of which may be unknown, with names by which they cross the network.
macro_rules! numbers {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: Option<u64>,)*
        }

        impl $name {
            /// Calls `visit` with the name and value of each number that is known.
            pub fn visit(&self, mut visit: impl FnMut(&'static str, u64)) {
                $(if let Some(value) = self.$field { visit(stringify!($field), value); })*
            }

            /// With what `find` knows of each name.
            #[must_use]
            pub fn find(mut find: impl FnMut(&'static str) -> Option<u64>) -> Self {
                Self { $($field: find(stringify!($field)),)* }
            }
        }
    };
}

numbers! {
    /// What one side of a stream saw.
    Side {
        /// Bytes
        bytes,
        /// From the beginning until the last of them
        elapsed_us,
        /// Processor time of the thread that moved them, in the program
        cpu_user_us,
        /// In the kernel
        cpu_system_us,
        /// Time that it waited for a processor while others had them
        cpu_waited_us,
        /// How long that thread ran
        cpu_wall_us,
        /// All bytes that this processor time was spent for, also those that were to be omitted
        cpu_bytes,
        /// System calls that moved bytes
        calls,
    }
}

numbers! {
    /// What the sender's TCP tells of a stream: what came to pass from beginning to end, and how it stood at last.
    Sender {
        /// From the first look at it until the last
        elapsed_us,
        /// With data in flight or waiting
        busy_us,
        /// Of this, limited by the peer's window
        rwnd_limited_us,
        /// Of this, limited by the send buffer
        sndbuf_limited_us,
        /// How often it was looked at
        samples,
        /// Of these, in recovery after losses
        samples_recovery,
        /// Of these, after a timeout
        samples_loss,
        /// Of these, with a full congestion window
        samples_cwnd_full,
        /// Of these, with room in both windows and something to send: held by the pace
        samples_paced,
        /// Of these, with all of a full send buffer in flight
        samples_buffer_full,
        /// Of these, with nothing else that waits to be sent
        samples_idle,
        /// Of these, while the last rate measured was limited by the application
        samples_app_limited,
        /// Segments sent, with data
        data_segs,
        /// Segments sent again
        retransmitted_segs,
        /// Bytes sent again
        retransmitted_bytes,
        /// Retransmission timeouts
        timeouts,
        /// Times that packets were found to be out of order
        reorderings,
        /// Segments that were sent again needlessly
        needless_segs,
        /// Segments that arrived with a mark of congestion
        marked_segs,
        /// Round trip, the median
        rtt_us,
        /// Round trip at last
        rtt_last_us,
        /// The shortest
        min_rtt_us,
        /// Congestion window, the median
        cwnd_segs,
        /// The widest
        cwnd_max_segs,
        /// Slow start threshold at last; absent if there was none yet
        ssthresh_segs,
        /// Bytes of a segment
        mss_bytes,
        /// Path MTU
        pmtu_bytes,
        /// The peer's window, the median
        window_bytes,
        /// Pace at last; absent if there is none
        pacing_bytes_per_s,
        /// How fast it may be at most; absent if that is not limited
        pacing_max_bytes_per_s,
        /// The latest rate measured
        delivery_bytes_per_s,
        /// The send buffer (`SO_SNDBUF`) at last
        sndbuf_bytes,
    }
}

numbers! {
    /// What became of datagrams.
    Datagrams {
        /// Sent, as the sender counted
        sent,
        /// Received
        received,
        /// Never seen
        lost,
        /// Seen after one that was sent later
        reordered,
        /// Variation of the delay, as RFC 3550 has it
        jitter_us,
        /// Refused by the sender's own host: its queue was full
        refused_locally,
    }
}

numbers! {
    /// What an end had to do for it.
    Work {
        /// Processor time of all threads, in the program
        cpu_user_us,
        /// In the kernel
        cpu_system_us,
        /// How long it took
        wall_us,
        /// All bytes that were moved
        bytes,
        /// The busiest thread's share of its time on a processor
        busiest_thread_permille,
        /// How much of the time the processors of the whole host rested
        host_idle_permille,
        /// How much of the time the busiest of them worked
        busiest_processor_permille,
        /// Of the whole host's time: taken by the hypervisor
        host_steal_permille,
        /// How many processors there are
        processors,
        /// Packets that the host dropped for its backlog was full
        softnet_dropped,
        /// Times that it had to put off work on packets
        softnet_squeezed,
        /// The last of `net.ipv4.tcp_rmem`
        tcp_rmem_max_bytes,
        /// The last of `net.ipv4.tcp_wmem`
        tcp_wmem_max_bytes,
        /// `net.core.rmem_max`
        rmem_max_bytes,
        /// `net.core.wmem_max`
        wmem_max_bytes,
        /// The receive buffers of its streams (`SO_RCVBUF`), the smallest
        rcvbuf_bytes,
        /// Segments sent again in the whole network namespace
        retransmitted_segs,
        /// Received segments that were thrown away for want of a buffer
        receive_queue_drops,
        /// Datagrams that were thrown away for want of a buffer
        udp_receive_drops,
    }
}

/// One end: its work, and the devices that dropped something meanwhile, or that carried it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct End {
    /// Its numbers
    pub work: Work,
    /// Its devices that carried or dropped anything
    pub devices: Vec<DeviceWork>,
    /// The congestion control that its streams used
    pub congestion: Option<String>,
    /// Which program, and which version of it
    pub program: Option<String>,
}

impl End {
    /// Nanoseconds of processor time for each KiB.
    #[must_use]
    pub fn cpu_ns_per_kib(&self) -> Option<f64> {
        // What a session takes anyway says nothing of a few bytes.
        let bytes = self.work.bytes.filter(|&bytes| bytes >= WORTH_DIVIDING)?;
        Some(self.cpu_us()? as f64 * 1000.0 * 1024.0 / bytes as f64)
    }

    /// Its share of one processor.
    #[must_use]
    pub fn cpu_permille(&self) -> Option<f64> {
        let wall = self.work.wall_us.filter(|&us| us > 0)?;
        Some(self.cpu_us()? as f64 * 1000.0 / wall as f64)
    }

    fn cpu_us(&self) -> Option<u64> {
        Some(self.work.cpu_user_us?.saturating_add(self.work.cpu_system_us?))
    }
}

/// What a device did meanwhile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceWork {
    /// Its name
    pub name: String,
    /// The kind of the queue that dropped most
    pub queue: Option<String>,
    /// Its numbers
    pub numbers: DeviceNumbers,
}

numbers! {
    /// What came to a device's counters.
    DeviceNumbers {
        /// Bytes received
        rx_bytes,
        /// Bytes sent
        tx_bytes,
        /// Received, but dropped
        rx_dropped,
        /// To be sent, but dropped by the device
        tx_dropped,
        /// Dropped by its queue
        queue_dropped,
        /// `txqueuelen`
        queue_packets,
        /// Received, but the ring was full
        rx_missed,
    }
}

const WORTH_DIVIDING: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_arrived() {
        let side = |bytes, us| {
            Some(Side {
                bytes: Some(bytes),
                elapsed_us: Some(us),
                ..Side::default()
            })
        };
        let lane = |sent, received| Lane {
            is_sent: true,
            sent,
            received,
            ..Lane::default()
        };
        let transfer = Transfer {
            lanes: vec![
                lane(side(3000, 1_000_000), side(2000, 2_000_000)),
                lane(side(500, 1_000_000), None),
            ],
            ..Transfer::default()
        };
        assert_eq!(transfer.bytes_per_s(true), Some(1250.0));
        assert_eq!(transfer.bytes_per_s(false), None);
        assert_eq!(transfer.lanes[0].bytes_per_s(), Some(1000.0));
        assert_eq!(transfer.lanes[1].bytes_per_s(), Some(500.0));
        assert_eq!(lane(None, side(1, 0)).bytes_per_s(), None);
    }

    #[test]
    fn numbers_cross_the_network_by_name() {
        let sender = Sender {
            rtt_us: Some(7),
            ..Sender::default()
        };
        let mut told = Vec::new();
        sender.visit(|name, value| told.push((name, value)));
        assert_eq!(told, [("rtt_us", 7)]);
        let heard = Sender::find(|name| (name == "rtt_us").then_some(7));
        assert_eq!(heard, sender);
    }
}
