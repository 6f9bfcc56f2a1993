//! The requests for netlink dumps of sockets, and the decoding of their replies.

use crate::outcome::SourceKind;
use crate::protocol_group::Kind;
use crate::query::Query;
use crate::request_bits::extensions;
use sockeye_model::{Detail, Family, Socket, State};
use sockeye_wire::inet_diag::{self, InetDiag, SOCK_DIAG_BY_FAMILY, TCPDIAG_GETSOCK};
use sockeye_wire::netlink::Message;
use sockeye_wire::netlink_diag::{self, NetlinkDiag};
use sockeye_wire::packet_diag::{self, PacketDiag};
use sockeye_wire::unix_diag::{self, UnixDiag};

/// Returns the request for a dump of this kind; `None` if it is longer than a message.
pub(crate) fn request(
    kind: Kind,
    source: SourceKind,
    family: u8,
    query: &Query<'_>,
    bytecode: &[u8],
    sequence: u32,
) -> Option<Vec<u8>> {
    let detail = query.detail;
    match kind {
        Kind::Inet(_, protocol) => {
            let request = inet_diag::Query {
                states: query.states.bits(),
                extensions: extensions(detail),
                ports: query.ends.only_ports(),
                bytecode,
            };
            match source {
                SourceKind::OnePass => request.one_pass(sequence),
                _ => request.v2(family, protocol, sequence),
            }
        }
        Kind::Unix => {
            use unix_diag::show::{ICONS, MEMINFO, NAME, PEER, RQLEN, UID, VFS};
            let memory = bits_if(detail.contains(Detail::MEMORY), MEMINFO);
            let diag_details = bits_if(detail.contains(Detail::DIAG_DETAILS), VFS | ICONS);
            let request = unix_diag::Query {
                states: query.states.bits(),
                show: NAME | PEER | RQLEN | UID | memory | diag_details,
            };
            Some(request.dump(sequence))
        }
        // The queues of PACKET and NETLINK sockets are part of their memory.
        Kind::Packet => {
            use packet_diag::show::{FANOUT, FILTER, INFO, MEMINFO, RING_CFG};
            let diag_details = bits_if(detail.contains(Detail::DIAG_DETAILS), RING_CFG | FANOUT | FILTER);
            Some(packet_diag::dump(INFO | MEMINFO | diag_details, sequence))
        }
        Kind::Netlink => {
            use netlink_diag::show::{GROUPS, MEMINFO};
            let show = MEMINFO | bits_if(detail.contains(Detail::DIAG_DETAILS), GROUPS);
            Some(netlink_diag::dump(netlink_diag::PROTOCOL_ALL, show, sequence))
        }
    }
}

fn bits_if(condition: bool, bits: u32) -> u32 {
    if condition { bits } else { 0 }
}

/// Reads the socket in `message` into `socket`; `None` if the message is not about a socket.
#[inline]
pub(crate) fn decode(
    message: &Message<'_>,
    kind: Kind,
    heads_only: bool,
    socket: &mut Socket,
) -> Option<Result<(), sockeye_wire::Error>> {
    if message.kind != TCPDIAG_GETSOCK && message.kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let payload = message.payload;
    let read = match kind {
        // In place: there may be very many of these.
        Kind::Inet(protocol, _) => {
            return Some(InetDiag::parse(payload).and_then(|wire| {
                socket.read_inet_diag_head(&wire, protocol);
                // Whether it accepts IPv4 too is in the attributes.
                let is_v6_wildcard = socket.family == Family::Inet6
                    && matches!(socket.state, State::Listen | State::Close | State::BoundInactive);
                if heads_only && !is_v6_wildcard {
                    Ok(())
                } else {
                    socket.read_inet_diag_attributes(&wire)
                }
            }));
        }
        Kind::Unix => UnixDiag::parse(payload).and_then(|wire| Socket::from_unix_diag(&wire)),
        Kind::Packet => PacketDiag::parse(payload).and_then(|wire| Socket::from_packet_diag(&wire)),
        Kind::Netlink => NetlinkDiag::parse(payload).and_then(|wire| Socket::from_netlink_diag(&wire)),
    };
    Some(read.map(|read| *socket = read))
}
