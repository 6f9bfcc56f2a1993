//! What `inet_diag` reports, with CAP_NET_ADMIN, about protocols on top of a TCP connection: kernel TLS, MPTCP
//! subflows, and the keys of RFC 2385.
//!
//! Sources: `include/uapi/linux/{tls,mptcp,tcp}.h`. All of it is in attributes of [`crate::inet_diag`].

use crate::bytes::{array, ne_u16};
use crate::netlink::Attributes;

/// Kernel TLS, `TLS_INFO_*` (Linux 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tls {
    /// Version as on the wire: 0x0303 is TLS 1.2
    pub version: Option<u16>,
    /// `TLS_CIPHER_*`
    pub cipher: Option<u16>,
    /// `TLS_CONF_*`: where sent data is encrypted
    pub transmit: Option<u16>,
    /// `TLS_CONF_*`: where received data is decrypted
    pub receive: Option<u16>,
    /// Whether `sendfile` avoids a copy (Linux 5.19)
    pub zero_copy_sendfile: bool,
    /// Whether records are expected without padding, `TLS_INFO_RX_NO_PAD` (Linux 6.0)
    pub receive_without_padding: bool,
}

impl Tls {
    /// Parses the payload of [`crate::inet_diag::ulp::TLS`].
    #[must_use]
    pub fn parse(payload: &[u8]) -> Self {
        let mut tls = Self::default();
        for attribute in Attributes::new(payload).flatten() {
            match attribute.kind {
                1 => tls.version = attribute.u16(),
                2 => tls.cipher = attribute.u16(),
                3 => tls.transmit = attribute.u16(),
                4 => tls.receive = attribute.u16(),
                5 => tls.zero_copy_sendfile = true,
                6 => tls.receive_without_padding = true,
                _ => {}
            }
        }
        tls
    }
}

/// A subflow of an MPTCP connection, `MPTCP_SUBFLOW_ATTR_*` (Linux 5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Subflow {
    /// `MPTCP_SUBFLOW_FLAG_*`
    pub flags: Option<u32>,
    /// The connection's token at the peer
    pub remote_token: Option<u32>,
    /// The connection's token on this host
    pub local_token: Option<u32>,
    /// Id of the peer's address
    pub remote_id: Option<u8>,
    /// Id of our address
    pub local_id: Option<u8>,
    /// Start of the current mapping in the connection's sequence space
    pub map_sequence: Option<u64>,
    /// Start of the current mapping in the subflow
    pub map_subflow_sequence: Option<u32>,
    /// First sequence number of the subflow
    pub subflow_offset: Option<u32>,
    /// Length of the mapping in bytes
    pub map_len: Option<u32>,
}

impl Subflow {
    /// Parses the payload of [`crate::inet_diag::ulp::MPTCP`].
    #[must_use]
    pub fn parse(payload: &[u8]) -> Self {
        let mut subflow = Self::default();
        for attribute in Attributes::new(payload).flatten() {
            match attribute.kind {
                1 => subflow.remote_token = attribute.u32(),
                2 => subflow.local_token = attribute.u32(),
                4 => subflow.map_sequence = attribute.u64(),
                5 => subflow.map_subflow_sequence = attribute.u32(),
                6 => subflow.subflow_offset = attribute.u32(),
                // It has been a u16 from the start, unlike its siblings.
                7 => subflow.map_len = attribute.u16().map(u32::from),
                8 => subflow.flags = attribute.u32(),
                9 => subflow.remote_id = attribute.u8(),
                10 => subflow.local_id = attribute.u8(),
                _ => {}
            }
        }
        subflow
    }
}

/// `struct tcp_diag_md5sig`: a key for the peers within a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Md5Key<'a> {
    /// `AF_INET` or `AF_INET6`
    pub family: u8,
    /// Significant bits of `address`
    pub prefix_len: u8,
    /// Address; an IPv4 address is in the first four bytes
    pub address: [u8; 16],
    /// The secret
    pub key: &'a [u8],
}

/// The keys in [`crate::inet_diag::attribute::MD5SIG`]. Trailing bytes too short for one are ignored.
pub fn md5_keys(payload: &[u8]) -> impl Iterator<Item = Md5Key<'_>> + '_ {
    payload.chunks_exact(MD5_KEY_LEN).filter_map(|key| {
        let len = usize::from(ne_u16(key, 2)?).min(MD5_SECRET_MAX);
        Some(Md5Key {
            family: key[0],
            prefix_len: key[1],
            address: array(key, 4)?,
            key: key.get(20..20 + len)?,
        })
    })
}

/// `TCP_MD5SIG_MAXKEYLEN`
const MD5_SECRET_MAX: usize = 80;
const MD5_KEY_LEN: usize = 20 + MD5_SECRET_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn attributes(all: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, payload) in all {
            bytes.extend_from_slice(&u16::try_from(payload.len() + 4).unwrap().to_ne_bytes());
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(payload);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn tls_and_subflow_attributes_are_parsed() {
        let bytes = attributes(&[
            (1, &0x0304_u16.to_ne_bytes()),
            (3, &2_u16.to_ne_bytes()),
            (5, &[]),
            (6, &[]),
        ]);
        let expected = Tls {
            version: Some(0x0304),
            transmit: Some(2),
            zero_copy_sendfile: true,
            receive_without_padding: true,
            ..Tls::default()
        };
        assert_eq!(Tls::parse(&bytes), expected);
        let bytes = attributes(&[
            (8, &0x83_u32.to_ne_bytes()),
            (7, &9_u16.to_ne_bytes()),
            (10, &[4]),
        ]);
        let expected = Subflow {
            flags: Some(0x83),
            map_len: Some(9),
            local_id: Some(4),
            ..Subflow::default()
        };
        assert_eq!(Subflow::parse(&bytes), expected);
        assert_eq!(Subflow::parse(&[1, 2, 3]), Subflow::default());
    }

    #[test]
    fn key_longer_than_its_field_is_cut() {
        let mut bytes = alloc::vec![2, 24];
        bytes.extend_from_slice(&300_u16.to_ne_bytes());
        bytes.extend_from_slice(&[10, 0, 0, 0]);
        bytes.resize(MD5_KEY_LEN, b'x');
        bytes.extend_from_slice(&[2, 24, 1]);
        let found: Vec<_> = md5_keys(&bytes).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].key.len(), found[0].prefix_len), (80, 24));
    }
}
