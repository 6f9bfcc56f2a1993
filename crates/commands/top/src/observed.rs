//! Names of hosts as they were observed in packets, in bounded memory. Pure.

use sockeye_model::{CgroupId, InterfaceIndex, Names, NetnsInode, Place, Port, Protocol, Uid, WorkloadId};
use sockeye_wire::packet::DnsMessage;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// The latest name of each address.
#[derive(Debug, Default)]
pub(crate) struct ObservedNames {
    /// With a mark that says where it is from: another host may have the address by now.
    of: HashMap<IpAddr, Box<str>>,
    /// Addresses in the order in which they were first seen.
    order: VecDeque<IpAddr>,
}

impl ObservedNames {
    /// Adds the addresses of an answer of DNS.
    pub(crate) fn add_answer(&mut self, message: &DnsMessage) {
        if !message.is_answer || message.code != 0 {
            return;
        }
        for ip in &message.addresses {
            self.add(*ip, format!("dns:{}", message.name));
        }
    }

    /// Adds the name that a client of TLS has asked a server for.
    pub(crate) fn add_server(&mut self, ip: IpAddr, name: &str) {
        self.add(ip, format!("sni:{}", name.to_ascii_lowercase()));
    }

    /// Adds a name; the addresses that were seen first make room.
    fn add(&mut self, ip: IpAddr, name: String) {
        let ip = ip.to_canonical();
        if self.of.insert(ip, name.into_boxed_str()).is_some() {
            return;
        }
        self.order.push_back(ip);
        if self.order.len() > NAMES_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.of.remove(&first);
        }
    }

    /// Returns the name of an address, with its mark.
    pub(crate) fn of(&self, ip: IpAddr) -> Option<&str> {
        self.of.get(&ip.to_canonical()).map(|name| &**name)
    }
}

/// Names as another source has them; of hosts without one, those that were observed.
pub(crate) struct WithObserved<'a> {
    pub(crate) names: &'a dyn Names,
    pub(crate) observed: &'a ObservedNames,
    /// Where addresses are.
    pub(crate) place_of: &'a dyn Fn(IpAddr) -> Option<Place>,
}

impl Names for WithObserved<'_> {
    fn interface(&self, index: InterfaceIndex, netns: Option<NetnsInode>) -> Option<&str> {
        self.names.interface(index, netns)
    }

    fn service(&self, protocol: Protocol, port: Port) -> Option<&str> {
        self.names.service(protocol, port)
    }

    fn host(&self, ip: IpAddr) -> Option<&str> {
        self.names.host(ip).or_else(|| self.observed.of(ip))
    }

    fn place(&self, ip: IpAddr) -> Option<Place> {
        (self.place_of)(ip)
    }

    fn user(&self, uid: Uid) -> Option<&str> {
        self.names.user(uid)
    }

    fn cgroup(&self, id: CgroupId) -> Option<&str> {
        self.names.cgroup(id)
    }

    fn netns(&self, inode: NetnsInode) -> Option<&str> {
        self.names.netns(inode)
    }

    fn workload(&self, id: WorkloadId) -> Option<&str> {
        self.names.workload(id)
    }
}

/// Most addresses with a name.
const NAMES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::NoNames;

    fn answer(name: &str, addresses: &[&str]) -> DnsMessage {
        DnsMessage {
            client: ([10, 0, 0, 1].into(), 5000),
            server: ([10, 0, 0, 53].into(), 53),
            id: 1,
            is_answer: true,
            code: 0,
            name: name.to_owned(),
            kind: 1,
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn latest_name_of_an_address_is_marked() {
        let mut observed = ObservedNames::default();
        observed.add_answer(&answer("old.example", &["192.0.2.1", "2001:db8::1"]));
        observed.add_answer(&answer("new.example", &["192.0.2.1"]));
        let names = WithObserved {
            names: &NoNames,
            observed: &observed,
            place_of: &|_| None,
        };
        let host = |text: &str| names.host(text.parse().unwrap());
        assert_eq!(host("192.0.2.1"), Some("dns:new.example"));
        assert_eq!(host("::ffff:192.0.2.1"), Some("dns:new.example"));
        assert_eq!(host("2001:db8::1"), Some("dns:old.example"));
        assert_eq!(host("192.0.2.2"), None);
        observed.add_server("192.0.2.1".parse().unwrap(), "WWW.example");
        assert_eq!(observed.of("192.0.2.1".parse().unwrap()), Some("sni:www.example"));
    }

    #[test]
    fn questions_and_errors_name_nothing() {
        let mut observed = ObservedNames::default();
        for (is_answer, code) in [(false, 0), (true, 3)] {
            observed.add_answer(&DnsMessage {
                is_answer,
                code,
                ..answer("web.example", &["192.0.2.1"])
            });
        }
        assert_eq!(observed.of("192.0.2.1".parse().unwrap()), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut observed = ObservedNames::default();
        for number in 0..NAMES_MAX as u32 + 3 {
            let ip = IpAddr::from(number.to_be_bytes());
            observed.add_answer(&answer("x.example", &[&ip.to_string()]));
        }
        assert_eq!((observed.of.len(), observed.order.len()), (NAMES_MAX, NAMES_MAX));
        assert_eq!(observed.of("0.0.0.2".parse().unwrap()), None);
        assert!(observed.of("0.0.0.3".parse().unwrap()).is_some());
    }
}
