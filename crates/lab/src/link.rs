use crate::namespace::ip_batch;
use crate::or_panic::OrPanic;
use crate::{Namespace, NetPath, SocketOptions, Toward};
use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A veth pair between two namespaces.
///
/// Neighbour entries are permanent, so that no ARP or NDP is needed, and so that a path can be
/// [cut](NetPath::cut) in one direction by a wrong entry.
#[derive(Debug, Clone)]
pub struct Link(pub(crate) Arc<Ends>);

#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) client: End,
    pub(crate) server: End,
    number: u8,
    net_paths: AtomicU8,
}

/// One end of a link.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) namespace: Namespace,
    pub(crate) device: String,
    pub(crate) hardware_address: String,
}

impl Link {
    #[track_caller]
    pub(crate) fn create(client: &Namespace, server: &Namespace, number: u8) -> Self {
        let end = |namespace: &Namespace, side: u8| End {
            namespace: namespace.clone(),
            device: format!("veth{number}{}", if side == 1 { "c" } else { "s" }),
            hardware_address: format!("02:00:00:4c:{number:02x}:{side:02x}"),
        };
        let ends = Ends {
            client: end(client, 1),
            server: end(server, 2),
            number,
            net_paths: AtomicU8::new(1),
        };
        let (a, b) = (&ends.client, &ends.server);
        let pair = format!(
            "link add {} address {} netns {} type veth peer name {} address {} netns {}\n",
            a.device,
            a.hardware_address,
            a.namespace.name(),
            b.device,
            b.hardware_address,
            b.namespace.name(),
        );
        ip_batch(None, &pair).or_panic("make a veth pair");
        a.namespace.note_link(&a.device);
        b.namespace.note_link(&b.device);
        for end in [a, b] {
            // Without link-local addresses, no duplicate address detection causes delays.
            let up = format!("link set {0} addrgenmode none\nlink set {0} up\n", end.device);
            ip_batch(Some(end.namespace.name()), &up).or_panic("bring a veth end up");
        }
        let link = Self(Arc::new(ends));
        link.address(1, 2);
        link
    }

    /// Device names of the client and the server.
    pub fn devices(&self) -> (&str, &str) {
        (&self.0.client.device, &self.0.server.device)
    }

    /// The client side's first addresses (host number 1): IPv4, IPv6.
    pub fn client_addresses(&self) -> (IpAddr, IpAddr) {
        (self.ip(1, false), self.ip(1, true))
    }

    /// The server side's first addresses (host number 2): IPv4, IPv6.
    pub fn server_addresses(&self) -> (IpAddr, IpAddr) {
        (self.ip(2, false), self.ip(2, true))
    }

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
        let net_path = self.0.net_paths.fetch_add(1, Ordering::Relaxed);
        assert!(net_path < 120, "lab: a link has room for 120 paths");
        let (client, server) = (2 * net_path + 1, 2 * net_path + 2);
        self.address(client, server);
        NetPath {
            client: self.0.client.namespace.clone(),
            server: self.0.server.namespace.clone(),
            client_ip: self.ip(client, v6),
            server_ip: self.ip(server, v6),
            mapped,
            scopes: (0, 0),
            link: Some(self.clone()),
            client_options: SocketOptions::new(),
            server_options: SocketOptions::new(),
        }
    }

    /// Adds one more address per family to both ends, with neighbour entries for each other.
    #[track_caller]
    fn address(&self, client: u8, server: u8) {
        let Ends {
            client: a, server: b, ..
        } = &*self.0;
        for (end, own, other, others) in [(a, client, b, server), (b, server, a, client)] {
            let script = format!(
                "addr add {}/24 dev {dev}\naddr add {}/64 dev {dev} nodad\n\
                 neigh replace {} lladdr {mac} nud permanent dev {dev}\n\
                 neigh replace {} lladdr {mac} nud permanent dev {dev}\n",
                self.ip(own, false),
                self.ip(own, true),
                self.ip(others, false),
                self.ip(others, true),
                dev = end.device,
                mac = other.hardware_address,
            );
            ip_batch(Some(end.namespace.name()), &script).or_panic("address a veth end");
        }
    }

    fn ip(&self, host: u8, v6: bool) -> IpAddr {
        let number = self.0.number;
        if v6 {
            IpAddr::from([0xfd77, 0, 0, u16::from(number), 0, 0, 0, u16::from(host)])
        } else {
            IpAddr::from([10, 77, number, host])
        }
    }
}

impl End {
    /// The interface index.
    #[track_caller]
    fn index(&self) -> u32 {
        let index = || {
            let any = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            Ok::<_, io::Error>(name_to_index(any, &self.device)?)
        };
        self.namespace
            .run(index)
            .or_panic(format_args!("the index of {}", self.device))
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
