//! Network interfaces and their queues.

use crate::connection::permille;
use crate::finding::Subject;
use crate::judge::about;
use crate::transit::Transit;
use crate::{Finding, Limit, Limits, Remedy, Rule, Severity, shell_word};
use sockeye_model::{Device, Duplex, Qdisc, Traffic, Vitals};

pub(crate) fn findings(
    vitals: &Vitals,
    before: Option<&Vitals>,
    transit: &Transit,
    limits: &Limits,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for device in &vitals.devices {
        let patient = Patient {
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
        let queue = patient.queue(transit, drops_sent);
        // A queue that is too short is why it drops.
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

/// The same device as it was before. A device may go, and another take its number and even its name: its counters begin
/// anew.
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

/// What was to be sent and got lost on this host, and what was sent.
pub(crate) fn lost_on_the_way_out(device: &Device, earlier: Option<&Device>) -> (u64, u64) {
    let count = |device: &Device| {
        let traffic = device.traffic.unwrap_or_default();
        // Of a discipline and its parts each counts the same packets.
        let queued = device.qdiscs.iter().filter(|qdisc| !is_policy(qdisc));
        let drops = queued.map(|qdisc| qdisc.drops).max().unwrap_or(0);
        (traffic.tx_dropped.saturating_add(drops), traffic.tx_packets)
    };
    let (lost, sent) = count(device);
    let (lost_before, sent_before) = earlier.map_or((0, 0), count);
    (lost.saturating_sub(lost_before), sent.saturating_sub(sent_before))
}

struct Patient<'a> {
    device: &'a Device,
    earlier: Option<&'a Device>,
    vitals: &'a Vitals,
    limits: &'a Limits,
}

impl Patient<'_> {
    /// What was since the device was made may be long over, unless it is much.
    fn lately<const N: usize>(&self, mut finding: Finding, ways: [(u64, u64); N], share: Limit) -> Finding {
        let least = self.limits.of(share).saturating_mul(MUCH);
        let is_much = |(lost, carried): (u64, u64)| permille(lost, carried.saturating_add(lost)) >= least;
        if self.earlier.is_none() && !ways.into_iter().any(is_much) {
            finding.severity = finding.severity.min(Severity::Notice);
        }
        finding
    }

    fn about(&self, rule: Rule, facts: &[(&'static str, Option<u64>)], remedies: Vec<Remedy>) -> Finding {
        about(
            rule,
            self.vitals.netns,
            Subject::Device(self.device.name),
            facts,
            remedies,
        )
    }

    /// Its name, for a shell.
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
            found.push(self.lately(finding, [(rx_dropped, rx), (tx_dropped, tx)], share));
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
            found.push(self.lately(finding, [(rx_errors, rx), (tx_errors, tx)], share));
        }
        found
    }

    fn is_tunnel(&self) -> bool {
        matches!(self.device.driver.as_bytes(), b"tun" | b"tap")
    }

    /// Whether what waits in it is limited by `txqueuelen`: of tun and tap always, of others as their queueing
    /// discipline has it.
    fn has_a_queue_of_packets(&self) -> bool {
        let root = self.device.qdiscs.first();
        self.is_tunnel() || root.is_some_and(counts_packets)
    }

    fn queue(&self, transit: &Transit, drops: bool) -> Option<Finding> {
        let device = self.device;
        let length = u64::from(device.queue_packets?);
        // Without a carrier nothing gets out, however long it is.
        let is_dead = !device.is_up || device.has_carrier == Some(false);
        if device.is_loopback || is_dead || !self.has_a_queue_of_packets() {
            return None;
        }
        let need = transit.need(self.vitals.netns, device.index);
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
                // Of a transfer that this very queue slowed down, what it has on its way now says nothing.
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
        // Of a device with several queues the packets of all are counted at the root.
        let several = device.qdiscs.first().filter(|root| is_of_queues(root));
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
                MUCH
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
            let finding = about(rule, self.vitals.netns, subject, &facts, remedies);
            found.push((
                qdisc,
                self.lately(finding, [(drops, packets)], Limit::QdiscDropsShare),
            ));
        }
        // A discipline counts what its parts drop, too: the innermost says it best.
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
            // Somebody means to use it.
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

/// Whether this discipline holds as many packets as `txqueuelen` says.
fn counts_packets(root: &Qdisc) -> bool {
    matches!(root.kind.as_bytes(), b"pfifo_fast" | b"pfifo" | b"mq")
}

/// Whether this discipline stands for the queues of a device that has several.
fn is_of_queues(root: &Qdisc) -> bool {
    root.parent == TC_H_ROOT && matches!(root.kind.as_bytes(), b"mq" | b"mqprio" | b"taprio")
}

/// Whether one is a part of the other. Those that nobody set up by hand have no number: only a root has parts then.
fn is_part(part: &Qdisc, whole: &Qdisc) -> bool {
    let has_number = whole.handle >> 16 != 0;
    part.parent != TC_H_ROOT && part.parent >> 16 == whole.handle >> 16 && (has_number || is_of_queues(whole))
}

/// Whether it drops a little now and then, so that senders slow down before its queue is long.
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

/// What a policer drops it is there to drop.
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
/// So many times the least share is much.
const MUCH: u64 = 10;
/// What `txqueuelen` is by default, and where more only adds delay.
const SUGGESTED_MIN: u64 = 1000;
const SUGGESTED_MAX: u64 = 10_000;

#[cfg(test)]
mod tests;
