//! A tunnel over TUN or TAP devices, its program and what gets through, in namespaces made for it.
//!
//! ```text
//! client's namespace                                       server's namespace
//!   TCP sender -> tun0 -> forwarder == UDP over veth0 == forwarder -> tun0 -> TCP receiver
//! ```

mod device;
mod failure;
mod forward;
mod path;
mod reasons;
mod room;
mod stream;

pub use device::{Inspected, inspect};
pub use failure::{Failure, Step};

use path::Path;
use reasons::Reasons;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockeye_model::{Counter, Device, Vitals};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A tunnel to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// TAP (Ethernet frames) instead of TUN (IP packets).
    pub is_tap: bool,
    /// How its packets get from one end to the other.
    pub carrier: Carrier,
    /// Packets of up to 64 KiB, which nobody has cut yet, pass through it (`IFF_VNET_HDR`, `TUNSETOFFLOAD`).
    pub offload: bool,
    /// Queues, each with threads of its own (`IFF_MULTI_QUEUE`).
    pub queues: usize,
    /// Packets that may wait in each for the forwarder (`txqueuelen`).
    pub queue_packets: u32,
}

/// How packets get from one end of a tunnel to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// By one program that has the devices of both ends.
    Direct,
    /// By UDP over the veth pair, each end with a program of its own: as VPNs do.
    Udp,
}

/// How it is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effort {
    /// For so long.
    pub duration: Duration,
    /// TCP connections at the same time.
    pub streams: usize,
    /// Their congestion control; None: as the host has it.
    pub congestion: Option<String>,
}

/// What got through.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Passage {
    /// What the receivers read.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Bytes that the receivers' device counts over the same time, with all headers.
    pub device_bytes: u64,
    /// Packets that the sender's device sent.
    pub device_packets: u64,
    /// Packets that it dropped: its queue was full.
    pub device_drops: u64,
    /// Packets that its queueing discipline dropped before.
    pub qdisc_drops: u64,
    /// Why the kernel dropped packets, in its own words, and how many; those of the receiver's device and of sockets
    /// are among them. None: it could not be asked.
    pub reasons: Option<Vec<(&'static str, u64)>>,
    /// Packets that were lost between the ends of the tunnel.
    pub carrier_drops: u64,
    /// Segments that TCP sent again.
    pub retransmissions: Option<u64>,
    /// It was ended before its time.
    pub is_cut_short: bool,
}

/// Builds the path, lets as much pass through it as goes, and removes it. `interrupt` ends it early when readable.
///
/// # Errors
/// Which step failed; nothing is left.
pub fn pass(
    tunnel: Option<&Tunnel>,
    effort: &Effort,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Passage, Failure> {
    // Threads that were started before would not be watched.
    let reasons = Reasons::watch();
    let path = Path::build(tunnel)?;
    let load = stream::Load::default();
    std::thread::scope(|scope| {
        let measured = load
            .start(scope, &path, effort.streams, effort.congestion.as_deref())
            .and_then(|()| measure(&path, &load, reasons.as_ref(), effort.duration, interrupt));
        load.stop();
        measured
    })
}

fn measure(
    path: &Path,
    load: &stream::Load,
    reasons: Option<&Reasons>,
    duration: Duration,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Passage, Failure> {
    let before = path.vitals()?;
    let reasons_before = reasons.map(Reasons::value);
    let (started, received) = (Instant::now(), load.received());
    let is_cut_short = wait(started + duration, interrupt);
    let (elapsed, bytes) = (started.elapsed(), load.received() - received);
    let after = path.vitals()?;
    let reasons = reasons.map(Reasons::value).zip(reasons_before);
    let reasons = reasons.map(|(after, before)| {
        let counts = after.into_iter().zip(before);
        let since = counts.map(|((name, after), (_, before))| (name, after.saturating_sub(before)));
        since.filter(|(_, count)| *count > 0).collect()
    });
    let [client, server] = [0, 1].map(|side| {
        let device = |vitals: &Vitals| device(vitals, path.device).cloned();
        (device(&before[side]), device(&after[side]))
    });
    let since = |(before, after): &(Option<Device>, Option<Device>), count: fn(&Device) -> u64| {
        let count = |device: &Option<Device>| device.as_ref().map_or(0, count);
        count(after).saturating_sub(count(before))
    };
    let counter = |counter: Counter| {
        let value =
            |all: &[Vitals; 2]| Some(all[0].counters.value(counter)? + all[1].counters.value(counter)?);
        Some(value(&after)?.saturating_sub(value(&before)?))
    };
    let refused = path.forwarder.as_ref();
    let refused = refused.map_or(0, |forwarder| forwarder.counts().refused.load(Ordering::Relaxed));
    Ok(Passage {
        bytes,
        elapsed,
        device_bytes: since(&server, |device| device.traffic.unwrap_or_default().rx_bytes),
        device_packets: since(&client, |device| device.traffic.unwrap_or_default().tx_packets),
        device_drops: since(&client, |device| device.traffic.unwrap_or_default().tx_dropped),
        qdisc_drops: since(&client, |device| {
            device.qdiscs.iter().map(|qdisc| qdisc.drops).max().unwrap_or(0)
        }),
        reasons,
        carrier_drops: refused + counter(Counter::UdpRcvbufErrors).unwrap_or(0),
        retransmissions: counter(Counter::TcpRetransSegs),
        is_cut_short,
    })
}

fn device<'a>(vitals: &'a Vitals, name: &str) -> Option<&'a Device> {
    vitals
        .devices
        .iter()
        .find(|device| device.name.as_bytes() == name.as_bytes())
}

/// Whether it was interrupted.
fn wait(until: Instant, interrupt: Option<BorrowedFd<'_>>) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let Some(interrupt) = interrupt else {
            std::thread::sleep(left);
            continue;
        };
        let mut polled = [PollFd::new(&interrupt, PollFlags::IN)];
        let timeout = Timespec::try_from(left).ok();
        if matches!(poll(&mut polled, timeout.as_ref()), Ok(ready) if ready > 0) {
            return true;
        }
    }
}
