//! Drops by the hosts themselves, and lost datagrams.

use super::amount::percent;
use super::{LimitAnalysis, NamedEnd};
use crate::Sentence;
use crate::transfer::{Datagrams, DeviceWork};
use sockeye_model::{counted, counted_were};

impl LimitAnalysis<'_> {
    /// Drops by the hosts themselves.
    pub(super) fn drops(&self) -> Vec<Sentence> {
        let mut list = Vec::new();
        for device in &self.sender.end.devices {
            list.extend(device_drops(device, self.sender));
        }
        // If both ends are on one host, they have the same devices.
        let is_reported = |device: &DeviceWork| {
            let same = |other: &&DeviceWork| other.name == device.name && other.queue == device.queue;
            let twin = self.sender.end.devices.iter().find(same);
            twin.is_some_and(|twin| drops_of(twin) == drops_of(device))
        };
        for device in &self.receiver.end.devices {
            if !is_reported(device) {
                list.extend(device_drops(device, self.receiver));
            }
        }
        let ends = [self.sender, self.receiver].into_iter();
        list.extend(ends.filter_map(backlog_drops).next());
        let received = self.receiver.end.work.receive_queue_drops;
        if let Some(drops) = received.filter(|&drops| drops > 0 && !self.limits.is_udp) {
            let at = self.receiver.at;
            let text = format!(
                "{} dropped {at}, because the receive buffer was full.",
                counted_were(drops, "segment")
            );
            let counters =
                format!("nstat -az TcpExtTCPRcvQDrop TcpExtTCPBacklogDrop TcpExtRcvPruned    # {at}");
            list.push(Sentence::new("receive-drops", text).with([counters]));
        }
        list
    }

    /// Where datagrams were lost.
    pub(super) fn datagrams(&self) -> Option<Sentence> {
        let sum = |of: fn(&Datagrams) -> Option<u64>| {
            let all = self
                .streams
                .iter()
                .filter_map(|stream| of(stream.datagrams.as_ref()?));
            all.reduce(u64::saturating_add)
        };
        let (lost, sent) = (sum(|it| it.lost)?, sum(|it| it.sent)?);
        if lost == 0 {
            return None;
        }
        let share = percent(lost as f64 * 1000.0 / sent.max(1) as f64);
        let (at, work) = (self.receiver.at, &self.receiver.end.work);
        if let Some(drops) = work
            .udp_receive_drops
            .filter(|&drops| drops >= lost / 2 && drops > 0)
        {
            let text = format!(
                "{lost} of {} {} lost ({share}), {drops} of them {at}: the receive buffer was full.",
                counted(sent, "datagram"),
                if lost == 1 { "was" } else { "were" }
            );
            let why = "a longer buffer, as far as net.core.rmem_max lets it";
            let wider = work.rmem_max_bytes.map(|max| {
                let wider = max.saturating_mul(4);
                format!("sysctl -w net.core.rmem_max={wider}    # {at}")
            });
            return Some(
                Sentence::new("receive-buffer-drops", text)
                    .with(self.rerun(|it| it.with("-w", "4M"), why))
                    .with(wider),
            );
        }
        let arrived = self.streams.iter().filter_map(|stream| {
            let side = stream.received.as_ref()?;
            let elapsed = side.elapsed_us.filter(|&us| us > 0)?;
            Some(side.bytes? as f64 * 8e6 / elapsed as f64)
        });
        // A little less than the rate that arrived, of the slowest stream.
        let rate = arrived.reduce(f64::min).filter(|&rate| rate >= 2000.0);
        let slower = rate.and_then(|rate| {
            let kbit = (rate * 0.95 / 1000.0) as u64;
            self.rerun(
                |it| it.with("-b", format!("{kbit}k")),
                "does nothing get lost then?",
            )
        });
        let text = format!(
            "{lost} of {} {} lost ({share}) on the way.",
            counted(sent, "datagram"),
            if lost == 1 { "was" } else { "were" }
        );
        Some(
            Sentence::new("datagrams-lost", text)
                .with(slower)
                .with(self.traceroute()),
        )
    }
}

fn backlog_drops(end: NamedEnd<'_>) -> Option<Sentence> {
    let drops = end.end.work.softnet_dropped.filter(|&drops| drops > 0)?;
    let at = end.at;
    let text = format!(
        "{} dropped {at}, for a processor's backlog was full.",
        counted_were(drops, "packet")
    );
    let longer = format!("sysctl -w net.core.netdev_max_backlog=10000    # {at}");
    Some(Sentence::new("backlog-drops", text).with([longer]))
}

fn drops_of(device: &DeviceWork) -> [Option<u64>; 4] {
    let numbers = &device.numbers;
    [
        numbers.queue_dropped,
        numbers.tx_dropped,
        numbers.rx_dropped,
        numbers.rx_missed,
    ]
}

fn device_drops(device: &DeviceWork, end: NamedEnd<'_>) -> Option<Sentence> {
    let all @ [queue, tx, rx, missed] = drops_of(device).map(|drops| drops.unwrap_or(0));
    if all == [0; 4] {
        return None;
    }
    let (name, at) = (&device.name, end.at);
    let mut parts = Vec::new();
    if queue > 0 {
        let kind = device.queue.as_deref().unwrap_or("its queue");
        parts.push(format!("{queue} by its queue ({kind})"));
    }
    // Many devices also count drops of their queue.
    if tx > 0 && tx != queue {
        parts.push(format!("{tx} by the device when sending"));
    }
    if rx > 0 {
        parts.push(format!("{rx} when receiving"));
    }
    if missed > 0 {
        parts.push(format!("{missed} for its ring was full"));
    }
    if parts.is_empty() {
        parts.push(format!("{tx} when sending"));
    }
    let text = format!("{name} {at} dropped packets meanwhile: {}.", parts.join(", "));
    let mut sentence = Sentence::new("device-drops", text);
    let shell = device_word(name);
    if queue > 0 || tx > 0 {
        let show = format!("tc -s qdisc show dev {shell}");
        sentence.remedy(end.command(&show, "which queue drops"));
        let packets = device.numbers.queue_packets;
        if let Some(packets) = packets.filter(|&packets| packets < LONG_QUEUE) {
            let longer = format!("ip link set dev {shell} txqueuelen {LONG_QUEUE}");
            sentence.remedy(end.command(&longer, &format!("it holds {packets} packets")));
        }
    }
    if rx > 0 || missed > 0 {
        sentence.remedy(format!("ip -s -s link show dev {shell}    # {at}"));
    }
    if missed > 0 {
        sentence.remedy(end.command(&format!("ethtool -g {shell}"), "how long its ring may be"));
    }
    Some(sentence)
}

/// Returns a device name as a word of a command.
pub(super) fn device_word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        UNNAMED.to_owned()
    }
}

/// Replaces a device name that is unknown or not valid in a command.
pub(super) const UNNAMED: &str = "DEVICE";
const LONG_QUEUE: u64 = 1000;
