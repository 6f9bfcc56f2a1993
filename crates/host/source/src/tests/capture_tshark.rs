//! Packets read by us and by tshark, field by field: made by hand, and captured from real traffic.

mod build;
mod oracle;

use self::build::{SYN_OPTIONS, TIMESTAMPS, V4, ethernet, gre, tcp, udp, v4, v6, vxlan};
use self::oracle::compare;
use sockeye_lab::{Lab, Namespace, need, program, wait_until};
use sockeye_source::capture::Capture;
use sockeye_wire::packet::{Decoded, Fragments, LinkType, pcapng};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A packet with the name of what is special about it.
type Named = (&'static str, LinkType, Vec<u8>);

/// One of each kind.
fn by_hand() -> Vec<Named> {
    const ACK: u16 = 0x10;
    let plain = v4(&tcp(ACK, TIMESTAMPS, 100), &V4::default());
    let plain6 = v6(&tcp(ACK, TIMESTAMPS, 33), 6, &[]);
    let inner = ethernet(&[], 0x800, &plain);
    let carried = |protocol, content: &[u8]| {
        v4(
            content,
            &V4 {
                protocol,
                ..V4::default()
            },
        )
    };
    let ether = |content: &[u8]| ethernet(&[], 0x800, content);
    let ether6 = |content: &[u8]| ethernet(&[], 0x86dd, content);
    let with_options = |flags, options: &[u8]| ether(&v4(&tcp(flags, options, 5), &V4::default()));
    let linked = |header: &[u8], content: &[u8]| [header, content].concat();
    let mut bad = ether(&plain);
    bad[14 + 20 + 16] ^= 0x55;
    let mut padded = ether(&v4(&tcp(ACK, &[], 0), &V4::default()));
    padded.resize(60, 0xee);
    let mut sll = vec![0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    sll.extend_from_slice(&[8, 0]);
    let sll2 = [0x86, 0xdd, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    let fragment = |place: u16, content: &[u8]| {
        ether(&v4(
            content,
            &V4 {
                fragment: place,
                ..V4::default()
            },
        ))
    };
    let sack = |blocks: u8| {
        let mut options = vec![1, 1, 5, 2 + 8 * blocks];
        options.extend((0..8 * blocks).map(|at| at ^ 0x5a));
        options
    };
    vec![
        ("plain", LinkType::ETHERNET, ether(&plain)),
        ("IPv6", LinkType::ETHERNET, ether6(&plain6)),
        ("SYN", LinkType::ETHERNET, with_options(0x02, SYN_OPTIONS)),
        (
            "SYN-ACK with ECN",
            LinkType::ETHERNET,
            with_options(0x52, SYN_OPTIONS),
        ),
        ("all flags", LinkType::ETHERNET, with_options(0xfff, TIMESTAMPS)),
        ("one SACK block", LinkType::ETHERNET, with_options(ACK, &sack(1))),
        (
            "four SACK blocks",
            LinkType::ETHERNET,
            with_options(ACK, &sack(4)),
        ),
        (
            "timestamps and SACK",
            LinkType::ETHERNET,
            with_options(ACK, &[TIMESTAMPS, &sack(3)].concat()),
        ),
        (
            "a window scale of 15",
            LinkType::ETHERNET,
            with_options(2, &[3, 3, 15, 0]),
        ),
        (
            "an option of length 0",
            LinkType::ETHERNET,
            with_options(ACK, &[1, 99, 0, 1]),
        ),
        (
            "an option beyond the header",
            LinkType::ETHERNET,
            with_options(ACK, &[1, 1, 8, 10]),
        ),
        (
            "unknown options",
            LinkType::ETHERNET,
            with_options(ACK, &[253, 4, 1, 2, 30, 3, 1, 0]),
        ),
        (
            "MSS in an ACK",
            LinkType::ETHERNET,
            with_options(ACK, &[2, 4, 5, 0xb4]),
        ),
        ("a wrong checksum", LinkType::ETHERNET, bad),
        ("padding", LinkType::ETHERNET, padded),
        ("VLAN", LinkType::ETHERNET, ethernet(&[0x8100], 0x800, &plain)),
        (
            "QinQ",
            LinkType::ETHERNET,
            ethernet(&[0x88a8, 0x8100], 0x800, &plain),
        ),
        (
            "old QinQ",
            LinkType::ETHERNET,
            ethernet(&[0x9100, 0x8100], 0x86dd, &plain6),
        ),
        (
            "five tags",
            LinkType::ETHERNET,
            ethernet(&[0x8100, 0x8100, 0x8100, 0x8100, 0x8100], 0x800, &plain),
        ),
        (
            "SNAP",
            LinkType::ETHERNET,
            ethernet(
                &[],
                8 + plain.len() as u16,
                &linked(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &plain),
            ),
        ),
        (
            "MPLS",
            LinkType::ETHERNET,
            ethernet(&[], 0x8847, &linked(&[0, 1, 0, 64, 0, 2, 1, 64], &plain)),
        ),
        (
            "PPPoE",
            LinkType::ETHERNET,
            ethernet(
                &[],
                0x8864,
                &linked(&[0x11, 0, 0, 1, 0, 2 + plain.len() as u8, 0, 0x21], &plain),
            ),
        ),
        (
            "IPv4 options",
            LinkType::ETHERNET,
            ether(&v4(
                &tcp(ACK, &[], 7),
                &V4 {
                    options: &[1, 1, 1, 0],
                    tos: 3,
                    ..V4::default()
                },
            )),
        ),
        (
            "a length of 0",
            LinkType::ETHERNET,
            ether(&v4(
                &tcp(ACK, TIMESTAMPS, 3000),
                &V4 {
                    total_len: Some(0),
                    ..V4::default()
                },
            )),
        ),
        (
            "a length beyond the packet",
            LinkType::ETHERNET,
            ether(&v4(
                &tcp(ACK, TIMESTAMPS, 30),
                &V4 {
                    total_len: Some(1500),
                    ..V4::default()
                },
            )),
        ),
        (
            "first fragment",
            LinkType::ETHERNET,
            fragment(0x2000, &tcp(ACK, TIMESTAMPS, 64)),
        ),
        ("later fragment", LinkType::ETHERNET, fragment(0x2008, &[7; 64])),
        ("last fragment", LinkType::ETHERNET, fragment(0x0010, &[7; 9])),
        (
            "extension headers",
            LinkType::ETHERNET,
            ether6(&v6(
                &tcp(ACK, TIMESTAMPS, 9),
                0,
                &[
                    60, 0, 1, 4, 0, 0, 0, 0, // hop by hop
                    6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // destination
                ],
            )),
        ),
        (
            "routing header",
            LinkType::ETHERNET,
            ether6(&v6(
                &tcp(ACK, TIMESTAMPS, 9),
                43,
                &[
                    6, 2, 4, 0, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
                ],
            )),
        ),
        (
            "an only fragment",
            LinkType::ETHERNET,
            ether6(&v6(&tcp(ACK, TIMESTAMPS, 9), 44, &[6, 0, 0, 0, 0, 0, 0, 5])),
        ),
        (
            "first fragment of IPv6",
            LinkType::ETHERNET,
            ether6(&v6(&tcp(ACK, TIMESTAMPS, 12), 44, &[6, 0, 0, 1, 0, 0, 0, 6])),
        ),
        (
            "later fragment of IPv6",
            LinkType::ETHERNET,
            ether6(&v6(&[9; 16], 44, &[6, 0, 0, 8, 0, 0, 0, 6])),
        ),
        (
            "authentication header",
            LinkType::ETHERNET,
            ether6(&v6(
                &tcp(ACK, TIMESTAMPS, 9),
                51,
                &[
                    6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                ],
            )),
        ),
        ("IP in IP", LinkType::ETHERNET, ether(&carried(4, &plain))),
        ("6in4", LinkType::ETHERNET, ether(&carried(41, &plain6))),
        ("4in6", LinkType::ETHERNET, ether6(&v6(&plain, 4, &[]))),
        ("6in6", LinkType::ETHERNET, ether6(&v6(&plain6, 41, &[]))),
        (
            "GRE",
            LinkType::ETHERNET,
            ether(&carried(47, &gre(0, 0x800, &plain))),
        ),
        (
            "GRE with everything",
            LinkType::ETHERNET,
            ether(&carried(47, &gre(0xb000, 0x86dd, &plain6))),
        ),
        (
            "GRE bridging",
            LinkType::ETHERNET,
            ether(&carried(47, &gre(0x2000, 0x6558, &inner))),
        ),
        (
            "VXLAN",
            LinkType::ETHERNET,
            ether(&carried(17, &udp(4789, &vxlan(&inner)))),
        ),
        (
            "VXLAN in VXLAN",
            LinkType::ETHERNET,
            ether(&carried(
                17,
                &udp(4789, &vxlan(&ether(&carried(17, &udp(4789, &vxlan(&inner)))))),
            )),
        ),
        (
            "VXLAN over IPv6",
            LinkType::ETHERNET,
            ether6(&v6(&udp(4789, &vxlan(&inner)), 17, &[])),
        ),
        (
            "Geneve",
            LinkType::ETHERNET,
            ether(&carried(
                17,
                &udp(6081, &linked(&[0, 0, 0x65, 0x58, 0, 0, 1, 0], &inner)),
            )),
        ),
        (
            "UDP",
            LinkType::ETHERNET,
            ether(&carried(17, &udp(5000, &[1, 2, 3]))),
        ),
        (
            "ICMP",
            LinkType::ETHERNET,
            ether(&carried(1, &linked(&[3, 4, 0, 0, 0, 0, 0, 0], &plain))),
        ),
        ("ARP", LinkType::ETHERNET, ethernet(&[], 0x806, &[0; 28])),
        ("cooked", LinkType::LINUX_SLL, linked(&sll, &plain)),
        ("cooked, version 2", LinkType::LINUX_SLL2, linked(&sll2, &plain6)),
        ("raw", LinkType::RAW, plain.clone()),
        ("raw IPv6", LinkType::RAW, plain6.clone()),
        ("raw, IPv4 by name", LinkType::IPV4, plain.clone()),
        ("raw, IPv6 by name", LinkType::IPV6, plain6.clone()),
        ("loopback of BSD", LinkType::NULL, linked(&[2, 0, 0, 0], &plain)),
        (
            "loopback of BSD, IPv6",
            LinkType::NULL,
            linked(&[30, 0, 0, 0], &plain6),
        ),
        (
            "loopback of OpenBSD",
            LinkType::LOOP,
            linked(&[0, 0, 0, 24], &plain6),
        ),
        ("PPP", LinkType::PPP, linked(&[0xff, 3, 0, 0x21], &plain)),
        ("PPP, compressed", LinkType::PPP, linked(&[0x21], &plain)),
        (
            "PPP in HDLC",
            LinkType::PPP_HDLC,
            linked(&[0xff, 3, 0, 0x57], &plain6),
        ),
        ("Cisco HDLC", LinkType::C_HDLC, linked(&[0x0f, 0, 8, 0], &plain)),
    ]
}

/// One of each link header and tunnel that is rarer. Not those that tshark reads otherwise: NFLOG of big-endian machines (with a
/// preference only), ERF in pcap (it removes the header), `FabricPath` (it expects a checksum at the end).
fn rare_by_hand() -> Vec<Named> {
    const ACK: u16 = 0x10;
    const SNAP: &[u8] = &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let plain = v4(&tcp(ACK, TIMESTAMPS, 100), &V4::default());
    let plain6 = v6(&tcp(ACK, TIMESTAMPS, 33), 6, &[]);
    let inner = ethernet(&[], 0x800, &plain);
    let carried = |protocol, content: &[u8]| {
        let with = V4 {
            protocol,
            ..V4::default()
        };
        ethernet(&[], 0x800, &v4(content, &with))
    };
    let joined = |parts: &[&[u8]]| parts.concat();
    let address = [2; 6];
    // Frame control, duration, three addresses, sequence
    let wireless = |control: [u8; 2]| [&control[..], &[0, 0], &address.repeat(3), &[0x10, 0]].concat();
    let data = joined(&[&wireless([0x08, 0x01]), SNAP, &plain]);
    let nflog = |attributes: &[(u16, &[u8])]| {
        let mut packet = vec![2, 0, 0, 40];
        for (kind, value) in attributes {
            packet.extend((value.len() as u16 + 4).to_le_bytes());
            packet.extend(kind.to_le_bytes());
            packet.extend_from_slice(value);
            packet.resize(packet.len().next_multiple_of(4), 0);
        }
        packet
    };
    let hook: (u16, &[u8]) = (1, &[8, 0, 3, 0]);
    let prefix: (u16, &[u8]) = (10, b"IN\0");
    let gtp = |header: &[u8], content: &[u8]| {
        let len = (header.len() - 8 + content.len()) as u16;
        let mut packet = joined(&[header, content]);
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet
    };
    let prism = {
        let mut header = vec![0x44, 0, 0, 0, 144, 0, 0, 0];
        header.resize(144, 0);
        header
    };
    let avs = {
        let mut header = vec![0x80, 0x21, 0x10, 0x01, 0, 0, 0, 64];
        header.resize(64, 0);
        header
    };
    let mut padded = ethernet(
        &[],
        0x8864,
        &joined(&[&[0x11, 0, 0, 1, 0, 2 + plain.len() as u8, 0, 0x21], &plain]),
    );
    padded.extend([0xee; 9]);
    let erspan3 = |flags: u8| {
        let mut header = vec![0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags];
        if flags & 1 != 0 {
            header.resize(20, 0);
        }
        header
    };
    let route = |pointer: u8| {
        let options = [131, 11, pointer, 203, 0, 113, 1, 203, 0, 113, 9, 0];
        let with = V4 {
            options: &options,
            ..V4::default()
        };
        v4(&tcp(ACK, TIMESTAMPS, 5), &with)
    };
    vec![
        (
            "FDDI",
            LinkType::FDDI,
            joined(&[&[0x50], &address, &address, SNAP, &plain]),
        ),
        (
            "FDDI, a token",
            LinkType::FDDI,
            joined(&[&[0x80], &address, &address, &[0; 20]]),
        ),
        (
            "802.2 with IP",
            LinkType::ATM_RFC1483,
            joined(&[&[6, 6, 3], &plain]),
        ),
        (
            "802.1H",
            LinkType::ATM_RFC1483,
            joined(&[&[0xaa, 0xaa, 3, 0, 0, 0xf8, 8, 0], &plain]),
        ),
        (
            "NFLOG",
            LinkType::NFLOG,
            nflog(&[hook, prefix, (9, &plain), (3, &[0; 4])]),
        ),
        ("802.11", LinkType::IEEE802_11, data.clone()),
        (
            "802.11 with QoS",
            LinkType::IEEE802_11,
            joined(&[&wireless([0x88, 0x02]), &[0, 0], SNAP, &plain]),
        ),
        (
            "802.11 with four addresses",
            LinkType::IEEE802_11,
            joined(&[&wireless([0x08, 0x03]), &address, SNAP, &plain]),
        ),
        (
            "802.11 with HT control",
            LinkType::IEEE802_11,
            joined(&[&wireless([0x88, 0x81]), &[0; 6], SNAP, &plain]),
        ),
        (
            "802.11, encrypted",
            LinkType::IEEE802_11,
            joined(&[&wireless([0x08, 0x41]), &[0x55; 90]]),
        ),
        (
            "802.11, a beacon",
            LinkType::IEEE802_11,
            joined(&[&wireless([0x80, 0x00]), &[0; 12]]),
        ),
        (
            "radiotap",
            LinkType::IEEE802_11_RADIOTAP,
            joined(&[&[0, 0, 8, 0, 0, 0, 0, 0], &data]),
        ),
        (
            "radiotap with time and padding",
            LinkType::IEEE802_11_RADIOTAP,
            joined(&[
                &[0, 0, 17, 0, 3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x20],
                &wireless([0x88, 0x02]),
                &[0, 0, 0, 0],
                SNAP,
                &plain,
            ]),
        ),
        ("Prism", LinkType::IEEE802_11_PRISM, joined(&[&prism, &data])),
        ("AVS", LinkType::IEEE802_11_AVS, joined(&[&avs, &data])),
        (
            "PPI",
            LinkType::PPI,
            joined(&[&[0, 0, 8, 0, 105, 0, 0, 0], &data]),
        ),
        (
            "IP over InfiniBand",
            LinkType::IPOIB,
            joined(&[&[0; 40], &[8, 0, 0, 0], &plain]),
        ),
        (
            "ipnet",
            LinkType::IPNET,
            joined(&[&[1, 2, 0, 0, 0, 0, 0, plain.len() as u8], &[0; 16], &plain]),
        ),
        (
            "PPPoE alone",
            LinkType::PPP_ETHER,
            joined(&[&[0x11, 0, 0, 1, 0, 2 + plain.len() as u8, 0, 0x21], &plain]),
        ),
        ("PPPoE with padding", LinkType::ETHERNET, padded),
        (
            "802.1BR",
            LinkType::ETHERNET,
            ethernet(&[], 0x893f, &joined(&[&[0, 0, 0, 1, 0, 0, 8, 0], &plain])),
        ),
        (
            "ERSPAN, type I",
            LinkType::ETHERNET,
            carried(47, &gre(0, 0x88be, &inner)),
        ),
        (
            "ERSPAN, type II",
            LinkType::ETHERNET,
            carried(
                47,
                &gre(0x1000, 0x88be, &joined(&[&[0x10, 1, 0, 1, 0, 0, 0, 0], &inner])),
            ),
        ),
        (
            "ERSPAN, type III",
            LinkType::ETHERNET,
            carried(47, &gre(0x1000, 0x22eb, &joined(&[&erspan3(0), &inner]))),
        ),
        (
            "ERSPAN, type III, with a further header",
            LinkType::ETHERNET,
            carried(47, &gre(0x1000, 0x22eb, &joined(&[&erspan3(1), &inner]))),
        ),
        (
            "WCCP in GRE",
            LinkType::ETHERNET,
            carried(47, &gre(0, 0x883e, &joined(&[&[0, 1, 0, 0], &plain]))),
        ),
        (
            "802.11 in GRE",
            LinkType::ETHERNET,
            carried(47, &gre(0, 0x8200, &data)),
        ),
        (
            "802.11 in GRE, of high priority",
            LinkType::ETHERNET,
            carried(47, &gre(0, 0x8370, &data)),
        ),
        (
            "VXLAN with a group policy",
            LinkType::ETHERNET,
            carried(17, &udp(4789, &joined(&[&[0x88, 0, 0, 9, 0, 0, 7, 1], &inner]))),
        ),
        (
            "GTP",
            LinkType::ETHERNET,
            carried(17, &udp(2152, &gtp(&[0x30, 255, 0, 0, 0, 0, 0, 1], &plain))),
        ),
        (
            "GTP with a sequence number",
            LinkType::ETHERNET,
            carried(
                17,
                &udp(2152, &gtp(&[0x32, 255, 0, 0, 0, 0, 0, 1, 0, 9, 0, 0], &plain6)),
            ),
        ),
        (
            "GTP with an extension",
            LinkType::ETHERNET,
            carried(
                17,
                &udp(
                    2152,
                    &gtp(
                        &[0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0x10, 5, 0],
                        &plain,
                    ),
                ),
            ),
        ),
        (
            "GTP, an echo",
            LinkType::ETHERNET,
            carried(
                17,
                &udp(2152, &gtp(&[0x32, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], &[])),
            ),
        ),
        (
            "VXLAN-GPE",
            LinkType::ETHERNET,
            carried(17, &udp(4790, &joined(&[&[0x0c, 0, 0, 3, 0, 0, 7, 0], &inner]))),
        ),
        (
            "GRE in UDP",
            LinkType::ETHERNET,
            carried(17, &udp(4754, &gre(0, 0x800, &plain))),
        ),
        (
            "L2TP",
            LinkType::ETHERNET,
            carried(
                17,
                &udp(1701, &joined(&[&[0, 2, 0, 1, 0, 2, 0xff, 3, 0, 0x57], &plain6])),
            ),
        ),
        (
            "802.1ah",
            LinkType::ETHERNET,
            ethernet(&[], 0x88e7, &joined(&[&[0, 0, 0, 9], &inner])),
        ),
        (
            "a source route",
            LinkType::ETHERNET,
            ethernet(&[], 0x800, &route(4)),
        ),
        (
            "the end of a source route",
            LinkType::ETHERNET,
            ethernet(&[], 0x800, &route(12)),
        ),
    ]
}

/// A pcapng file of these, cut to `snaplen`, each link type an interface.
fn file_of(packets: &[Named], snaplen: usize) -> Vec<u8> {
    let mut file = vec![];
    pcapng::section(&mut file, &pcapng::Section::default());
    let mut links: Vec<LinkType> = vec![];
    for (_, link_type, _) in packets {
        if !links.contains(link_type) {
            pcapng::interface(&mut file, &pcapng::Interface::new(*link_type, 0));
            links.push(*link_type);
        }
    }
    for (at, (name, link_type, bytes)) in packets.iter().enumerate() {
        let interface = links
            .iter()
            .position(|link| link == link_type)
            .expect("it was added") as u32;
        let packet = pcapng::Packet {
            captured: &bytes[..bytes.len().min(snaplen)],
            original_len: bytes.len() as u32,
            comment: Some(name),
            ..pcapng::Packet::new(interface, 1_700_000_000_123_456_789 + at as u64, &[])
        };
        pcapng::packet(&mut file, &packet);
    }
    file
}

#[test]
fn generated_packets_match_tshark() {
    need!(program("tshark"));
    let lab = need!(Lab::new("capture"));
    for all in [by_hand(), rare_by_hand()] {
        for snaplen in [usize::MAX, 128, 96, 64] {
            let mut packets = all.clone();
            // Of these tshark shows nothing if they are cut.
            packets.retain(|(_, link_type, _)| {
                snaplen == usize::MAX || ![LinkType::NFLOG, LinkType::IPNET].contains(link_type)
            });
            let path = lab.directory().join(format!("hand-{snaplen}.pcapng"));
            std::fs::write(&path, file_of(&packets, snaplen)).expect("a file");
            let agreed = compare(&path, &path);
            assert_eq!(agreed.frames, packets.len() as u64);
        }
    }
}

/// The same packets in a snoop file, as editcap writes it.
#[test]
fn snoop_files_match_tshark() {
    need!(program("tshark"));
    need!(program("editcap"));
    let lab = need!(Lab::new("capture"));
    let ethernet = of_ethernet();
    let source = lab.directory().join("ethernet.pcapng");
    std::fs::write(&source, file_of(&ethernet, 200)).expect("a file");
    for link in ["ether", "fddi"] {
        let path = lab.directory().join(format!("{link}.snoop"));
        let mut editcap = Command::new("editcap");
        editcap.args(["-F", "snoop", "-T", link]);
        let output = editcap.arg(&source).arg(&path).output().expect("editcap");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let agreed = compare(&path, &path);
        assert_eq!(agreed.frames, ethernet.len() as u64);
        assert!(link == "fddi" || agreed.segments > 30, "{agreed:?}");
    }
}

/// The same packets in an ERF file, with each record type of Ethernet and extension headers, among records that are no packets.
#[test]
fn erf_files_match_tshark() {
    need!(program("tshark"));
    let lab = need!(Lab::new("capture"));
    let mut file = vec![];
    let mut frames = 0;
    let types = [2, 11, 16, 0x82];
    for (at, (_, _, packet)) in of_ethernet().iter().enumerate() {
        let kind = types[at % types.len()];
        let extension: &[u8] = if kind & 0x80 != 0 {
            &[4, 0, 0, 0, 0, 0, 0, 9]
        } else {
            &[]
        };
        // Cut to 200 bytes, and padded to a multiple of eight
        let captured = &packet[..packet.len().min(200)];
        let len = (16 + extension.len() + 2 + captured.len()).next_multiple_of(8);
        let begin = file.len();
        file.extend_from_slice(&(at as u32).to_le_bytes());
        file.extend_from_slice(&1_700_000_000_u32.to_le_bytes());
        file.extend_from_slice(&[kind, 4]);
        file.extend_from_slice(&(len as u16).to_be_bytes());
        file.extend_from_slice(&[0, 0]);
        file.extend_from_slice(&(packet.len() as u16).to_be_bytes());
        file.extend_from_slice(extension);
        file.extend_from_slice(&[0, 0]);
        file.extend_from_slice(captured);
        file.resize(begin + len, 0);
        frames += 1;
    }
    let path = lab.directory().join("packets.erf");
    std::fs::write(&path, &file).expect("a file");
    let output = Command::new("tshark")
        .args([
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-e",
            "tcp.seq_raw",
            "-e",
            "tcp.len",
            "-r",
        ])
        .arg(&path)
        .output()
        .expect("tshark");
    let theirs = String::from_utf8(output.stdout).expect("text");
    let (mut capture, mut fragments) = (Capture::open(&path).expect("a capture"), Fragments::default());
    let mut ours = String::new();
    while let Some(packet) = capture.next().expect("readable") {
        let segment = match packet.decode() {
            Ok(Decoded::Segment(segment)) => segment,
            Ok(Decoded::Fragment(fragment)) => match fragments.add(&fragment) {
                Some(segment) => segment,
                None => continue,
            },
            _ => continue,
        };
        ours += &format!(
            "{}\t{}\t{}\n",
            packet.frame, segment.sequence, segment.payload_len
        );
    }
    let is_whole = |line: &&str| {
        let fields: Vec<&str> = line.split('\t').collect();
        fields.len() == 3 && !fields[2].is_empty() && !fields[1].contains(',')
    };
    let theirs: Vec<&str> = theirs.lines().filter(is_whole).collect();
    let missing: Vec<&&str> = theirs
        .iter()
        .filter(|line| !ours.contains(&format!("{line}\n")))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}\n{ours}");
    assert!(theirs.len() > 30, "{}", theirs.len());
    assert_eq!(capture.packets(), frames);
}

/// The packets made by hand that begin with Ethernet.
fn of_ethernet() -> Vec<Named> {
    by_hand()
        .into_iter()
        .filter(|(_, link_type, _)| *link_type == LinkType::ETHERNET)
        .collect()
}

/// A mirrored segment in ERSPAN, of which the outer packet comes in two parts.
#[test]
fn fragments_of_a_tunnel_match_tshark() {
    need!(program("tshark"));
    let lab = need!(Lab::new("capture"));
    let mirrored = ethernet(&[], 0x800, &v4(&tcp(0x18, TIMESTAMPS, 200), &V4::default()));
    let content = gre(
        0x1000,
        0x88be,
        &[&[0x10, 1, 0, 1, 0, 0, 0, 0], &mirrored[..]].concat(),
    );
    let part = |range: std::ops::Range<usize>, more: u16| {
        let with = V4 {
            protocol: 47,
            fragment: more | (range.start / 8) as u16,
            ..V4::default()
        };
        ("part", LinkType::RAW, v4(&content[range], &with))
    };
    let parts = [part(0..160, 0x2000), part(160..content.len(), 0)];
    for order in [[0, 1], [1, 0]] {
        let packets: Vec<Named> = order.iter().map(|at| parts[*at].clone()).collect();
        let path = lab.directory().join("mirrored.pcapng");
        std::fs::write(&path, file_of(&packets, usize::MAX)).expect("a file");
        let (ours, theirs) = lengths_of_segments(&path);
        assert_eq!(ours, theirs, "{order:?}");
        assert_eq!(ours, "\n200\n");
    }
}

/// The payload lengths of segments, of fragments with the frame that completes them; a line for each frame, ours and tshark's.
fn lengths_of_segments(path: &Path) -> (String, String) {
    let (mut capture, mut fragments) = (Capture::open(path).expect("a capture"), Fragments::default());
    let mut ours = String::new();
    while let Some(packet) = capture.next().expect("readable") {
        match packet.decode() {
            Ok(Decoded::Fragment(fragment)) => {
                let whole = fragments
                    .add(&fragment)
                    .map(|segment| segment.payload_len.to_string());
                ours += &format!("{}\n", whole.unwrap_or_default());
            }
            other => panic!("{other:?}"),
        }
    }
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(path).args(["-T", "fields", "-e", "tcp.len"]);
    let theirs = String::from_utf8(tshark.output().expect("tshark").stdout).expect("text");
    (ours, theirs)
}

/// A segment in three parts, of which tshark, too, makes one.
#[test]
fn ip_fragments_match_tshark() {
    need!(program("tshark"));
    let lab = need!(Lab::new("capture"));
    let whole = v4(&tcp(0x18, TIMESTAMPS, 200), &V4::default())[20..].to_vec();
    let part = |range: std::ops::Range<usize>, more: u16| {
        let fragment = more | (range.start / 8) as u16;
        let with = V4 {
            fragment,
            ..V4::default()
        };
        ("part", LinkType::RAW, v4(&whole[range], &with))
    };
    for (order, first) in [([0, 1, 2], 80), ([2, 0, 1], 80), ([1, 2, 0], 80), ([0, 1, 2], 16)] {
        // The last is shorter than the header.
        let parts = [
            part(0..first, 0x2000),
            part(first..160, 0x2000),
            part(160..232, 0),
        ];
        let packets: Vec<Named> = order.iter().map(|at| parts[*at].clone()).collect();
        let path = lab.directory().join("parts.pcapng");
        std::fs::write(&path, file_of(&packets, usize::MAX)).expect("a file");
        let (ours, theirs) = lengths_of_segments(&path);
        assert_eq!(ours, theirs, "{order:?}");
        assert_eq!(ours, "\n\n200\n");
    }
}

/// A program that captures until it is dropped.
struct Tcpdump(Child);

impl Tcpdump {
    fn start(namespace: &Namespace, arguments: &[&str]) -> Self {
        let mut command = namespace.command("tcpdump", arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("tcpdump");
        let output = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut lines = output.lines().map(|line| line.expect("a line"));
        let mut printed = vec![];
        let is_ready = lines.any(|line| {
            printed.push(line.clone());
            line.contains("listening on")
        });
        assert!(is_ready, "{printed:?}");
        std::thread::spawn(move || lines.for_each(drop)); // so that it can say how many packets there were
        Self(child)
    }

    /// Ends it as a user does, so that it writes what it has.
    fn end(mut self) {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .expect("kill")
                .success()
        );
        assert!(self.0.wait().expect("an end").success());
    }
}

impl Drop for Tcpdump {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn captured_traffic_matches_tshark() {
    for peer in ["tshark", "tcpdump", "python3", "editcap", "gzip", "zstd"] {
        need!(program(peer));
    }
    let lab = need!(Lab::new("capture"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let device = link.devices().1.to_owned();
    let (client4, client6) = link.client_addresses();
    let (server4, server6) = link.server_addresses();
    for (namespace, own, peer, address) in [
        (&client, client4, server4, "10.177.0.1/24"),
        (&server, server4, client4, "10.177.0.2/24"),
    ] {
        namespace.ip(&format!(
            "link add vx type vxlan id 7 local {own} remote {peer} dstport 4789"
        ));
        namespace.ip(&format!("address add {address} dev vx"));
        namespace.ip("link set vx mtu 1400 up"); // else what carries it is cut up, and tshark counts parts
    }
    server.ip("tuntap add tun9 mode tun");
    server.ip("address add 10.78.0.1/24 dev tun9");
    server.ip("link set tun9 up");
    let file = |name: &str| lab.directory().join(name);
    let plans: [(&str, Vec<&str>); 10] = [
        ("veth", vec!["-i", &device]),
        ("veth-64", vec!["-i", &device, "-s", "64"]),
        ("veth-nano", vec!["-i", &device, "--nano"]),
        ("any", vec!["-i", "any"]),
        ("any-1", vec!["-i", "any", "-y", "LINUX_SLL"]),
        ("lo", vec!["-i", "lo"]),
        ("lo-100", vec!["-i", "lo", "-s", "100"]),
        ("lo-nano", vec!["-i", "lo", "--nano"]),
        ("vxlan", vec!["-i", "vx"]),
        ("tun", vec!["-i", "tun9"]),
    ];
    let started: Vec<Tcpdump> = plans
        .iter()
        .map(|(name, arguments)| {
            let path = file(&format!("{name}.pcap"));
            let path = path.to_str().expect("text");
            Tcpdump::start(
                &server,
                &[
                    &["-n", "--immediate-mode", "-U", "-w", path, "-B", "16384"],
                    &arguments[..],
                ]
                .concat(),
            )
        })
        .collect();
    for (from, to) in [(client4, server4), (client6, server6)] {
        over_link(&client, &server, &from.to_string(), &to.to_string());
    }
    for address in ["127.0.0.1", "::1"] {
        over_link(&server, &server, address, address);
    }
    over_link(&client, &server, "10.177.0.1", "10.177.0.2"); // in VXLAN
    server.output("python3", &["-c", TUN]);
    client.output("python3", &["-c", SEND_LAST, &server4.to_string(), "10.177.0.2"]);
    server.output("python3", &["-c", SEND_LAST, "127.0.0.1"]);
    // All of it has been sent by now, but not written by all.
    for (name, _) in &plans {
        wait_until(format!("the last packet in {name}"), || {
            let written = std::fs::read(file(&format!("{name}.pcap"))).unwrap_or_default();
            written
                .windows(LAST.len())
                .any(|window| window == LAST.as_bytes())
        });
    }
    started.into_iter().for_each(Tcpdump::end);
    for (name, _) in &plans {
        let path = file(&format!("{name}.pcap"));
        let agreed = compare(&path, &path);
        // The tun device has only an unanswered SYN.
        let least = if *name == "tun" { 1 } else { 25 };
        assert!(agreed.segments >= least, "{name}: {agreed:?}");
    }
    let veth = file("veth.pcap");
    for format in ["pcapng", "nsecpcap", "modpcap"] {
        let other = file(format);
        let output = Command::new("editcap")
            .args(["-F", format])
            .arg(&veth)
            .arg(&other)
            .output();
        assert!(output.expect("editcap").status.success(), "{format}");
        compare(&other, &other);
    }
    for (program, ending) in [("gzip", "gz"), ("zstd", "zst")] {
        let packed = file(&format!("veth.pcap.{ending}"));
        let output = Command::new(program).args(["-kf"]).arg(&veth).output();
        assert!(output.expect(program).status.success());
        compare(&packed, &veth);
    }
}

/// Transfers both ways, a refused connection, and datagrams of which some are cut up.
fn over_link(client: &Namespace, server: &Namespace, from: &str, to: &str) {
    let mut listener = server.command("python3", &["-c", SERVE, to]);
    let mut listener = listener.stdout(Stdio::piped()).spawn().expect("python3");
    let mut line = String::new();
    let stdout = listener.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    client.output("python3", &["-c", CONNECT, from, to]);
    assert!(listener.wait().expect("an end").success());
}

const SERVE: &str = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], 7777), family=family)
print('ready', flush=True)
connection, _ = listener.accept()
while connection.recv(1 << 16):
    pass
connection.sendall(b'x' * 300_000)
connection.close()
";

const CONNECT: &str = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[2] else socket.AF_INET
peer = socket.create_connection((sys.argv[2], 7777), source_address=(sys.argv[1], 0))
for size in (1, 100, 70_000):
    peer.sendall(b'y' * size)
peer.shutdown(socket.SHUT_WR)
while peer.recv(1 << 16):
    pass
assert socket.socket(family).connect_ex((sys.argv[2], 7778)) != 0
datagram = socket.socket(family, socket.SOCK_DGRAM)
for size in (10, 4_000, 20_000):
    datagram.sendto(b'z' * size, (sys.argv[2], 7))
";

/// Payload of the last packet on each device; short enough for the captures that cut packets.
const LAST: &str = "last packet";

const SEND_LAST: &str = "
import socket, sys
for address in sys.argv[1:]:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'last packet', (address, 9))
";

/// Holds the device, so that it is up, and connects to an address without a host. The first SYN can be dropped, since the device is not ready
/// yet; the next one follows after a second.
const TUN: &str = "
import fcntl, os, socket, struct
device = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(device, 0x400454ca, struct.pack('16sH22x', b'tun9', 1))
peer = socket.socket()
peer.setblocking(False)
peer.connect_ex(('10.78.0.2', 80))
packet = b''
while packet[:1] != b'\\x45' or packet[9] != socket.IPPROTO_TCP:
    packet = os.read(device, 2000)[4:]
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'last packet', ('10.78.0.2', 9))
";

/// Interfaces with every unit of time, both byte orders, all kinds of blocks, and two sections.
#[test]
fn all_pcapng_blocks_match_tshark() {
    need!(program("tshark"));
    let lab = need!(Lab::new("capture"));
    let frame = ethernet(&[], 0x800, &v4(&tcp(0x10, TIMESTAMPS, 3), &V4::default()));
    let mut file = vec![];
    for is_big in [true, false] {
        let n16 = |value: u16| {
            if is_big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let n32 = |value: u32| {
            if is_big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let n64 = |value: u64| {
            if is_big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let mut block = |kind: u32, body: &[u8]| {
            let padded = body.len().next_multiple_of(4);
            let len = n32(padded as u32 + 12);
            file.extend_from_slice(&[n32(kind), len].concat());
            file.extend_from_slice(body);
            file.resize(file.len() + padded - body.len(), 0);
            file.extend_from_slice(&len);
        };
        let section = [&n32(0x1a2b_3c4d)[..], &n16(1), &n16(0), &[0xff; 8]].concat();
        block(0x0a0d_0d0a, &section);
        let resolutions: [&[u8]; 6] = [&[], &[3], &[6], &[9], &[12], &[0x80 | 20]];
        for resolution in resolutions {
            let mut body = [&n16(1)[..], &n16(0), &n32(0)].concat();
            if let [unit] = resolution {
                body.extend_from_slice(&[&n16(9)[..], &n16(1), &[*unit, 0, 0, 0]].concat());
            }
            body.extend_from_slice(&[&n16(14)[..], &n16(8), &n64(3_600)].concat());
            body.extend_from_slice(&n32(0));
            block(1, &body);
        }
        block(4, &[0; 4]); // names
        block(0x0bad, &n32(32_473)); // a private block type
        for (interface, count) in [
            1_700_000_000_123_456_u64,
            1_700_000_000_123,
            1_700_000_000_123_456,
            1_700_000_000_123_456_789,
            1_700_000_000_123_456_789,
            1_700_000_000 << 20 | 12_345,
        ]
        .into_iter()
        .enumerate()
        {
            let time = [n32((count >> 32) as u32), n32(count as u32)].concat();
            let lengths = [n32(frame.len() as u32), n32(1_500)].concat();
            block(6, &[&n32(interface as u32), &time[..], &lengths, &frame].concat());
            let number = [n16(interface as u16), n16(5)].concat();
            block(2, &[&number[..], &time, &lengths, &frame].concat());
        }
        block(
            5,
            &[&n32(0)[..], &[0; 8], &n16(5), &n16(8), &n64(17), &n32(0)].concat(),
        );
    }
    let path = lab.directory().join("blocks.pcapng");
    std::fs::write(&path, &file).expect("a file");
    assert_eq!(
        compare(&path, &path),
        oracle::Agreed {
            frames: 26,
            segments: 24
        }
    );
}

/// The same pcap file with the other byte order.
#[test]
fn both_byte_orders_match_tshark() {
    need!(program("tshark"));
    let lab = need!(Lab::new("capture"));
    let frame = ethernet(&[], 0x800, &v4(&tcp(0x10, TIMESTAMPS, 3), &V4::default()));
    for magic in [0xa1b2_c3d4_u32, 0xa1b2_3c4d] {
        for is_big in [false, true] {
            let n32 = |value: u32| {
                if is_big {
                    value.to_be_bytes()
                } else {
                    value.to_le_bytes()
                }
            };
            let version = if is_big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
            let mut file = [n32(magic), version, n32(0), n32(0), n32(65_535), n32(1)].concat();
            for time_s in [1_700_000_000, 1_699_999_999, 4_294_967_295] {
                let len = frame.len() as u32;
                file.extend_from_slice(&[n32(time_s), n32(999_999), n32(len), n32(len + 9)].concat());
                file.extend_from_slice(&frame);
            }
            let path = lab.directory().join("order.pcap");
            std::fs::write(&path, &file).expect("a file");
            assert_eq!(compare(&path, &path).segments, 3);
        }
    }
}
