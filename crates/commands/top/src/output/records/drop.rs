//! What the kernel drops.

use sockeye_model::{Names, NetnsInode, Process};
use sockeye_output::JsonObject;
use sockeye_output::address::push_bracketed;
use sockeye_output::csv::Line;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Composite, Record, SortValue, Value};
use sockeye_output::number::push_decimal;
use sockeye_output::table::Tint;
use std::net::SocketAddr;
use std::sync::LazyLock;

/// Drops and counters of drops: `docs/schema/top-drops.schema.json`.
#[derive(Debug)]
pub(crate) struct Drops;

/// Packets that were dropped for one reason, or a counter of the kernel.
#[derive(Clone, Copy)]
pub(crate) struct DropRow<'a> {
    pub(crate) names: &'a dyn Names,
    pub(crate) netns: Option<NetnsInode>,
    /// `packets` or `counter`.
    pub(crate) source: &'static str,
    /// The reason, or the name of the counter.
    pub(crate) name: &'a str,
    pub(crate) class: Option<&'static str>,
    /// Function of the kernel, if the reason says nothing; else empty.
    pub(crate) place: &'a str,
    /// Since the view was shown first.
    pub(crate) count: u64,
    /// Since the sample before; `None` without one.
    pub(crate) per_s: Option<f64>,
    pub(crate) owner: Option<&'a Process>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) device: &'a str,
}

/// An end of the socket, or of the packet.
enum End {
    Local,
    Peer,
}

impl End {
    const fn of(&self, row: &DropRow<'_>) -> Option<SocketAddr> {
        match self {
            Self::Local => row.local,
            Self::Peer => row.peer,
        }
    }
}

impl Composite<Drops> for End {
    fn push_cell(&self, out: &mut Vec<u8>, row: &DropRow<'_>) -> Tint {
        if let Some(end) = self.of(row) {
            push_bracketed(out, end.ip());
            out.push(b':');
            push_decimal(out, end.port().into());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &DropRow<'_>) {
        let end = self.of(row);
        line.text(end.map(|end| end.ip().to_string()).as_deref());
        line.number(end.map(|end| end.port()));
    }

    fn push_json(&self, object: &mut JsonObject<'_>, row: &DropRow<'_>) {
        let Some(end) = self.of(row) else { return };
        let mut fields = object.object(match self {
            Self::Local => "local",
            Self::Peer => "peer",
        });
        fields.text("ip", Some(&end.ip().to_string()));
        fields.number("port", Some(end.port()));
        fields.end();
    }

    fn sort_value(&self, row: &DropRow<'_>) -> Option<SortValue> {
        self.of(row).map(|end| SortValue::Address(end.ip(), end.port()))
    }
}

type DropColumn = Column<Drops>;

impl Record for Drops {
    type Row<'a> = DropRow<'a>;

    const KEY: &'static str = "top_drops";
    const ROW: &'static str = "top_drop";

    fn columns() -> &'static [Column<Self>] {
        static COLUMNS: LazyLock<Vec<DropColumn>> = LazyLock::new(columns);
        &COLUMNS
    }
}

fn text(text: &str) -> Value<'_> {
    Value::text(Some(text.as_bytes()).filter(|text| !text.is_empty()))
}

fn columns() -> Vec<DropColumn> {
    vec![
        DropColumn::value("netns", "Netns", Left, "Network namespace", |row, _| {
            match row.netns {
                Some(inode) => Value::Named(inode.0.into(), row.names.netns(inode)),
                None => Value::Absent,
            }
        })
        .fields(&["netns_inode", "netns"]),
        DropColumn::value(
            "reason",
            "Reason",
            Left,
            "Reason of the drops, or the counter",
            |row, _| text(row.name),
        ),
        DropColumn::value(
            "class",
            "Class",
            Left,
            "loss, policy, refusal or normal",
            |row, _| row.class.map_or(Value::Absent, Value::Word),
        ),
        DropColumn::value(
            "source",
            "Source",
            Left,
            "packets that were seen, or a counter",
            |row, _| Value::Word(row.source),
        ),
        DropColumn::value(
            "packet_drops_per_s",
            "Drops/s",
            Right,
            "Drops per second",
            |row, _| Value::float(row.per_s),
        ),
        DropColumn::value(
            "count",
            "Count",
            Right,
            "Drops since the view was shown first",
            |row, _| Value::Number(row.count),
        ),
        DropColumn::value("comm", "Process", Left, "Owner of the socket", |row, _| {
            Value::text(row.owner.map(|owner| owner.comm.as_bytes()))
        }),
        DropColumn::value("pid", "Pid", Right, "Its pid", |row, _| {
            Value::number(row.owner.map(|owner| owner.pid.0))
        }),
        DropColumn::composite(
            "local",
            "Local Address:Port",
            Left,
            "Our end",
            &End::Local,
            &["local_ip", "local_port"],
            &["local.ip", "local.port"],
        ),
        DropColumn::composite(
            "peer",
            "Peer Address:Port",
            Left,
            "The other end of the latest packet",
            &End::Peer,
            &["peer_ip", "peer_port"],
            &["peer.ip", "peer.port"],
        ),
        DropColumn::value("device", "Device", Left, "Network device", |row, _| {
            text(row.device)
        }),
        DropColumn::value(
            "place",
            "Place",
            Left,
            "Function of the kernel, if the reason says nothing",
            |row, _| text(row.place),
        ),
    ]
}
