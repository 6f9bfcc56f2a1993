//! A walk over the hash tables of TCP or UDP, in slices, on as many threads as are useful.

use super::dedup::ChainDedup;
use super::kernel::{Compiled, Kernel, Prepared, Start};
use super::workers::{self, Job};
use crate::query::Announce;
use crate::quiet::QuietSocket;
use crate::unavailable::Unavailable;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use sockeye_model::{Losses, Options, WalkLayout};
use sockeye_sys::bpf::{Program, Slot};
use sockeye_wire::walk::{
    self, Found, KernelClock, Outcome, Record, Reply, Request, Table, detail, found_records, records,
};
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// The program, loaded, and its slots.
#[derive(Debug)]
pub(crate) struct Tables {
    of: TableKind,
    program: Program,
    list_nets: Program,
    slots: Mutex<Vec<Slot>>,
    kernel: WalkLayout,
    /// Whether a namespace does not lead to its tables: a socket does.
    is_found_by_socket: bool,
}

/// The tables that a program walks over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Tables of TCP
    Tcp,
    /// Tables of TCP, with a program that also reads the fields of tcp_info and congestion control; it takes a third longer
    /// to load
    TcpWithInfo,
    /// Tables of UDP
    Udp,
}

/// The statistics of a walk.
#[derive(Debug, Default)]
pub(crate) struct WalkStats {
    pub(crate) losses: Losses,
    /// Sockets that were passed on.
    pub(crate) delivered: u64,
    /// Chains that were walked again because they changed.
    pub(crate) rewalked: u64,
    /// Whether the caller stopped the walk.
    pub(crate) stopped: bool,
    /// Quiet connections, which were not passed on; a few may be there twice. Only of a walk that asks for them, and on one thread.
    pub(crate) quiet: Vec<QuietSocket>,
}

impl WalkStats {
    /// Adds those of another thread.
    fn add(&mut self, other: &Self) {
        self.losses += other.losses;
        self.delivered += other.delivered;
        self.rewalked += other.rewalked;
        self.stopped |= other.stopped;
    }
}

/// The hash tables of a namespace, and the rate of the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundTables {
    hashinfo: u64,
    /// Buckets of the table of connections, or of UDP's table.
    buckets: u32,
    listening_buckets: u32,
    pub(crate) hz: u32,
    /// When they were found: before any of their sockets is read.
    pub(crate) ktime_ns: u64,
}

impl Tables {
    pub(crate) fn load(kernel: &Kernel, of: TableKind, start: Start) -> Result<Self, Unavailable> {
        let (compiled, walk_program, tables) = match of {
            TableKind::Tcp => (TCP, "walk_tcp", "net.ipv4.tcp_death_row.hashinfo"),
            TableKind::TcpWithInfo => (TCP_INFO, "walk_tcp", "net.ipv4.tcp_death_row.hashinfo"),
            TableKind::Udp => (UDP, "walk_udp", "net.ipv4.udp_table"),
        };
        kernel.load_best(&compiled, &OPTION_ENUMERATORS, start, |prepared| {
            let kernel = walked_kernel(&prepared);
            let is_found_by_socket = prepared.missing.iter().any(|missing| missing == tables);
            let ([program, list_nets], slots) =
                prepared.load_with_slots([walk_program, "list_nets"], walk::SLOT_BYTES)?;
            Ok(Self {
                of,
                program,
                list_nets,
                slots: Mutex::new(slots),
                kernel,
                is_found_by_socket,
            })
        })
    }

    /// Finds the tables that the calling thread's network namespace uses.
    pub(crate) fn find(&self) -> Result<FoundTables, Unavailable> {
        self.look(0)
    }

    /// Reads the sizes of these tables; 0 means those of our own namespace.
    fn look(&self, hashinfo: u64) -> Result<FoundTables, Unavailable> {
        let kind = if self.of == TableKind::Udp {
            SocketType::DGRAM
        } else {
            SocketType::STREAM
        };
        let socket = if hashinfo == 0 && self.is_found_by_socket {
            Some(rustix::net::socket(AddressFamily::INET, kind, None).map_err(Unavailable::Run)?)
        } else {
            None
        };
        let look = |table| self.look_at(table, hashinfo, socket.as_ref().map(AsFd::as_fd));
        let (main, listening_buckets) = match self.of {
            TableKind::Udp => (look(Table::Udp)?, 0),
            TableKind::Tcp | TableKind::TcpWithInfo => {
                (look(Table::Established)?, look(Table::Listening)?.buckets)
            }
        };
        Ok(FoundTables {
            hashinfo: main.hashinfo,
            buckets: main.buckets,
            listening_buckets,
            ktime_ns: main.ktime_ns,
            hz: walk::hz(main.jiffies, main.ktime_ns)
                .ok_or(Unavailable::UnexpectedReply("the clock ticks at no known rate"))?,
        })
    }

    /// Finds the tables of all network namespaces. Nearly all namespaces share one.
    pub(crate) fn find_all(&self) -> Result<Vec<FoundTables>, Unavailable> {
        let first = self.find()?;
        let mut slots = self.lock();
        let slot = slots
            .first_mut()
            .ok_or(Unavailable::UnexpectedReply("no slots"))?;
        let mut request = Request::ALL;
        let mut hashinfos = vec![first.hashinfo];
        loop {
            let reply = run(&self.list_nets, slot, &request, 0, None)?;
            for net in walk::nets(slot.bytes(), &reply) {
                if net.hashinfo != 0 && !hashinfos.contains(&net.hashinfo) {
                    hashinfos.push(net.hashinfo);
                }
            }
            if reply.outcome != Outcome::Full {
                break;
            }
            if reply.skip <= request.skip {
                return Err(Unavailable::UnexpectedReply("it does not get on"));
            }
            request.skip = reply.skip;
        }
        drop(slots);
        let mut all = vec![first];
        for hashinfo in hashinfos.into_iter().skip(1) {
            match self.look(hashinfo) {
                Ok(found) => all.push(found),
                // Its namespace is gone.
                Err(Unavailable::Lacks(_)) => {}
                Err(unavailable) => return Err(unavailable),
            }
        }
        Ok(all)
    }

    /// Returns the layout of this kernel's records.
    pub(crate) fn kernel(&self) -> WalkLayout {
        self.kernel
    }

    /// Reads the size of one table without walking over it. `socket`: one of the protocol, to find the tables by.
    fn look_at(
        &self,
        table: Table,
        hashinfo: u64,
        socket: Option<BorrowedFd<'_>>,
    ) -> Result<Reply, Unavailable> {
        let mut slots = self.lock();
        let slot = slots
            .first_mut()
            .ok_or(Unavailable::UnexpectedReply("no slots"))?;
        let request = Request {
            table,
            end: 0,
            ..Request::ALL
        };
        run(&self.program, slot, &request, hashinfo, socket)
    }

    /// Walks over the table of `request` and passes each socket to `take`, once. Records with an inode are announced before. With `threads`,
    /// other threads take a part of them.
    pub(crate) fn walk(
        &self,
        found: &FoundTables,
        request: &Request,
        walked: &mut WalkStats,
        announce: Option<&dyn Announce>,
        take: Take<'_>,
        threads: Option<&dyn RecordThreads>,
    ) -> Result<(), Unavailable> {
        let buckets = match request.table {
            Table::Established | Table::Udp => found.buckets,
            Table::Listening => found.listening_buckets,
            // Rarely needed, so its size is read here.
            Table::Bound => self.look_at(Table::Bound, found.hashinfo, None)?.buckets,
        };
        let end = buckets.min(request.end);
        let work = Work {
            program: &self.program,
            request: *request,
            hashinfo: found.hashinfo,
            end,
            slice: (end / SLICES).max(SLICE_BUCKETS_MIN),
            next: AtomicU32::new(request.first),
            stopped: AtomicBool::new(false),
        };
        // Other threads wait for the slots.
        let mut slots = self.lock();
        work.run(
            &mut slots,
            &mut Reader {
                take,
                hz: found.hz,
                walked,
                seen: ChainDedup::default(),
                announce: announce.filter(|_| request.detail & detail::INODE != 0),
            },
            threads,
        )
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a record, and when its run began.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&Record<'_>, KernelClock) -> ControlFlow<()>;

/// Takes records on several threads at once.
pub(crate) trait RecordThreads: Sync {
    /// Whether other threads may begin.
    fn may_begin(&self) -> bool;

    /// Passes `read`, once, what takes the records of the calling thread.
    fn on_thread(&self, read: &mut dyn FnMut(Take<'_>));
}

/// A walk over one table.
struct Work<'a> {
    program: &'a Program,
    request: Request,
    hashinfo: u64,
    end: u32,
    slice: u32,
    /// The first bucket that no thread has taken.
    next: AtomicU32,
    /// Set when the caller stopped the walk.
    stopped: AtomicBool,
}

/// The rest of the buckets that one thread walks over.
#[derive(Default)]
struct WalkState {
    left: Option<(Range<u32>, u32)>,
}

/// The reply of a run, and the bucket that it continued, if that did not fit into the run before.
type Run = (Reply, Option<u32>);

impl Work<'_> {
    /// Walks and reads alternately on this thread. If there is much to read and another core, other threads do the same, or one walks
    /// ahead.
    fn run(
        &self,
        slots: &mut Vec<Slot>,
        reader: &mut Reader<'_>,
        threads: Option<&dyn RecordThreads>,
    ) -> Result<(), Unavailable> {
        let mut own = slots.pop().ok_or(Unavailable::UnexpectedReply("no slots"))?;
        let mut state = WalkState::default();
        let outcome = self.fill(&mut state, &mut own).and_then(|first| {
            let Some(first) = first else { return Ok(()) };
            self.read(&own, &first, reader);
            let bytes = u64::from(first.0.used) * u64::from(self.end / self.slice.max(1));
            // The number of cores is read from several files.
            let cores = if bytes > WORTH_A_THREAD_BYTES {
                thread::available_parallelism().map_or(1, usize::from)
            } else {
                1
            };
            let is_worth_a_thread = cores > 1;
            if let Some(threads) = threads.filter(|_| is_worth_a_thread) {
                return self.run_on_threads(state, &mut own, slots, reader, threads, cores);
            }
            let workers = usize::from(is_worth_a_thread);
            let read = &mut |slot: &Slot, run: &Run| self.read(slot, run, reader);
            workers::run(self, state, workers, &mut own, slots, read).map(drop)
        });
        slots.push(own);
        outcome
    }

    /// Walks and reads on several threads, as soon as the others may begin: each reads what it found itself, so that nothing is handed
    /// over, and what a run wrote is read from the cache of the same core.
    fn run_on_threads(
        &self,
        mut state: WalkState,
        own: &mut Slot,
        slots: &mut Vec<Slot>,
        reader: &mut Reader<'_>,
        threads: &dyn RecordThreads,
        cores: usize,
    ) -> Result<(), Unavailable> {
        let (hz, announce) = (reader.hz, reader.announce);
        let free = Mutex::new(std::mem::take(slots));
        let lock = || free.lock().unwrap_or_else(PoisonError::into_inner);
        let others_max = lock().len().min(cores - 1);
        let other = || {
            let mut walked = WalkStats::default();
            let mut outcome = Ok(());
            let taken = lock().pop();
            let Some(mut slot) = taken else {
                return (walked, outcome);
            };
            threads.on_thread(&mut |take| {
                let reader = &mut Reader {
                    take,
                    hz,
                    walked: &mut walked,
                    seen: ChainDedup::default(),
                    announce,
                };
                outcome = self.read_all(&mut WalkState::default(), &mut slot, reader, &mut || {});
            });
            lock().push(slot);
            (walked, outcome)
        };
        let (outcome, others) = thread::scope(|scope| {
            let mut others = Vec::new();
            let outcome = self.read_all(&mut state, own, reader, &mut || {
                if others.is_empty() && threads.may_begin() {
                    // Without threads this one reads everything.
                    let started =
                        (0..others_max).map_while(|_| thread::Builder::new().spawn_scoped(scope, other).ok());
                    others.extend(started);
                }
            });
            let others: Vec<_> = others
                .into_iter()
                .map(|other| {
                    other
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect();
            (outcome, others)
        });
        *slots = std::mem::take(&mut *lock());
        others.into_iter().fold(outcome, |outcome, (walked, other)| {
            reader.walked.add(&walked);
            outcome.and(other)
        })
    }

    /// Walks over the next slices and reads them, until none is left. Calls `between` before each.
    fn read_all(
        &self,
        state: &mut WalkState,
        slot: &mut Slot,
        reader: &mut Reader<'_>,
        between: &mut dyn FnMut(),
    ) -> Result<(), Unavailable> {
        loop {
            between();
            match self.fill(state, slot) {
                Ok(Some(run)) => self.read(slot, &run, reader),
                Ok(None) => return Ok(()),
                Err(unavailable) => {
                    self.stop();
                    return Err(unavailable);
                }
            }
        }
    }

    fn read(&self, slot: &Slot, run: &Run, reader: &mut Reader<'_>) {
        if reader.read(slot.bytes(), run).is_break() {
            self.stop();
        }
    }
}

impl Job for Work<'_> {
    type State = WalkState;
    type Reply = Run;

    fn fill(&self, state: &mut WalkState, slot: &mut Slot) -> Result<Option<Run>, Unavailable> {
        if self.stopped.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (range, skip) = state.left.take().unwrap_or_else(|| {
            let first = self.next.fetch_add(self.slice, Ordering::Relaxed).min(self.end);
            (first..first.saturating_add(self.slice).min(self.end), 0)
        });
        if range.is_empty() {
            // Keeps the counter from wrapping around.
            self.next.store(self.end, Ordering::Relaxed);
            return Ok(None);
        }
        let request = Request {
            first: range.start,
            end: range.end,
            skip,
            ..self.request
        };
        let reply = run(self.program, slot, &request, self.hashinfo, None)?;
        if reply.outcome == Outcome::Full {
            if reply.next < range.start || (reply.next, reply.skip) <= (range.start, skip) {
                return Err(Unavailable::UnexpectedReply("it does not get on"));
            }
            state.left = Some((reply.next..range.end, reply.skip));
        }
        Ok(Some((reply, (skip > 0).then_some(range.start))))
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Passes on the sockets of each run.
struct Reader<'a> {
    take: Take<'a>,
    hz: u32,
    walked: &'a mut WalkStats,
    seen: ChainDedup,
    /// What the inodes of the next records are announced to.
    announce: Option<&'a dyn Announce>,
}

impl Reader<'_> {
    fn read(&mut self, slot: &[u8], (reply, continued): &Run) -> ControlFlow<()> {
        self.walked.losses.unsettled_chains += u64::from(reply.given_up) + u64::from(reply.overlong);
        self.walked.rewalked += u64::from(reply.again);
        if self.walked.stopped {
            return ControlFlow::Break(());
        }
        let now = KernelClock {
            hz: self.hz,
            jiffies: reply.jiffies,
            ktime_ns: reply.ktime_ns,
        };
        let mut all = found_records(slot, reply);
        let mut ahead = records(slot, reply);
        let mut announced = 0;
        let mut is_overlapping = continued.is_none();
        for found in &mut all {
            let (bucket, identity) = match found {
                Found::Whole(record) => (record.bucket(), record.identity()),
                Found::Quiet(quiet) => (quiet.bucket, quiet.identity),
            };
            if let (Some(announce), Found::Whole(_)) = (self.announce, found) {
                if announced == 0 {
                    let mut inodes = [0; ANNOUNCED];
                    for (inode, record) in inodes.iter_mut().zip(&mut ahead) {
                        *inode = record.inode();
                        announced += 1;
                    }
                    announce.announce(&inodes[..announced]);
                }
                announced -= 1;
            }
            let is_new = self.seen.insert(bucket, identity);
            is_overlapping |= !is_new && *continued == Some(bucket);
            if !is_overlapping {
                // More sockets have left the chain than the runs overlap: some behind them were skipped.
                self.walked.losses.unsettled_chains += 1;
                is_overlapping = true;
            }
            if !is_new {
                continue;
            }
            self.walked.delivered += 1;
            let record = match found {
                Found::Whole(record) => record,
                Found::Quiet(quiet) => {
                    self.walked.quiet.push(QuietSocket::of(&quiet));
                    continue;
                }
            };
            if (self.take)(&record, now).is_break() {
                self.walked.stopped = true;
                return ControlFlow::Break(());
            }
        }
        self.walked.losses.unsettled_chains += u64::from(!is_overlapping);
        self.walked.losses.broken_records += u64::from(all.is_broken());
        if reply.outcome == Outcome::Full && reply.skip > 0 {
            self.seen.suspend();
        }
        ControlFlow::Continue(())
    }
}

/// Returns the layout of the records of a program that was prepared with [`OPTION_ENUMERATORS`].
pub(super) fn walked_kernel(prepared: &Prepared<'_>) -> WalkLayout {
    // A program reports 0 for a field that the kernel lacks.
    let has = |field: &str| !prepared.missing.iter().any(|missing| missing == field);
    WalkLayout {
        option_bits: if has("inet_sock.inet_flags") {
            option_bits(&prepared.enumerators)
        } else {
            // Before Linux 6.6 they were fields, which the program puts in the order of the names.
            let is_read = prepared.is_copying && OPTION_FIELDS.iter().all(|field| has(field));
            is_read.then(|| std::array::from_fn(|bit| bit as u8))
        },
        has_cgroups: has("sock.sk_cgrp_data.cgroup")
            // Before Linux 5.15.
            || (prepared.is_copying && has("sock.sk_cgrp_data.val")),
        service_class: false,
        netns: false,
    }
}

/// Returns the bit of `inet_flags` of each option, from the values of [`OPTION_ENUMERATORS`]; `None` if one is missing.
fn option_bits(enumerators: &[Option<i64>]) -> Option<[u8; Options::NAMES.len()]> {
    let bits: Vec<u8> = enumerators
        .iter()
        .filter_map(|value| u8::try_from((*value)?).ok())
        .collect();
    bits.try_into().ok()
}

/// Job the program once.
fn run(
    program: &Program,
    slot: &mut Slot,
    request: &Request,
    hashinfo: u64,
    socket: Option<BorrowedFd<'_>>,
) -> Result<Reply, Unavailable> {
    request.write(slot.bytes_mut());
    // No process has so many descriptors.
    let descriptor = socket.map_or(u64::from(u32::MAX), |socket| socket.as_raw_fd() as u64);
    program
        .run(slot, &[hashinfo, descriptor])
        .map_err(Unavailable::Run)?;
    let reply = Reply::read(slot.bytes()).ok_or(Unavailable::UnexpectedReply("a short slot"))?;
    match reply.outcome {
        Outcome::Done | Outcome::Full => Ok(reply),
        Outcome::NoTable => Err(Unavailable::Lacks("such a table of sockets")),
        Outcome::Unreadable => Err(Unavailable::Run(Errno::FAULT)),
        Outcome::TooManySteps => Err(Unavailable::UnexpectedReply(
            "what it walks over is no table of sockets",
        )),
        Outcome::Unknown(_) => Err(Unavailable::UnexpectedReply("an outcome that it does not know")),
    }
}

/// The compiled `bpf/tcp.bpf.c`.
const TCP: Compiled = Compiled {
    in_place: include_bytes!("../../../../../bpf/tcp.bpf.o"),
    by_copy: include_bytes!("../../../../../bpf/tcp_read.bpf.o"),
};
/// The compiled `bpf/tcp_info.bpf.c`: the same program with tcp_info.
const TCP_INFO: Compiled = Compiled {
    in_place: include_bytes!("../../../../../bpf/tcp_info.bpf.o"),
    by_copy: include_bytes!("../../../../../bpf/tcp_info_read.bpf.o"),
};
/// The compiled `bpf/udp.bpf.c`.
const UDP: Compiled = Compiled {
    in_place: include_bytes!("../../../../../bpf/udp.bpf.o"),
    by_copy: include_bytes!("../../../../../bpf/udp_read.bpf.o"),
};

/// `inet_flags` in the order of [`Options::NAMES`] (include/net/inet_sock.h, Linux 6.6).
pub(super) const OPTION_ENUMERATORS: [&str; Options::NAMES.len()] = [
    "INET_FLAGS_RECVERR",
    "INET_FLAGS_IS_ICSK",
    "INET_FLAGS_FREEBIND",
    "INET_FLAGS_HDRINCL",
    "INET_FLAGS_MC_LOOP",
    "INET_FLAGS_TRANSPARENT",
    "INET_FLAGS_MC_ALL",
    "INET_FLAGS_NODEFRAG",
    "INET_FLAGS_BIND_ADDRESS_NO_PORT",
    "INET_FLAGS_RECVERR_RFC4884",
    "INET_FLAGS_DEFER_CONNECT",
];

/// What `take_options` of bpf/socket.h checks before it reads the options of a kernel before 6.6.
const OPTION_FIELDS: [&str; 3] = [
    "inet_sock.recverr",
    "inet_sock.defer_connect",
    "inet_sock.recverr_rfc4884",
];

/// Number of runs per table. Each holds the RCU read lock, with 100,000 sockets for about half a millisecond.
const SLICES: u32 = 64;
const SLICE_BUCKETS_MIN: u32 = 2048;

/// Records whose inodes are announced together.
const ANNOUNCED: usize = 16;

/// Fewer bytes of records are read before another thread has started.
const WORTH_A_THREAD_BYTES: u64 = 512 * 1024;
