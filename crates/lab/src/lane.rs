use crate::link::End;
use crate::must::Must;
use crate::namespace::ip_batch;
use crate::specimen::mapped;
use crate::{Link, Namespace, SocketOptions};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// A path between a client's and a server's address, on which pairs of sockets are made in whatever state:
/// over [loopback](Namespace::loopback) or over a [link](Link::lane), IPv4, IPv6 or v4-mapped.
#[derive(Debug, Clone)]
pub struct Lane {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    pub(crate) client_ip: IpAddr,
    pub(crate) server_ip: IpAddr,
    pub(crate) mapped: bool,
    /// The client's and the server's interface, which link-local addresses need; otherwise 0.
    pub(crate) scopes: (u32, u32),
    pub(crate) link: Option<Link>,
    pub(crate) client_options: SocketOptions,
    pub(crate) server_options: SocketOptions,
}

/// A direction of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    /// From the server to the client.
    Client,
    /// From the client to the server.
    Server,
}

impl Namespace {
    /// A lane over 127.0.0.1.
    pub fn loopback(&self) -> Lane {
        self.loopback_lane(IpAddr::from([127, 0, 0, 1]), false)
    }

    /// A lane over ::1.
    pub fn loopback6(&self) -> Lane {
        self.loopback_lane(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), false)
    }

    /// A lane over 127.0.0.1 where the server listens on the IPv6 wildcard and sees v4-mapped addresses.
    pub fn loopback_mapped(&self) -> Lane {
        self.loopback_lane(IpAddr::from([127, 0, 0, 1]), true)
    }

    fn loopback_lane(&self, ip: IpAddr, mapped: bool) -> Lane {
        Lane {
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

impl Lane {
    /// Where clients live.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// Where servers live.
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

    /// The same lane, its clients with these options.
    #[must_use]
    pub fn with_client(&self, options: SocketOptions) -> Self {
        Self {
            client_options: options,
            ..self.clone()
        }
    }

    /// The same lane, its servers and listeners with these options.
    #[must_use]
    pub fn with_server(&self, options: SocketOptions) -> Self {
        Self {
            server_options: options,
            ..self.clone()
        }
    }

    /// From now on packets in this direction reach nobody, silently. Panics on loopback, where nothing is
    /// cut.
    ///
    /// The sender's neighbour entry is pointed at a hardware address that the other end does not have.
    #[track_caller]
    pub fn cut(&self, toward: Toward) {
        self.point(toward, Some(NOBODY));
    }

    /// Undoes [`cut`](Self::cut).
    #[track_caller]
    pub fn mend(&self, toward: Toward) {
        self.point(toward, None);
    }

    #[track_caller]
    fn point(&self, toward: Toward, hardware_address: Option<&str>) {
        let Some(Link(ends)) = &self.link else {
            panic!("lab: only a lane over a link can be cut, not loopback");
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
        ip_batch(Some(from.namespace.name()), &script).must("point a neighbour entry");
    }

    /// An address as the client's sockets show it.
    pub(crate) fn at_client(&self, ip: IpAddr, port: u16) -> SocketAddr {
        scoped(ip, port, self.scopes.0)
    }

    /// An address as the server's sockets show it.
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

/// A locally administered hardware address that no end has.
const NOBODY: &str = "02:00:00:4c:ff:ff";
