//! A packet as far as it is known: what a connection sends and receives follows from its socket, but not each bit.

use sockeye_model::{DeviceName, InterfaceIndex, Socket, State};
use std::net::IpAddr;

/// A byte of which some bits are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bits {
    pub(super) value: u8,
    pub(super) known: u8,
}

impl Bits {
    pub(super) const fn new(value: u8) -> Self {
        Self { value, known: 0xff }
    }
}

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    Incoming,
    Outgoing,
    Forwarded,
}

/// What is known about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceKnown {
    Is(InterfaceIndex, DeviceName),
    /// Any but loopback
    NotLoopback,
    /// Any
    Unknown,
}

impl DeviceKnown {
    const fn name(self) -> Option<DeviceName> {
        match self {
            Self::Is(_, name) => Some(name),
            Self::NotLoopback | Self::Unknown => None,
        }
    }
}

/// A packet of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Syn,
    SynAck,
    /// Data or an acknowledgement
    Established,
    /// ICMP: a router cannot forward a packet that is too large
    TooBig,
    /// A datagram of UDP
    Datagram,
    /// What asks for the link address of a neighbour: ARP, or ICMPv6
    NeighbourQuestion,
    /// The answer to that
    NeighbourAnswer,
}

impl Content {
    const fn is_discovery(self) -> bool {
        matches!(self, Self::NeighbourQuestion | Self::NeighbourAnswer)
    }
}

/// A packet.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(super) direction: Direction,
    pub(super) is_ipv6: bool,
    /// Whether it is ARP, and not IP
    pub(super) is_arp: bool,
    pub(super) protocol: u8,
    pub(super) network: Vec<Bits>,
    pub(super) transport: Vec<Bits>,
    pub(super) device: DeviceKnown,
    /// The device at which it enters or leaves this host; `None` if unknown
    pub(super) link_device: Option<DeviceName>,
    /// Whether a bridge may pass it on
    pub(super) may_be_bridged: bool,
    pub(super) mark: Option<u32>,
    pub(super) user: Option<u32>,
    /// State of the tracked connection; `None` if unknown
    pub(super) connection_state: Option<u32>,
}

/// An address and a port; `None` is unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: Option<u16>,
}

impl End {
    pub(crate) fn of(endpoint: &sockeye_model::Endpoint) -> Self {
        Self {
            ip: endpoint.ip().map(|ip| ip.to_canonical()),
            port: endpoint.port().map(|port| port.0),
        }
    }
}

impl Packet {
    /// What a TCP socket sends now, or waits for.
    pub(crate) fn of(socket: &Socket, direction: Direction, device: DeviceKnown) -> Option<Self> {
        let (local, peer) = (End::of(&socket.local), End::of(&socket.peer));
        let is_ipv6 = local.ip?.is_ipv6();
        let content = match (socket.state, direction) {
            (State::SynSent, Direction::Outgoing) => Content::Syn,
            (State::SynSent, Direction::Incoming)
            | (State::SynRecv | State::NewSynRecv, Direction::Outgoing) => Content::SynAck,
            _ => Content::Established,
        };
        let (from, to) = match direction {
            Direction::Outgoing => (local, peer),
            Direction::Incoming | Direction::Forwarded => (peer, local),
        };
        let mut packet = Self::new(content, is_ipv6, from, to, direction, device);
        if direction == Direction::Outgoing {
            packet.mark = socket.mark;
            packet.user = socket.uid.map(|uid| uid.0);
        }
        Some(packet)
    }

    /// Returns the packet as it comes in again through loopback; `None` if it goes another way.
    pub(crate) fn looped(&self) -> Option<Self> {
        let is_looped = self.direction == Direction::Outgoing
            && matches!(self.device, DeviceKnown::Is(_, name) if name.as_bytes() == b"lo");
        is_looped.then(|| Self {
            direction: Direction::Incoming,
            user: None,
            ..self.clone()
        })
    }

    pub(crate) fn new(
        content: Content,
        is_ipv6: bool,
        from: End,
        to: End,
        direction: Direction,
        device: DeviceKnown,
    ) -> Self {
        if content.is_discovery() && !is_ipv6 {
            return Self::arp(content, from, to, direction, device);
        }
        let protocol = match (content, is_ipv6) {
            (Content::TooBig, false) => 1,
            (Content::TooBig | Content::NeighbourQuestion | Content::NeighbourAnswer, _) => 58,
            (Content::Datagram, _) => 17,
            _ => 6,
        };
        let unknown = Bits::default();
        let mut network = vec![unknown; if is_ipv6 { 40 } else { 20 }];
        let (protocol_at, source_at) = if is_ipv6 { (6, 8) } else { (9, 12) };
        network[protocol_at] = Bits::new(protocol);
        if !is_ipv6 {
            network[0] = Bits::new(0x45);
            // Not a later fragment: the offset is 0.
            network[6] = Bits {
                value: 0,
                known: 0x1f,
            };
            network[7] = Bits::new(0);
        }
        let len = if is_ipv6 { 16 } else { 4 };
        put_ip(&mut network[source_at..source_at + len], from.ip);
        put_ip(&mut network[source_at + len..source_at + 2 * len], to.ip);
        let mut transport = vec![unknown; 20];
        if content == Content::TooBig || content.is_discovery() {
            let (kind, code) = match content {
                Content::NeighbourQuestion => (135, 0),
                Content::NeighbourAnswer => (136, 0),
                _ if is_ipv6 => (2, 0),
                _ => (3, 4),
            };
            transport.truncate(8);
            transport[0] = Bits::new(kind);
            transport[1] = Bits::new(code);
        } else {
            put_port(&mut transport[..2], from.port);
            put_port(&mut transport[2..4], to.port);
            if content == Content::Datagram {
                transport.truncate(8);
            }
            let flags = match content {
                Content::Syn => Bits {
                    value: SYN,
                    known: !ECN_FLAGS,
                },
                Content::SynAck => Bits {
                    value: SYN | ACK,
                    known: !ECN_FLAGS,
                },
                _ => Bits {
                    value: ACK,
                    known: ACK | SYN | FIN | RST,
                },
            };
            if let Some(place) = transport.get_mut(13) {
                *place = flags;
            }
        }
        Self {
            direction,
            is_ipv6,
            is_arp: false,
            protocol,
            network,
            transport,
            device,
            link_device: device.name(),
            may_be_bridged: false,
            mark: None,
            user: None,
            connection_state: match content {
                Content::Syn => Some(NF_CT_STATE_NEW),
                // The kernel tracks no neighbour discovery.
                _ if content.is_discovery() => Some(NF_CT_STATE_UNTRACKED),
                _ => None,
            },
        }
    }

    /// A packet whose headers were captured, from the IP header on; `None` if they are too short, or there are extension headers.
    pub(crate) fn captured(headers: &[u8], direction: Direction, device: DeviceKnown) -> Option<Self> {
        let first = *headers.first()?;
        let is_ipv6 = first >> 4 == 6;
        let (network_bytes, protocol) = if is_ipv6 {
            (40, *headers.get(6)?)
        } else {
            (usize::from(first & 0xf) * 4, *headers.get(9)?)
        };
        // A later fragment has no ports, and an extension header is none of a transport.
        let is_whole = is_ipv6 || (*headers.get(6)? & 0x1f, *headers.get(7)?) == (0, 0);
        if network_bytes < 20 || !is_whole || (is_ipv6 && EXTENSIONS.contains(&protocol)) {
            return None;
        }
        let known = |bytes: &[u8]| bytes.iter().map(|byte| Bits::new(*byte)).collect();
        Some(Self {
            direction,
            is_ipv6,
            is_arp: false,
            protocol,
            network: known(headers.get(..network_bytes)?),
            transport: known(headers.get(network_bytes..)?),
            device,
            link_device: device.name(),
            may_be_bridged: false,
            mark: None,
            user: None,
            connection_state: None,
        })
    }

    /// `struct arphdr` with the addresses of Ethernet and IPv4.
    fn arp(content: Content, from: End, to: End, direction: Direction, device: DeviceKnown) -> Self {
        let mut network = vec![Bits::default(); 28];
        let operation = u8::from(content == Content::NeighbourAnswer) + 1;
        let fixed = [0, 1, 8, 0, 6, 4, 0, operation];
        for (place, byte) in network.iter_mut().zip(fixed) {
            *place = Bits::new(byte);
        }
        put_ip(&mut network[14..18], from.ip);
        put_ip(&mut network[24..28], to.ip);
        Self {
            direction,
            is_ipv6: false,
            is_arp: true,
            protocol: 0,
            network,
            transport: Vec::new(),
            device,
            link_device: device.name(),
            may_be_bridged: false,
            mark: None,
            user: None,
            connection_state: None,
        }
    }

    /// The same as rules of a bridge see it: of the device of a packet that is passed on it is unknown whether it is the one that it came from or goes to.
    pub(crate) fn in_bridge(&self) -> Self {
        Self {
            device: DeviceKnown::Unknown,
            ..self.clone()
        }
    }

    /// Sets the device at which it probably comes in: that of the way to the peer.
    pub(crate) fn through(mut self, device: Option<DeviceName>) -> Self {
        self.link_device = device.or(self.link_device);
        self
    }
}

fn put_ip(place: &mut [Bits], ip: Option<IpAddr>) {
    let bytes = match ip {
        Some(IpAddr::V4(ip)) => ip.octets().to_vec(),
        Some(IpAddr::V6(ip)) => ip.octets().to_vec(),
        None => return,
    };
    for (bits, byte) in place.iter_mut().zip(bytes) {
        *bits = Bits::new(byte);
    }
}

fn put_port(place: &mut [Bits], port: Option<u16>) {
    let Some(port) = port else { return };
    for (bits, byte) in place.iter_mut().zip(port.to_be_bytes()) {
        *bits = Bits::new(byte);
    }
}

/// Hop-by-hop options, routing, fragment, destination options.
const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// ECE and CWR: a SYN has them if the host wants ECN.
const ECN_FLAGS: u8 = 0xc0;
/// `NF_CT_STATE_BIT(IP_CT_NEW)`
const NF_CT_STATE_NEW: u32 = 1 << 3;
/// `NF_CT_STATE_UNTRACKED_BIT`
const NF_CT_STATE_UNTRACKED: u32 = 1 << 6;
