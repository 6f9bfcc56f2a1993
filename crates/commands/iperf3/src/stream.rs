//! One stream of a test, which sends or receives on its own thread, and its counters.

use super::datagram::{Arrivals, Head};
use super::message::{DATAGRAM_MIN, Parameters};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{ClockId, clock_gettime};
use sockeye_load::{Transport, pin_thread};
use sockeye_sys::ProcessorTime;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A stream in one direction.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Identifier of the stream at both ends.
    pub(crate) id: u64,
    /// Whether this end sends.
    pub(crate) sends: bool,
    pub(crate) socket: OwnedFd,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    bytes: AtomicU64,
    /// Datagrams sent.
    packets: AtomicU64,
    arrivals: Mutex<Arrivals>,
    /// Share of time that its thread was on a processor, in thousandths.
    busy_permille: AtomicU64,
}

/// Counters of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) bytes: u64,
    /// Datagrams: number sent, or highest number received.
    pub(crate) packets: u64,
    pub(crate) missing: u64,
    pub(crate) out_of_order: u64,
    pub(crate) jitter_us: f64,
}

impl Stream {
    pub(crate) fn new(id: u64, sends: bool, socket: OwnedFd, addresses: (SocketAddr, SocketAddr)) -> Self {
        Self {
            id,
            sends,
            socket,
            local: addresses.0,
            remote: addresses.1,
            bytes: AtomicU64::new(0),
            packets: AtomicU64::new(0),
            arrivals: Mutex::default(),
            busy_permille: AtomicU64::new(0),
        }
    }

    /// Returns the share of time that the thread was on a processor, in thousandths; 0 until it has ended.
    pub(crate) fn busy_permille(&self) -> u64 {
        self.busy_permille.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self) -> Count {
        let arrivals = *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        Count {
            bytes: self.bytes.load(Ordering::Relaxed),
            packets: self.packets.load(Ordering::Relaxed).max(arrivals.highest),
            missing: arrivals.missing,
            out_of_order: arrivals.out_of_order,
            jitter_us: arrivals.jitter_us,
        }
    }
}

/// State that the threads of a test share.
#[derive(Debug)]
pub(crate) struct Traffic {
    phase: AtomicU8,
    /// Bytes or blocks left to send; `None`: no limit.
    budget: Option<AtomicU64>,
    /// Whether the budget is of bytes.
    counts_bytes: bool,
    /// Number of running senders.
    sending: AtomicUsize,
    failure: Mutex<Option<Errno>>,
    has_failed: AtomicBool,
    /// An eventfd that is readable once all senders have ended, or a stream broke.
    pub(crate) event: OwnedFd,
}

impl Traffic {
    /// Limits the sent bytes or blocks to those of `parameters` if `is_bounded`.
    pub(crate) fn new(parameters: &Parameters, is_bounded: bool) -> io::Result<Self> {
        let (budget, counts_bytes) = match (parameters.bytes, parameters.blocks) {
            _ if !is_bounded => (None, true),
            (0, 0) => (None, true),
            (0, blocks) => (Some(blocks), false),
            (bytes, _) => (Some(bytes), true),
        };
        Ok(Self {
            phase: AtomicU8::new(RUNNING),
            budget: budget.map(AtomicU64::new),
            counts_bytes,
            sending: AtomicUsize::new(0),
            failure: Mutex::default(),
            has_failed: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Ends sending.
    pub(crate) fn end_sending(&self) {
        self.phase.fetch_max(SENT, Ordering::SeqCst);
    }

    /// Ends sending and counting.
    pub(crate) fn end(&self) {
        self.phase.fetch_max(ENDED, Ordering::SeqCst);
    }

    /// Ends all threads.
    pub(crate) fn stop(&self) {
        self.phase.fetch_max(STOPPED, Ordering::SeqCst);
    }

    /// Returns whether all senders have ended.
    pub(crate) fn is_sent(&self) -> bool {
        self.sending.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn failure(&self) -> Option<Errno> {
        if !self.has_failed.load(Ordering::SeqCst) {
            return None;
        }
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_sending(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == RUNNING
    }

    fn is_counting(&self) -> bool {
        self.phase.load(Ordering::Relaxed) < ENDED
    }

    fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == STOPPED
    }

    fn fail(&self, errno: Errno) {
        if self.is_counting() {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(errno);
            drop(failure);
            self.has_failed.store(true, Ordering::SeqCst);
            self.signal();
        }
    }

    fn signal(&self) {
        // It can only fail if the counter is full, and so readable already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Claims a block of `length` bytes to send; `None` if the budget is used up.
    fn take(&self, length: usize) -> Option<usize> {
        (self.take_some(length, 1) > 0).then_some(length)
    }

    /// Claims up to `most` blocks of `length` bytes to send, and returns their number; 0 if the budget is used up.
    fn take_some(&self, length: usize, most: usize) -> usize {
        let Some(budget) = &self.budget else {
            return most;
        };
        let unit = if self.counts_bytes { length as u64 } else { 1 };
        let taken = |left: u64| left.div_ceil(unit.max(1)).min(most as u64);
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(taken(left) * unit));
        budget
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
            .map_or(0, |left| taken(left) as usize)
    }
}

const RUNNING: u8 = 0;
const SENT: u8 = 1;
const ENDED: u8 = 2;
const STOPPED: u8 = 3;

/// Options of this end, not sent to the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Processor to pin the threads to.
    pub processor: Option<usize>,
    /// Whether the kernel discards what TCP receives (`MSG_TRUNC`).
    pub skips_copy: bool,
    /// Least bytes of a write of TCP: shorter blocks are merged.
    pub write_min: usize,
}

/// Starts a thread for each stream.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    traffic: &Arc<Traffic>,
    parameters: &Parameters,
    options: StreamOptions,
) -> io::Result<Vec<JoinHandle<()>>> {
    let senders = streams.iter().filter(|stream| stream.sends).count();
    traffic.sending.store(senders, Ordering::SeqCst);
    streams
        .iter()
        .map(|stream| {
            set_socket_timeout(&stream.socket, Timeout::Recv, Some(TIMEOUT))?;
            set_socket_timeout(&stream.socket, Timeout::Send, Some(TIMEOUT))?;
            rustix::io::ioctl_fionbio(&stream.socket, false)?;
            let (stream, traffic, parameters) = (Arc::clone(stream), Arc::clone(traffic), parameters.clone());
            thread::Builder::new()
                .name(format!("stream {}", stream.id))
                .spawn(move || {
                    pin_thread(options.processor);
                    stream.run(&traffic, &parameters, options);
                })
        })
        .collect()
}

impl Stream {
    fn run(&self, traffic: &Traffic, parameters: &Parameters, options: StreamOptions) {
        let (began, before) = (Instant::now(), ProcessorTime::of_this_thread());
        let result = match (parameters.protocol, self.sends) {
            (Transport::Tcp, true) => self.send_bytes(traffic, parameters, options),
            (Transport::Tcp, false) => self.receive_bytes(traffic, parameters, options),
            (Transport::Udp, true) => self.send_datagrams(traffic, parameters),
            (Transport::Udp, false) => self.receive_datagrams(traffic, parameters),
        };
        let worked = ProcessorTime::of_this_thread().since(&before).total();
        let share = worked.as_secs_f64() / began.elapsed().as_secs_f64().max(1e-9);
        self.busy_permille
            .store((share * 1000.0) as u64, Ordering::Relaxed);
        if let Err(errno) = result {
            traffic.fail(errno);
        }
        if self.sends && traffic.sending.fetch_sub(1, Ordering::SeqCst) == 1 {
            traffic.signal();
        }
    }

    fn send_bytes(
        &self,
        traffic: &Traffic,
        parameters: &Parameters,
        options: StreamOptions,
    ) -> Result<(), Errno> {
        let length = (parameters.length as usize).max(1);
        let blocks_at_once = (options.write_min / length).max(1);
        let blocks = noise(length * blocks_at_once);
        let mut pace = Pace::new(parameters);
        let mut timeout = CallTimeout::new(&self.socket, Timeout::Send);
        while traffic.is_sending() {
            let block = &blocks[..length * traffic.take_some(length, blocks_at_once)];
            if block.is_empty() {
                break;
            }
            pace.wait(traffic);
            let mut sent = 0;
            while sent < block.len() && traffic.is_sending() {
                match send(&self.socket, &block[sent..], SendFlags::NOSIGNAL) {
                    Ok(len) => {
                        sent += len;
                        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                        timeout.shorten();
                    }
                    Err(Errno::AGAIN | Errno::INTR) => timeout.lengthen(),
                    Err(errno) => return Err(errno),
                }
            }
            pace.sent(block.len());
        }
        Ok(())
    }

    fn receive_bytes(
        &self,
        traffic: &Traffic,
        parameters: &Parameters,
        options: StreamOptions,
    ) -> Result<(), Errno> {
        let flags = if options.skips_copy {
            RecvFlags::TRUNC
        } else {
            RecvFlags::empty()
        };
        let mut buffer = vec![0; (parameters.length as usize).max(RECEIVE_LEN)];
        let mut timeout = CallTimeout::new(&self.socket, Timeout::Recv);
        while !traffic.is_stopped() {
            match recv(&self.socket, &mut buffer[..], flags) {
                Ok((_, 0)) => break,
                Ok((_, len)) if traffic.is_counting() => {
                    self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                    timeout.shorten();
                }
                Ok(_) => timeout.shorten(),
                Err(Errno::AGAIN | Errno::INTR) => timeout.lengthen(),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn send_datagrams(&self, traffic: &Traffic, parameters: &Parameters) -> Result<(), Errno> {
        let mut datagram = noise((parameters.length.max(DATAGRAM_MIN)) as usize);
        let mut pace = Pace::new(parameters);
        let mut number = 0;
        while traffic.is_sending() && traffic.take(datagram.len()).is_some() {
            pace.wait(traffic);
            number += 1;
            while traffic.is_sending() {
                let head = Head {
                    sent_us: now_us(),
                    number,
                };
                head.write(&mut datagram, parameters.wide_counters);
                match send(&self.socket, &datagram, SendFlags::NOSIGNAL) {
                    Ok(len) => {
                        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                        self.packets.store(number, Ordering::Relaxed);
                        break;
                    }
                    // A device's queue is full, or the other end is not ready or gone, which the control connection
                    // shows.
                    Err(Errno::NOBUFS | Errno::CONNREFUSED) => thread::sleep(RETRY_DELAY),
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            pace.sent(datagram.len());
        }
        Ok(())
    }

    fn receive_datagrams(&self, traffic: &Traffic, parameters: &Parameters) -> Result<(), Errno> {
        let mut buffer = vec![0; DATAGRAM_BUFFER_LEN];
        let mut timeout = CallTimeout::new(&self.socket, Timeout::Recv);
        while !traffic.is_stopped() {
            match recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, len)) if traffic.is_counting() => {
                    timeout.shorten();
                    // Short datagrams are not data: for example a repeated answer to the first datagram.
                    if let Some(head) =
                        Head::read(&buffer[..len.min(DATAGRAM_BUFFER_LEN)], parameters.wide_counters)
                    {
                        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
                        arrivals.record(head, now_us());
                    }
                }
                Ok(_) => timeout.shorten(),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => timeout.lengthen(),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// The timeout of a thread's calls on its socket: longer while nothing moves, so that many idle streams cost little.
struct CallTimeout<'a> {
    socket: &'a OwnedFd,
    kind: Timeout,
    time: Duration,
}

impl<'a> CallTimeout<'a> {
    /// The socket has [`TIMEOUT`] already.
    const fn new(socket: &'a OwnedFd, kind: Timeout) -> Self {
        Self {
            socket,
            kind,
            time: TIMEOUT,
        }
    }

    /// Something has moved.
    fn shorten(&mut self) {
        if self.time != TIMEOUT {
            self.change(TIMEOUT);
        }
    }

    /// A call has timed out.
    fn lengthen(&mut self) {
        if self.time != TIMEOUT_MAX {
            self.change((self.time * 2).min(TIMEOUT_MAX));
        }
    }

    fn change(&mut self, time: Duration) {
        self.time = time;
        // The one before stays: it is a valid one, too.
        let _ = set_socket_timeout(self.socket, self.kind, Some(time));
    }
}

/// Limits the send rate.
struct Pace {
    bits_per_s: u64,
    burst: u64,
    began: Instant,
    bits: u64,
    blocks: u64,
}

impl Pace {
    fn new(parameters: &Parameters) -> Self {
        Self {
            bits_per_s: parameters.bits_per_s,
            burst: parameters.burst.max(1),
            began: Instant::now(),
            bits: 0,
            blocks: 0,
        }
    }

    fn wait(&self, traffic: &Traffic) {
        if self.bits_per_s == 0 || !self.blocks.is_multiple_of(self.burst) {
            return;
        }
        let due_s = self.bits as f64 / self.bits_per_s as f64;
        loop {
            let early = due_s - self.began.elapsed().as_secs_f64();
            if early <= 0.0 || !traffic.is_sending() {
                return;
            }
            thread::sleep(Duration::from_secs_f64(early.min(TIMEOUT.as_secs_f64())));
        }
    }

    fn sent(&mut self, bytes: usize) {
        self.bits += bytes as u64 * 8;
        self.blocks += 1;
    }
}

/// Returns incompressible bytes to send.
fn noise(length: usize) -> Vec<u8> {
    let mut state = RandomState::new().build_hasher().finish() | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    });
    words.flatten().take(length).collect()
}

/// Returns the monotonic clock in microseconds; only differences matter.
fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000
}

/// Longest blocking call of a thread before it checks for the end.
const TIMEOUT: Duration = Duration::from_millis(50);
/// The same, of a thread whose stream has not moved for a while.
const TIMEOUT_MAX: Duration = Duration::from_millis(800);
/// Delay before a full queue is tried again.
const RETRY_DELAY: Duration = Duration::from_micros(100);
/// Least bytes of a receive buffer.
const RECEIVE_LEN: usize = 128 << 10;
const DATAGRAM_BUFFER_LEN: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_limits_blocks_if_bounded() {
        let parameters = Parameters {
            bytes: 250,
            ..Parameters::default()
        };
        let traffic = Traffic::new(&parameters, true).unwrap();
        let taken = std::iter::from_fn(|| traffic.take(100)).count();
        assert_eq!(taken, 3);
        let blocks = Parameters {
            blocks: 2,
            ..Parameters::default()
        };
        let traffic = Traffic::new(&blocks, true).unwrap();
        assert_eq!(std::iter::from_fn(|| traffic.take(100)).count(), 2);
        let traffic = Traffic::new(&blocks, false).unwrap();
        assert_eq!(std::iter::from_fn(|| traffic.take(100)).take(9).count(), 9);
        let traffic = Traffic::new(&parameters, true).unwrap();
        assert_eq!([0; 3].map(|_| traffic.take_some(100, 2)), [2, 1, 0]);
        let blocks = Parameters {
            blocks: 5,
            ..Parameters::default()
        };
        let traffic = Traffic::new(&blocks, true).unwrap();
        assert_eq!([0; 3].map(|_| traffic.take_some(100, 4)), [4, 1, 0]);
    }

    #[test]
    fn noise_has_the_requested_length_and_differs() {
        for length in [0, 1, 7, 8, 100] {
            assert_eq!(noise(length).len(), length);
        }
        assert_ne!(noise(16), noise(16));
    }
}
