//! Opens, closes, resets and retransmissions of TCP connections, of every network namespace at once.
//!
//! `bpf/events.h` documents what is stored with a socket, and how its owner is known.

mod programs;

use crate::budget::Budget;
use crate::per_processor::sum_at;
use crate::{Accounting, Objects, Watch, WatchOptions};
use programs::Kernel;
use rustix::io::Errno;
use rustix::system::sysinfo;
use rustix::time::{ClockId, clock_gettime};
use sockeye_source::{BpfEngine, End, Ends, Families, Unavailable};
use sockeye_sys::bpf::{LoadError, Table};
use sockeye_wire::connections::{Event, kind};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

mod collector;

pub use collector::{Collected, ConnectionCollector};

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
    /// Which protocols. Without any only what listeners of TCP turn away is seen, of listeners without an owner.
    pub protocols: Protocols,
    /// Millionths of a processor that this process may take, see [`ConnectionWatch::keep_to_budget`]; `None`: no bound.
    pub cpu_ppm_max: Option<u64>,
}

/// Protocols of transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// TCP, with the subflows of MPTCP.
    pub tcp: bool,
    /// UDP
    pub udp: bool,
    /// MPTCP, where one connection can have many subflows.
    pub mptcp: bool,
}

/// What found no space in the maps of the programs. Nothing is evicted from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Untracked {
    /// Sockets of which owner, age and counters are not known.
    pub sockets: u64,
    /// Opens whose errno was known before they failed, and is not any more.
    pub errnos: u64,
}

/// What programs have counted of a network namespace without a record of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedAside {
    /// RSTs of no connection: of no socket, or of a request.
    pub resets: u64,
    /// Datagrams that found no space in a receive buffer: few of them have records.
    pub not_queued: u64,
}

/// A watch over connections.
#[derive(Debug)]
pub struct ConnectionWatch {
    watch: Watch,
    untracked: Table,
    aside: Table,
    /// Whether the kernel reports RSTs of no socket.
    shows_all_resets: bool,
    every: Table,
    /// Segments that were sent again without a record.
    unseen: u64,
    budget: Budget,
}

impl ConnectionWatch {
    /// Loads the programs and attaches them.
    ///
    /// # Errors
    /// When they do not run here.
    pub fn begin(engine: &BpfEngine, options: &ConnectionOptions) -> Result<Self, Unavailable> {
        let mut loaded = Self::load(engine, options)?;
        loaded.watch.attach()?;
        Ok(loaded)
    }

    /// Loads the programs. They see nothing.
    pub(crate) fn load(engine: &BpfEngine, options: &ConnectionOptions) -> Result<Self, Unavailable> {
        let kernel = Kernel::read(engine)?;
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
            kernel.reset_reason_at,
            u32::from(options.protocols.mptcp),
            u32::from(kernel.has_send_length),
            kernel.kfree_arguments,
            kernel.checksum_reason,
            kernel.full_arguments,
            programs::REGISTERS[0],
            programs::REGISTERS[1],
            programs::REGISTERS[2],
            programs::CONNECT_CALL,
            kernel.retransmit_arguments,
            kernel.no_route_reason,
            kernel.no_reason,
            u32::from(kernel.takes_one_more),
            u32::from(programs::forgets_at_close(options)),
        ]
        .map(u32::to_ne_bytes);
        let compat_bit = programs::COMPAT_BIT.to_ne_bytes();
        let constants: [(&str, &[u8]); 30] = [
            ("wanted", &words[0]),
            ("families", &words[1]),
            ("only_netns", &words[2]),
            ("is_filtered", &words[3]),
            ("pid_namespace", &words[4]),
            ("reset_reason_at", &words[5]),
            ("watches_mptcp", &words[6]),
            ("has_send_length", &words[7]),
            ("kfree_arguments", &words[8]),
            ("checksum_reason", &words[9]),
            ("full_arguments", &words[10]),
            ("call_at", &words[11]),
            ("first_at", &words[12]),
            ("second_at", &words[13]),
            ("connect_call", &words[14]),
            ("retransmit_arguments", &words[15]),
            ("no_route_reason", &words[16]),
            ("no_reason", &words[17]),
            ("takes_one_more", &words[18]),
            ("forgets_at_close", &words[19]),
            ("no_neighbor_reasons", &kernel.no_neighbor_reasons),
            ("compat_bit", &compat_bit),
            ("local_port_min", &local_min),
            ("local_port_max", &local_max),
            ("peer_port_min", &peer_min),
            ("peer_port_max", &peer_max),
            ("local_prefix", &local.prefix),
            ("local_mask", &local.mask),
            ("peer_prefix", &peer.prefix),
            ("peer_mask", &peer.mask),
        ];
        let tracepoints = programs::wanted(options);
        // Maps that are not used cost nothing that way.
        let mut entries = Vec::new();
        if !options.protocols.udp {
            entries.push(("udp_sockets", 1));
        }
        if !tracepoints
            .iter()
            .any(|one| one.program == programs::SEGMENT_ARRIVES)
        {
            entries.push(("zero_windows", 1));
        }
        let has_tcp = options.protocols.tcp || options.protocols.mptcp;
        let in_place_entries = [("known_sockets", sockets_max())];
        if !has_tcp {
            entries.push(("known_sockets", 1));
        }
        let cpu_ppm_max = options.cpu_ppm_max;
        let options = WatchOptions {
            tracepoints: &tracepoints,
            ring_bytes: options.ring_bytes,
            entries: &entries,
            in_place_entries: if has_tcp { &in_place_entries } else { &[] },
            constants: &constants,
        };
        let mut watch = Watch::load(engine, &OBJECTS, &options)?;
        let failed = |error| Unavailable::Load(error, Vec::new());
        let untracked = watch.table("untracked").map_err(failed)?;
        let aside = watch.table("counted_aside").map_err(failed)?;
        let every = watch.table("event_every").map_err(failed)?;
        Ok(Self {
            watch,
            untracked,
            aside,
            shows_all_resets: kernel.reset_reason_at > 0,
            every,
            unseen: 0,
            budget: Budget::new(cpu_ppm_max),
        })
    }

    /// Returns what found no space in the maps.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn untracked(&self) -> Result<Untracked, Errno> {
        Ok(Untracked {
            sockets: sum_at(&self.untracked, 0)?,
            errnos: sum_at(&self.untracked, 1)?,
        })
    }

    /// Returns what was counted without records, by the inode of the network namespace.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn counted_aside(&self) -> Result<BTreeMap<u32, CountedAside>, Errno> {
        let mut all = BTreeMap::new();
        self.aside.each(|key, value| {
            let mut words = value.chunks_exact(8).filter_map(<[u8]>::first_chunk);
            let mut next = || words.next().map_or(0, |word| u64::from_ne_bytes(*word));
            let counted = CountedAside {
                resets: next(),
                not_queued: next(),
            };
            if let Some(netns) = key.first_chunk() {
                all.insert(u32::from_ne_bytes(*netns), counted);
            }
        })?;
        Ok(all)
    }

    /// Whether the kernel also reports RSTs of no socket (Linux 6.11), so that all that it counts are seen.
    #[must_use]
    pub const fn shows_all_resets(&self) -> bool {
        self.shows_all_resets
    }

    /// Compares the processor time that this process has taken since the last call with what it may take; beyond that, only one of so many
    /// connections has events from now until the next call. To be called each [`Budget::INTERVAL`]. Returns of how many one is
    /// watched, if that changes.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn keep_to_budget(&mut self) -> Result<Option<u32>, Errno> {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        let spent_ns = spent.tv_sec.unsigned_abs() * 1_000_000_000 + spent.tv_nsec.unsigned_abs();
        let every = self.budget.adapt(spent_ns, Instant::now());
        if let Some(every) = every {
            self.every
                .update(&0_u32.to_ne_bytes(), &u64::from(every).to_ne_bytes())?;
        }
        Ok(every)
    }

    /// Returns the largest number of connections since the last call of which one was watched: 1 if each was.
    pub const fn take_sampled_every(&mut self) -> u32 {
        self.budget.take_peak()
    }

    /// As [`Watch::wait`].
    ///
    /// # Errors
    /// The errno of `poll(2)`.
    pub fn wait(&self, timeout: Duration, others: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.watch.wait(timeout, others)
    }

    /// As [`Watch::wait_for_first`].
    ///
    /// # Errors
    /// The errno of `bpf(2)` or `poll(2)`.
    pub fn wait_for_first(
        &self,
        timeout: Duration,
        idle: Duration,
        others: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        self.watch.wait_for_first(timeout, idle, others)
    }

    /// Passes the records that are there to `take`. Returns their number.
    pub fn read(&mut self, take: impl FnMut(&[u8])) -> usize {
        self.read_some(usize::MAX, take)
    }

    /// Passes at most so many records that are there to `take`. Returns their number.
    pub fn read_some(&mut self, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        let unseen = &mut self.unseen;
        self.watch.read_some(most, |kind, record| {
            *unseen += unseen_in(kind, record);
            take(record);
        })
    }

    /// As [`Watch::accounting`].
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn accounting(&mut self) -> Result<Accounting, Errno> {
        let counts = self.watch.accounting()?;
        Ok(self.with_unseen(counts))
    }

    /// As [`Watch::finish`].
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn finish(&mut self, mut take: impl FnMut(&[u8])) -> Result<Accounting, Errno> {
        let unseen = &mut self.unseen;
        let counts = self.watch.finish(|kind, record| {
            *unseen += unseen_in(kind, record);
            take(record);
        })?;
        Ok(self.with_unseen(counts))
    }

    fn with_unseen(&self, mut counts: Accounting) -> Accounting {
        counts.kinds[kind::RETRANSMITTED as usize].unseen = self.unseen;
        counts
    }

    /// Number of the programs that are loaded.
    pub(crate) const fn programs(&self) -> usize {
        self.watch.programs()
    }

    /// As [`Watch::missing`].
    #[must_use]
    pub fn missing(&self) -> &[(&'static str, LoadError)] {
        self.watch.missing()
    }
}

/// Returns how many segments of a connection, if this is the record of its close, were sent again without a record.
fn unseen_in(kind: u32, record: &[u8]) -> u64 {
    let closed = (kind == kind::CLOSED).then(|| Event::read(record)).flatten();
    closed.map_or(0, |event| event.unseen.into())
}

/// Returns how many connections that opened during the watch are known at once: one for each 64 KiB of the host's memory, which connections with
/// their buffers use up before. The kernel allocates and clears a bucket for each when the watch begins: 5 ms for 2^20.
fn sockets_max() -> u32 {
    let info = sysinfo();
    let bytes = info.totalram.saturating_mul(u64::from(info.mem_unit));
    let most = u32::try_from(bytes / (64 << 10)).unwrap_or(u32::MAX);
    // Rounded down: the buckets are a power of two.
    (1 << most.max(1).ilog2()).clamp(1 << 16, 1 << 20)
}

const OBJECTS: Objects = Objects {
    in_place: include_bytes!("../../../../../bpf/events.bpf.o"),
    by_copy: include_bytes!("../../../../../bpf/events_read.bpf.o"),
};

#[cfg(test)]
mod tests;
