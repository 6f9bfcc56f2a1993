//! Activity of the host during a test: processors, devices, queues, counters.

use sockeye_measure::{DeviceNumbers, DeviceWork, Work};
use sockeye_model::{Counter, HostVitals, Vitals};
use sockeye_source::vitals;
use std::fs;

/// Counters of the host at one time.
#[derive(Debug)]
pub struct HostSnapshot {
    namespace: Vitals,
    host: HostVitals,
    processors: Vec<Ticks>,
}

/// Time of a processor in ticks: `/proc/stat`.
#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    all: u64,
    idle: u64,
    steal: u64,
}

impl HostSnapshot {
    /// Takes a snapshot.
    #[must_use]
    pub fn now() -> Self {
        Self {
            namespace: vitals::namespace(),
            host: vitals::host(),
            processors: processors(&fs::read_to_string("/proc/stat").unwrap_or_default()),
        }
    }

    /// Returns the activity since the snapshot, and the devices that carried at least a tenth of `bytes` or dropped packets.
    #[must_use]
    pub fn since(&self, bytes: u64) -> (Work, Vec<DeviceWork>) {
        let now = Self::now();
        let mut work = Work::default();
        self.processors_since(&now, &mut work);
        let count = |counter| {
            let (before, after) = (
                self.namespace.counters.value(counter),
                now.namespace.counters.value(counter),
            );
            Some(after?.saturating_sub(before.unwrap_or(0)))
        };
        let sum = |counters: &[Counter]| {
            counters
                .iter()
                .filter_map(|&counter| count(counter))
                .reduce(u64::saturating_add)
        };
        let softnet = |of: fn(&sockeye_model::Softnet) -> u64| {
            let total = |host: &HostVitals| host.processors.iter().map(of).sum::<u64>();
            (!now.host.processors.is_empty()).then(|| total(&now.host).saturating_sub(total(&self.host)))
        };
        work.softnet_dropped = softnet(|processor| processor.dropped);
        work.softnet_squeezed = softnet(|processor| processor.squeezed);
        work.retransmitted_segs = count(Counter::TcpRetransSegs);
        work.receive_queue_drops = sum(&[
            Counter::TcpRcvQDrop,
            Counter::TcpZeroWindowDrop,
            Counter::TcpBacklogDrop,
            Counter::RcvPruned,
            Counter::OfoPruned,
            Counter::TcpOfoDrop,
        ]);
        work.udp_receive_drops = sum(&[Counter::UdpRcvbufErrors, Counter::Udp6RcvbufErrors]);
        let settings = now.namespace.settings;
        work.tcp_rmem_max_bytes = settings.tcp_rmem_bytes.map(|[.., most]| most);
        work.tcp_wmem_max_bytes = settings.tcp_wmem_bytes.map(|[.., most]| most);
        work.rmem_max_bytes = now.host.rmem_max_bytes;
        work.wmem_max_bytes = now.host.wmem_max_bytes;
        (work, self.devices_since(&now.namespace, bytes))
    }

    fn processors_since(&self, now: &Self, work: &mut Work) {
        let changes: Vec<Ticks> = self
            .processors
            .iter()
            .zip(&now.processors)
            .map(|(before, after)| Ticks {
                all: after.all.saturating_sub(before.all),
                idle: after.idle.saturating_sub(before.idle),
                steal: after.steal.saturating_sub(before.steal),
            })
            .collect();
        // The first line is the sum of all processors.
        let Some((whole, each)) = changes.split_first() else {
            return;
        };
        let share = |part: u64, of: u64| (of > 0).then(|| part * 1000 / of);
        work.host_idle_permille = share(whole.idle, whole.all);
        work.host_steal_permille = share(whole.steal, whole.all);
        work.busiest_processor_permille = each
            .iter()
            .filter_map(|ticks| share(ticks.all.saturating_sub(ticks.idle), ticks.all))
            .max();
        work.processors = Some(each.len() as u64).filter(|&count| count > 0);
    }

    fn devices_since(&self, now: &Vitals, bytes: u64) -> Vec<DeviceWork> {
        let mut list: Vec<DeviceWork> = Vec::new();
        for device in &now.devices {
            let before = self
                .namespace
                .devices
                .iter()
                .find(|before| before.index == device.index && before.name == device.name);
            let (Some(traffic), Some(then)) = (device.traffic, before.and_then(|before| before.traffic))
            else {
                continue;
            };
            let mut numbers = DeviceNumbers {
                rx_bytes: Some(traffic.rx_bytes.saturating_sub(then.rx_bytes)),
                tx_bytes: Some(traffic.tx_bytes.saturating_sub(then.tx_bytes)),
                rx_dropped: Some(traffic.rx_dropped.saturating_sub(then.rx_dropped)),
                tx_dropped: Some(traffic.tx_dropped.saturating_sub(then.tx_dropped)),
                rx_missed: Some(
                    (traffic.rx_missed_errors + traffic.rx_fifo_errors)
                        .saturating_sub(then.rx_missed_errors + then.rx_fifo_errors),
                ),
                queue_packets: device.queue_packets.map(u64::from),
                queue_dropped: None,
            };
            let mut worst = (0, None);
            for queue in &device.qdiscs {
                let then = before.and_then(|before| {
                    before
                        .qdiscs
                        .iter()
                        .find(|then| (then.handle, then.parent) == (queue.handle, queue.parent))
                });
                let drops = queue.drops.saturating_sub(then.map_or(0, |then| then.drops));
                // Parents count the drops of their classes too.
                if worst.1.is_none() || drops > worst.0 {
                    worst = (drops, Some(text(queue.kind.as_bytes())));
                }
            }
            if worst.1.is_some() {
                numbers.queue_dropped = Some(worst.0);
            }
            let dropped = [
                numbers.rx_dropped,
                numbers.tx_dropped,
                numbers.rx_missed,
                numbers.queue_dropped,
            ];
            let has_dropped = dropped.iter().flatten().any(|&drops| drops > 0);
            let carried = numbers.rx_bytes.max(numbers.tx_bytes).unwrap_or(0);
            if has_dropped || (carried > 0 && carried >= bytes / 10) {
                list.push(DeviceWork {
                    name: text(device.name.as_bytes()),
                    queue: worst.1,
                    numbers,
                });
            }
        }
        list.sort_by_key(|device| std::cmp::Reverse(device.numbers.rx_bytes.max(device.numbers.tx_bytes)));
        list.truncate(DEVICES_MAX);
        list
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `cpu`, `cpu0`, `cpu1`, ...: user nice system idle iowait irq softirq steal.
fn processors(stat: &str) -> Vec<Ticks> {
    stat.lines()
        .take_while(|line| line.starts_with("cpu"))
        .map(|line| {
            let ticks: Vec<u64> = line
                .split_ascii_whitespace()
                .skip(1)
                .take(8)
                .map_while(|word| word.parse().ok())
                .collect();
            let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
            Ticks {
                all: ticks.iter().sum(),
                idle: at(3) + at(4),
                steal: at(7),
            }
        })
        .collect()
}

/// More would not fit into a message.
const DEVICES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_ticks_are_parsed() {
        let all = processors("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 0 0 1\nintr 1");
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].all, all[0].idle, all[0].steal), (36, 9, 8));
        assert_eq!((all[1].all, all[1].idle), (2, 1));
        assert!(processors("").is_empty());
    }

    #[test]
    fn this_host_has_counters() {
        let before = HostSnapshot::now();
        let (work, _) = before.since(0);
        assert!(work.processors > Some(0));
        assert!(work.tcp_rmem_max_bytes.is_some());
    }
}
