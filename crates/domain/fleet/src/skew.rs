//! How far the clock of each host is from those of the others, from pairs of hosts.

use crate::question::ClockPair;
use std::collections::{BTreeMap, HashMap};

/// The clock of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skew {
    /// Its clock minus that of most hosts that it is connected with, directly or by others, in milliseconds.
    pub ahead_ms: i64,
    /// The largest error.
    pub error_ms: u64,
}

/// Returns the skew of each host that exchanged data with another one. Of several ways from one host to another the one with the least error
/// counts; the median clock of all hosts that are connected is right.
#[must_use]
pub fn skews(pairs: &[ClockPair]) -> HashMap<String, Skew> {
    let mut near: BTreeMap<&str, Vec<(&str, i64, u64)>> = BTreeMap::new();
    for pair in pairs {
        let error_ms = pair.delay_ms.unsigned_abs().div_ceil(2).max(TICK_MS);
        let (client, server) = (pair.client.as_str(), pair.server.as_str());
        let of = |from, to, ahead_ms| (from, (to, ahead_ms, error_ms));
        for (from, edge) in [
            of(client, server, pair.server_ahead_ms),
            of(server, client, -pair.server_ahead_ms),
        ] {
            near.entry(from).or_default().push(edge);
        }
    }
    let mut all = HashMap::new();
    for host in near.keys() {
        if all.contains_key(*host) {
            continue;
        }
        let component = component_of(host, &near);
        let mut clocks: Vec<i64> = component.values().map(|(ahead_ms, _)| *ahead_ms).collect();
        clocks.sort_unstable();
        // Of two it is not known which is right: both are half of it away.
        let median_ms = clocks[(clocks.len() - 1) / 2].midpoint(clocks[clocks.len() / 2]);
        // Errors are those of the way to a host whose clock is the median.
        let right = component
            .iter()
            .min_by_key(|(host, (ahead_ms, _))| (ahead_ms.abs_diff(median_ms), **host));
        let from_right = right
            .map(|(host, _)| component_of(host, &near))
            .unwrap_or_default();
        for (host, (ahead_ms, _)) in component {
            let error_ms = from_right.get(host).map_or(0, |(_, error_ms)| *error_ms);
            let skew = Skew {
                ahead_ms: ahead_ms - median_ms,
                error_ms,
            };
            all.insert(host.to_owned(), skew);
        }
    }
    all
}

/// Returns all hosts that are connected with one: how far their clocks are ahead of its, and the error, by the way on which that is least.
fn component_of<'a>(
    first: &'a str,
    near: &BTreeMap<&'a str, Vec<(&'a str, i64, u64)>>,
) -> BTreeMap<&'a str, (i64, u64)> {
    let mut done: BTreeMap<&str, (i64, u64)> = BTreeMap::new();
    let mut open = std::collections::BinaryHeap::new();
    open.push(std::cmp::Reverse((0_u64, first, 0_i64)));
    while let Some(std::cmp::Reverse((error_ms, host, ahead_ms))) = open.pop() {
        if done.contains_key(host) {
            continue;
        }
        done.insert(host, (ahead_ms, error_ms));
        for (next, further_ms, more_ms) in near.get(host).into_iter().flatten() {
            open.push(std::cmp::Reverse((
                error_ms + more_ms,
                *next,
                ahead_ms + further_ms,
            )));
        }
    }
    done
}

/// The kernel's clock for the age of data ticks every 1 to 10 ms.
const TICK_MS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(client: &str, server: &str, server_ahead_ms: i64, delay_ms: i64) -> ClockPair {
        ClockPair {
            client: client.to_owned(),
            server: server.to_owned(),
            exchanges: 1,
            server_ahead_ms,
            delay_ms,
        }
    }

    #[track_caller]
    fn check(pairs: &[ClockPair], expected: &[(&str, i64, u64)]) {
        let mut found: Vec<_> = skews(pairs)
            .into_iter()
            .map(|(host, skew)| (host, skew.ahead_ms, skew.error_ms))
            .collect();
        found.sort();
        let expected: Vec<_> = expected
            .iter()
            .map(|(host, ahead_ms, error_ms)| ((*host).to_owned(), *ahead_ms, *error_ms))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn host_whose_clock_differs_from_the_others_is_named() {
        let pairs = [
            pair("a", "db", 5_000, 60),
            pair("b", "db", 5_004, 2),
            pair("c", "db", 5_000, 2),
            pair("a", "b", 0, 30),
        ];
        // That of db is known to a by b with less error than by itself. The median is between those of a and c.
        check(
            &pairs,
            &[("a", -2, 0), ("b", -2, 15), ("c", 2, 35), ("db", 5_002, 25)],
        );
    }

    #[test]
    fn two_hosts_are_apart_by_the_same_and_others_are_unknown() {
        check(&[pair("a", "b", -1_000, 4)], &[("a", 500, 0), ("b", -500, 10)]);
        check(&[], &[]);
    }

    #[test]
    fn hosts_that_are_not_connected_are_compared_with_their_own() {
        let pairs = [
            pair("a", "b", 0, 2),
            pair("x", "y", 100, 2),
            pair("x", "z", 100, 2),
        ];
        check(
            &pairs,
            &[
                ("a", 0, 0),
                ("b", 0, 10),
                ("x", -100, 10),
                ("y", 0, 0),
                ("z", 0, 20),
            ],
        );
    }
}
