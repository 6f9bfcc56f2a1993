use foldhash::HashMap;
use sockeye_model::{InterfaceIndex, NetnsInode, Port, Socket};
use std::net::IpAddr;

/// On which addresses and ports the host listens, per namespace: what tells a passive connection from
/// an active one.
#[derive(Debug, Clone)]
pub struct Listeners {
    /// One bit a port, in whatever namespace: most connections are active and end their search here.
    ports: Box<[u64; 1024]>,
    by_port: HashMap<(Option<NetnsInode>, Port), Vec<Listener>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listener {
    covers: Covers,
    interface: Option<InterfaceIndex>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Covers {
    /// One address, v4-mapped ones as IPv4.
    Address(IpAddr),
    /// Every IPv4 address: bound to `0.0.0.0` or to `::ffff:0.0.0.0`.
    AllV4,
    /// Every IPv6 address and no other: bound to `::` with `IPV6_V6ONLY`.
    AllV6,
    /// Every address of both families: bound to `::` without `IPV6_V6ONLY`, or without our knowing (procfs).
    All,
}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            ports: Box::new([0; 1024]),
            by_port: HashMap::default(),
        }
    }
}

impl Listeners {
    /// Takes note of `socket` if it is a listener: a listening TCP socket, or a bound UDP socket that is
    /// not connected.
    pub fn add(&mut self, socket: &Socket) {
        if !socket.is_listener() {
            return;
        }
        let (Some(ip), Some(port)) = (socket.local.ip(), socket.local.port()) else {
            return;
        };
        let canonical = ip.to_canonical();
        let covers = match canonical {
            IpAddr::V4(v4) if v4.is_unspecified() => Covers::AllV4,
            IpAddr::V6(v6) if v6.is_unspecified() && socket.v6only == Some(true) => Covers::AllV6,
            IpAddr::V6(v6) if v6.is_unspecified() => Covers::All,
            address => Covers::Address(address),
        };
        self.ports[usize::from(port.0) / 64] |= 1 << (port.0 % 64);
        let listener = Listener {
            covers,
            interface: socket.interface,
        };
        let at_port = self.by_port.entry((socket.netns, port)).or_default();
        // Servers with SO_REUSEPORT have the same listener many times.
        if !at_port.contains(&listener) {
            at_port.push(listener);
        }
    }

    /// Whether somebody listens on the local address and port of `connection`, in its namespace and, if
    /// bound to an interface, on that.
    #[must_use]
    #[inline]
    pub fn cover(&self, connection: &Socket) -> bool {
        let (Some(ip), Some(port)) = (connection.local.ip(), connection.local.port()) else {
            return false;
        };
        if self.ports[usize::from(port.0) / 64] & 1 << (port.0 % 64) == 0 {
            return false;
        }
        let Some(at_port) = self.by_port.get(&(connection.netns, port)) else {
            return false;
        };
        let canonical = ip.to_canonical();
        at_port.iter().any(|listener| {
            let address = match listener.covers {
                Covers::All => true,
                Covers::AllV4 => canonical.is_ipv4(),
                Covers::AllV6 => canonical.is_ipv6(),
                Covers::Address(address) => address == canonical,
            };
            // A socket accepted from a listener bound to an interface is bound to it too.
            address && (listener.interface.is_none() || listener.interface == connection.interface)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Endpoint, Protocol, State};

    fn listener(ip: &str, v6only: Option<bool>) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::Listen);
        socket.local = Endpoint::inet(ip.parse().unwrap(), Port(80));
        socket.v6only = v6only;
        socket
    }

    fn connection(ip: &str, port: u16) -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet(ip.parse().unwrap(), Port(port));
        socket
    }

    fn check(listener_ip: &str, v6only: Option<bool>, covered: &[&str], not_covered: &[&str]) {
        let mut listeners = Listeners::default();
        listeners.add(&listener(listener_ip, v6only));
        for ip in covered {
            assert!(
                listeners.cover(&connection(ip, 80)),
                "{listener_ip} {v6only:?} covers {ip}"
            );
            assert!(!listeners.cover(&connection(ip, 81)), "another port");
        }
        for ip in not_covered {
            assert!(
                !listeners.cover(&connection(ip, 80)),
                "{listener_ip} {v6only:?} does not cover {ip}"
            );
        }
    }

    #[test]
    fn wildcards_and_single_addresses() {
        check(
            "0.0.0.0",
            None,
            &["10.0.0.1", "::ffff:10.0.0.1"],
            &["2001:db8::1", "::1"],
        );
        check(
            "10.0.0.1",
            None,
            &["10.0.0.1", "::ffff:10.0.0.1"],
            &["10.0.0.2", "::1"],
        );
        check("::1", Some(false), &["::1"], &["127.0.0.1", "::2"]);
    }

    #[test]
    fn dual_stack_v6_only_and_v4_mapped() {
        check(
            "::",
            Some(false),
            &["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"],
            &[],
        );
        check(
            "::",
            Some(true),
            &["2001:db8::1"],
            &["10.0.0.1", "::ffff:10.0.0.1"],
        );
        check("::", None, &["10.0.0.1", "2001:db8::1"], &[]);
        check(
            "::ffff:0.0.0.0",
            Some(false),
            &["10.0.0.1", "::ffff:10.0.0.1"],
            &["::1"],
        );
        check(
            "::ffff:10.0.0.1",
            Some(false),
            &["10.0.0.1"],
            &["10.0.0.2", "::1"],
        );
    }

    #[test]
    fn a_namespace_and_an_interface_of_its_own() {
        let mut listeners = Listeners::default();
        let mut elsewhere = listener("0.0.0.0", None);
        elsewhere.netns = Some(NetnsInode(5));
        elsewhere.interface = Some(InterfaceIndex(3));
        listeners.add(&elsewhere);
        let mut here = connection("10.0.0.1", 80);
        assert!(!listeners.cover(&here));
        here.netns = Some(NetnsInode(5));
        assert!(!listeners.cover(&here), "not bound to the interface");
        here.interface = Some(InterfaceIndex(3));
        assert!(listeners.cover(&here));
    }

    #[test]
    fn udp_listens_when_bound_and_not_connected() {
        let mut listeners = Listeners::default();
        let mut udp = listener("0.0.0.0", None);
        (udp.protocol, udp.state) = (Protocol::Udp, State::Established);
        listeners.add(&udp);
        assert!(!listeners.cover(&connection("10.0.0.1", 80)));
        udp.state = State::Close;
        listeners.add(&udp);
        assert!(listeners.cover(&connection("10.0.0.1", 80)));
    }
}
