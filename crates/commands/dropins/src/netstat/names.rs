//! Names for numbers, chosen as the original chooses them.

use super::args::Flags;
use sockeye_console::notes;
use sockeye_model::{Names, Port, Protocol, Uid};
use sockeye_source::names::{NameKinds, SystemNames};
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// The names that are wanted.
#[derive(Debug)]
pub(super) struct HostNames {
    system: SystemNames,
    ports: bool,
    services: OnceCell<Services>,
    networks: OnceCell<HashMap<Ipv4Addr, Box<str>>>,
    /// IPv4 addresses of `/etc/hosts`
    listed: OnceCell<HashSet<Ipv4Addr>>,
}

impl HostNames {
    pub(super) fn new(flags: &Flags) -> Self {
        Self {
            system: SystemNames::new(NameKinds {
                users: !flags.numeric_users,
                hosts: true,
                ..NameKinds::NONE
            }),
            ports: !flags.numeric_ports,
            services: OnceCell::new(),
            networks: OnceCell::new(),
            listed: OnceCell::new(),
        }
    }

    /// Whether `/etc/hosts` names this address. There glibc does not look for the IPv4 address in a v4-mapped one,
    /// though it asks name servers for it.
    fn is_listed(&self, ip: Ipv4Addr) -> bool {
        let listed = self.listed.get_or_init(|| {
            let text = fs::read("/etc/hosts").unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            entries(&text)
                .filter_map(|(address, _)| address.parse().ok())
                .collect()
        });
        listed.contains(&ip)
    }

    /// Looks for the names of these hosts, all at once; the original asks for one after the other, and waits for as
    /// long as it takes.
    pub(super) fn seek(&self, hosts: impl IntoIterator<Item = IpAddr>) {
        self.system.prefetch_hosts(hosts);
        let counts = self.system.wait_for_hosts(Instant::now() + PATIENCE);
        let late = counts.pending + counts.skipped;
        if late > 0 {
            notes::say(&format!(
                "netstat: {late} host names did not come in {PATIENCE:?} and are shown as addresses; -n asks for none\n"
            ));
        }
    }

    /// The name of a network, by `/etc/networks`.
    pub(super) fn network(&self, network: Ipv4Addr) -> Option<&str> {
        let networks = self.networks.get_or_init(|| {
            let text = fs::read("/etc/networks").unwrap_or_default();
            parse_networks(&String::from_utf8_lossy(&text))
        });
        networks.get(&network).map(|name| &**name)
    }
}

impl Names for HostNames {
    fn service(&self, protocol: Protocol, port: Port) -> Option<&str> {
        if !self.ports {
            return None;
        }
        self.services.get_or_init(Services::read).name(protocol, port)
    }

    fn host(&self, ip: IpAddr) -> Option<&str> {
        let mapped = match ip {
            IpAddr::V6(v6) => v6.to_ipv4_mapped(),
            IpAddr::V4(_) => None,
        };
        if mapped.is_some_and(|v4| self.is_listed(v4)) {
            return None;
        }
        self.system.host(ip)
    }

    fn user(&self, uid: Uid) -> Option<&str> {
        self.system.user(uid)
    }
}

/// Of services with the same number the last in the file counts; of RAW sockets the names of protocols come after
/// services called `raw`.
#[derive(Debug, Default)]
struct Services {
    names: HashMap<(Transport, u16), Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Transport {
    Tcp,
    Udp,
    Raw,
}

impl Services {
    fn read() -> Self {
        let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        Self::parse(&read("/etc/services"), &read("/etc/protocols"))
    }

    fn parse(services: &str, protocols: &str) -> Self {
        let mut names = HashMap::new();
        for (name, number) in entries(services) {
            let Some((number, transport)) = number.split_once('/') else {
                continue;
            };
            let transport = match transport {
                "tcp" => Transport::Tcp,
                "udp" => Transport::Udp,
                "raw" => Transport::Raw,
                _ => continue,
            };
            if let Ok(number) = number.parse() {
                names.insert((transport, number), Box::from(name));
            }
        }
        for (name, number) in entries(protocols) {
            if let Ok(number) = number.parse() {
                names.insert((Transport::Raw, number), Box::from(name));
            }
        }
        Self { names }
    }

    fn name(&self, protocol: Protocol, port: Port) -> Option<&str> {
        let transport = match protocol {
            Protocol::Tcp => Transport::Tcp,
            Protocol::Udp | Protocol::UdpLite => Transport::Udp,
            Protocol::Raw => Transport::Raw,
            _ => return None,
        };
        self.names.get(&(transport, port.0)).map(|name| &**name)
    }
}

/// The first two words of each line, without comments.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        Some((words.next()?, words.next()?))
    })
}

/// networks(5): of several names the first counts; missing parts of an address are zeros.
fn parse_networks(text: &str) -> HashMap<Ipv4Addr, Box<str>> {
    let mut networks = HashMap::new();
    for (name, address) in entries(text) {
        let mut octets = [0; 4];
        let mut parts = address.split('.');
        let parsed = octets.iter_mut().try_for_each(|octet| {
            let Some(part) = parts.next() else { return Some(()) };
            *octet = part.parse().ok()?;
            Some(())
        });
        if parsed.is_some() {
            networks
                .entry(Ipv4Addr::from(octets))
                .or_insert_with(|| Box::from(name));
        }
    }
    networks
}

/// So long all host names together may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_service_with_a_number_names_it() {
        let services = Services::parse(
            "www 80/tcp http # web\nhttp 80/tcp\nx 80/udp\nbad 80\nworse x/tcp\ns 80/sctp\n",
            "icmp 1 ICMP\n",
        );
        let name = |protocol, port| services.name(protocol, Port(port));
        assert_eq!(name(Protocol::Tcp, 80), Some("http"));
        assert_eq!(name(Protocol::UdpLite, 80), Some("x"));
        assert_eq!(name(Protocol::Raw, 1), Some("icmp"));
        assert_eq!(name(Protocol::Raw, 80), None);
    }

    #[test]
    fn networks() {
        let networks = parse_networks("loopback 127.0.0.0\nlink-local 169.254\nbad x.y\n# c\n");
        assert_eq!(networks[&Ipv4Addr::new(169, 254, 0, 0)].as_ref(), "link-local");
        assert_eq!(networks.len(), 2);
    }
}
