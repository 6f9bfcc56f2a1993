//! The map of services: who uses whom.

use super::edges::Selection;
use super::fold::{MEASURED, folded};
use super::{Answer, Question, TimeRange, rows};
use crate::row_binary::{RowError, RowReader};

/// All edges between two services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceEdge {
    /// Service of the clients; their address if none of them sent rows.
    pub client: String,
    /// Service of the servers; their address if none of them sent rows.
    pub server: String,
    /// Port of the servers.
    pub port: u16,
    /// Edges between hosts.
    pub edges: u64,
    /// Edges that both ends saw.
    pub edges_of_both: u64,
    /// The most connections of the edges in an interval, summed.
    pub connections: u64,
    /// Connections opened.
    pub opened: u64,
    /// Bytes from clients to servers.
    pub request_bytes: u64,
    /// Bytes from servers to clients.
    pub response_bytes: u64,
    /// Segments that either end retransmitted. Without those of an end that does not know which of several services they are of.
    pub retrans_segs: u64,
    /// Mean round trip time, as the clients see it, else the servers; 0: unknown.
    pub rtt_us_mean: u64,
}

/// Asks for the map of a time. `selection.edges_max` bounds its edges.
#[must_use]
pub fn service_map(range: &TimeRange, selection: &Selection) -> Question {
    let (inner, outer) = selection.conditions();
    let rows = format!("{} WHERE 1{inner}", rows::of_range(range));
    let mut measured = MEASURED.to_vec();
    measured.retain(|one| OF_MAP.contains(&one.name));
    let name = |side: &str| {
        format!(
            "multiIf(e.{side}_service != '', e.{side}_service, e.{side} = toIPv6('::'), 'other', \
             replaceOne(toString(e.{side}), '::ffff:', ''))"
        )
    };
    Question {
        sql: format!(
            "SELECT {} AS client_name, {} AS server_name, e.port AS port,
    count() AS edges,
    countIf(e.client_is_seen = 1 AND e.server_is_seen = 1) AS edges_of_both,
    sum(e.connections) AS all_connections, sum(e.opened) AS all_opened,
    sum(e.request_bytes) AS all_request_bytes, sum(e.response_bytes) AS all_response_bytes,
    sum(if(e.split = 2, 0, e.client_retrans_segs) + if(e.split = 1, 0, e.server_retrans_segs)) AS all_retrans_segs,
    sum(if(e.split != 2 AND e.client_rtt_count > 0, e.client_rtt_us_sum, if(e.split = 1, 0, e.server_rtt_us_sum))) AS rtt_us_sum,
    sum(if(e.split != 2 AND e.client_rtt_count > 0, e.client_rtt_count, if(e.split = 1, 0, e.server_rtt_count))) AS rtt_count
FROM (
{}
) AS e
GROUP BY client_name, server_name, e.port
ORDER BY all_request_bytes + all_response_bytes DESC, client_name, server_name, port LIMIT {}",
            name("client"),
            name("server"),
            folded(&rows, &outer, &measured),
            selection.edges_max
        ),
        parameters: selection.parameters(range.parameters()),
    }
}

/// What the map has of what is measured. An edge has more.
const OF_MAP: [&str; 7] = [
    "retrans_segs",
    "rtt_us_sum",
    "rtt_count",
    "sent_bytes",
    "received_bytes",
    "opened",
    "connections",
];

impl Answer for ServiceEdge {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        let (client, server, port) = (reader.text()?, reader.text()?, reader.u16()?);
        let mut number = || reader.u64();
        let edge = Self {
            client,
            server,
            port,
            edges: number()?,
            edges_of_both: number()?,
            connections: number()?,
            opened: number()?,
            request_bytes: number()?,
            response_bytes: number()?,
            retrans_segs: number()?,
            rtt_us_mean: 0,
        };
        let (sum_us, count) = (number()?, number()?);
        Ok(Self {
            rtt_us_mean: sum_us.checked_div(count).unwrap_or(0),
            ..edge
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_map_does_not_have_is_not_read() {
        let range = TimeRange {
            since_s: 0,
            until_s: 1,
            now_s: 1,
        };
        let sql = service_map(&range, &Selection::default()).sql;
        for one in MEASURED {
            // The innermost rows have it by another name, and a column that nothing uses is not read.
            let is_asked_for =
                sql.contains(&format!("f.{}", one.name)) || sql.contains(&format!("client_{}", one.name));
            assert_eq!(is_asked_for, OF_MAP.contains(&one.name), "{one:?}");
        }
    }
}
