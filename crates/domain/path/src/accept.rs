//! How long connections wait in accept queues.

use crate::fold::{HopFold, Reading};
use crate::hop::{Direction, HopKey, HopKind};
use crate::part::{Fill, Part};
use crate::report::Hop;
use sockeye_model::Comm;
use sockeye_wire::path::Accepted;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Collects the waits of connections.
#[derive(Debug, Clone, Default)]
pub struct AcceptFold {
    /// By network namespace and local end.
    queues: BTreeMap<(u32, SocketAddr), HopFold>,
    unlisted: u64,
}

impl AcceptFold {
    /// Adds a connection that was accepted, or closed while it waited.
    pub fn add(&mut self, accepted: &Accepted) {
        let key = (accepted.netns, accepted.local);
        if self.queues.len() >= QUEUES_MAX && !self.queues.contains_key(&key) {
            self.unlisted += 1;
            return;
        }
        let queue = self.queues.entry(key).or_default();
        if accepted.is_closed {
            queue.drop_one(CLOSED);
            return;
        }
        queue.stay(accepted.established_ns, accepted.end_ns);
        queue.read(&Reading {
            pid: accepted.reader,
            comm: Comm::from_c(&accepted.comm),
            waited_ns: None,
            from_ns: accepted.established_ns,
            read_ns: accepted.end_ns,
            is_sampled: false,
            is_stream: false,
        });
    }

    /// Returns the number of connections to local ends beyond those that are kept.
    #[must_use]
    pub const fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// Returns a row for each listener to which connections were made, or in whose queue some were seen.
    pub(crate) fn rows(&self, listeners: &BTreeMap<Part, Fill>) -> Vec<Hop> {
        let used = listeners.iter().filter(|(_, fill)| fill.max > 0);
        let mut rows: BTreeMap<Part, (Fill, HopFold)> = used
            .map(|(part, fill)| (*part, (*fill, HopFold::default())))
            .collect();
        for ((netns, local), queue) in &self.queues {
            let part = listener_of(*netns, *local, listeners.keys()).unwrap_or(Part::Listener {
                local: *local,
                netns: Some(*netns),
                limit: None,
            });
            let fill = listeners.get(&part).copied().unwrap_or_default();
            let row = rows.entry(part).or_insert_with(|| (fill, HopFold::default()));
            row.1.merge(queue);
        }
        rows.into_iter()
            .map(|(part, (fill, queue))| {
                let hop = queue.finish(HopKey {
                    direction: Direction::In,
                    kind: HopKind::Accept,
                    device: None,
                });
                // A connection leaves the queue before the call that accepts it returns: by the times more can be there than fit.
                let most = match part {
                    Part::Listener {
                        limit: Some(limit), ..
                    } => u64::from(limit) + 1,
                    _ => u64::MAX,
                };
                Hop {
                    part: Some(part),
                    queued_now: fill.now,
                    queued_max: fill.max.max(hop.queued_max.min(most)),
                    ..hop
                }
            })
            .collect()
    }
}

/// Returns the listener that has taken a connection with this local end: that of the address rather than one of any address.
fn listener_of<'a>(netns: u32, end: SocketAddr, listeners: impl Iterator<Item = &'a Part>) -> Option<Part> {
    let rank = |part: &Part| match part {
        Part::Listener {
            local, netns: where_, ..
        } if local.port() == end.port() && where_.is_none_or(|inode| inode == netns) => {
            match (local.ip(), end.ip()) {
                (listening, connected) if listening == connected => Some(2),
                (IpAddr::V4(any), IpAddr::V4(_)) if any.is_unspecified() => Some(1),
                (IpAddr::V6(any), _) if any.is_unspecified() => Some(0),
                _ => None,
            }
        }
        _ => None,
    };
    listeners
        .filter_map(|part| Some((rank(part)?, *part)))
        .max()
        .map(|(_, part)| part)
}

/// The reason of a connection that was closed before it was accepted.
const CLOSED: &str = "closed before it was accepted";

/// Most local ends: each has histograms, of 300 KB and more.
const QUEUES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::PathReport;
    use sockeye_measure::Histogram;

    fn accepted(local: &str, established_ns: u64, end_ns: u64, is_closed: bool) -> Accepted {
        Accepted {
            netns: 1,
            local: local.parse().unwrap(),
            peer: "10.0.0.9:5000".parse().unwrap(),
            established_ns,
            end_ns,
            reader: Some(7),
            comm: *b"web\0\0\0\0\0\0\0\0\0\0\0\0\0",
            is_closed,
        }
    }

    fn listener(local: &str, netns: Option<u32>) -> Part {
        Part::Listener {
            local: local.parse().unwrap(),
            netns,
            limit: Some(5),
        }
    }

    #[test]
    fn waits_of_all_addresses_are_in_the_row_of_their_listener() {
        let mut fold = AcceptFold::default();
        fold.add(&accepted("10.0.0.1:80", 100, 1_100, false));
        fold.add(&accepted("10.0.0.2:80", 200, 2_200, false));
        fold.add(&accepted("10.0.0.2:80", 300, 400, true));
        fold.add(&accepted("10.0.0.1:81", 300, 400, false));
        let fill = Fill { now: 0, max: 1 };
        let listeners = BTreeMap::from([
            (listener("0.0.0.0:80", Some(1)), fill),
            (listener("0.0.0.0:80", Some(2)), Fill::default()),
            (listener("[::]:80", Some(1)), Fill::default()),
        ]);
        let rows = fold.rows(&listeners);
        let parts: Vec<_> = rows.iter().map(|hop| hop.part.unwrap()).collect();
        let other = Part::Listener {
            local: "10.0.0.1:81".parse().unwrap(),
            netns: Some(1),
            limit: None,
        };
        assert_eq!(parts, [listener("0.0.0.0:80", Some(1)), other]);
        let hop = &rows[0];
        assert_eq!((hop.packets, hop.total_ns, hop.dropped()), (2, 3_000, 1));
        assert_eq!((hop.queued_max, hop.delays.max()), (2, Some(2_000)));
        assert_eq!(hop.readers[0].packets, 2);
        assert!(hop.is_timed() && hop.delays.percentile(Histogram::P50).is_some());
    }

    #[test]
    fn listener_of_the_address_comes_before_one_of_any() {
        let listeners = [
            listener("[::]:80", None),
            listener("0.0.0.0:80", None),
            listener("10.0.0.1:80", None),
        ];
        let found = |end: &str| listener_of(1, end.parse().unwrap(), listeners.iter());
        assert_eq!(found("10.0.0.1:80"), Some(listeners[2]));
        assert_eq!(found("10.0.0.2:80"), Some(listeners[1]));
        assert_eq!(found("[fd00::1]:80"), Some(listeners[0]));
        assert_eq!(found("10.0.0.1:81"), None);
    }

    #[test]
    fn full_queue_is_said_in_words() {
        let texts = |max| {
            let listeners = BTreeMap::from([(listener("10.0.0.1:80", Some(1)), Fill { now: 1, max })]);
            let report = PathReport {
                hops: AcceptFold::default().rows(&listeners),
                ..PathReport::default()
            };
            let sentences = report.sentences().into_iter();
            sentences.map(|sentence| sentence.text).collect::<Vec<_>>()
        };
        assert_eq!(texts(5), [""; 0]);
        assert!(texts(6)[0].starts_with("The accept queue of 10.0.0.1:80 was full (6 of 5): "));
    }

    #[test]
    fn late_accepts_come_before_shorter_times() {
        let mut fold = AcceptFold::default();
        fold.add(&accepted("10.0.0.1:80", 0, 400_000_000, false));
        let mut report = PathReport {
            hops: fold.rows(&BTreeMap::new()),
            ..PathReport::default()
        };
        let mut socket = report.hops[0].clone();
        (socket.key.kind, socket.part) = (HopKind::Socket, None);
        (socket.total_ns, socket.weight_ns) = (9_000, 9_000);
        report.hops.insert(0, socket);
        let codes = |report: &PathReport| report.sentences().iter().map(|one| one.code).collect::<Vec<_>>();
        assert_eq!(codes(&report), ["accept-queue", "longest-hop"]);
        (report.hops[0].total_ns, report.hops[0].weight_ns) = (u64::MAX / 2, u64::MAX / 2);
        assert_eq!(codes(&report), ["longest-hop", "accept-queue"]);
    }

    #[test]
    fn no_more_wait_than_fit() {
        let mut fold = AcceptFold::default();
        for nth in 0..9 {
            fold.add(&accepted("10.0.0.1:80", nth, 1_000, false));
        }
        let listeners = BTreeMap::from([(listener("10.0.0.1:80", Some(1)), Fill::default())]);
        assert_eq!(fold.rows(&listeners)[0].queued_max, 6);
    }

    #[test]
    fn connections_beyond_the_bound_are_counted() {
        let mut fold = AcceptFold::default();
        for port in 1..=QUEUES_MAX + 2 {
            fold.add(&accepted(&format!("10.0.0.1:{port}"), 1, 2, false));
        }
        assert_eq!((fold.queues.len(), fold.unlisted()), (QUEUES_MAX, 2));
    }
}
