//! `-i`: one line per interface, or with `-e` one paragraph as in `ifconfig`.

use super::field::{pad, push_left, push_number, push_signed, push_signed_right};
use super::hardware::{AddressForm, Hardware};
use super::inet::push_host;
use sockeye_model::NoNames;
use sockeye_output::number::push_decimal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The title.
pub const INTERFACES_TITLE: &[u8] = b"Kernel Interface table\n";

/// The column names above lines; paragraphs have none.
pub const INTERFACES_HEADER: &[u8] =
    b"Iface             MTU    RX-OK RX-ERR RX-DRP RX-OVR    TX-OK TX-ERR TX-DRP TX-OVR Flg\n";

/// An interface, or an address with its own label (`eth0:1`).
#[derive(Debug, Clone, Default)]
pub struct Interface {
    /// Name or label, at most 15 bytes unless they are escaped.
    pub name: Vec<u8>,
    /// Interface type (`ifi_type`).
    pub kind: u16,
    /// The low 16 bits of `ifi_flags`, which `SIOCGIFFLAGS` returns.
    pub flags: u16,
    /// MTU in bytes (`IFLA_MTU`).
    pub mtu: i32,
    /// Length of the transmit queue in packets (`IFLA_TXQLEN`).
    pub queue_len: Option<i32>,
    /// Hardware address (`IFLA_ADDRESS`).
    pub address: Vec<u8>,
    /// The first IPv4 address.
    pub ipv4: Option<Ipv4>,
    /// All IPv6 addresses.
    pub ipv6: Vec<Ipv6>,
    /// Counters; `None` for a label.
    pub traffic: Option<Traffic>,
    /// Bus resources of its card.
    pub resources: Resources,
}

/// Bus resources of a card (`struct ifmap`); 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// Interrupt.
    pub irq: u8,
    /// First I/O port.
    pub base: u16,
    /// First address of its memory.
    pub memory_start: u64,
    /// End of its memory.
    pub memory_end: u64,
    /// DMA channel.
    pub dma: u8,
}

/// An IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4 {
    /// The address (`IFA_LOCAL`).
    pub address: Ipv4Addr,
    /// The netmask.
    pub netmask: Ipv4Addr,
    /// The broadcast address (`IFA_BROADCAST`).
    pub broadcast: Ipv4Addr,
    /// The peer of a point-to-point link (`IFA_ADDRESS`).
    pub destination: Ipv4Addr,
}

/// An IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6 {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of the prefix in bits.
    pub prefix_len: u8,
    /// Scope: the kernel's `IPV6_ADDR_*` bits.
    pub scope: u8,
}

/// Counters of an interface, in the order of `/proc/net/dev`: eight for receiving (bytes, packets, errors, dropped,
/// overruns, frame, compressed, multicast), eight for sending (bytes, packets, errors, dropped, overruns, collisions,
/// carrier, compressed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic(pub [u64; 16]);

/// Appends a line.
pub fn push_short(out: &mut Vec<u8>, interface: &Interface) {
    push_left(out, &interface.name, 16);
    push_signed_right(out, interface.mtu.into(), 5);
    out.push(b' ');
    match interface.traffic {
        Some(Traffic(
            [
                _,
                packets,
                errors,
                dropped,
                overruns,
                _,
                _,
                _,
                _,
                sent,
                failed,
                lost,
                full,
                ..,
            ],
        )) => {
            push_number(out, packets, 8);
            out.push(b' ');
            push_number(out, errors, 6);
            out.push(b' ');
            push_number(out, dropped, 6);
            out.push(b' ');
            let start = out.len();
            push_decimal(out, overruns);
            pad(out, start, 7);
            push_number(out, sent, 8);
            for number in [failed, lost, full] {
                out.push(b' ');
                push_number(out, number, 6);
            }
            out.push(b' ');
        }
        None => push_left(out, b"     - no statistics available -", 56),
    }
    if interface.flags == 0 {
        out.extend_from_slice(b"[NO FLAGS]");
    }
    let letters = LETTERS.iter().filter(|(bit, _)| interface.flags & bit != 0);
    out.extend(letters.map(|(_, letter)| letter));
    out.push(b'\n');
}

/// Appends a paragraph.
pub fn push_long(out: &mut Vec<u8>, interface: &Interface) {
    out.extend_from_slice(&interface.name);
    out.extend_from_slice(b": ");
    push_flags(out, interface.flags);
    out.extend_from_slice(b"  mtu ");
    push_signed(out, interface.mtu.into());
    out.push(b'\n');
    if let Some(ipv4) = &interface.ipv4 {
        push_ipv4(out, ipv4, interface.flags);
    }
    for ipv6 in &interface.ipv6 {
        push_ipv6(out, ipv6);
    }
    let hardware = Hardware::of(interface.kind);
    out.extend_from_slice(INDENT);
    out.extend_from_slice(hardware.name.as_bytes());
    if hardware.address != AddressForm::None {
        out.push(b' ');
        hardware.address.push(out, &interface.address);
    }
    if let Some(len) = interface.queue_len {
        out.extend_from_slice(b"  txqueuelen ");
        push_signed(out, len.into());
    }
    out.extend_from_slice(b"  (");
    out.extend_from_slice(hardware.title.as_bytes());
    out.extend_from_slice(b")\n");
    if let Some(traffic) = &interface.traffic {
        let has_compression = matches!(interface.kind, 257 | 259);
        push_traffic(out, traffic, has_compression);
    }
    push_resources(out, interface.resources);
    out.push(b'\n');
}

fn push_resources(out: &mut Vec<u8>, resources: Resources) {
    let Resources {
        irq,
        base,
        memory_start,
        memory_end,
        dma,
    } = resources;
    // The original hides lower ports.
    let has_ports = base >= 0x100;
    if irq == 0 && memory_start == 0 && dma == 0 && !has_ports {
        return;
    }
    let mut line = String::from("        device ");
    if irq != 0 {
        line += &format!("interrupt {irq}  ");
    }
    if has_ports {
        line += &format!("base {base:#x}  ");
    }
    if memory_start != 0 {
        line += &format!("memory {memory_start:#x}-{memory_end:x}  ");
    }
    if dma != 0 {
        line += &format!("  dma {dma:#x}");
    }
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

/// `flags=4163<UP,BROADCAST,RUNNING,MULTICAST>`
fn push_flags(out: &mut Vec<u8>, flags: u16) {
    out.extend_from_slice(b"flags=");
    // The original prints a short.
    push_signed(out, flags.cast_signed().into());
    out.push(b'<');
    let mut words = WORDS.iter().filter(|(bit, _)| flags & bit != 0).peekable();
    while let Some((_, word)) = words.next() {
        out.extend_from_slice(word.as_bytes());
        out.push(if words.peek().is_some() { b',' } else { b'>' });
    }
}

fn push_ipv4(out: &mut Vec<u8>, ipv4: &Ipv4, flags: u16) {
    let mut push = |word: &str, address: Ipv4Addr| {
        out.extend_from_slice(word.as_bytes());
        push_host(out, IpAddr::V4(address), true, &NoNames);
    };
    push("        inet ", ipv4.address);
    push("  netmask ", ipv4.netmask);
    if flags & IFF_BROADCAST != 0 {
        push("  broadcast ", ipv4.broadcast);
    }
    if flags & IFF_POINTOPOINT != 0 {
        push("  destination ", ipv4.destination);
    }
    out.push(b'\n');
}

fn push_ipv6(out: &mut Vec<u8>, ipv6: &Ipv6) {
    out.extend_from_slice(b"        inet6 ");
    push_host(out, IpAddr::V6(ipv6.address), true, &NoNames);
    out.extend_from_slice(b"  prefixlen ");
    push_decimal(out, ipv6.prefix_len.into());
    out.extend_from_slice(b"  scopeid ");
    out.extend_from_slice(format!("{:#x}", ipv6.scope).as_bytes());
    let scope = ipv6.scope & !IPV6_ADDR_COMPATV4;
    let words = [
        (ipv6.scope != scope, "compat"),
        (scope == 0, "global"),
        (scope & 0x20 != 0, "link"),
        (scope & 0x40 != 0, "site"),
        (scope & 0x10 != 0, "host"),
    ];
    let mut words = words.iter().filter(|(holds, _)| *holds).peekable();
    if words.peek().is_some() {
        out.push(b'<');
    }
    while let Some((_, word)) = words.next() {
        out.extend_from_slice(word.as_bytes());
        out.push(if words.peek().is_some() { b',' } else { b'>' });
    }
    out.push(b'\n');
}

fn push_traffic(out: &mut Vec<u8>, traffic: &Traffic, has_compression: bool) {
    let (received, sent) = traffic.0.split_at(8);
    let fields = |out: &mut Vec<u8>, fields: &[(&str, u64)]| {
        out.extend_from_slice(INDENT);
        for (word, number) in fields {
            out.extend_from_slice(word.as_bytes());
            push_decimal(out, *number);
        }
    };
    fields(out, &[("RX packets ", received[1]), ("  bytes ", received[0])]);
    push_bytes(out, received[0]);
    if has_compression {
        fields(out, &[("RX compressed:", received[6])]);
        out.push(b'\n');
    }
    fields(
        out,
        &[
            ("RX errors ", received[2]),
            ("  dropped ", received[3]),
            ("  overruns ", received[4]),
            ("  frame ", received[5]),
        ],
    );
    out.push(b'\n');
    fields(out, &[("TX packets ", sent[1]), ("  bytes ", sent[0])]);
    push_bytes(out, sent[0]);
    if has_compression {
        fields(out, &[("TX compressed ", sent[7])]);
        out.push(b'\n');
    }
    fields(
        out,
        &[
            ("TX errors ", sent[2]),
            ("  dropped ", sent[3]),
            (" overruns ", sent[4]),
            ("  carrier ", sent[6]),
            ("  collisions ", sent[5]),
        ],
    );
    out.push(b'\n');
}

/// Appends ` (406.4 MiB)` and a newline.
fn push_bytes(out: &mut Vec<u8>, bytes: u64) {
    let units = [(50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let tenths = bytes.wrapping_mul(10); // as in the original
    let (tenths, unit) = if bytes > 1 << 60 {
        (bytes / 115_292_150_460_684_697, "EiB")
    } else {
        let unit = units.iter().find(|(shift, _)| bytes > 1 << shift);
        unit.map_or((tenths, "B"), |(shift, unit)| (tenths >> shift, *unit))
    };
    out.extend_from_slice(b" (");
    push_decimal(out, tenths / 10);
    out.push(b'.');
    push_decimal(out, tenths % 10);
    out.push(b' ');
    out.extend_from_slice(unit.as_bytes());
    out.extend_from_slice(b")\n");
}

const INDENT: &[u8] = b"        ";

const IFF_BROADCAST: u16 = 0x2;
const IFF_POINTOPOINT: u16 = 0x10;
const IPV6_ADDR_COMPATV4: u8 = 0x80;

/// `IFF_*` of `include/uapi/linux/if.h`, in the order of the short form.
const LETTERS: &[(u16, u8)] = &[
    (0x200, b'A'),
    (IFF_BROADCAST, b'B'),
    (0x4, b'D'),
    (0x8, b'L'),
    (0x1000, b'M'),
    (0x8000, b'd'),
    (0x100, b'P'),
    (0x20, b'N'),
    (0x80, b'O'),
    (IFF_POINTOPOINT, b'P'),
    (0x800, b's'),
    (0x400, b'm'),
    (0x40, b'R'),
    (0x1, b'U'),
];

/// `IFF_*`, in the order of the long form.
const WORDS: &[(u16, &str)] = &[
    (0x1, "UP"),
    (IFF_BROADCAST, "BROADCAST"),
    (0x4, "DEBUG"),
    (0x8, "LOOPBACK"),
    (IFF_POINTOPOINT, "POINTOPOINT"),
    (0x20, "NOTRAILERS"),
    (0x40, "RUNNING"),
    (0x80, "NOARP"),
    (0x100, "PROMISC"),
    (0x200, "ALLMULTI"),
    (0x800, "SLAVE"),
    (0x400, "MASTER"),
    (0x1000, "MULTICAST"),
    (0x8000, "DYNAMIC"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn ether() -> Interface {
        Interface {
            name: b"eth0".to_vec(),
            kind: 1,
            flags: 0x1043,
            mtu: 1400,
            queue_len: Some(1000),
            address: vec![2, 0xfc, 0, 0, 0, 1],
            ipv4: Some(Ipv4 {
                address: [192, 0, 2, 2].into(),
                netmask: [255, 255, 255, 0].into(),
                broadcast: [192, 0, 2, 255].into(),
                destination: [192, 0, 2, 2].into(),
            }),
            ipv6: vec![Ipv6 {
                address: "fe80::1".parse().unwrap(),
                prefix_len: 64,
                scope: 0x20,
            }],
            traffic: Some(Traffic([
                426_200_815,
                21279,
                0,
                1,
                2,
                3,
                0,
                0,
                1_370_850,
                15413,
                4,
                5,
                6,
                7,
                8,
                0,
            ])),
            resources: Resources {
                irq: 20,
                base: 0x300,
                memory_start: 0xf7e0_0000,
                memory_end: 0xf7e2_0000,
                dma: 1,
            },
        }
    }

    #[test]
    fn label_has_no_statistics() {
        let mut out = Vec::new();
        push_short(&mut out, &ether());
        let label = Interface {
            name: b"eth0:1".to_vec(),
            flags: 0,
            traffic: None,
            ..ether()
        };
        push_short(&mut out, &label);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "eth0             1400    21279      0      1 2         15413      4      5      6 BMRU\n\
             eth0:1           1400      - no statistics available -                        [NO FLAGS]\n"
        );
    }

    #[test]
    fn paragraph_equals_ifconfig() {
        let mut out = Vec::new();
        push_long(&mut out, &ether());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "eth0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1400\n        \
             inet 192.0.2.2  netmask 255.255.255.0  broadcast 192.0.2.255\n        \
             inet6 fe80::1  prefixlen 64  scopeid 0x20<link>\n        \
             ether 02:fc:00:00:00:01  txqueuelen 1000  (Ethernet)\n        \
             RX packets 21279  bytes 426200815 (406.4 MiB)\n        \
             RX errors 0  dropped 1  overruns 2  frame 3\n        \
             TX packets 15413  bytes 1370850 (1.3 MiB)\n        \
             TX errors 4  dropped 5 overruns 6  carrier 8  collisions 7\n        \
             device interrupt 20  base 0x300  memory 0xf7e00000-f7e20000    dma 0x1\n\n"
        );
    }

    #[test]
    fn unit_changes_above_its_power_of_two() {
        let check = |bytes: u64, expected: &str| {
            let mut out = Vec::new();
            push_bytes(&mut out, bytes);
            assert_eq!(String::from_utf8(out).unwrap(), format!(" ({expected})\n"));
        };
        check(0, "0.0 B");
        check(1024, "1024.0 B");
        check(1025, "1.0 KiB");
        check(3 << 30, "3.0 GiB");
        check(u64::MAX, "16.0 EiB");
    }
}
