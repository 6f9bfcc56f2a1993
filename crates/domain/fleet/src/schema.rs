//! The tables in ClickHouse, their rollups, and how an older schema becomes a newer one.

use crate::flow::FlowRow;
use crate::slice::ListenerRow;
use crate::tables::{CountRow, ExchangeRow, GapRow, HostRow, Table, TranslationRow};
use sockeye_history::{FindingRecord, Period};
use std::fmt::Write as _;

/// Where and for how many the schema is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaOptions {
    /// The database.
    pub database: String,
    /// Name of the cluster; `None`: a single server.
    pub cluster: Option<String>,
    /// Hosts that send. It decides how many inserts are remembered.
    pub hosts: u32,
}

/// Hosts whose inserts are remembered by default.
pub const HOSTS: u32 = 100;

/// The version that the statements lead to.
pub const SCHEMA_VERSION: u32 = 2;

/// Minutes for which a host may send again what it does not know to be stored. Each host makes an insert a table and minute.
pub const REMEMBERED_MINUTES: u32 = 24 * 60;

/// A server does not remember more of a table: each insert takes 216 bytes of memory there, and 63 of a file (measured with a million, in
/// ClickHouse 26.9).
pub const REMEMBERED_MAX: u32 = 2_000_000;

impl SchemaOptions {
    /// Returns how many inserts of a table the server remembers, to know one that comes again.
    #[must_use]
    pub const fn inserts_remembered(&self) -> u32 {
        let wanted = self.hosts.saturating_mul(REMEMBERED_MINUTES);
        if wanted < REMEMBERED_MAX {
            wanted
        } else {
            REMEMBERED_MAX
        }
    }

    /// Returns the minutes that this is, of all hosts.
    #[must_use]
    pub const fn minutes_remembered(&self) -> u32 {
        let hosts = if self.hosts == 0 { 1 } else { self.hosts };
        self.inserts_remembered() / hosts
    }

    /// Returns the statements that lead from a version to [`SCHEMA_VERSION`]. Each may be repeated.
    #[must_use]
    pub fn statements(&self, from_version: u32) -> Vec<String> {
        let mut all = match from_version {
            0 => self.created(),
            1 => self.upgraded_from_1(),
            _ => return Vec::new(),
        };
        all.push(format!(
            "INSERT INTO {}.migrations (version) VALUES ({SCHEMA_VERSION})",
            quoted(&self.database)
        ));
        all
    }

    /// Returns the statement that returns the version, 0 if there is none yet.
    #[must_use]
    pub fn version_query(&self) -> String {
        format!(
            "SELECT toUInt32(max(version)) FROM {}.migrations",
            quoted(&self.database)
        )
    }

    /// Returns the statements that create all tables as they are now.
    fn created(&self) -> Vec<String> {
        let database = quoted(&self.database);
        let mut all = vec![format!(
            "CREATE DATABASE IF NOT EXISTS {database}{}",
            self.on_cluster()
        )];
        all.extend(self.table(
            "migrations",
            "    version UInt32,\n    applied DateTime('UTC') DEFAULT now()\n",
            &Storage {
                engine: "ReplacingMergeTree",
                order: "version",
                partition: None,
                ttl: None,
                shard: "version",
            },
        ));
        let flows = Storage {
            engine: "MergeTree",
            order: "toStartOfFiveMinutes(t), server, port, client, side, host, t",
            partition: Some("toDate(t)"),
            ttl: Some("t + INTERVAL 7 DAY"),
            shard: "cityHash64(server, port, zone)",
        };
        all.extend(self.table_of::<FlowRow>(RTT_SUM, &flows));
        for rollup in &ROLLUPS {
            let storage = Storage {
                engine: "AggregatingMergeTree",
                order: &rollup.order(),
                partition: Some("toYYYYMM(t)"),
                ttl: Some(rollup.ttl),
                shard: "cityHash64(server, port, zone)",
            };
            all.extend(self.table(rollup.name, &rollup.columns(), &storage));
        }
        for rollup in &ROLLUPS {
            all.push(self.rollup_view(rollup));
        }
        let of_day = |order, ttl| Storage {
            engine: "MergeTree",
            order,
            partition: Some("toDate(t)"),
            ttl: Some(ttl),
            shard: "cityHash64(host)",
        };
        all.extend(self.table_of::<ListenerRow>(
            "",
            &of_day(
                "toStartOfFiveMinutes(t), address, port, host, t",
                "t + INTERVAL 7 DAY",
            ),
        ));
        all.extend(self.table_of::<HostRow>(
            "    received DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'when it came, by the clock of the server',\n",
            &of_day("host, t", "t + INTERVAL 90 DAY"),
        ));
        all.extend(self.table_of::<CountRow>("", &of_day("name, host, t", "t + INTERVAL 90 DAY")));
        all.extend(self.table_of::<Period<FindingRecord>>(
            "",
            &Storage {
                engine: "ReplacingMergeTree(revision)",
                order: "host, began, id",
                partition: Some("toYYYYMM(began)"),
                ttl: Some("toDateTime(last) + INTERVAL 400 DAY"),
                shard: "cityHash64(host)",
            },
        ));
        all.extend(self.table_of::<GapRow>(
            "",
            &Storage {
                engine: "ReplacingMergeTree",
                order: "host, begin, end, reason",
                partition: Some("toYYYYMM(begin)"),
                ttl: Some("toDateTime(end) + INTERVAL 400 DAY"),
                shard: "cityHash64(host)",
            },
        ));
        all.extend(self.connection_tables());
        all
    }

    /// Returns the statements that create the tables about single connections.
    fn connection_tables(&self) -> Vec<String> {
        let mut all = self.table_of::<TranslationRow>(
            "",
            &Storage {
                engine: "ReplacingMergeTree",
                order: "toStartOfFiveMinutes(t), server, port, client, client_port, host, netns, conntrack_zone,\n    \
                        original_client, original_client_port, original_server, original_port",
                partition: Some("toDate(t)"),
                ttl: Some("t + INTERVAL 90 DAY"),
                shard: "cityHash64(server, port)",
            },
        );
        all.extend(self.table_of::<ExchangeRow>(
            "",
            &Storage {
                engine: "AggregatingMergeTree",
                order: "day, server, port, client, client_port, request_bytes, response_bytes",
                partition: Some("toYYYYMM(day)"),
                ttl: Some("day + INTERVAL 90 DAY"),
                shard: "cityHash64(server, port)",
            },
        ));
        let database = quoted(&self.database);
        all.push(format!(
            "CREATE VIEW IF NOT EXISTS {database}.clock_offsets{} AS\n{}",
            self.on_cluster(),
            clock_offsets(&database)
        ));
        all
    }

    /// Returns the statements that add what version 2 has: failed connects, what held connections back, what NAT translates, and the
    /// clocks of both ends.
    fn upgraded_from_1(&self) -> Vec<String> {
        let mut all = Vec::new();
        for column in FlowRow::COLUMNS {
            if ADDED_IN_2.contains(&column.name) {
                let definition = definition(column.sql_type, column.comment);
                all.extend(self.added_column(FlowRow::NAME, column.name, &definition));
            }
        }
        for rollup in &ROLLUPS {
            for (name, sql_type, function) in ROLLUP_VALUES {
                if ADDED_IN_2.contains(&name) {
                    let definition =
                        format!("SimpleAggregateFunction({function}, {sql_type}) CODEC(T64, ZSTD(3))");
                    all.extend(self.added_column(rollup.name, name, &definition));
                }
            }
            if rollup.has_client_ports {
                let (name, sql_type) = CLIENT_PORT;
                let mut added = self.added_column(rollup.name, name, &format!("{sql_type} CODEC(ZSTD(3))"));
                // The stored table is the first one. Only a column that is added by the same statement may become part of the key.
                let _ = write!(added[0], ", MODIFY ORDER BY ({})", rollup.order());
                all.extend(added);
            }
        }
        for rollup in &ROLLUPS {
            // In place: rows that come meanwhile are rolled up by the one or by the other query.
            all.push(format!(
                "ALTER TABLE {}.{}_view{} MODIFY QUERY\n{}",
                quoted(&self.database),
                rollup.name,
                self.on_cluster(),
                self.rollup_query(rollup)
            ));
        }
        all.extend(self.connection_tables());
        all
    }

    /// Returns the statements that add a column to a table: first to the stored one.
    fn added_column(&self, table: &str, column: &str, definition: &str) -> Vec<String> {
        let stored = self.stored_name(table);
        let mut tables = vec![stored.as_str()];
        if stored != table {
            tables.push(table);
        }
        let add = |table: &&str| {
            format!(
                "ALTER TABLE {}.{table}{} ADD COLUMN IF NOT EXISTS {column} {definition}",
                quoted(&self.database),
                self.on_cluster()
            )
        };
        tables.iter().map(add).collect()
    }

    /// Returns the statements for a table of rows that hosts send, and further columns.
    fn table_of<R: Table>(&self, further: &str, storage: &Storage<'_>) -> Vec<String> {
        let mut columns = String::new();
        for column in R::COLUMNS {
            let definition = definition(column.sql_type, column.comment);
            let _ = writeln!(columns, "    {} {definition},", column.name);
        }
        columns.push_str(further);
        columns.truncate(columns.trim_end().trim_end_matches(',').len());
        columns.push('\n');
        self.table(R::NAME, &columns, storage)
    }

    /// Returns the statements for a table; on a cluster it is one on each server, and one that distributes.
    fn table(&self, name: &str, columns: &str, storage: &Storage<'_>) -> Vec<String> {
        let database = quoted(&self.database);
        let stored = self.stored_name(name);
        let mut sql = format!(
            "CREATE TABLE IF NOT EXISTS {database}.{stored}{} (\n{columns})\nENGINE = {}\n",
            self.on_cluster(),
            self.engine(storage.engine, &stored)
        );
        if let Some(partition) = storage.partition {
            let _ = writeln!(sql, "PARTITION BY {partition}");
        }
        let _ = writeln!(sql, "ORDER BY ({})", storage.order);
        if let Some(ttl) = storage.ttl {
            let _ = writeln!(sql, "TTL {ttl} DELETE");
        }
        let _ = write!(sql, "SETTINGS {}", self.settings(storage));
        let mut all = vec![sql];
        if let Some(cluster) = &self.cluster {
            all.push(format!(
                "CREATE TABLE IF NOT EXISTS {database}.{name}{} AS {database}.{stored}\n\
                 ENGINE = Distributed({}, {}, {stored}, {})",
                self.on_cluster(),
                text(cluster),
                text(&self.database),
                storage.shard
            ));
        }
        all
    }

    /// Returns the view that adds each insert of flows to a rollup.
    fn rollup_view(&self, rollup: &Rollup) -> String {
        format!(
            "CREATE MATERIALIZED VIEW IF NOT EXISTS {}.{}_view{} TO {0}.{} AS\n{}",
            quoted(&self.database),
            rollup.name,
            self.on_cluster(),
            self.stored_name(rollup.name),
            self.rollup_query(rollup)
        )
    }

    /// Returns the query of the view.
    fn rollup_query(&self, rollup: &Rollup) -> String {
        let begin = rollup.begin;
        let database = quoted(&self.database);
        let mut values = String::new();
        for (column, _, function) in ROLLUP_VALUES {
            // A view does not see columns that are not stored.
            let value = match column {
                "rtt_us_sum" => "toUInt64(f.rtt_us_median) * f.rtt_count".to_owned(),
                _ => format!("f.{column}"),
            };
            let _ = write!(values, ",\n    {function}({value}) AS {column}");
        }
        let keys: Vec<_> = rollup.keys().map(|(column, _)| format!("f.{column}")).collect();
        let named: Vec<_> = rollup
            .keys()
            .map(|(column, _)| format!("f.{column} AS {column}"))
            .collect();
        let (keys, named) = (keys.join(", "), named.join(", "));
        format!(
            "SELECT {begin} AS t, {named}{values}\nFROM {database}.{} AS f\nGROUP BY {begin}, {keys}",
            self.stored_name(FlowRow::NAME),
        )
    }

    fn stored_name(&self, name: &str) -> String {
        match self.cluster {
            Some(_) => format!("{name}_local"),
            None => name.to_owned(),
        }
    }

    fn on_cluster(&self) -> String {
        let cluster = self.cluster.as_ref();
        cluster.map_or_else(String::new, |cluster| format!(" ON CLUSTER {}", quoted(cluster)))
    }

    fn engine(&self, engine: &str, stored: &str) -> String {
        if self.cluster.is_none() {
            return engine.to_owned();
        }
        let (name, parameters) = engine
            .trim_end_matches(')')
            .split_once('(')
            .unwrap_or((engine, ""));
        let parameters = if parameters.is_empty() {
            String::new()
        } else {
            format!(", {parameters}")
        };
        format!(
            "Replicated{name}('/clickhouse/tables/{{shard}}/{}/{stored}', '{{replica}}'{parameters})",
            self.database
        )
    }

    /// Returns the statements that let tables which exist remember the inserts of this number of hosts.
    #[must_use]
    pub fn remembering(&self) -> Vec<String> {
        let (database, on_cluster) = (quoted(&self.database), self.on_cluster());
        let rollups = ROLLUPS.iter().map(|rollup| rollup.name);
        let sent = [
            FlowRow::NAME,
            ListenerRow::NAME,
            HostRow::NAME,
            CountRow::NAME,
            Period::<FindingRecord>::NAME,
            GapRow::NAME,
            TranslationRow::NAME,
            ExchangeRow::NAME,
        ];
        let change = |name| {
            let stored = self.stored_name(name);
            format!(
                "ALTER TABLE {database}.{stored}{on_cluster} MODIFY SETTING {}",
                self.window()
            )
        };
        sent.into_iter().chain(rollups).map(change).collect()
    }

    fn window(&self) -> String {
        let remembered = self.inserts_remembered();
        match self.cluster {
            None => format!("non_replicated_deduplication_window = {remembered}"),
            Some(_) => format!(
                "replicated_deduplication_window = {remembered}, replicated_deduplication_window_seconds = {}",
                REMEMBERED_MINUTES * 60
            ),
        }
    }

    fn settings(&self, storage: &Storage<'_>) -> String {
        let window = self.window();
        match storage.ttl {
            // Whole days go at once.
            Some(_) => format!("{window}, ttl_only_drop_parts = 1"),
            None => window,
        }
    }
}

/// How a table is stored.
struct Storage<'a> {
    engine: &'static str,
    order: &'a str,
    partition: Option<&'static str>,
    ttl: Option<&'static str>,
    /// What decides on which server of a cluster a row is.
    shard: &'static str,
}

/// For the mean of the medians, as rollups have it.
const RTT_SUM: &str =
    "    rtt_us_sum UInt64 ALIAS toUInt64(rtt_us_median) * rtt_count COMMENT 'not stored',\n";

/// A rollup of flows.
struct Rollup {
    name: &'static str,
    /// The begin of a row's period.
    begin: &'static str,
    ttl: &'static str,
    /// Whether connections that NAT may translate are rows of their own.
    has_client_ports: bool,
}

impl Rollup {
    /// Returns what its rows are made by, besides the time, with types.
    fn keys(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let ports = self.has_client_ports.then_some(CLIENT_PORT);
        ROLLUP_KEYS.into_iter().chain(ports)
    }

    fn order(&self) -> String {
        let keys: Vec<_> = self.keys().map(|(column, _)| column).collect();
        format!("t, {}", keys.join(", "))
    }

    fn columns(&self) -> String {
        let mut columns = "    t DateTime('UTC') CODEC(T64, ZSTD(3)),\n".to_owned();
        for (name, sql_type) in self.keys() {
            let _ = writeln!(columns, "    {name} {sql_type} CODEC(ZSTD(3)),");
        }
        for (name, sql_type, function) in ROLLUP_VALUES {
            let _ = writeln!(
                columns,
                "    {name} SimpleAggregateFunction({function}, {sql_type}) CODEC(T64, ZSTD(3)),"
            );
        }
        columns.truncate(columns.len() - 2);
        columns.push('\n');
        columns
    }
}

const ROLLUPS: [Rollup; 2] = [
    Rollup {
        name: "flows_5m",
        begin: "toStartOfFiveMinutes(f.t)",
        ttl: "t + INTERVAL 90 DAY",
        has_client_ports: true,
    },
    Rollup {
        name: "flows_1h",
        begin: "toStartOfHour(f.t)",
        ttl: "t + INTERVAL 400 DAY",
        has_client_ports: false,
    },
];

const CLIENT_PORT: (&str, &str) = ("client_port", "UInt16");

/// Columns that version 1 of the tables of flows lacks.
const ADDED_IN_2: [&str; 6] = [
    "client_port",
    "failed",
    "refused",
    "busy_ms",
    "rwnd_limited_ms",
    "sndbuf_limited_ms",
];

/// What rows of flows are rolled up by, with types.
const ROLLUP_KEYS: [(&str, &str); 10] = [
    ("server", "IPv6"),
    ("port", "UInt16"),
    ("client", "IPv6"),
    ("side", "Enum8('client' = 1, 'server' = 2)"),
    ("zone", "LowCardinality(String)"),
    ("host", "LowCardinality(String)"),
    ("netns", "UInt32"),
    ("owner", "LowCardinality(String)"),
    ("unit", "LowCardinality(String)"),
    ("container", "LowCardinality(String)"),
];

/// Values of rollups, with type and what combines them.
const ROLLUP_VALUES: [(&str, &str, &str); 17] = [
    ("folded", "UInt32", "max"),
    ("connections", "UInt32", "max"),
    ("opened", "UInt64", "sum"),
    ("closed", "UInt64", "sum"),
    ("sent_bytes", "UInt64", "sum"),
    ("received_bytes", "UInt64", "sum"),
    ("retrans_segs", "UInt64", "sum"),
    ("failed", "UInt64", "sum"),
    ("refused", "UInt64", "sum"),
    ("busy_ms", "UInt64", "sum"),
    ("rwnd_limited_ms", "UInt64", "sum"),
    ("sndbuf_limited_ms", "UInt64", "sum"),
    ("rtt_count", "UInt64", "sum"),
    ("rtt_us_sum", "UInt64", "sum"),
    ("rtt_us_p95", "UInt32", "max"),
    ("receive_queue_bytes", "UInt64", "max"),
    ("send_queue_bytes", "UInt64", "max"),
];

/// Returns the query of how far the clock of a server is ahead of that of a client, by the last data that both saw: half of how much longer
/// requests take than responses, by both clocks. Between the two clocks, the way takes `delay_ms` there and back: the estimate is wrong by at
/// most half of it. Exchanges whose time there and back is negative are of clocks that were set meanwhile.
fn clock_offsets(database: &str) -> String {
    format!(
        "SELECT day, client, client_port, server, port, t, client_host, server_host,
    (there_ms - back_ms) / 2 AS server_ahead_ms, there_ms + back_ms AS delay_ms
FROM (
    SELECT e.day AS day, e.client AS client, e.client_port AS client_port, e.server AS server, e.port AS port,
        max(e.t) AS t, toString(max(e.client_host)) AS client_host, toString(max(e.server_host)) AS server_host,
        toInt64(max(e.server_received_ms)) - toInt64(max(e.client_sent_ms)) AS there_ms,
        toInt64(max(e.client_received_ms)) - toInt64(max(e.server_sent_ms)) AS back_ms
    FROM {database}.exchanges AS e
    GROUP BY e.day, e.client, e.client_port, e.server, e.port, e.request_bytes, e.response_bytes
    HAVING client_host != '' AND server_host != '' AND client_host != server_host
)
WHERE delay_ms > -{TICKS_MS}"
    )
}

/// Both ends have the ages of their data by a clock that ticks every 1 to 10 ms.
const TICKS_MS: u32 = 40;

/// Returns the type of a column with its comment. Before ClickHouse 26.1 the codec has to follow the comment.
fn definition(sql_type: &str, comment: &str) -> String {
    let comment = text(comment);
    match sql_type.split_once(" CODEC(") {
        Some((plain, codec)) => format!("{plain} COMMENT {comment} CODEC({codec}"),
        None => format!("{sql_type} COMMENT {comment}"),
    }
}

/// Returns a name as SQL has it.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

/// Returns a text as SQL has it.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(cluster: Option<&str>, hosts: u32) -> SchemaOptions {
        SchemaOptions {
            database: "sockeye".to_owned(),
            cluster: cluster.map(str::to_owned),
            hosts,
        }
    }

    #[test]
    fn comments_come_before_codecs() {
        assert_eq!(
            definition("UInt16 CODEC(T64, ZSTD(3))", "its port"),
            "UInt16 COMMENT 'its port' CODEC(T64, ZSTD(3))"
        );
        for version in [0, 1] {
            for statement in options(None, 100).statements(version) {
                for line in statement.lines() {
                    let (comment, codec) = (line.find(" COMMENT "), line.find(" CODEC("));
                    assert!(comment.is_none() || codec.is_none() || comment < codec, "{line}");
                }
            }
        }
    }

    #[test]
    fn inserts_of_a_day_are_remembered_within_a_bound() {
        let small = options(None, 100);
        assert_eq!(
            (small.inserts_remembered(), small.minutes_remembered()),
            (144_000, 1_440)
        );
        let large = options(None, 20_000);
        assert_eq!(
            (large.inserts_remembered(), large.minutes_remembered()),
            (2_000_000, 100)
        );
    }

    #[test]
    fn single_server_has_no_word_of_clusters() {
        let all = options(None, 1).statements(0).join("\n");
        for word in ["ON CLUSTER", "Replicated", "Distributed", "_local"] {
            assert!(!all.contains(word), "{word}");
        }
        assert!(all.contains("ORDER BY (toStartOfFiveMinutes(t), server, port, client, side, host, t)"));
    }

    #[test]
    fn cluster_has_replicas_and_a_table_that_distributes() {
        let statements = options(Some("main"), 1).statements(0);
        let of_flows: Vec<_> = statements.iter().filter(|sql| sql.contains("flows")).collect();
        assert!(of_flows[0].contains(
            "ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/sockeye/flows_local', '{replica}')"
        ));
        assert!(of_flows[1].ends_with(
            "ENGINE = Distributed('main', 'sockeye', flows_local, cityHash64(server, port, zone))"
        ));
        let findings = statements.iter().find(|sql| sql.contains("findings_local"));
        assert!(findings.unwrap().contains("'{replica}', revision)"));
        for sql in &statements[..statements.len() - 1] {
            assert!(sql.contains(" ON CLUSTER `main`"), "{sql}");
        }
    }

    #[test]
    fn upgrade_adds_columns_to_stored_tables_first() {
        let all = options(Some("main"), 1).statements(1);
        let of_failed: Vec<_> = all
            .iter()
            .filter(|sql| sql.contains("IF NOT EXISTS failed "))
            .collect();
        let begins = [
            "flows_local",
            "flows",
            "flows_5m_local",
            "flows_5m",
            "flows_1h_local",
            "flows_1h",
        ]
        .map(|table| format!("ALTER TABLE `sockeye`.{table} ON CLUSTER `main` ADD COLUMN"));
        assert_eq!(of_failed.len(), begins.len());
        for (sql, begin) in of_failed.iter().zip(&begins) {
            assert!(sql.starts_with(begin), "{sql}");
        }
        assert!(all.last().unwrap().ends_with("VALUES (2)"));
        let single = options(None, 1).statements(1);
        // Columns of three tables and the port of two, views, two tables and a view, and the version.
        assert_eq!(single.len(), 5 * 3 + 2 + 2 + 3 + 1);
    }

    #[test]
    fn newest_version_needs_no_statement() {
        assert_eq!(options(None, 1).statements(SCHEMA_VERSION), [""; 0]);
    }
}
