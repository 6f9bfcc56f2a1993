//! The measured path: two namespaces with a veth pair, with or without a tunnel over it.

use super::failure::{Failure, Step};
use super::forward::{Forwarder, Framing};
use super::tunnel::{Carrier, Tunnel};
use crate::private_netns::PrivateNetns;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use sockeye_act::{Interfaces, RouteError};
use sockeye_model::Vitals;
use sockeye_source::vitals;
use sockeye_sys::{tun, udp_offload};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The path between the sender and the receiver, removed when dropped.
#[derive(Debug)]
pub(super) struct Path {
    // The forwarder's threads have to end before the descriptors they use.
    pub(super) forwarder: Option<Forwarder>,
    pub(super) client: PrivateNetns,
    pub(super) server: PrivateNetns,
    /// Name of the device at both ends.
    pub(super) device: &'static str,
    /// Address of the server.
    pub(super) target: IpAddr,
}

impl Path {
    pub(super) fn build(tunnel: Option<&Tunnel>) -> Result<Self, Failure> {
        let (client, server) = (new_netns()?, new_netns()?);
        within(&client, || -> Result<(), RouteError> {
            let mut interfaces = Interfaces::open()?;
            interfaces.pair(VETH, VETH, server.as_fd())
        })?
        .map_err(|refusal| Step::Pair.failed(refusal))?;
        for (netns, host) in [(&client, 1), (&server, 2)] {
            within(netns, || address(VETH, underlay(host)))??;
        }
        for netns in [&client, &server] {
            within(netns, await_running)??;
        }
        let mut path = Self {
            forwarder: None,
            client,
            server,
            device: VETH,
            target: underlay(2).into(),
        };
        if let Some(tunnel) = tunnel {
            path.forwarder = Some(path.build_tunnel(tunnel)?);
            path.device = DEVICE;
            path.target = inside(2).into();
        }
        Ok(path)
    }

    fn build_tunnel(&self, tunnel: &Tunnel) -> Result<Forwarder, Failure> {
        let ends = [
            within(&self.client, || end(tunnel, 1))??,
            within(&self.server, || end(tunnel, 2))??,
        ];
        let mut forwarder = Forwarder::new()?;
        for (number, (near, far)) in ends[0].iter().zip(&ends[1]).enumerate() {
            match tunnel.carrier {
                Carrier::Direct => {
                    for (from, to) in [(near, far), (far, near)] {
                        forwarder.carry(Arc::clone(from), Arc::clone(to), Framing::None)?;
                    }
                }
                Carrier::Udp => {
                    let port = FIRST_PORT + u16::try_from(number).unwrap_or_default();
                    for (netns, device, hosts) in [(&self.client, near, [1, 2]), (&self.server, far, [2, 1])]
                    {
                        let socket = within(netns, || socket(tunnel, hosts, port))??;
                        let socket = Arc::new(socket);
                        forwarder.carry(Arc::clone(device), Arc::clone(&socket), Framing::Wrap)?;
                        forwarder.carry(socket, Arc::clone(device), Framing::Unwrap)?;
                    }
                }
            }
        }
        Ok(forwarder)
    }

    /// Returns the counters of both namespaces.
    pub(super) fn vitals(&self) -> Result<[Vitals; 2], Failure> {
        Ok([
            within(&self.client, vitals::namespace)?,
            within(&self.server, vitals::namespace)?,
        ])
    }
}

fn new_netns() -> Result<PrivateNetns, Failure> {
    PrivateNetns::new().map_err(|refusal| Step::Namespace.failed(refusal))
}

/// Runs `act` in a namespace, on a thread of its own.
pub(super) fn within<T: Send>(netns: &PrivateNetns, act: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    netns.within(act).map_err(|errno| Step::Enter.failed(errno))
}

/// One end of the tunnel, in the namespace of the calling thread: the descriptors of its queues.
fn end(tunnel: &Tunnel, host: u8) -> Result<Vec<Arc<OwnedFd>>, Failure> {
    let kind = tun::Kind {
        is_tap: tunnel.is_tap,
        has_header: tunnel.offload,
        has_queues: tunnel.queues > 1,
    };
    let mut queues = Vec::new();
    for _ in 0..tunnel.queues.max(1) {
        let queue = tun::queue(DEVICE, kind).map_err(|errno| Step::Device.failed(errno))?;
        if tunnel.offload {
            let set = tun::set_header_len(&queue, tun::HEADER_LEN).and_then(|()| tun::set_offload(&queue));
            set.map_err(|errno| Step::Offload.failed(errno))?;
        }
        queues.push(Arc::new(queue));
    }
    let mut interfaces = Interfaces::open().map_err(|refusal| Step::Address.failed(refusal))?;
    let index = interfaces
        .index(DEVICE)
        .map_err(|refusal| Step::Device.failed(refusal))?;
    interfaces
        .set_queue_length(index, tunnel.queue_packets)
        .map_err(|refusal| Step::QueueLength.failed(refusal))?;
    if tunnel.carrier == Carrier::Udp {
        interfaces
            .set_mtu(index, TUNNEL_MTU)
            .map_err(|refusal| Step::Address.failed(refusal))?;
    }
    address(DEVICE, inside(host))?;
    Ok(queues)
}

fn socket(tunnel: &Tunnel, [own, other]: [u8; 2], port: u16) -> Result<OwnedFd, Failure> {
    let failed = |error: std::io::Error| Step::Carrier.failed_io(&error);
    let socket = UdpSocket::bind((underlay(own), port)).map_err(failed)?;
    socket.connect((underlay(other), port)).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    let set = set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES).and_then(|()| {
        if tunnel.offload {
            udp_offload::set_segment_size(&socket, DATAGRAM_BYTES)?;
            udp_offload::enable_gro(&socket)?;
        }
        Ok(())
    });
    set.map_err(|errno| Step::Carrier.failed(errno))?;
    Ok(socket.into())
}

fn address(device: &str, ip: Ipv4Addr) -> Result<(), Failure> {
    let give = || -> Result<(), RouteError> {
        let mut interfaces = Interfaces::open()?;
        let index = interfaces.index(device)?;
        interfaces.add_address(index, ip.into(), 24)?;
        interfaces.bring_up(index)
    };
    give().map_err(|refusal| Step::Address.failed(refusal))
}

/// Waits until the veth pair of the calling thread's namespace forwards packets. Before, it drops them (`noop_qdisc`), and
/// TCP would wait for its retransmission timer.
fn await_running() -> Result<(), Failure> {
    let until = Instant::now() + RUNNING_TIMEOUT;
    let mut interfaces = Interfaces::open().map_err(|refusal| Step::Pair.failed(refusal))?;
    while !interfaces
        .is_running(VETH)
        .map_err(|refusal| Step::Pair.failed(refusal))?
    {
        if Instant::now() > until {
            return Err(Step::Pair.failed(Errno::NETDOWN));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn underlay(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 91, 0, host)
}

fn inside(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 92, 0, host)
}

const VETH: &str = "veth0";
pub(super) const DEVICE: &str = "tun0";
/// The kernel reports a carrier with up to a second of delay (`net/core/link_watch.c`).
const RUNNING_TIMEOUT: Duration = Duration::from_secs(5);
const FIRST_PORT: u16 = 1194;
/// Fits, with its length and UDP over IPv4, into a packet of 1500 bytes.
const TUNNEL_MTU: u32 = 1420;
const DATAGRAM_BYTES: u16 = 1472;
const SOCKET_BYTES: usize = 16 << 20;
