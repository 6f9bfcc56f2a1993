use crate::must::Must;
use crate::namespace::ip_batch;
use crate::{Lane, Namespace, SocketOptions, Toward};
use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A veth pair between two namespaces.
///
/// Neighbour entries are permanent, so that nothing is ever asked by ARP or NDP, and so that a path can be
/// [cut](Lane::cut) in one direction by pointing an entry at nobody.
#[derive(Debug, Clone)]
pub struct Link(pub(crate) Arc<Ends>);

#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) client: End,
    pub(crate) server: End,
    number: u8,
    lanes: AtomicU8,
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
            lanes: AtomicU8::new(1),
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
        ip_batch(None, &pair).must("make a veth pair");
        a.namespace.note_link(&a.device);
        b.namespace.note_link(&b.device);
        for end in [a, b] {
            // Without link-local addresses no duplicate detection delays anything.
            let up = format!("link set {0} addrgenmode none\nlink set {0} up\n", end.device);
            ip_batch(Some(end.namespace.name()), &up).must("bring a veth end up");
        }
        let link = Self(Arc::new(ends));
        link.address(1, 2);
        link
    }

    /// The client's and the server's device names.
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

    /// A path over IPv4 between two fresh addresses, which no other lane shares: cutting it hurts nobody
    /// else.
    #[track_caller]
    pub fn lane(&self) -> Lane {
        self.lane_between(false, false)
    }

    /// The same over IPv6.
    #[track_caller]
    pub fn lane6(&self) -> Lane {
        self.lane_between(true, false)
    }

    /// The same over IPv4, where the server listens on the IPv6 wildcard and sees v4-mapped addresses.
    #[track_caller]
    pub fn lane_mapped(&self) -> Lane {
        self.lane_between(false, true)
    }

    /// The same over IPv6 link-local addresses, by which sockets are tied to their device.
    #[track_caller]
    pub fn lane_link_local(&self) -> Lane {
        let mut lane = self.lane_between(true, false);
        let [client, server] = [lane.client_ip, lane.server_ip].map(link_local);
        lane.scopes = (self.0.client.index(), self.0.server.index());
        let addresses = [(&self.0.client, client), (&self.0.server, server)];
        for (end, own) in addresses {
            let script = format!("addr add {own}/64 dev {} nodad\n", end.device);
            ip_batch(Some(end.namespace.name()), &script).must("give a link-local address");
        }
        (lane.client_ip, lane.server_ip) = (client, server);
        lane.mend(Toward::Client);
        lane.mend(Toward::Server);
        lane
    }

    #[track_caller]
    fn lane_between(&self, v6: bool, mapped: bool) -> Lane {
        let lane = self.0.lanes.fetch_add(1, Ordering::Relaxed);
        assert!(lane < 120, "lab: a link has room for 120 lanes");
        let (client, server) = (2 * lane + 1, 2 * lane + 2);
        self.address(client, server);
        Lane {
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

    /// Gives the ends one more address each in both families, and tells each where the other's is.
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
            ip_batch(Some(end.namespace.name()), &script).must("address a veth end");
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
    /// The interface's number.
    #[track_caller]
    fn index(&self) -> u32 {
        let index = || {
            let any = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            Ok::<_, io::Error>(name_to_index(any, &self.device)?)
        };
        self.namespace
            .run(index)
            .must(format_args!("the index of {}", self.device))
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
