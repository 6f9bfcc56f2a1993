//! Edges: a client, a server and a port, as either end or both saw them.

use super::fold::{MEASURED, folded};
use super::{Answer, Question, TimeRange, between, rows};
use crate::filter::Filter;
use crate::row_binary::{RowError, RowReader};
use sockeye_history::Limits;
use std::net::IpAddr;

/// An edge over a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Where the addresses are valid: empty: everywhere, else on this host.
    pub zone: String,
    /// The end that connected; unspecified in a row of folded flows, whose zone is the host that folded them.
    pub client: IpAddr,
    /// The end that listens.
    pub server: IpAddr,
    /// The port that it listens on.
    pub port: u16,
    /// Address and port that the client connected to, if NAT made another of it; `None` if it is that of the server, or unknown.
    pub via: Option<(IpAddr, u16)>,
    /// What the client said of itself.
    pub client_end: EdgeEnd,
    /// What the server said of itself.
    pub server_end: EdgeEnd,
    /// All edges between the two addresses to this port; `None`: it is the only one.
    pub of_all: Option<OfAll>,
    /// Bytes from client to server.
    pub request_bytes: u64,
    /// Bytes from server to client.
    pub response_bytes: u64,
    /// Connections opened.
    pub opened: u64,
    /// The most connections in an interval.
    pub connections: u64,
    /// First interval with it, in seconds since 1970.
    pub first_s: u32,
    /// Last interval with it.
    pub last_s: u32,
}

/// What edges between the same two addresses, each of another service of one end, have together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfAll {
    /// The services of that end, with commas between them.
    pub services: String,
    /// Bytes from client to server, as the other end saw them.
    pub request_bytes: u64,
    /// Bytes from server to client, as the other end saw them.
    pub response_bytes: u64,
}

/// One end of an edge, as its host saw it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EdgeEnd {
    /// Whether this end sent rows. Otherwise all that follows is empty.
    pub is_seen: bool,
    /// Whether what follows its services is that of all edges between the two addresses: the other end has several services, and of which of
    /// them it is, is not known.
    pub is_of_all: bool,
    /// Name of its host.
    pub host: String,
    /// Container, else systemd unit, else process; of several with commas between them; empty: unknown.
    pub service: String,
    /// Segments that it retransmitted.
    pub retrans_segs: u64,
    /// Connects of this end that failed.
    pub failed: u64,
    /// Of these, those that the other end refused.
    pub refused: u64,
    /// What held its connections back.
    pub limits: Limits,
    /// Mean of the median round trip times of its connections; 0: unknown.
    pub rtt_us_mean: u64,
    /// The largest of the 95th percentiles.
    pub rtt_us_p95: u32,
    /// The most bytes that it had received and not read.
    pub receive_queue_bytes: u64,
    /// The most bytes that it had written and that were not acknowledged.
    pub send_queue_bytes: u64,
}

impl Edge {
    /// Returns which ends saw it.
    #[must_use]
    pub const fn seen_by(&self) -> &'static str {
        match (self.client_end.is_seen, self.server_end.is_seen) {
            (true, true) => "both",
            (true, false) => "client",
            (false, true) => "server",
            (false, false) => "none",
        }
    }
}

impl EdgeEnd {
    /// Returns whether it has figures of this edge.
    #[must_use]
    pub const fn has_figures(&self) -> bool {
        self.is_seen && !self.is_of_all
    }
}

/// Which edges are asked for, and how many of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// A condition; `None`: all.
    pub filter: Option<Filter>,
    /// The most edges, those with most bytes first.
    pub edges_max: u64,
}

/// Asks for the edges of a time.
#[must_use]
pub fn edges(range: &TimeRange, selection: &Selection) -> Question {
    let (inner, outer) = selection.conditions();
    let rows = format!("{} WHERE 1{inner}", rows::of_range(range));
    Question {
        sql: format!("{}\n{}", folded(&rows, &outer, &MEASURED), selection.end()),
        parameters: selection.parameters(range.parameters()),
    }
}

/// Asks for the edges that had connections at a time, in seconds since 1970. A flow in which nothing happens is sent every five minutes.
/// What is older than the rows of `flows` has the edges of the five minutes, or of the hour, around it.
#[must_use]
pub fn edges_at(at_s: u64, now_s: u64, selection: &Selection) -> Question {
    let range = TimeRange {
        since_s: at_s.saturating_sub(LOOK_BACK_S),
        until_s: at_s,
        now_s,
    };
    let table = range.flows_table();
    let look_back_s = match table {
        "flows_5m" => 300,
        "flows_1h" => 3_600,
        _ => LOOK_BACK_S,
    };
    let (inner, outer) = selection.conditions();
    let last = |column: &str| format!("argMax(r.{column}, r.t) AS {column}");
    let values: Vec<_> = rows::MEASURES.into_iter().chain(["folded"]).map(last).collect();
    let mut keys =
        "r.zone, r.server, r.port, r.client, r.side, r.host, r.netns, r.owner, r.unit, r.container"
            .to_owned();
    if table != "flows_1h" {
        keys.push_str(", r.client_port");
    }
    let named = keys
        .split(", ")
        .map(|key| format!("{key} AS {}", key.trim_start_matches("r.")));
    let named: Vec<_> = named.collect();
    let source = |and: &str| {
        format!(
            "(SELECT max(r.t) AS t, {}, {} FROM {table} AS r\n\
             WHERE r.t > fromUnixTimestamp({{since:UInt32}}) AND r.t <= fromUnixTimestamp({{until:UInt32}}){and}\n\
             GROUP BY {keys} HAVING connections > 0) AS r",
            named.join(", "),
            values.join(", ")
        )
    };
    let rows = format!("{} WHERE 1{inner}", rows::with_real_ends(table, "", &source));
    let parameters = between(at_s.saturating_sub(look_back_s), at_s);
    Question {
        sql: format!("{}\n{}", folded(&rows, &outer, &MEASURED), selection.end()),
        parameters: selection.parameters(parameters),
    }
}

impl Selection {
    /// Returns what restricts rows, and what restricts edges: a property of one end is known only when both are folded.
    pub(super) fn conditions(&self) -> (String, String) {
        match &self.filter {
            None => (String::new(), String::new()),
            Some(filter) if filter.is_of_key() => (format!(" AND ({})", filter.sql_of_rows()), String::new()),
            Some(filter) => (String::new(), filter.sql_of_edges()),
        }
    }

    fn end(&self) -> String {
        format!(
            "ORDER BY request_bytes + response_bytes DESC, server, port, client LIMIT {}",
            self.edges_max
        )
    }

    pub(super) fn parameters(&self, mut all: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
        all.extend(self.filter.iter().flat_map(Filter::parameters));
        all
    }
}

impl Answer for Edge {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        let (zone, client, server, port) = (reader.text()?, reader.ip()?, reader.ip()?, reader.u16()?);
        let via = via(reader.ip()?, reader.u16()?);
        let split = reader.u8()?;
        let of_all = OfAll {
            services: reader.text()?,
            request_bytes: reader.u64()?,
            response_bytes: reader.u64()?,
        };
        let mut client_end = EdgeEnd::read(reader)?;
        let mut server_end = EdgeEnd::read(reader)?;
        client_end.is_of_all = client_end.is_seen && split == SPLIT_BY_SERVER;
        server_end.is_of_all = server_end.is_seen && split == SPLIT_BY_CLIENT;
        Ok(Self {
            zone,
            client,
            server,
            port,
            via,
            client_end,
            server_end,
            of_all: (split > 0).then_some(of_all),
            request_bytes: reader.u64()?,
            response_bytes: reader.u64()?,
            opened: reader.u64()?,
            connections: reader.u64()?,
            first_s: reader.u32()?,
            last_s: reader.u32()?,
        })
    }
}

/// Returns what the client connected to; `None`: the server.
fn via(ip: IpAddr, port: u16) -> Option<(IpAddr, u16)> {
    (port > 0).then_some((ip, port))
}

impl Answer for EdgeEnd {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        let is_seen = reader.u8()? != 0;
        let (host, service) = (reader.text()?, reader.text()?);
        let (retrans_segs, failed, refused) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let limits = Limits {
            busy_ms: reader.u64()?,
            rwnd_limited_ms: reader.u64()?,
            sndbuf_limited_ms: reader.u64()?,
        };
        let (sum_us, count) = (reader.u64()?, reader.u64()?);
        Ok(Self {
            is_seen,
            is_of_all: false,
            host,
            service,
            retrans_segs,
            failed,
            refused,
            limits,
            rtt_us_mean: sum_us.checked_div(count).unwrap_or(0),
            rtt_us_p95: reader.u32()?,
            receive_queue_bytes: reader.u64()?,
            send_queue_bytes: reader.u64()?,
        })
    }
}

/// One end has several services: the client, or else the server.
const SPLIT_BY_CLIENT: u8 = 1;
const SPLIT_BY_SERVER: u8 = 2;

/// A row of an idle flow is at most this old: five minutes, and the interval in which it was sent.
pub(super) const LOOK_BACK_S: u64 = 360;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(days_ago: u64, table: &str, since_s: &str) {
        let now_s = 1_795_000_200;
        let question = edges_at(now_s - days_ago * 86_400, now_s, &Selection::default());
        assert!(
            question.sql.contains(&format!("FROM {table} AS r")),
            "{}",
            question.sql
        );
        assert_eq!(question.parameters[0].1, since_s);
    }

    #[test]
    fn time_is_looked_up_where_it_is_kept() {
        check(1, "flows", "1794913440");
        check(30, "flows_5m", "1792407900");
        check(300, "flows_1h", "1769076600");
    }

    #[test]
    fn condition_about_one_end_is_one_about_edges() {
        let range = TimeRange {
            since_s: 0,
            until_s: 1,
            now_s: 1,
        };
        let of = |text: &str| {
            let selection = Selection {
                filter: Some(Filter::parse(text).unwrap()),
                edges_max: 5,
            };
            edges(&range, &selection).sql
        };
        assert!(of("port = 80").contains("WHERE 1 AND (f.port = 80)\nGROUP BY"));
        assert!(of("host = a").contains("WHERE (client_host = {f0:String} OR"));
    }
}
