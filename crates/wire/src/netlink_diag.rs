//! `netlink_diag`: NETLINK sockets over `NETLINK_SOCK_DIAG`, since Linux 3.10.
//!
//! ```text
//! struct netlink_diag_req { u8 family, protocol; u16 pad; u32 ino, show, cookie[2]; }                    20
//! struct netlink_diag_msg { u8 family, type, protocol, state;
//!                           u32 portid, dst_portid, dst_group, ino, cookie[2]; }                         28
//! ```
//! Source: `include/uapi/linux/netlink_diag.h`, `net/netlink/diag.c`. A socket that joined groups
//! appears twice in one dump: the kernel walks its table of sockets, then its list of group members,
//! and its test for duplicates has not worked since the table became an `rhashtable` (seen with
//! 6.18). Duplicates have the same cookie.

use crate::bytes::{byte, ne_halves, ne_u32};
use crate::inet_diag::SOCK_DIAG_BY_FAMILY;
use crate::netlink::Request;
use alloc::vec::Vec;

sock_diag! {
    /// A NETLINK socket: `struct netlink_diag_msg`.
    pub struct NetlinkDiag: 28, NetlinkDiag {
        /// `ndiag_family`: `AF_NETLINK`
        family: u8 = byte @ 0;
        /// `ndiag_type`: `SOCK_DGRAM` (2) or `SOCK_RAW` (3), which netlink treats alike
        kind: u8 = byte @ 1;
        /// `ndiag_protocol`: `NETLINK_ROUTE` is 0
        protocol: u8 = byte @ 2;
        /// `ndiag_state`: netlink's numbers: 1 connected, 0 disconnected; 7 (`TCP_CLOSE`) if never connected
        state: u8 = byte @ 3;
        /// `ndiag_portid`: 0 for the kernel's own sockets, and for ones not bound yet
        port: u32 = ne_u32 @ 4;
        /// `ndiag_dst_portid`: port id that it is connected to, 0 for the kernel
        destination_port: u32 = ne_u32 @ 8;
        /// `ndiag_dst_group`: the group it sends to, 0 for none
        destination_group: u32 = ne_u32 @ 12;
        /// `ndiag_ino`; the kernel's own sockets have one too, although no process owns them
        inode: u32 = ne_u32 @ 16;
        /// `ndiag_cookie`, the low half first
        cookie: u64 = ne_halves @ 20;
    }
}

/// Returns a request for the namespace's NETLINK sockets of one protocol, or [`PROTOCOL_ALL`]; `show` are
/// bits of [`show`].
#[must_use]
pub fn dump(protocol: u8, show: u32, sequence: u32) -> Vec<u8> {
    let mut payload = [0; 20];
    payload[0] = AF_NETLINK;
    payload[1] = protocol;
    payload[8..12].copy_from_slice(&show.to_ne_bytes());
    Request::dump(SOCK_DIAG_BY_FAMILY, sequence)
        .payload(&payload)
        .finish()
}

/// Bits of [`dump`]'s `show`, `NDIAG_SHOW_*`.
pub mod show {
    /// [`super::attribute::MEMINFO`]
    pub const MEMINFO: u32 = 0x01;
    /// [`super::attribute::GROUPS`]
    pub const GROUPS: u32 = 0x02;
    /// [`super::attribute::FLAGS`], since Linux 4.6
    pub const FLAGS: u32 = 0x08;
}

/// Types of the attributes that follow `struct netlink_diag_msg`, `NETLINK_DIAG_*`.
pub mod attribute {
    /// [`crate::inet_diag::SkMemInfo`]
    pub const MEMINFO: u16 = 0;
    /// [`super::Groups`]; missing if the socket never joined any
    pub const GROUPS: u16 = 1;
    /// `u32`: bits of `NDIAG_FLAG_*`: 0 dump running, 1 pktinfo, 2 broadcast errors, 3 no ENOBUFS, 4 all
    /// namespaces, 5 capped acknowledgements, 6 extended acknowledgements, 7 strict checks
    pub const FLAGS: u16 = 4;
}

/// The groups that a socket has joined: one bit per group, in words of the kernel's `long`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups<'a>(&'a [u8]);

impl<'a> Groups<'a> {
    /// Wraps the attribute's payload.
    #[must_use]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// Returns groups 1 to 32, the lowest bit for group 1: the part that `bind` and `/proc/net/netlink` use.
    ///
    /// `None` if the kernel reported fewer. If `long` has eight bytes on a big-endian kernel, the low
    /// half of the first word comes second.
    #[must_use]
    pub fn first_32(&self) -> Option<u32> {
        let low_half_second = cfg!(target_endian = "big") && self.0.len().is_multiple_of(8);
        ne_u32(self.0, if low_half_second { 4 } else { 0 })
    }
}

/// `NDIAG_PROTO_ALL`
pub const PROTOCOL_ALL: u8 = u8::MAX;
const AF_NETLINK: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layer;
    use crate::netlink::Messages;

    fn message() -> Vec<u8> {
        let mut bytes = alloc::vec![16, 3, 4, 1];
        for word in [1234_u32, 5, 6, 77, 0x1111_2222, 0x3333_4444] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn each_field_is_read() {
        let bytes = message();
        let socket = NetlinkDiag::parse(&bytes).unwrap();
        assert_eq!((socket.family(), socket.kind()), (16, 3));
        assert_eq!((socket.protocol(), socket.state()), (4, 1));
        assert_eq!(
            (
                socket.port(),
                socket.destination_port(),
                socket.destination_group()
            ),
            (1234, 5, 6)
        );
        assert_eq!((socket.inode(), socket.cookie()), (77, 0x3333_4444_1111_2222));
        assert!(socket.attributes().next().is_none());
    }

    #[test]
    fn truncated_message_is_an_error() {
        let bytes = message();
        for len in 0..bytes.len() {
            let error = NetlinkDiag::parse(&bytes[..len]).unwrap_err();
            assert_eq!(
                (error.layer, error.needed, error.got),
                (Layer::NetlinkDiag, 28, len)
            );
        }
    }

    #[test]
    fn request_has_the_kernels_layout() {
        let bytes = dump(PROTOCOL_ALL, show::GROUPS, 3);
        let request = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!((request.kind, request.payload.len()), (20, 20));
        assert_eq!(request.payload[..2], [16, 255]);
        assert_eq!(request.payload[8..12], 2_u32.to_ne_bytes());
    }

    #[test]
    fn groups_are_words_of_long() {
        assert_eq!(Groups::new(&5_u64.to_ne_bytes()).first_32(), Some(5));
        assert_eq!(Groups::new(&5_u32.to_ne_bytes()).first_32(), Some(5));
        assert_eq!(Groups::new(&[1, 2, 3]).first_32(), None);
    }
}
