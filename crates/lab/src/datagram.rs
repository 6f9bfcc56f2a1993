//! Makes UDP, UDP-Lite, raw, packet and netlink sockets in a namespace: the counterpart of `tcp.rs` and
//! `unix.rs`.

use crate::or_panic::OrPanic;
use crate::tcp::bound;
use crate::{LabSocket, Namespace, NetPath, Pair, Protocol, Skip, SocketOptions, State};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;

impl Namespace {
    /// A UDP socket bound to this address.
    #[track_caller]
    pub fn udp_bound(&self, local: &str, options: &SocketOptions) -> LabSocket {
        datagram(
            self,
            Protocol::Udp,
            local.parse().or_panic(format_args!("the address {local}")),
            options,
        )
        .or_panic(format_args!("bind UDP {local}"))
    }

    /// A UDP-Lite socket bound to this address; skips on a kernel without UDP-Lite.
    pub fn udp_lite_bound(&self, local: &str, options: &SocketOptions) -> Result<LabSocket, Skip> {
        let local = local.parse().or_panic(format_args!("the address {local}"));
        datagram(self, Protocol::UdpLite, local, options)
            .map_err(|error| Skip::new(format!("no UDP-Lite socket from this kernel: {error}")))
    }

    /// A raw IPv4 (or IPv6) socket for an IP protocol number: ICMP is 1, ICMPv6 58.
    #[track_caller]
    pub fn raw(&self, protocol: u8, v6: bool) -> LabSocket {
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        self.unbound(domain, Type::RAW, i32::from(protocol), Protocol::Raw(protocol))
    }

    /// A packet socket for an ethertype (ETH_P_ALL is 3) on every interface.
    #[track_caller]
    pub fn packet(&self, ethertype: u16) -> LabSocket {
        // socket(AF_PACKET) takes it in network order.
        let number = i32::from(ethertype.to_be());
        self.unbound(Domain::PACKET, Type::RAW, number, Protocol::Packet(ethertype))
    }

    /// A netlink socket of this family (NETLINK_ROUTE is 0), bound to a port id chosen by the kernel.
    #[track_caller]
    pub fn netlink(&self, family: u8) -> LabSocket {
        // include/linux/socket.h: AF_NETLINK
        let lab_socket = self.unbound(
            Domain::from(16),
            Type::RAW,
            i32::from(family),
            Protocol::Netlink(family),
        );
        let any = rustix::net::netlink::SocketAddrNetlink::new(0, 0);
        rustix::net::bind(lab_socket.socket(), &any).or_panic("bind a netlink socket");
        lab_socket
    }

    #[track_caller]
    fn unbound(&self, domain: Domain, kind: Type, number: i32, protocol: Protocol) -> LabSocket {
        let number = Some(socket2::Protocol::from(number));
        let socket = self
            .run(|| Socket::new(domain, kind, number))
            .or_panic(format_args!("make a socket of {protocol:?}"));
        LabSocket::of(socket, self, protocol, State::Close)
    }
}

impl NetPath {
    /// Two connected UDP sockets (the kernel calls them ESTABLISHED), without a listener.
    ///
    /// On a v4-mapped path the server's is an IPv6 socket with v4-mapped addresses.
    #[track_caller]
    pub fn udp_connected(&self) -> Pair {
        let client = self.at_client(self.client_ip(), 0);
        let server = self.at_server(self.server_ip(), 0);
        let mut client =
            datagram(self.client(), Protocol::Udp, client, &self.client_options).or_panic("bind UDP");
        let mut server =
            datagram(self.server(), Protocol::Udp, server, &self.server_options).or_panic("bind UDP");
        let to_server = self.at_client(self.server_ip(), server.port());
        let to_client = self.at_server(self.client_ip(), client.port());
        for (end, to) in [(&mut client, to_server), (&mut server, to_client)] {
            end.socket()
                .connect(&SockAddr::from(to))
                .or_panic(format_args!("connect UDP to {to}"));
            end.peer = Some(to);
            end.state = State::Established;
        }
        Pair {
            client,
            server,
            listener: None,
        }
    }
}

fn datagram(
    namespace: &Namespace,
    protocol: Protocol,
    local: SocketAddr,
    options: &SocketOptions,
) -> io::Result<LabSocket> {
    let socket = namespace.run(|| bound(protocol, local, options))?;
    Ok(LabSocket::of(socket, namespace, protocol, State::Close))
}
