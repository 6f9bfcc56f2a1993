//! One stream of a test: bytes that go out or come in as fast as they can, on a thread of its own, and what is counted.

use super::Protocol;
use super::datagram::{Arrivals, Head};
use super::message::{DATAGRAM_MIN, Wishes};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use sockeye_sys::ProcessorTime;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A stream.
#[derive(Debug)]
pub(crate) struct Lane {
    /// By which both ends know it.
    pub(crate) id: u64,
    /// Whether this end sends.
    pub(crate) sends: bool,
    pub(crate) socket: OwnedFd,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    bytes: AtomicU64,
    /// Datagrams that were sent.
    packets: AtomicU64,
    arrivals: Mutex<Arrivals>,
    /// How much of its time its thread was on a processor, in thousandths
    busy_permille: AtomicU64,
}

/// What a lane has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) bytes: u64,
    /// Datagrams: sent, or the highest number that came.
    pub(crate) packets: u64,
    pub(crate) missing: u64,
    pub(crate) out_of_order: u64,
    pub(crate) jitter_us: f64,
}

impl Lane {
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

    /// How much of its time its thread was on a processor, in thousandths; 0 until it has ended.
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

/// What the threads of a test share.
#[derive(Debug)]
pub(crate) struct Traffic {
    phase: AtomicU8,
    /// Bytes or blocks that may still be sent; None: no end.
    budget: Option<AtomicU64>,
    /// Whether the budget is of bytes.
    counts_bytes: bool,
    /// Senders that have not come to their end.
    sending: AtomicUsize,
    failure: Mutex<Option<Errno>>,
    has_failed: AtomicBool,
    /// Readable once all senders are through, or a stream broke.
    pub(crate) event: OwnedFd,
}

impl Traffic {
    /// Not more than `wishes` tell is sent, if `is_bounded`.
    pub(crate) fn new(wishes: &Wishes, is_bounded: bool) -> io::Result<Self> {
        let (budget, counts_bytes) = match (wishes.bytes, wishes.blocks) {
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

    /// Nothing is sent any more, and what comes is not counted.
    pub(crate) fn end(&self) {
        self.phase.fetch_max(ENDED, Ordering::SeqCst);
    }

    /// Threads end.
    pub(crate) fn stop(&self) {
        self.phase.fetch_max(STOPPED, Ordering::SeqCst);
    }

    /// Whether there is nothing left to send.
    pub(crate) fn is_sent(&self) -> bool {
        self.sending.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn failure(&self) -> Option<Errno> {
        if !self.has_failed.load(Ordering::SeqCst) {
            return None;
        }
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == RUNNING
    }

    fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == STOPPED
    }

    fn fail(&self, errno: Errno) {
        if self.is_running() {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(errno);
            drop(failure);
            self.has_failed.store(true, Ordering::SeqCst);
            self.ring();
        }
    }

    fn ring(&self) {
        // It can only fail because it is rung already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// How much of a block of `length` may be sent; None: nothing any more.
    fn take(&self, length: usize) -> Option<usize> {
        let Some(budget) = &self.budget else {
            return Some(length);
        };
        let wanted = if self.counts_bytes { length as u64 } else { 1 };
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(wanted));
        budget
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
            .ok()
            .map(|_| length)
    }
}

const RUNNING: u8 = 0;
const ENDED: u8 = 1;
const STOPPED: u8 = 2;

/// How this end goes about it: nobody else needs to know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Manner {
    /// The processor that its threads stay on.
    pub processor: Option<usize>,
    /// What TCP receives is thrown away by the kernel (`MSG_TRUNC`).
    pub skips_copy: bool,
}

/// Starts a thread for each lane.
pub(crate) fn start(
    lanes: &[Arc<Lane>],
    traffic: &Arc<Traffic>,
    wishes: &Wishes,
    manner: Manner,
) -> io::Result<Vec<JoinHandle<()>>> {
    let senders = lanes.iter().filter(|lane| lane.sends).count();
    traffic.sending.store(senders, Ordering::SeqCst);
    lanes
        .iter()
        .map(|lane| {
            set_socket_timeout(&lane.socket, Timeout::Recv, Some(PATIENCE))?;
            set_socket_timeout(&lane.socket, Timeout::Send, Some(PATIENCE))?;
            rustix::io::ioctl_fionbio(&lane.socket, false)?;
            let (lane, traffic, wishes) = (Arc::clone(lane), Arc::clone(traffic), wishes.clone());
            thread::Builder::new()
                .name(format!("stream {}", lane.id))
                .spawn(move || {
                    if let Some(processor) = manner.processor {
                        run_on(processor);
                    }
                    lane.run(&traffic, &wishes, manner);
                })
        })
        .collect()
}

fn run_on(processor: usize) {
    let mut set = CpuSet::new();
    if processor < CpuSet::MAX_CPU {
        set.set(processor);
        // A processor that is not there is no reason to end the test.
        let _ = sched_setaffinity(None, &set);
    }
}

impl Lane {
    fn run(&self, traffic: &Traffic, wishes: &Wishes, manner: Manner) {
        let (began, before) = (Instant::now(), ProcessorTime::of_this_thread());
        let result = match (wishes.protocol, self.sends) {
            (Protocol::Tcp, true) => self.send_bytes(traffic, wishes),
            (Protocol::Tcp, false) => self.receive_bytes(traffic, wishes, manner),
            (Protocol::Udp, true) => self.send_datagrams(traffic, wishes),
            (Protocol::Udp, false) => self.receive_datagrams(traffic, wishes),
        };
        let worked = ProcessorTime::of_this_thread().since(&before).total();
        let share = worked.as_secs_f64() / began.elapsed().as_secs_f64().max(1e-9);
        self.busy_permille
            .store((share * 1000.0) as u64, Ordering::Relaxed);
        if let Err(errno) = result {
            traffic.fail(errno);
        }
        if self.sends && traffic.sending.fetch_sub(1, Ordering::SeqCst) == 1 {
            traffic.ring();
        }
    }

    fn send_bytes(&self, traffic: &Traffic, wishes: &Wishes) -> Result<(), Errno> {
        let block = noise(wishes.length as usize);
        let mut pace = Pace::new(wishes);
        while traffic.is_running() && traffic.take(block.len()).is_some() {
            pace.wait(traffic);
            let mut sent = 0;
            while sent < block.len() && traffic.is_running() {
                match send(&self.socket, &block[sent..], SendFlags::NOSIGNAL) {
                    Ok(len) => {
                        sent += len;
                        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            pace.sent(block.len());
        }
        Ok(())
    }

    fn receive_bytes(&self, traffic: &Traffic, wishes: &Wishes, manner: Manner) -> Result<(), Errno> {
        let flags = if manner.skips_copy {
            RecvFlags::TRUNC
        } else {
            RecvFlags::empty()
        };
        let mut room = vec![0; (wishes.length as usize).max(ROOM)];
        while !traffic.is_stopped() {
            match recv(&self.socket, &mut room[..], flags) {
                Ok((_, 0)) => break,
                Ok((_, len)) if traffic.is_running() => {
                    self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                }
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn send_datagrams(&self, traffic: &Traffic, wishes: &Wishes) -> Result<(), Errno> {
        let mut datagram = noise((wishes.length.max(DATAGRAM_MIN)) as usize);
        let mut pace = Pace::new(wishes);
        let mut number = 0;
        while traffic.is_running() && traffic.take(datagram.len()).is_some() {
            pace.wait(traffic);
            number += 1;
            while traffic.is_running() {
                let head = Head {
                    sent_us: now_us(),
                    number,
                };
                head.write(&mut datagram, wishes.wide_counters);
                match send(&self.socket, &datagram, SendFlags::NOSIGNAL) {
                    Ok(len) => {
                        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                        self.packets.store(number, Ordering::Relaxed);
                        break;
                    }
                    // A device's queue is full, or the other end is not there yet or any more: the control connection
                    // knows that better.
                    Err(Errno::NOBUFS | Errno::CONNREFUSED) => thread::sleep(BREATH),
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            pace.sent(datagram.len());
        }
        Ok(())
    }

    fn receive_datagrams(&self, traffic: &Traffic, wishes: &Wishes) -> Result<(), Errno> {
        let mut room = vec![0; DATAGRAM_ROOM];
        while !traffic.is_stopped() {
            match recv(&self.socket, &mut room[..], RecvFlags::empty()) {
                Ok((_, len)) if traffic.is_running() => {
                    // What is too short is not of this test, for example the answer to a greeting that came twice.
                    if let Some(head) = Head::read(&room[..len.min(DATAGRAM_ROOM)], wishes.wide_counters) {
                        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
                        arrivals.note(head, now_us());
                    }
                }
                Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Keeps a rate.
struct Pace {
    bits_per_s: u64,
    burst: u64,
    began: Instant,
    bits: u64,
    blocks: u64,
}

impl Pace {
    fn new(wishes: &Wishes) -> Self {
        Self {
            bits_per_s: wishes.bits_per_s,
            burst: wishes.burst.max(1),
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
            if early <= 0.0 || !traffic.is_running() {
                return;
            }
            thread::sleep(Duration::from_secs_f64(early.min(PATIENCE.as_secs_f64())));
        }
    }

    fn sent(&mut self, bytes: usize) {
        self.bits += bytes as u64 * 8;
        self.blocks += 1;
    }
}

/// What is sent: nothing that anything on the way could compress.
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

/// Of a clock that does not jump; only differences matter.
fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000
}

/// How long a thread may wait in a call until it looks whether it shall end.
const PATIENCE: Duration = Duration::from_millis(50);
/// Until a full queue is tried again.
const BREATH: Duration = Duration::from_micros(100);
/// What is received at once, at least.
const ROOM: usize = 128 << 10;
const DATAGRAM_ROOM: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_once() {
        let wishes = Wishes {
            bytes: 250,
            ..Wishes::default()
        };
        let traffic = Traffic::new(&wishes, true).unwrap();
        let taken = std::iter::from_fn(|| traffic.take(100)).count();
        assert_eq!(taken, 3);
        let blocks = Wishes {
            blocks: 2,
            ..Wishes::default()
        };
        let traffic = Traffic::new(&blocks, true).unwrap();
        assert_eq!(std::iter::from_fn(|| traffic.take(100)).count(), 2);
        let traffic = Traffic::new(&blocks, false).unwrap();
        assert_eq!(std::iter::from_fn(|| traffic.take(100)).take(9).count(), 9);
    }

    #[test]
    fn noise_is_of_any_length() {
        for length in [0, 1, 7, 8, 100] {
            assert_eq!(noise(length).len(), length);
        }
        assert_ne!(noise(16), noise(16));
    }
}
