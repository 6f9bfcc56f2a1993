//! The tables in ClickHouse, their rollups, and how an older schema becomes a newer one.

use crate::flow::FlowRow;
use crate::slice::ListenerRow;
use crate::tables::{CountRow, GapRow, HostRow, Table};
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

/// The version that the statements lead to.
pub const SCHEMA_VERSION: u32 = 1;

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
        let mut all = Vec::new();
        if from_version < 1 {
            all.extend(self.version_1());
        }
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

    fn version_1(&self) -> Vec<String> {
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
        for (name, ttl, partition) in [
            ("flows_5m", "t + INTERVAL 90 DAY", "toYYYYMM(t)"),
            ("flows_1h", "t + INTERVAL 400 DAY", "toYYYYMM(t)"),
        ] {
            let rollup = Storage {
                engine: "AggregatingMergeTree",
                order: "t, server, port, client, side, zone, host, netns, owner, unit, container",
                partition: Some(partition),
                ttl: Some(ttl),
                shard: "cityHash64(server, port, zone)",
            };
            all.extend(self.table(name, &rollup_columns(), &rollup));
        }
        for (name, begin) in [
            ("flows_5m", "toStartOfFiveMinutes(f.t)"),
            ("flows_1h", "toStartOfHour(f.t)"),
        ] {
            all.push(self.rollup_view(name, begin));
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
        all.push(format!("INSERT INTO {database}.migrations (version) VALUES (1)"));
        all
    }

    /// Returns the statements for a table of rows that hosts send, and further columns.
    fn table_of<R: Table>(&self, further: &str, storage: &Storage) -> Vec<String> {
        let mut columns = String::new();
        for column in R::COLUMNS {
            let comment = text(column.comment);
            let _ = writeln!(
                columns,
                "    {} {} COMMENT {comment},",
                column.name, column.sql_type
            );
        }
        columns.push_str(further);
        columns.truncate(columns.trim_end().trim_end_matches(',').len());
        columns.push('\n');
        self.table(R::NAME, &columns, storage)
    }

    /// Returns the statements for a table; on a cluster it is one on each server, and one that distributes.
    fn table(&self, name: &str, columns: &str, storage: &Storage) -> Vec<String> {
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
    fn rollup_view(&self, name: &str, begin: &str) -> String {
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
        let keys: Vec<_> = ROLLUP_KEYS
            .iter()
            .map(|(column, _)| format!("f.{column}"))
            .collect();
        let named: Vec<_> = ROLLUP_KEYS
            .iter()
            .map(|(column, _)| format!("f.{column} AS {column}"))
            .collect();
        let (keys, named) = (keys.join(", "), named.join(", "));
        format!(
            "CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.{name}_view{} TO {database}.{} AS\n\
             SELECT {begin} AS t, {named}{values}\nFROM {database}.{} AS f\nGROUP BY {begin}, {keys}",
            self.on_cluster(),
            self.stored_name(name),
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

    fn settings(&self, storage: &Storage) -> String {
        let remembered = self.inserts_remembered();
        let window = match self.cluster {
            None => format!("non_replicated_deduplication_window = {remembered}"),
            Some(_) => format!(
                "replicated_deduplication_window = {remembered}, replicated_deduplication_window_seconds = {}",
                REMEMBERED_MINUTES * 60
            ),
        };
        match storage.ttl {
            // Whole days go at once.
            Some(_) => format!("{window}, ttl_only_drop_parts = 1"),
            None => window,
        }
    }
}

/// How a table is stored.
struct Storage {
    engine: &'static str,
    order: &'static str,
    partition: Option<&'static str>,
    ttl: Option<&'static str>,
    /// What decides on which server of a cluster a row is.
    shard: &'static str,
}

/// For the mean of the medians, as rollups have it.
const RTT_SUM: &str =
    "    rtt_us_sum UInt64 ALIAS toUInt64(rtt_us_median) * rtt_count COMMENT 'not stored',\n";

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
const ROLLUP_VALUES: [(&str, &str, &str); 12] = [
    ("folded", "UInt32", "max"),
    ("connections", "UInt32", "max"),
    ("opened", "UInt64", "sum"),
    ("closed", "UInt64", "sum"),
    ("sent_bytes", "UInt64", "sum"),
    ("received_bytes", "UInt64", "sum"),
    ("retrans_segs", "UInt64", "sum"),
    ("rtt_count", "UInt64", "sum"),
    ("rtt_us_sum", "UInt64", "sum"),
    ("rtt_us_p95", "UInt32", "max"),
    ("receive_queue_bytes", "UInt64", "max"),
    ("send_queue_bytes", "UInt64", "max"),
];

fn rollup_columns() -> String {
    let mut columns = "    t DateTime('UTC') CODEC(T64, ZSTD(3)),\n".to_owned();
    for (name, sql_type) in ROLLUP_KEYS {
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
    fn newest_version_needs_no_statement() {
        assert_eq!(options(None, 1).statements(SCHEMA_VERSION), [""; 0]);
    }
}
