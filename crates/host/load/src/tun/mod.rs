//! Throughput of a tunnel over TUN or TAP devices, in private namespaces.
//!
//! ```text
//! client's namespace                                       server's namespace
//!   TCP sender -> tun0 -> forwarder == UDP over veth0 == forwarder -> tun0 -> TCP receiver
//! ```

mod device;
mod drop_reasons;
mod failure;
mod forward;
mod path;
mod stream;
mod tunnel;
mod wait;

pub use device::{Inspection, inspect};
pub use failure::{Failure, Step};
pub use tunnel::{Carrier, Tunnel};

use drop_reasons::DropReasons;
use path::Path;
use sockeye_model::{Counter, Device, Vitals};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wait::wait;

/// The TCP load of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOptions {
    /// Length of the measurement.
    pub duration: Duration,
    /// TCP connections at once.
    pub streams: usize,
    /// Congestion control; `None`: the host's default.
    pub congestion: Option<String>,
}

/// Result of a measurement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measurement {
    /// Bytes that the receivers read.
    pub bytes: u64,
    /// Length of the measurement.
    pub elapsed: Duration,
    /// Bytes that the receivers' device counted meanwhile, with all headers.
    pub device_bytes: u64,
    /// Packets that the sender's device sent.
    pub device_packets: u64,
    /// Packets that it dropped since its queue was full.
    pub device_drops: u64,
    /// Packets that its queueing discipline dropped.
    pub qdisc_drops: u64,
    /// The kernel's drop reasons and their counts, including the receiver's device and sockets; `None` if not available.
    pub reasons: Option<Vec<(&'static str, u64)>>,
    /// Packets lost between the ends of the tunnel.
    pub carrier_drops: u64,
    /// Retransmitted TCP segments.
    pub retransmissions: Option<u64>,
    /// Whether it was interrupted.
    pub is_cut_short: bool,
}

/// Builds the path, measures its throughput, and removes it. `interrupt` ends it early when readable.
///
/// # Errors
/// The step that failed. All devices and namespaces are removed.
pub fn measure_tunnel(
    tunnel: Option<&Tunnel>,
    options: &LoadOptions,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Measurement, Failure> {
    // Only threads that start later are counted.
    let reasons = DropReasons::watch();
    let path = Path::build(tunnel)?;
    let load = stream::Load::default();
    std::thread::scope(|scope| {
        let measured = load
            .start(scope, &path, options.streams, options.congestion.as_deref())
            .and_then(|()| measure(&path, &load, reasons.as_ref(), options.duration, interrupt));
        load.stop();
        measured
    })
}

fn measure(
    path: &Path,
    load: &stream::Load,
    reasons: Option<&DropReasons>,
    duration: Duration,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Measurement, Failure> {
    let before = path.vitals()?;
    let reasons_before = reasons.map(DropReasons::counts);
    let (started, received) = (Instant::now(), load.received());
    let is_cut_short = wait(started + duration, interrupt);
    let (elapsed, bytes) = (started.elapsed(), load.received() - received);
    let after = path.vitals()?;
    let reasons = reasons.map(DropReasons::counts).zip(reasons_before);
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
    Ok(Measurement {
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
