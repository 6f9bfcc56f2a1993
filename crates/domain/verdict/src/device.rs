//! Rules about network interfaces and their queues.

use crate::connection::permille;
use crate::egress::EgressDevices;
use crate::finding::Subject;
use crate::judge::finding_about;
use crate::{Finding, Limit, Limits, Remedy, Rule, Severity, shell_word};
use sockeye_model::{Device, Duplex, Qdisc, Traffic, Vitals};

pub(crate) fn findings(
    vitals: &Vitals,
    before: Option<&Vitals>,
    egress: &EgressDevices,
    limits: &Limits,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for device in &vitals.devices {
        let patient = DeviceCheck {
            device,
            earlier: earlier(device, before),
            vitals,
            limits,
        };
        found.extend(patient.link());
        found.extend(patient.bond());
        let lost = patient.traffic();
        let queues = patient.qdiscs();
        let drops_sent = lost.iter().chain(&queues).any(|finding| {
            finding.facts.value("tx_dropped").is_some_and(|drops| drops > 0)
                || finding.rule == Rule::QdiscDrops
        });
        let queue = patient.queue(egress, drops_sent);
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

struct DeviceCheck<'a> {
    device: &'a Device,
    earlier: Option<&'a Device>,
    vitals: &'a Vitals,
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
        if self.earlier.is_none() && !directions.into_iter().any(is_much) {
            finding.severity = finding.severity.min(Severity::Notice);
        }
        finding
    }

    fn about(&self, rule: Rule, facts: &[(&'static str, Option<u64>)], remedies: Vec<Remedy>) -> Finding {
        finding_about(
            rule,
            self.vitals.netns,
            Subject::Device(self.device.name),
            facts,
            remedies,
        )
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
        let (rx_dropped, tx_dropped) = (since(|t| t.rx_dropped), since(|t| t.tx_dropped));
        let (rx_errors, tx_errors) = (since(|t| t.rx_errors), since(|t| t.tx_errors));
        let is_much = |lost: u64, carried: u64, count, share| {
            lost >= self.limits.of(count)
                && permille(lost, carried.saturating_add(lost)) >= self.limits.of(share)
        };
        let name = self.name();
        let mut found = Vec::new();
        let (count, share) = (Limit::DeviceDropsCount, Limit::DeviceDropsShare);
        if is_much(rx_dropped, rx, count, share) || is_much(tx_dropped, tx, count, share) {
            let mut remedies = vec![Remedy::Inside(format!("ip -s -s link show dev {name}"))];
            if self.is_tunnel() {
                let length = u64::from(self.device.queue_packets.unwrap_or_default());
                let better = length.saturating_mul(2).clamp(SUGGESTED_MIN, SUGGESTED_MAX);
                if length < better {
                    remedies.push(Remedy::Inside(format!(
                        "ip link set dev {name} txqueuelen {better}"
                    )));
                }
                remedies.push(Remedy::Advice(
                    "look at the program that reads the tunnel: a longer queue helps against bursts, not against a slow reader",
                ));
            } else if self.device.is_physical {
                remedies.push(Remedy::Inside(format!(
                    "ethtool -S {name} | grep -iE 'drop|miss|fifo'; ethtool -g {name}"
                )));
            }
            let finding = self.about(
                Rule::DeviceDrops,
                &[
                    ("tx_dropped", Some(tx_dropped)),
                    ("tx_packets", Some(tx)),
                    ("rx_dropped", Some(rx_dropped)),
                    ("rx_packets", Some(rx)),
                    ("queue_packets", self.device.queue_packets.map(u64::from)),
                ],
                remedies,
            );
            found.push(self.lower_if_old(finding, [(rx_dropped, rx), (tx_dropped, tx)], share));
        }
        let (count, share) = (Limit::DeviceErrorsCount, Limit::DeviceErrorsShare);
        if is_much(rx_errors, rx, count, share) || is_much(tx_errors, tx, count, share) {
            let finding = self.about(
                Rule::DeviceErrors,
                &[
                    ("rx_errors", Some(rx_errors)),
                    ("tx_errors", Some(tx_errors)),
                    ("rx_crc_errors", Some(since(|t| t.rx_crc_errors))),
                    ("rx_fifo_errors", Some(since(|t| t.rx_fifo_errors))),
                    ("rx_missed_errors", Some(since(|t| t.rx_missed_errors))),
                    ("tx_carrier_errors", Some(since(|t| t.tx_carrier_errors))),
                    ("collisions", Some(since(|t| t.collisions))),
                ],
                vec![Remedy::Inside(format!(
                    "ip -s -s link show dev {name}; ethtool {name}"
                ))],
            );
            found.push(self.lower_if_old(finding, [(rx_errors, rx), (tx_errors, tx)], share));
        }
        found
    }

    fn is_tunnel(&self) -> bool {
        matches!(self.device.driver.as_bytes(), b"tun" | b"tap")
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
        let mut finding = self.about(
            Rule::QueueLength,
            &[
                ("queue_packets", Some(length)),
                // What a transfer has in flight is no evidence if this queue slowed it down.
                ("needed_packets", Some(needed).filter(|packets| *packets > length)),
                ("rate_bytes_per_s", need.map(|need| need.rate_bytes_per_s)),
                ("rtt_us", need.map(|need| need.rtt_us)),
                (
                    "tx_dropped",
                    Some(traffic.tx_dropped.saturating_sub(earlier.tx_dropped)),
                ),
                (
                    "tx_packets",
                    Some(traffic.tx_packets.saturating_sub(earlier.tx_packets)),
                ),
            ],
            vec![Remedy::Inside(format!(
                "ip link set dev {} txqueuelen {better}",
                self.name()
            ))],
        );
        if drops && self.earlier.is_some() {
            finding.severity = Severity::Critical;
        }
        Some(finding)
    }

    fn qdiscs(&self) -> Vec<Finding> {
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
            let facts = [
                ("drops", Some(drops)),
                ("packets", Some(packets)),
                ("waiting_packets", Some(qdisc.waiting_packets.into())),
                ("waiting_bytes", Some(qdisc.waiting_bytes.into())),
                ("overlimits", Some(qdisc.overlimits)),
                ("requeues", Some(qdisc.requeues)),
            ];
            let remedies = vec![Remedy::Inside(format!("tc -s qdisc show dev {}", self.name()))];
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
            } else if u64::from(qdisc.waiting_packets) >= self.limits.of(Limit::QdiscBacklogPackets) {
                Rule::QdiscBacklog
            } else {
                continue;
            };
            let finding = finding_about(rule, self.vitals.netns, subject, &facts, remedies);
            found.push((
                qdisc,
                self.lower_if_old(finding, [(drops, packets)], Limit::QdiscDropsShare),
            ));
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
            let mut finding = self.about(
                Rule::NoCarrier,
                &[
                    ("carrier_changes", device.carrier_changes.map(u64::from)),
                    ("addresses", Some(device.addresses.len() as u64)),
                ],
                vec![Remedy::Inside(if device.is_physical {
                    format!("ethtool {name}")
                } else {
                    format!("ip -d link show dev {name}")
                })],
            );
            // An address shows that the device is meant to be used.
            if device.addresses.iter().any(|ip| !is_link_local(*ip)) {
                finding.severity = Severity::Warning;
            }
            found.push(finding);
        }
        if device.is_up && device.duplex == Some(Duplex::Half) {
            found.push(self.about(
                Rule::HalfDuplex,
                &[("speed_mbit_per_s", device.speed_mbit_per_s.map(u64::from))],
                vec![
                    Remedy::Inside(format!("ethtool {name}")),
                    Remedy::Inside(format!("ethtool -s {name} autoneg on")),
                    Remedy::Advice("set both ends to autonegotiation: one fixed end makes the other fall back to half duplex"),
                ],
            ));
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
            found.push(self.about(
                Rule::BondUnmonitored,
                &[
                    ("miimon_ms", bond.miimon_ms.map(u64::from)),
                    ("arp_interval_ms", bond.arp_interval_ms.map(u64::from)),
                ],
                vec![Remedy::Inside(format!(
                    "ip link set dev {name} type bond miimon 100"
                ))],
            ));
        }
        if let Some(port) = device.bond_port {
            if port.is_up == Some(false) {
                found.push(self.about(
                    Rule::BondPortDown,
                    &[
                        ("failures", port.failures.map(u64::from)),
                        ("carrier_changes", device.carrier_changes.map(u64::from)),
                    ],
                    vec![Remedy::Inside(format!("cat /proc/net/bonding/*; ethtool {name}"))],
                ));
            } else if device.is_up && device.has_carrier == Some(true) && device.speed_mbit_per_s.is_none() {
                found.push(self.about(
                    Rule::SpeedUnknown,
                    &[],
                    vec![Remedy::Inside(format!("ethtool {name}"))],
                ));
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
    root.parent == TC_H_ROOT && matches!(root.kind.as_bytes(), b"mq" | b"mqprio" | b"taprio")
}

/// Whether `part` is a child of `whole`. Default qdiscs have no handle: then only a multiqueue root has
/// children.
fn is_part(part: &Qdisc, whole: &Qdisc) -> bool {
    let has_number = whole.handle >> 16 != 0;
    part.parent != TC_H_ROOT
        && part.parent >> 16 == whole.handle >> 16
        && (has_number || is_multiqueue_root(whole))
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

/// Whether it exists to drop packets (a policer).
fn is_policy(qdisc: &Qdisc) -> bool {
    matches!(qdisc.kind.as_bytes(), b"ingress" | b"clsact")
}

fn is_link_local(ip: std::net::IpAddr) -> bool {
    match ip {
        std::net::IpAddr::V4(ip) => ip.is_link_local(),
        std::net::IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

const TC_H_ROOT: u32 = 0xffff_ffff;
/// Losses of this multiple of the limit are reported without a second sample.
const CLEAR_FACTOR: u64 = 10;
/// The default of `txqueuelen`, and the length from which more only adds delay.
const SUGGESTED_MIN: u64 = 1000;
const SUGGESTED_MAX: u64 = 10_000;

#[cfg(test)]
mod tests;
