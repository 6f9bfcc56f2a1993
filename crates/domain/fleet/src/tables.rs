//! The tables: each column with its type, what writes it, and what it is. The schema and the rows that are sent follow from them.

use crate::flow::FlowRow;
use crate::row_binary::RowWriter;
use crate::slice::{ListenerRow, Slice};
use sockeye_history::{
    CountKey, Exchange, FindingRecord, Gap, Limits, Period, PeriodEnd, SeenTranslation, facts_text,
    remedies_text,
};

/// A column of a table whose rows are made from `R`.
#[derive(Debug)]
pub struct Column<R: 'static> {
    /// Its name, with its unit.
    pub name: &'static str,
    /// Its type in ClickHouse.
    pub sql_type: &'static str,
    /// What it is.
    pub comment: &'static str,
    write: fn(&mut RowWriter, &Slice, &R),
}

/// What a row of a table is made from.
pub trait Table: Sized + 'static {
    /// Name of the table.
    const NAME: &'static str;

    /// Its columns that are sent, in their order.
    const COLUMNS: &'static [Column<Self>];
}

/// Returns rows as `RowBinary`.
pub fn encode<'a, R: Table>(slice: &Slice, rows: impl IntoIterator<Item = &'a R>) -> Vec<u8> {
    let mut out = RowWriter::default();
    for row in rows {
        for column in R::COLUMNS {
            (column.write)(&mut out, slice, row);
        }
    }
    out.finish()
}

/// Returns the statement that rows follow.
#[must_use]
pub fn insert_statement<R: Table>() -> String {
    let names: Vec<_> = R::COLUMNS.iter().map(|column| column.name).collect();
    format!("INSERT INTO {} ({}) FORMAT RowBinary", R::NAME, names.join(", "))
}

/// Returns the token of the rows of an interval in a table: the same rows that are sent again have the same one.
#[must_use]
pub fn token<R: Table>(slice: &Slice) -> String {
    let Slice {
        origin,
        start_s,
        boottime_ms,
        ..
    } = slice;
    format!(
        "{}/{}/{start_s}/{boottime_ms}/{}",
        origin.host,
        origin.boot_id,
        R::NAME
    )
}

/// What a host says of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRow {
    /// When it is sent, by the clock of the host, in milliseconds since 1970. The server adds when it came.
    pub sent_ms: u64,
}

/// A time of which nothing was recorded, or nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GapRow {
    /// The last sample before it, in milliseconds since 1970.
    pub from_ms: u64,
    /// The first sample after it.
    pub to_ms: u64,
    /// Why.
    pub reason: &'static str,
}

impl GapRow {
    /// Recorded, and deleted before it could be sent: the server was away for longer than the store keeps samples.
    pub const NOT_SENT: &'static str = "not-sent";
}

impl From<&Gap> for GapRow {
    fn from(gap: &Gap) -> Self {
        Self {
            from_ms: gap.from_ms,
            to_ms: gap.to_ms,
            reason: gap.reason.name(),
        }
    }
}

/// A connection that NAT translates, when a sample saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranslationRow {
    /// Time of the sample, in milliseconds since 1970.
    pub at_ms: u64,
    /// The translation, and where.
    pub seen: SeenTranslation,
}

/// The last data of a connection, as one end saw it. The rows of both ends become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeRow {
    /// Time of the sample, in milliseconds since 1970.
    pub at_ms: u64,
    /// When it sent and received.
    pub exchange: Exchange,
}

/// A counter of a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountRow {
    /// Begin of the minute, in seconds since 1970.
    pub start_s: u64,
    /// What was counted.
    pub key: CountKey,
    /// How much.
    pub count: u64,
}

macro_rules! column {
    ($name:literal, $sql_type:literal, $comment:literal, $write:expr) => {
        Column {
            name: $name,
            sql_type: $sql_type,
            comment: $comment,
            write: $write,
        }
    };
}

impl Table for FlowRow {
    const NAME: &'static str = "flows";

    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "t",
            "DateTime('UTC') CODEC(T64, ZSTD(3))",
            "begin of the interval",
            |out, slice, _| out.u32(slice.start_s)
        ),
        column!(
            "length_s",
            "UInt16 CODEC(ZSTD(3))",
            "its length in seconds",
            |out, slice, _| out.u16(slice.length_s as u16)
        ),
        column!(
            "host",
            "LowCardinality(String) CODEC(ZSTD(3))",
            "the host that saw it",
            |out, slice, _| out.text(slice.origin.host.as_bytes())
        ),
        column!(
            "netns",
            "UInt32 CODEC(ZSTD(3))",
            "its network namespace, 0: only one is recorded",
            |out, _, row| out.u32(row.key.netns.map_or(0, |netns| netns.0))
        ),
        column!(
            "zone",
            "LowCardinality(String) CODEC(ZSTD(3))",
            "where the addresses are valid: empty: everywhere, else on this host",
            |out, slice, row| {
                let zone = if row.key.is_global() {
                    ""
                } else {
                    &slice.origin.host
                };
                out.text(zone.as_bytes());
            }
        ),
        column!(
            "side",
            "Enum8('client' = 1, 'server' = 2) CODEC(ZSTD(3))",
            "which end the host is",
            |out, _, row| out.u8(row.key.side.number())
        ),
        column!(
            "client",
            "IPv6 CODEC(ZSTD(3))",
            "the end that connected, :: if folded",
            |out, _, row| out.ip(row.key.client)
        ),
        column!(
            "client_port",
            "UInt16 CODEC(ZSTD(3))",
            "its port, where NAT may translate the connection, else 0",
            |out, _, row| out.u16(row.key.client_port)
        ),
        column!(
            "server",
            "IPv6 CODEC(ZSTD(3))",
            "the end that listens, :: if folded",
            |out, _, row| out.ip(row.key.server)
        ),
        column!(
            "port",
            "UInt16 CODEC(ZSTD(3))",
            "the port that it listens on",
            |out, _, row| out.u16(row.key.port)
        ),
        column!(
            "owner",
            "LowCardinality(String) CODEC(ZSTD(3))",
            "process of this end, empty: unknown",
            |out, _, row| out.text(or_empty(row.key.owner.as_deref()))
        ),
        column!(
            "unit",
            "LowCardinality(String) CODEC(ZSTD(3))",
            "its systemd unit",
            |out, _, row| out.text(or_empty(row.key.unit.as_deref()))
        ),
        column!(
            "container",
            "LowCardinality(String) CODEC(ZSTD(3))",
            "its container",
            |out, _, row| out.text(or_empty(row.key.container.as_deref()))
        ),
        column!(
            "folded",
            "UInt32 CODEC(T64, ZSTD(3))",
            "flows in this row, 0: it is one",
            |out, _, row| out.u32(row.folded)
        ),
        column!(
            "connections",
            "UInt32 CODEC(T64, ZSTD(3))",
            "the most connections of a sample",
            |out, _, row| out.u32(small(row.sums.connections))
        ),
        column!(
            "opened",
            "UInt32 CODEC(T64, ZSTD(3))",
            "connections opened",
            |out, _, row| out.u32(small(row.sums.opened))
        ),
        column!(
            "closed",
            "UInt32 CODEC(T64, ZSTD(3))",
            "connections closed",
            |out, _, row| out.u32(small(row.sums.closed))
        ),
        column!(
            "sent_bytes",
            "UInt64 CODEC(T64, ZSTD(3))",
            "bytes that the other end acknowledged",
            |out, _, row| out.u64(row.sums.sent_bytes)
        ),
        column!(
            "received_bytes",
            "UInt64 CODEC(T64, ZSTD(3))",
            "bytes received",
            |out, _, row| out.u64(row.sums.received_bytes)
        ),
        column!(
            "retrans_segs",
            "UInt32 CODEC(T64, ZSTD(3))",
            "segments retransmitted by this end",
            |out, _, row| out.u32(small(row.sums.retrans_segs))
        ),
        column!(
            "failed",
            "UInt32 CODEC(T64, ZSTD(3))",
            "connects of this end that failed",
            |out, _, row| out.u32(small(row.failed))
        ),
        column!(
            "refused",
            "UInt32 CODEC(T64, ZSTD(3))",
            "of these, refused by the server",
            |out, _, row| out.u32(small(row.refused))
        ),
        column!(
            "busy_ms",
            "UInt32 CODEC(T64, ZSTD(3))",
            "connections of this end had data to send, summed; 0 if nothing held them back",
            |out, _, row| out.u32(small(sent_busy_ms(&row.limits)))
        ),
        column!(
            "rwnd_limited_ms",
            "UInt32 CODEC(T64, ZSTD(3))",
            "of busy_ms, held back by the window of the other end",
            |out, _, row| out.u32(small(row.limits.rwnd_limited_ms))
        ),
        column!(
            "sndbuf_limited_ms",
            "UInt32 CODEC(T64, ZSTD(3))",
            "of busy_ms, held back by the send buffer of this end",
            |out, _, row| out.u32(small(row.limits.sndbuf_limited_ms))
        ),
        column!(
            "rtt_count",
            "UInt32 CODEC(T64, ZSTD(3))",
            "connections with a round trip time",
            |out, _, row| out.u32(row.rtt.count)
        ),
        column!(
            "rtt_us_median",
            "UInt32 CODEC(T64, ZSTD(3))",
            "their median, 0: unknown",
            |out, _, row| out.u32(row.rtt.median_us)
        ),
        column!(
            "rtt_us_p95",
            "UInt32 CODEC(T64, ZSTD(3))",
            "95 of 100 are not above it",
            |out, _, row| out.u32(row.rtt.p95_us)
        ),
        column!(
            "rtt_us_min",
            "UInt32 CODEC(T64, ZSTD(3))",
            "the smallest ever, 0: unknown",
            |out, _, row| out.u32(row.rtt.min_us)
        ),
        column!(
            "receive_queue_bytes",
            "UInt64 CODEC(T64, ZSTD(3))",
            "received and not read, at most",
            |out, _, row| out.u64(row.receive_queue_bytes)
        ),
        column!(
            "send_queue_bytes",
            "UInt64 CODEC(T64, ZSTD(3))",
            "written and not acknowledged, at most",
            |out, _, row| out.u64(row.send_queue_bytes)
        ),
    ];
}

impl Table for ListenerRow {
    const NAME: &'static str = "listeners";

    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "t",
            "DateTime('UTC') CODEC(T64, ZSTD(3))",
            "begin of the interval",
            |out, slice, _| out.u32(slice.start_s)
        ),
        column!("host", "LowCardinality(String)", "the host", |out, slice, _| out
            .text(slice.origin.host.as_bytes())),
        column!(
            "netns",
            "UInt32",
            "its network namespace, 0: only one is recorded",
            |out, _, row| out.u32(row.netns.map_or(0, |netns| netns.0))
        ),
        column!("address", "IPv6", "its address", |out, _, row| out
            .ip(row.address)),
        column!("port", "UInt16", "its port", |out, _, row| out.u16(row.port)),
        column!(
            "owner",
            "LowCardinality(String)",
            "process, empty: unknown",
            |out, _, row| out.text(or_empty(row.owner.as_deref()))
        ),
        column!(
            "unit",
            "LowCardinality(String)",
            "its systemd unit",
            |out, _, row| out.text(or_empty(row.unit.as_deref()))
        ),
        column!(
            "container",
            "LowCardinality(String)",
            "its container",
            |out, _, row| out.text(or_empty(row.container.as_deref()))
        ),
        column!(
            "waiting_max",
            "UInt32",
            "the most connections that waited to be accepted",
            |out, _, row| out.u32(row.waiting_max)
        ),
        column!(
            "backlog",
            "UInt32",
            "the most that may wait, 0: unknown",
            |out, _, row| out.u32(row.backlog)
        ),
    ];
}

impl Table for HostRow {
    const NAME: &'static str = "hosts";

    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "t",
            "DateTime('UTC') CODEC(T64, ZSTD(3))",
            "begin of the interval",
            |out, slice, _| out.u32(slice.start_s)
        ),
        column!("host", "LowCardinality(String)", "the host", |out, slice, _| out
            .text(slice.origin.host.as_bytes())),
        column!(
            "boot_id",
            "LowCardinality(String)",
            "its boot, empty: unknown",
            |out, slice, _| out.text(slice.origin.boot_id.as_bytes())
        ),
        column!(
            "version",
            "LowCardinality(String)",
            "version of its recorder",
            |out, slice, _| out.text(slice.origin.version.as_bytes())
        ),
        column!(
            "sample_interval_ms",
            "UInt32",
            "time between two samples",
            |out, slice, _| out.u32(small(slice.origin.interval_ms))
        ),
        column!("samples", "UInt32", "samples of the interval", |out, slice, _| {
            out.u32(slice.samples);
        }),
        column!(
            "sockets",
            "UInt32",
            "the most sockets of a sample",
            |out, slice, _| out.u32(small(slice.sockets_max))
        ),
        column!(
            "losses",
            "UInt64",
            "what the recorder could not read",
            |out, slice, _| out.u64(slice.losses)
        ),
        column!(
            "flows_seen",
            "UInt32",
            "flows, also those that are folded or idle",
            |out, slice, _| out.u32(small(slice.flows_seen))
        ),
        column!("flows_sent", "UInt32", "rows of flows", |out, slice, _| out
            .u32(slice.flows.len() as u32)),
        column!(
            "last_sample",
            "DateTime64(3, 'UTC')",
            "its last sample",
            |out, slice, _| out.u64(slice.last.at_ms)
        ),
        column!(
            "sent",
            "DateTime64(3, 'UTC')",
            "when it was sent, by the clock of the host",
            |out, _, row| out.u64(row.sent_ms)
        ),
    ];
}

impl Table for Period<FindingRecord> {
    const NAME: &'static str = "findings";

    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "began",
            "DateTime64(3, 'UTC')",
            "the first check that found it",
            |out, _, row| out.u64(row.began_ms)
        ),
        column!("host", "LowCardinality(String)", "the host", |out, slice, _| out
            .text(slice.origin.host.as_bytes())),
        column!(
            "id",
            "Int64",
            "its number in the store of the host",
            |out, _, row| out.u64(row.id.cast_unsigned())
        ),
        column!(
            "last",
            "DateTime64(3, 'UTC')",
            "the last check that found it",
            |out, _, row| out.u64(row.last_ms)
        ),
        column!(
            "state",
            "Enum8('there' = 1, 'ended' = 2, 'unknown' = 3)",
            "unknown: a gap followed",
            |out, _, row| out.u8(match row.end {
                PeriodEnd::There => 1,
                PeriodEnd::At(_) => 2,
                PeriodEnd::Unknown => 3,
            })
        ),
        column!(
            "ended",
            "DateTime64(3, 'UTC')",
            "the first check without it, 1970: see state",
            |out, _, row| out.u64(match row.end {
                PeriodEnd::At(at_ms) => at_ms,
                _ => 0,
            })
        ),
        column!(
            "rule",
            "LowCardinality(String)",
            "the rule that found it",
            |out, _, row| out.text(row.what.rule.as_bytes())
        ),
        column!(
            "severity",
            "LowCardinality(String)",
            "its severity",
            |out, _, row| out.text(row.what.severity.name.as_bytes())
        ),
        column!("severity_rank", "UInt8", "0: the least severe", |out, _, row| out
            .u8(row.what.severity.rank)),
        column!(
            "netns",
            "UInt32",
            "network namespace, 0: only one, or the whole host",
            |out, _, row| out.u32(row.what.netns.map_or(0, |netns| netns.0))
        ),
        column!("subject", "String", "what it is about", |out, _, row| out
            .text(row.what.subject.as_bytes())),
        column!(
            "pid",
            "UInt32",
            "process, 0: unknown or several",
            |out, _, row| out.u32(row.what.owner.as_ref().map_or(0, |(pid, _)| pid.0))
        ),
        column!("owner", "LowCardinality(String)", "its name", |out, _, row| out
            .text(or_empty(
                row.what.owner.as_ref().map(|(_, name)| name.as_str())
            ))),
        column!("sockets", "UInt64", "sockets concerned", |out, _, row| out
            .u64(row.what.sockets)),
        column!("example", "String", "ends of the worst of them", |out, _, row| {
            out.text(or_empty(row.what.example.as_deref()));
        }),
        column!("facts", "String", "evidence: name=value ...", |out, _, row| out
            .text(facts_text(&row.what.facts).as_bytes())),
        column!("meaning", "String", "its meaning", |out, _, row| out
            .text(row.what.meaning.as_bytes())),
        column!("remedies", "String", "what to do, a line each", |out, _, row| out
            .text(remedies_text(&row.what.remedies).as_bytes())),
        column!(
            "revision",
            "UInt64",
            "the highest of the rows of a finding counts",
            |out, _, row| {
                let (time_ms, has_ended) = match row.end {
                    PeriodEnd::There => (row.last_ms, 0),
                    PeriodEnd::At(at_ms) => (row.last_ms.max(at_ms), 1),
                    PeriodEnd::Unknown => (row.last_ms, 1),
                };
                out.u64(time_ms * 2 + has_ended);
            }
        ),
    ];
}

impl Table for CountRow {
    const NAME: &'static str = "counts";

    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "t",
            "DateTime('UTC') CODEC(T64, ZSTD(3))",
            "begin of the minute",
            |out, _, row| out.u32(u32::try_from(row.start_s).unwrap_or(u32::MAX))
        ),
        column!("host", "LowCardinality(String)", "the host", |out, slice, _| out
            .text(slice.origin.host.as_bytes())),
        column!(
            "kind",
            "LowCardinality(String)",
            "counter, or drop",
            |out, _, row| out.text(row.key.kind.name().as_bytes())
        ),
        column!(
            "name",
            "LowCardinality(String)",
            "of the counter or the reason",
            |out, _, row| out.text(row.key.name.as_bytes())
        ),
        column!(
            "netns",
            "UInt32",
            "network namespace, 0: only one, or unknown",
            |out, _, row| out.u32(row.key.netns.map_or(0, |netns| netns.0))
        ),
        column!(
            "function",
            "LowCardinality(String)",
            "function of the kernel that drops",
            |out, _, row| out.text(or_empty(row.key.function.as_deref()))
        ),
        column!(
            "device",
            "LowCardinality(String)",
            "network interface",
            |out, _, row| out.text(or_empty(row.key.device.as_deref()))
        ),
        column!(
            "owner",
            "LowCardinality(String)",
            "process of the packets' socket",
            |out, _, row| out.text(or_empty(row.key.owner.as_deref()))
        ),
        column!("count", "UInt64", "how much", |out, _, row| out.u64(row.count)),
    ];
}

impl Table for TranslationRow {
    const NAME: &'static str = "translations";

    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "t",
            "DateTime('UTC') CODEC(T64, ZSTD(3))",
            "when it was seen",
            |out, _, row| out.u32(small(row.at_ms / 1_000))
        ),
        column!(
            "host",
            "LowCardinality(String) CODEC(ZSTD(3))",
            "the host that translates",
            |out, slice, _| out.text(slice.origin.host.as_bytes())
        ),
        column!(
            "netns",
            "UInt32 CODEC(ZSTD(3))",
            "its network namespace, 0: only one is recorded",
            |out, _, row| out.u32(row.seen.netns.map_or(0, |netns| netns.0))
        ),
        column!(
            "conntrack_zone",
            "UInt16 CODEC(ZSTD(3))",
            "zone of conntrack",
            |out, _, row| out.u16(row.seen.translation.zone)
        ),
        column!(
            "client",
            "IPv6 CODEC(ZSTD(3))",
            "the client as the server has it",
            |out, _, row| out.ip(row.seen.translation.translated.client.0)
        ),
        column!(
            "client_port",
            "UInt16 CODEC(ZSTD(3))",
            "its port",
            |out, _, row| {
                out.u16(row.seen.translation.translated.client.1);
            }
        ),
        column!("server", "IPv6 CODEC(ZSTD(3))", "the server", |out, _, row| out
            .ip(row.seen.translation.translated.server.0)),
        column!("port", "UInt16 CODEC(ZSTD(3))", "its port", |out, _, row| {
            out.u16(row.seen.translation.translated.server.1);
        }),
        column!(
            "original_client",
            "IPv6 CODEC(ZSTD(3))",
            "the client",
            |out, _, row| out.ip(row.seen.translation.original.client.0)
        ),
        column!(
            "original_client_port",
            "UInt16 CODEC(ZSTD(3))",
            "its port",
            |out, _, row| out.u16(row.seen.translation.original.client.1)
        ),
        column!(
            "original_server",
            "IPv6 CODEC(ZSTD(3))",
            "the server as the client has it",
            |out, _, row| out.ip(row.seen.translation.original.server.0)
        ),
        column!(
            "original_port",
            "UInt16 CODEC(ZSTD(3))",
            "its port",
            |out, _, row| out.u16(row.seen.translation.original.server.1)
        ),
    ];
}

/// Writes a value of one end, and nothing for the row of the other one: both rows become one.
macro_rules! of_end {
    ($name:literal, $sql_type:literal, $comment:literal, $is_server:literal, $write:expr) => {
        column!($name, $sql_type, $comment, |out, slice, row| {
            let write: fn(&mut RowWriter, Option<(&Slice, &Exchange)>) = $write;
            let is_of_end = row.exchange.is_server == $is_server;
            write(out, is_of_end.then_some((slice, &row.exchange)));
        })
    };
}

impl Table for ExchangeRow {
    const NAME: &'static str = "exchanges";

    const COLUMNS: &'static [Column<Self>] = &[
        column!("day", "Date CODEC(ZSTD(3))", "the day", |out, _, row| {
            out.u16((row.at_ms / 86_400_000) as u16);
        }),
        column!(
            "client",
            "IPv6 CODEC(ZSTD(3))",
            "the end that connected",
            |out, _, row| out.ip(row.exchange.ends.client.0)
        ),
        column!(
            "client_port",
            "UInt16 CODEC(ZSTD(3))",
            "its port",
            |out, _, row| {
                out.u16(row.exchange.ends.client.1);
            }
        ),
        column!(
            "server",
            "IPv6 CODEC(ZSTD(3))",
            "the end that listens",
            |out, _, row| out.ip(row.exchange.ends.server.0)
        ),
        column!("port", "UInt16 CODEC(ZSTD(3))", "its port", |out, _, row| {
            out.u16(row.exchange.ends.server.1);
        }),
        column!(
            "request_bytes",
            "UInt64 CODEC(ZSTD(3))",
            "bytes from client to server",
            |out, _, row| out.u64(row.exchange.request_bytes)
        ),
        column!(
            "response_bytes",
            "UInt64 CODEC(ZSTD(3))",
            "bytes from server to client",
            |out, _, row| out.u64(row.exchange.response_bytes)
        ),
        column!(
            "t",
            "SimpleAggregateFunction(max, DateTime('UTC')) CODEC(T64, ZSTD(3))",
            "when it was last seen",
            |out, _, row| out.u32(small(row.at_ms / 1_000))
        ),
        of_end!(
            "client_host",
            "SimpleAggregateFunction(max, LowCardinality(String)) CODEC(ZSTD(3))",
            "host of the client, empty: not seen",
            false,
            |out, row| out.text(row.map_or(&[], |(slice, _)| slice.origin.host.as_bytes()))
        ),
        of_end!(
            "client_sent_ms",
            "SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(3))",
            "when it last sent, by its clock",
            false,
            |out, row| out.u64(row.map_or(0, |(_, exchange)| exchange.sent_ms))
        ),
        of_end!(
            "client_received_ms",
            "SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(3))",
            "when it last received, by its clock",
            false,
            |out, row| out.u64(row.map_or(0, |(_, exchange)| exchange.received_ms))
        ),
        of_end!(
            "server_host",
            "SimpleAggregateFunction(max, LowCardinality(String)) CODEC(ZSTD(3))",
            "host of the server, empty: not seen",
            true,
            |out, row| out.text(row.map_or(&[], |(slice, _)| slice.origin.host.as_bytes()))
        ),
        of_end!(
            "server_sent_ms",
            "SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(3))",
            "when it last sent, by its clock",
            true,
            |out, row| out.u64(row.map_or(0, |(_, exchange)| exchange.sent_ms))
        ),
        of_end!(
            "server_received_ms",
            "SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(3))",
            "when it last received, by its clock",
            true,
            |out, row| out.u64(row.map_or(0, |(_, exchange)| exchange.received_ms))
        ),
    ];
}

impl Table for GapRow {
    const NAME: &'static str = "gaps";

    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "begin",
            "DateTime64(3, 'UTC')",
            "the last sample before it",
            |out, _, row| out.u64(row.from_ms)
        ),
        column!("host", "LowCardinality(String)", "the host", |out, slice, _| out
            .text(slice.origin.host.as_bytes())),
        column!(
            "end",
            "DateTime64(3, 'UTC')",
            "the first sample after it",
            |out, _, row| out.u64(row.to_ms)
        ),
        column!(
            "reason",
            "LowCardinality(String)",
            "why there is no sample",
            |out, _, row| out.text(row.reason.as_bytes())
        ),
    ];
}

/// Returns how long connections had data to send, if that is part of a share: no question needs it otherwise, and it would take a byte of each
/// active row.
const fn sent_busy_ms(limits: &Limits) -> u64 {
    if limits.rwnd_limited_ms + limits.sndbuf_limited_ms > 0 {
        limits.busy_ms
    } else {
        0
    }
}

fn or_empty(text: Option<&str>) -> &[u8] {
    text.unwrap_or_default().as_bytes()
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{FlowKey, RoundTrips, Side};
    use crate::slice::{Origin, SampleMark};
    use sockeye_history::Sums;

    fn slice() -> Slice {
        let mark = SampleMark {
            id: 3,
            at_ms: 1_795_000_201_000,
        };
        Slice {
            origin: Origin {
                host: "web1".to_owned(),
                boot_id: "b1".to_owned(),
                version: "0.1".to_owned(),
                interval_ms: 10_000,
            },
            start_s: 1_795_000_200,
            length_s: 60,
            boottime_ms: 77,
            first: mark,
            last: mark,
            samples: 6,
            sockets_max: 5,
            losses: 0,
            flows_seen: 1,
            flows: vec![flow([10, 0, 0, 9])],
            listeners: Vec::new(),
            gaps: Vec::new(),
        }
    }

    fn flow(client: [u8; 4]) -> FlowRow {
        FlowRow {
            key: FlowKey {
                netns: None,
                side: Side::Server,
                client: client.into(),
                client_port: 0x0203,
                server: [10, 0, 1, 1].into(),
                port: 443,
                owner: Some("nginx".to_owned()),
                unit: None,
                container: Some("web".to_owned()),
            },
            folded: 0,
            sums: Sums {
                sent_bytes: 0x0102,
                received_bytes: 3,
                retrans_segs: 4,
                opened: 5,
                closed: 6,
                connections: 7,
            },
            failed: 12,
            refused: 11,
            limits: Limits {
                busy_ms: 15,
                rwnd_limited_ms: 14,
                sndbuf_limited_ms: 13,
            },
            rtt: RoundTrips::of(&mut [0x0a], Some(8)),
            receive_queue_bytes: 9,
            send_queue_bytes: 0,
        }
    }

    #[test]
    fn row_of_a_flow_is_these_bytes() {
        let slice = slice();
        let expected = [
            &b"\x88\x87\xfd\x6a\x3c\0\x04web1\0\0\0\0\0\x02"[..],
            b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x09\x03\x02",
            b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\x01\x01\xbb\x01\x05nginx\0\x03web",
            b"\0\0\0\0\x07\0\0\0\x05\0\0\0\x06\0\0\0\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0",
            b"\x0c\0\0\0\x0b\0\0\0\x0f\0\0\0\x0e\0\0\0\x0d\0\0\0",
            b"\x01\0\0\0\x0a\0\0\0\x0a\0\0\0\x08\0\0\0",
            b"\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ];
        assert_eq!(encode(&slice, &slice.flows), expected.concat());
    }

    #[test]
    fn busy_time_is_sent_where_something_held_connections_back() {
        let sent = |rwnd_limited_ms, sndbuf_limited_ms| {
            sent_busy_ms(&Limits {
                busy_ms: 777,
                rwnd_limited_ms,
                sndbuf_limited_ms,
            })
        };
        assert_eq!([sent(0, 0), sent(1, 0), sent(0, 1)], [0, 777, 777]);
    }

    #[test]
    fn addresses_of_the_host_itself_have_its_zone() {
        let slice = slice();
        let bytes = encode(&slice, &[flow([127, 0, 0, 1])]);
        assert_eq!(bytes[15..20], *b"\x04web1");
    }

    #[test]
    fn statement_names_the_columns_in_the_order_of_the_bytes() {
        let statement = insert_statement::<GapRow>();
        assert_eq!(
            statement,
            "INSERT INTO gaps (begin, host, end, reason) FORMAT RowBinary"
        );
        let gap = GapRow {
            from_ms: 1,
            to_ms: 2,
            reason: GapRow::NOT_SENT,
        };
        let expected = b"\x01\0\0\0\0\0\0\0\x04web1\x02\0\0\0\0\0\0\0\x08not-sent";
        assert_eq!(encode(&slice(), &[gap]), expected);
    }

    #[test]
    fn token_differs_by_host_boot_interval_and_table() {
        let first = slice();
        assert_eq!(token::<FlowRow>(&first), "web1/b1/1795000200/77/flows");
        assert_eq!(token::<GapRow>(&first), "web1/b1/1795000200/77/gaps");
    }
}
