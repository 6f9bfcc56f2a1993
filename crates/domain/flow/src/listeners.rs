//! Index of listening sockets, by which the fold decides whether a connection is passive or active.
//! `flows` and `lstf` must add all listeners before the first connection.

use foldhash::HashMap;
use sockeye_model::{Endpoint, InterfaceIndex, NetnsInode, Port, Socket};
use std::net::IpAddr;

/// The listening addresses and ports per namespace. They distinguish passive connections from active ones.
#[derive(Debug, Clone)]
pub struct Listeners {
    /// One bit per port, for all namespaces: the search for most active connections ends here.
    ports: Box<[u64; 1024]>,
    by_port: HashMap<(Option<NetnsInode>, Port), Vec<Listener>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listener {
    covers: Scope,
    interface: Option<InterfaceIndex>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// One address; v4-mapped ones as IPv4.
    Address(IpAddr),
    /// All IPv4 addresses: bound to `0.0.0.0` or to `::ffff:0.0.0.0`.
    AllV4,
    /// All IPv6 addresses: bound to `::` with `IPV6_V6ONLY`.
    AllV6,
    /// All addresses of both families: bound to `::` without `IPV6_V6ONLY`, or unknown (procfs).
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
    /// Adds `socket` if it is a listener: a listening TCP socket, or a bound and unconnected UDP socket.
    pub fn add(&mut self, socket: &Socket) {
        if !socket.is_listener() {
            return;
        }
        let (Some(ip), Some(port)) = (socket.local.ip(), socket.local.port()) else {
            return;
        };
        let canonical = ip.to_canonical();
        let covers = match canonical {
            IpAddr::V4(v4) if v4.is_unspecified() => Scope::AllV4,
            IpAddr::V6(v6) if v6.is_unspecified() && socket.v6only == Some(true) => Scope::AllV6,
            IpAddr::V6(v6) if v6.is_unspecified() => Scope::All,
            address => Scope::Address(address),
        };
        self.ports[usize::from(port.0) / 64] |= 1 << (port.0 % 64);
        let listener = Listener {
            covers,
            interface: socket.interface,
        };
        let at_port = self.by_port.entry((socket.netns, port)).or_default();
        // Servers with SO_REUSEPORT have the same listener repeatedly.
        if !at_port.contains(&listener) {
            at_port.push(listener);
        }
    }

    /// Whether a listener matches the local address and port of `connection`, in its namespace and, for a
    /// listener bound to an interface, on that interface.
    #[must_use]
    #[inline]
    pub fn match_connection(&self, connection: &Socket) -> bool {
        self.cover(connection, connection.local, |_| true)
    }

    /// Whether the peer of `connection` is a listener of the same namespace. Without its addresses that is sure of the address that both
    /// ends have, of loopback addresses, and of those that a listener names.
    #[must_use]
    pub fn match_peer(&self, connection: &Socket) -> bool {
        let (Some(local), Some(peer)) = (connection.local.ip(), connection.peer.ip()) else {
            return false;
        };
        let (local, peer) = (local.to_canonical(), peer.to_canonical());
        let is_here = local == peer || peer.is_loopback();
        self.cover(connection, connection.peer, |covers| {
            is_here || matches!(covers, Scope::Address(_))
        })
    }

    #[inline]
    fn cover(&self, connection: &Socket, end: Endpoint, may_match: impl Fn(Scope) -> bool) -> bool {
        let (Some(ip), Some(port)) = (end.ip(), end.port()) else {
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
                Scope::All => true,
                Scope::AllV4 => canonical.is_ipv4(),
                Scope::AllV6 => canonical.is_ipv6(),
                Scope::Address(address) => address == canonical,
            };
            // A socket accepted from a listener bound to an interface is bound to it, too.
            address
                && may_match(listener.covers)
                && (listener.interface.is_none() || listener.interface == connection.interface)
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
                listeners.match_connection(&connection(ip, 80)),
                "{listener_ip} {v6only:?} covers {ip}"
            );
            assert!(!listeners.match_connection(&connection(ip, 81)), "another port");
        }
        for ip in not_covered {
            assert!(
                !listeners.match_connection(&connection(ip, 80)),
                "{listener_ip} {v6only:?} does not cover {ip}"
            );
        }
    }

    #[test]
    fn wildcard_and_single_address_match() {
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
    fn dual_stack_v6_only_and_v4_mapped_match() {
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
    fn namespace_and_interface_must_match() {
        let mut listeners = Listeners::default();
        let mut elsewhere = listener("0.0.0.0", None);
        elsewhere.netns = Some(NetnsInode(5));
        elsewhere.interface = Some(InterfaceIndex(3));
        listeners.add(&elsewhere);
        let mut here = connection("10.0.0.1", 80);
        assert!(!listeners.match_connection(&here));
        here.netns = Some(NetnsInode(5));
        assert!(!listeners.match_connection(&here), "not bound to the interface");
        here.interface = Some(InterfaceIndex(3));
        assert!(listeners.match_connection(&here));
    }

    #[test]
    fn bound_unconnected_udp_is_a_listener() {
        let mut listeners = Listeners::default();
        let mut udp = listener("0.0.0.0", None);
        (udp.protocol, udp.state) = (Protocol::Udp, State::Established);
        listeners.add(&udp);
        assert!(!listeners.match_connection(&connection("10.0.0.1", 80)));
        udp.state = State::Close;
        listeners.add(&udp);
        assert!(listeners.match_connection(&connection("10.0.0.1", 80)));
    }
}
