//! One end of a transfer: its threads, its clock, and who looks on.

use super::Progress;
use super::course::{Course, Meter};
use super::datagrams::{receive_udp, send_udp};
use super::lane::{Ending, receive_tcp, send_tcp};
use super::plan::{Plan, Transport, Until};
use super::surroundings::Surroundings;
use super::watch::{Watch, look};
use crate::session::{Data, Trouble};
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

/// What carries one stream one way.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) number: u16,
    /// Whether we send
    pub(super) is_sent: bool,
    pub(super) data: Data,
}

/// What one end saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) lanes: Vec<StreamTransfer>,
    pub(super) intervals: Vec<Interval>,
    pub(super) end: End,
    /// The first of the streams' troubles
    pub(super) trouble: Option<Trouble>,
}

/// What who looks on wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing in particular
    GoOn,
    /// It is over: senders end, receivers take what is still under way
    WindUp,
    /// It is over, now
    Abandon,
}

/// How it stands, for who looks on.
pub(super) struct View<'a> {
    /// Told once an interval
    pub(super) progress: Option<Progress>,
    /// Nobody here sends any more
    pub(super) has_sent: bool,
    /// Everybody is done: there is no more to be seen
    pub(super) is_done: bool,
    /// Since the beginning
    pub(super) elapsed: Duration,
    tracks: &'a [Track],
    meters: &'a [Meter],
}

impl View<'_> {
    /// Numbers of the streams that we receive, with bytes, and with the time when the last of these came.
    pub(super) fn received(&self) -> impl Iterator<Item = (u16, u64, u64)> {
        let all = self.tracks.iter().zip(self.meters);
        all.filter(|(track, _)| !track.is_sent).map(|(track, meter)| {
            let last_us = meter.last_us.load(Ordering::Relaxed);
            (track.number, meter.bytes(), last_us)
        })
    }
}

/// Moves bytes until the plan is fulfilled. `each` is called again and again, and takes about [`TICK`] each time.
pub(super) fn run(
    plan: &Plan,
    tracks: &[Track],
    each: &mut dyn FnMut(&View<'_>) -> Wish,
) -> Result<Seen, Trouble> {
    let mss = tracks.iter().find_map(|track| mss(&track.data));
    let length = plan.length(mss);
    let block = block(if plan.transport == Transport::Tcp {
        length
    } else {
        0
    });
    let course = Course::new(match plan.until {
        Until::Bytes(bytes) => Some(bytes),
        Until::Time(_) => None,
    });
    let meters: Vec<Meter> = tracks.iter().map(|_| Meter::default()).collect();
    let surroundings = Surroundings::now();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (track, meter) in tracks.iter().zip(&meters) {
            let (course, block) = (&course, &block);
            let spawned = std::thread::Builder::new()
                .name("stream".to_owned())
                .spawn_scoped(scope, move || {
                    stay_on(plan.our_processor);
                    match (&track.data, track.is_sent) {
                        (Data::Tcp(socket), true) => send_tcp(socket, block, course, meter),
                        (Data::Tcp(socket), false) => {
                            receive_tcp(socket, length, plan.skips_copy, course, meter)
                        }
                        (Data::Udp(socket), true) => send_udp(socket, length, plan.rate, course, meter),
                        (Data::Udp(socket), false) => receive_udp(socket, course, meter),
                    }
                });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // Those that wait at the gate are let go.
                    course.abandon();
                    course.open();
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                    return Err(Trouble::System("start a thread for each stream", errno));
                }
            }
        }
        let mut clock = Clock::new(plan, tracks, &meters, &course);
        clock.run(&threads, each);
        let wall = clock.beginning.elapsed();
        clock.look();
        let endings: Vec<Ending> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default())
            .collect();
        Ok(clock.told(endings, wall, &surroundings))
    })
}

/// Looks on while the threads work.
struct Clock<'a> {
    plan: &'a Plan,
    tracks: &'a [Track],
    meters: &'a [Meter],
    course: &'a Course,
    watches: Vec<Option<Watch>>,
    beginning: Instant,
    own_cpu: ProcessorTime,
    /// Bytes of each stream that do not count, and when they ended
    omitted: Option<(Vec<u64>, Duration)>,
    /// Since when the current interval is, with what had been moved by then
    interval_from: Duration,
    interval_bytes: Vec<u64>,
    interval_retransmitted: u64,
    interval_lost: u64,
    intervals: Vec<Interval>,
}

impl<'a> Clock<'a> {
    fn new(plan: &'a Plan, tracks: &'a [Track], meters: &'a [Meter], course: &'a Course) -> Self {
        let watches = tracks
            .iter()
            .map(|track| match (&track.data, track.is_sent) {
                (Data::Tcp(socket), true) => Watch::new(socket),
                _ => None,
            })
            .collect();
        let own_cpu = ProcessorTime::of_this_thread();
        Self {
            plan,
            tracks,
            meters,
            course,
            watches,
            beginning: course.open(),
            own_cpu,
            omitted: None,
            interval_from: Duration::ZERO,
            interval_bytes: vec![0; tracks.len()],
            interval_retransmitted: 0,
            interval_lost: 0,
            intervals: Vec::new(),
        }
    }

    fn run(&mut self, threads: &[ScopedJoinHandle<'_, Ending>], each: &mut dyn FnMut(&View<'_>) -> Wish) {
        let end = match self.plan.until {
            Until::Time(time) => Some(time + self.plan.omit),
            Until::Bytes(_) => None,
        };
        let mut winding_since: Option<Instant> = None;
        loop {
            let is_done = threads.iter().all(ScopedJoinHandle::is_finished);
            let senders_done = threads
                .iter()
                .zip(self.tracks)
                .all(|(thread, track)| !track.is_sent || thread.is_finished());
            let elapsed = self.beginning.elapsed();
            let progress = (is_done || elapsed >= self.interval_from + self.plan.interval)
                .then(|| self.close_interval(elapsed))
                .flatten();
            let wish = each(&View {
                progress,
                has_sent: senders_done,
                is_done,
                elapsed,
                tracks: self.tracks,
                meters: self.meters,
            });
            if is_done {
                return;
            }
            self.look();
            let elapsed = self.beginning.elapsed();
            if self.omitted.is_none() && !self.plan.omit.is_zero() && elapsed >= self.plan.omit {
                self.omit(elapsed);
            }
            if wish != Wish::GoOn || end.is_some_and(|end| elapsed >= end) {
                self.course.wind_up();
                let since = *winding_since.get_or_insert_with(Instant::now);
                if wish == Wish::Abandon || since.elapsed() >= GRACE {
                    self.abandon();
                }
            }
        }
    }

    fn abandon(&self) {
        self.course.abandon();
        for track in self.tracks {
            if let Data::Tcp(socket) = &track.data {
                // Who waits in it wakes up.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
    }

    fn omit(&mut self, elapsed: Duration) {
        let bytes = self.meters.iter().map(Meter::bytes).collect();
        self.omitted = Some((bytes, elapsed));
        for (watch, track) in self.watches.iter_mut().zip(self.tracks) {
            if let (Some(watch), Data::Tcp(socket)) = (watch, &track.data) {
                watch.restart(socket);
            }
        }
    }

    fn look(&mut self) {
        for (watch, track) in self.watches.iter_mut().zip(self.tracks) {
            if let (Some(watch), Data::Tcp(socket)) = (watch, &track.data) {
                watch.look(socket);
            }
        }
    }

    /// Writes down the interval that ends now; none if it is too short to say anything.
    fn close_interval(&mut self, elapsed: Duration) -> Option<Progress> {
        let span = elapsed.checked_sub(self.interval_from)?;
        if span * 10 < self.plan.interval && !self.intervals.is_empty() {
            return None;
        }
        let bytes: Vec<u64> = self.meters.iter().map(Meter::bytes).collect();
        if span < self.plan.interval && bytes == self.interval_bytes {
            // All was over before; only the end was waited for.
            return None;
        }
        let mut progress = Progress {
            elapsed,
            ..Progress::default()
        };
        for is_sent in [true, false] {
            let of = |place: &usize| self.tracks[*place].is_sent == is_sent;
            let places: Vec<usize> = (0..self.tracks.len()).filter(of).collect();
            if places.is_empty() {
                continue;
            }
            let moved: u64 = places
                .iter()
                .map(|&place| bytes[place] - self.interval_bytes[place])
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
                        .meters
                        .iter()
                        .map(|meter| meter.lost.load(Ordering::Relaxed))
                        .sum();
                    // One that was late after all makes it less.
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
        // After what was omitted it begins anew.
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

    fn told(self, endings: Vec<Ending>, wall: Duration, surroundings: &Surroundings) -> Seen {
        let mut seen = Seen {
            intervals: self.intervals,
            ..Seen::default()
        };
        let (omitted, omitted_time) = self.omitted.unwrap_or_default();
        let all_bytes = self.meters.iter().map(Meter::bytes).sum();
        let (work, devices) = surroundings.since(all_bytes);
        seen.end.work = work;
        seen.end.devices = devices;
        let own = ProcessorTime::of_this_thread().since(&self.own_cpu);
        let (mut user, mut system) = (own.user, own.system);
        let mut busiest = None;
        for (place, ending) in endings.into_iter().enumerate() {
            let (track, meter) = (&self.tracks[place], &self.meters[place]);
            user += ending.cpu.user;
            system += ending.cpu.system;
            let share = permille(ending.cpu.total(), ending.wall);
            busiest = busiest.max(share);
            let side = Side {
                bytes: Some(meter.bytes() - omitted.get(place).copied().unwrap_or(0)),
                elapsed_us: Some(
                    meter
                        .last_us
                        .load(Ordering::Relaxed)
                        .saturating_sub(us(omitted_time)),
                )
                .filter(|&us| us > 0),
                cpu_user_us: Some(us(ending.cpu.user)),
                cpu_system_us: Some(us(ending.cpu.system)),
                cpu_waited_us: ending.waited.map(us),
                cpu_wall_us: Some(us(ending.wall)),
                cpu_bytes: Some(meter.bytes()),
                calls: Some(meter.calls.load(Ordering::Relaxed)),
            };
            let (local, peer) = addresses(&track.data);
            let is_udp = matches!(track.data, Data::Udp(_));
            seen.lanes.push(StreamTransfer {
                number: track.number,
                is_sent: track.is_sent,
                local,
                peer,
                sent: track.is_sent.then_some(side),
                received: (!track.is_sent).then_some(side),
                sender: self.watches[place].as_ref().map(Watch::told),
                datagrams: is_udp.then(|| datagrams(meter, track.is_sent)),
            });
            seen.trouble = seen.trouble.or(ending.trouble);
        }
        let work = &mut seen.end.work;
        work.cpu_user_us = Some(us(user));
        work.cpu_system_us = Some(us(system));
        work.wall_us = Some(us(wall));
        work.bytes = Some(all_bytes);
        work.busiest_thread_permille = busiest;
        let sockets = self.tracks.iter().filter_map(|track| match &track.data {
            Data::Tcp(socket) => Some(socket),
            Data::Udp(_) => None,
        });
        work.rcvbuf_bytes = sockets
            .clone()
            .filter_map(|socket| sockopt::socket_recv_buffer_size(socket).ok())
            .map(|bytes| bytes as u64)
            .min();
        seen.end.congestion = sockets
            .clone()
            .find_map(|socket| sockopt::tcp_congestion(socket).ok());
        seen.end.program = Some(concat!("sockeye ", env!("CARGO_PKG_VERSION")).to_owned());
        seen
    }
}

fn datagrams(meter: &Meter, is_sent: bool) -> Datagrams {
    let of = |counter: &std::sync::atomic::AtomicU64| Some(counter.load(Ordering::Relaxed));
    if is_sent {
        return Datagrams {
            sent: of(&meter.datagrams),
            refused_locally: of(&meter.refused),
            ..Datagrams::default()
        };
    }
    Datagrams {
        received: of(&meter.datagrams),
        lost: of(&meter.lost),
        reordered: of(&meter.reordered),
        jitter_us: of(&meter.jitter_ns).map(|ns| ns / 1000),
        ..Datagrams::default()
    }
}

/// Options that the plan wants of a socket, before it is connected or after it was accepted.
pub(super) fn prepare(plan: &Plan, socket: BorrowedFd<'_>) -> Result<(), Trouble> {
    let failed = |operation| move |errno: Errno| Trouble::System(operation, errno);
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

/// Finds out whether these options can be set at all.
pub(super) fn try_options(plan: &Plan) -> Result<(), Trouble> {
    let kind = match plan.transport {
        Transport::Tcp => SocketType::STREAM,
        Transport::Udp => SocketType::DGRAM,
    };
    let socket = rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)
        .or_else(|_| rustix::net::socket_with(AddressFamily::INET6, kind, SocketFlags::CLOEXEC, None))
        .map_err(|errno| Trouble::System("open a socket", errno))?;
    prepare(plan, socket.as_fd())?;
    has_processor(plan.our_processor)
}

fn set_congestion(socket: BorrowedFd<'_>, name: &str) -> Result<(), Trouble> {
    sockopt::set_tcp_congestion(socket, name).map_err(|errno| {
        let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let known = std::fs::read_to_string(file).unwrap_or_default();
        let known = known.split_ascii_whitespace().collect::<Vec<_>>().join(", ");
        Trouble::Congestion {
            name: name.to_owned(),
            errno,
            known,
        }
    })
}

fn stay_on(processor: Option<usize>) {
    if let Some(set) = processor.and_then(set_of) {
        // Whether it exists was found out before.
        let _ = sched_setaffinity(None, &set);
    }
}

fn set_of(processor: usize) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    (processor < CpuSet::MAX_CPU).then(|| set.set(processor))?;
    Some(set)
}

/// Fails if threads cannot stay on this processor.
fn has_processor(processor: Option<usize>) -> Result<(), Trouble> {
    let Some(processor) = processor else {
        return Ok(());
    };
    // On a thread that ends: ours is not to stay there.
    let tried = std::thread::spawn(move || {
        let set = set_of(processor).ok_or(Errno::INVAL)?;
        sched_setaffinity(None, &set)
    });
    match tried.join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Trouble::Processor(processor)),
    }
}

fn mss(data: &Data) -> Option<usize> {
    match data {
        Data::Tcp(socket) => look(socket.as_fd()).ok()?.snd_mss_bytes.map(|mss| mss as usize),
        Data::Udp(_) => None,
    }
}

fn addresses(data: &Data) -> (Option<SocketAddr>, Option<SocketAddr>) {
    match data {
        Data::Tcp(socket) => (socket.local_addr().ok(), socket.peer_addr().ok()),
        Data::Udp(socket) => (socket.local_addr().ok(), socket.peer_addr().ok()),
    }
}

/// Bytes that nobody on the way can make fewer of: a generator of Marsaglia's, always from the same seed.
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

/// About how often it is looked after.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// How long what is under way may still take to arrive.
const GRACE: Duration = Duration::from_secs(2);
/// Rows of the report; a day of seconds.
const INTERVALS_MAX: usize = 2 * 86_400;
