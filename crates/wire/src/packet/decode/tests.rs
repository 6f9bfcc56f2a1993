use super::*;
use crate::Layer;
use crate::packet::cursor::TUNNELS_MAX;
use crate::packet::{Fragments, Segment, TcpFlags};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

/// A SYN from 10.0.0.1:40000 to 10.0.0.2:443, with MSS 1460, SACK permitted, timestamps and a window scale of 7, as
/// tcpdump shows it; captured on the sending host, so that its checksum is not final.
const SYN: &[u8] = &[
    0x45, 0x02, 0x00, 0x3c, 0x12, 0x34, 0x40, 0x00, 0x40, 0x06, 0x14, 0x84, 10, 0, 0, 1, 10, 0, 0,
    2, // IPv4
    0x9c, 0x40, 0x01, 0xbb, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0x14, 0x31, 0,
    0, // TCP
    2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
];

fn segment(link_type: LinkType, bytes: &[u8]) -> Segment {
    match decode(link_type, bytes, bytes.len() as u32) {
        Ok(Decoded::Segment(segment)) => segment,
        other => panic!("{other:?}"),
    }
}

fn short(layer: Layer, offset: usize, needed: usize, got: usize) -> Result<Decoded, Error> {
    Err(Error {
        layer,
        offset,
        needed,
        got,
    })
}

#[test]
fn syn_is_decoded() {
    let syn = segment(LinkType::RAW, SYN);
    assert_eq!(syn.source, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!((syn.source_port, syn.destination_port), (40_000, 443));
    assert_eq!(
        (syn.sequence, syn.window, syn.payload_len),
        (0xdead_beef, 64_240, 0)
    );
    assert_eq!(
        (syn.flags, syn.ecn, syn.ttl, syn.ip_id),
        (TcpFlags::SYN, 2, 64, Some(0x1234))
    );
    assert_eq!((syn.options.mss, syn.options.window_scale), (Some(1460), Some(7)));
    assert!(syn.options.sack_permitted && !syn.options.is_cut);
    assert_eq!(syn.options.timestamps.map(|stamps| stamps.value), Some(1));
}

#[test]
fn offloaded_checksum_is_not_bad() {
    assert_eq!(segment(LinkType::RAW, SYN).bad_checksum, None);
    let mut finished = SYN.to_vec();
    // The checksum that the hardware would calculate: all words but the checksum, and the pseudo header.
    finished[36..38].fill(0);
    let mut sum = 0x1431_u32;
    for pair in finished[20..].chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair[1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    finished[36..38].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    assert_eq!(segment(LinkType::RAW, &finished).bad_checksum, Some(false));
    finished[34] ^= 1;
    assert_eq!(segment(LinkType::RAW, &finished).bad_checksum, Some(true));
    // A truncated packet cannot be checked.
    let cut = decode(LinkType::RAW, &finished[..50], 60);
    assert!(matches!(
        cut,
        Ok(Decoded::Segment(Segment {
            bad_checksum: None,
            ..
        }))
    ));
}

#[test]
fn truncated_headers_are_errors() {
    for len in 0..SYN.len() {
        let decoded = decode(LinkType::RAW, &SYN[..len], SYN.len() as u32);
        match len {
            0 => assert_eq!(decoded, short(Layer::Ipv4, 0, 1, 0)),
            1..20 => assert_eq!(decoded, short(Layer::Ipv4, 0, 20, len)),
            20..36 => assert_eq!(decoded, short(Layer::Tcp, 20, 16, len - 20)),
            _ => match decoded {
                Ok(Decoded::Segment(segment)) => {
                    assert!(segment.options.is_cut);
                    assert_eq!(segment.options.mss.is_some(), len >= 44);
                    assert_eq!(segment.payload_len, 0);
                }
                other => panic!("{len}: {other:?}"),
            },
        }
    }
}

#[test]
fn uncaptured_payload_counts() {
    let mut data = SYN.to_vec();
    data[2..4].copy_from_slice(&1500_u16.to_be_bytes());
    match decode(LinkType::RAW, &data, 1500) {
        Ok(Decoded::Segment(segment)) => assert_eq!(segment.payload_len, 1440),
        other => panic!("{other:?}"),
    }
    // Longer than IPv4's length field: captured before segmentation.
    data[2..4].fill(0);
    match decode(LinkType::RAW, &data, 150_000) {
        Ok(Decoded::Segment(segment)) => assert_eq!(segment.payload_len, 149_940),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_jumbo_packet_of_ipv6() {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
    packet.extend_from_slice(&[0xfe; 32]);
    packet.extend_from_slice(&[6, 0, 0xc2, 4]); // hop by hop: jumbo payload
    packet.extend_from_slice(&(8 + 40 + 100_000_u32).to_be_bytes());
    packet.extend_from_slice(&SYN[20..]);
    match decode(LinkType::RAW, &packet, 200_000) {
        Ok(Decoded::Segment(segment)) => assert_eq!((segment.payload_len, segment.ip_id), (100_000, None)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nested_tunnels_are_bounded() {
    let mut packet: Vec<u8> = SYN.to_vec();
    for depth in 1..=20_u8 {
        let mut outer = SYN[..20].to_vec();
        outer[9] = protocol::IPV4;
        outer[2..4].copy_from_slice(&(packet.len() as u16 + 20).to_be_bytes());
        outer.extend_from_slice(&packet);
        packet = outer;
        match decode(LinkType::RAW, &packet, packet.len() as u32) {
            Ok(Decoded::Segment(segment)) => assert_eq!(segment.tunnels, depth),
            Ok(Decoded::Ip { protocol: 4, .. }) => assert!(depth > TUNNELS_MAX),
            other => panic!("{other:?}"),
        }
    }
    // Tags are bounded as well: a frame of tags only.
    let tags: Vec<u8> = [0x81, 0, 0, 0].repeat(1000);
    let frame = [&[0; 12][..], &tags].concat();
    let decoded = decode(LinkType::ETHERNET, &frame, frame.len() as u32);
    assert_eq!(
        decoded,
        Ok(Decoded::Other {
            ethertype: Some(0x8100)
        })
    );
}

#[test]
fn segment_in_a_fragmented_tunnel_waits_for_the_other_fragments() {
    let mut inner = SYN.to_vec();
    inner[2..4].copy_from_slice(&1500_u16.to_be_bytes());
    let mut outer = SYN[..20].to_vec();
    outer[9] = protocol::IPV4;
    outer[2..4].copy_from_slice(&1500_u16.to_be_bytes());
    outer[6] = 0x20; // more follow
    outer.extend_from_slice(&inner);
    match decode(LinkType::RAW, &outer, 1500) {
        Ok(Decoded::Fragment(fragment)) => {
            let segment = fragment.segment.expect("the segment in the tunnel");
            assert_eq!((segment.payload_len, segment.tunnels), (1440, 1));
            assert_eq!(
                (fragment.protocol, fragment.len, fragment.has_more),
                (4, 1480, true)
            );
            let mut fragments = Fragments::default();
            assert_eq!(fragments.add(&fragment), None);
            outer.truncate(60);
            outer[2..4].copy_from_slice(&60_u16.to_be_bytes());
            outer[6..8].copy_from_slice(&[0, 185]); // 1480 bytes
            let Ok(Decoded::Fragment(last)) = decode(LinkType::RAW, &outer, 60) else {
                panic!("the last fragment");
            };
            assert_eq!(fragments.add(&last), Some(segment));
            assert_eq!(fragments.incomplete(), 0);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn fragments_are_decoded() {
    let mut first = SYN.to_vec();
    first[6] = 0x20;
    match decode(LinkType::RAW, &first, 60) {
        Ok(Decoded::Fragment(fragment)) => {
            assert_eq!((fragment.id, fragment.offset, fragment.len), (0x1234, 0, 40));
            assert!(
                fragment.has_more
                    && fragment
                        .segment
                        .is_some_and(|segment| segment.source_port == 40_000)
            );
        }
        other => panic!("{other:?}"),
    }
    let mut last = SYN.to_vec();
    last[6..8].copy_from_slice(&[0, 5]);
    match decode(LinkType::RAW, &last, 60) {
        Ok(Decoded::Fragment(fragment)) => {
            assert_eq!(
                (fragment.offset, fragment.len, fragment.has_more),
                (40, 40, false)
            );
            assert_eq!((fragment.segment, fragment.protocol), (None, protocol::TCP));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_link_type_is_named() {
    assert!(!LinkType(147).is_known() && LinkType::ETHERNET.is_known());
    let decoded = decode(LinkType(147), SYN, 60);
    assert_eq!(decoded, Ok(Decoded::UnknownLink(LinkType(147))));
}

/// SNAP with the ethertype of IPv4
const SNAP: &[u8] = &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
/// An 802.11 data frame to the distribution system: control, duration, three addresses, sequence
const WIRELESS: &[u8] = &[
    0x08, 0x01, 0, 0, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6, 0x10, 0,
];

/// The SYN in IPv4 of this protocol, from 10.0.0.1 to 10.0.0.2.
fn outer(protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = SYN[..20].to_vec();
    packet[2..4].copy_from_slice(&(content.len() as u16 + 20).to_be_bytes());
    packet[9] = protocol;
    packet.extend_from_slice(content);
    packet
}

/// Checks that the SYN is found in this packet, and that its headers may be cut anywhere.
fn check_syn(name: &str, link_type: LinkType, packet: &[u8]) {
    assert!(link_type.is_known(), "{name}");
    let syn = segment(link_type, packet);
    assert_eq!(
        (
            syn.source_port,
            syn.destination_port,
            syn.sequence,
            syn.payload_len
        ),
        (40_000, 443, 0xdead_beef, 0),
        "{name}"
    );
    for len in 0..packet.len() {
        if let Ok(Decoded::Segment(cut)) = decode(link_type, &packet[..len], packet.len() as u32) {
            assert_eq!(
                (cut.sequence, cut.payload_len),
                (syn.sequence, 0),
                "{name}: {len}"
            );
        }
    }
}

#[test]
fn rare_link_headers_are_decoded() {
    let mut fddi = vec![0x50];
    fddi.extend_from_slice(&[2; 12]);
    let prism = [&[0x44, 0, 0, 0, 144, 0, 0, 0][..], &[0; 136]].concat();
    let avs = [&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64][..], &[0; 56]].concat();
    let nflog = [2, 0, 0, 40, 8, 0, 1, 0, 8, 0, 3, 0, 64, 0, 9, 0];
    let nflog_big = [2, 0, 0, 40, 0, 7, 0, 10, b'I', b'N', 0, 0, 0, 64, 0, 9];
    let erf = [
        0,
        0,
        0,
        0,
        0,
        0xf1,
        0x53,
        0x65,
        0x80 | 22,
        4,
        0,
        84,
        0,
        0,
        0,
        60,
        4,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    for (name, link_type, header) in [
        ("FDDI", LinkType::FDDI, [&fddi[..], SNAP].concat()),
        ("ATM", LinkType::ATM_RFC1483, SNAP.to_vec()),
        ("802.2 with IP", LinkType::ATM_RFC1483, vec![6, 6, 3]),
        ("PPPoE", LinkType::PPP_ETHER, vec![0x11, 0, 0, 1, 0, 62, 0, 0x21]),
        ("NFLOG", LinkType::NFLOG, nflog.to_vec()),
        ("NFLOG, big-endian", LinkType::NFLOG, nflog_big.to_vec()),
        ("802.11", LinkType::IEEE802_11, [WIRELESS, SNAP].concat()),
        (
            "radiotap",
            LinkType::IEEE802_11_RADIOTAP,
            [&[0, 0, 9, 0, 2, 0, 0, 0, 0x10], WIRELESS, SNAP].concat(),
        ),
        (
            "Prism",
            LinkType::IEEE802_11_PRISM,
            [&prism[..], WIRELESS, SNAP].concat(),
        ),
        (
            "AVS",
            LinkType::IEEE802_11_AVS,
            [&avs[..], WIRELESS, SNAP].concat(),
        ),
        (
            "PPI",
            LinkType::PPI,
            [&[0, 0, 8, 0, 105, 0, 0, 0], WIRELESS, SNAP].concat(),
        ),
        (
            "InfiniBand",
            LinkType::IPOIB,
            [&[0; 40][..], &[8, 0, 0, 0]].concat(),
        ),
        (
            "802.1ah",
            LinkType::ETHERNET,
            [&[2; 12], &[0x88, 0xe7, 0, 0, 0, 9][..], &[4; 12], &[8, 0]].concat(),
        ),
        (
            "FabricPath",
            LinkType::ETHERNET,
            [&[2; 12], &[0x89, 3, 0, 9][..], &[4; 12], &[8, 0]].concat(),
        ),
        ("ipnet", LinkType::IPNET, [&[1, 2][..], &[0; 22]].concat()),
        ("ERF", LinkType::ERF, erf.to_vec()),
    ] {
        check_syn(name, link_type, &[&header, SYN].concat());
    }
}

#[test]
fn wireless_frames_without_an_ip_packet_are_other() {
    for (at, bits) in [(0, 0x80), (0, 0x48), (1, 0x41), (22, 0x11)] {
        let mut frame = [WIRELESS, SNAP, SYN].concat();
        frame[at] = bits; // a beacon, no data, encrypted, a later fragment
        let decoded = decode(LinkType::IEEE802_11, &frame, frame.len() as u32);
        assert_eq!(decoded, Ok(Decoded::Other { ethertype: None }), "{at} {bits:x}");
    }
}

#[test]
fn rare_tunnels_are_decoded() {
    let gre = |proto: [u8; 2], header: &[u8], content: &[u8]| {
        outer(47, &[&[0, 0], &proto[..], header, content].concat())
    };
    let ethernet = [&[2; 12], &[8, 0][..], SYN].concat();
    let udp = |port: u16, content: &[u8]| {
        let len = (content.len() as u16 + 8).to_be_bytes();
        outer(
            17,
            &[&[0xc3, 0x50], &port.to_be_bytes()[..], &len, &[0, 0], content].concat(),
        )
    };
    let mut type3 = [0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].to_vec();
    type3.extend_from_slice(&[0; 8]);
    for (name, packet) in [
        (
            "802.11 in GRE",
            gre([0x82, 0x10], WIRELESS, &[SNAP, SYN].concat()),
        ),
        ("ERSPAN III", gre([0x22, 0xeb], &type3, &ethernet)),
        ("WCCP", gre([0x88, 0x3e], &[0, 1, 2, 3], SYN)),
        ("WCCP 1", gre([0x88, 0x3e], &[], SYN)),
        (
            "VXLAN",
            udp(4789, &[&[0x88, 0, 0, 7, 0, 0, 1, 9], &ethernet[..]].concat()),
        ),
        (
            "VXLAN-GPE",
            udp(4790, &[&[0x0c, 0, 0, 1, 0, 0, 1, 0], SYN].concat()),
        ),
        ("GRE in UDP", udp(4754, &[&[0, 0, 8, 0], SYN].concat())),
        (
            "L2TP",
            udp(1701, &[&[0, 2, 0, 1, 0, 2, 0xff, 3, 0, 0x21], SYN].concat()),
        ),
        (
            "L2TP with everything",
            udp(
                1701,
                &[
                    &[0x4a, 2, 0, 78, 0, 1, 0, 2, 0, 3, 0, 4, 0, 2, 9, 9, 0, 0x21],
                    SYN,
                ]
                .concat(),
            ),
        ),
        ("GTP", udp(2152, &[&[0x30, 255, 0, 60, 0, 0, 0, 1], SYN].concat())),
        (
            "GTP with an extension",
            udp(
                2152,
                &[&[0x34, 255, 0, 68, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0x10, 5, 0], SYN].concat(),
            ),
        ),
        (
            "GTP 0",
            udp(3386, &[&[0x1e, 255, 0, 60], &[0; 16][..], SYN].concat()),
        ),
    ] {
        assert_eq!(segment(LinkType::RAW, &packet).tunnels, 1, "{name}");
        check_syn(name, LinkType::RAW, &packet);
    }
    // An extension of length 0 has no end, and an echo no packet.
    for header in [
        [0x34, 255, 0, 68, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, 0x10, 5, 0],
        [0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    ] {
        let packet = udp(2152, &[&header, SYN].concat());
        let decoded = decode(LinkType::RAW, &packet, packet.len() as u32);
        assert!(matches!(decoded, Ok(Decoded::Datagram { .. })), "{decoded:?}");
    }
}

#[test]
fn length_of_pppoe_ends_the_packet() {
    let mut packet = [&[0x11, 0, 0, 1, 0, 62, 0, 0x21], SYN, &[0xee; 6]].concat();
    packet[10..12].fill(0); // IPv4 with a length of 0 reaches to the end of what is around it
    assert_eq!(segment(LinkType::PPP_ETHER, &packet).payload_len, 0);
}

#[test]
fn source_route_leads_to_the_final_destination() {
    let options = [131, 7, 4, 192, 0, 2, 9, 0];
    let mut packet = [&SYN[..20], &options, &SYN[20..]].concat();
    packet[0] = 0x47;
    packet[2..4].copy_from_slice(&68_u16.to_be_bytes());
    let to = |packet: &[u8]| segment(LinkType::RAW, packet).destination;
    assert_eq!(to(&packet), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)));
    packet[22] = 8; // the route is complete
    assert_eq!(to(&packet), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
}

#[test]
fn unknown_type_in_a_header_with_a_type_is_named() {
    let ppi = [&[0, 0, 8, 0, 6, 0, 0, 0], SYN].concat();
    assert_eq!(
        decode(LinkType::PPI, &ppi, ppi.len() as u32),
        Ok(Decoded::UnknownLink(LinkType(6)))
    );
    let erf = [&[0, 0, 0, 0, 0, 0xf1, 0x53, 0x65, 3, 4, 0, 76, 0, 0, 0, 60], SYN].concat();
    assert_eq!(
        decode(LinkType::ERF, &erf, erf.len() as u32),
        Ok(Decoded::UnknownLink(LinkType::ERF))
    );
}
