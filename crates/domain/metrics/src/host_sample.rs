//! One sample of a host, filled socket by socket: listeners first, since they name services, then connections, then flows.

use crate::service_metrics::ListenerQueues;
use crate::{Counted, Service, ServiceNames, ServiceSample};
use sockeye_model::{Direction, Flow, NetnsInode, Port, Queues, Socket, State};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// A sample that is being filled.
pub struct HostSample<'a> {
    names: ServiceNames<'a>,
    /// Time since the sample before; `None` in the first one.
    interval: Option<Duration>,
    /// Service of each port, and what is known of it.
    samples: Vec<(Service, ServiceSample)>,
    places: HashMap<(Option<NetnsInode>, Direction, Option<Port>), usize>,
}

impl<'a> HostSample<'a> {
    /// Begins a sample.
    #[must_use]
    pub fn new(names: ServiceNames<'a>, interval: Option<Duration>) -> Self {
        Self {
            names,
            interval,
            samples: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Adds a listener with the name of its owner.
    pub fn listener(&mut self, socket: &Socket, owner: Option<&str>) {
        let Some(port) = socket.local.port() else {
            return;
        };
        if let Some(owner) = owner {
            self.names.add_listener(socket.netns, port, owner);
        }
        let (waiting, backlog) = match socket.queues {
            Queues::Accept { waiting, backlog } => (Some(waiting), backlog),
            _ => (None, None),
        };
        let sample = self.at(socket.netns, Direction::Passive, Some(port));
        let queues = sample.listeners.get_or_insert_default();
        queues.add(ListenerQueues::of(waiting, backlog));
    }

    /// Adds a connection request to a listener.
    pub fn request(&mut self, socket: &Socket) {
        let sample = self.at(socket.netns, Direction::Passive, socket.local.port());
        sample.listeners.get_or_insert_default().requests += 1;
        // Most have a state of the kernel's own, which is shown as this one.
        sample.states[usize::from(State::SynRecv.number())] += 1;
    }

    /// Adds a connection.
    pub fn connection(&mut self, socket: &Socket, direction: Direction) {
        let port = match direction {
            Direction::Passive => socket.local.port(),
            Direction::Active => socket.peer.port(),
        };
        let interval = self.interval;
        let sample = self.at(socket.netns, direction, port);
        if let Some(count) = sample.states.get_mut(usize::from(socket.state.number())) {
            *count += 1;
        }
        let Some(info) = socket
            .tcp_info
            .as_ref()
            .filter(|_| socket.state == State::Established)
        else {
            return;
        };
        // The time of a connection that is idle is an old one. Without a sample before, each is a first one.
        let is_new = match (interval, info.last_ack_recv_ms) {
            (Some(interval), Some(since_ms)) => Duration::from_millis(since_ms.into()) <= interval,
            _ => true,
        };
        if let Some(rtt_us) = info.rtt_us.filter(|_| is_new) {
            sample.rtt.observe(rtt_us);
        }
    }

    /// Adds what happened in a flow, grouped by port, in the interval of its rates.
    pub fn flow(&mut self, flow: &Flow, interval: Duration) {
        let key = &flow.key;
        let sample = self.at(key.netns, key.direction, key.port);
        if let Some(rates) = &flow.rates {
            sample.counted.add(&Counted::of_rates(rates, interval));
        }
    }

    /// Returns the services. `counts_changes`: the source of the sockets has what changes are computed from, so that a service without
    /// a change has none, instead of an unknown one.
    #[must_use]
    pub fn finish(self, counts_changes: bool) -> BTreeMap<Service, ServiceSample> {
        let mut services = BTreeMap::<Service, ServiceSample>::new();
        for (service, sample) in self.samples {
            services.entry(service).or_default().add(&sample);
        }
        if counts_changes {
            for sample in services.values_mut() {
                sample.counted.add(&Counted::ZERO);
            }
        }
        services
    }

    fn at(
        &mut self,
        netns: Option<NetnsInode>,
        direction: Direction,
        port: Option<Port>,
    ) -> &mut ServiceSample {
        let (names, samples) = (&self.names, &mut self.samples);
        let place = *self.places.entry((netns, direction, port)).or_insert_with(|| {
            let service = names.service(netns, direction, port);
            samples.push((service, ServiceSample::default()));
            samples.len() - 1
        });
        &mut self.samples[place].1
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use sockeye_model::{
        CgroupId, Endpoint, FlowKey, InterfaceIndex, Names, Protocol, Rates, TcpInfo, Uid, WorkloadId,
    };
    use std::net::IpAddr;

    /// Names of ports only.
    pub(crate) struct Ports;

    impl Names for Ports {
        fn interface(&self, _: InterfaceIndex, _: Option<NetnsInode>) -> Option<&str> {
            None
        }

        fn service(&self, _: Protocol, port: Port) -> Option<&str> {
            let names = [(443, "https"), (5432, "postgresql"), (7000, "bbs")];
            let named = names.into_iter().find(|(number, _)| *number == port.0);
            named.map(|(_, name)| name)
        }

        fn host(&self, _: IpAddr) -> Option<&str> {
            None
        }

        fn user(&self, _: Uid) -> Option<&str> {
            None
        }

        fn cgroup(&self, _: CgroupId) -> Option<&str> {
            None
        }

        fn netns(&self, _: NetnsInode) -> Option<&str> {
            None
        }

        fn workload(&self, _: WorkloadId) -> Option<&str> {
            None
        }
    }

    fn socket(state: State, local: u16, peer: u16) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, state);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(local));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(peer));
        socket
    }

    fn sample(interval_ms: Option<u64>) -> HostSample<'static> {
        let names = ServiceNames::new(&Ports, 32_768..=60_999);
        HostSample::new(names, interval_ms.map(Duration::from_millis))
    }

    fn with_rtt(rtt_us: u32, last_ack_recv_ms: u32) -> Socket {
        let mut socket = socket(State::Established, 80, 50_000);
        socket.tcp_info = Some(TcpInfo {
            rtt_us: Some(rtt_us),
            last_ack_recv_ms: Some(last_ack_recv_ms),
            ..TcpInfo::default()
        });
        socket
    }

    fn only(sample: HostSample<'_>) -> ServiceSample {
        let mut all = sample.finish(true).into_values();
        let first = all.next().unwrap();
        assert_eq!(all.next(), None);
        first
    }

    #[test]
    fn listeners_of_a_service_add_up() {
        let mut sample = sample(None);
        for (port, backlog) in [(80, 4), (8080, 128)] {
            let mut listener = socket(State::Listen, port, 0);
            listener.queues = Queues::Accept {
                waiting: 3,
                backlog: Some(backlog),
            };
            sample.listener(&listener, Some("nginx"));
            sample.connection(&socket(State::CloseWait, port, 50_000), Direction::Passive);
        }
        sample.request(&socket(State::SynRecv, 80, 50_001));
        let nginx = only(sample);
        let queues = ListenerQueues {
            listeners: 2,
            waiting: Some(6),
            backlog: Some(132),
            fullest: Some(0.75),
            requests: 1,
        };
        assert_eq!(nginx.listeners, Some(queues));
        let by_state: Vec<_> = nginx.by_state().filter(|(_, count)| *count > 0).collect();
        assert_eq!(by_state, [(State::SynRecv, 1), (State::CloseWait, 2)]);
        assert_eq!(nginx.counted, Counted::ZERO);
    }

    #[test]
    fn idle_connections_have_no_new_round_trip_time() {
        for (interval_ms, expected) in [(None, 2), (Some(10_000), 1)] {
            let mut sample = sample(interval_ms);
            for last_ack_recv_ms in [9_000, 11_000] {
                sample.connection(&with_rtt(700, last_ack_recv_ms), Direction::Passive);
            }
            assert_eq!(only(sample).rtt.count(), expected);
        }
    }

    #[test]
    fn changes_are_unknown_where_the_source_does_not_have_them() {
        for (counts_changes, expected) in [(true, Counted::ZERO), (false, Counted::default())] {
            let mut sample = sample(None);
            sample.connection(&socket(State::Established, 80, 50_000), Direction::Passive);
            let services = sample.finish(counts_changes);
            assert_eq!(services.into_values().next().unwrap().counted, expected);
        }
    }

    #[test]
    fn flows_of_a_service_add_up() {
        let mut sample = sample(None);
        for port in [50_000, 50_001] {
            let mut flow = Flow::new(FlowKey {
                netns: None,
                direction: Direction::Active,
                local: None,
                peer: None,
                peer_prefix: None,
                port: Some(Port(port)),
                process: None,
                uid: None,
                workload: None,
            });
            flow.rates = Some(Rates {
                sent_bytes_per_s: Some(500.0),
                ..Rates::default()
            });
            sample.flow(&flow, Duration::from_secs(2));
        }
        assert_eq!(only(sample).counted.sent_bytes, Some(2_000));
    }
}
