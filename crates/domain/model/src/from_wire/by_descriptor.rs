//! Records of BPF walks over descriptors, and over the kernel's UDP table, to `Socket`.
//! The result must equal that of `sock_diag`. Called per record: must not allocate.

use super::WalkLayout;
use crate::{
    Cookie, Endpoint, Family, Inode, InterfaceIndex, NetnsInode, Protocol, Queues, Shutdown, Socket, State,
    Uid, UnixName,
};
use sockeye_wire::fd_sockets::{NetlinkEnds, UnixEnds};
use sockeye_wire::unix_diag::Name;
use sockeye_wire::walk::{KernelClock, Record, detail};

impl Socket {
    /// Reads a record of a pass over descriptors into this socket, with the same result as `sock_diag`.
    ///
    /// `None` stay: the info and the congestion control of an MPTCP connection, and a cookie that the kernel has not created
    /// yet.
    #[inline]
    pub fn read_by_descriptor(&mut self, record: &Record<'_>, now: Option<KernelClock>, kernel: &WalkLayout) {
        let family = Family::from_number(u8::try_from(record.family()).unwrap_or(u8::MAX));
        if matches!(family, Family::Inet | Family::Inet6) {
            self.read_inet_record(record, now, kernel, Protocol::from_inet(record));
            return;
        }
        let (protocol, state) = match family {
            Family::Packet => (Protocol::from_packet_type(record.socket_type()), State::Close),
            Family::Netlink => (Protocol::Netlink, State::from_netlink_number(record.state())),
            _ => (
                Protocol::from_unix_type(record.socket_type()),
                State::from_number(record.state()),
            ),
        };
        self.clear(protocol, state);
        self.family = family;
        self.inode = (record.inode() != 0).then_some(Inode(record.inode()));
        self.cookie = (record.cookie() != 0).then_some(Cookie(record.cookie()));
        self.netns = kernel.netns.then_some(NetnsInode(record.netns()));
        self.interface = (record.interface() != 0).then_some(InterfaceIndex(record.interface()));
        if record.has(detail::QUEUES) {
            self.queues = Queues::of(state, record.receive_queue(), record.send_queue());
        }
        // As with `sock_diag`, which does not report the user of a NETLINK socket.
        if record.has(detail::USER) && family != Family::Netlink {
            self.uid = Some(Uid(record.uid()));
        }
        self.memory = record.memory().map(Into::into);
        match family {
            Family::Unix => self.read_unix_part(record),
            Family::Packet if record.has(detail::ENDS) => {
                self.local = Endpoint::Packet {
                    ethertype: record.local_port(),
                    interface: self.interface,
                };
            }
            Family::Netlink => self.read_netlink_part(record),
            _ => {}
        }
    }

    fn read_unix_part(&mut self, record: &Record<'_>) {
        if record.has(detail::OPTIONS) {
            self.shutdown = Some(Shutdown::from_bits(record.shutdown()));
        }
        let ends = UnixEnds::of(record);
        self.local = Endpoint::Unix {
            name: ends.and_then(|ends| Name::parse(ends.name)).map(UnixName::from),
            inode: self.inode,
        };
        if let Some(peer) = ends.and_then(|ends| ends.peer) {
            self.peer = Endpoint::Unix {
                name: None,
                inode: (peer != 0).then_some(Inode(peer)),
            };
        }
    }

    fn read_netlink_part(&mut self, record: &Record<'_>) {
        let Some(ends) = NetlinkEnds::of(record) else {
            return;
        };
        let protocol = u8::try_from(record.protocol()).unwrap_or(u8::MAX);
        self.local = Endpoint::Netlink {
            protocol,
            port: ends.port,
            group: None,
        };
        // An unconnected socket has two zeros here, which would mean the kernel.
        if self.state != State::Close {
            self.peer = Endpoint::Netlink {
                protocol,
                port: ends.peer_port,
                group: (ends.peer_group != 0).then_some(ends.peer_group),
            };
        }
    }
}

impl Protocol {
    /// Returns the protocol of an IP socket by its type and protocol number.
    fn from_inet(record: &Record<'_>) -> Self {
        match (record.socket_type(), record.protocol()) {
            (SOCK_RAW, _) => Self::Raw,
            (_, IPPROTO_TCP) => Self::Tcp,
            (_, IPPROTO_UDP) => Self::Udp,
            (_, IPPROTO_UDPLITE) => Self::UdpLite,
            (_, IPPROTO_MPTCP) => Self::Mptcp,
            (_, other) => Self::Unknown(u8::try_from(other).unwrap_or(u8::MAX)),
        }
    }
}

const SOCK_RAW: u8 = 3;
const IPPROTO_TCP: u16 = 6;
const IPPROTO_UDP: u16 = 17;
const IPPROTO_UDPLITE: u16 = 136;
const IPPROTO_MPTCP: u16 = 262;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, Port};
    use sockeye_wire::fd_sockets::sockets;
    use sockeye_wire::holders::{Reply, SLOT_BYTES};

    const KERNEL: WalkLayout = WalkLayout {
        option_bits: None,
        has_cgroups: true,
        service_class: false,
        netns: true,
    };

    /// Reads a record with this `family` (with type and protocol number), `state`, `sections`, and these bytes after its
    /// head.
    fn socket(family: (u16, u8, u16), state: u8, sections: u32, behind: &[u8]) -> Socket {
        let bytes = 128 + u32::try_from(behind.len()).unwrap();
        let mut record = vec![0; 128];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &u16::try_from(bytes).unwrap().to_ne_bytes());
        put(2, &[1, state]);
        put(4, &family.0.to_ne_bytes());
        put(6, &u16::try_from(sections).unwrap().to_ne_bytes());
        put(16, &5_u64.to_ne_bytes());
        put(24, &4026_u32.to_ne_bytes());
        put(42, &[0xff, 0xff, 127, 0, 0, 1]);
        put(58, &[0xff, 0xff, 0, 0, 0, 0]);
        put(64, &0x0800_u16.to_ne_bytes());
        put(72, &3_u32.to_ne_bytes());
        put(76, &4_u32.to_ne_bytes());
        put(88, &77_u32.to_ne_bytes());
        put(92, &1000_u32.to_ne_bytes());
        put(96, &9_u32.to_ne_bytes());
        put(120, &[3, 1]);
        put(125, &[family.1]);
        put(126, &family.2.to_ne_bytes());
        let mut slot = vec![0; SLOT_BYTES];
        let records = SLOT_BYTES - 512 * 1024;
        let file: Vec<u8> = [0, 0, 77, bytes]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        for (at, bytes) in [
            (256, &1_u32.to_ne_bytes()[..]),
            (260, &(16 + bytes).to_ne_bytes()[..]),
            (records, &file),
            (records + 16, &record),
            (records + 144, behind),
        ] {
            slot[at..at + bytes.len()].copy_from_slice(bytes);
        }
        let reply = Reply::read(&slot).unwrap();
        let found = sockets(&slot, &reply).next().unwrap();
        // Into a value that had another socket.
        let mut socket = Socket::new(Protocol::Tcp, State::Listen);
        socket.tcp_info = Some(crate::TcpInfo::default());
        socket.uid = Some(Uid(12345));
        socket.read_by_descriptor(&found.socket, None, &KERNEL);
        socket
    }

    const ALL: u32 =
        detail::QUEUES | detail::INODE | detail::USER | detail::OPTIONS | detail::MEMORY | detail::ENDS;

    fn memory() -> Memory {
        let none = Some(0);
        Memory {
            rmem_alloc_bytes: none,
            rcvbuf_bytes: none,
            wmem_alloc_bytes: none,
            sndbuf_bytes: none,
            fwd_alloc_bytes: none,
            wmem_queued_bytes: none,
            optmem_bytes: none,
            backlog_bytes: none,
            drops: none,
        }
    }

    #[test]
    fn udp_socket_has_all_fields() {
        let found = socket((2, 2, 17), 7, ALL, &[0; 40]);
        assert_eq!(
            (found.protocol, found.family, found.state),
            (Protocol::Udp, Family::Inet, State::Close)
        );
        assert_eq!(found.local, Endpoint::inet([127, 0, 0, 1].into(), Port(0x0800)));
        let queues = Queues::Data {
            receive_bytes: 3,
            send_bytes: 4,
        };
        assert_eq!((found.queues, found.uid), (queues, Some(Uid(1000))));
        assert_eq!((found.inode, found.cookie), (Some(Inode(77)), Some(Cookie(5))));
        assert_eq!((found.netns, found.mark), (Some(NetnsInode(4026)), Some(9)));
        assert_eq!(
            (found.shutdown, found.memory),
            (Some(Shutdown::from_bits(3)), Some(memory()))
        );
        assert_eq!((found.v6only, found.options), (None, None));
        assert!(found.is_listener());
    }

    #[test]
    fn ip_protocol_follows_from_type_and_number() {
        let protocol = |kind, number| socket((10, kind, number), 1, 0, &[]).protocol;
        assert_eq!(protocol(2, 136), Protocol::UdpLite);
        assert_eq!(protocol(1, 262), Protocol::Mptcp);
        assert_eq!((protocol(3, 58), protocol(3, 17)), (Protocol::Raw, Protocol::Raw));
        assert_eq!(
            (protocol(1, 132), protocol(1, 300)),
            (Protocol::Unknown(132), Protocol::Unknown(255))
        );
    }

    #[test]
    fn unix_socket_has_abstract_name_and_peer() {
        let mut behind = vec![0; 40];
        behind.extend_from_slice(&55_u32.to_ne_bytes());
        behind.extend_from_slice(&[1, 0]);
        behind.extend_from_slice(&4_u16.to_ne_bytes());
        behind.extend_from_slice(b"\0a\0b\0\0\0\0");
        let found = socket((1, 5, 0), 10, ALL, &behind);
        assert_eq!(
            (found.protocol, found.state),
            (Protocol::UnixSeqpacket, State::Listen)
        );
        let local = Endpoint::Unix {
            name: Some(UnixName::new(b"\0a\0b")),
            inode: Some(Inode(77)),
        };
        let peer = Endpoint::Unix {
            name: None,
            inode: Some(Inode(55)),
        };
        assert_eq!((found.local, found.peer), (local, peer));
        let queues = Queues::Accept {
            waiting: 3,
            backlog: Some(4),
        };
        assert_eq!((found.queues, found.uid), (queues, Some(Uid(1000))));
        assert_eq!(
            (found.shutdown, found.memory),
            (Some(Shutdown::from_bits(3)), Some(memory()))
        );
        // Fields of IP sockets at the same offset are ignored.
        assert_eq!(
            (found.mark, found.cgroup, found.tos, found.timer),
            (None, None, None, None)
        );
    }

    #[test]
    fn packet_socket_without_ends_has_no_endpoint() {
        let found = socket((17, 3, 8), 7, ALL, &[0; 40]);
        assert_eq!((found.protocol, found.state), (Protocol::PacketRaw, State::Close));
        let local = Endpoint::Packet {
            ethertype: 0x0800,
            interface: None,
        };
        assert_eq!((found.local, found.uid), (local, Some(Uid(1000))));
        assert_eq!(
            socket((17, 2, 8), 7, 0, &[]).local,
            Endpoint::None,
            "the record has no endpoints"
        );
    }

    #[test]
    fn unconnected_netlink_socket_has_no_peer() {
        let part: Vec<u8> = [1234_u32, 0, 3, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let found = socket((16, 3, 4), 1, detail::ENDS | detail::USER, &part);
        let (local, peer) = (
            Endpoint::Netlink {
                protocol: 4,
                port: 1234,
                group: None,
            },
            Endpoint::Netlink {
                protocol: 4,
                port: 0,
                group: Some(3),
            },
        );
        assert_eq!((found.local, found.peer), (local, peer));
        assert_eq!(
            (found.uid, found.queues, found.memory),
            (None, Queues::Unknown, None)
        );
        assert_eq!(socket((16, 3, 4), 7, detail::ENDS, &part).peer, Endpoint::None);
    }

    #[test]
    fn unknown_numbers_are_kept() {
        let found = socket((99, 9, 0), 77, ALL, &[0; 40]);
        assert_eq!(
            (found.protocol, found.family, found.state),
            (Protocol::Unknown(9), Family::Unknown(99), State::Unknown(77))
        );
        assert_eq!((found.local, found.inode), (Endpoint::None, Some(Inode(77))));
    }
}
