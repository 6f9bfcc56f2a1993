//! Connections that the kernel tracks: what `conntrack -L` lists, with both tuples of what NAT translates.
//!
//! ```text
//! struct nfgenmsg { u8 family; u8 version; be16 res_id; }                                          4
//! CTA_TUPLE_ORIG 1, TUPLE_REPLY 2, STATUS 3, ZONE 18
//! CTA_TUPLE_IP 1 { CTA_IP_V4_SRC 1, V4_DST 2, V6_SRC 3, V6_DST 4 }
//! CTA_TUPLE_PROTO 2 { CTA_PROTO_NUM 1, SRC_PORT 2, DST_PORT 3 }, CTA_TUPLE_ZONE 3
//! ```
//! Numbers are in network order. Source: `include/uapi/linux/netfilter/nfnetlink_conntrack.h`, `nf_conntrack_common.h`.

use crate::bytes::{be_u16, be_u32, split_fixed};
use crate::netlink::{Attributes, Request};
use crate::rtnetlink::ip;
use crate::{Error, Layer};
use alloc::vec::Vec;
use core::net::IpAddr;

/// A tracked connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conntrack {
    /// Its packets in the direction of the first one, as they arrive.
    pub original: Tuple,
    /// Its packets in the other direction, as they arrive.
    pub reply: Tuple,
    /// `IPS_*`
    pub status: u32,
    /// Zone: equal tuples of different zones are different connections.
    pub zone: u16,
}

/// Where packets come from and where they go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuple {
    /// Source address and port
    pub source: (IpAddr, u16),
    /// Destination address and port
    pub destination: (IpAddr, u16),
    /// `IPPROTO_*`
    pub protocol: u8,
    /// Zone, if only this direction has it
    pub zone: Option<u16>,
}

impl Conntrack {
    /// Parses the payload of an [`IPCTNL_MSG_CT_NEW`](Self::MESSAGE). `None`: it has no ports, or is of no internet protocol.
    ///
    /// # Errors
    /// When it is shorter than `struct nfgenmsg`, or an attribute's header is broken.
    pub fn parse(payload: &[u8]) -> Result<Option<Self>, Error> {
        let (_, attributes) = split_fixed::<4>(payload, Layer::Conntrack)?;
        let (mut original, mut reply, mut status, mut zone) = (None, None, 0, 0);
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            match attribute.kind {
                CTA_TUPLE_ORIG => original = Tuple::parse(attribute.payload),
                CTA_TUPLE_REPLY => reply = Tuple::parse(attribute.payload),
                CTA_STATUS => status = be_u32(attribute.payload, 0).unwrap_or(0),
                CTA_ZONE => zone = be_u16(attribute.payload, 0).unwrap_or(0),
                _ => {}
            }
        }
        Ok(original.zip(reply).map(|(original, reply)| Self {
            original,
            reply,
            status,
            zone,
        }))
    }

    /// Returns a request for those that have all bits of a status. Kernels before 5.8 answer with all.
    #[must_use]
    pub fn dump(status: u32, sequence: u32) -> Vec<u8> {
        let request = Request::dump(SUBSYSTEM | IPCTNL_MSG_CT_GET, sequence).payload(&[0; 4]);
        let request = request.attribute(CTA_STATUS, &status.to_be_bytes());
        request.map_or_else(Vec::new, Request::finish)
    }

    /// Whether NAT changes an address or a port.
    #[must_use]
    pub fn is_translated(&self) -> bool {
        self.original.source != self.reply.destination || self.original.destination != self.reply.source
    }

    /// `IPCTNL_MSG_CT_NEW`: the answer to [`dump`](Self::dump)
    pub const MESSAGE: u16 = SUBSYSTEM;
    /// `IPS_SRC_NAT`
    pub const SOURCE_NAT: u32 = 1 << 4;
    /// `IPS_DST_NAT`
    pub const DESTINATION_NAT: u32 = 1 << 5;
}

impl Tuple {
    fn parse(nest: &[u8]) -> Option<Self> {
        let (mut source, mut destination, mut ports, mut protocol, mut zone) =
            (None, None, (None, None), None, None);
        for part in Attributes::new(nest).flatten() {
            match part.kind {
                CTA_TUPLE_IP => {
                    for address in Attributes::new(part.payload).flatten() {
                        match address.kind {
                            CTA_IP_V4_SRC | CTA_IP_V6_SRC => source = ip(address.payload),
                            CTA_IP_V4_DST | CTA_IP_V6_DST => destination = ip(address.payload),
                            _ => {}
                        }
                    }
                }
                CTA_TUPLE_PROTO => {
                    for number in Attributes::new(part.payload).flatten() {
                        match number.kind {
                            CTA_PROTO_NUM => protocol = number.payload.first().copied(),
                            CTA_PROTO_SRC_PORT => ports.0 = be_u16(number.payload, 0),
                            CTA_PROTO_DST_PORT => ports.1 = be_u16(number.payload, 0),
                            _ => {}
                        }
                    }
                }
                CTA_TUPLE_ZONE => zone = be_u16(part.payload, 0),
                _ => {}
            }
        }
        Some(Self {
            source: (source?, ports.0?),
            destination: (destination?, ports.1?),
            protocol: protocol?,
            zone,
        })
    }
}

const SUBSYSTEM: u16 = 1 << 8;
const IPCTNL_MSG_CT_GET: u16 = 1;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_ZONE: u16 = 18;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_TUPLE_ZONE: u16 = 3;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtnetlink::build::attribute;

    fn tuple(source: ([u8; 4], u16), destination: ([u8; 4], u16)) -> Vec<u8> {
        let ips = [
            attribute(CTA_IP_V4_SRC, &source.0),
            attribute(CTA_IP_V4_DST, &destination.0),
        ];
        let numbers = [
            attribute(CTA_PROTO_NUM, &[6]),
            attribute(CTA_PROTO_SRC_PORT, &source.1.to_be_bytes()),
            attribute(CTA_PROTO_DST_PORT, &destination.1.to_be_bytes()),
        ];
        [
            attribute(CTA_TUPLE_IP | NESTED, &ips.concat()),
            attribute(CTA_TUPLE_PROTO | NESTED, &numbers.concat()),
        ]
        .concat()
    }

    const NESTED: u16 = 1 << 15;
    const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 9], 40_000);
    const SERVICE: ([u8; 4], u16) = ([10, 9, 0, 1], 80);
    const ROUTER: ([u8; 4], u16) = ([10, 1, 0, 1], 1_024);
    const BACKEND: ([u8; 4], u16) = ([10, 1, 0, 7], 8_080);

    fn message(reply: Vec<u8>) -> Vec<u8> {
        let attributes = [
            attribute(CTA_TUPLE_ORIG | NESTED, &tuple(CLIENT, SERVICE)),
            attribute(CTA_TUPLE_REPLY | NESTED, &reply),
            attribute(CTA_STATUS, &0x1be_u32.to_be_bytes()),
            attribute(CTA_ZONE, &7_u16.to_be_bytes()),
        ];
        [&[2, 0, 0, 0][..], &attributes.concat()].concat()
    }

    #[test]
    fn both_tuples_are_read() {
        let found = Conntrack::parse(&message(tuple(BACKEND, ROUTER)))
            .unwrap()
            .unwrap();
        let end = |(ip, port): ([u8; 4], u16)| (IpAddr::from(ip), port);
        assert_eq!(found.original.source, end(CLIENT));
        assert_eq!(found.original.destination, end(SERVICE));
        assert_eq!(found.reply.source, end(BACKEND));
        assert_eq!(found.reply.destination, end(ROUTER));
        assert_eq!((found.original.protocol, found.zone, found.status), (6, 7, 0x1be));
        assert!(found.is_translated());
        let plain = Conntrack::parse(&message(tuple(SERVICE, CLIENT)))
            .unwrap()
            .unwrap();
        assert!(!plain.is_translated());
    }

    #[test]
    fn entry_without_ports_is_none_and_a_short_message_an_error() {
        assert_eq!(Conntrack::parse(&message(Vec::new())), Ok(None));
        assert_eq!(Conntrack::parse(&[2, 0, 0, 0]), Ok(None));
        assert!(Conntrack::parse(&[2, 0, 0]).is_err());
        let whole = message(tuple(BACKEND, ROUTER));
        for len in 4..whole.len() {
            let _ = Conntrack::parse(&whole[..len]);
        }
    }

    #[test]
    fn request_names_the_status() {
        let request = Conntrack::dump(Conntrack::SOURCE_NAT, 5);
        // Length and type in the byte order of the host, the value in that of the network.
        let ([a, b], [c, d]) = (8_u16.to_ne_bytes(), 3_u16.to_ne_bytes());
        assert_eq!(request[16..], [0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0x10]);
    }
}
