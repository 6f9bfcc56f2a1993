//! Connections that ended between two samples, as events of the kernel report them: those that no sample has, and what the others
//! transferred after the last sample that has them.

use super::{Changes, Fold, of_flow};
use crate::sample::{ConnectionId, Counters};
use sockeye_model::{Direction, Entry, FlowKey, GroupBy, Workload};

/// Which samples have a connection that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedIn {
    /// None: it lived between two.
    Neither,
    /// The one before: it has ended since then.
    Before,
    /// Already the one that is being folded: it ended after that was read, and counts for the next.
    Later,
    /// Unknown: the source gives connections no cookies.
    Unknown,
}

/// What is known of a connection that has ended, in addition to its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Whether it belongs to the flows.
    pub matches: bool,
    /// Whether it was opened since the last sample, if no sample has it.
    pub opened: bool,
    /// Its direction; `None`: the listeners decide, as for others. A listener may be gone by now.
    pub direction: Option<Direction>,
    /// How many of its acknowledged bytes are those of a SYN, which is no data. Samples count them as well.
    pub syn_bytes: u64,
}

impl Fold<'_> {
    /// Adds a connection that has ended, with its counters at the end in tcp_info. Call it after all connections of the sample were
    /// added.
    pub fn add_ended(&mut self, entry: &Entry<'_>, ended: Ended) -> EndedIn {
        let Ended {
            matches,
            opened,
            direction,
            syn_bytes,
        } = ended;
        let Some(sampler) = &mut self.rates else {
            return EndedIn::Unknown;
        };
        if sampler.lacks_cookies {
            return EndedIn::Unknown;
        }
        let mut counters = Counters::of(entry.socket.tcp_info.as_ref());
        if let Some(id) = ConnectionId::of(entry.socket) {
            if sampler.now.connections.contains_key(&id) {
                return EndedIn::Later;
            }
            let (before, _) = sampler.before.unzip();
            if let Some(then) = before.and_then(|before| before.connections.get(&id)) {
                sampler.ended.insert(id, counters.since((*then).into()));
                return EndedIn::Before;
            }
        }
        // Others of this port may be in TIME_WAIT when their listener has ended.
        if direction == Some(Direction::Passive)
            && let Some(port) = entry.socket.local.port()
            && self.servers.len() < SERVERS_MAX
        {
            self.servers.insert((entry.socket.netns, port));
        }
        // Without a sample before there is nothing that it could have happened since.
        if sampler.before.is_none() {
            return EndedIn::Neither;
        }
        let acked = &mut counters.bytes_acked;
        *acked = acked.map(|bytes| bytes.saturating_sub(syn_bytes));
        self.opened += u64::from(opened);
        if matches {
            self.visit_keys(entry, direction, &mut |fold, key| {
                let number = fold.flow_number(&key);
                let flow = &mut fold.flows[number as usize];
                for owner in entry.owners.unwrap_or_default() {
                    if key.process.is_none_or(|process| process == owner.process) {
                        fold.owners.add(number, &mut flow.first_owner, owner.process);
                    }
                }
                if let Some(sampler) = &mut fold.rates {
                    of_flow(&mut sampler.changes, number).add_short(counters, opened);
                }
            });
        }
        EndedIn::Neither
    }

    /// Calls `visit` with the keys of the flows that a connection belongs to, as [`Fold::add`] finds them.
    fn visit_keys(
        &mut self,
        entry: &Entry<'_>,
        direction: Option<Direction>,
        visit: &mut dyn FnMut(&mut Self, FlowKey),
    ) {
        let direction = direction.unwrap_or_else(|| self.direction(entry.socket));
        let key = self.key_of(entry.socket, direction);
        let mut keys = Vec::new();
        match self.group_by {
            GroupBy::Workload(kind) => {
                entry.visit_workloads(kind, &mut |id| {
                    let workload = Some(Workload { kind, id });
                    keys.push(FlowKey { workload, ..key });
                });
            }
            GroupBy::Process => {
                let owners = entry.owners.unwrap_or_default();
                keys.extend(
                    owners
                        .chunk_by(|a, b| a.process == b.process)
                        .map(|of_one| FlowKey {
                            process: Some(of_one[0].process),
                            ..key
                        }),
                );
            }
            _ => {}
        }
        if keys.is_empty() {
            keys.push(key);
        }
        for key in keys {
            visit(self, key);
        }
    }
}

/// Ports of servers that events show between two samples; more are decided as if no event had been seen.
const SERVERS_MAX: usize = 4_096;

impl Changes {
    fn add_short(&mut self, counters: Counters, opened: bool) {
        self.has_rates = true;
        self.counted += counters;
        self.opened += u32::from(opened);
        self.closed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Listeners, Sample};
    use sockeye_model::{
        Comm, Cookie, Endpoint, Fd, Owner, Pid, Port, Process, Protocol, Rates, Socket, State, TcpInfo,
    };
    use std::time::Duration;

    fn connection(cookie: u64, bytes: u64) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(40_000));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(80));
        socket.cookie = (cookie != 0).then_some(Cookie(cookie));
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: Some(bytes),
            bytes_received: Some(2 * bytes),
            total_retrans_segs: Some(0),
            ..TcpInfo::default()
        });
        socket
    }

    fn ended(matches: bool, opened: bool) -> Ended {
        Ended {
            matches,
            opened,
            direction: None,
            syn_bytes: 0,
        }
    }

    fn sample(listeners: &Listeners, sockets: &[Socket]) -> Sample {
        let mut fold = Fold::new(GroupBy::Host, listeners).with_rates(None);
        for socket in sockets {
            fold.add(&Entry::new(socket));
        }
        fold.finish().sample
    }

    fn rates(fold: Fold<'_>) -> (Vec<Rates>, u64) {
        let result = fold.finish();
        let flows = result.flows.iter();
        (
            flows.map(|flow| flow.rates.expect("rates")).collect(),
            result.opened,
        )
    }

    #[test]
    fn connection_that_no_sample_has_counts_whole() {
        let listeners = Listeners::default();
        let before = sample(&listeners, &[connection(1, 50)]);
        let mut fold =
            Fold::new(GroupBy::Host, &listeners).with_rates(Some((&before, Duration::from_secs(2))));
        fold.add(&Entry::new(&connection(1, 60)));
        for cookie in [0, 0, 7] {
            let mut socket = connection(cookie, 100);
            socket.tcp_info.as_mut().unwrap().bytes_acked = Some(101);
            let with_syn = Ended {
                syn_bytes: 1,
                ..ended(true, true)
            };
            assert_eq!(fold.add_ended(&Entry::new(&socket), with_syn), EndedIn::Neither);
        }
        // It does not match the filter, and is older than the watch.
        fold.add_ended(&Entry::new(&connection(0, 1_000_000)), ended(false, false));
        let (rates, opened) = rates(fold);
        assert_eq!((rates.len(), opened), (1, 3));
        assert_eq!(
            (rates[0].opened_per_s, rates[0].closed_per_s),
            (Some(1.5), Some(1.5))
        );
        assert_eq!(rates[0].sent_bytes_per_s, Some(155.0));
        assert_eq!(rates[0].received_bytes_per_s, Some(310.0));
    }

    #[test]
    fn connection_of_the_sample_before_adds_its_last_bytes() {
        let listeners = Listeners::default();
        let before = sample(&listeners, &[connection(1, 50)]);
        let mut fold =
            Fold::new(GroupBy::Host, &listeners).with_rates(Some((&before, Duration::from_secs(1))));
        let socket = connection(1, 80);
        assert_eq!(
            fold.add_ended(&Entry::new(&socket), ended(true, false)),
            EndedIn::Before
        );
        let (rates, opened) = rates(fold);
        assert_eq!((rates.len(), opened), (1, 0));
        assert_eq!(
            (rates[0].opened_per_s, rates[0].closed_per_s),
            (Some(0.0), Some(1.0))
        );
        assert_eq!(rates[0].sent_bytes_per_s, Some(30.0));
    }

    #[test]
    fn connection_that_ended_after_it_was_read_counts_next_time() {
        let listeners = Listeners::default();
        let before = sample(&listeners, &[]);
        let mut fold =
            Fold::new(GroupBy::Host, &listeners).with_rates(Some((&before, Duration::from_secs(1))));
        fold.add(&Entry::new(&connection(3, 10)));
        let socket = connection(3, 15);
        assert_eq!(
            fold.add_ended(&Entry::new(&socket), ended(true, true)),
            EndedIn::Later
        );
        let first = fold.finish();
        assert_eq!(first.opened, 1);
        let mut fold =
            Fold::new(GroupBy::Host, &listeners).with_rates(Some((&first.sample, Duration::from_secs(1))));
        assert_eq!(
            fold.add_ended(&Entry::new(&socket), ended(true, true)),
            EndedIn::Before
        );
        let (rates, opened) = rates(fold);
        assert_eq!((rates[0].sent_bytes_per_s, opened), (Some(5.0), 0));
    }

    #[test]
    fn direction_is_that_of_the_event() {
        let listeners = Listeners::default();
        let before = sample(&listeners, &[]);
        let mut fold =
            Fold::new(GroupBy::Host, &listeners).with_rates(Some((&before, Duration::from_secs(1))));
        for direction in [None, Some(Direction::Passive)] {
            let known = Ended {
                direction,
                ..ended(true, true)
            };
            fold.add_ended(&Entry::new(&connection(0, 10)), known);
        }
        let flows = fold.finish().flows;
        let ports: Vec<_> = flows.iter().map(|flow| flow.key.port).collect();
        assert_eq!(ports.len(), 2);
        assert!(ports.contains(&Some(Port(80))) && ports.contains(&Some(Port(40_000))));
    }

    #[test]
    fn port_of_a_passive_connection_is_that_of_a_server() {
        let listeners = Listeners::default();
        let before = sample(&listeners, &[]);
        let mut time_wait = connection(5, 0);
        time_wait.state = State::TimeWait;
        (time_wait.local, time_wait.peer) = (time_wait.peer, time_wait.local);
        time_wait.local = Endpoint::inet([10, 0, 0, 2].into(), Port(50_051));
        let mut ended_one = connection(0, 10);
        (ended_one.local, ended_one.peer) = (time_wait.local, time_wait.peer);
        for (direction, expected) in [
            (Some(Direction::Passive), Direction::Passive),
            (None, Direction::Active),
        ] {
            let mut fold = Fold::new(GroupBy::Host, &listeners)
                .with_ended_servers(32_768..=60_999)
                .with_rates(Some((&before, Duration::from_secs(1))));
            fold.add(&Entry::new(&time_wait));
            let known = Ended {
                direction,
                ..ended(true, true)
            };
            fold.add_ended(&Entry::new(&ended_one), known);
            let flows = fold.finish().flows;
            let with_connections = flows.iter().find(|flow| flow.connections > 0).unwrap();
            assert_eq!(with_connections.key.direction, expected);
        }
    }

    #[test]
    fn without_cookies_nothing_is_added() {
        let listeners = Listeners::default();
        let before = sample(&listeners, &[]);
        let mut fold =
            Fold::new(GroupBy::Host, &listeners).with_rates(Some((&before, Duration::from_secs(1))));
        fold.add(&Entry::new(&connection(0, 10)));
        let socket = connection(0, 10);
        assert_eq!(
            fold.add_ended(&Entry::new(&socket), ended(true, true)),
            EndedIn::Unknown
        );
        assert_eq!(fold.finish().opened, 0);
    }

    #[test]
    fn flow_of_short_connections_has_their_owners() {
        let listeners = Listeners::default();
        let before = sample(&listeners, &[]);
        let mut fold =
            Fold::new(GroupBy::Host, &listeners).with_rates(Some((&before, Duration::from_secs(1))));
        for pid in [9, 7, 9] {
            let owner = Owner {
                process: Process {
                    pid: Pid(pid),
                    pgid: None,
                    comm: Comm::new(b"curl"),
                },
                fd: Fd(0),
            };
            let socket = connection(0, 10);
            fold.add_ended(&Entry::with_owners(&socket, Some(&[owner])), ended(true, true));
        }
        let flows = fold.finish().flows;
        let pids: Vec<Vec<u32>> = flows
            .iter()
            .map(|flow| flow.owners.iter().map(|process| process.pid.0).collect())
            .collect();
        assert_eq!(pids, [[7, 9]]);
    }

    #[test]
    fn short_connection_belongs_to_the_process_that_had_it() {
        let listeners = Listeners::default();
        let before = sample(&listeners, &[]);
        let mut fold =
            Fold::new(GroupBy::Process, &listeners).with_rates(Some((&before, Duration::from_secs(1))));
        let owners = [7, 9].map(|pid| Owner {
            process: Process {
                pid: Pid(pid),
                pgid: None,
                comm: Comm::new(b"curl"),
            },
            fd: Fd(0),
        });
        let socket = connection(0, 10);
        fold.add_ended(&Entry::with_owners(&socket, Some(&owners)), ended(true, true));
        fold.add_ended(&Entry::new(&socket), ended(true, true));
        let flows = fold.finish().flows;
        for flow in flows.iter() {
            let of_key: Vec<_> = flow.key.process.into_iter().collect();
            assert_eq!(flow.owners, of_key);
        }
        let mut pids: Vec<_> = flows
            .iter()
            .map(|flow| flow.key.process.map(|process| process.pid.0))
            .collect();
        pids.sort_unstable();
        assert_eq!(pids, [None, Some(7), Some(9)]);
    }
}
