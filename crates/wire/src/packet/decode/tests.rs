use super::*;
use crate::Layer;
use crate::packet::cursor::TUNNELS_MAX;
use crate::packet::{Segment, TcpFlags};
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
fn first_fragment_of_a_tunnel_has_the_whole_segment() {
    let mut inner = SYN.to_vec();
    inner[2..4].copy_from_slice(&1500_u16.to_be_bytes());
    let mut outer = SYN[..20].to_vec();
    outer[9] = protocol::IPV4;
    outer[2..4].copy_from_slice(&1500_u16.to_be_bytes());
    outer[6] = 0x20; // more follow
    outer.extend_from_slice(&inner);
    match decode(LinkType::RAW, &outer, 1500) {
        Ok(Decoded::Segment(segment)) => assert_eq!((segment.payload_len, segment.tunnels), (1440, 1)),
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
fn unknown_link_type_is_other() {
    assert!(!LinkType(147).is_known() && LinkType::ETHERNET.is_known());
    let decoded = decode(LinkType(147), SYN, 60);
    assert_eq!(decoded, Ok(Decoded::Other { ethertype: None }));
}
