//! How rows of flows become edges: the rows of each service of an end are summed up first, then both ends are folded to the edge between them.
//!
//! A row has the service of the end that sent it, and not that of the other one. If one service connected to one service, both ends are of
//! the same connections. If several of one end did, each of them is an edge with what its own end saw, and the other end has what it saw of
//! all of them: of which, is not known.

/// Returns the statement that folds rows to edges, with these of [`MEASURED`]. `condition`: which edges, after `WHERE`; empty: all.
pub(super) fn folded(rows: &str, condition: &str, measured: &[Measured]) -> String {
    let place = |name: &str| place(measured, name);
    let of_ends = measured.iter().filter(|one| one.is_of_end);
    let of_ends: Vec<_> = of_ends.map(|one| one.name).collect();
    let chosen = if condition.is_empty() {
        String::new()
    } else {
        format!("\nWHERE {condition}")
    };
    let of_end = |side: &str, split: u8| {
        let measured: Vec<_> = of_ends
            .iter()
            .map(|name| {
                format!(
                    "if(g.split = {split}, tupleElement(part, {}), g.{side}_{name}) AS {side}_{name}",
                    place(name)
                )
            })
            .collect();
        format!(
            "g.{side}_is_seen AS {side}_is_seen, g.{side}_host AS {side}_host,
    if(g.split = {split}, arrayFilter(name -> name != '', [tupleElement(part, 1)]), g.{side}_names) AS {side}_services,
    {}",
            measured.join(",\n    ")
        )
    };
    // What is of the connections: of the end that has several services, else of the end that saw more.
    let of_connections = |name: &str, of_client: &str, of_server: &str| {
        format!(
            "multiIf(g.split = 1, tupleElement(part, {}), g.split = 2, tupleElement(part, {}), \
             greatest(g.client_{of_client}, g.server_{of_server})) AS {name}",
            place(of_client),
            place(of_server)
        )
    };
    let times: Vec<_> = measured
        .iter()
        .filter(|one| one.is_time())
        .map(|one| one.name)
        .collect();
    let of_time = |name: &&str| {
        format!(
            ",\n    if(g.split > 0, tupleElement(part, {}), g.{name}) AS {name}",
            place(name)
        )
    };
    let columns = |side: &str| {
        let measured = of_ends
            .iter()
            .map(|name| format!("e.{side}_{name} AS {side}_{name}"));
        let all: Vec<_> = [
            format!("e.{side}_is_seen AS {side}_is_seen"),
            format!("e.{side}_host AS {side}_host"),
            format!("arrayStringConcat(e.{side}_services, ', ') AS {side}_service"),
        ]
        .into_iter()
        .chain(measured)
        .collect();
        all.join(", ")
    };
    format!(
        "SELECT e.zone AS edge_zone, e.client AS client, e.server AS server, e.port AS port, e.via AS edge_via, e.via_port AS edge_via_port,
    e.split AS split, arrayStringConcat(e.all_names, ', ') AS all_services, e.all_request_bytes AS all_request_bytes, e.all_response_bytes AS all_response_bytes,
    {},
    {},
    e.request_bytes AS request_bytes, e.response_bytes AS response_bytes, e.opened AS opened, e.connections AS connections{}
FROM (
SELECT g.zone AS zone, g.client AS client, g.server AS server, g.port AS port, g.via AS via, g.via_port AS via_port, g.split AS split,
    multiIf(g.split = 1, g.client_names, g.split = 2, g.server_names, []) AS all_names,
    if(g.split = 1, g.server_received_bytes, g.client_sent_bytes) AS all_request_bytes,
    if(g.split = 1, g.server_sent_bytes, g.client_received_bytes) AS all_response_bytes,
    {},
    {},
    {},
    {},
    {},
    {}{}
FROM (
{}
) AS g
LEFT ARRAY JOIN g.parts AS part
) AS e{chosen}",
        columns("client"),
        columns("server"),
        times.iter().map(|name| format!(",\n    e.{name} AS {name}")).collect::<String>(),
        of_end("client", 1),
        of_end("server", 2),
        of_connections("request_bytes", "sent_bytes", "received_bytes"),
        of_connections("response_bytes", "received_bytes", "sent_bytes"),
        of_connections("opened", "opened", "opened"),
        of_connections("connections", "connections", "connections"),
        times.iter().map(of_time).collect::<String>(),
        pairs(rows, measured),
    )
}

/// Returns the statement for pairs of ends: what each end saw of all its services and, as `parts`, of each of them, if they are several.
fn pairs(rows: &str, measured: &[Measured]) -> String {
    let of_end = |side: &str| {
        let named: Vec<_> = measured
            .iter()
            .map(|Measured { name, function, .. }| match *function {
                // Of different connections.
                _ if *name == "connections" => format!("sumIf(s.{name}, s.side = '{side}') AS {side}_{name}"),
                function => format!("{function}If(s.{name}, s.side = '{side}') AS {side}_{name}"),
            })
            .collect();
        let part: Vec<_> = measured.iter().map(|one| format!("s.{}", one.name)).collect();
        format!(
            "toUInt8(countIf(s.side = '{side}') > 0) AS {side}_is_seen,
    anyIf(s.host, s.side = '{side}') AS {side}_host,
    arraySort(groupUniqArrayIf(s.service, s.side = '{side}' AND s.service != '')) AS {side}_names,
    {},
    groupArrayIf(tuple(s.service, {}), s.side = '{side}') AS {side}_parts",
            named.join(", "),
            part.join(", ")
        )
    };
    let times = if measured.iter().any(Measured::is_time) {
        TIMES
    } else {
        ""
    };
    format!(
        "SELECT s.zone AS zone, s.client AS client, s.server AS server, s.port AS port, max(s.via) AS via, max(s.via_port) AS via_port,
    {},
    {},{times}
    toUInt8(multiIf(length(client_names) > 1, 1, length(server_names) > 1, 2, 0)) AS split,
    multiIf(split = 1, client_parts, split = 2, server_parts, arraySlice(client_parts, 1, 0)) AS parts
FROM (
{}
) AS s
GROUP BY s.zone, s.client, s.server, s.port",
        of_end("client"),
        of_end("server"),
        services(rows, measured)
    )
}

/// Returns the statement for what each service saw as an end. Connections that no process has, since none has accepted them, are those of the
/// service that owns the listener.
fn services(rows: &str, measured: &[Measured]) -> String {
    let summed: Vec<_> = measured
        .iter()
        .map(|Measured { name, function, .. }| match *name {
            "first_s" | "last_s" => format!("toUInt32({function}(f.t)) AS {name}"),
            "rtt_us_p95" => format!("toUInt32({function}(f.{name})) AS {name}"),
            _ => format!("toUInt64({function}(f.{name})) AS {name}"),
        })
        .collect();
    let kept: Vec<_> = measured
        .iter()
        .map(|Measured { name, .. }| format!("p.{name} AS {name}"))
        .collect();
    format!(
        "SELECT p.zone AS zone, p.client AS client, p.server AS server, p.port AS port, p.side AS side, p.host AS host,
    p.via AS via, p.via_port AS via_port,
    multiIf(p.service != '' OR p.side = 'client', p.service,
        arrayExists(owner -> owner.1 = p.server, l.owners), tupleElement(arrayFirst(owner -> owner.1 = p.server, l.owners), 2),
        tupleElement(arrayFirst(owner -> owner.1 IN (toIPv6('::'), toIPv6('0.0.0.0')), l.owners), 2)) AS service,
    {}
FROM (
SELECT toString({ZONE}) AS zone, f.client AS client, f.server AS server, f.port AS port, toString(f.side) AS side,
    toString({SERVICE}) AS service, toString(any(f.host)) AS host, any(f.netns) AS netns,
    max(f.via) AS via, toUInt16(max(f.via_port)) AS via_port,
    {}
FROM {rows}
GROUP BY zone, f.client, f.server, f.port, side, service
) AS p
LEFT ANY JOIN ({}) AS l ON l.host = p.host AND l.netns = p.netns AND l.port = p.port",
        kept.join(", "),
        summed.join(",\n    "),
        listeners()
    )
}

/// Returns the statement for the service of each listener, by its address. All listeners are sent every five minutes.
fn listeners() -> String {
    format!(
        "
    SELECT toString(o.host) AS host, o.netns AS netns, o.port AS port, groupArray((o.address, o.service)) AS owners
    FROM (
        SELECT n.host AS host, n.netns AS netns, n.port AS port, n.address AS address, toString(argMax({}, n.t)) AS service
        FROM listeners AS n
        WHERE n.t >= fromUnixTimestamp(greatest({{since:UInt32}}, {{until:UInt32}} - {LISTENERS_S})) - 300
            AND n.t <= fromUnixTimestamp({{until:UInt32}})
        GROUP BY host, netns, port, address
        HAVING service != ''
    ) AS o
    GROUP BY host, netns, port",
        SERVICE.replace("f.", "n.")
    )
}

/// Returns the place of a column in the tuple of a part.
fn place(measured: &[Measured], name: &str) -> usize {
    let place = measured.iter().position(|one| one.name == name);
    place.expect("what is asked for is measured") + 2
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) name: &'static str,
    /// What combines it.
    function: &'static str,
    /// Whether it is of an end; otherwise of the connections.
    is_of_end: bool,
}

impl Measured {
    const fn of_end(name: &'static str, function: &'static str) -> Self {
        Self {
            name,
            function,
            is_of_end: true,
        }
    }

    const fn of_connections(name: &'static str, function: &'static str) -> Self {
        Self {
            name,
            function,
            is_of_end: false,
        }
    }

    /// Whether it is the time of the first or last row: it is not in rows by this name.
    fn is_time(&self) -> bool {
        ["first_s", "last_s"].contains(&self.name)
    }
}

/// All that is measured. A question without some of it takes less time: what is in a tuple is read and folded, whether it is used or not.
pub(super) const MEASURED: [Measured; 17] = [
    Measured::of_end("retrans_segs", "sum"),
    Measured::of_end("failed", "sum"),
    Measured::of_end("refused", "sum"),
    Measured::of_end("busy_ms", "sum"),
    Measured::of_end("rwnd_limited_ms", "sum"),
    Measured::of_end("sndbuf_limited_ms", "sum"),
    Measured::of_end("rtt_us_sum", "sum"),
    Measured::of_end("rtt_count", "sum"),
    Measured::of_end("rtt_us_p95", "max"),
    Measured::of_end("receive_queue_bytes", "max"),
    Measured::of_end("send_queue_bytes", "max"),
    Measured::of_connections("sent_bytes", "sum"),
    Measured::of_connections("received_bytes", "sum"),
    Measured::of_connections("opened", "sum"),
    Measured::of_connections("connections", "max"),
    Measured::of_connections("first_s", "min"),
    Measured::of_connections("last_s", "max"),
];

/// The first and the last row of an edge.
const TIMES: &str = "
    least(if(client_is_seen = 1, client_first_s, server_first_s), if(server_is_seen = 1, server_first_s, client_first_s)) AS first_s,
    greatest(client_last_s, server_last_s) AS last_s,";

/// Of a longer time, the listeners of the last day.
const LISTENERS_S: u32 = 86_400;

/// Folded flows of two hosts are not one.
const ZONE: &str = "if(f.folded > 0, f.host, f.zone)";

/// What a row's end is called.
const SERVICE: &str = "multiIf(f.container != '', f.container, f.unit != '', f.unit, f.owner)";

#[cfg(test)]
mod tests {
    use super::super::rows;
    use super::*;

    #[test]
    fn measured_columns_are_those_of_rows() {
        let of_rows = MEASURED.iter().filter(|one| !one.is_time());
        for one in of_rows.clone() {
            assert!(rows::MEASURES.contains(&one.name), "{one:?}");
        }
        assert_eq!(of_rows.count(), rows::MEASURES.len());
        assert_eq!(place(&MEASURED, "retrans_segs"), 2);
    }

    #[test]
    fn rows_are_read_once_and_joined_with_listeners_alone() {
        let sql = folded("flows AS f", "", &MEASURED);
        assert_eq!(sql.matches("FROM flows AS f").count(), 1, "{sql}");
        assert_eq!(sql.matches("JOIN (").count(), 1, "{sql}");
    }
}
