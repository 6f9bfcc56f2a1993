//! Packets made by hand, from the inside out.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
pub(crate) const CLIENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(crate) const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

pub(crate) const TIMESTAMPS: &[u8] = &[1, 1, 8, 10, 0, 0, 1, 2, 0, 0, 3, 4];
pub(crate) const SYN_OPTIONS: &[u8] = &[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7];

/// A segment; its checksum is made when it gets an IP header.
pub(crate) fn tcp(flags: u16, options: &[u8], payload_len: usize) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0);
    let mut segment = vec![];
    segment.extend_from_slice(&40_000_u16.to_be_bytes());
    segment.extend_from_slice(&443_u16.to_be_bytes());
    segment.extend_from_slice(&0xfedc_ba98_u32.to_be_bytes());
    segment.extend_from_slice(&0x0123_4567_u32.to_be_bytes());
    let offset = (5 + options.len() as u16 / 4) << 12;
    segment.extend_from_slice(&(offset | flags).to_be_bytes());
    segment.extend_from_slice(&501_u16.to_be_bytes());
    segment.extend_from_slice(&[0; 4]);
    segment.extend_from_slice(options);
    segment.extend((0..payload_len).map(|at| at as u8));
    segment
}

pub(crate) fn udp(port: u16, content: &[u8]) -> Vec<u8> {
    let mut datagram = vec![];
    datagram.extend_from_slice(&50_000_u16.to_be_bytes());
    datagram.extend_from_slice(&port.to_be_bytes());
    datagram.extend_from_slice(&(content.len() as u16 + 8).to_be_bytes());
    datagram.extend_from_slice(&[0; 2]);
    datagram.extend_from_slice(content);
    datagram
}

pub(crate) fn vxlan(content: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, 0, 7, 0], content].concat()
}

/// What of an IPv4 header is worth changing.
pub(crate) struct V4<'a> {
    pub(crate) protocol: u8,
    pub(crate) options: &'a [u8],
    /// The field: flags and offset
    pub(crate) fragment: u16,
    /// What the length says; `None`: the truth
    pub(crate) total_len: Option<u16>,
    pub(crate) tos: u8,
}

impl Default for V4<'_> {
    fn default() -> Self {
        Self {
            protocol: 6,
            options: &[],
            fragment: 0x4000,
            total_len: None,
            tos: 0,
        }
    }
}

pub(crate) fn v4(content: &[u8], with: &V4<'_>) -> Vec<u8> {
    let mut content = content.to_vec();
    if with.protocol == 6 && with.fragment & 0x3fff == 0 {
        let pseudo = [&CLIENT.octets()[..], &SERVER.octets()].concat();
        set_tcp_checksum(&mut content, &pseudo);
    }
    let header_len = 20 + with.options.len();
    let mut packet = vec![0x40 | (header_len / 4) as u8, with.tos];
    let total_len = with.total_len.unwrap_or((header_len + content.len()) as u16);
    packet.extend_from_slice(&total_len.to_be_bytes());
    packet.extend_from_slice(&0xbeef_u16.to_be_bytes());
    packet.extend_from_slice(&with.fragment.to_be_bytes());
    packet.extend_from_slice(&[61, with.protocol, 0, 0]);
    packet.extend_from_slice(&CLIENT.octets());
    packet.extend_from_slice(&SERVER.octets());
    packet.extend_from_slice(with.options);
    let checksum = !folded(sum(&packet));
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend_from_slice(&content);
    packet
}

pub(crate) fn v6(content: &[u8], next: u8, extensions: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    if next == 6 || !extensions.is_empty() && content.len() >= 20 {
        let pseudo = [&CLIENT6.octets()[..], &SERVER6.octets()].concat();
        set_tcp_checksum(&mut content, &pseudo);
    }
    let mut packet = vec![0x60, 0x30, 0, 0];
    packet.extend_from_slice(&((extensions.len() + content.len()) as u16).to_be_bytes());
    packet.extend_from_slice(&[next, 62]);
    packet.extend_from_slice(&CLIENT6.octets());
    packet.extend_from_slice(&SERVER6.octets());
    packet.extend_from_slice(extensions);
    packet.extend_from_slice(&content);
    packet
}

/// Ethernet with tags, each with its ethertype.
pub(crate) fn ethernet(tags: &[u16], ethertype: u16, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in tags {
        frame.extend_from_slice(&tag.to_be_bytes());
        frame.extend_from_slice(&[0, 5]);
    }
    frame.extend_from_slice(&ethertype.to_be_bytes());
    frame.extend_from_slice(content);
    frame
}

pub(crate) fn gre(flags: u16, ethertype: u16, content: &[u8]) -> Vec<u8> {
    let words = (flags & 0xb000).count_ones() as usize;
    let mut packet = [flags.to_be_bytes(), ethertype.to_be_bytes()].concat();
    packet.resize(4 + 4 * words, 0);
    packet.extend_from_slice(content);
    if flags & 0x8000 != 0 {
        let checksum = !folded(sum(&packet));
        packet[4..6].copy_from_slice(&checksum.to_be_bytes());
    }
    packet
}

fn set_tcp_checksum(segment: &mut [u8], addresses: &[u8]) {
    segment[16..18].fill(0);
    let checksum = !folded(sum(addresses) + 6 + segment.len() as u64 + sum(segment));
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
}

fn sum(bytes: &[u8]) -> u64 {
    let pair = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low));
    bytes.chunks(2).map(pair).sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
