//! Packets on their way through this host, with the time at each point.

use crate::per_processor::sum_at;
use crate::{Accounting, Objects, Tracepoint, Watch, WatchOptions};
use rustix::io::Errno;
use sockeye_source::{BpfEngine, Ends, Unavailable};
use sockeye_sys::bpf::{LoadError, Table};
use sockeye_wire::path::{COUNTS, Counts, JOURNEYS, Journey, PathRecord};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What to follow.
#[derive(Debug, Clone, Copy)]
pub struct PathOptions {
    /// Bounds of addresses and ports. A packet matches from its source to its destination, or the other way.
    pub ends: Ends,
    /// One of how many packets is followed; 1: each.
    pub sample_every: u32,
    /// Size of the ring in bytes.
    pub ring_bytes: u32,
    /// Number of slots for packets on their way, rounded up to a power of two: with a tenth as many on their way, one of ten is not
    /// followed.
    pub slots: u32,
    /// Inode of the pid namespace of readers; 0: the initial one.
    pub pid_namespace: u32,
    /// Whether the time of connections in accept queues is measured: each system call of the host then takes a little longer.
    pub accepts: bool,
}

/// The attached programs that follow packets.
#[derive(Debug)]
pub struct PathWatch {
    watch: Watch,
    journeys: Table,
    counts: Table,
    /// Records that could not be decoded.
    broken: u64,
    has_reasons: bool,
    sees_accepts: bool,
}

/// What was seen until the end.
#[derive(Debug)]
pub struct PathEnd {
    /// What became of the records.
    pub accounting: Accounting,
    /// Records that could not be decoded.
    pub broken: u64,
    /// Numbers of packets.
    pub counts: Counts,
    /// Journeys that had not ended.
    pub unfinished: Vec<Journey>,
}

impl PathWatch {
    /// Loads the programs and attaches them.
    ///
    /// # Errors
    /// When they do not run here.
    pub fn begin(engine: &BpfEngine, options: &PathOptions) -> Result<Self, Unavailable> {
        let mut loaded = Self::load(engine, options)?;
        loaded.watch.attach()?;
        let lacks = |program: &Tracepoint| {
            loaded
                .watch
                .missing()
                .iter()
                .any(|(event, _)| *event == program.event)
        };
        loaded.sees_accepts = options.accepts && !ACCEPTS[..2].iter().any(lacks);
        Ok(loaded)
    }

    /// Loads the programs. They see nothing.
    pub(crate) fn load(engine: &BpfEngine, options: &PathOptions) -> Result<Self, Unavailable> {
        let events = ["kfree_skb", "tcp_sendmsg_locked", "io_uring_complete"];
        let reasons = [
            "SKB_DROP_REASON_PACKET_SOCK_ERROR",
            "SKB_DROP_REASON_NOT_SPECIFIED",
            "SKB_DROP_REASON_NETFILTER_DROP",
            "SKB_DROP_REASON_TC_EGRESS",
        ];
        let numbers = engine.numbers(&events, &reasons)?;
        let Ends { local, peer } = &options.ends;
        let ports = [local.port_min, local.port_max, peer.port_min, peer.port_max].map(u16::to_ne_bytes);
        let slots = options.slots.next_power_of_two();
        let words = [
            options.sample_every,
            options.pid_namespace,
            numbers.arguments(0),
            u32::from(numbers.arguments(1) > 0),
            slots - 1,
            REGISTER_OF_CALL,
            numbers.arguments(2),
            numbers.value(0),
            numbers.value(1),
            numbers.value(2),
            numbers.value(3),
        ]
        .map(u32::to_ne_bytes);
        let accept_calls: Vec<u8> = ACCEPT_CALLS.into_iter().flat_map(u32::to_ne_bytes).collect();
        let mut tracepoints = TRACEPOINTS.to_vec();
        if options.accepts {
            tracepoints.extend(ACCEPTS);
        }
        let options = WatchOptions {
            tracepoints: &tracepoints,
            ring_bytes: options.ring_bytes,
            entries: &[(JOURNEYS, slots)],
            in_place_entries: &[],
            constants: &[
                ("local_port_min", &ports[0]),
                ("local_port_max", &ports[1]),
                ("peer_port_min", &ports[2]),
                ("peer_port_max", &ports[3]),
                ("local_prefix", &local.prefix),
                ("local_mask", &local.mask),
                ("peer_prefix", &peer.prefix),
                ("peer_mask", &peer.mask),
                ("sample_every", &words[0]),
                ("pid_namespace", &words[1]),
                ("free_arguments", &words[2]),
                ("sees_writes", &words[3]),
                ("journeys_mask", &words[4]),
                ("call_at", &words[5]),
                ("completion_arguments", &words[6]),
                ("packet_socket_reason", &words[7]),
                ("no_reason", &words[8]),
                ("filter_reason", &words[9]),
                ("tc_egress_reason", &words[10]),
                ("accept_calls", &accept_calls),
            ],
        };
        let mut watch = Watch::load(engine, &OBJECTS, &options)?;
        let mut table = |name| {
            watch
                .table(name)
                .map_err(|error| Unavailable::Load(error, Vec::new()))
        };
        let (journeys, counts) = (table(JOURNEYS)?, table(COUNTS)?);
        Ok(Self {
            sees_accepts: false,
            watch,
            journeys,
            counts,
            broken: 0,
            has_reasons: numbers.arguments(0) > 2,
        })
    }

    /// Whether the kernel gives reasons for drops (Linux 5.17).
    #[must_use]
    pub const fn has_reasons(&self) -> bool {
        self.has_reasons
    }

    /// Number of the programs that are loaded.
    pub(crate) const fn programs(&self) -> usize {
        self.watch.programs()
    }

    /// Whether it is seen when a program writes to TCP (Linux 6.13).
    pub(crate) fn sees_writes(&self) -> bool {
        !self.missing().iter().any(|(event, _)| *event == WRITES)
    }

    /// Whether the time of connections in accept queues is measured.
    #[must_use]
    pub const fn sees_accepts(&self) -> bool {
        self.sees_accepts
    }

    /// As [`Watch::wait`].
    ///
    /// # Errors
    /// The errno of `poll(2)`.
    pub fn wait(&self, timeout: Duration, others: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.watch.wait(timeout, others)
    }

    /// Passes the journeys and the waits that have ended to `take`.
    pub fn read(&mut self, mut take: impl FnMut(&PathRecord)) {
        let broken = &mut self.broken;
        self.watch
            .read(|kind, record| take_record(kind, record, broken, &mut take));
    }

    /// As [`Watch::finish`]; also returns the packets that are still on their way.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn finish(&mut self, mut take: impl FnMut(&PathRecord)) -> Result<PathEnd, Errno> {
        let broken = &mut self.broken;
        let accounting = self
            .watch
            .finish(|kind, record| take_record(kind, record, broken, &mut take))?;
        let mut unfinished = Vec::new();
        self.journeys
            .each(|_, value| unfinished.extend(Journey::in_slot(value)))?;
        let mut numbers = [0; Counts::NUMBERS as usize];
        for (number, sum) in (0_u32..).zip(&mut numbers) {
            *sum = sum_at(&self.counts, number)?;
        }
        Ok(PathEnd {
            accounting,
            broken: self.broken,
            counts: Counts::of(numbers),
            unfinished,
        })
    }

    /// As [`Watch::missing`].
    #[must_use]
    pub fn missing(&self) -> &[(&'static str, LoadError)] {
        self.watch.missing()
    }
}

fn take_record(kind: u32, record: &[u8], broken: &mut u64, take: &mut impl FnMut(&PathRecord)) {
    match PathRecord::read(kind, record) {
        Some(record) => take(&record),
        None => *broken += 1,
    }
}

/// Where a program writes to TCP (Linux 6.13).
pub(crate) const WRITES: &str = "tcp_sendmsg_locked";

/// First those at which journeys end: a journey that begins then finds its end.
const TRACEPOINTS: [Tracepoint; 14] = [
    required("packet_is_dropped", "kfree_skb"),
    required("packet_is_consumed", "consume_skb"),
    required("packet_is_read", "skb_copy_datagram_iovec"),
    required("stream_is_taken", "tcp_rcv_space_adjust"),
    // Linux 6.3
    optional("socket_is_read", "sock_recv_length"),
    // Linux 6.2
    optional("packet_is_delivered", "sk_data_ready"),
    optional("packet_arrives", "tcp_probe"),
    optional("packet_is_routed", "fib_table_lookup"),
    // Not in kernels without IPv6.
    optional("packet_is_routed6", "fib6_table_lookup"),
    required("packet_is_received", "netif_receive_skb"),
    required("packet_is_backlogged", "netif_rx"),
    required("packet_is_transmitted", "net_dev_start_xmit"),
    optional("socket_is_written", WRITES),
    required("packet_is_queued", "net_dev_queue"),
];

/// Those of accept queues: first both without which nothing is known of them.
const ACCEPTS: [Tracepoint; 3] = [
    optional("call_accepts", "sys_exit"),
    optional("connection_waits", "inet_sock_set_state"),
    // Not in kernels without io_uring.
    optional("ring_accepts", "io_uring_complete"),
];

/// Offset of a call's number in `struct pt_regs`: `orig_ax` (`arch/x86/include/asm/ptrace.h`).
#[cfg(target_arch = "x86_64")]
const REGISTER_OF_CALL: u32 = 120;
/// accept, accept4; and of 32-bit programs: socketcall, accept4.
#[cfg(target_arch = "x86_64")]
const ACCEPT_CALLS: [u32; 4] = [43, 288, 102, 364];
/// `syscallno` (`arch/arm64/include/asm/ptrace.h`).
#[cfg(not(target_arch = "x86_64"))]
const REGISTER_OF_CALL: u32 = 280;
/// accept, accept4; and of 32-bit programs: accept, accept4.
#[cfg(not(target_arch = "x86_64"))]
const ACCEPT_CALLS: [u32; 4] = [202, 242, 285, 366];

const fn required(program: &'static str, event: &'static str) -> Tracepoint {
    Tracepoint {
        program,
        event,
        required: true,
    }
}

const fn optional(program: &'static str, event: &'static str) -> Tracepoint {
    Tracepoint {
        program,
        event,
        required: false,
    }
}

const OBJECTS: Objects = Objects {
    in_place: include_bytes!("../../../../bpf/path.bpf.o"),
    by_copy: include_bytes!("../../../../bpf/path_read.bpf.o"),
};
