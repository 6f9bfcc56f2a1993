//! Packet filters compared with those of tcpdump: the same verdict on every packet, and programs that the kernel takes.

use sockeye_filter::pcap::{Instruction, Link, PacketFilter};
use sockeye_filter::{NoResolve, Resolve};
use sockeye_model::Protocol;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Names that tcpdump finds in `/etc/services`.
struct Names;

impl Resolve for Names {
    fn service_of(&self, protocol: Protocol, name: &str) -> Option<u16> {
        match (protocol, name) {
            (Protocol::Tcp, "http") => Some(80),
            (Protocol::Tcp | Protocol::Udp, "domain") => Some(53),
            (Protocol::Udp, "tftp") => Some(69),
            _ => None,
        }
    }
}

/// Numbers by chance, the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    fn of<'a>(&mut self, some: &[&'a str]) -> &'a str {
        some[self.below(some.len())]
    }
}

/// Runs a program on a packet, as libpcap does: the bytes that it lets through.
fn verdict(program: &[Instruction], packet: &[u8], len: u32) -> u32 {
    let (mut a, mut x, mut kept, mut at) = (0_u32, 0_u32, [0_u32; 16], 0);
    let load = |at: u32, size: u32| -> Option<u32> {
        let bytes = packet.get(at as usize..at.checked_add(size)? as usize)?;
        Some(bytes.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)))
    };
    loop {
        let Instruction {
            code,
            yes,
            no,
            operand: k,
        } = program[at];
        at += 1;
        let size = match code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            _ => 1,
        };
        match code {
            0x06 => return k,
            0x20 | 0x28 | 0x30 => match load(k, size) {
                Some(value) => a = value,
                None => return 0,
            },
            0x40 | 0x48 | 0x50 => match x.checked_add(k).and_then(|at| load(at, size)) {
                Some(value) => a = value,
                None => return 0,
            },
            0xb1 => match load(k, 1) {
                Some(value) => x = 4 * (value & 15),
                None => return 0,
            },
            0x00 => a = k,
            0x01 => x = k,
            0x80 => a = len,
            0x81 => x = len,
            0x60 => a = kept[k as usize],
            0x61 => x = kept[k as usize],
            0x02 => kept[k as usize] = a,
            0x03 => kept[k as usize] = x,
            0x07 => x = a,
            0x87 => a = x,
            0x84 => a = a.wrapping_neg(),
            0x05 => at += k as usize,
            _ if code & 7 == 4 => {
                let b = if code & 8 == 0 { k } else { x };
                a = match code & 0xf0 {
                    0x00 => a.wrapping_add(b),
                    0x10 => a.wrapping_sub(b),
                    0x20 => a.wrapping_mul(b),
                    0x30 | 0x90 if b == 0 => return 0,
                    0x30 => a / b,
                    0x90 => a % b,
                    0x40 => a | b,
                    0x50 => a & b,
                    0xa0 => a ^ b,
                    0x60 => a.checked_shl(b).unwrap_or(0),
                    0x70 => a.checked_shr(b).unwrap_or(0),
                    _ => panic!("{code:#x}"),
                };
            }
            _ if code & 7 == 5 => {
                let b = if code & 8 == 0 { k } else { x };
                let holds = match code & 0xf0 {
                    0x10 => a == b,
                    0x20 => a > b,
                    0x30 => a >= b,
                    0x40 => a & b != 0,
                    _ => panic!("{code:#x}"),
                };
                at += usize::from(if holds { yes } else { no });
            }
            _ => panic!("{code:#x}"),
        }
    }
}

/// An empty capture of this link type, by which tcpdump knows what to compile for.
struct File(PathBuf);

impl File {
    fn new(link: u32) -> Self {
        let path = std::env::temp_dir().join(format!(
            "sockeye-pcap-{}-{link}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut bytes = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, link] {
            bytes.extend(word.to_le_bytes());
        }
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    /// tcpdump's program for an expression; `None`: it is none.
    fn theirs(&self, text: &str, optimized: bool) -> Option<Vec<Instruction>> {
        let mut command = Command::new("tcpdump");
        command.arg("-ddd").arg("-r").arg(&self.0);
        if !optimized {
            command.arg("-O");
        }
        let said = command.args(["--", text]).output().unwrap();
        if !said.status.success() {
            return None;
        }
        let said = String::from_utf8(said.stdout).unwrap();
        let mut numbers = said
            .split_ascii_whitespace()
            .map(|word| word.parse::<u32>().unwrap());
        let count = numbers.next().unwrap();
        let mut next = || numbers.next().unwrap();
        let program = (0..count).map(|_| Instruction {
            code: next() as u16,
            yes: next() as u8,
            no: next() as u8,
            operand: next(),
        });
        Some(program.collect())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const LINKS: [(Link, u32); 3] = [(Link::Ethernet, 1), (Link::Raw, 101), (Link::Cooked, 276)];

/// Packets of all kinds, whole and cut.
fn packets(link: Link, chance: &mut Chance, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| packet(link, chance)).collect()
}

fn packet(link: Link, chance: &mut Chance) -> Vec<u8> {
    let (kind, payload) = match chance.below(8) {
        0..=3 => (0x0800_u16, ip(chance)),
        4 | 5 => (0x86dd, ip6(chance)),
        6 => ([0x0806, 0x8035][chance.below(2)], arp(chance)),
        _ => (0x1234, vec![7; 40]),
    };
    let (kind, payload) = match chance.below(8) {
        1 if link == Link::Ethernet => labelled(kind, payload, chance),
        2 if link == Link::Ethernet => {
            let mut session = vec![0x11, 0, 0, [7, 9][chance.below(2)], 0, 60];
            let number: u16 = match kind {
                0x0800 => 0x21,
                0x86dd => 0x57,
                _ => 0xc021,
            };
            session.extend(number.to_be_bytes());
            session.extend(payload);
            ([0x8864, 0x8863][usize::from(chance.below(5) == 0)], session)
        }
        0 if link != Link::Raw => {
            let mut tagged = vec![0, [5, 100][chance.below(2)]];
            tagged.extend(kind.to_be_bytes());
            tagged.extend(payload);
            let kind = [0x8100, 0x88a8][chance.below(2)];
            if chance.below(3) == 0 {
                let mut twice = vec![0x20, 7];
                twice.extend(u16::to_be_bytes(kind));
                twice.extend(tagged);
                (0x88a8, twice)
            } else {
                (kind, tagged)
            }
        }
        _ => (kind, payload),
    };
    let mut bytes = Vec::new();
    match link {
        Link::Raw => {}
        Link::Cooked => {
            bytes.extend(kind.to_be_bytes());
            bytes.extend([
                0,
                0,
                0,
                0,
                0,
                chance.below(3) as u8,
                0,
                1,
                chance.below(5) as u8,
                6,
                2,
                0,
                0,
                0,
                0,
                1,
                0,
                0,
            ]);
        }
        _ => {
            bytes.extend([[0xff; 6], [2, 0, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0, 1]][chance.below(3)]);
            bytes.extend([2, 0, 0, 0, 0, chance.below(3) as u8]);
            bytes.extend(kind.to_be_bytes());
        }
    }
    bytes.extend(payload);
    if chance.below(3) == 0 {
        bytes.truncate(chance.below(bytes.len() + 1));
    }
    bytes
}

/// Behind one label or two.
fn labelled(kind: u16, payload: Vec<u8>, chance: &mut Chance) -> (u16, Vec<u8>) {
    let label = |number: u32, is_last: u32| (number << 12 | is_last << 8 | 64).to_be_bytes();
    let mut bytes = Vec::new();
    if chance.below(2) == 0 {
        bytes.extend(label([100, 1024][chance.below(2)], 0));
    }
    bytes.extend(label([100, 1024][chance.below(2)], 1));
    bytes.extend(payload);
    match kind {
        0x0800 | 0x86dd => (0x8847, bytes),
        kind => (kind, bytes),
    }
}

fn ip(chance: &mut Chance) -> Vec<u8> {
    let words = 5 + chance.below(3) as u8;
    let proto = [6, 17, 1, 132, 2, 47][chance.below(6)];
    let fragment: u16 = [0, 0, 0, 0x2000, 0x0010, 0x4000][chance.below(6)];
    let mut bytes = vec![0x40 | words, 0, 0, 60, 0, 1];
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, proto, 0, 0]);
    for _ in 0..2 {
        bytes.extend([[10, 0, 0, 1], [10, 0, 0, 2], [192, 168, 1, 7], [224, 0, 0, 1]][chance.below(4)]);
    }
    bytes.resize(usize::from(words) * 4, 1);
    bytes.extend(transport(chance));
    bytes
}

fn ip6(chance: &mut Chance) -> Vec<u8> {
    let proto = [6, 17, 58, 44, 132][chance.below(5)];
    let mut bytes = vec![0x60, 0, 0, 0, 0, 40, proto, 64];
    for _ in 0..2 {
        let mut address = [0; 16];
        address[..2].copy_from_slice(&[[0xfd, 0], [0xfe, 0x80], [0xff, 2]][chance.below(3)]);
        address[15] = chance.below(3) as u8;
        bytes.extend(address);
    }
    if proto == 44 {
        bytes.extend([[6, 17, 58][chance.below(3)], 0, 0, 1, 0, 0, 0, 1]);
    }
    bytes.extend(transport(chance));
    bytes
}

fn transport(chance: &mut Chance) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..2 {
        bytes.extend([22_u16, 53, 80, 443, 8080][chance.below(5)].to_be_bytes());
    }
    bytes.extend([
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        2,
        0x50,
        [2, 0x12, 0x10, 0x11, 4][chance.below(5)],
        1,
        0,
        0,
        0,
        0,
        0,
    ]);
    bytes.extend(vec![chance.below(256) as u8; chance.below(30)]);
    bytes
}

fn arp(chance: &mut Chance) -> Vec<u8> {
    let mut bytes = vec![0, 1, 8, 0, 6, 4, 0, 1];
    for _ in 0..2 {
        bytes.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, chance.below(3) as u8]);
    }
    bytes
}

/// An expression by chance.
fn expression(chance: &mut Chance, depth: u32) -> String {
    let mut text = term(chance, depth);
    for _ in 0..chance.below(3) {
        let next = term(chance, depth);
        text = format!("{text} {} {next}", chance.of(&["and", "or", "&&", "||"]));
    }
    text
}

fn term(chance: &mut Chance, depth: u32) -> String {
    let not = chance.of(&["", "", "", "not ", "! "]);
    let inner = match chance.below(if depth == 0 { 9 } else { 11 }) {
        0 => chance
            .of(&[
                "ip", "ip6", "arp", "rarp", "tcp", "udp", "icmp", "icmp6", "igmp", "sctp", "pim", "ah",
            ])
            .to_owned(),
        1 => {
            let proto = chance.of(&["", "", "ip ", "arp ", "rarp "]);
            let direction = chance.of(&["", "src ", "dst ", "src or dst ", "src and dst ", "dst and src "]);
            let what = chance.of(&[
                "host 10.0.0.1",
                "host 192.168.1.7",
                "net 10",
                "net 10.0.0.0/8",
                "net 192.168.0.0 mask 255.255.0.0",
                "net 0.0.0.0/0",
                "net 10.0.0",
                "host 10.0.0.2 or 10.0.0.1",
                "host (10.0.0.1 or 192.168.1.7)",
            ]);
            format!("{proto}{direction}{what}")
        }
        2 => {
            let direction = chance.of(&["", "src ", "dst ", "src or dst "]);
            let what = chance.of(&[
                "host fd00::1",
                "net fd00::/8",
                "net fe80::/10",
                "host ff02::2",
                "net ::/0",
                "host fd00::1 or fd00::2",
            ]);
            format!("{}{direction}{what}", chance.of(&["", "ip6 "]))
        }
        3 | 4 => {
            let proto = chance.of(&["", "tcp ", "udp ", "sctp "]);
            let direction = chance.of(&["", "src ", "dst ", "src or dst ", "src and dst "]);
            let what = chance.of(&[
                "port 80",
                "port 53",
                "portrange 50-90",
                "portrange 443",
                "portrange 443-80",
                "port 80 or 443",
                "port (22 or 53)",
                "port not 22",
            ]);
            format!("{proto}{direction}{what}")
        }
        5 => format!(
            "{}proto {}",
            chance.of(&["", "ip ", "ip6 "]),
            chance.of(&["6", "17", "58", "0x2f", "\\tcp", "\\udp", "(6 or 17)"])
        ),
        6 => chance
            .of(&[
                "less 60",
                "greater 70",
                "len > 80",
                "len <= 60",
                "len != 66",
                "60 < len",
            ])
            .to_owned(),
        7 | 8 => {
            let proto = chance.of(&["ip", "ip6", "tcp", "udp", "icmp", "icmp6", "ether", "arp"]);
            let relation = chance.of(&["=", "==", "!=", "<", ">", "<=", ">="]);
            match chance.below(5) {
                0 => format!("tcp[tcpflags] & (tcp-syn|tcp-fin) {relation} {}", chance.below(3)),
                1 => format!(
                    "{proto}[{}:{}] {relation} {}",
                    chance.below(24),
                    chance.of(&["1", "2", "4"]),
                    chance.below(300)
                ),
                2 => format!(
                    "{proto}[{}] & {} {relation} {}",
                    chance.below(24),
                    chance.below(256),
                    chance.below(200)
                ),
                3 => format!("{} {relation} {}", sum(chance, 2), sum(chance, 2)),
                _ => format!("(ip[0] & 0xf) << 2 {relation} {}", chance.below(30)),
            }
        }
        _ => format!("({})", expression(chance, depth - 1)),
    };
    format!("{not}{inner}")
}

fn sum(chance: &mut Chance, depth: u32) -> String {
    match chance.below(if depth == 0 { 3 } else { 6 }) {
        0 => chance.below(70).to_string(),
        1 => "len".to_owned(),
        2 => format!(
            "{}[{}:{}]",
            chance.of(&["ip", "tcp", "udp"]),
            chance.below(20),
            chance.of(&["1", "2", "4"])
        ),
        3 => format!("tcp[({} & 3) + 1]", sum(chance, depth - 1)),
        4 => format!(
            "({} {} {})",
            sum(chance, depth - 1),
            chance.of(&["+", "-", "*", "&", "|", "^", "%"]),
            sum(chance, depth - 1)
        ),
        _ => format!(
            "{} {} {}",
            sum(chance, depth - 1),
            chance.of(&["+", "-", "*", "&", "|"]),
            sum(chance, depth - 1)
        ),
    }
}

/// Only Ethernet has stations, and only it has VLANs in tcpdump.
fn of_ethernet(chance: &mut Chance) -> String {
    let first = chance.of(&[
        "ether host 02:00:00:00:00:01",
        "ether src 2:0:0:0:0:2",
        "ether dst ff-ff-ff-ff-ff-ff",
        "ether broadcast",
        "broadcast",
        "multicast",
        "ether multicast",
        "ip multicast",
        "ip6 multicast",
        "ether proto 0x0806",
        "ether proto \\ip6",
        "vlan",
        "vlan 5",
        "vlan 100",
        "vlan and vlan 5",
        "vlan 7 and vlan",
        "ether[0] & 1 != 0",
        "ether[12:2] > 0x0800",
        "ether host 0200.0000.0001",
        "mpls",
        "mpls 100",
        "mpls 100 and mpls 1024",
        "mpls and not mpls",
        "pppoed",
        "pppoes",
        "pppoes 7",
    ]);
    match chance.below(3) {
        0 => first.to_owned(),
        1 => format!("{first} and {}", term(chance, 1)),
        _ => format!("{} or {}{first}", term(chance, 1), chance.of(&["", "not "])),
    }
}

fn compare(link: Link, file: &File, text: &str, packets: &[Vec<u8>]) -> bool {
    let ours = PacketFilter::parse(text, link, &Names);
    let Some(theirs) = file.theirs(text, false) else {
        return false;
    };
    let ours = ours.unwrap_or_else(|error| panic!("{}", error.render(text)));
    let ours = ours.program(262_144).unwrap();
    // "expression rejects all packets" is no program.
    let nothing = Instruction {
        code: 6,
        yes: 0,
        no: 0,
        operand: 0,
    };
    let optimized = file.theirs(text, true).unwrap_or_else(|| vec![nothing]);
    sockeye_sys::packet_ring::check(&kernel(&ours)).unwrap_or_else(|error| panic!("{text}: {error}"));
    for packet in packets {
        // The end of a packet may be missing.
        let len = packet.len() as u32;
        let verdicts = [&theirs, &optimized].map(|program| verdict(program, packet, len) > 0);
        let our = verdict(&ours, packet, len) > 0;
        // Where tcpdump and its optimizer differ, either is right.
        assert!(
            verdicts.contains(&our),
            "{link:?}: {text}: {our} instead of {verdicts:?}: {packet:02x?}\n{theirs:?}\n{ours:?}"
        );
    }
    true
}

fn kernel(program: &[Instruction]) -> Vec<sockeye_sys::packet_ring::Instruction> {
    let instructions = program.iter().map(|one| sockeye_sys::packet_ring::Instruction {
        code: one.code,
        yes: one.yes,
        no: one.no,
        operand: one.operand,
    });
    instructions.collect()
}

fn has_tcpdump() -> bool {
    let is_there = Command::new("tcpdump").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("SKIP: pcap: needs tcpdump");
    }
    is_there
}

#[test]
fn verdicts_equal_those_of_tcpdump() {
    if !has_tcpdump() {
        return;
    }
    let mut chance = Chance(0x5eed);
    for (link, number) in LINKS {
        let file = File::new(number);
        let packets = packets(link, &mut chance, 400);
        let (mut compared, count) = (0, 250);
        for round in 0..count {
            let text = match link {
                Link::Ethernet if round % 3 == 0 => of_ethernet(&mut chance),
                _ => expression(&mut chance, 2),
            };
            compared += usize::from(compare(link, &file, &text, &packets));
        }
        // tcpdump rejects some, such as expressions that are never true.
        assert!(compared * 10 > count * 7, "{link:?}: {compared} of {count}");
    }
}

#[test]
fn every_spelling_is_accepted() {
    if !has_tcpdump() {
        return;
    }
    let mut chance = Chance(77);
    let (file, packets) = (File::new(1), packets(Link::Ethernet, &mut chance, 600));
    for text in [
        "tcp port 80 or 443 and host 10.0.0.1",
        "port http",
        "port domain",
        "udp port tftp",
        "tcp port domain",
        "src 10.0.0.1",
        "dst net 10.0.0.0/24",
        "src host 10.0.0.1 and dst port 80",
        "not host 10.0.0.1 and 10.0.0.2",
        "(tcp or udp) and not (port 22 or port 53)",
        "host 10.0.0.1 and (port 80 or 443)",
        "ip and (not port 80)",
        "! tcp",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "tcp[13] == 2",
        "tcp[tcpflags] = tcp-syn|tcp-ack",
        "ip[6:2] & 0x1fff = 0",
        "icmp[icmptype] = icmp-echo",
        "icmp6[icmp6type] = icmp6-echo",
        "udp[4:2] > 20",
        "ip6[6] = 6",
        "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
        "1 + 2 * 3 = 7",
        "10 - 3 - 2 = 5",
        "1 | 6 & 3 = 3",
        "len - 5 % 3 > 60",
        "-1 > 5",
        "ip[0] - 0x45 = 0",
        "2 ^ 3 + 4 = 5",
        "len / 2 > 30",
        "portrange 0-65535",
        "net 10.0.0.0 mask 255.0.0.0",
        "ether proto 0x86dd",
        "vlan and tcp",
        "vlan 5 and port 80",
        "not vlan",
        "vlan or ip",
        "tcp and tcp and tcp",
        "src or dst port 80",
        "src and dst net 10",
        // Those of the manual, with addresses for names.
        "dst host 10.0.0.1 and ip6[6] != 17 or tcp",
        "host 10.0.0.1 and (192.168.1.7 or 10.0.0.2)",
        "ip host 10.0.0.2 and not 10.0.0.1",
        "ip and not net 10.0.0.0/24",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 10.0.0.0/24",
        "tcp[tcpflags] & (tcp-rst|tcp-ack) == (tcp-rst|tcp-ack)",
        "ip[2:2] > 576",
        "ether[0] & 1 = 0 and ip[16] >= 224",
        "icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-echoreply",
        "ip proto \\tcp",
        "ip6 proto 6",
        "proto 132",
        "ether src 02:00:00:00:00:01",
        "ether proto \\ip and udp",
        "link host 02:00:00:00:00:01",
        "ip[0] & 0xf != 5",
        "ip multicast",
        "ip6 multicast",
        "ah or esp",
        "icmp6[0] = 128",
        "ip[8] < 65",
        "len >= 60 and len <= 100",
        "dst portrange 80-443",
        "tcp src port 80",
        "sctp port 80",
        "net 192.168",
        "dst net 10.0.0",
        "host fd00::1",
        "ip6 net fd00::/8",
        "src net fe80::/10 and icmp6",
        "vlan 100 and vlan 7",
        "vlan && port 53",
        "mpls 100",
        "mpls 100 && mpls 1024",
        "mpls && tcp port 443",
        "mpls 1024 and ip6",
        "mpls and src net 10",
        "pppoes",
        "pppoes 7 and ip",
        "pppoes && tcp port 80",
        "pppoes 9 and ip6",
        "pppoed or udp",
        "vlan and pppoes and ip",
        "ip or mpls and ip",
        "(mpls) and (ip)",
    ] {
        assert!(
            compare(Link::Ethernet, &file, text, &packets),
            "{text} is none to tcpdump"
        );
    }
}

#[test]
fn long_filter_compiles_or_is_an_error() {
    // Jumps across more than 255 instructions.
    let hosts: Vec<_> = (0..60)
        .map(|n| format!("10.1.{}.{}", n / 20, n % 20 + 1))
        .collect();
    let text = format!("tcp and not host ({})", hosts.join(" or "));
    let program = PacketFilter::parse(&text, Link::Ethernet, &NoResolve)
        .unwrap()
        .program(100)
        .unwrap();
    sockeye_sys::packet_ring::check(&kernel(&program)).unwrap();
    let mut chance = Chance(3);
    let (mut yes, mut no) = (0, 0);
    for packet in packets(Link::Ethernet, &mut chance, 300) {
        let short = PacketFilter::parse("tcp and not net 10.1.0.0/16", Link::Ethernet, &NoResolve)
            .unwrap()
            .program(100)
            .unwrap();
        let len = packet.len() as u32;
        // A filter that reads beyond the end of a truncated packet rejects it.
        if packet.len() > 60 {
            assert_eq!(verdict(&program, &packet, len), verdict(&short, &packet, len));
        }
        if verdict(&program, &packet, len) > 0 {
            yes += 1;
        } else {
            no += 1;
        }
    }
    assert!(yes > 10 && no > 10);
    let text = vec!["host 10.0.0.1"; 2000].join(" or ");
    assert!(
        PacketFilter::parse(&text, Link::Ethernet, &NoResolve)
            .unwrap()
            .program(100)
            .is_err()
    );
}

/// What the kernel knows of a packet of a packet socket besides its bytes.
#[derive(Clone, Copy)]
struct PacketMetadata {
    protocol: u32,
    passage: u32,
    interface: u32,
    tag: Option<u32>,
}

/// Replaces the loads of this metadata by loads of constants: a program loads each value on its own.
fn with_metadata(program: &[Instruction], metadata: PacketMetadata) -> Vec<Instruction> {
    let number = |operand: u32| match operand.wrapping_add(0x1000) {
        0 => Some(metadata.protocol),
        4 => Some(metadata.passage),
        8 => Some(metadata.interface),
        44 => Some(metadata.tag.unwrap_or(0)),
        48 => Some(u32::from(metadata.tag.is_some())),
        _ => None,
    };
    let without_metadata = |one: &Instruction| match one.code {
        0x20 | 0x28 | 0x30 => match number(one.operand) {
            Some(operand) => Instruction {
                code: 0,
                operand,
                ..*one
            },
            None => *one,
        },
        _ => *one,
    };
    program.iter().map(without_metadata).collect()
}

#[test]
fn socket_and_file_give_the_same_verdict() {
    let mut chance = Chance(0xf11e);
    let nothing = PacketMetadata {
        protocol: 0,
        passage: 0,
        interface: 0,
        tag: None,
    };
    let half = |bytes: &[u8], at: usize| u32::from(bytes[at]) << 8 | u32::from(bytes[at + 1]);
    for (file, socket, header) in [
        (Link::Ethernet, Link::EthernetSocket, 14),
        (Link::Cooked, Link::CookedSocket, 20),
    ] {
        let mut packets = packets(file, &mut chance, 400);
        packets.retain(|packet| packet.len() >= header + 8);
        let (mut yes, mut tagged_yes) = (0, 0);
        for round in 0..300 {
            let text = match round % 3 {
                0 if file == Link::Ethernet => of_ethernet(&mut chance),
                0 => format!("vlan and {}", term(&mut chance, 1)),
                _ => expression(&mut chance, 2),
            };
            // Lengths differ, of course.
            if ["len", "less", "greater", "ether["]
                .iter()
                .any(|word| text.contains(word))
            {
                continue;
            }
            let Ok(in_file) = PacketFilter::parse(&text, file, &Names) else {
                continue;
            };
            let in_file = in_file.program(100).unwrap();
            let at_socket = PacketFilter::parse(&text, socket, &Names).unwrap();
            let at_socket = at_socket.program(100).unwrap();
            for packet in &packets {
                let expected = verdict(&in_file, packet, 0) > 0;
                // As it is, where nothing takes tags off.
                let (bytes, protocol, type_at) = match file {
                    Link::Cooked => (packet[20..].to_vec(), half(packet, 0), 0),
                    _ => (packet.clone(), half(packet, 12), 12),
                };
                let is_cooked = file == Link::Cooked;
                let mut metadata = PacketMetadata {
                    protocol,
                    passage: if is_cooked { packet[10].into() } else { 0 },
                    interface: if is_cooked { half(packet, 6) } else { 0 },
                    ..nothing
                };
                let found = verdict(&with_metadata(&at_socket, metadata), &bytes, 0) > 0;
                assert_eq!(found, expected, "{socket:?}: {text}: {packet:02x?}");
                yes += u32::from(found);
                // With the tag taken off.
                if ![0x8100, 0x88a8].contains(&half(packet, type_at)) {
                    continue;
                }
                let (tag, inner) = (half(packet, header), half(packet, header + 2));
                metadata.tag = Some(tag);
                metadata.protocol = inner;
                let bytes = match file {
                    Link::Cooked => packet[24..].to_vec(),
                    _ => [&packet[..12], &packet[16..]].concat(),
                };
                let found = verdict(&with_metadata(&at_socket, metadata), &bytes, 0) > 0;
                // Before `vlan` what is behind a tag that was taken off is looked at like any other; so it is with tcpdump.
                if text.starts_with("vlan") {
                    assert_eq!(
                        found, expected,
                        "{socket:?}: tag in metadata: {text}: {packet:02x?}"
                    );
                    tagged_yes += u32::from(found);
                }
            }
        }
        assert!(yes > 1000 && tagged_yes > 50, "{socket:?}: {yes} {tagged_yes}");
    }
}

#[test]
fn kernel_accepts_every_program() {
    let mut chance = Chance(5);
    for link in [Link::EthernetSocket, Link::CookedSocket, Link::Raw] {
        for _ in 0..300 {
            let text = match chance.below(3) {
                0 if link == Link::EthernetSocket => of_ethernet(&mut chance),
                1 if link != Link::Raw => format!("vlan {} and {}", chance.below(9), term(&mut chance, 1)),
                _ => expression(&mut chance, 2),
            };
            if let Ok(filter) = PacketFilter::parse(&text, link, &Names) {
                let program = filter.without_echo(Some(1)).program(96).unwrap();
                sockeye_sys::packet_ring::check(&kernel(&program))
                    .unwrap_or_else(|error| panic!("{text}: {error}: {program:?}"));
            }
        }
    }
}

#[test]
fn errors_have_their_position() {
    let check = |text: &str, marked: &str| {
        let error = PacketFilter::parse(text, Link::Ethernet, &NoResolve).expect_err(text);
        assert_eq!(
            text.get(error.span.clone()),
            Some(marked),
            "{}",
            error.render(text)
        );
    };
    check("tcp port", "");
    check("tcp prot 80", "prot");
    check("port 70000", "70000");
    check("host", "");
    check("10.0.0.1", "10.0.0.1");
    check("tcp and", "");
    check("(tcp or udp", "");
    check("tcp)", ")");
    check("net 10.0.0.1/8", "10.0.0.1/8");
    check("net 10.0.0.0/33", "33");
    check("host 10.0.0.0/8", "10.0.0.0/8");
    check("tcp host 10.0.0.1", "10.0.0.1");
    check("icmp port 5", "5");
    check("port nosuch", "nosuch");
    check("host nosuch", "nosuch");
    check("tcp[1:3] = 1", "3");
    check("(tcp[1:3]) = 1", "3");
    check("tcp[1 = 1", "=");
    check("len / 0 = 1", "=");
    check("vlan 5000", "5000");
    check("ip6 host 10.0.0.1", "10.0.0.1");
    check("ether host 10.0.0.1", "10.0.0.1");
    check("geneve", "geneve");
    check("mpls 1048576", "1048576");
    check("mpls and vlan", "vlan");
    check("pppoes 65536", "65536");
    check("ip broadcast", "broadcast");
    check("gateway 10.0.0.1", "gateway");
    check("tcp port 80 or 10.0.0.1", "10.0.0.1");
    check("tcp & 5", "&");
    check("\u{1b}[31m", "\u{1b}");
    for text in [
        "(".repeat(10_000),
        "not ".repeat(10_000),
        format!("{}1 = 1", "-".repeat(10_000)),
        "tcp[".repeat(5000),
    ] {
        assert!(PacketFilter::parse(&text, Link::Ethernet, &NoResolve).is_err());
    }
}

#[test]
fn arbitrary_text_does_not_panic() {
    let mut chance = Chance(9);
    let words = [
        "tcp",
        "port",
        "80",
        "(",
        ")",
        "not",
        "and",
        "or",
        "host",
        "10.0.0.1",
        "[",
        "]",
        ":",
        "&",
        "!",
        "=",
        "len",
        "vlan",
        "-",
        "src",
        "dst",
        "net",
        "/",
        "8",
        "fd00::1",
        "\\ip",
        "ether",
        "0xffffffff",
        "+",
        "é",
        "proto",
        "<<",
        "mask",
        "ip6",
        "02:00:00:00:00:01",
    ];
    for _ in 0..20_000 {
        let text: Vec<_> = (0..chance.below(12)).map(|_| chance.of(&words)).collect();
        let text = text.join(chance.of(&[" ", "", "  "]));
        for (link, _) in LINKS {
            if let Ok(filter) = PacketFilter::parse(&text, link, &NoResolve) {
                let _ = filter.program(1).map(|program| {
                    sockeye_sys::packet_ring::check(&kernel(&program))
                        .unwrap_or_else(|error| panic!("{text}: {error}"));
                });
            }
        }
    }
}
