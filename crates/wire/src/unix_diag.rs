//! `unix_diag`: UNIX sockets over `NETLINK_SOCK_DIAG`, since Linux 3.3.
//!
//! ```text
//! struct unix_diag_req { u8 family, protocol; u16 pad; u32 states, ino, show, cookie[2]; }      24
//! struct unix_diag_msg { u8 family, type, state, pad; u32 ino, cookie[2]; }                     16
//! ```
//! Source: `include/uapi/linux/unix_diag.h`, `net/unix/diag.c`. The kernel reports only sockets with a
//! file: a connection that is not accepted yet is missing here, although `/proc/net/unix` has it.

use crate::bytes::{byte, ne_halves, ne_u32};
use crate::inet_diag::SOCK_DIAG_BY_FAMILY;
use crate::netlink::Request;
use alloc::vec::Vec;

sock_diag! {
    /// A UNIX socket: `struct unix_diag_msg`.
    pub struct UnixDiag: 16, UnixDiag {
        /// `udiag_family`: `AF_UNIX`
        family: u8 = byte @ 0;
        /// `udiag_type`: `SOCK_STREAM` (1), `SOCK_DGRAM` (2) or `SOCK_SEQPACKET` (5)
        kind: u8 = byte @ 1;
        /// `udiag_state`: the kernel's TCP state number, 1 connected, 7 not, 10 listening.
        ///
        /// A datagram socket that another one is connected *to* is 1 as well; only [`attribute::PEER`] shows the
        /// difference.
        state: u8 = byte @ 2;
        /// `udiag_ino`
        inode: u32 = ne_u32 @ 4;
        /// `udiag_cookie`, the low half first
        cookie: u64 = ne_halves @ 8;
    }
}

/// Parameters of a dump request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// States to return: bits `1 << state`.
    pub states: u32,
    /// Bits of [`show`].
    pub show: u32,
}

impl Query {
    /// Returns a request for every socket of the namespace in these states.
    #[must_use]
    pub fn dump(&self, sequence: u32) -> Vec<u8> {
        let mut payload = [0; 24];
        payload[0] = AF_UNIX; // the protocol must be 0
        payload[4..8].copy_from_slice(&self.states.to_ne_bytes());
        payload[12..16].copy_from_slice(&self.show.to_ne_bytes());
        Request::dump(SOCK_DIAG_BY_FAMILY, sequence)
            .payload(&payload)
            .finish()
    }
}

/// Bits of [`Query::show`], `UDIAG_SHOW_*`.
pub mod show {
    /// [`super::attribute::NAME`]
    pub const NAME: u32 = 0x01;
    /// [`super::attribute::VFS`]
    pub const VFS: u32 = 0x02;
    /// [`super::attribute::PEER`]
    pub const PEER: u32 = 0x04;
    /// [`super::attribute::ICONS`]
    pub const ICONS: u32 = 0x08;
    /// [`super::attribute::RQLEN`]
    pub const RQLEN: u32 = 0x10;
    /// [`super::attribute::MEMINFO`]
    pub const MEMINFO: u32 = 0x20;
    /// [`super::attribute::UID`]
    pub const UID: u32 = 0x40;
}

/// Types of the attributes that follow `struct unix_diag_msg`, `UNIX_DIAG_*`.
pub mod attribute {
    /// [`super::Name`]; missing if the socket is not bound
    pub const NAME: u16 = 0;
    /// [`super::Vfs`]; missing if it is not bound to a path
    pub const VFS: u16 = 1;
    /// `u32`: the peer's inode, 0 if it has no file yet; missing if there is no peer
    pub const PEER: u16 = 2;
    /// Of a listener: an array of `u32`, the inodes of the connections waiting to be accepted
    pub const ICONS: u16 = 3;
    /// [`super::Queues`]
    pub const RQLEN: u16 = 4;
    /// [`crate::inet_diag::SkMemInfo`]
    pub const MEMINFO: u16 = 5;
    /// `u8`: bit 0 receiving is shut down, bit 1 sending is shut down; always present
    pub const SHUTDOWN: u16 = 6;
    /// `u32`: user id of the creator, since Linux 5.3
    pub const UID: u16 = 7;
}

/// `sun_path`: the name that a UNIX socket is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// A path, without the terminating NUL.
    Path(&'a [u8]),
    /// An abstract name, without its leading NUL. It may contain any byte, also NUL.
    Abstract(&'a [u8]),
}

impl<'a> Name<'a> {
    /// Parses the attribute's payload; `None` if it is empty.
    #[must_use]
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        Some(match payload {
            [] => return None,
            [0, name @ ..] => Self::Abstract(name),
            path => Self::Path(path.split(|&byte| byte == 0).next().unwrap_or_default()),
        })
    }
}

attribute! {
    /// `struct unix_diag_vfs`: the file of a path.
    pub struct Vfs {
        /// `udiag_vfs_ino`: the lower half of the inode number
        inode: u32 = ne_u32 @ 0;
        /// `udiag_vfs_dev`: the file system's device, in the kernel's own form (12 bits major, 20 minor)
        device: u32 = ne_u32 @ 4;
    }
}

attribute! {
    /// `struct unix_diag_rqlen`
    pub struct Queues {
        /// `udiag_rqueue`: bytes to read (of a datagram socket those of the first datagram), or of a
        /// listener the connections waiting to be accepted
        receive: u32 = ne_u32 @ 0;
        /// `udiag_wqueue`: memory of data sent and not read yet, or of a listener its backlog
        send: u32 = ne_u32 @ 4;
    }
}

/// Iterates over the inodes of [`attribute::ICONS`], 0 for a peer that is gone. Trailing bytes too short for one are
/// ignored.
pub fn waiting(payload: &[u8]) -> impl Iterator<Item = u32> + '_ {
    payload.chunks_exact(4).filter_map(|word| ne_u32(word, 0))
}

const AF_UNIX: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layer;
    use crate::netlink::Messages;

    fn message() -> Vec<u8> {
        let mut bytes = alloc::vec![1, 5, 10, 0];
        for word in [77_u32, 0x1111_2222, 0x3333_4444] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn each_field_is_read() {
        let mut bytes = message();
        bytes.extend_from_slice(&5_u16.to_ne_bytes());
        bytes.extend_from_slice(&attribute::SHUTDOWN.to_ne_bytes());
        bytes.push(3); // unaligned: the last attribute of a buffer
        let socket = UnixDiag::parse(&bytes).unwrap();
        assert_eq!((socket.family(), socket.kind(), socket.state()), (1, 5, 10));
        assert_eq!((socket.inode(), socket.cookie()), (77, 0x3333_4444_1111_2222));
        let shutdown = socket.attributes().next().unwrap().unwrap();
        assert_eq!((shutdown.kind, shutdown.u8()), (attribute::SHUTDOWN, Some(3)));
    }

    #[test]
    fn truncated_message_is_an_error() {
        let bytes = message();
        for len in 0..bytes.len() {
            let error = UnixDiag::parse(&bytes[..len]).unwrap_err();
            assert_eq!((error.layer, error.needed, error.got), (Layer::UnixDiag, 16, len));
        }
    }

    #[test]
    fn request_has_the_kernels_layout() {
        let bytes = Query {
            states: 0xfff,
            show: show::NAME | show::PEER,
        }
        .dump(3);
        let request = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!(
            (request.kind, request.sequence, request.payload.len()),
            (20, 3, 24)
        );
        assert_eq!(request.payload[..2], [1, 0]);
        assert_eq!(request.payload[4..8], 0xfff_u32.to_ne_bytes());
        assert_eq!(request.payload[12..16], 5_u32.to_ne_bytes());
    }

    #[test]
    fn names_of_each_kind_are_parsed() {
        assert_eq!(Name::parse(b""), None);
        assert_eq!(Name::parse(b"/run/x y\0"), Some(Name::Path(b"/run/x y")));
        assert_eq!(Name::parse(b"rel"), Some(Name::Path(b"rel")));
        assert_eq!(Name::parse(b"\0a\0b\0"), Some(Name::Abstract(b"a\0b\0")));
        assert_eq!(Name::parse(b"\0"), Some(Name::Abstract(b"")));
    }

    #[test]
    fn truncated_attributes_are_none() {
        assert_eq!((Vfs::parse(&[0; 7]), Queues::parse(&[0; 7])), (None, None));
        let mut words = 5_u32.to_ne_bytes().to_vec();
        words.extend_from_slice(&[1, 2]);
        assert_eq!(waiting(&words).collect::<Vec<_>>(), [5]);
    }
}
