//! Opens, closes, resets and retransmissions of TCP connections, of every network namespace at once.
//!
//! `bpf/events.h` documents what is stored with a socket, and how its owner is known.

use crate::{Accounting, Objects, Tracepoint, Watch, WatchOptions};
use rustix::io::Errno;
use sockeye_source::{BpfEngine, End, Ends, Families, Unavailable};
use sockeye_sys::bpf::LoadError;
use sockeye_wire::connections::kind;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What to watch.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Kinds of records, of [`mod@sockeye_wire::connections::kind`].
    pub kinds: Vec<u32>,
    /// Bounds of addresses and ports.
    pub ends: Ends,
    /// Address families.
    pub families: Families,
    /// Inode of the only network namespace; `None`: all.
    pub netns: Option<u32>,
    /// Size of the ring in bytes.
    pub ring_bytes: u32,
    /// Inode of the pid namespace of all process ids; 0: the initial one.
    pub pid_namespace: u32,
    /// Whether to find out who reads the data of accepted connections, which costs something at each read.
    pub readers: bool,
}

/// A watch over connections.
#[derive(Debug)]
pub struct ConnectionWatch {
    watch: Watch,
}

impl ConnectionWatch {
    /// Loads the programs and attaches them.
    ///
    /// # Errors
    /// When they do not run here.
    pub fn begin(engine: &BpfEngine, options: &ConnectionOptions) -> Result<Self, Unavailable> {
        let arguments = engine.tracepoint_arguments(&["tcp_send_reset"])?;
        // It got its third argument, the reason, in Linux 6.11.
        let has_reason = arguments
            .first()
            .copied()
            .flatten()
            .is_some_and(|count| count >= 3);
        let reset_reason_at = u32::from(has_reason) * 2;
        let wanted = options.kinds.iter().fold(0, |all, kind| all | 1_u32 << kind);
        let families = u32::from(options.families.v4) | u32::from(options.families.v6) << 1;
        let netns = options.netns.unwrap_or(0);
        let is_filtered = options.ends != Ends::ANYWHERE || families != 3 || netns != 0;
        let Ends { local, peer } = &options.ends;
        let numbers = |end: &End| [end.port_min, end.port_max].map(u16::to_ne_bytes);
        let ([local_min, local_max], [peer_min, peer_max]) = (numbers(local), numbers(peer));
        let words = [
            wanted,
            families,
            netns,
            u32::from(is_filtered),
            options.pid_namespace,
            reset_reason_at,
        ]
        .map(u32::to_ne_bytes);
        let constants: [(&str, &[u8]); 14] = [
            ("wanted", &words[0]),
            ("families", &words[1]),
            ("only_netns", &words[2]),
            ("is_filtered", &words[3]),
            ("pid_namespace", &words[4]),
            ("reset_reason_at", &words[5]),
            ("local_port_min", &local_min),
            ("local_port_max", &local_max),
            ("peer_port_min", &peer_min),
            ("peer_port_max", &peer_max),
            ("local_prefix", &local.prefix),
            ("local_mask", &local.mask),
            ("peer_prefix", &peer.prefix),
            ("peer_mask", &peer.mask),
        ];
        let wants = |tracepoint: &&Tracepoint| match tracepoint.program {
            RETRANSMITTED => options.kinds.contains(&kind::RETRANSMITTED),
            READ => options.readers,
            _ => true,
        };
        let tracepoints: Vec<Tracepoint> = TRACEPOINTS.iter().filter(wants).copied().collect();
        let options = WatchOptions {
            tracepoints: &tracepoints,
            ring_bytes: options.ring_bytes,
            entries: &[],
            constants: &constants,
        };
        let mut watch = Watch::load(engine, &OBJECTS, &options)?;
        watch.attach()?;
        Ok(Self { watch })
    }

    /// As [`Watch::wait`].
    ///
    /// # Errors
    /// The errno of `poll(2)`.
    pub fn wait(&self, timeout: Duration, others: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.watch.wait(timeout, others)
    }

    /// Passes the records that are there to `take`. Returns their number.
    pub fn read(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        self.watch.read(|_, record| take(record))
    }

    /// As [`Watch::accounting`].
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn accounting(&mut self) -> Result<Accounting, Errno> {
        self.watch.accounting()
    }

    /// As [`Watch::finish`].
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn finish(&mut self, mut take: impl FnMut(&[u8])) -> Result<Accounting, Errno> {
        self.watch.finish(|_, record| take(record))
    }

    /// As [`Watch::missing`].
    #[must_use]
    pub fn missing(&self) -> &[(&'static str, LoadError)] {
        self.watch.missing()
    }
}

const RETRANSMITTED: &str = "segment_is_retransmitted";
const READ: &str = "data_is_read";

/// The programs, with their tracepoints. First those that the others need the results of.
const TRACEPOINTS: [Tracepoint; 6] = [
    tracepoint("socket_is_destroyed", "tcp_destroy_sock", true),
    tracepoint(READ, "tcp_rcv_space_adjust", false),
    tracepoint("reset_is_received", "tcp_receive_reset", true),
    tracepoint("reset_is_sent", "tcp_send_reset", true),
    tracepoint(RETRANSMITTED, "tcp_retransmit_skb", false),
    tracepoint("connection_changes", "inet_sock_set_state", true),
];

const fn tracepoint(program: &'static str, event: &'static str, required: bool) -> Tracepoint {
    Tracepoint {
        program,
        event,
        required,
    }
}

const OBJECTS: Objects = Objects {
    in_place: include_bytes!("../../../../../bpf/events.bpf.o"),
    by_copy: include_bytes!("../../../../../bpf/events_read.bpf.o"),
};

#[cfg(test)]
mod tests;
