//! One end of a transfer: its threads, and the monitor that samples them.

use super::control::{Control, Counters};
use super::host_snapshot::HostSnapshot;
use super::plan::{Plan, Until};
use super::progress::Progress;
use super::tcp::{ThreadOutcome, receive_tcp, send_tcp};
use super::udp::{receive_udp, send_udp};
use super::watch::{Watch, tcp_info};
use crate::affinity::pin_thread;
use crate::session::{DataSocket, Error};
use crate::transport::Transport;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::thread::{CpuSet, sched_setaffinity};
use sockeye_measure::{Datagrams, End, Interval, Side, StreamTransfer};
use sockeye_sys::{ProcessorTime, tcp};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// One stream in one direction.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) number: u16,
    /// Whether this end sends.
    pub(super) is_sent: bool,
    pub(super) data: DataSocket,
}

/// Results of one end.
#[derive(Debug, Default)]
pub(super) struct EndReport {
    pub(super) streams: Vec<StreamTransfer>,
    pub(super) intervals: Vec<Interval>,
    pub(super) end: End,
    /// The first error of a stream.
    pub(super) error: Option<Error>,
}

/// What the caller of [`run`] wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// Go on.
    Continue,
    /// Senders end, receivers take what is in flight.
    Finish,
    /// All threads end at once.
    Abort,
}

/// State of a running transfer.
pub(super) struct Snapshot<'a> {
    /// Set once per interval.
    pub(super) progress: Option<Progress>,
    /// All senders of this end are done.
    pub(super) has_sent: bool,
    /// All threads are done
    pub(super) is_done: bool,
    /// Since the start.
    pub(super) elapsed: Duration,
    streams: &'a [Stream],
    counters: &'a [Counters],
}

impl Snapshot<'_> {
    /// Returns the bytes of all streams.
    pub(super) fn moved(&self) -> u64 {
        self.counters.iter().map(Counters::bytes).sum()
    }

    /// Returns per received stream: number, bytes, and time of the last byte in microseconds.
    pub(super) fn received(&self) -> impl Iterator<Item = (u16, u64, u64)> {
        let all = self.streams.iter().zip(self.counters);
        all.filter(|(stream, _)| !stream.is_sent)
            .map(|(stream, counters)| {
                let last_us = counters.last_us.load(Ordering::Relaxed);
                (stream.number, counters.bytes(), last_us)
            })
    }
}

/// Moves bytes until the plan is fulfilled. Calls `each` repeatedly, which takes about [`TICK`] each time.
pub(super) fn run(
    plan: &Plan,
    streams: &[Stream],
    each: &mut dyn FnMut(&Snapshot<'_>) -> Command,
) -> Result<EndReport, Error> {
    let mss = streams.iter().find_map(|stream| mss(&stream.data));
    let length = plan.length(mss);
    let block = block(if plan.transport == Transport::Tcp {
        length
    } else {
        0
    });
    let control = Control::new(match plan.until {
        Until::Bytes(bytes) => Some(bytes),
        Until::Time(_) => None,
    });
    let counters: Vec<Counters> = streams.iter().map(|_| Counters::default()).collect();
    let host_before = HostSnapshot::now();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (stream, counters) in streams.iter().zip(&counters) {
            let (control, block) = (&control, &block);
            let spawned = std::thread::Builder::new()
                .name("stream".to_owned())
                .spawn_scoped(scope, move || {
                    pin_thread(plan.our_processor);
                    match (&stream.data, stream.is_sent) {
                        (DataSocket::Tcp(socket), true) => send_tcp(socket, block, control, counters),
                        (DataSocket::Tcp(socket), false) => {
                            receive_tcp(socket, length, plan.skips_copy, control, counters)
                        }
                        (DataSocket::Udp(socket), true) => {
                            send_udp(socket, length, plan.rate, control, counters)
                        }
                        (DataSocket::Udp(socket), false) => receive_udp(socket, control, counters),
                    }
                });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // Threads that wait for the start end.
                    control.abort();
                    control.start();
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                    return Err(Error::System("start a thread for each stream", errno));
                }
            }
        }
        let mut monitor = Monitor::new(plan, streams, &counters, &control);
        monitor.run(&threads, each);
        let wall = monitor.beginning.elapsed();
        monitor.sample();
        let outcomes: Vec<ThreadOutcome> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default())
            .collect();
        Ok(monitor.into_report(outcomes, wall, &host_before))
    })
}

/// Samples the threads while they work.
struct Monitor<'a> {
    plan: &'a Plan,
    streams: &'a [Stream],
    counters: &'a [Counters],
    control: &'a Control,
    watches: Vec<Option<Watch>>,
    beginning: Instant,
    own_cpu: ProcessorTime,
    /// Omitted bytes of each stream, and when the omitted time ended.
    omitted: Option<(Vec<u64>, Duration)>,
    /// Start of the current interval, and the counters at that time.
    interval_from: Duration,
    interval_bytes: Vec<u64>,
    interval_retransmitted: u64,
    interval_lost: u64,
    intervals: Vec<Interval>,
    /// The socket that is sampled next.
    next_sampled: usize,
}

impl<'a> Monitor<'a> {
    fn new(plan: &'a Plan, streams: &'a [Stream], counters: &'a [Counters], control: &'a Control) -> Self {
        let watches = streams
            .iter()
            .map(|stream| match (&stream.data, stream.is_sent) {
                (DataSocket::Tcp(socket), true) => Watch::new(socket),
                _ => None,
            })
            .collect();
        let own_cpu = ProcessorTime::of_this_thread();
        Self {
            plan,
            streams,
            counters,
            control,
            watches,
            beginning: control.start(),
            own_cpu,
            omitted: None,
            interval_from: Duration::ZERO,
            interval_bytes: vec![0; streams.len()],
            interval_retransmitted: 0,
            interval_lost: 0,
            intervals: Vec::new(),
            next_sampled: 0,
        }
    }

    fn run(
        &mut self,
        threads: &[ScopedJoinHandle<'_, ThreadOutcome>],
        each: &mut dyn FnMut(&Snapshot<'_>) -> Command,
    ) {
        let end = match self.plan.until {
            Until::Time(time) => Some(time + self.plan.omit),
            Until::Bytes(_) => None,
        };
        let mut finishing_since: Option<Instant> = None;
        loop {
            let is_done = threads.iter().all(ScopedJoinHandle::is_finished);
            let senders_done = threads
                .iter()
                .zip(self.streams)
                .all(|(thread, stream)| !stream.is_sent || thread.is_finished());
            let elapsed = self.beginning.elapsed();
            let progress = (is_done || elapsed >= self.interval_from + self.plan.interval)
                .then(|| self.close_interval(elapsed))
                .flatten();
            let command = each(&Snapshot {
                progress,
                has_sent: senders_done,
                is_done,
                elapsed,
                streams: self.streams,
                counters: self.counters,
            });
            if is_done {
                return;
            }
            self.sample_some();
            let elapsed = self.beginning.elapsed();
            if self.omitted.is_none() && !self.plan.omit.is_zero() && elapsed >= self.plan.omit {
                self.omit(elapsed);
            }
            if command != Command::Continue || end.is_some_and(|end| elapsed >= end) {
                self.control.finish();
                let since = *finishing_since.get_or_insert_with(Instant::now);
                if command == Command::Abort || since.elapsed() >= GRACE {
                    self.abort();
                }
            }
        }
    }

    fn abort(&self) {
        self.control.abort();
        for stream in self.streams {
            if let DataSocket::Tcp(socket) = &stream.data {
                // Wakes up a thread that waits in it.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
    }

    fn omit(&mut self, elapsed: Duration) {
        let bytes = self.counters.iter().map(Counters::bytes).collect();
        self.omitted = Some((bytes, elapsed));
        for (watch, stream) in self.watches.iter_mut().zip(self.streams) {
            if let (Some(watch), DataSocket::Tcp(socket)) = (watch, &stream.data) {
                watch.restart(socket);
            }
        }
    }

    fn sample(&mut self) {
        for (watch, stream) in self.watches.iter_mut().zip(self.streams) {
            if let (Some(watch), DataSocket::Tcp(socket)) = (watch, &stream.data) {
                watch.sample(socket);
            }
        }
    }

    /// Samples as many sockets as is cheap. More of them take turns.
    fn sample_some(&mut self) {
        let count = self.streams.len();
        for _ in 0..count.min(SAMPLED_AT_ONCE) {
            let at = self.next_sampled % count;
            if let (Some(watch), DataSocket::Tcp(socket)) = (&mut self.watches[at], &self.streams[at].data) {
                watch.sample(socket);
            }
            self.next_sampled = (at + 1) % count;
        }
    }

    /// Records the interval that ends now; `None` if it is too short to be useful.
    fn close_interval(&mut self, elapsed: Duration) -> Option<Progress> {
        let span = elapsed.checked_sub(self.interval_from)?;
        if span * 10 < self.plan.interval && !self.intervals.is_empty() {
            return None;
        }
        let bytes: Vec<u64> = self.counters.iter().map(Counters::bytes).collect();
        if span < self.plan.interval && bytes == self.interval_bytes {
            // The transfer was over before.
            return None;
        }
        let mut progress = Progress {
            elapsed,
            ..Progress::default()
        };
        for is_sent in [true, false] {
            let of = |index: &usize| self.streams[*index].is_sent == is_sent;
            let indexes: Vec<usize> = (0..self.streams.len()).filter(of).collect();
            if indexes.is_empty() {
                continue;
            }
            let moved: u64 = indexes
                .iter()
                .map(|&index| bytes[index] - self.interval_bytes[index])
                .sum();
            let rate = moved as f64 / span.as_secs_f64();
            let mut interval = Interval {
                from_us: us(self.interval_from),
                until_us: us(elapsed),
                is_sent,
                bytes: moved,
                ..Interval::default()
            };
            if is_sent {
                progress.sent_bytes_per_s = Some(rate);
                self.describe_path(&mut interval, &mut progress);
            } else {
                progress.received_bytes_per_s = Some(rate);
                if self.plan.transport == Transport::Udp {
                    let lost = self
                        .counters
                        .iter()
                        .map(|counters| counters.lost.load(Ordering::Relaxed))
                        .sum();
                    // A late datagram reduces the number.
                    interval.lost_datagrams = Some(u64::saturating_sub(lost, self.interval_lost));
                    self.interval_lost = lost;
                }
            }
            if self.intervals.len() < INTERVALS_MAX {
                self.intervals.push(interval);
            }
        }
        self.interval_from = elapsed;
        self.interval_bytes = bytes;
        Some(progress)
    }

    fn describe_path(&mut self, interval: &mut Interval, progress: &mut Progress) {
        let watches: Vec<&Watch> = self.watches.iter().flatten().collect();
        if watches.is_empty() {
            return;
        }
        let total = watches
            .iter()
            .filter_map(|watch| watch.retransmitted())
            .sum::<u64>();
        // The count restarts after the omitted time.
        interval.retransmitted_segs = Some(total.saturating_sub(self.interval_retransmitted));
        let paths: Vec<_> = watches.iter().map(|watch| watch.path()).collect();
        let rtts: Vec<u64> = paths.iter().filter_map(|(rtt, _)| *rtt).collect();
        interval.rtt_us = (!rtts.is_empty()).then(|| rtts.iter().sum::<u64>() / rtts.len() as u64);
        interval.cwnd_bytes = paths
            .iter()
            .filter_map(|(_, cwnd)| *cwnd)
            .reduce(u64::saturating_add);
        progress.retransmitted_segs = Some(total);
        progress.rtt_us = interval.rtt_us;
        self.interval_retransmitted = total;
    }

    fn into_report(
        self,
        outcomes: Vec<ThreadOutcome>,
        wall: Duration,
        host_before: &HostSnapshot,
    ) -> EndReport {
        let mut report = EndReport {
            intervals: self.intervals,
            ..EndReport::default()
        };
        let (omitted, omitted_time) = self.omitted.unwrap_or_default();
        let all_bytes = self.counters.iter().map(Counters::bytes).sum();
        let (work, devices) = host_before.since(all_bytes);
        report.end.work = work;
        report.end.devices = devices;
        let own = ProcessorTime::of_this_thread().since(&self.own_cpu);
        let (mut user, mut system) = (own.user, own.system);
        let mut busiest = None;
        for (index, outcome) in outcomes.into_iter().enumerate() {
            let (stream, counters) = (&self.streams[index], &self.counters[index]);
            user += outcome.cpu.user;
            system += outcome.cpu.system;
            let share = permille(outcome.cpu.total(), outcome.wall);
            busiest = busiest.max(share);
            let side = Side {
                bytes: Some(counters.bytes() - omitted.get(index).copied().unwrap_or(0)),
                elapsed_us: Some(
                    counters
                        .last_us
                        .load(Ordering::Relaxed)
                        .saturating_sub(us(omitted_time)),
                )
                .filter(|&us| us > 0),
                cpu_user_us: Some(us(outcome.cpu.user)),
                cpu_system_us: Some(us(outcome.cpu.system)),
                cpu_waited_us: outcome.waited.map(us),
                cpu_wall_us: Some(us(outcome.wall)),
                cpu_bytes: Some(counters.bytes()),
                calls: Some(counters.calls.load(Ordering::Relaxed)),
            };
            let (local, peer) = addresses(&stream.data);
            let is_udp = matches!(stream.data, DataSocket::Udp(_));
            report.streams.push(StreamTransfer {
                number: stream.number,
                is_sent: stream.is_sent,
                local,
                peer,
                sent: stream.is_sent.then_some(side),
                received: (!stream.is_sent).then_some(side),
                sender: self.watches[index].as_ref().map(Watch::summary),
                datagrams: is_udp.then(|| datagrams(counters, stream.is_sent)),
            });
            report.error = report.error.or(outcome.error);
        }
        let work = &mut report.end.work;
        work.cpu_user_us = Some(us(user));
        work.cpu_system_us = Some(us(system));
        work.wall_us = Some(us(wall));
        work.bytes = Some(all_bytes);
        work.busiest_thread_permille = busiest;
        let sockets = self.streams.iter().filter_map(|stream| match &stream.data {
            DataSocket::Tcp(socket) => Some(socket),
            DataSocket::Udp(_) => None,
        });
        work.rcvbuf_bytes = sockets
            .clone()
            .filter_map(|socket| sockopt::socket_recv_buffer_size(socket).ok())
            .map(|bytes| bytes as u64)
            .min();
        report.end.congestion = sockets
            .clone()
            .find_map(|socket| sockopt::tcp_congestion(socket).ok());
        report.end.program = Some(concat!("sockeye ", env!("CARGO_PKG_VERSION")).to_owned());
        report
    }
}

fn datagrams(counters: &Counters, is_sent: bool) -> Datagrams {
    let of = |counter: &std::sync::atomic::AtomicU64| Some(counter.load(Ordering::Relaxed));
    if is_sent {
        return Datagrams {
            sent: of(&counters.datagrams),
            refused_locally: of(&counters.refused),
            ..Datagrams::default()
        };
    }
    Datagrams {
        received: of(&counters.datagrams),
        lost: of(&counters.lost),
        reordered: of(&counters.reordered),
        jitter_us: of(&counters.jitter_ns).map(|ns| ns / 1000),
        ..Datagrams::default()
    }
}

/// Sets the options of the plan on a socket, before it is connected or after it was accepted.
pub(super) fn prepare(plan: &Plan, socket: BorrowedFd<'_>) -> Result<(), Error> {
    let failed = |operation| move |errno: Errno| Error::System(operation, errno);
    if let Some(window) = plan.window {
        sockopt::set_socket_send_buffer_size(socket, window).map_err(failed("set SO_SNDBUF"))?;
        sockopt::set_socket_recv_buffer_size(socket, window).map_err(failed("set SO_RCVBUF"))?;
    }
    if plan.transport == Transport::Tcp {
        if let Some(name) = &plan.congestion {
            set_congestion(socket, name)?;
        }
        if let Some(rate) = plan.rate {
            tcp::set_max_pacing_rate(socket, rate).map_err(failed("set SO_MAX_PACING_RATE"))?;
        }
    }
    Ok(())
}

/// Checks that the options of the plan can be set.
pub(super) fn try_options(plan: &Plan) -> Result<(), Error> {
    let kind = match plan.transport {
        Transport::Tcp => SocketType::STREAM,
        Transport::Udp => SocketType::DGRAM,
    };
    let socket = rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)
        .or_else(|_| rustix::net::socket_with(AddressFamily::INET6, kind, SocketFlags::CLOEXEC, None))
        .map_err(|errno| Error::System("open a socket", errno))?;
    prepare(plan, socket.as_fd())?;
    check_processor(plan.our_processor)
}

/// Sets the congestion control of a TCP socket.
///
/// # Errors
/// If it does not exist, or is not permitted; the error lists the available ones.
pub fn set_congestion(socket: BorrowedFd<'_>, name: &str) -> Result<(), Error> {
    sockopt::set_tcp_congestion(socket, name).map_err(|errno| {
        let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let known = std::fs::read_to_string(file).unwrap_or_default();
        let known = known.split_ascii_whitespace().collect::<Vec<_>>().join(", ");
        Error::Congestion {
            name: name.to_owned(),
            errno,
            known,
        }
    })
}

fn cpu_set(processor: usize) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    (processor < CpuSet::MAX_CPU).then(|| set.set(processor))?;
    Some(set)
}

/// Checks that threads can be pinned to this processor.
fn check_processor(processor: Option<usize>) -> Result<(), Error> {
    let Some(processor) = processor else {
        return Ok(());
    };
    // On a thread that ends, so that ours is not pinned.
    let tried = std::thread::spawn(move || {
        let set = cpu_set(processor).ok_or(Errno::INVAL)?;
        sched_setaffinity(None, &set)
    });
    match tried.join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Error::NoProcessor(processor)),
    }
}

fn mss(data: &DataSocket) -> Option<usize> {
    match data {
        DataSocket::Tcp(socket) => tcp_info(socket.as_fd())
            .ok()?
            .snd_mss_bytes
            .map(|mss| mss as usize),
        DataSocket::Udp(_) => None,
    }
}

fn addresses(data: &DataSocket) -> (Option<SocketAddr>, Option<SocketAddr>) {
    match data {
        DataSocket::Tcp(socket) => (socket.local_addr().ok(), socket.peer_addr().ok()),
        DataSocket::Udp(socket) => (socket.local_addr().ok(), socket.peer_addr().ok()),
    }
}

/// Returns incompressible bytes: Marsaglia's xorshift, always from the same seed.
fn block(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn permille(part: Duration, whole: Duration) -> Option<u64> {
    let whole = whole.as_nanos();
    (whole > 0).then(|| u64::try_from(part.as_nanos() * 1000 / whole).unwrap_or(u64::MAX))
}

/// Interval of samples.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// Most sockets that are sampled in each interval.
const SAMPLED_AT_ONCE: usize = 32;
/// Time for data in flight to arrive.
const GRACE: Duration = Duration::from_secs(2);
/// Most intervals in a report: a day of seconds in two directions.
const INTERVALS_MAX: usize = 2 * 86_400;
