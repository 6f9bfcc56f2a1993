//! Route look-ups: which way the kernel would send a packet now.
//!
//! ```text
//! struct rtmsg { u8 family, dst_len, src_len, tos, table, protocol, scope, type; u32 flags; }    12
//! RTA_DST 1, RTA_SRC 2, RTA_OIF 4, RTA_GATEWAY 5, RTA_MARK 16, RTA_VIA 18: struct rtvia { u16 family; u8 addr[]; }, RTA_UID 25,
//! RTA_IP_PROTO 27: u8, RTA_SPORT 28, RTA_DPORT 29: be16; Linux 4.17
//! ```
//! Source: `include/uapi/linux/rtnetlink.h`, `net/ipv4/route.c` (`inet_rtm_getroute`), `net/ipv6/route.c`.

use super::ip;
use crate::bytes::split_fixed;
use crate::netlink::{Attributes, Request};
use crate::{Error, Layer};
use alloc::vec::Vec;
use core::net::IpAddr;

/// A packet to look up a route for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteQuery {
    /// Address of the peer.
    pub to: IpAddr,
    /// Our address; of the same family.
    pub from: IpAddr,
    /// Firewall mark; 0 for none.
    pub mark: u32,
    /// User that sends; `None`: ours.
    pub uid: Option<u32>,
    /// Index of the interface that the socket is bound to; 0 for none.
    pub interface: u32,
    /// Our port of TCP and that of the peer, for rules that choose by them; 0 is left out.
    pub ports: [u16; 2],
}

impl RouteQuery {
    /// Returns the request. The answer is an `RTM_NEWROUTE`, or an error: `ENETUNREACH` without a route, `EINVAL` if the
    /// address is not ours any more or the route is a black hole.
    #[must_use]
    pub fn request(&self, sequence: u32) -> Vec<u8> {
        let (family, bits) = match self.to {
            IpAddr::V4(_) => (AF_INET, 32),
            IpAddr::V6(_) => (AF_INET6, 128),
        };
        let mut message = [0; 12];
        (message[0], message[1], message[2]) = (family, bits, bits);
        let mut request = Request::one(RTM_GETROUTE, sequence).payload(&message);
        let mut add = |kind: u16, payload: &[u8]| {
            // Cannot fail: an attribute of at most 16 bytes.
            if let Some(longer) = request.clone().attribute(kind, payload) {
                request = longer;
            }
        };
        for (kind, end) in [(RTA_DST, self.to), (RTA_SRC, self.from)] {
            match end {
                IpAddr::V4(end) => add(kind, &end.octets()),
                IpAddr::V6(end) => add(kind, &end.octets()),
            }
        }
        for (kind, number) in [(RTA_MARK, self.mark), (RTA_OIF, self.interface)] {
            if number != 0 {
                add(kind, &number.to_ne_bytes());
            }
        }
        if let Some(uid) = self.uid {
            add(RTA_UID, &uid.to_ne_bytes());
        }
        if self.ports != [0, 0] {
            add(RTA_IP_PROTO, &[IPPROTO_TCP]);
        }
        for (kind, port) in [RTA_SPORT, RTA_DPORT].into_iter().zip(self.ports) {
            if port != 0 {
                add(kind, &port.to_be_bytes());
            }
        }
        request.finish()
    }
}

/// A route that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundRoute {
    /// `RTN_*`: 1 unicast, 2 local, 6 black hole, 7 unreachable, 8 prohibited
    pub kind: u8,
    /// Index of the interface; 0 if it has none.
    pub interface: u32,
    /// The router; `None` if the peer is on the link.
    pub gateway: Option<IpAddr>,
}

impl FoundRoute {
    /// Parses the payload of an `RTM_NEWROUTE`.
    ///
    /// # Errors
    /// When it is shorter than `struct rtmsg`, or the envelope of an attribute is broken.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let (fixed, attributes) = split_fixed::<12>(payload, Layer::RouteLookup)?;
        let mut route = Self {
            kind: fixed[7],
            interface: 0,
            gateway: None,
        };
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            match attribute.kind {
                RTA_OIF => route.interface = attribute.u32().unwrap_or_default(),
                RTA_GATEWAY => route.gateway = ip(attribute.payload),
                // The family is known by the length.
                RTA_VIA => route.gateway = attribute.payload.get(2..).and_then(ip),
                _ => {}
            }
        }
        Ok(route)
    }
}

/// `RTM_NEWROUTE`: the answer to a look-up
pub const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MARK: u16 = 16;
const RTA_VIA: u16 = 18;
const RTA_UID: u16 = 25;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
const IPPROTO_TCP: u8 = 6;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

#[cfg(test)]
mod tests {
    use super::super::build::attribute;
    use super::*;

    // Its bytes are those of a little-endian kernel.
    #[cfg(target_endian = "little")]
    #[test]
    fn query_has_only_what_is_known() {
        let query = RouteQuery {
            to: [10, 0, 0, 2].into(),
            from: [10, 0, 0, 1].into(),
            mark: 0,
            uid: None,
            interface: 7,
            ports: [0, 0],
        };
        let bytes = query.request(1);
        assert_eq!(bytes.len(), 16 + 12 + 8 + 8 + 8);
        assert_eq!(bytes[16..19], [2, 32, 32]);
        assert_eq!(bytes[28..36], [8, 0, 1, 0, 10, 0, 0, 2]);
        let v6 = RouteQuery {
            to: IpAddr::from([1; 16]),
            from: IpAddr::from([2; 16]),
            mark: 3,
            uid: Some(4),
            interface: 0,
            ports: [0, 443],
        };
        let bytes = v6.request(1);
        assert_eq!(bytes.len(), 16 + 12 + 20 + 20 + 8 + 8 + 8 + 8);
        assert_eq!(bytes[84..], [5, 0, 27, 0, 6, 0, 0, 0, 6, 0, 29, 0, 1, 187, 0, 0]);
    }

    #[test]
    fn route_with_and_without_a_router_is_parsed() {
        let mut bytes = alloc::vec![2, 32, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        bytes.extend(attribute(RTA_OIF, &5_u32.to_ne_bytes()));
        let route = FoundRoute::parse(&bytes).unwrap();
        assert_eq!((route.kind, route.interface, route.gateway), (1, 5, None));
        let mut direct = bytes.clone();
        direct.extend(attribute(RTA_GATEWAY, &[10, 0, 0, 9]));
        let gateway = FoundRoute::parse(&direct).unwrap().gateway;
        assert_eq!(gateway, Some([10, 0, 0, 9].into()));
        let mut via = alloc::vec![10, 0];
        via.extend([3; 16]);
        bytes.extend(attribute(RTA_VIA, &via));
        assert_eq!(
            FoundRoute::parse(&bytes).unwrap().gateway,
            Some(IpAddr::from([3; 16]))
        );
        assert!(FoundRoute::parse(&bytes[..11]).is_err());
    }
}
