//! Queues that no packet's stamps show, from what the kernel says of them again and again: classes of a qdisc, rings in bytes, accept
//! queues.

use crate::accept::AcceptFold;
use crate::hop::{Device, HopKey, HopKind};
use crate::part::{Fill, Part};
use crate::report::{Hop, PathReport};
use sockeye_measure::Histogram;
use sockeye_model::DeviceQueues;
use std::collections::{BTreeMap, BTreeSet};

/// Collects what is seen of queues.
#[derive(Debug, Clone, Default)]
pub struct QueueFold {
    rings: BTreeMap<Device, Fill>,
    classes: BTreeMap<(Device, u32), Fill>,
    /// Packets that a class had dropped at the first look and at the last one.
    class_drops: BTreeMap<(Device, u32), (u64, u64)>,
    listeners: BTreeMap<Part, Fill>,
}

impl QueueFold {
    /// Adds a look at the queues of a device.
    pub fn add_device(&mut self, device: Device, queues: &DeviceQueues) {
        if let Some(bytes) = queues.ring_bytes {
            self.rings.entry(device).or_default().add(bytes);
        }
        let parents: BTreeSet<u32> = queues.classes.iter().map(|class| class.parent).collect();
        for class in &queues.classes {
            let is_inner = parents.contains(&class.handle);
            // What waits in a class of classes waits in one of those.
            if !is_inner {
                let fill = self.classes.entry((device, class.handle)).or_default();
                fill.add(class.waiting_packets.into());
                let first = (class.drops, class.drops);
                let drops = self.class_drops.entry((device, class.handle)).or_insert(first);
                drops.1 = class.drops;
            }
        }
    }

    /// Returns the class of a device that has dropped more than half of what its classes have, between the first look and the last one.
    fn dropping_class(&self, device: Device) -> Option<u32> {
        let of_device = self.class_drops.iter().filter(|((of, _), _)| *of == device);
        let drops = of_device.map(|((_, class), (first, last))| (last.saturating_sub(*first), *class));
        let (most, class) = drops.clone().max()?;
        let all: u64 = drops.map(|(count, _)| count).sum();
        (most * 2 > all).then_some(class)
    }

    /// Whether a listener was seen.
    #[must_use]
    pub fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Adds a look at the accept queue of a listener.
    pub fn add_listener(&mut self, listener: Part, waiting: u32) {
        if self.listeners.len() < LISTENERS_MAX || self.listeners.contains_key(&listener) {
            self.listeners.entry(listener).or_default().add(waiting.into());
        }
    }
}

impl PathReport {
    /// Adds the queues: bytes to the rings of devices, and rows for classes and accept queues in which something waited, or of
    /// which times are known. Of each device and of all listeners the fullest are kept.
    pub fn add_queues(&mut self, queues: &QueueFold, accepts: &AcceptFold) {
        for hop in &mut self.hops {
            let device = hop.key.device.filter(|_| hop.key.kind == HopKind::Ring);
            hop.ring_bytes = device.and_then(|device| queues.rings.get(&device).copied());
        }
        let mut begin = 0;
        while let Some(at) = self.hops[begin..]
            .iter()
            .position(|hop| hop.key.kind == HopKind::Qdisc)
            .map(|at| begin + at)
        {
            let key = self.hops[at].key;
            self.hops[at].dropping_class = key.device.and_then(|device| queues.dropping_class(device));
            let of_device = queues
                .classes
                .iter()
                .filter(|((device, _), _)| Some(*device) == key.device);
            let rows = fullest(of_device.map(|((_, class), fill)| (Part::Class(*class), *fill)));
            let kind = HopKind::Class;
            let rows = rows.map(|(part, fill)| row(HopKey { kind, ..key }, part, fill));
            self.hops.splice(at + 1..at + 1, rows);
            begin = at + 1;
        }
        let mut rows = accepts.rows(&queues.listeners);
        rows.sort_by_key(|hop| std::cmp::Reverse((hop.queued_max, hop.packets)));
        rows.truncate(ROWS_MAX);
        self.hops.extend(rows);
    }
}

/// Returns the fullest queues of those in which something waited.
fn fullest(queues: impl Iterator<Item = (Part, Fill)>) -> impl Iterator<Item = (Part, Fill)> {
    let mut used: Vec<_> = queues.filter(|(_, fill)| fill.max > 0).collect();
    used.sort_by_key(|(part, fill)| (std::cmp::Reverse(fill.max), *part));
    used.into_iter().take(ROWS_MAX)
}

/// A row that only says what waits.
pub(crate) fn row(key: HopKey, part: Part, fill: Fill) -> Hop {
    Hop {
        key,
        part: Some(part),
        packets: 0,
        bytes: 0,
        delays: Histogram::new(),
        total_ns: 0,
        weight_ns: 0,
        qdisc: None,
        queued_now: fill.now,
        queued_max: fill.max,
        ring_bytes: None,
        dropping_class: None,
        send_buffer: None,
        drops: BTreeMap::new(),
        places: crate::drops::Places::default(),
        readers: Vec::new(),
        unlisted_reads: 0,
        waiting: None,
    }
}

/// Rows of classes of a device, and of listeners.
const ROWS_MAX: usize = 16;
const LISTENERS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::{Ending, PathFold};
    use crate::hop::Direction;
    use sockeye_model::{DeviceName, InterfaceIndex, Qdisc, ShortText};
    use sockeye_wire::path::{Journey, Point, QueueLength, Stamp};

    fn device() -> Device {
        Device {
            netns: 1,
            ifindex: 2,
            name: DeviceName::from_c(b"eth0\0"),
        }
    }

    /// A packet that has left by `eth0`.
    fn report() -> PathReport {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"eth0");
        let stamp = |(ns, point): (u64, Point)| Stamp {
            ns,
            netns: 1,
            ifindex: 2,
            point,
            length: QueueLength::Unknown,
            device: name,
        };
        let stamps = [(1, Point::Queued), (2, Point::Transmitted), (3, Point::Sent)];
        let journey = Journey {
            protocol: 6,
            end: Some(Point::Sent),
            is_truncated: false,
            source: ([10, 0, 0, 1], 5000).into(),
            destination: ([10, 0, 0, 2], 443).into(),
            bytes: 100,
            reason: None,
            reader: None,
            comm: [0; 16],
            send_buffer: None,
            waited_ns: None,
            is_first_fragment: false,
            limit: None,
            round_trip_us: None,
            is_segment: false,
            points_before: 0,
            socket: None,
            payload: None,
            call: 0,
            stamps: stamps.map(stamp).to_vec(),
        };
        let mut fold = PathFold::new(1);
        fold.add(&journey, Direction::Out, Ending::Complete);
        fold.finish()
    }

    fn class(handle: u32, parent: u32, waiting_packets: u32) -> Qdisc {
        Qdisc {
            kind: ShortText::new(b"htb"),
            handle,
            parent,
            bytes: 0,
            packets: 0,
            drops: 0,
            overlimits: 0,
            requeues: 0,
            waiting_packets,
            waiting_bytes: 0,
        }
    }

    fn queues(waiting: [u32; 2], ring_bytes: u64) -> DeviceQueues {
        DeviceQueues {
            index: InterfaceIndex(2),
            ring_bytes: Some(ring_bytes),
            classes: vec![
                class(0x1_0001, u32::MAX, waiting[0] + waiting[1]),
                class(0x1_0010, 0x1_0001, waiting[0]),
                class(0x1_0020, 0x1_0001, waiting[1]),
            ],
        }
    }

    /// Kind, part, and what waits.
    fn rows(report: &PathReport) -> Vec<(&'static str, Option<Part>, u64, u64)> {
        let row = |hop: &Hop| (hop.key.kind.name(), hop.part, hop.queued_now, hop.queued_max);
        report.hops.iter().map(row).collect()
    }

    #[test]
    fn classes_without_classes_follow_their_qdisc_if_something_waited() {
        let mut fold = QueueFold::default();
        fold.add_device(device(), &queues([7, 0], 3000));
        fold.add_device(device(), &queues([4, 0], 1500));
        let mut report = report();
        report.add_queues(&fold, &AcceptFold::default());
        let expected = [
            ("qdisc", None, 0, 1),
            ("class", Some(Part::Class(0x1_0010)), 4, 7),
            ("ring", None, 0, 1),
        ];
        assert_eq!(rows(&report), expected);
        let ring = report.hops.last().and_then(|hop| hop.ring_bytes);
        assert_eq!(ring, Some(Fill { now: 1500, max: 3000 }));
    }

    #[test]
    fn listeners_in_whose_queue_nothing_waited_have_no_row() {
        let listener = |port| Part::Listener {
            local: ([0, 0, 0, 0], port).into(),
            netns: None,
            limit: Some(5),
        };
        let mut fold = QueueFold::default();
        for (port, waiting) in [(80, 3), (443, 0), (80, 6)] {
            fold.add_listener(listener(port), waiting);
        }
        let mut report = PathReport::default();
        report.add_queues(&fold, &AcceptFold::default());
        assert_eq!(rows(&report), [("accept", Some(listener(80)), 6, 6)]);
    }
}
