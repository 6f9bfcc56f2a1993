//! A veth pair between two namespaces: makes the devices, addresses and permanent neighbour entries with
//! `ip`. `lab.rs` creates it; `net_path.rs` makes paths over it.

use crate::Namespace;
use crate::or_panic::OrPanic;
use crate::program::ip_batch;
use crate::wait::wait_until;
use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A veth pair between two namespaces.
///
/// Neighbour entries are permanent, so that no ARP or NDP is needed, and so that a path can be
/// [cut](crate::NetPath::cut) in one direction by a wrong entry.
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
        link.0.client.wait_until_it_sends();
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

    /// Adds an address per family to both ends, for one more path; returns the client's and the server's of one family.
    #[track_caller]
    pub(crate) fn next_addresses(&self, v6: bool) -> (IpAddr, IpAddr) {
        let net_path = self.0.net_paths.fetch_add(1, Ordering::Relaxed);
        assert!(net_path < 120, "lab: a link has room for 120 paths");
        let (client, server) = (2 * net_path + 1, 2 * net_path + 2);
        self.address(client, server);
        (self.ip(client, v6), self.ip(server, v6))
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
        for (end, own) in [(a, client), (b, server)] {
            end.wait_until_it_receives(self.ip(own, true));
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
    /// Waits until the device sends what it is given. That which comes up first has no carrier then: a worker of the kernel gives it its queue
    /// when the other end is up, and until then every packet is dropped. `ip` has its answer from the kernel when that worker is done.
    #[track_caller]
    fn wait_until_it_sends(&self) {
        wait_until(format_args!("{} to be up", self.device), || {
            let shown = self
                .namespace
                .output("ip", &["-o", "link", "show", "dev", &self.device]);
            shown.contains(" state UP ")
        });
    }

    /// Waits until the device accepts what is sent to its address. A worker of the kernel adds the local route of an IPv6 address, after
    /// `ip` has its answer, and until then every packet to it is dropped.
    #[track_caller]
    fn wait_until_it_receives(&self, address: IpAddr) {
        let IpAddr::V6(v6) = address else { return };
        let local_route = format!("{:032x} 80 ", u128::from(v6));
        wait_until(format_args!("the local route of {v6}"), || {
            let routes = self.namespace.proc_net("ipv6_route");
            routes.lines().any(|line| line.starts_with(&local_route))
        });
    }

    /// The interface index.
    #[track_caller]
    pub(crate) fn index(&self) -> u32 {
        let index = || {
            let any = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            Ok::<_, io::Error>(name_to_index(any, &self.device)?)
        };
        self.namespace
            .run(index)
            .or_panic(format_args!("the index of {}", self.device))
    }
}
