use crate::lab_socket::mapped;
use crate::link::End;
use crate::namespace::ip_batch;
use crate::or_panic::OrPanic;
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
        NetPath {
            client: self.clone(),
            server: self.clone(),
            client_ip: ip,
            server_ip: ip,
            mapped,
            scopes: (0, 0),
            link: None,
            client_options: SocketOptions::new(),
            server_options: SocketOptions::new(),
        }
    }
}

impl NetPath {
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

    /// Drops packets in this direction from now on, silently. Panics on loopback, which cannot be cut.
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

/// A locally administered hardware address that neither end has.
const UNUSED_ADDRESS: &str = "02:00:00:4c:ff:ff";
