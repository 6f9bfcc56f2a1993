//! Emulates a bad network path (delay, loss, duplication, reordering, rate) with two TUN devices and one
//! thread for each direction. Tests of `analyze`, `check` and `bench` use it.

use crate::or_panic::OrPanic;
use crate::program::ip_batch;
use crate::{Namespace, NetPath, Toward};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A path between two namespaces: two TUN devices, connected by a thread of the test that applies an
/// [`Impairment`]. From [`Lab::middlebox`](crate::Lab::middlebox); removed when dropped.
#[derive(Debug)]
pub struct Middlebox {
    client: Namespace,
    server: Namespace,
    number: u8,
    impairment: [Arc<Mutex<Impairment>>; 2],
    path_counters: [Arc<Mutex<PathCounters>>; 2],
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Impairment of one direction; the default (all zero) forwards packets unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Impairment {
    /// Delay of each packet.
    pub delay: Duration,
    /// Additional delay of some packets, which later ones overtake ...
    pub late: Duration,
    /// ... for this many packets in a thousand.
    pub late_permille: u16,
    /// Packets in a thousand that are lost.
    pub loss_permille: u16,
    /// Further packets that are lost after each lost one.
    pub loss_run_packets: u16,
    /// Packets in a thousand that arrive twice.
    pub duplicate_permille: u16,
    /// Rate in bytes per second; 0: unlimited.
    pub bytes_per_s: u64,
    /// Queue length in bytes if the rate is limited; further packets are lost.
    pub queue_bytes: u64,
    /// TCP segments in a thousand (IPv4, no SYN) that get another window ...
    pub window_permille: u16,
    /// ... with this value in the header; the checksum is correct.
    pub window: u16,
}

/// Counters of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathCounters {
    /// Forwarded packets; duplicated ones count once.
    pub passed: u64,
    /// Randomly lost packets.
    pub lost: u64,
    /// Packets lost because the queue was full.
    pub overflowed: u64,
    /// Packets with the additional delay.
    pub late: u64,
    /// Duplicated packets.
    pub duplicated: u64,
    /// Packets with a changed window.
    pub corrupted: u64,
}

impl Middlebox {
    #[track_caller]
    pub(crate) fn create(client: &Namespace, server: &Namespace, number: u8, seed: u64) -> Self {
        let mut middlebox = Self {
            client: client.clone(),
            server: server.clone(),
            number,
            impairment: Default::default(),
            path_counters: Default::default(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let ends = [(client, 1), (server, 2)].map(|(namespace, host)| {
            let name = format!("tun{number}{}", if host == 1 { "c" } else { "s" });
            let device = namespace
                .run(|| sockeye_sys::tun::make(&name))
                .or_panic(format_args!("make the TUN device {name}"));
            // Drops of the device itself, on a busy machine, would be in no counter.
            let script = format!(
                "link set {name} addrgenmode none\nlink set {name} txqueuelen 20000\nlink set {name} up\n\
                 addr add {}/24 dev {name}\naddr add {}/64 dev {name} nodad\n",
                middlebox.ip(host, false),
                middlebox.ip(host, true),
            );
            ip_batch(Some(namespace.name()), &script).or_panic("address a TUN device");
            Arc::new(device)
        });
        for (from, to) in [(0, 1), (1, 0)] {
            let forwarder = Forwarder {
                from: Arc::clone(&ends[from]),
                to: Arc::clone(&ends[to]),
                impairment: Arc::clone(&middlebox.impairment[from]),
                path_counters: Arc::clone(&middlebox.path_counters[from]),
                losses_left: 0,
                stop: Arc::clone(&middlebox.stop),
                random_state: seed ^ from as u64,
                in_flight: BinaryHeap::new(),
                sent: 0,
                free_at: Instant::now(),
                last_due: Instant::now(),
            };
            middlebox.threads.push(std::thread::spawn(move || {
                prefer_this_thread();
                forwarder.forward();
            }));
        }
        middlebox
    }

    /// Sets the impairment of a direction; packets already in flight are not affected.
    pub fn set(&self, toward: Toward, impairment: Impairment) {
        let place = usize::from(toward == Toward::Client);
        *self.impairment[place]
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = impairment;
    }

    /// Counters of a direction.
    pub fn path_counters(&self, toward: Toward) -> PathCounters {
        let place = usize::from(toward == Toward::Client);
        *self.path_counters[place]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the impairment of both directions.
    pub fn set_both(&self, impairment: Impairment) {
        self.set(Toward::Server, impairment);
        self.set(Toward::Client, impairment);
    }

    /// A path over IPv4. To cut it, set the loss to 1000.
    pub fn net_path(&self) -> NetPath {
        self.net_path_of(false)
    }

    /// A path over IPv6.
    pub fn net_path6(&self) -> NetPath {
        self.net_path_of(true)
    }

    fn net_path_of(&self, v6: bool) -> NetPath {
        NetPath::new(
            [&self.client, &self.server],
            [self.ip(1, v6), self.ip(2, v6)],
            false,
        )
    }

    fn ip(&self, host: u8, v6: bool) -> IpAddr {
        if v6 {
            IpAddr::from([0xfd78, 0, 0, u16::from(self.number), 0, 0, 0, u16::from(host)])
        } else {
            IpAddr::from([10, 78, self.number, host])
        }
    }
}

impl Drop for Middlebox {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for forwarder in self.threads.drain(..) {
            // Its panic has been printed; another panic during unwinding would hide the first.
            let _ = forwarder.join();
        }
    }
}

/// Makes the scheduler prefer this thread to all that is not real-time: a delay by the load of the host would be one of the path. Without
/// the right to do so, the thread waits like the others.
fn prefer_this_thread() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let _ = Command::new("chrt")
        .args(["--fifo", "--pid", "1", &thread])
        .output();
}

/// One direction.
struct Forwarder {
    from: Arc<OwnedFd>,
    to: Arc<OwnedFd>,
    impairment: Arc<Mutex<Impairment>>,
    path_counters: Arc<Mutex<PathCounters>>,
    /// Number of following packets that are lost in any case
    losses_left: u16,
    stop: Arc<AtomicBool>,
    /// State of splitmix64
    random_state: u64,
    /// Packets in flight, by arrival time and order
    in_flight: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    sent: u64,
    /// Time when everything before has left at the limited rate
    free_at: Instant,
    /// Arrival time of the last packet without additional delay
    last_due: Instant,
}

impl Forwarder {
    fn forward(mut self) {
        let mut buffer = vec![0; PACKET_MAX];
        while !self.stop.load(Ordering::Relaxed) {
            self.wait();
            for _ in 0..READ_BATCH {
                match read(&*self.from, &mut buffer[..]) {
                    Ok(length) => self.take(&mut buffer[..length]),
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    // The namespace is being deleted.
                    Err(_) => return,
                }
            }
            self.deliver();
        }
    }

    /// Waits for a packet, or for the next arrival.
    fn wait(&self) {
        let due = self.in_flight.peek().map(|Reverse((due, ..))| *due);
        let left = due.map_or(CHECK_INTERVAL, |due| {
            due.saturating_duration_since(Instant::now()).min(CHECK_INTERVAL)
        });
        let left = Timespec {
            tv_sec: 0,
            tv_nsec: left.subsec_nanos().into(),
        };
        let _ = poll(&mut [PollFd::new(&*self.from, PollFlags::IN)], Some(&left));
    }

    fn take(&mut self, packet: &mut [u8]) {
        let impairment = *self.impairment.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut path_counters = *self.path_counters.lock().unwrap_or_else(PoisonError::into_inner);
        self.schedule(&impairment, now, packet, &mut path_counters);
        *self.path_counters.lock().unwrap_or_else(PoisonError::into_inner) = path_counters;
    }

    fn schedule(
        &mut self,
        impairment: &Impairment,
        now: Instant,
        packet: &mut [u8],
        path_counters: &mut PathCounters,
    ) {
        let begins = self.losses_left == 0 && self.is_chosen(impairment.loss_permille);
        if begins || self.losses_left > 0 {
            self.losses_left = if begins {
                impairment.loss_run_packets
            } else {
                self.losses_left - 1
            };
            path_counters.lost += 1;
            return;
        }
        if self.is_chosen(impairment.window_permille) && set_window(packet, impairment.window) {
            path_counters.corrupted += 1;
        }
        let mut leaves = now;
        if impairment.bytes_per_s > 0 {
            let taking = |bytes: u64| Duration::from_nanos(bytes * 1_000_000_000 / impairment.bytes_per_s);
            let begins = self.free_at.max(now);
            if begins - now > taking(impairment.queue_bytes) {
                path_counters.overflowed += 1;
                return;
            }
            leaves = begins + taking(packet.len() as u64);
            self.free_at = leaves;
        }
        // A change of the delay does not reorder packets.
        let mut due = self.last_due.max(leaves + impairment.delay);
        self.last_due = due;
        if self.is_chosen(impairment.late_permille) {
            due += impairment.late;
            path_counters.late += 1;
        }
        let copies = if self.is_chosen(impairment.duplicate_permille) {
            path_counters.duplicated += 1;
            2
        } else {
            1
        };
        path_counters.passed += 1;
        for _ in 0..copies {
            self.sent += 1;
            self.in_flight.push(Reverse((due, self.sent, packet.to_vec())));
        }
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((due, ..))) = self.in_flight.peek()
            && *due <= now
        {
            if let Some(Reverse((_, _, packet))) = self.in_flight.pop() {
                // A full or closing device drops it, as devices do.
                let _ = write(&*self.to, &packet);
            }
        }
    }

    fn is_chosen(&mut self, permille: u16) -> bool {
        if permille == 0 {
            return false;
        }
        self.random_state = self.random_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random_state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 1000 < u64::from(permille)
    }
}

/// Changes the window of a TCP segment over IPv4 that is no SYN, and corrects its checksum (RFC 1624);
/// returns whether it is one.
fn set_window(packet: &mut [u8], window: u16) -> bool {
    let Some((first, protocol)) = packet.first().copied().zip(packet.get(9).copied()) else {
        return false;
    };
    let tcp = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || protocol != 6 || packet.len() < tcp + 20 || packet[tcp + 13] & 2 != 0 {
        return false;
    }
    let old = u16::from_be_bytes([packet[tcp + 14], packet[tcp + 15]]);
    let sum = u16::from_be_bytes([packet[tcp + 16], packet[tcp + 17]]);
    let mut new = u32::from(!sum) + u32::from(!old) + u32::from(window);
    while new > 0xffff {
        new = (new & 0xffff) + (new >> 16);
    }
    packet[tcp + 14..tcp + 16].copy_from_slice(&window.to_be_bytes());
    packet[tcp + 16..tcp + 18].copy_from_slice(&(!(new as u16)).to_be_bytes());
    true
}

/// Interval of checks for the end.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Packets read before due ones are sent.
const READ_BATCH: usize = 64;
const PACKET_MAX: usize = 1 << 16;
