//! What an expression says of a flow: of many connections at once, of which only the common properties are known.

use crate::expr::{Host, Side, Test, TextField};
use crate::field::Field;
use crate::filter::evaluate;
use crate::{Filter, PeerClass, eval};
use sockeye_model::{Direction, Family, Flow, Process, Protocol, State, StateSet};
use std::net::IpAddr;

impl Filter {
    /// Returns whether the connections of a flow match; `None` if some do and others do not, or the flow does not have what
    /// the expression tests: the round trip time of each connection, for example.
    #[must_use]
    pub fn matches_flow(&self, flow: &Flow, protocol: Protocol) -> Option<bool> {
        let family = self
            .confined_to
            .map_or(Some(true), |family| is_of_family(flow, family));
        and(
            family,
            evaluate(self.expr(), &|test| of_test(test, flow, protocol)),
        )
    }
}

/// Returns whether both hold.
const fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn of_test(test: &Test, flow: &Flow, protocol: Protocol) -> Option<bool> {
    let key = &flow.key;
    match test {
        Test::State(states) => of_states(*states, flow),
        Test::Port(side, ports) => port_of(flow, *side).map(|port| ports.contains(port)),
        Test::Host(host) => of_host(host, flow),
        Test::Number(Field::Netns, compare, expected) => {
            key.netns.map(|netns| compare.holds(netns.0.into(), *expected))
        }
        Test::Number(Field::Uid, compare, expected) => {
            key.uid.map(|uid| compare.holds(uid.0.into(), *expected))
        }
        Test::Number(Field::Pid, compare, expected) => of_owners(flow, compare.is_negated(), |process| {
            compare.positive().holds(process.pid.0.into(), *expected)
        }),
        Test::Number(Field::Pgid, compare, expected) => of_owners(flow, compare.is_negated(), |process| {
            let pgid = process.pgid;
            pgid.is_some_and(|pgid| compare.positive().holds(pgid.0.into(), *expected))
        }),
        Test::Text {
            field: TextField::Owner,
            negated,
            like,
            value,
        } => of_owners(flow, *negated, |process| {
            eval::text_matches(process.comm.as_bytes(), value.as_bytes(), *like, eval::COMM_LEN)
        }),
        Test::Protocol(protocols) => Some(protocols.contains(protocol)),
        Test::Family(family) => is_of_family(flow, *family),
        Test::Peers(classes) => {
            let class = PeerClass::of(key.peer.filter(|_| key.peer_prefix.is_none())?);
            Some(class.is_some_and(|class| class.bit() & classes != 0))
        }
        Test::Unix { .. } | Test::Netlink { .. } | Test::Packet { .. } | Test::Vsock { .. } => Some(false),
        _ => None,
    }
}

/// Whether all connections are in these states, or none.
fn of_states(states: StateSet, flow: &Flow) -> Option<bool> {
    let in_states = State::ALL.into_iter().filter(|state| states.contains(*state));
    let matching: u32 = in_states.map(|state| flow.in_state(state)).sum();
    match matching {
        0 => Some(false),
        all if all == flow.connections => Some(true),
        _ => None,
    }
}

/// Whether all owners match, or none: of a flow with several, which connection has which is unknown.
fn of_owners(flow: &Flow, negated: bool, matches: impl Fn(&Process) -> bool) -> Option<bool> {
    let matching = flow.owners.iter().filter(|process| matches(process)).count();
    match matching {
        // Without owners both a condition and its negation are false.
        0 => Some(negated && !flow.owners.is_empty()),
        all if all == flow.owners.len() => Some(!negated),
        _ => None,
    }
}

fn of_host(host: &Host, flow: &Flow) -> Option<bool> {
    let ip = match host.side {
        Side::Source => flow.key.local,
        Side::Destination => flow.key.peer.filter(|_| flow.key.peer_prefix.is_none()),
    };
    let parts = [
        host.ports
            .map(|ports| port_of(flow, host.side).map(|port| ports.contains(port))),
        host.family.map(|family| is_of_family(flow, family.into())),
        host.net.map(|net| ip.map(|ip| net.contains(ip))),
    ];
    parts.into_iter().flatten().fold(Some(true), and)
}

/// Returns the port of one side, if it is that of the service: the others differ.
fn port_of(flow: &Flow, side: Side) -> Option<u16> {
    let direction = match side {
        Side::Source => Direction::Passive,
        Side::Destination => Direction::Active,
    };
    flow.key.port_of(direction).map(|port| port.0)
}

/// IPv4 addresses may be those of IPv6 sockets: flows do not have the difference.
fn is_of_family(flow: &Flow, family: Family) -> Option<bool> {
    let address = flow.key.local.or(flow.key.peer);
    match (family, address) {
        (Family::Inet, Some(IpAddr::V6(_))) => Some(false),
        (Family::Inet6, Some(IpAddr::V6(_))) => Some(true),
        (Family::Inet | Family::Inet6, _) => None,
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use crate::{NoResolve, parse};
    use sockeye_model::{Comm, Direction, Flow, FlowKey, NetnsInode, Pid, Port, Process, Protocol, State};

    fn process(pid: u32, name: &str) -> Process {
        Process {
            pid: Pid(pid),
            pgid: None,
            comm: Comm::new(name.as_bytes()),
        }
    }

    fn flow() -> Flow {
        let mut flow = Flow::new(FlowKey {
            netns: Some(NetnsInode(7)),
            direction: Direction::Active,
            local: Some([10, 0, 0, 1].into()),
            peer: Some([10, 0, 0, 9].into()),
            peer_prefix: None,
            port: Some(Port(5432)),
            process: None,
            uid: None,
            workload: None,
        });
        flow.connections = 3;
        flow.states[usize::from(State::Established.number())] = 3;
        flow.owners = vec![process(12, "web"), process(13, "web")];
        flow
    }

    #[track_caller]
    fn check(flow: &Flow, text: &str, expected: Option<bool>) {
        let filter = parse(text, &NoResolve).unwrap();
        assert_eq!(filter.matches_flow(flow, Protocol::Tcp), expected, "{text}");
    }

    #[test]
    fn common_properties_decide() {
        let flow = flow();
        for (text, expected) in [
            ("", true),
            ("dport = :5432", true),
            ("dport = :5432 and dst 10.0.0.0/8", true),
            ("dst 10.0.0.9:5433", false),
            ("src 10.0.0.1", true),
            ("not src 10.0.0.1", false),
            ("owner = web", true),
            ("owner != web", false),
            ("owner ~ db", false),
            ("pid > 11", true),
            ("netns = 7", true),
            ("peers = private", true),
            ("proto = udp", false),
            ("state established", true),
            ("state time-wait", false),
            ("family = unix", false),
        ] {
            check(&flow, text, Some(expected));
        }
    }

    #[test]
    fn what_differs_between_connections_is_unknown() {
        let mut flow = flow();
        flow.states[usize::from(State::Established.number())] = 2;
        flow.states[usize::from(State::CloseWait.number())] = 1;
        for text in [
            "sport = :40000",
            "rtt > 50ms",
            "not rtt > 50ms",
            "state established",
            "pid = 12",
            "family = inet",
            "dport = :5432 and idle > 1m",
        ] {
            check(&flow, text, None);
        }
        // One part decides.
        check(&flow, "dport = :80 and idle > 1m", Some(false));
        check(&flow, "dport = :5432 or idle > 1m", Some(true));
    }

    #[test]
    fn passive_flow_has_its_port_here() {
        let mut flow = flow();
        flow.key.direction = Direction::Passive;
        check(&flow, "sport = :5432", Some(true));
        check(&flow, "dport = :5432", None);
        flow.owners.clear();
        check(&flow, "owner = web", Some(false));
        check(&flow, "owner != web", Some(false));
    }
}
