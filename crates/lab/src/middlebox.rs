use crate::must::Must;
use crate::namespace::ip_batch;
use crate::{Lane, Namespace, SocketOptions, Toward};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A path between two namespaces, two TUN devices with us in between: what is sent on one side comes out on the other
/// as the [`Weather`] has it. From [`Lab::middlebox`](crate::Lab::middlebox); gone when dropped.
#[derive(Debug)]
pub struct Middlebox {
    client: Namespace,
    server: Namespace,
    number: u8,
    weather: [Arc<Mutex<Weather>>; 2],
    fates: [Arc<Mutex<Fate>>; 2],
    stop: Arc<AtomicBool>,
    carriers: Vec<JoinHandle<()>>,
}

/// What happens to packets in one direction; all zero (the default): they pass as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weather {
    /// Each is under way for so long.
    pub delay: Duration,
    /// Some are under way for longer, and are overtaken by those behind them ...
    pub late: Duration,
    /// ... so many of a thousand.
    pub late_permille: u16,
    /// So many of a thousand are lost.
    pub loss_permille: u16,
    /// With each one lost so many behind it are lost too.
    pub loss_goes_on: u16,
    /// So many of a thousand arrive twice.
    pub twice_permille: u16,
    /// So much gets through; 0: everything.
    pub bytes_per_s: u64,
    /// So much waits at most where a rate is set; what comes beyond is lost.
    pub queue_bytes: u64,
    /// So many of a thousand TCP segments over IPv4, but no SYNs, arrive with another window ...
    pub window_permille: u16,
    /// ... which is this, as it stands in the header; their checksum is right.
    pub window: u16,
}

/// What became of packets in one direction so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fate {
    /// Passed on, once or twice.
    pub passed: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost as the queue was full.
    pub overflowed: u64,
    /// Under way for longer.
    pub late: u64,
    /// Passed on twice.
    pub twice: u64,
    /// Given another window.
    pub corrupted: u64,
}

impl Middlebox {
    #[track_caller]
    pub(crate) fn create(client: &Namespace, server: &Namespace, number: u8, seed: u64) -> Self {
        let mut middlebox = Self {
            client: client.clone(),
            server: server.clone(),
            number,
            weather: Default::default(),
            fates: Default::default(),
            stop: Arc::default(),
            carriers: Vec::new(),
        };
        let ends = [(client, 1), (server, 2)].map(|(namespace, host)| {
            let name = format!("tun{number}{}", if host == 1 { "c" } else { "s" });
            let device = namespace
                .run(|| sockeye_sys::tun::make(&name))
                .must(format_args!("make the TUN device {name}"));
            // What the device itself loses, on a busy machine, would be in no fate.
            let script = format!(
                "link set {name} addrgenmode none\nlink set {name} txqueuelen 20000\nlink set {name} up\n\
                 addr add {}/24 dev {name}\naddr add {}/64 dev {name} nodad\n",
                middlebox.ip(host, false),
                middlebox.ip(host, true),
            );
            ip_batch(Some(namespace.name()), &script).must("address a TUN device");
            Arc::new(device)
        });
        for (from, to) in [(0, 1), (1, 0)] {
            let carrier = Carrier {
                from: Arc::clone(&ends[from]),
                to: Arc::clone(&ends[to]),
                weather: Arc::clone(&middlebox.weather[from]),
                fate: Arc::clone(&middlebox.fates[from]),
                losing: 0,
                stop: Arc::clone(&middlebox.stop),
                chance: seed ^ from as u64,
                under_way: BinaryHeap::new(),
                sent: 0,
                free_at: Instant::now(),
                last_due: Instant::now(),
            };
            middlebox
                .carriers
                .push(std::thread::spawn(move || carrier.carry()));
        }
        middlebox
    }

    /// From now on this happens to packets in this direction; those under way stay as they are.
    pub fn set(&self, toward: Toward, weather: Weather) {
        let place = usize::from(toward == Toward::Client);
        *self.weather[place].lock().unwrap_or_else(PoisonError::into_inner) = weather;
    }

    /// What became of packets in this direction.
    pub fn fate(&self, toward: Toward) -> Fate {
        let place = usize::from(toward == Toward::Client);
        *self.fates[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same in both directions.
    pub fn set_both(&self, weather: Weather) {
        self.set(Toward::Server, weather);
        self.set(Toward::Client, weather);
    }

    /// The path through it over IPv4. To cut it let everything be lost.
    pub fn lane(&self) -> Lane {
        self.lane_of(false)
    }

    /// The same over IPv6.
    pub fn lane6(&self) -> Lane {
        self.lane_of(true)
    }

    fn lane_of(&self, v6: bool) -> Lane {
        Lane {
            client: self.client.clone(),
            server: self.server.clone(),
            client_ip: self.ip(1, v6),
            server_ip: self.ip(2, v6),
            mapped: false,
            scopes: (0, 0),
            link: None,
            client_options: SocketOptions::new(),
            server_options: SocketOptions::new(),
        }
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
        for carrier in self.carriers.drain(..) {
            // Its panic has been printed; another while one unwinds would hide the first.
            let _ = carrier.join();
        }
    }
}

/// One direction.
struct Carrier {
    from: Arc<OwnedFd>,
    to: Arc<OwnedFd>,
    weather: Arc<Mutex<Weather>>,
    fate: Arc<Mutex<Fate>>,
    /// So many will be lost in any case.
    losing: u16,
    stop: Arc<AtomicBool>,
    /// splitmix64
    chance: u64,
    /// By when they arrive, then in the order they came.
    under_way: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    sent: u64,
    /// When everything before will have gone through at the rate set.
    free_at: Instant,
    /// When the last packet that is not late arrives.
    last_due: Instant,
}

impl Carrier {
    fn carry(mut self) {
        let mut buffer = vec![0; PACKET_MAX];
        while !self.stop.load(Ordering::Relaxed) {
            self.wait();
            for _ in 0..AT_ONCE {
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

    /// Until a packet comes or is due.
    fn wait(&self) {
        let due = self.under_way.peek().map(|Reverse((due, ..))| *due);
        let left = due.map_or(LOOK_UP, |due| {
            due.saturating_duration_since(Instant::now()).min(LOOK_UP)
        });
        let left = Timespec {
            tv_sec: 0,
            tv_nsec: left.subsec_nanos().into(),
        };
        let _ = poll(&mut [PollFd::new(&*self.from, PollFlags::IN)], Some(&left));
    }

    fn take(&mut self, packet: &mut [u8]) {
        let weather = *self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut fate = *self.fate.lock().unwrap_or_else(PoisonError::into_inner);
        self.decide(&weather, now, packet, &mut fate);
        *self.fate.lock().unwrap_or_else(PoisonError::into_inner) = fate;
    }

    fn decide(&mut self, weather: &Weather, now: Instant, packet: &mut [u8], fate: &mut Fate) {
        let begins = self.losing == 0 && self.happens(weather.loss_permille);
        if begins || self.losing > 0 {
            self.losing = if begins {
                weather.loss_goes_on
            } else {
                self.losing - 1
            };
            fate.lost += 1;
            return;
        }
        if self.happens(weather.window_permille) && set_window(packet, weather.window) {
            fate.corrupted += 1;
        }
        let mut leaves = now;
        if weather.bytes_per_s > 0 {
            let taking = |bytes: u64| Duration::from_nanos(bytes * 1_000_000_000 / weather.bytes_per_s);
            let begins = self.free_at.max(now);
            if begins - now > taking(weather.queue_bytes) {
                fate.overflowed += 1;
                return;
            }
            leaves = begins + taking(packet.len() as u64);
            self.free_at = leaves;
        }
        // A path whose length changes is no path on which packets overtake each other.
        let mut due = self.last_due.max(leaves + weather.delay);
        self.last_due = due;
        if self.happens(weather.late_permille) {
            due += weather.late;
            fate.late += 1;
        }
        let copies = if self.happens(weather.twice_permille) {
            fate.twice += 1;
            2
        } else {
            1
        };
        fate.passed += 1;
        for _ in 0..copies {
            self.sent += 1;
            self.under_way.push(Reverse((due, self.sent, packet.to_vec())));
        }
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((due, ..))) = self.under_way.peek()
            && *due <= now
        {
            if let Some(Reverse((_, _, packet))) = self.under_way.pop() {
                // A device that is full or going away loses it, as devices do.
                let _ = write(&*self.to, &packet);
            }
        }
    }

    fn happens(&mut self, permille: u16) -> bool {
        if permille == 0 {
            return false;
        }
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 1000 < u64::from(permille)
    }
}

/// Sets the window of a TCP segment over IPv4 that is no SYN, and its checksum right (RFC 1624); tells whether it is one.
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

/// How often it looks whether it is to end.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Packets read before those that are due go out.
const AT_ONCE: usize = 64;
const PACKET_MAX: usize = 1 << 16;
