//! What a service is called.

use sockeye_model::{Direction, Names, NetnsInode, Port, Protocol};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// A service that is offered here, or that is used from here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    /// Passive: it is offered here.
    pub direction: Direction,
    /// The owner of its listener, or its port.
    pub name: Box<str>,
}

impl Service {
    /// The service of connections that have none of their own.
    #[must_use]
    pub fn other(direction: Direction) -> Self {
        Self {
            direction,
            name: OTHER.into(),
        }
    }

    /// Returns whether it is that of connections without one of their own.
    #[must_use]
    pub fn is_other(&self) -> bool {
        &*self.name == OTHER
    }

    /// Returns the word for its direction.
    #[must_use]
    pub const fn direction_name(&self) -> &'static str {
        match self.direction {
            Direction::Active => "active",
            Direction::Passive => "passive",
        }
    }
}

/// Names of services by their ports.
pub struct ServiceNames<'a> {
    ports: &'a dyn Names,
    ephemeral: RangeInclusive<u16>,
    listeners: HashMap<(Option<NetnsInode>, Port), Box<str>>,
}

impl<'a> ServiceNames<'a> {
    /// Names ports by `ports`. Those in `ephemeral` have no name: they would be different ones each day.
    #[must_use]
    pub fn new(ports: &'a dyn Names, ephemeral: RangeInclusive<u16>) -> Self {
        Self {
            ports,
            ephemeral,
            listeners: HashMap::new(),
        }
    }

    /// Adds the owner of a listener: its first one names the port.
    pub fn add_listener(&mut self, netns: Option<NetnsInode>, port: Port, owner: &str) {
        self.listeners
            .entry((netns, port))
            .or_insert_with(|| owner.into());
    }

    /// Returns the service of a port.
    #[must_use]
    pub fn service(&self, netns: Option<NetnsInode>, direction: Direction, port: Option<Port>) -> Service {
        let Some(port) = port else {
            return Service::other(direction);
        };
        let owner = self.listeners.get(&(netns, port));
        if let Some(owner) = owner.filter(|_| direction == Direction::Passive) {
            return Service {
                direction,
                name: owner.clone(),
            };
        }
        if self.ephemeral.contains(&port.0) {
            return Service::other(direction);
        }
        let is_meant = port.0 < WELL_KNOWN_END || COMMON.contains(&port.0);
        let name = self.ports.service(Protocol::Tcp, port).filter(|_| is_meant);
        Service {
            direction,
            name: name.map_or_else(|| port.0.to_string().into(), Into::into),
        }
    }
}

/// The name of what has no name of its own.
const OTHER: &str = "other";

/// Ports below it belong to the service that has their name. Above it are registered names, and whatever else uses the port:
/// 7000 is `bbs`, 9090 `websm`, 9000 `cslistener`.
const WELL_KNOWN_END: u16 = 1_024;

/// Ports above, sorted, whose names say what is there: no other program has them by default.
const COMMON: [u16; 25] = [
    1433, // ms-sql-s
    1883, // mqtt
    2049, // nfs
    2379, 2380, // etcd-client, etcd-server
    3260, // iscsi-target
    3268, // msft-gc
    3306, // mysql
    3389, // ms-wbt-server
    3690, // svn
    4369, // epmd
    5060, 5061, // sip, sip-tls
    5222, 5269, // xmpp-client, xmpp-server
    5432, // postgresql
    5671, 5672, // amqps, amqp
    6379, // redis
    8140, // puppet
    8883, // secure-mqtt
    9418, // git
    10050, 10051, // zabbix-agent, zabbix-trapper
    11211, // memcache
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_sample::tests::Ports;

    #[track_caller]
    fn check(direction: Direction, port: Option<u16>, expected: &str) {
        let mut names = ServiceNames::new(&Ports, 32_768..=60_999);
        names.add_listener(None, Port(8080), "nginx");
        names.add_listener(None, Port(8080), "second");
        names.add_listener(None, Port(40_000), "worker");
        let service = names.service(None, direction, port.map(Port));
        assert_eq!(&*service.name, expected);
    }

    #[test]
    fn offered_service_has_the_name_of_its_owner_or_its_port() {
        check(Direction::Passive, Some(8080), "nginx");
        check(Direction::Passive, Some(40_000), "worker");
        check(Direction::Passive, Some(443), "https");
        check(Direction::Passive, Some(9000), "9000");
    }

    #[test]
    fn used_service_has_the_name_of_its_port_unless_that_is_ephemeral() {
        check(Direction::Active, Some(443), "https");
        check(Direction::Active, Some(8080), "8080");
        check(Direction::Active, Some(40_000), "other");
        check(Direction::Active, None, "other");
    }

    #[test]
    fn name_that_was_registered_for_a_port_of_many_programs_is_not_taken() {
        for direction in [Direction::Active, Direction::Passive] {
            check(direction, Some(7000), "7000");
            check(direction, Some(5432), "postgresql");
        }
        assert!(COMMON.is_sorted());
    }

    #[test]
    fn listener_names_the_port_in_its_own_namespace() {
        let mut names = ServiceNames::new(&Ports, 32_768..=60_999);
        names.add_listener(Some(NetnsInode(1)), Port(80), "nginx");
        let elsewhere = names.service(Some(NetnsInode(2)), Direction::Passive, Some(Port(80)));
        assert_eq!(&*elsewhere.name, "80");
    }
}
