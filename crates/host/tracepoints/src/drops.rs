//! Dropped packets: counts by reason, place, namespace, device and socket, and single packets.

use crate::accounting::Accounting;
use crate::budget::Budget;
use crate::per_processor::{sum_at, sum_of};
use crate::watch::{Objects, Tracepoint, Watch, WatchOptions};
use rustix::io::Errno;
use sockeye_source::{BpfEngine, Unavailable};
use sockeye_sys::bpf::{LoadError, Table};
use sockeye_wire::drops::{self, Counts, INDEXES, Key, Packet, Treatment};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// What to count.
#[derive(Debug, Clone, Copy)]
pub struct DropOptions<'a> {
    /// How the drops of each reason are counted, by [`drops::index_of`].
    pub treatments: &'a [Treatment; INDEXES],
    /// Whether single packets are reported, too.
    pub packets: bool,
    /// Size of the ring for single packets.
    pub ring_bytes: u32,
    /// Most keys.
    pub keys: u32,
    /// What counting may take, in millionths of a processor; `None`: no bound.
    pub cpu_ppm_max: Option<u64>,
    /// Whether packets that a packet filter drops are counted by their addresses, too, so that those of each rule have samples of their own.
    pub by_rule: bool,
    /// The pid namespace in which processes are named: its inode, or 0 for the initial one.
    pub pid_namespace: u32,
}

/// The counts of one moment, since the program was attached.
#[derive(Debug, Clone, Default)]
pub struct DropCounts {
    /// Counts by key. Those that were evicted are missing.
    pub by_key: HashMap<Key, Counts>,
    /// Counts by reason ([`drops::index_of`]), with those that were evicted.
    pub by_reason: Vec<u64>,
    /// Number of keys that were evicted, or could not be made.
    pub evicted_keys: u64,
}

/// The attached program that counts drops.
#[derive(Debug)]
pub struct DropWatch {
    watch: Watch,
    counts: Table,
    totals: Table,
    keys: Table,
    every: Table,
    spent: Table,
    budget: Budget,
    arguments: u32,
}

impl DropWatch {
    /// Loads the program. It counts nothing before [`Self::attach`].
    ///
    /// # Errors
    /// When it does not run here.
    pub fn load(engine: &BpfEngine, options: &DropOptions<'_>) -> Result<Self, Unavailable> {
        let (program, event) = drops::PROGRAM;
        let numbers = engine.numbers(&[event], &REASONS)?;
        let arguments = numbers
            .arguments
            .first()
            .copied()
            .flatten()
            .unwrap_or(ARGUMENTS_MIN);
        let [checksum_reason, netfilter_reason] = [0, 1].map(|nth| numbers.value(nth));
        // Not more than an eighth: a scan of ports makes as many as there may be.
        let parts_max = if options.by_rule {
            PARTS_MAX.min(options.keys / 8)
        } else {
            0
        };
        let treatments = options.treatments.map(|treatment| treatment as u8);
        let watch_options = WatchOptions {
            tracepoints: &[Tracepoint {
                program,
                event,
                required: true,
            }],
            ring_bytes: if options.packets { options.ring_bytes } else { 0 },
            entries: &[(drops::DROPS, options.keys)],
            in_place_entries: &[],
            constants: &[
                ("arguments", &arguments.to_ne_bytes()),
                ("treatment", &treatments),
                ("checksum_reason", &checksum_reason.to_ne_bytes()),
                ("netfilter_reason", &netfilter_reason.to_ne_bytes()),
                ("parts_max", &parts_max.to_ne_bytes()),
                ("pid_namespace", &options.pid_namespace.to_ne_bytes()),
                ("each_packet", &u32::from(options.packets).to_ne_bytes()),
            ],
        };
        let mut watch = match Watch::load(engine, &OBJECTS, &watch_options) {
            // The verifiers of kernels differ: one that does not accept reading in place may accept copying.
            Err(error @ Unavailable::Load(LoadError::Rejected(..), _)) => {
                let copying = Objects {
                    in_place: OBJECTS.by_copy,
                    ..OBJECTS
                };
                Watch::load(engine, &copying, &watch_options).map_err(|_| error)?
            }
            loaded => loaded?,
        };
        let mut table = |name| -> Result<Table, LoadError> { watch.table(name) };
        let failed = |error| Unavailable::Load(error, Vec::new());
        let counts = table(drops::DROPS).map_err(failed)?;
        let totals = table(drops::TOTALS).map_err(failed)?;
        let keys = table(drops::KEYS).map_err(failed)?;
        let every = table(drops::EVERY).map_err(failed)?;
        let spent = table(drops::SPENT).map_err(failed)?;
        Ok(Self {
            watch,
            counts,
            totals,
            keys,
            every,
            spent,
            budget: Budget::new(options.cpu_ppm_max),
            arguments,
        })
    }

    /// Attaches the program.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn attach(&mut self) -> Result<(), Unavailable> {
        self.watch.attach()
    }

    /// Compares what counting has taken since the last call with what it may take; beyond that, one of so many drops is counted from now
    /// until the next call. To be called each [`Budget::INTERVAL`].
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn keep_to_budget(&mut self) -> Result<(), Errno> {
        let spent_ns = sum_at(&self.spent, 0)?;
        if let Some(every) = self.budget.adapt(spent_ns, Instant::now()) {
            self.every
                .update(&0_u32.to_ne_bytes(), &u64::from(every).to_ne_bytes())?;
        }
        Ok(())
    }

    /// Returns the largest number of drops since the last call of which one was counted by its key: 1 if each was.
    pub const fn take_sampled_every(&mut self) -> u32 {
        self.budget.take_peak()
    }

    /// Whether this kernel gives reasons (Linux 5.17).
    #[must_use]
    pub const fn has_reasons(&self) -> bool {
        self.arguments > 2
    }

    /// Whether this kernel names the socket that a packet was for (Linux 6.11).
    #[must_use]
    pub const fn has_receivers(&self) -> bool {
        self.arguments > 3
    }

    /// Reads the counts.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn counts(&self) -> Result<DropCounts, Errno> {
        let mut counts = DropCounts::default();
        // What is counted between the reads of both maps would look evicted, or be counted twice: read again while that happens.
        for _ in 0..READ_TRIES {
            let before = self.by_reason()?;
            counts.by_key.clear();
            self.counts.each(|key, value| {
                if let Some((key, value)) = Key::read(key).zip(Counts::read(value)) {
                    counts.by_key.insert(key, value);
                }
            })?;
            counts.by_reason = self.by_reason()?;
            if counts.by_reason == before {
                break;
            }
        }
        let made = self.keys_made()?;
        counts.evicted_keys = made.saturating_sub(counts.by_key.len() as u64);
        Ok(counts)
    }

    /// Returns how many combinations were counted apart until now, with those that were evicted.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn keys_made(&self) -> Result<u64, Errno> {
        sum_at(&self.keys, 0)
    }

    fn by_reason(&self) -> Result<Vec<u64>, Errno> {
        let mut sums = vec![0; INDEXES];
        self.totals.each(|key, values| {
            let index = key.first_chunk().map(|key| u32::from_ne_bytes(*key) as usize);
            if let Some(sum) = index.and_then(|index| sums.get_mut(index)) {
                *sum += sum_of(values);
            }
        })?;
        Ok(sums)
    }

    /// Waits as [`Watch::wait`].
    ///
    /// # Errors
    /// The errno of `poll(2)`.
    pub fn wait(&self, timeout: Duration, others: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.watch.wait(timeout, others)
    }

    /// Passes the packets that are in the ring to `take`. Returns how many records were no packets.
    pub fn packets(&mut self, mut take: impl FnMut(&Packet)) -> u64 {
        let mut broken = 0;
        self.watch.read(|_, record| match Packet::read(record) {
            Some(packet) => take(&packet),
            None => broken += 1,
        });
        broken
    }

    /// Returns what became of the single packets, and how many drops the program did not see.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn accounting(&mut self) -> Result<Accounting, Errno> {
        self.watch.accounting()
    }

    /// Detaches the program and passes the last packets to `take`. The counts stay readable.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn finish(&mut self, mut take: impl FnMut(&Packet)) -> Result<Accounting, Errno> {
        self.watch.finish(|_, record| {
            if let Some(packet) = Packet::read(record) {
                take(&packet);
            }
        })
    }
}

const OBJECTS: Objects = Objects {
    in_place: include_bytes!("../../../../bpf/drops.bpf.o"),
    by_copy: include_bytes!("../../../../bpf/drops_read.bpf.o"),
};

/// Arguments of the tracepoint before Linux 5.17: packet and place.
const ARGUMENTS_MIN: u32 = 2;

/// Reasons that the program treats in its own way: a checksum that is verified when a datagram is read, and what a packet filter drops.
const REASONS: [&str; 2] = ["SKB_DROP_REASON_UDP_CSUM", "SKB_DROP_REASON_NETFILTER_DROP"];

/// Most keys by which packets for different rules of a packet filter are counted apart.
const PARTS_MAX: u32 = 1024;

/// How often the counts are read until nothing was counted meanwhile.
const READ_TRIES: u32 = 4;
