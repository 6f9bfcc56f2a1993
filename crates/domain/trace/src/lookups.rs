//! Name lookups that came before connections.
//!
//! Queries of one client for one name are one lookup, whatever their types and however often they are repeated. A
//! connection belongs to the lookup if its server's address was in the answer, and its SYN follows soon.

use foldhash::HashMap;
use sockeye_wire::packet::DnsMessage;
use std::collections::VecDeque;
use std::net::IpAddr;

/// The name lookup before a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameLookup {
    /// Name, in lower case
    pub name: String,
    /// Name server that was asked last
    pub server: IpAddr,
    /// From the first query to the last answer, or to the SYN if a query was not answered by then, in nanoseconds
    pub took_ns: u64,
    /// Queries that were sent
    pub queries: u32,
    /// Queries without an answer before the SYN
    pub unanswered: u32,
    /// Names with the same beginning that failed before this one, as a search list asks for them
    pub failed_names: u32,
    /// Type of the query that took longest: `A`, `AAAA`; `None` for other types
    pub slowest: Option<&'static str>,
}

/// Recent lookups.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// By client and name; at most [`LOOKUPS_MAX`]
    lookups: HashMap<(IpAddr, String), Lookup>,
    /// The oldest first; those with another number are forgotten
    order: VecDeque<((IpAddr, String), u64)>,
    /// Number of lookups so far
    begun: u64,
    /// Name of each address in the answers, by client
    names: HashMap<(IpAddr, IpAddr), String>,
    /// The last failed names of each client; at most [`FAILED_MAX`]
    failed: HashMap<IpAddr, FailedNames>,
}

/// Names that a client asked for one after the other, and that failed.
#[derive(Debug)]
struct FailedNames {
    /// The last of them
    name: String,
    began_ns: u64,
    last_ns: u64,
    names: u32,
    queries: u32,
}

#[derive(Debug)]
struct Lookup {
    number: u64,
    server: IpAddr,
    began_ns: u64,
    last_ns: u64,
    answered_ns: Option<u64>,
    queries: u32,
    /// Type, number, time of the first query with that type, and whether it is answered
    asked: Vec<(u16, u64, bool)>,
    unanswered: u32,
    slowest: (u64, u16),
    addresses: Vec<IpAddr>,
    /// Queries for failed names before, how many names, and when the first began
    before: (u32, u32, u64),
}

impl Lookups {
    /// Records a query or an answer.
    pub(crate) fn add(&mut self, time_ns: u64, message: DnsMessage) {
        let key = (message.client.0, message.name);
        let is_past = self.lookups.get(&key).is_some_and(|lookup| {
            let since_ns = time_ns.saturating_sub(lookup.last_ns);
            let is_over = since_ns > SAME_LOOKUP_NS;
            let is_next = !message.is_answer
                && since_ns > TOGETHER_NS
                && lookup.asked.iter().all(|(_, _, is_answered)| *is_answered);
            is_over || is_next
        });
        if is_past {
            self.forget(&key);
        }
        if !message.is_answer && !self.lookups.contains_key(&key) {
            self.begin(time_ns, key.clone(), message.server.0);
        }
        let Some(lookup) = self.lookups.get_mut(&key) else {
            return;
        };
        lookup.last_ns = time_ns;
        let asked = lookup.asked.iter_mut().find(|asked| asked.0 == message.kind);
        if message.is_answer {
            let since_ns = asked.as_ref().map_or(lookup.began_ns, |asked| asked.1);
            if let Some(asked) = asked {
                asked.2 = true;
            }
            let took_ns = time_ns.saturating_sub(since_ns);
            if took_ns >= lookup.slowest.0 {
                lookup.slowest = (took_ns, message.kind);
            }
            lookup.answered_ns = Some(time_ns);
            lookup.unanswered = lookup.unanswered.saturating_sub(1);
            let is_over = lookup.asked.iter().all(|(_, _, is_answered)| *is_answered);
            if message.code != 0 && is_over && lookup.addresses.is_empty() {
                let (queries, names, began_ns) = lookup.before;
                let failed = FailedNames {
                    name: key.1.clone(),
                    began_ns: began_ns.min(lookup.began_ns),
                    last_ns: time_ns,
                    names: names + 1,
                    queries: queries.saturating_add(lookup.queries),
                };
                if self.failed.len() >= FAILED_MAX && !self.failed.contains_key(&key.0) {
                    self.failed.clear();
                }
                self.failed.insert(key.0, failed);
            }
            for address in &message.addresses {
                if !lookup.addresses.contains(address) && lookup.addresses.len() < ADDRESSES_MAX {
                    lookup.addresses.push(*address);
                    self.names.insert((key.0, *address), key.1.clone());
                }
            }
            return;
        }
        lookup.server = message.server.0;
        lookup.queries = lookup.queries.saturating_add(1);
        lookup.unanswered = lookup.unanswered.saturating_add(1);
        if asked.is_none() && lookup.asked.len() < TYPES_MAX {
            lookup.asked.push((message.kind, time_ns, false));
        }
    }

    /// Whether no answer is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The lookup after which this client connects to this server now; `None` if there is none.
    pub(crate) fn before(&self, now_ns: u64, client: IpAddr, server: IpAddr) -> Option<NameLookup> {
        let name = self.names.get(&(client, server))?;
        let lookup = self.lookups.get(&(client, name.clone()))?;
        let waits = lookup.asked.iter().filter(|(_, _, is_answered)| !is_answered);
        let waiting = waits.min_by_key(|(_, since_ns, _)| *since_ns);
        let end_ns = if waiting.is_some() {
            now_ns
        } else {
            lookup.answered_ns?
        };
        let last_ns = lookup.last_ns;
        let soon_ns = if waiting.is_some() {
            SAME_LOOKUP_NS
        } else {
            SOON_NS
        };
        if now_ns < last_ns || now_ns - last_ns > soon_ns {
            return None;
        }
        let slowest = waiting.map_or(lookup.slowest.1, |(kind, _, _)| *kind);
        Some(NameLookup {
            name: name.clone(),
            server: lookup.server,
            took_ns: end_ns.saturating_sub(lookup.before.2.min(lookup.began_ns)),
            queries: lookup.queries.saturating_add(lookup.before.0),
            failed_names: lookup.before.1,
            unanswered: lookup.unanswered,
            slowest: match slowest {
                1 => Some("A"),
                28 => Some("AAAA"),
                _ => None,
            },
        })
    }

    /// Adds a lookup, if necessary in place of the oldest.
    fn begin(&mut self, time_ns: u64, key: (IpAddr, String), server: IpAddr) {
        while self.lookups.len() >= LOOKUPS_MAX
            && let Some((oldest, number)) = self.order.pop_front()
        {
            if self
                .lookups
                .get(&oldest)
                .is_some_and(|lookup| lookup.number == number)
            {
                self.forget(&oldest);
            }
        }
        if self.order.len() >= 2 * LOOKUPS_MAX {
            let lookups = &self.lookups;
            self.order
                .retain(|(key, number)| lookups.get(key).is_some_and(|lookup| lookup.number == *number));
        }
        let before = self
            .failed
            .get(&key.0)
            .filter(|failed| time_ns.saturating_sub(failed.last_ns) <= NEXT_NAME_NS)
            .filter(|failed| failed.name != key.1 && host_of(&failed.name) == host_of(&key.1))
            .map_or((0, 0, time_ns), |failed| {
                (failed.queries, failed.names, failed.began_ns)
            });
        let number = self.begun;
        self.begun += 1;
        self.order.push_back((key.clone(), number));
        let lookup = Lookup {
            number,
            server,
            began_ns: time_ns,
            last_ns: time_ns,
            answered_ns: None,
            queries: 0,
            asked: Vec::new(),
            unanswered: 0,
            slowest: (0, 0),
            addresses: Vec::new(),
            before,
        };
        self.lookups.insert(key, lookup);
    }

    fn forget(&mut self, key: &(IpAddr, String)) {
        if let Some(lookup) = self.lookups.remove(key) {
            for address in lookup.addresses {
                self.names.remove(&(key.0, address));
            }
        }
    }
}

/// The part of a name that a search list adds domains to.
fn host_of(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Clients whose failed names are kept.
const FAILED_MAX: usize = 1_024;

/// A resolver asks for the next name of a search list within this time.
const NEXT_NAME_NS: u64 = 500_000_000;

/// Lookups that are kept.
const LOOKUPS_MAX: usize = 4_096;

/// Addresses of one lookup that are kept.
const ADDRESSES_MAX: usize = 64;

/// Query types of one lookup that are kept.
const TYPES_MAX: usize = 8;

/// Messages with the same name further apart than this belong to different lookups: resolvers repeat after 5 s.
const SAME_LOOKUP_NS: u64 = 12_000_000_000;

/// Queries for A and AAAA are sent within this time.
const TOGETHER_NS: u64 = 100_000_000;

/// A connection that is caused by a lookup begins within this time.
const SOON_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const WEB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 80));

    fn message(kind: u16, answer: Option<&[IpAddr]>) -> DnsMessage {
        DnsMessage {
            client: (CLIENT, 5_000),
            server: ([10, 0, 0, 53].into(), 53),
            id: kind,
            is_answer: answer.is_some(),
            code: 0,
            name: "web.example".to_owned(),
            kind,
            addresses: answer.unwrap_or_default().to_vec(),
        }
    }

    fn lookups(messages: &[(u64, u16, Option<&[IpAddr]>)]) -> Lookups {
        let mut lookups = Lookups::default();
        for (ms, kind, answer) in messages {
            lookups.add(ms * MS, message(*kind, *answer));
        }
        lookups
    }

    #[test]
    fn lookup_lasts_until_its_last_answer() {
        let lookups = lookups(&[
            (0, 1, None),
            (1, 28, None),
            (20, 1, Some(&[WEB])),
            (4_000, 28, Some(&[])),
        ]);
        let found = lookups.before(4_010 * MS, CLIENT, WEB).unwrap();
        assert_eq!(
            (found.took_ns / MS, found.queries, found.unanswered),
            (4_000, 2, 0)
        );
        assert_eq!(found.slowest, Some("AAAA"));
        // Later connections use the cached answer.
        assert_eq!(lookups.before(6_000 * MS, CLIENT, WEB), None);
        assert_eq!(lookups.before(4_010 * MS, WEB, CLIENT), None);
    }

    #[test]
    fn repeated_query_counts_as_unanswered() {
        let lookups = lookups(&[(0, 1, None), (5_000, 1, None), (5_010, 1, Some(&[WEB]))]);
        let found = lookups.before(5_011 * MS, CLIENT, WEB).unwrap();
        assert_eq!(
            (found.took_ns / MS, found.queries, found.unanswered),
            (5_010, 2, 1)
        );
    }

    #[test]
    fn query_that_is_never_answered_lasts_until_the_connection() {
        let lookups = lookups(&[
            (0, 1, None),
            (0, 28, None),
            (10, 1, Some(&[WEB])),
            (5_000, 28, None),
        ]);
        let found = lookups.before(10_000 * MS, CLIENT, WEB).unwrap();
        assert_eq!((found.took_ns / MS, found.slowest), (10_000, Some("AAAA")));
    }

    #[test]
    fn failed_names_of_a_search_list_count() {
        let mut lookups = Lookups::default();
        for (number, domain) in ["corp.example", "eu.example", "example"].iter().enumerate() {
            let at_ns = number as u64 * 401 * MS;
            let query = DnsMessage {
                name: format!("db.{domain}"),
                ..message(1, None)
            };
            let answer = DnsMessage {
                code: 3,
                is_answer: true,
                ..query.clone()
            };
            lookups.add(at_ns, query);
            lookups.add(at_ns + 400 * MS, answer);
        }
        for (ms, answer) in [(1_203, None), (1_223, Some(&[WEB][..]))] {
            lookups.add(
                ms * MS,
                DnsMessage {
                    name: "db.example.org".to_owned(),
                    ..message(1, answer)
                },
            );
        }
        let found = lookups.before(1_224 * MS, CLIENT, WEB).unwrap();
        assert_eq!(
            (found.took_ns / MS, found.queries, found.failed_names),
            (1_223, 4, 3)
        );
    }

    #[test]
    fn new_query_for_a_known_name_is_a_new_lookup() {
        let lookups = lookups(&[
            (0, 1, None),
            (2_000, 1, Some(&[WEB])),
            (8_000, 1, None),
            (8_003, 1, Some(&[WEB])),
        ]);
        let found = lookups.before(8_004 * MS, CLIENT, WEB).unwrap();
        assert_eq!((found.took_ns / MS, found.queries), (3, 1));
    }

    #[test]
    fn lookups_are_bounded() {
        let mut lookups = Lookups::default();
        for number in 0..2 * LOOKUPS_MAX {
            let name = format!("{number}.example");
            let base = message(1, None);
            lookups.add(
                number as u64,
                DnsMessage {
                    name: name.clone(),
                    ..base.clone()
                },
            );
            lookups.add(
                number as u64,
                DnsMessage {
                    name,
                    is_answer: true,
                    addresses: vec![WEB],
                    ..base
                },
            );
        }
        assert_eq!(lookups.lookups.len(), LOOKUPS_MAX);
        assert_eq!(lookups.names.len(), 1);
    }

    #[test]
    fn repeated_lookups_are_bounded() {
        let mut lookups = Lookups::default();
        for number in 0..3 * LOOKUPS_MAX as u64 {
            lookups.add(number * 1_000 * MS, message(1, None));
            lookups.add(number * 1_000 * MS + MS, message(1, Some(&[WEB])));
        }
        assert!(lookups.order.len() <= 2 * LOOKUPS_MAX);
        assert_eq!((lookups.lookups.len(), lookups.names.len()), (1, 1));
    }
}
