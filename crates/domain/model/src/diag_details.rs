//! Rare attributes of diag messages that only the `ss` drop-in prints (TLS, MD5 keys, rings, BPF filters).
//! They borrow from the message and stay out of `Socket`, so that it keeps its fixed size.

use crate::{Protocol, Ulp};
use sockeye_wire::inet_diag::{self, InetDiag};
use sockeye_wire::netlink_diag::{self, Groups, NetlinkDiag};
use sockeye_wire::packet_diag::{self, PacketDiag};
use sockeye_wire::unix_diag::{self, UnixDiag};

pub use sockeye_wire::packet_diag::{Fanout, Info as PacketInfo, Ring};
pub use sockeye_wire::unix_diag::Vfs;
pub use sockeye_wire::upper_layer::{Md5Key, Subflow, Tls};

/// Attributes of a diag message that [`crate::Socket`] lacks because they are rare or of variable size: lists, keys, the
/// geometry of rings.
///
/// Borrowed from the socket's message, in the kernel's terms.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiagDetails<'a> {
    /// Inode and device of the file that a UNIX socket is bound to.
    pub file: Option<Vfs>,
    /// See [`DiagDetails::waiting`].
    waiting: Option<&'a [u8]>,
    /// Settings of a PACKET socket.
    pub packet: Option<PacketInfo>,
    /// Receive ring of a PACKET socket.
    pub receive_ring: Option<Ring>,
    /// Transmit ring of a PACKET socket.
    pub transmit_ring: Option<Ring>,
    /// Fanout group of a PACKET socket.
    pub fanout: Option<Fanout>,
    /// See [`DiagDetails::filter`].
    filter: Option<&'a [u8]>,
    /// Multicast groups 1 to 32 that a NETLINK socket has joined, as bits.
    pub groups: Option<u32>,
    /// See [`DiagDetails::md5_keys`].
    md5_keys: Option<&'a [u8]>,
    /// Name of the upper layer protocol on TCP.
    pub upper_layer: Option<Ulp>,
    /// State of kernel TLS, if that is the upper layer.
    pub tls: Option<Tls>,
    /// State of the MPTCP subflow, if that is the upper layer.
    pub subflow: Option<Subflow>,
    /// Limit of laminar endpoints of an MPTCP connection.
    pub laminar_endpoints_max: Option<u8>,
}

/// An instruction of classic BPF, `struct sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the kernel's names
pub struct Instruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

impl<'a> DiagDetails<'a> {
    /// No details.
    pub const NONE: &'static DiagDetails<'static> = &DiagDetails {
        file: None,
        waiting: None,
        packet: None,
        receive_ring: None,
        transmit_ring: None,
        fanout: None,
        filter: None,
        groups: None,
        md5_keys: None,
        upper_layer: None,
        tls: None,
        subflow: None,
        laminar_endpoints_max: None,
    };

    /// Parses the payload of the diag message of a socket of this protocol. A malformed attribute is absent; it was counted
    /// when the socket itself was read from the message.
    #[must_use]
    pub fn read(protocol: Protocol, payload: &'a [u8]) -> Self {
        match protocol {
            Protocol::UnixStream | Protocol::UnixDgram | Protocol::UnixSeqpacket => Self::of_unix(payload),
            Protocol::PacketRaw | Protocol::PacketDgram => Self::of_packet(payload),
            Protocol::Netlink => Self::of_netlink(payload),
            Protocol::Tcp => Self::of_tcp(payload),
            Protocol::Mptcp => Self::of_mptcp(payload),
            _ => Self::default(),
        }
    }

    /// Returns the inodes of the connections that wait to be accepted by a UNIX listener, 0 for one that is gone; `None` if
    /// the socket is no listener.
    #[must_use]
    pub fn waiting(&self) -> Option<impl Iterator<Item = u32> + 'a> {
        self.waiting.map(unix_diag::waiting)
    }

    /// Returns the classic BPF program of a PACKET socket; `None` if there is none.
    #[must_use]
    pub fn filter(&self) -> Option<impl ExactSizeIterator<Item = Instruction> + 'a> {
        let instruction = |bytes: &[u8]| Instruction {
            code: u16::from_ne_bytes([bytes[0], bytes[1]]),
            jt: bytes[2],
            jf: bytes[3],
            k: u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        };
        self.filter.map(|filter| filter.chunks_exact(8).map(instruction))
    }

    /// Returns the keys of TCP MD5 signatures; `None` if there are none, or we may not see them.
    #[must_use]
    pub fn md5_keys(&self) -> Option<impl Iterator<Item = Md5Key<'a>> + 'a> {
        self.md5_keys.map(sockeye_wire::upper_layer::md5_keys)
    }

    fn of_unix(payload: &'a [u8]) -> Self {
        let mut found = Self::default();
        for attribute in UnixDiag::parse(payload)
            .iter()
            .flat_map(UnixDiag::attributes)
            .flatten()
        {
            match attribute.kind {
                unix_diag::attribute::VFS => found.file = Vfs::parse(attribute.payload),
                unix_diag::attribute::ICONS => found.waiting = Some(attribute.payload),
                _ => {}
            }
        }
        found
    }

    fn of_packet(payload: &'a [u8]) -> Self {
        let mut found = Self::default();
        for attribute in PacketDiag::parse(payload)
            .iter()
            .flat_map(PacketDiag::attributes)
            .flatten()
        {
            let payload = attribute.payload;
            match attribute.kind {
                packet_diag::attribute::INFO => found.packet = PacketInfo::parse(payload),
                packet_diag::attribute::RX_RING => found.receive_ring = Ring::parse(payload),
                packet_diag::attribute::TX_RING => found.transmit_ring = Ring::parse(payload),
                packet_diag::attribute::FANOUT => found.fanout = attribute.u32().map(Fanout::from_number),
                packet_diag::attribute::FILTER => found.filter = Some(payload),
                _ => {}
            }
        }
        found
    }

    fn of_netlink(payload: &'a [u8]) -> Self {
        let mut found = Self::default();
        for attribute in NetlinkDiag::parse(payload)
            .iter()
            .flat_map(NetlinkDiag::attributes)
            .flatten()
        {
            if attribute.kind == netlink_diag::attribute::GROUPS {
                found.groups = Groups::new(attribute.payload).first_32();
            }
        }
        found
    }

    fn of_tcp(payload: &'a [u8]) -> Self {
        let mut found = Self::default();
        for attribute in InetDiag::parse(payload)
            .iter()
            .flat_map(InetDiag::attributes)
            .flatten()
        {
            match attribute.kind {
                inet_diag::attribute::MD5SIG => found.md5_keys = Some(attribute.payload),
                inet_diag::attribute::ULP_INFO => found.read_upper_layer(attribute.payload),
                _ => {}
            }
        }
        found
    }

    fn of_mptcp(payload: &'a [u8]) -> Self {
        let mut found = Self::default();
        for attribute in InetDiag::parse(payload)
            .iter()
            .flat_map(InetDiag::attributes)
            .flatten()
        {
            if attribute.kind == inet_diag::attribute::INFO {
                let info = inet_diag::MptcpInfo::new(attribute.payload);
                found.laminar_endpoints_max = info.laminar_endpoints_max();
            }
        }
        found
    }

    fn read_upper_layer(&mut self, payload: &'a [u8]) {
        for nested in sockeye_wire::netlink::Attributes::new(payload).flatten() {
            match nested.kind {
                inet_diag::ulp::NAME => self.upper_layer = Some(Ulp::from_c(nested.payload)),
                inet_diag::ulp::TLS => self.tls = Some(Tls::parse(nested.payload)),
                inet_diag::ulp::MPTCP => self.subflow = Some(Subflow::parse(nested.payload)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(bytes: &mut Vec<u8>, kind: u16, payload: &[u8]) {
        bytes.extend_from_slice(&u16::try_from(payload.len() + 4).unwrap().to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn unix_listener_has_file_and_waiting_connections() {
        let mut bytes = vec![1, 1, 10, 0];
        bytes.resize(16, 0);
        attribute(&mut bytes, unix_diag::attribute::VFS, &words(&[7, 3]));
        attribute(&mut bytes, unix_diag::attribute::ICONS, &words(&[9, 0]));
        let found = DiagDetails::read(Protocol::UnixStream, &bytes);
        assert_eq!(found.file.map(|file| (file.inode, file.device)), Some((7, 3)));
        assert_eq!(found.waiting().unwrap().collect::<Vec<_>>(), [9, 0]);
    }

    #[test]
    fn packet_socket_has_filter_and_fanout() {
        let mut bytes = vec![17, 3, 0, 3];
        bytes.resize(16, 0);
        let program = [&6_u16.to_ne_bytes()[..], &[1, 2], &words(&[0xff])].concat();
        attribute(&mut bytes, packet_diag::attribute::FILTER, &program);
        attribute(&mut bytes, packet_diag::attribute::FANOUT, &words(&[5 | 1 << 16]));
        let found = DiagDetails::read(Protocol::PacketRaw, &bytes);
        let expected = Instruction {
            code: 6,
            jt: 1,
            jf: 2,
            k: 255,
        };
        assert_eq!(found.filter().unwrap().collect::<Vec<_>>(), [expected]);
        assert_eq!(found.fanout, Some(Fanout { id: 5, kind: 1 }));
    }

    #[test]
    fn malformed_message_has_no_details() {
        for protocol in [
            Protocol::Tcp,
            Protocol::UnixStream,
            Protocol::Netlink,
            Protocol::PacketRaw,
        ] {
            let found = DiagDetails::read(protocol, &[1, 2, 3]);
            assert!(found.file.is_none() && found.groups.is_none() && found.md5_keys().is_none());
        }
    }
}
