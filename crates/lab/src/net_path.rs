//! A path between a client and a server address, over loopback or a link, and its silent cut in one
//! direction. `tcp.rs` and `datagram.rs` add the methods that make sockets over it.

use crate::lab_socket::mapped;
use crate::link::End;
use crate::or_panic::OrPanic;
use crate::program::ip_batch;
use crate::{Link, Namespace, SocketOptions};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// A path between a client's and a server's address, which creates pairs of sockets in every state: over
/// [loopback](Namespace::loopback) or over a [link](Link::net_path), IPv4, IPv6 or v4-mapped.
#[derive(Debug, Clone)]
pub struct NetPath {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    pub(crate) client_ip: IpAddr,
    pub(crate) server_ip: IpAddr,
    pub(crate) mapped: bool,
    /// Interface indices of the client and the server, which link-local addresses need; otherwise 0.
    pub(crate) scopes: (u32, u32),
    pub(crate) link: Option<Link>,
    pub(crate) client_options: SocketOptions,
    pub(crate) server_options: SocketOptions,
}

/// A direction of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    /// From the server to the client.
    Client,
    /// From the client to the server.
    Server,
}

impl Namespace {
    /// A path over 127.0.0.1.
    pub fn loopback(&self) -> NetPath {
        self.loopback_path(IpAddr::from([127, 0, 0, 1]), false)
    }

    /// A path over ::1.
    pub fn loopback6(&self) -> NetPath {
        self.loopback_path(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), false)
    }

    /// A path over 127.0.0.1 where the server listens on the IPv6 wildcard and sees v4-mapped addresses.
    pub fn loopback_mapped(&self) -> NetPath {
        self.loopback_path(IpAddr::from([127, 0, 0, 1]), true)
    }

    fn loopback_path(&self, ip: IpAddr, mapped: bool) -> NetPath {
        NetPath::new([self, self], [ip, ip], mapped)
    }
}

impl Link {
    /// A path over IPv4 between two new addresses: cutting it affects no other path.
    #[track_caller]
    pub fn net_path(&self) -> NetPath {
        self.net_path_between(false, false)
    }

    /// A path over IPv6, like [`net_path`](Self::net_path).
    #[track_caller]
    pub fn net_path6(&self) -> NetPath {
        self.net_path_between(true, false)
    }

    /// A path over IPv4 where the server listens on the IPv6 wildcard and sees v4-mapped addresses.
    #[track_caller]
    pub fn net_path_mapped(&self) -> NetPath {
        self.net_path_between(false, true)
    }

    /// A path over IPv6 link-local addresses, which bind sockets to their device.
    #[track_caller]
    pub fn net_path_link_local(&self) -> NetPath {
        let mut net_path = self.net_path_between(true, false);
        let [client, server] = [net_path.client_ip, net_path.server_ip].map(link_local);
        net_path.scopes = (self.0.client.index(), self.0.server.index());
        let addresses = [(&self.0.client, client), (&self.0.server, server)];
        for (end, own) in addresses {
            let script = format!("addr add {own}/64 dev {} nodad\n", end.device);
            ip_batch(Some(end.namespace.name()), &script).or_panic("give a link-local address");
        }
        (net_path.client_ip, net_path.server_ip) = (client, server);
        net_path.mend(Toward::Client);
        net_path.mend(Toward::Server);
        net_path
    }

    #[track_caller]
    fn net_path_between(&self, v6: bool, mapped: bool) -> NetPath {
        let (client, server) = self.next_addresses(v6);
        NetPath {
            link: Some(self.clone()),
            ..NetPath::new(
                [&self.0.client.namespace, &self.0.server.namespace],
                [client, server],
                mapped,
            )
        }
    }
}

impl NetPath {
    /// A path from client to server, without a link and socket options.
    pub(crate) fn new(
        namespaces: [&Namespace; 2],
        [client_ip, server_ip]: [IpAddr; 2],
        mapped: bool,
    ) -> Self {
        let [client, server] = namespaces.map(Namespace::clone);
        Self {
            client,
            server,
            client_ip,
            server_ip,
            mapped,
            scopes: (0, 0),
            link: None,
            client_options: SocketOptions::new(),
            server_options: SocketOptions::new(),
        }
    }

    /// The namespace of clients.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// The namespace of servers.
    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// The address that clients bind to.
    pub fn client_ip(&self) -> IpAddr {
        self.client_ip
    }

    /// The address that clients connect to.
    pub fn server_ip(&self) -> IpAddr {
        self.server_ip
    }

    /// The same path with these options for clients.
    #[must_use]
    pub fn with_client(&self, options: SocketOptions) -> Self {
        Self {
            client_options: options,
            ..self.clone()
        }
    }

    /// The same path with these options for servers and listeners.
    #[must_use]
    pub fn with_server(&self, options: SocketOptions) -> Self {
        Self {
            server_options: options,
            ..self.clone()
        }
    }

    /// Starts to drop packets in this direction, silently. Panics on loopback, which cannot be cut.
    ///
    /// Sets the sender's neighbour entry to a hardware address that the other end does not have.
    #[track_caller]
    pub fn cut(&self, toward: Toward) {
        self.point(toward, Some(UNUSED_ADDRESS));
    }

    /// Undoes [`cut`](Self::cut).
    #[track_caller]
    pub fn mend(&self, toward: Toward) {
        self.point(toward, None);
    }

    #[track_caller]
    fn point(&self, toward: Toward, hardware_address: Option<&str>) {
        let Some(Link(ends)) = &self.link else {
            panic!("lab: only a path over a link can be cut, not loopback");
        };
        let (from, to, destination): (&End, &End, IpAddr) = match toward {
            Toward::Server => (&ends.client, &ends.server, self.server_ip),
            Toward::Client => (&ends.server, &ends.client, self.client_ip),
        };
        let address = hardware_address.unwrap_or(&to.hardware_address);
        let script = format!(
            "neigh replace {destination} lladdr {address} nud permanent dev {}\n",
            from.device
        );
        ip_batch(Some(from.namespace.name()), &script).or_panic("point a neighbour entry");
    }

    /// An address in the form of the client's sockets.
    pub(crate) fn at_client(&self, ip: IpAddr, port: u16) -> SocketAddr {
        scoped(ip, port, self.scopes.0)
    }

    /// An address in the form of the server's sockets.
    pub(crate) fn at_server(&self, ip: IpAddr, port: u16) -> SocketAddr {
        scoped(if self.mapped { mapped(ip) } else { ip }, port, self.scopes.1)
    }
}

fn scoped(ip: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, scope).into(),
        v4 @ IpAddr::V4(_) => SocketAddr::new(v4, port),
    }
}

/// `fd77:0:0:N::H` as `fe80::N:H`.
fn link_local(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => {
            let [_, _, _, number, .., host] = v6.segments();
            IpAddr::from([0xfe80, 0, 0, 0, 0, 0, number, host])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// A locally administered hardware address that neither end has.
const UNUSED_ADDRESS: &str = "02:00:00:4c:ff:ff";
