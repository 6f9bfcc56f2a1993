//! Names of hosts, networks, ports and users, resolved as the original does.

use super::options::Flags;
use sockeye_console::notes;
use sockeye_model::{Names, Port, Protocol, Uid};
use sockeye_source::names::{NameKinds, SystemNames};
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// Resolves names.
#[derive(Debug)]
pub(super) struct HostNames {
    system: SystemNames,
    /// Whether ports have names.
    ports: bool,
    services: OnceCell<Services>,
    networks: OnceCell<HashMap<Ipv4Addr, Box<str>>>,
    /// IPv4 addresses of `/etc/hosts`.
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

    /// Whether `/etc/hosts` lists this address. glibc finds no v4-mapped address by its IPv4 address in that file, although
    /// it asks name servers for the IPv4 address.
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

    /// Resolves the names of these hosts in parallel, for at most 30 seconds; the original resolves one after the other,
    /// without a limit.
    pub(super) fn resolve_hosts(&self, hosts: impl IntoIterator<Item = IpAddr>) {
        self.system.prefetch_hosts(hosts);
        let counts = self.system.wait_for_hosts(Instant::now() + LOOKUP_TIMEOUT);
        let late = counts.pending + counts.skipped;
        if late > 0 {
            notes::say(&format!(
                "netstat: {late} host names did not come in {LOOKUP_TIMEOUT:?} and are shown as addresses; -n asks for none\n"
            ));
        }
    }

    /// Returns the name of a network in `/etc/networks`.
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

/// Names of ports. The last entry of a port in `/etc/services` wins. For RAW sockets the names in `/etc/protocols` win over
/// services of the transport `raw`.
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

/// Returns the first two words of each line, without comments.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        Some((words.next()?, words.next()?))
    })
}

/// Parses networks(5): the first name of an address wins; missing parts of an address are zeros.
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

/// Time limit for all host names together.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_service_of_a_port_wins() {
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
    fn missing_parts_of_networks_are_zeros() {
        let networks = parse_networks("loopback 127.0.0.0\nlink-local 169.254\nbad x.y\n# c\n");
        assert_eq!(networks[&Ipv4Addr::new(169, 254, 0, 0)].as_ref(), "link-local");
        assert_eq!(networks.len(), 2);
    }
}
