//! Which part of an edge makes it slow: the client, the network, or the server.
//!
//! Evidence of one end is better than none, and called so: an edge that one end saw is judged by that end alone. So is one of several
//! between the same two addresses; what the other end saw of all of them is an edge of its own: [`edges_of_all`].

use crate::question::{AcceptQueue, Edge, EdgeEnd};
use sockeye_history::Limits;
use sockeye_model::counted;
use std::collections::BTreeSet;

/// What makes an edge slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The server does not accept, refuses, does not read, or has a small send buffer.
    Server,
    /// Segments or connects are lost on the way, or the way is longer than that of other clients.
    Network,
    /// The client does not read, or has a small send buffer.
    Client,
    /// Nothing is seen.
    None,
}

impl Cause {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Network => "network",
            Self::Client => "client",
            Self::None => "none",
        }
    }
}

/// The judgement of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    /// The first cause: the end that does not accept or read, before what follows from it.
    pub cause: Cause,
    /// What was seen, of all causes.
    pub evidence: String,
}

/// Returns what one end saw of several edges, where it does not know of which: as an edge of all services of the other end.
#[must_use]
pub fn edges_of_all(edges: &[Edge]) -> Vec<Edge> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for edge in edges {
        let Some(of_all) = &edge.of_all else {
            continue;
        };
        let is_measured = edge.client_end.is_of_all || edge.server_end.is_of_all;
        if !is_measured || !seen.insert((edge.zone.as_str(), edge.client, edge.server, edge.port)) {
            continue;
        }
        let end = |end: &EdgeEnd| {
            if end.is_of_all {
                EdgeEnd {
                    is_of_all: false,
                    ..end.clone()
                }
            } else {
                EdgeEnd {
                    host: end.host.clone(),
                    service: of_all.services.clone(),
                    ..EdgeEnd::default()
                }
            }
        };
        all.push(Edge {
            client_end: end(&edge.client_end),
            server_end: end(&edge.server_end),
            request_bytes: of_all.request_bytes,
            response_bytes: of_all.response_bytes,
            ..edge.clone()
        });
    }
    all
}

/// Returns an end without the figures that are those of other edges, too.
fn own(end: &EdgeEnd) -> EdgeEnd {
    if end.is_of_all {
        EdgeEnd {
            is_seen: end.is_seen,
            host: end.host.clone(),
            ..EdgeEnd::default()
        }
    } else {
        end.clone()
    }
}

/// Judges edges of one service, each by itself; their median round trip time is what one of them is compared with.
#[must_use]
pub fn blame(edges: &[Edge], queues: &[AcceptQueue]) -> Vec<Blame> {
    let edges: Vec<Edge> = edges
        .iter()
        .map(|edge| Edge {
            client_end: own(&edge.client_end),
            server_end: own(&edge.server_end),
            ..edge.clone()
        })
        .collect();
    let mut rtts: Vec<u64> = edges.iter().filter_map(rtt_us).collect();
    rtts.sort_unstable();
    let median_us = rtts.get(rtts.len().saturating_sub(1) / 2).copied();
    let judge = |edge: &Edge| {
        let mut found = Vec::new();
        let of_server = |queue: &&AcceptQueue| queue.host == edge.server_end.host && queue.port == edge.port;
        if let Some(queue) = queues.iter().find(of_server)
            && edge.server_end.is_seen
            && is_full(queue)
        {
            let AcceptQueue {
                waiting_max, backlog, ..
            } = queue;
            found.push((
                Cause::Server,
                format!("{waiting_max} connections wait to be accepted, {backlog} may"),
            ));
        }
        for (end, cause) in [
            (&edge.server_end, Cause::Server),
            (&edge.client_end, Cause::Client),
        ] {
            if end.receive_queue_bytes >= UNREAD_BYTES {
                found.push((
                    cause,
                    format!(
                        "the {} had {} bytes unread",
                        cause.name(),
                        end.receive_queue_bytes
                    ),
                ));
            }
        }
        // An end that is slow to read lets the window of the other one close; without a larger send buffer an end waits for itself.
        for (end, peer, own) in [
            (&edge.client_end, Cause::Server, Cause::Client),
            (&edge.server_end, Cause::Client, Cause::Server),
        ] {
            let Limits {
                busy_ms,
                rwnd_limited_ms,
                sndbuf_limited_ms,
            } = end.limits;
            if let Some(percent) = limited_percent(rwnd_limited_ms, busy_ms, edge) {
                let text = format!(
                    "the window of the {} held the {} back {percent}% of the time",
                    peer.name(),
                    own.name()
                );
                found.push((peer, text));
            }
            if let Some(percent) = limited_percent(sndbuf_limited_ms, busy_ms, edge) {
                let text = format!(
                    "the send buffer of the {} held it back {percent}% of the time",
                    own.name()
                );
                found.push((own, text));
            }
        }
        let EdgeEnd { failed, refused, .. } = edge.client_end;
        if refused > 0 {
            found.push((
                Cause::Server,
                format!("the server refused {}", counted(refused, "connect")),
            ));
        }
        if failed > refused {
            let unanswered = failed - refused;
            found.push((
                Cause::Network,
                format!("{} got no answer", counted(unanswered, "connect")),
            ));
        }
        for (end, bytes, name) in [
            (&edge.client_end, edge.request_bytes, "client"),
            (&edge.server_end, edge.response_bytes, "server"),
        ] {
            if let Some(percent) = lost_percent(end, bytes) {
                found.push((
                    Cause::Network,
                    format!(
                        "the {name} retransmitted {}, {percent}% of what it sent",
                        counted(end.retrans_segs, "segment")
                    ),
                ));
            }
        }
        if let Some((rtt_us, median_us)) = rtt_us(edge).zip(median_us)
            && rtt_us >= RTT_US_MIN
            && rtt_us >= median_us * RTT_FACTOR
        {
            found.push((
                Cause::Network,
                format!(
                    "round trips take {} ms, {} ms of most edges",
                    rtt_us / 1_000,
                    median_us / 1_000
                ),
            ));
        }
        found.sort_by_key(|(cause, _)| *cause);
        let evidence: Vec<_> = found.iter().map(|(_, text)| text.as_str()).collect();
        Blame {
            cause: found.first().map_or(Cause::None, |(cause, _)| *cause),
            evidence: evidence.join("; "),
        }
    };
    edges.iter().map(judge).collect()
}

/// Returns the mean round trip time: that of the client, which waits for it.
fn rtt_us(edge: &Edge) -> Option<u64> {
    let of_ends = [edge.client_end.rtt_us_mean, edge.server_end.rtt_us_mean];
    of_ends.into_iter().find(|us| *us > 0)
}

/// Whether at least half of a queue was in use.
const fn is_full(queue: &AcceptQueue) -> bool {
    queue.backlog > 0 && queue.waiting_max >= queue.backlog.div_ceil(2)
}

/// Returns the share of segments that an end sent again, if it is worth a word. The number of all is an estimate: of full ones.
fn lost_percent(end: &EdgeEnd, sent_bytes: u64) -> Option<u64> {
    let sent_segs = sent_bytes / SEGMENT_BYTES + end.retrans_segs;
    if end.retrans_segs < RETRANS_SEGS_MIN {
        return None;
    }
    let percent = end.retrans_segs * 100 / sent_segs.max(1);
    (percent >= RETRANS_PERCENT_MIN).then_some(percent)
}

/// Returns the share of the time with data to send in which an end was held back, if it is worth a word: of the intervals in which it was,
/// and if it is not only a moment of all.
fn limited_percent(limited_ms: u64, busy_ms: u64, edge: &Edge) -> Option<u64> {
    let span_ms = u64::from(edge.last_s - edge.first_s.min(edge.last_s)) * 1_000;
    if limited_ms < LIMITED_MS_MIN || limited_ms * 100 < span_ms {
        return None;
    }
    let percent = limited_ms * 100 / busy_ms.max(1);
    (percent >= LIMITED_PERCENT_MIN).then_some(percent)
}

/// Less time is no evidence.
const LIMITED_MS_MIN: u64 = 250;
const LIMITED_PERCENT_MIN: u64 = 25;
/// Bytes that a program that reads does not leave.
const UNREAD_BYTES: u64 = 64 << 10;
/// Fewer retransmissions are no evidence.
const RETRANS_SEGS_MIN: u64 = 10;
const RETRANS_PERCENT_MIN: u64 = 1;
/// Bytes of a full segment on Ethernet.
const SEGMENT_BYTES: u64 = 1_448;
/// A shorter round trip is not slow.
const RTT_US_MIN: u64 = 10_000;
/// How many times longer than most.
const RTT_FACTOR: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::OfAll;

    fn end(host: &str, rtt_us_mean: u64) -> EdgeEnd {
        EdgeEnd {
            is_seen: true,
            host: host.to_owned(),
            rtt_us_mean,
            ..EdgeEnd::default()
        }
    }

    fn edge(client: u8, rtt_us: u64) -> Edge {
        Edge {
            zone: String::new(),
            client: [10, 0, 0, client].into(),
            server: [10, 0, 1, 1].into(),
            port: 443,
            via: None,
            of_all: None,
            client_end: end("web1", rtt_us),
            server_end: end("db1", 0),
            request_bytes: 1_448_000,
            response_bytes: 14_480_000,
            opened: 1,
            connections: 1,
            first_s: 0,
            last_s: 0,
        }
    }

    fn queue(waiting_max: u32) -> AcceptQueue {
        AcceptQueue {
            host: "db1".to_owned(),
            port: 443,
            waiting_max,
            backlog: 128,
            intervals: 1,
        }
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Edge), waiting_max: u32, cause: Cause, evidence: &str) {
        let mut edges = vec![edge(1, 1_000), edge(2, 1_100), edge(3, 900)];
        change(&mut edges[1]);
        let judged = blame(&edges, &[queue(waiting_max)]);
        assert_eq!(judged[1].cause, cause, "{judged:?}");
        assert!(judged[1].evidence.contains(evidence), "{judged:?}");
    }

    #[test]
    fn end_that_does_not_read_or_accept_is_named() {
        check(|_| {}, 0, Cause::None, "");
        check(|_| {}, 63, Cause::None, "");
        check(|_| {}, 64, Cause::Server, "64 connections wait");
        check(
            |edge| edge.client_end.receive_queue_bytes = 70_000,
            0,
            Cause::Client,
            "70000 bytes unread",
        );
        check(
            |edge| edge.server_end.receive_queue_bytes = 70_000,
            0,
            Cause::Server,
            "70000 bytes unread",
        );
    }

    #[test]
    fn losses_and_long_ways_are_the_network() {
        check(
            |edge| edge.server_end.retrans_segs = 200,
            0,
            Cause::Network,
            "the server retransmitted 200",
        );
        check(|edge| edge.server_end.retrans_segs = 50, 0, Cause::None, "");
        check(|edge| edge.client_end.retrans_segs = 9, 0, Cause::None, "");
        check(
            |edge| edge.client_end.rtt_us_mean = 30_000,
            0,
            Cause::Network,
            "30 ms, 1 ms of most",
        );
        // Three times as long, and short.
        check(|edge| edge.client_end.rtt_us_mean = 5_000, 0, Cause::None, "");
    }

    #[test]
    fn end_that_holds_the_other_back_is_named() {
        let limits = |busy_ms: u64, rwnd_limited_ms: u64, sndbuf_limited_ms: u64| Limits {
            busy_ms,
            rwnd_limited_ms,
            sndbuf_limited_ms,
        };
        let client = |limits: Limits| move |edge: &mut Edge| edge.client_end.limits = limits;
        let server = |limits: Limits| move |edge: &mut Edge| edge.server_end.limits = limits;
        let of_server = "the window of the server held the client back 25%";
        check(client(limits(1_000, 250, 0)), 0, Cause::Server, of_server);
        check(client(limits(1_000, 240, 0)), 0, Cause::None, "");
        check(client(limits(240, 240, 0)), 0, Cause::None, "");
        let long = |edge: &mut Edge| {
            edge.client_end.limits = limits(1_000, 900, 0);
            edge.last_s = 120;
        };
        check(long, 0, Cause::None, "");
        let of_client = "the window of the client held the server back 90%";
        check(server(limits(1_000, 900, 0)), 0, Cause::Client, of_client);
        let buffer = "the send buffer of the server held it back 50%";
        check(server(limits(1_000, 0, 500)), 0, Cause::Server, buffer);
    }

    #[test]
    fn failed_connects_are_those_of_server_or_network() {
        let failed = |failed, refused| {
            move |edge: &mut Edge| (edge.client_end.failed, edge.client_end.refused) = (failed, refused)
        };
        check(failed(3, 3), 0, Cause::Server, "the server refused 3 connects");
        check(failed(3, 0), 0, Cause::Network, "3 connects got no answer");
        check(
            failed(3, 2),
            0,
            Cause::Server,
            "refused 2 connects; 1 connect got no answer",
        );
    }

    #[test]
    fn figures_of_all_services_of_a_client_are_those_of_none_of_them() {
        let part = |service: &str, unread: u64| {
            let mut part = edge(1, 1_000);
            part.of_all = Some(OfAll {
                services: "app, idler".to_owned(),
                request_bytes: 5,
                response_bytes: 6,
            });
            part.client_end.service = service.to_owned();
            part.client_end.receive_queue_bytes = unread;
            part.server_end.is_of_all = true;
            part.server_end.limits = Limits {
                busy_ms: 1_000,
                rwnd_limited_ms: 900,
                sndbuf_limited_ms: 0,
            };
            part
        };
        let mut edges = vec![part("app", 0), part("idler", 100_000), edge(2, 1_000)];
        edges.extend(edges_of_all(&edges));
        let judged: Vec<_> = edges
            .iter()
            .zip(blame(&edges, &[]))
            .map(|(edge, blame)| (edge.client_end.service.as_str(), blame.cause, blame.evidence))
            .collect();
        let held = "the window of the client held the server back 90% of the time".to_owned();
        assert_eq!(
            judged,
            [
                ("app", Cause::None, String::new()),
                (
                    "idler",
                    Cause::Client,
                    "the client had 100000 bytes unread".to_owned()
                ),
                ("", Cause::None, String::new()),
                ("app, idler", Cause::Client, held),
            ]
        );
        assert_eq!((edges[3].request_bytes, edges[3].response_bytes), (5, 6));
    }

    #[test]
    fn cause_comes_before_what_follows_from_it() {
        check(
            |edge| {
                edge.server_end.receive_queue_bytes = 1 << 20;
                edge.client_end.retrans_segs = 500;
            },
            0,
            Cause::Server,
            "unread; the client retransmitted 500",
        );
    }
}
