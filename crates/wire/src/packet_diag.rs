//! `packet_diag`: PACKET sockets over `NETLINK_SOCK_DIAG`, since Linux 3.7.
//!
//! ```text
//! struct packet_diag_req { u8 family, protocol; u16 pad; u32 ino, show, cookie[2]; }            20
//! struct packet_diag_msg { u8 family, type; u16 num; u32 ino, cookie[2]; }                      16
//! ```
//! Source: `include/uapi/linux/packet_diag.h`, `net/packet/diag.c`.

use crate::bytes::{array, byte, ne_halves, ne_u16, ne_u32};
use crate::inet_diag::SOCK_DIAG_BY_FAMILY;
use crate::netlink::Request;
use alloc::vec::Vec;

sock_diag! {
    /// A PACKET socket: `struct packet_diag_msg`.
    pub struct PacketDiag: 16, PacketDiag {
        /// `pdiag_family`: `AF_PACKET`
        family: u8 = byte @ 0;
        /// `pdiag_type`: `SOCK_DGRAM` (2), `SOCK_RAW` (3) or the ancient `SOCK_PACKET` (10)
        kind: u8 = byte @ 1;
        /// `pdiag_num`: the EtherType it listens to, in host order; 3 is all, 0 none
        ethertype: u16 = ne_u16 @ 2;
        /// `pdiag_ino`: 0 where no file refers to the socket
        inode: u32 = ne_u32 @ 4;
        /// `pdiag_cookie`, the low half first
        cookie: u64 = ne_halves @ 8;
    }
}

/// Returns a request for every PACKET socket of the namespace; `show` are bits of [`show`].
#[must_use]
pub fn dump(show: u32, sequence: u32) -> Vec<u8> {
    let mut payload = [0; 20];
    payload[0] = AF_PACKET; // the kernel refuses a protocol
    payload[8..12].copy_from_slice(&show.to_ne_bytes());
    Request::dump(SOCK_DIAG_BY_FAMILY, sequence)
        .payload(&payload)
        .finish()
}

/// Bits of [`dump`]'s `show`, `PACKET_SHOW_*`.
pub mod show {
    /// [`super::attribute::INFO`] and [`super::attribute::UID`]
    pub const INFO: u32 = 0x01;
    /// [`super::attribute::MCLIST`]
    pub const MCLIST: u32 = 0x02;
    /// [`super::attribute::RX_RING`] and [`super::attribute::TX_RING`]
    pub const RING_CFG: u32 = 0x04;
    /// [`super::attribute::FANOUT`]
    pub const FANOUT: u32 = 0x08;
    /// [`super::attribute::MEMINFO`]
    pub const MEMINFO: u32 = 0x10;
    /// [`super::attribute::FILTER`]
    pub const FILTER: u32 = 0x20;
}

/// Types of the attributes that follow `struct packet_diag_msg`, `PACKET_DIAG_*`.
pub mod attribute {
    /// [`super::Info`]
    pub const INFO: u16 = 0;
    /// [`super::memberships`]; present and empty if requested and there are none
    pub const MCLIST: u16 = 1;
    /// [`super::Ring`]; missing if there is none
    pub const RX_RING: u16 = 2;
    /// [`super::Ring`]; missing if there is none
    pub const TX_RING: u16 = 3;
    /// `u32`: [`super::Fanout`]; missing if the socket is in no group
    pub const FANOUT: u16 = 4;
    /// `u32`: user id of the creator
    pub const UID: u16 = 5;
    /// [`crate::inet_diag::SkMemInfo`]
    pub const MEMINFO: u16 = 6;
    /// Classic BPF, an array of `struct sock_filter`; for readers with CAP_NET_ADMIN
    pub const FILTER: u16 = 7;
}

attribute! {
    /// `struct packet_diag_info`
    pub struct Info {
        /// `pdi_index`: index of the interface it is bound to, 0 for every one
        interface: u32 = ne_u32 @ 0;
        /// `pdi_version`: 0, 1 or 2 for TPACKET_V1 to V3
        version: u32 = ne_u32 @ 4;
        /// `pdi_reserve`: bytes kept free before each packet in the ring
        reserve: u32 = ne_u32 @ 8;
        /// `pdi_copy_thresh`
        copy_threshold: u32 = ne_u32 @ 12;
        /// `pdi_tstamp`: source of timestamps
        timestamp: u32 = ne_u32 @ 16;
        /// `pdi_flags`: bits 0 running, 1 auxdata, 2 origdev, 3 vnethdr, 4 loss
        flags: u32 = ne_u32 @ 20;
    }
}

/// `struct packet_diag_mclist`: a link-layer group the socket joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// `pdmc_index`: index of the interface
    pub interface: u32,
    /// `pdmc_count`: number of times that it was joined
    pub count: u32,
    /// `pdmc_type`: 0 multicast, 1 promiscuous, 2 all multicast, 3 unicast
    pub kind: u16,
    /// `pdmc_alen`: bytes of `address` in use
    pub address_len: u16,
    /// `pdmc_addr`
    pub address: [u8; 32],
}

/// Iterates over the groups in [`attribute::MCLIST`]. Trailing bytes too short for one are ignored.
pub fn memberships(payload: &[u8]) -> impl Iterator<Item = Membership> + '_ {
    payload.chunks_exact(44).filter_map(|group| {
        Some(Membership {
            interface: ne_u32(group, 0)?,
            count: ne_u32(group, 4)?,
            kind: ne_u16(group, 8)?,
            address_len: ne_u16(group, 10)?,
            address: array(group, 12)?,
        })
    })
}

attribute! {
    /// `struct packet_diag_ring`
    pub struct Ring {
        /// `pdr_block_size`, bytes
        block_size: u32 = ne_u32 @ 0;
        /// `pdr_block_nr`
        blocks: u32 = ne_u32 @ 4;
        /// `pdr_frame_size`, bytes
        frame_size: u32 = ne_u32 @ 8;
        /// `pdr_frame_nr`
        frames: u32 = ne_u32 @ 12;
        /// `pdr_retire_tmo`, milliseconds; TPACKET_V3
        retire_timeout: u32 = ne_u32 @ 16;
        /// `pdr_sizeof_priv`, bytes; TPACKET_V3
        private_size: u32 = ne_u32 @ 20;
        /// `pdr_features`; TPACKET_V3
        features: u32 = ne_u32 @ 24;
    }
}

/// A group of sockets that share the packets of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fanout {
    /// Id of the group in the namespace.
    pub id: u16,
    /// How packets are distributed: `PACKET_FANOUT_HASH` is 0. Flags are not reported.
    pub kind: u16,
}

impl Fanout {
    /// Splits the attribute's number.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self {
            id: number as u16,
            kind: (number >> 16) as u16,
        }
    }
}

const AF_PACKET: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layer;
    use crate::netlink::Messages;

    fn message() -> Vec<u8> {
        let mut bytes = alloc::vec![17, 3];
        bytes.extend_from_slice(&0x0800_u16.to_ne_bytes());
        for word in [77_u32, 0x1111_2222, 0x3333_4444] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn each_field_is_read() {
        let bytes = message();
        let socket = PacketDiag::parse(&bytes).unwrap();
        assert_eq!(
            (socket.family(), socket.kind(), socket.ethertype()),
            (17, 3, 0x0800)
        );
        assert_eq!((socket.inode(), socket.cookie()), (77, 0x3333_4444_1111_2222));
        assert!(socket.attributes().next().is_none());
    }

    #[test]
    fn truncated_message_is_an_error() {
        let bytes = message();
        for len in 0..bytes.len() {
            let error = PacketDiag::parse(&bytes[..len]).unwrap_err();
            assert_eq!(
                (error.layer, error.needed, error.got),
                (Layer::PacketDiag, 16, len)
            );
        }
    }

    #[test]
    fn request_has_the_kernels_layout() {
        let bytes = dump(show::INFO | show::MEMINFO, 3);
        let request = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!((request.kind, request.payload.len()), (20, 20));
        assert_eq!(request.payload[..2], [17, 0]);
        assert_eq!(request.payload[8..12], 0x11_u32.to_ne_bytes());
    }

    #[test]
    fn attributes_are_parsed() {
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        let info = Info::parse(&words(&[2, 1, 0, 0, 9, 3])).unwrap();
        assert_eq!((info.interface, info.timestamp, info.flags), (2, 9, 3));
        assert_eq!((Info::parse(&[0; 23]), Ring::parse(&[0; 27])), (None, None));
        let ring = Ring::parse(&words(&[4096, 4, 2048, 8, 60, 0, 1])).unwrap();
        assert_eq!(
            (ring.blocks, ring.frames, ring.retire_timeout, ring.features),
            (4, 8, 60, 1)
        );
        assert_eq!(Fanout::from_number(0x0002_0007), Fanout { id: 7, kind: 2 });
        let mut group = words(&[2, 1]);
        group.extend_from_slice(&0_u16.to_ne_bytes());
        group.extend_from_slice(&6_u16.to_ne_bytes());
        group.resize(44, 0xee);
        group.push(9); // a rest
        let found: Vec<_> = memberships(&group).collect();
        assert_eq!(
            (found.len(), found[0].address_len, found[0].address[0]),
            (1, 6, 0xee)
        );
    }
}
