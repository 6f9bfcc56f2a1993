//! Network devices and their queues.

use sockeye_model::{Device, Names, NetnsInode, Traffic};
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;
use std::sync::LazyLock;
use std::time::Duration;

/// Devices: `docs/schema/top-devices.schema.json`.
#[derive(Debug)]
pub(crate) struct Devices;

/// A device, and the same one in the sample before.
#[derive(Clone, Copy)]
pub(crate) struct DeviceRow<'a> {
    pub(crate) names: &'a dyn Names,
    pub(crate) netns: Option<NetnsInode>,
    pub(crate) device: &'a Device,
    pub(crate) before: Option<(&'a Device, Duration)>,
}

impl DeviceRow<'_> {
    /// Returns by how much a number of its traffic grew, per second.
    fn rate(&self, number: fn(&Traffic) -> u64) -> Value<'static> {
        let change = || {
            let (before, elapsed) = self.before?;
            let change =
                number(self.device.traffic.as_ref()?).saturating_sub(number(before.traffic.as_ref()?));
            Some(per_s(change, elapsed))
        };
        Value::float(change())
    }

    /// Returns how many packets the root queueing discipline dropped per second, with those below it; `None` if it was replaced.
    fn qdisc_drops_per_s(&self) -> Option<f64> {
        let (before, elapsed) = self.before?;
        let (before, now) = (root(before)?, root(self.device)?);
        let is_same = (before.kind, before.handle) == (now.kind, now.handle);
        is_same.then(|| per_s(now.drops.saturating_sub(before.drops), elapsed))
    }

    fn queued(&self, number: fn(&sockeye_model::Qdisc) -> u64) -> Option<u64> {
        let qdiscs = &self.device.qdiscs;
        // The leaves hold what the root counts as a whole.
        let roots = qdiscs.iter().filter(|qdisc| qdisc.is_root());
        (!qdiscs.is_empty()).then(|| roots.map(number).sum())
    }
}

fn root(device: &Device) -> Option<&sockeye_model::Qdisc> {
    device.qdiscs.iter().find(|qdisc| qdisc.is_root())
}

fn per_s(change: u64, elapsed: Duration) -> f64 {
    change as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
}

type DeviceColumn = Column<Devices>;

impl Record for Devices {
    type Row<'a> = DeviceRow<'a>;

    const KEY: &'static str = "top_devices";
    const ROW: &'static str = "top_device";

    fn columns() -> &'static [Column<Self>] {
        static COLUMNS: LazyLock<Vec<DeviceColumn>> = LazyLock::new(columns);
        &COLUMNS
    }
}

fn columns() -> Vec<DeviceColumn> {
    let rate = DeviceColumn::value;
    vec![
        DeviceColumn::value("netns", "Netns", Left, "Network namespace", |row, _| {
            match row.netns {
                Some(inode) => Value::Named(inode.0.into(), row.names.netns(inode)),
                None => Value::Absent,
            }
        })
        .fields(&["netns_inode", "netns"]),
        DeviceColumn::value("device", "Device", Left, "Name", |row, _| {
            Value::Text(row.device.name.as_bytes())
        }),
        DeviceColumn::value("kind", "Kind", Left, "veth, tun, bridge and others", |row, _| {
            Value::text(Some(row.device.driver.as_bytes()).filter(|kind| !kind.is_empty()))
        }),
        DeviceColumn::value(
            "state",
            "State",
            Left,
            "up, down, or up without a carrier",
            |row, _| {
                Value::Word(match (row.device.is_up, row.device.has_carrier) {
                    (false, _) => "down",
                    (true, Some(false)) => "no-carrier",
                    (true, _) => "up",
                })
            },
        ),
        rate(
            "received_bytes_per_s",
            "Received/s",
            Right,
            "Bytes received per second",
            |row, _| row.rate(|now| now.rx_bytes),
        )
        .unit(Unit::ByteRate),
        rate(
            "sent_bytes_per_s",
            "Sent/s",
            Right,
            "Bytes sent per second",
            |row, _| row.rate(|now| now.tx_bytes),
        )
        .unit(Unit::ByteRate),
        rate(
            "received_packets_per_s",
            "Rx packets/s",
            Right,
            "Packets received per second",
            |row, _| row.rate(|now| now.rx_packets),
        ),
        rate(
            "sent_packets_per_s",
            "Tx packets/s",
            Right,
            "Packets sent per second",
            |row, _| row.rate(|now| now.tx_packets),
        ),
        rate(
            "packet_drops_per_s",
            "Drops/s",
            Right,
            "Packets that the device dropped, per second",
            |row, _| row.rate(|now| now.rx_dropped.saturating_add(now.tx_dropped)),
        ),
        rate(
            "qdisc_drops_per_s",
            "Qdisc drops/s",
            Right,
            "Packets that its queueing discipline dropped, per second",
            |row, _| Value::float(row.qdisc_drops_per_s()),
        ),
        rate(
            "packet_errors_per_s",
            "Errors/s",
            Right,
            "Errors per second",
            |row, _| row.rate(|now| now.rx_errors.saturating_add(now.tx_errors)),
        ),
        DeviceColumn::value(
            "qdisc",
            "Qdisc",
            Left,
            "Queueing discipline at the root",
            |row, _| Value::text(root(row.device).map(|qdisc| qdisc.kind.as_bytes())),
        ),
        DeviceColumn::value(
            "queued_packets",
            "Queued",
            Right,
            "Packets that wait in it",
            |row, _| Value::number(row.queued(|qdisc| qdisc.waiting_packets.into())),
        ),
        DeviceColumn::value(
            "queued_bytes",
            "Queued bytes",
            Right,
            "Bytes that wait in it",
            |row, _| Value::number(row.queued(|qdisc| qdisc.waiting_bytes.into())),
        )
        .unit(Unit::Bytes),
        DeviceColumn::value(
            "queue_limit_packets",
            "Queue limit",
            Right,
            "Length of the send queue (txqueuelen)",
            |row, _| Value::number(row.device.queue_packets),
        ),
        DeviceColumn::value("mtu_bytes", "MTU", Right, "Largest packet", |row, _| {
            Value::number(row.device.mtu_bytes)
        }),
        DeviceColumn::value(
            "qdisc_drops",
            "Qdisc total",
            Right,
            "Packets that it dropped since it was created",
            |row, _| Value::number(row.queued(|qdisc| qdisc.drops)),
        ),
    ]
}
