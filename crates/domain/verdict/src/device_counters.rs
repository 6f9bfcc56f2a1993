//! Counters of a device between two samples.

use crate::{Limit, Limits};
use sockeye_model::{Device, Qdisc, Vitals};
use std::time::Duration;

/// The earlier state of the same device; `None` if its counters restarted: another device may have taken its
/// index and even its name.
pub(crate) fn earlier<'a>(device: &Device, before: Option<&'a Vitals>) -> Option<&'a Device> {
    let mut all = before?.devices.iter();
    let earlier = all.find(|earlier| earlier.index == device.index && earlier.name == device.name)?;
    let carried = |device: &Device| {
        let traffic = device.traffic.unwrap_or_default();
        [
            traffic.rx_packets,
            traffic.tx_packets,
            traffic.rx_dropped,
            traffic.tx_dropped,
        ]
    };
    let mut both = carried(device).into_iter().zip(carried(earlier));
    both.all(|(now, then)| now >= then).then_some(earlier)
}

/// Packets to be sent that were lost on this host, and packets sent.
pub(crate) fn egress_losses(device: &Device, earlier: Option<&Device>) -> (u64, u64) {
    let count = |device: &Device| {
        let traffic = device.traffic.unwrap_or_default();
        // A qdisc and its children count the same packets.
        let queued = device.qdiscs.iter().filter(|qdisc| !is_policy(qdisc));
        let drops = queued.map(|qdisc| qdisc.drops).max().unwrap_or(0);
        (traffic.tx_dropped.saturating_add(drops), traffic.tx_packets)
    };
    let (lost, sent) = count(device);
    let (lost_before, sent_before) = earlier.map_or((0, 0), count);
    (lost.saturating_sub(lost_before), sent.saturating_sub(sent_before))
}

/// Whether it exists to drop packets (a policer).
pub(crate) fn is_policy(qdisc: &Qdisc) -> bool {
    matches!(qdisc.kind.as_bytes(), b"ingress" | b"clsact")
}

/// Whether it is a tunnel whose packets a program reads.
pub(crate) fn is_tunnel(device: &Device) -> bool {
    matches!(device.driver.as_bytes(), b"tun" | b"tap")
}

/// Whether the program of a tunnel reads nothing: packets are dropped and none gets out. The device counts a packet as
/// sent when its program reads it (`tun_do_read()`).
/// A program may pause for a moment: a shorter time since the earlier sample shows nothing.
pub(crate) fn is_not_read(
    device: &Device,
    earlier: Option<&Device>,
    elapsed: Option<Duration>,
    limits: &Limits,
) -> bool {
    let traffic = |device: &Device| device.traffic.unwrap_or_default();
    let now = traffic(device);
    let before = earlier.map(traffic).unwrap_or_default();
    is_tunnel(device)
        && device.is_up
        && (earlier.is_none() || elapsed.is_some_and(|elapsed| elapsed >= PAUSE_MAX))
        && now.tx_packets == before.tx_packets
        && now.tx_dropped.saturating_sub(before.tx_dropped) >= limits.of(Limit::DeviceDropsCount)
}

const PAUSE_MAX: Duration = Duration::from_secs(1);
