//! Rules about network interfaces and their queues.

use crate::device_counters::{earlier, is_not_read, is_policy, is_tunnel};
use crate::egress::EgressDevices;
use crate::finding::Subject;
use crate::own_queues::{Effects, OwnQueues, is_filled};
use crate::share::permille;
use crate::{Finding, Limit, Limits, Rule, Severity, shell_word};
use sockeye_model::{Device, Duplex, InterfaceIndex, NetnsInode, Qdisc, Traffic, Vitals};
use std::collections::HashSet;
use std::time::Duration;

pub(crate) fn findings(
    vitals: &Vitals,
    before: Option<&Vitals>,
    egress: &EgressDevices,
    own_queues: &OwnQueues,
    is_explained: &dyn Fn(InterfaceIndex) -> bool,
    elapsed: Option<Duration>,
    limits: &Limits,
) -> Vec<Finding> {
    let mut found = Vec::new();
    // Of a device without carrier that connections need, only that is reported.
    for device in vitals.devices.iter().filter(|device| !is_explained(device.index)) {
        let check = DeviceCheck {
            device,
            earlier: earlier(device, before),
            vitals,
            elapsed,
            limits,
        };
        found.extend(check.link());
        found.extend(check.duplicate_address());
        found.extend(check.bond());
        let lost = check.traffic();
        let queues = check.qdiscs(own_queues.effects(vitals.netns, device.index));
        let drops_sent = lost.iter().chain(&queues).any(|finding| {
            finding.facts.value("tx_dropped").is_some_and(|drops| drops > 0)
                || finding.rule == Rule::QdiscDrops
        });
        if is_not_read(device, check.earlier, elapsed, limits) {
            found.push(check.not_read());
            found.extend(
                queues
                    .into_iter()
                    .filter(|finding| finding.rule != Rule::QdiscDrops),
            );
            continue;
        }
        let queue = check.queue(egress, drops_sent);
        // A queue that is too short is the cause of the drops.
        if queue.is_some() {
            found.extend(lost.into_iter().filter(|finding| {
                finding.rule != Rule::DeviceDrops
                    || finding.facts.value("rx_dropped").is_some_and(|drops| drops > 0)
            }));
        } else {
            found.extend(lost);
        }
        found.extend(queues);
        found.extend(queue);
    }
    found
}

/// The devices that stand still with others: ports of a bridge or bond, and devices on top of them.
pub(crate) fn stacked_with(
    vitals: &Vitals,
    dead: &HashSet<(Option<NetnsInode>, InterfaceIndex)>,
) -> Vec<(Option<NetnsInode>, InterfaceIndex)> {
    let mut found: Vec<InterfaceIndex> = Vec::new();
    loop {
        let is_dead = |index: InterfaceIndex| found.contains(&index) || dead.contains(&(vitals.netns, index));
        let next = vitals.devices.iter().find(|device| {
            let has_link = device.is_up && device.has_carrier != Some(false);
            let lower = device.lower.filter(|_| device.driver.as_bytes() != b"veth");
            let mut ports = vitals
                .devices
                .iter()
                .filter(|port| port.master == Some(device.index));
            let is_related = device.master.is_some_and(is_dead)
                || lower.is_some_and(is_dead)
                || ports.any(|port| is_dead(port.index));
            !has_link && is_related && !is_dead(device.index)
        });
        match next {
            Some(device) => found.push(device.index),
            None => break,
        }
    }
    found.into_iter().map(|index| (vitals.netns, index)).collect()
}

struct DeviceCheck<'a> {
    device: &'a Device,
    earlier: Option<&'a Device>,
    vitals: &'a Vitals,
    /// Time since the earlier sample; `None` if there is none.
    elapsed: Option<Duration>,
    limits: &'a Limits,
}

impl DeviceCheck<'_> {
    /// Lowers the severity if the losses are since the device was created (they may be long over), unless
    /// they are many.
    fn lower_if_old<const N: usize>(
        &self,
        mut finding: Finding,
        directions: [(u64, u64); N],
        share: Limit,
    ) -> Finding {
        let least = self.limits.of(share).saturating_mul(CLEAR_FACTOR);
        let is_much = |(lost, carried): (u64, u64)| permille(lost, carried.saturating_add(lost)) >= least;
        // Without its carrier a device drops all packets; that is over.
        let had_no_carrier = self
            .device
            .carrier_changes
            .is_some_and(|changes| changes >= CARRIER_CAME_BACK);
        let is_clear = directions.into_iter().any(is_much) && !had_no_carrier;
        if self.earlier.is_none() && !is_clear {
            finding.severity = finding.severity.min(Severity::Notice);
        }
        finding
    }

    fn about(&self, rule: Rule) -> Finding {
        Finding::about(rule, self.vitals.netns, Subject::Device(self.device.name))
    }

    /// The device's name, quoted for a shell.
    fn name(&self) -> String {
        shell_word(&String::from_utf8_lossy(self.device.name.as_bytes()))
    }

    fn traffic(&self) -> Vec<Finding> {
        let Some(now) = &self.device.traffic else {
            return Vec::new();
        };
        let nothing = Traffic::default();
        let before = self
            .earlier
            .and_then(|device| device.traffic.as_ref())
            .unwrap_or(&nothing);
        let since = |field: fn(&Traffic) -> u64| field(now).saturating_sub(field(before));
        let (rx, tx) = (since(|t| t.rx_packets), since(|t| t.tx_packets));
        let tx_dropped = since(|t| t.tx_dropped);
        // The kernel also counts frames of protocols that it does not handle (LLDP, STP, VLANs that are not set up) as
        // dropped: only what the device itself lost is a loss, and all that a tunnel's program wrote and the kernel did not take.
        let rx_dropped = if self.is_tunnel() {
            since(|t| t.rx_dropped)
        } else {
            let lost = since(|t| t.rx_missed_errors).saturating_add(since(|t| t.rx_fifo_errors));
            let dropped = since(|t| t.rx_dropped);
            // Such frames come a few times a second.
            let is_fast = self.elapsed.is_some_and(|elapsed| {
                let per_s = u128::from(dropped) * 1000 / elapsed.as_millis().max(1);
                self.earlier.is_some() && per_s >= UNHANDLED_PER_S_MAX
            });
            if lost > 0 || is_fast { dropped.max(lost) } else { 0 }
        };
        let (rx_errors, tx_errors) = (since(|t| t.rx_errors), since(|t| t.tx_errors));
        let is_much = |lost: u64, carried: u64, count, share| {
            lost >= self.limits.of(count)
                && permille(lost, carried.saturating_add(lost)) >= self.limits.of(share)
        };
        let name = self.name();
        let mut found = Vec::new();
        let (count, share) = (Limit::DeviceDropsCount, Limit::DeviceDropsShare);
        if is_much(rx_dropped, rx, count, share) || is_much(tx_dropped, tx, count, share) {
            let mut finding = self
                .about(Rule::DeviceDrops)
                .fact("tx_dropped", tx_dropped)
                .fact("tx_packets", tx)
                .fact("rx_dropped", rx_dropped)
                .fact("rx_packets", rx)
                .fact("queue_packets", self.device.queue_packets)
                .inside(format!("ip -s -s link show dev {name}"));
            if self.is_tunnel() {
                let length = u64::from(self.device.queue_packets.unwrap_or_default());
                let better = length.saturating_mul(2).clamp(SUGGESTED_MIN, SUGGESTED_MAX);
                if length < better {
                    finding = finding.inside(format!("ip link set dev {name} txqueuelen {better}"));
                }
                finding = finding.advice(
                    "look at the program that reads the tunnel: a longer queue helps against bursts, not against a slow reader",
                );
            } else if self.device.is_physical {
                finding = finding.inside(format!(
                    "ethtool -S {name} | grep -iE 'drop|miss|fifo'; ethtool -g {name}"
                ));
            }
            found.push(self.lower_if_old(finding, [(rx_dropped, rx), (tx_dropped, tx)], share));
        }
        let (count, share) = (Limit::DeviceErrorsCount, Limit::DeviceErrorsShare);
        if is_much(rx_errors, rx, count, share) || is_much(tx_errors, tx, count, share) {
            let finding = self
                .about(Rule::DeviceErrors)
                .fact("rx_errors", rx_errors)
                .fact("tx_errors", tx_errors)
                .fact("rx_crc_errors", since(|t| t.rx_crc_errors))
                .fact("rx_fifo_errors", since(|t| t.rx_fifo_errors))
                .fact("rx_missed_errors", since(|t| t.rx_missed_errors))
                .fact("tx_carrier_errors", since(|t| t.tx_carrier_errors))
                .fact("collisions", since(|t| t.collisions))
                .inside(format!("ip -s -s link show dev {name}; ethtool {name}"));
            found.push(self.lower_if_old(finding, [(rx_errors, rx), (tx_errors, tx)], share));
        }
        found
    }

    fn duplicate_address(&self) -> Option<Finding> {
        let addresses = Some(self.device.duplicate_addresses).filter(|count| *count > 0)?;
        let name = self.name();
        let finding = self.about(Rule::DuplicateAddress).fact("addresses", addresses);
        Some(
            finding
                .inside(format!("ip -6 address show dev {name} dadfailed"))
                .advice(
                    "find the other host (its link address is in the kernel's log), or set another address",
                ),
        )
    }

    fn is_tunnel(&self) -> bool {
        is_tunnel(self.device)
    }

    /// A tunnel from which its program reads nothing.
    fn not_read(&self) -> Finding {
        let now = self.device.traffic.unwrap_or_default();
        let before = self.earlier.and_then(|device| device.traffic).unwrap_or_default();
        let name = self.name();
        Finding {
            meaning: NOT_READ,
            ..self
                .about(Rule::DeviceDrops)
                .with(Severity::Critical)
                .fact("tx_dropped", now.tx_dropped.saturating_sub(before.tx_dropped))
                .fact("tx_packets", now.tx_packets.saturating_sub(before.tx_packets))
                .fact("queue_packets", self.device.queue_packets)
                .inside(format!("ip -d -s link show dev {name}"))
                .inside(format!("ip route show dev {name}"))
                .advice("look at the program that should read the tunnel; without one, remove the tunnel or its routes")
        }
    }

    /// Whether `txqueuelen` limits its queue: always for tun and tap, for others if the qdisc uses it.
    fn is_limited_by_txqueuelen(&self) -> bool {
        let root = self.device.qdiscs.first();
        self.is_tunnel() || root.is_some_and(counts_packets)
    }

    fn queue(&self, egress: &EgressDevices, drops: bool) -> Option<Finding> {
        let device = self.device;
        let length = u64::from(device.queue_packets?);
        // Without a carrier no packet leaves, however long the queue is.
        let has_no_link = !device.is_up || device.has_carrier == Some(false);
        if device.is_loopback || has_no_link || !self.is_limited_by_txqueuelen() {
            return None;
        }
        let need = egress.max_in_flight(self.vitals.netns, device.index);
        let needed = need.map_or(0, |need| need.packets);
        let least = self.limits.of(Limit::QueueLengthPackets);
        if length >= least.max(needed) {
            return None;
        }
        let traffic = device.traffic.unwrap_or_default();
        let earlier = self.earlier.and_then(|device| device.traffic).unwrap_or_default();
        let better = needed.saturating_mul(2).clamp(SUGGESTED_MIN, SUGGESTED_MAX);
        let mut finding = self
            .about(Rule::QueueLength)
            .fact("queue_packets", length)
            // What a transfer has in flight is no evidence if this queue slowed it down.
            .fact("needed_packets", Some(needed).filter(|packets| *packets > length))
            .fact("rate_bytes_per_s", need.map(|need| need.rate_bytes_per_s))
            .fact("rtt_us", need.map(|need| need.rtt_us))
            .fact(
                "tx_dropped",
                traffic.tx_dropped.saturating_sub(earlier.tx_dropped),
            )
            .fact(
                "tx_packets",
                traffic.tx_packets.saturating_sub(earlier.tx_packets),
            )
            .inside(format!("ip link set dev {} txqueuelen {better}", self.name()));
        if drops && self.earlier.is_some() {
            finding.severity = Severity::Critical;
        } else if !drops && needed <= length {
            finding.severity = Severity::Notice;
            finding.meaning = SHORT_QUEUE;
        }
        Some(finding)
    }

    /// `effects`: what its queues do to connections.
    fn qdiscs(&self, effects: Effects) -> Vec<Finding> {
        let device = self.device;
        let mut found: Vec<(&Qdisc, Finding)> = Vec::new();
        // For a device with several queues the root counts the packets of all.
        let several = device.qdiscs.first().filter(|root| is_multiqueue_root(root));
        let is_queue = |qdisc: &Qdisc| several.is_some_and(|root| is_part(qdisc, root));
        for qdisc in device.qdiscs.iter().filter(|qdisc| !is_queue(qdisc)) {
            let earlier = self.earlier.and_then(|device| {
                let mut all = device.qdiscs.iter();
                all.find(|earlier| (earlier.handle, earlier.parent) == (qdisc.handle, qdisc.parent))
            });
            let (drops, packets) = earlier.map_or((qdisc.drops, qdisc.packets), |earlier| {
                (
                    qdisc.drops.saturating_sub(earlier.drops),
                    qdisc.packets.saturating_sub(earlier.packets),
                )
            });
            let subject = Subject::Qdisc {
                device: device.name,
                kind: qdisc.kind,
            };
            let mut parts = device.qdiscs.iter().filter(|part| is_part(part, qdisc));
            let usual = if drops_early(qdisc) || parts.any(drops_early) {
                CLEAR_FACTOR
            } else {
                1
            };
            let least = self.limits.of(Limit::QdiscDropsShare).saturating_mul(usual);
            let rule = if drops >= self.limits.of(Limit::QdiscDropsCount)
                && permille(drops, packets.saturating_add(drops)) >= least
                && !is_policy(qdisc)
            {
                Rule::QdiscDrops
            } else if u64::from(qdisc.waiting_packets) >= self.limits.of(Limit::QdiscBacklogPackets)
                || (effects != Effects::default() && is_filled(qdisc))
            {
                Rule::QdiscBacklog
            } else {
                continue;
            };
            let mut finding = Finding::about(rule, self.vitals.netns, subject)
                .fact("drops", drops)
                .fact("packets", packets)
                .fact("waiting_packets", qdisc.waiting_packets)
                .fact("waiting_bytes", qdisc.waiting_bytes)
                .fact("overlimits", qdisc.overlimits)
                .fact("requeues", qdisc.requeues)
                .fact(
                    "stalled_connections",
                    Some(effects.stalled).filter(|count| *count > 0),
                )
                .inside(format!("tc -s qdisc show dev {}", self.name()));
            if rule == Rule::QdiscBacklog {
                if effects.stalled > 0 {
                    finding.severity = Severity::Warning;
                    finding.meaning = STALLED_IN_QUEUE;
                }
                found.push((qdisc, finding));
                continue;
            }
            let mut finding = self.lower_if_old(finding, [(drops, packets)], Limit::QdiscDropsShare);
            if effects.stalled > 0 {
                finding.severity = finding.severity.max(Severity::Warning);
            }
            found.push((qdisc, finding));
        }
        // A qdisc also counts the drops of its children: report the innermost.
        let all: Vec<&Qdisc> = found.iter().map(|(qdisc, _)| *qdisc).collect();
        found.retain(|(qdisc, _)| !all.iter().any(|part| is_part(part, qdisc)));
        found.into_iter().map(|(_, finding)| finding).collect()
    }

    fn link(&self) -> Vec<Finding> {
        let device = self.device;
        let name = self.name();
        let mut found = Vec::new();
        let has_ports = matches!(device.driver.as_bytes(), b"bridge");
        if device.is_up && device.has_carrier == Some(false) && !has_ports && device.bond_port.is_none() {
            let mut finding = self
                .about(Rule::NoCarrier)
                .fact("carrier_changes", device.carrier_changes)
                .fact("addresses", device.addresses.len() as u64)
                .inside(if device.is_physical {
                    format!("ethtool {name}")
                } else {
                    format!("ip -d link show dev {name}")
                });
            // An address shows that the device is meant to be used.
            if device.addresses.iter().any(|ip| !is_link_local(*ip)) {
                finding.severity = Severity::Warning;
            }
            found.push(finding);
        }
        if device.is_up && device.duplex == Some(Duplex::Half) {
            found.push(self.about(Rule::HalfDuplex)
.fact("speed_mbit_per_s", device.speed_mbit_per_s)
.inside(format!("ethtool {name}"))
.inside(format!("ethtool -s {name} autoneg on"))
.advice("set both ends to autonegotiation: one fixed end makes the other fall back to half duplex"));
        }
        found
    }

    fn bond(&self) -> Vec<Finding> {
        let device = self.device;
        let name = self.name();
        let mut found = Vec::new();
        if let Some(bond) = device.bond
            && (bond.miimon_ms, bond.arp_interval_ms) == (Some(0), Some(0))
        {
            found.push(
                self.about(Rule::BondUnmonitored)
                    .fact("miimon_ms", bond.miimon_ms)
                    .fact("arp_interval_ms", bond.arp_interval_ms)
                    .inside(format!("ip link set dev {name} type bond miimon 100")),
            );
        }
        if let Some(port) = device.bond_port {
            if port.is_up == Some(false) {
                found.push(
                    self.about(Rule::BondPortDown)
                        .fact("failures", port.failures)
                        .fact("carrier_changes", device.carrier_changes)
                        .inside(format!("cat /proc/net/bonding/*; ethtool {name}")),
                );
            } else if device.is_up && device.has_carrier == Some(true) && device.speed_mbit_per_s.is_none() {
                found.push(self.about(Rule::SpeedUnknown).inside(format!("ethtool {name}")));
            }
        }
        found
    }
}

/// Whether this qdisc holds as many packets as `txqueuelen` allows.
fn counts_packets(root: &Qdisc) -> bool {
    matches!(root.kind.as_bytes(), b"pfifo_fast" | b"pfifo" | b"mq")
}

/// Whether this qdisc is the root of a multiqueue device.
fn is_multiqueue_root(root: &Qdisc) -> bool {
    root.is_root() && matches!(root.kind.as_bytes(), b"mq" | b"mqprio" | b"taprio")
}

/// Whether `part` is a child of `whole`. Default qdiscs have no handle: then only a multiqueue root has
/// children.
fn is_part(part: &Qdisc, whole: &Qdisc) -> bool {
    let has_number = whole.handle >> 16 != 0;
    !part.is_root() && part.parent >> 16 == whole.handle >> 16 && (has_number || is_multiqueue_root(whole))
}

/// Whether it drops some packets early, so that senders slow down before its queue is long.
fn drops_early(qdisc: &Qdisc) -> bool {
    matches!(
        qdisc.kind.as_bytes(),
        b"fq_codel"
            | b"codel"
            | b"cake"
            | b"pie"
            | b"fq_pie"
            | b"dualpi2"
            | b"red"
            | b"gred"
            | b"sfb"
            | b"choke"
    )
}

fn is_link_local(ip: std::net::IpAddr) -> bool {
    match ip {
        std::net::IpAddr::V4(ip) => ip.is_link_local(),
        std::net::IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// No packet was dropped, and no transfer has more on its way than the queue holds.
const SHORT_QUEUE: &str = "The device's queue is short: it has dropped nothing, but would drop a burst of more packets than it holds.";
/// A queue of this host in which connections stand still.
const STALLED_IN_QUEUE: &str = "Packets wait in this host's own queueing discipline: it sends more slowly (a shaper, or a slow device) than programs write, and connections stand still meanwhile.";
/// The packets of a tunnel stay in its queue.
const NOT_READ: &str = "No program reads the tunnel, so nothing that is sent into it gets out: its queue is full, and packets are dropped. The program hangs or is stopped, or the tunnel is left over.";
/// Frames of protocols that are not handled; more than so many a second are a loss.
const UNHANDLED_PER_S_MAX: u128 = 100;
/// Changes of the carrier of a device that was up, down and up again; the first makes it up.
const CARRIER_CAME_BACK: u32 = 3;
/// Losses of this multiple of the limit are reported without a second sample.
const CLEAR_FACTOR: u64 = 10;
/// The default of `txqueuelen`, and the length from which more only adds delay.
const SUGGESTED_MIN: u64 = 1000;
const SUGGESTED_MAX: u64 = 10_000;

#[cfg(test)]
mod tests;
