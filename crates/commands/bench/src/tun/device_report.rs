//! The report of an existing device: its queue, and how to set it.

use crate::output::figures::bits;
use sockeye_load::tun::Inspection;
use sockeye_measure::{Column, QueueInUse, QueueVerdict, Report, Table, Unit, Value, judge_queue};
use sockeye_model::{Device, Traffic};
use sockeye_sys::rights::{CheckedIn, remedy};
use sockeye_verdict::shell_word;

/// An existing device and its activity while it was watched.
pub(super) struct DeviceReport<'a> {
    found: &'a Inspection,
    device: &'a Device,
    name: String,
    queue: QueueInUse,
    bytes_per_s: f64,
    qdisc_drops_per_s: f64,
}

impl<'a> DeviceReport<'a> {
    pub(super) fn of(found: &'a Inspection) -> Self {
        let seconds = found.elapsed.as_secs_f64().max(1e-9);
        let (before, after) = (traffic(&found.before), traffic(&found.after));
        let rate = |of: fn(&Traffic) -> u64| of(&after).saturating_sub(of(&before)) as f64 / seconds;
        let qdisc = |device: &Device| device.qdiscs.iter().map(|qdisc| qdisc.drops).max().unwrap_or(0);
        Self {
            found,
            device: &found.after,
            name: text(found.after.name.as_bytes()),
            queue: QueueInUse {
                packets: found.after.queue_packets,
                sent_per_s: rate(|traffic| traffic.tx_packets),
                dropped_per_s: rate(|traffic| traffic.tx_dropped),
                sent_ever: after.tx_packets,
                dropped_ever: after.tx_dropped,
            },
            bytes_per_s: rate(|traffic| traffic.tx_bytes),
            qdisc_drops_per_s: qdisc(&found.after).saturating_sub(qdisc(&found.before)) as f64 / seconds,
        }
    }

    pub(super) fn report(&self) -> Report {
        let mut report = Report::new("tun");
        report.setting("device", "", Unit::Text, self.name.as_str().into());
        report.setting(
            "watched_s",
            "watched for",
            Unit::Seconds,
            Value::Real(self.found.elapsed.as_secs_f64()),
        );
        report.tables.push(self.table());
        self.say_what_it_is(&mut report);
        if self.is_tunnel() {
            self.say_queue(&mut report);
            self.say_offload(&mut report);
        } else {
            report
                .say(
                    "no-tunnel",
                    format!(
                        "{} is neither a TUN nor a TAP device: no program empties its queue, and none of this is about it.",
                        self.name
                    ),
                )
                .remedy("sockeye check --watch 2   # judges the queues of all devices");
        }
        report
    }

    fn table(&self) -> Table {
        let columns = vec![
            Column::new("device", "device", Unit::Text),
            Column::new("kind", "kind", Unit::Text),
            Column::new("length", "queue_packets", Unit::Number),
            Column::new("qdisc", "qdisc", Unit::Text),
            Column::new("throughput", "tx_bytes_per_s", Unit::BitsPerSecond),
            Column::new("packets", "tx_packets_per_s", Unit::PerSecond),
            Column::new("drops", "tx_dropped_per_s", Unit::PerSecond),
            Column::new("ever sent", "tx_packets", Unit::Count),
            Column::new("dropped", "tx_dropped", Unit::Count),
            Column::hidden("qdisc_drops_per_s", Unit::PerSecond),
            Column::hidden("mtu_bytes", Unit::Bytes),
            Column::hidden("is_up", Unit::Text),
            Column::hidden("has_carrier", Unit::Text),
            Column::hidden("vnet_hdr", Unit::Text),
            Column::hidden("multi_queue", Unit::Text),
            Column::hidden("queues", Unit::Count),
            Column::hidden("persistent", Unit::Text),
            Column::hidden("tcp_segmentation", Unit::Text),
            Column::hidden("checksum", Unit::Text),
            Column::hidden("reader_pid", Unit::Number),
            Column::hidden("reader", Unit::Text),
        ];
        let mut table = Table::new("devices", columns);
        let device = self.device;
        let tun = self.found.tun.unwrap_or_default();
        let yes = |value: Option<bool>| value.map_or(Value::Absent, Value::Bool);
        let reader = self.found.readers.first();
        table.row(vec![
            self.name.as_str().into(),
            Value::Text(text(device.driver.as_bytes())),
            device.queue_packets.map(u64::from).into(),
            device
                .qdiscs
                .first()
                .map_or(Value::Absent, |qdisc| Value::Text(text(qdisc.kind.as_bytes()))),
            Value::Real(self.bytes_per_s),
            Value::Real(self.queue.sent_per_s),
            Value::Real(self.queue.dropped_per_s),
            Value::Whole(self.queue.sent_ever),
            Value::Whole(self.queue.dropped_ever),
            Value::Real(self.qdisc_drops_per_s),
            device.mtu_bytes.map(u64::from).into(),
            Value::Bool(device.is_up),
            yes(device.has_carrier),
            yes(tun.has_header),
            yes(tun.has_queues),
            tun.queues.map(u64::from).into(),
            yes(tun.is_persistent),
            yes(self.has_feature("tx-tcp-segmentation")),
            yes(self.has_feature("tx-checksum-ip-generic")),
            reader.map(|(pid, _)| u64::from(pid.0)).into(),
            reader.map_or(Value::Absent, |(_, comm)| Value::Text(text(comm.as_bytes()))),
        ]);
        table
    }

    fn is_tunnel(&self) -> bool {
        matches!(self.device.driver.as_bytes(), b"tun" | b"tap")
    }

    fn has_feature(&self, name: &str) -> Option<bool> {
        let features = self.found.features.as_ref()?;
        Some(features.iter().any(|feature| feature == name))
    }

    fn say_what_it_is(&self, report: &mut Report) {
        if !self.is_tunnel() {
            return;
        }
        let carries = if self.device.driver.as_bytes() == b"tap" {
            "a TAP device (Ethernet frames)"
        } else {
            "a TUN device (IP packets)"
        };
        let state = match (self.device.is_up, self.device.has_carrier) {
            (false, _) => ", down",
            (true, Some(false)) => ", up but without a carrier",
            _ => "",
        };
        let readers: Vec<String> = self
            .found
            .readers
            .iter()
            .map(|(pid, comm)| format!("{} (pid {pid})", text(comm.as_bytes())))
            .collect();
        let readers = match (readers.is_empty(), self.device.has_carrier) {
            (false, _) => format!("read by {}", readers.join(", ")),
            (true, Some(false)) => "which no program has open".to_owned(),
            (true, _) => {
                format!(
                    "with a reader that is not visible from here (look in the namespace of the reader; {})",
                    remedy("CAP_SYS_PTRACE", CheckedIn::Initial)
                )
            }
        };
        report.say("device", format!("{} is {carries}{state}, {readers}.", self.name));
    }

    fn say_queue(&self, report: &mut Report) {
        let queue = &self.queue;
        let Some(length) = queue.packets else { return };
        let name = shell_word(&self.name);
        let ever = queue.sent_ever.saturating_add(queue.dropped_ever).max(1);
        let share = queue.dropped_ever as f64 / ever as f64 * 100.0;
        let now = queue.sent_per_s + queue.dropped_per_s;
        let mut drops = if queue.dropped_per_s > 0.0 {
            format!(
                "Its queue of {length} packets is full again and again: {:.0} of {now:.0} packets a second are dropped (the \
                 kernel's reason is FULL_RING)",
                queue.dropped_per_s
            )
        } else if queue.dropped_ever > 0 {
            format!(
                "Its queue holds {length} packets. It drops nothing now, but dropped {} packets so far, {share:.1} % of all",
                queue.dropped_ever
            )
        } else {
            format!("Its queue holds {length} packets, and has dropped none so far")
        };
        if now > 0.0 {
            drops.push_str(&format!(", at {}", bits(self.bytes_per_s)));
        }
        match judge_queue(queue) {
            QueueVerdict::Lengthen(packets) => {
                let sentence = report.say(
                    "queue-length",
                    format!(
                        "{drops}. Recommended: a queue of {packets} packets; the device drops what comes while its program is \
                         busy and the queue full, and TCP takes each loss for congestion."
                    ),
                );
                sentence.remedy(format!("ip link set dev {name} txqueuelen {packets}"));
                if self
                    .found
                    .readers
                    .iter()
                    .any(|(_, comm)| comm.as_bytes() == b"openvpn")
                {
                    sentence.remedy(format!(
                        "echo 'txqueuelen {packets}' >> CONFIG   # OpenVPN's own, so that it lasts"
                    ));
                }
                sentence.remedy(format!(
                    "sockeye bench tun --device {name}   # again, under load: whether it still drops"
                ));
            }
            QueueVerdict::SlowReader => {
                report
                    .say(
                        "slow-reader",
                        format!(
                            "{drops}. It is long enough for a reader that is away now and then: this one is too slow, and a \
                             longer queue would only make packets wait longer."
                        ),
                    )
                    .remedy("top -H   # does the reader have a processor to itself?");
            }
            QueueVerdict::Fine => {
                report.say("fine", format!("{drops}. That is long enough."));
            }
        }
        if self.qdisc_drops_per_s > 0.0 {
            report
                .say(
                    "qdisc",
                    format!(
                        "Its queueing discipline drops {:.0} packets a second as well.",
                        self.qdisc_drops_per_s
                    ),
                )
                .remedy(format!("tc -s qdisc show dev {name}"));
        }
    }

    fn say_offload(&self, report: &mut Report) {
        let Some(tun) = self.found.tun else { return };
        if tun.has_header == Some(true) && self.has_feature("tx-tcp-segmentation") == Some(true) {
            report.say(
                "offload",
                "Its program takes packets of up to 64 KiB uncut (IFF_VNET_HDR, TUNSETOFFLOAD).",
            );
        } else if tun.has_header.is_some() {
            report
                .say(
                    "offload",
                    format!(
                        "Its program takes packets one by one, cut to {} bytes: it asks for no offload, which only it can do \
                         (IFF_VNET_HDR, TUNSETOFFLOAD).",
                        self.device.mtu_bytes.map_or_else(|| "the MTU's".to_owned(), |mtu| mtu.to_string())
                    ),
                )
                .remedy("sockeye bench tun --queues 500,1000   # what offload would gain on this host");
        }
    }
}

fn traffic(device: &Device) -> Traffic {
    device.traffic.unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
