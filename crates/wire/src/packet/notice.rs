//! Packets that explain a connection without being part of it: ICMP errors, and DNS queries and answers.

use super::Decoded;
use super::cursor::protocol;
use crate::bytes::{be_u16, be_u32};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A packet about connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An ICMP error about a TCP segment
    Icmp(IcmpError),
    /// A DNS query or answer over UDP
    Dns(DnsMessage),
}

/// An ICMP or `ICMPv6` error that quotes a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// Host that reports it
    pub reporter: IpAddr,
    /// Meaning
    pub kind: IcmpKind,
    /// Largest packet that fits, in bytes; `None` if it is not about the size, or the router does not report it
    pub mtu: Option<u32>,
    /// Source of the quoted segment
    pub source: (IpAddr, u16),
    /// Destination of the quoted segment
    pub destination: (IpAddr, u16),
    /// Sequence number of the quoted segment
    pub sequence: u32,
    /// Length of the quoted IP packet, in bytes
    pub packet_len: u32,
}

/// Meaning of an ICMP error, the same for both versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IcmpKind {
    /// No route to the network
    NetUnreachable,
    /// The host does not answer, or has no route to it
    HostUnreachable,
    /// Nothing listens on the port, or a firewall pretends so
    PortUnreachable,
    /// Forbidden by a firewall or policy
    Prohibited,
    /// The packet is too big and must not be fragmented
    TooBig,
    /// The packet passed too many routers
    TimeExceeded,
    /// Another reason
    Other,
}

/// A DNS query or answer with one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsMessage {
    /// Host that asks
    pub client: (IpAddr, u16),
    /// Name server
    pub server: (IpAddr, u16),
    /// Number that ties answers to queries
    pub id: u16,
    /// Whether it is an answer
    pub is_answer: bool,
    /// Response code; 0 is success
    pub code: u8,
    /// Name in the question, in lower case
    pub name: String,
    /// Type in the question (`A` is 1, `AAAA` is 28)
    pub kind: u16,
    /// Addresses in the answer, at most [`DnsMessage::ADDRESSES_MAX`]
    pub addresses: Vec<IpAddr>,
}

impl DnsMessage {
    /// Most addresses of one answer that are kept.
    pub const ADDRESSES_MAX: usize = 32;
}

/// Decodes an ICMP error about TCP, or a DNS message, in a packet that [`decode`](super::decode()) returned for these `bytes`.
/// `None` for all other packets, and for those that are truncated before what they are about.
#[must_use]
pub fn notice(decoded: &Decoded, bytes: &[u8]) -> Option<Notice> {
    match *decoded {
        Decoded::Ip {
            source,
            protocol: protocol @ (ICMP | ICMP_V6),
            payload,
            ..
        } => icmp(source, payload.captured(bytes), protocol == ICMP_V6).map(Notice::Icmp),
        Decoded::Datagram {
            source,
            source_port,
            destination,
            destination_port,
            payload,
        } if source_port == DNS_PORT || destination_port == DNS_PORT => {
            let ends = [(source, source_port), (destination, destination_port)];
            dns(ends, payload.captured(bytes)).map(Notice::Dns)
        }
        _ => None,
    }
}

/// ```text
/// u8 type; u8 code; u16 checksum; u16 unused; u16 mtu; the quoted packet
/// u8 type; u8 code; u16 checksum; u32 mtu; the quoted packet              (ICMPv6)
/// ```
fn icmp(reporter: IpAddr, payload: &[u8], is_v6: bool) -> Option<IcmpError> {
    let (kind, code) = (*payload.first()?, *payload.get(1)?);
    let kind = match (is_v6, kind, code) {
        (false, 3, 0 | 6 | 11) | (true, 1, 0) => IcmpKind::NetUnreachable,
        (false, 3, 1 | 7 | 8 | 12) | (true, 1, 3) => IcmpKind::HostUnreachable,
        (false, 3, 2 | 3) | (true, 1, 4) => IcmpKind::PortUnreachable,
        (false, 3, 9 | 10 | 13..=15) | (true, 1, 1 | 5 | 6) => IcmpKind::Prohibited,
        (false, 3, 4) | (true, 2, _) => IcmpKind::TooBig,
        (false, 11, _) | (true, 3, _) => IcmpKind::TimeExceeded,
        (false, 3 | 12, _) | (true, 1 | 4, _) => IcmpKind::Other,
        _ => return None,
    };
    let mtu = match (kind, is_v6) {
        (IcmpKind::TooBig, true) => be_u32(payload, 4),
        (IcmpKind::TooBig, false) => be_u16(payload, 6).map(u32::from),
        _ => None,
    };
    let quote = payload.get(8..)?;
    let (source, destination, header_len, packet_len) = match quote.first()? >> 4 {
        4 if quote.get(9) == Some(&protocol::TCP) => {
            let address = |at: usize| Some(Ipv4Addr::from(be_u32(quote, at)?).into());
            let header_len = usize::from(quote[0] & 15) * 4;
            (
                address(12)?,
                address(16)?,
                header_len,
                u32::from(be_u16(quote, 2)?),
            )
        }
        6 if quote.get(6) == Some(&protocol::TCP) => {
            let address = |at: usize| Some(Ipv6Addr::from(*quote.get(at..)?.first_chunk::<16>()?).into());
            (address(8)?, address(24)?, 40, u32::from(be_u16(quote, 4)?) + 40)
        }
        _ => return None,
    };
    Some(IcmpError {
        reporter,
        kind,
        mtu: mtu.filter(|mtu| *mtu > 0),
        source: (source, be_u16(quote, header_len)?),
        destination: (destination, be_u16(quote, header_len + 2)?),
        sequence: be_u32(quote, header_len + 4)?,
        packet_len,
    })
}

/// ```text
/// u16 source; u16 destination; u16 len; u16 checksum;
/// u16 id; u16 flags; u16 questions; u16 answers; u16 authorities; u16 additional; name; u16 type; u16 class; the answers
/// ```
fn dns(ends: [(IpAddr, u16); 2], payload: &[u8]) -> Option<DnsMessage> {
    let message = payload.get(8..)?;
    let (flags, questions) = (be_u16(message, 2)?, be_u16(message, 4)?);
    let is_answer = flags & 0x8000 != 0;
    let server_port = if is_answer { ends[0].1 } else { ends[1].1 };
    // Only the operation QUERY.
    if server_port != DNS_PORT || questions != 1 || flags & 0x7800 != 0 {
        return None;
    }
    let mut name = String::with_capacity(NAME_USUAL);
    let mut at = DNS_HEADER_LEN;
    loop {
        let len = usize::from(*message.get(at)?);
        match len {
            0 => break,
            1..=63 => {}
            _ => return None,
        }
        let label = message.get(at + 1..at + 1 + len)?;
        if name.len() + len > NAME_MAX {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        match str::from_utf8(label) {
            Ok(label) if label.is_ascii() => name.push_str(label),
            _ => name.extend(label.iter().map(|byte| char::from(*byte))),
        }
        at += 1 + len;
    }
    name.make_ascii_lowercase();
    let kind = be_u16(message, at + 1)?;
    let mut addresses = Vec::new();
    if is_answer {
        read_addresses(message, at + 5, &mut addresses);
    }
    let (client, server) = if is_answer {
        (ends[1], ends[0])
    } else {
        (ends[0], ends[1])
    };
    Some(DnsMessage {
        client,
        server,
        id: be_u16(message, 0)?,
        is_answer,
        code: (flags & 15) as u8,
        name,
        kind,
        addresses,
    })
}

/// Reads the addresses of the answers from here, as far as they were captured.
fn read_addresses(message: &[u8], mut at: usize, addresses: &mut Vec<IpAddr>) -> Option<()> {
    let count = be_u16(message, 6)?;
    for _ in 0..count {
        // The owner's name: labels up to a zero or a pointer.
        loop {
            match *message.get(at)? {
                0 => {
                    at += 1;
                    break;
                }
                len @ 1..=63 => at += 1 + usize::from(len),
                _ => {
                    at += 2;
                    break;
                }
            }
        }
        let (kind, len) = (be_u16(message, at)?, usize::from(be_u16(message, at + 8)?));
        let data = message.get(at + 10..at + 10 + len)?;
        let address = match (kind, len) {
            (1, 4) => Some(IpAddr::V4(Ipv4Addr::from(be_u32(data, 0)?))),
            (28, 16) => Some(IpAddr::V6(Ipv6Addr::from(*data.first_chunk::<16>()?))),
            _ => None,
        };
        addresses.extend(address.filter(|_| addresses.len() < DnsMessage::ADDRESSES_MAX));
        at += 10 + len;
    }
    Some(())
}

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
const DNS_PORT: u16 = 53;
const DNS_HEADER_LEN: usize = 12;

/// Most names are shorter.
const NAME_USUAL: usize = 64;

/// Longest name (RFC 1035).
const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{LinkType, decode};
    use alloc::vec;

    /// An IPv4 packet without checksum.
    fn ipv4(protocol: u8, source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let len = (20 + payload.len()) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(len.to_be_bytes());
        packet.extend([0, 7, 0x40, 0, 64, protocol, 0, 0]);
        packet.extend(source);
        packet.extend(destination);
        packet.extend(payload);
        packet
    }

    fn raw(packet: &[u8]) -> Option<Notice> {
        captured(packet, packet.len())
    }

    /// The same if only `len` bytes were captured.
    fn captured(packet: &[u8], len: usize) -> Option<Notice> {
        let bytes = &packet[..len];
        notice(&decode(LinkType::RAW, bytes, packet.len() as u32).ok()?, bytes)
    }

    #[test]
    fn fragmentation_needed_quotes_its_connection() {
        let mut tcp = vec![0x9c, 0x40, 1, 0xbb];
        tcp.extend(77_u32.to_be_bytes());
        let mut quote = ipv4(protocol::TCP, [10, 0, 0, 1], [10, 0, 0, 2], &tcp);
        quote[2..4].copy_from_slice(&1500_u16.to_be_bytes());
        let mut body = vec![3, 4, 0, 0, 0, 0, 0x05, 0x78];
        body.extend(&quote);
        let packet = ipv4(ICMP, [10, 0, 0, 254], [10, 0, 0, 1], &body);
        let Some(Notice::Icmp(error)) = raw(&packet) else {
            panic!("{:?}", raw(&packet));
        };
        assert_eq!((error.kind, error.mtu), (IcmpKind::TooBig, Some(1400)));
        assert_eq!(error.reporter, IpAddr::from([10, 0, 0, 254]));
        assert_eq!(error.source, ([10, 0, 0, 1].into(), 40_000));
        assert_eq!(error.destination, ([10, 0, 0, 2].into(), 443));
        assert_eq!((error.sequence, error.packet_len), (77, 1500));
        // Truncated anywhere, it is nothing, and no panic.
        for len in 0..packet.len() {
            assert_eq!(captured(&packet, len), None);
        }
    }

    #[test]
    fn fragment_of_an_answer_is_nothing() {
        let mut datagram = vec![0, 53, 0xcf, 8, 0, 0, 0, 0];
        datagram.extend(message(0x8180, &[(1, &[10, 2, 0, 3])]));
        let mut packet = ipv4(protocol::UDP, [10, 0, 0, 53], [10, 0, 0, 1], &datagram);
        assert!(raw(&packet).is_some());
        packet[6] = 0x20; // more fragments follow
        assert_eq!(raw(&packet), None);
    }

    #[test]
    fn answer_in_a_tunnel_is_found() {
        let mut datagram = vec![0, 53, 0xcf, 8, 0, 0, 0, 0];
        datagram.extend(message(0x8180, &[(1, &[10, 2, 0, 3])]));
        let inner = ipv4(protocol::UDP, [10, 0, 0, 53], [10, 0, 0, 1], &datagram);
        let outer = ipv4(protocol::IPV4, [1; 4], [2; 4], &inner);
        assert_eq!(raw(&outer), raw(&inner));
        assert!(raw(&outer).is_some());
    }

    #[test]
    fn echo_and_errors_about_udp_are_nothing() {
        assert_eq!(raw(&ipv4(ICMP, [1; 4], [2; 4], &[8, 0, 0, 0, 0, 0, 0, 0])), None);
        let quote = ipv4(protocol::UDP, [2; 4], [3; 4], &[0; 8]);
        let body = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &quote].concat();
        assert_eq!(raw(&ipv4(ICMP, [1; 4], [2; 4], &body)), None);
    }

    /// Header, question `Web.example`, and these answers.
    fn message(flags: u16, answers: &[(u16, &[u8])]) -> Vec<u8> {
        let mut dns = vec![0, 9];
        dns.extend(flags.to_be_bytes());
        dns.extend([0, 1, 0, answers.len() as u8, 0, 0, 0, 0]);
        dns.extend(b"\x03Web\x07example\x00\x00\x01\x00\x01");
        for (kind, data) in answers {
            dns.extend([0xc0, 12]);
            dns.extend(kind.to_be_bytes());
            dns.extend([0, 1, 0, 0, 0, 60]);
            dns.extend((data.len() as u16).to_be_bytes());
            dns.extend(*data);
        }
        dns
    }

    #[test]
    fn dns_answer_has_name_and_addresses() {
        let alias = b"\x01x\xc0\x0c";
        let body = message(0x8180, &[(5, alias), (1, &[10, 2, 0, 3]), (28, &[0x20; 16])]);
        let mut datagram = vec![0, 53, 0xcf, 8, 0, 0, 0, 0];
        datagram.extend(&body);
        let packet = ipv4(protocol::UDP, [10, 0, 0, 53], [10, 0, 0, 1], &datagram);
        let Some(Notice::Dns(dns)) = raw(&packet) else {
            panic!("{:?}", raw(&packet));
        };
        assert_eq!((dns.name.as_str(), dns.kind, dns.id), ("web.example", 1, 9));
        assert!(dns.is_answer);
        assert_eq!(dns.client, ([10, 0, 0, 1].into(), 53_000));
        assert_eq!(
            dns.addresses,
            [IpAddr::from([10, 2, 0, 3]), IpAddr::from([0x20; 16])]
        );
        for len in 0..packet.len() {
            let _ = captured(&packet, len);
        }
    }

    #[test]
    fn dns_query_is_of_the_client() {
        let mut datagram = vec![0xcf, 8, 0, 53, 0, 0, 0, 0];
        datagram.extend(message(0x0100, &[]));
        let packet = ipv4(protocol::UDP, [10, 0, 0, 1], [10, 0, 0, 53], &datagram);
        let Some(Notice::Dns(dns)) = raw(&packet) else {
            panic!("{:?}", raw(&packet));
        };
        assert!(!dns.is_answer && dns.addresses.is_empty());
        assert_eq!(dns.client.1, 53_000);
    }
}
