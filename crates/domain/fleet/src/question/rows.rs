//! Rows of flows with the ends that their connections have in truth: what NAT changes is undone, where it is known.

use super::TimeRange;

/// What `WHERE` has of rows `r` in a time.
pub(super) const IN_RANGE: &str =
    "r.t >= fromUnixTimestamp({since:UInt32}) AND r.t < fromUnixTimestamp({until:UInt32})";

/// Columns of what is measured.
pub(super) const MEASURES: [&str; 15] = [
    "connections",
    "opened",
    "sent_bytes",
    "received_bytes",
    "retrans_segs",
    "failed",
    "refused",
    "busy_ms",
    "rwnd_limited_ms",
    "sndbuf_limited_ms",
    "rtt_count",
    "rtt_us_sum",
    "rtt_us_p95",
    "receive_queue_bytes",
    "send_queue_bytes",
];

/// The others that NAT does not change.
const KEYS: [&str; 9] = [
    "t",
    "zone",
    "side",
    "host",
    "netns",
    "owner",
    "unit",
    "container",
    "folded",
];

/// Returns rows of flows as `f`, those of a time.
pub(super) fn of_range(range: &TimeRange) -> String {
    let table = range.flows_table();
    with_real_ends(table, "r.t, ", &|and| {
        format!("{table} AS r WHERE {IN_RANGE}{and}")
    })
}

/// Returns rows as `f`, from what `source` returns as `r` with a further condition. `via` and `via_port` are what the client connected to, if
/// that is not the server.
///
/// A connection is found by all four numbers of its end, in the five minutes in which it was there, else in those before them. If these have
/// two meanings, such as in two zones, neither is taken: then each end is an edge of its own. As each of these connections is a row, their
/// number is counted: of the rows of an edge that agree in `moment`, which are columns with a comma behind each, or nothing.
pub(super) fn with_real_ends(table: &str, moment: &str, source: &dyn Fn(&str) -> String) -> String {
    let columns = |has_ports: bool| {
        let ports = has_ports.then_some("client_port");
        let columns = KEYS.into_iter().chain(MEASURES).chain(ports);
        let named: Vec<_> = columns.map(|column| format!("r.{column} AS {column}")).collect();
        named.join(", ")
    };
    let counted = columns(true).replace(
        "r.connections AS connections",
        &format!(
            "toUInt64(uniqExactIf(r.client_port, r.connections > 0)
        OVER (PARTITION BY {moment}r.side, client, server, port, via, via_port)) AS connections"
        ),
    );
    let plain = |columns: &str, and: &str| {
        format!(
            "SELECT {columns}, r.client AS client, r.server AS server, r.port AS port,\n    \
             toIPv6('::') AS via, toUInt16(0) AS via_port\nFROM {}",
            source(and)
        )
    };
    if table == "flows_1h" {
        return format!("({}) AS f", plain(&columns(false), ""));
    }
    format!(
        "({plain}
UNION ALL
SELECT {counted}, if({known}, tupleElement(x.meaning, 1), r.client) AS client, if({known}, tupleElement(x.meaning, 2), r.server) AS server,
    if({known}, tupleElement(x.meaning, 3), r.port) AS port, if({known}, tupleElement(x.meaning, 4), toIPv6('::')) AS via,
    if({known}, tupleElement(x.meaning, 5), toUInt16(0)) AS via_port
FROM (SELECT {columns}, r.client AS client, r.server AS server, r.port AS port FROM {translated}) AS r
LEFT ANY JOIN ({TRANSLATIONS}) AS x
ON x.period = toStartOfFiveMinutes(r.t) AND x.side = toString(r.side) AND x.client = r.client AND x.client_port = r.client_port
    AND x.server = r.server AND x.port = r.port) AS f",
        plain = plain(&columns(true), " AND r.client_port = 0"),
        known = "r.t < x.until",
        columns = columns(true),
        translated = source(" AND r.client_port > 0 AND r.zone = ''"),
    )
}

/// For each end of a connection that NAT translates: the ends in truth as `meaning`, which is that of rows before `until`. One that is seen
/// after its end is of the two minutes before, too.
///
/// A recorder writes all that are there once in five minutes. Until those of new five minutes have come, or where the clock of an end is ahead
/// of that of the host that translates, rows of the first two minutes have the meaning of the five minutes before, unless they have one of
/// their own.
const TRANSLATIONS: &str = "
    SELECT period, side, client, client_port, server, port,
        argMin((of_client, of_server, of_port, of_via, of_via_port), is_before) AS meaning,
        period + if(min(is_before) = 0, 300, 120) AS until
    FROM (
        SELECT arrayJoin(arrayDistinct([toStartOfFiveMinutes(n.t), toStartOfFiveMinutes(n.t - 120), toStartOfFiveMinutes(n.t) + 300])) AS period,
            period > n.t AS is_before, end.1 AS side, end.2 AS client, end.3 AS client_port, end.4 AS server, end.5 AS port,
            n.original_client AS of_client, n.server AS of_server, n.port AS of_port,
            if(n.original_server = n.server AND n.original_port = n.port, toIPv6('::'), n.original_server) AS of_via,
            toUInt16(if(n.original_server = n.server AND n.original_port = n.port, 0, n.original_port)) AS of_via_port,
            n.conntrack_zone AS conntrack_zone
        FROM translations AS n
        ARRAY JOIN [('client', n.original_client, n.original_client_port, n.original_server, n.original_port),
            ('server', n.client, n.client_port, n.server, n.port)] AS end
        WHERE n.t >= fromUnixTimestamp({since:UInt32}) - 600 AND n.t < fromUnixTimestamp({until:UInt32}) + 300
    )
    GROUP BY period, side, client, client_port, server, port
    HAVING uniqExactIf((of_client, of_server, of_port, of_via, of_via_port), is_before = 0) = 1
        OR min(is_before) = 1 AND uniqExact(of_client, of_server, of_port, of_via, of_via_port) = 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_have_no_ports() {
        let source = |and: &str| format!("flows_1h AS r WHERE 1{and}");
        let sql = with_real_ends("flows_1h", "r.t, ", &source);
        assert!(!sql.contains("client_port") && !sql.contains("JOIN"), "{sql}");
        assert!(sql.ends_with("FROM flows_1h AS r WHERE 1) AS f"), "{sql}");
    }

    #[test]
    fn rows_of_single_connections_alone_are_joined() {
        let source = |and: &str| format!("flows AS r WHERE 1{and}");
        let sql = with_real_ends("flows", "r.t, ", &source);
        let (plain, joined) = sql.split_once("UNION ALL").unwrap();
        assert!(plain.contains("WHERE 1 AND r.client_port = 0") && !plain.contains("JOIN"));
        assert!(joined.contains("WHERE 1 AND r.client_port > 0") && joined.contains("LEFT ANY JOIN"));
    }
}
