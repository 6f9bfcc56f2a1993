//! `-r`: routing tables.

use super::field::{pad, push_left, push_number_left, push_signed_right};
use super::inet::push_host;
use sockeye_model::Names;
use sockeye_output::number::push_decimal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The last columns of a table of IPv4 routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteColumns {
    /// Only the title is shown: three `-e`.
    Title,
    /// Metric, Ref, Use: one `-e`.
    Metric,
    /// MSS, Window, irtt: no `-e`.
    Window,
    /// All of these: two `-e`.
    All,
}

/// The layout of a routing table.
#[derive(Debug, Clone, Copy)]
pub struct RouteLayout {
    /// Columns of IPv4 tables.
    pub columns: RouteColumns,
    /// Hosts and networks are shown by address.
    pub numeric: bool,
}

/// A line of `/proc/net/route`.
#[derive(Debug, Clone, Copy)]
pub struct RouteV4<'a> {
    /// `Iface`; `*` if there is none.
    pub interface: &'a [u8],
    /// `Destination`.
    pub destination: Ipv4Addr,
    /// Name of the destination host or network, if it has one and names are shown.
    pub name: Option<&'a str>,
    /// `Gateway`.
    pub gateway: Ipv4Addr,
    /// Flags (`RTF_*`).
    pub flags: u32,
    /// `RefCnt`.
    pub references: i64,
    /// `Use`.
    pub uses: i64,
    /// `Metric`.
    pub metric: i64,
    /// `Mask`.
    pub mask: Ipv4Addr,
    /// `MTU`, shown as MSS.
    pub mtu: i64,
    /// `Window`.
    pub window: i64,
    /// `IRTT`.
    pub irtt: i64,
}

/// A line of `/proc/net/ipv6_route`.
#[derive(Debug, Clone, Copy)]
pub struct RouteV6<'a> {
    /// Destination.
    pub destination: Ipv6Addr,
    /// Length of the destination's prefix in bits.
    pub prefix_len: u8,
    /// Next hop.
    pub next_hop: Ipv6Addr,
    /// Flags (`RTF_*`).
    pub flags: u32,
    /// Metric; the original reads an int.
    pub metric: i32,
    /// Reference count.
    pub references: i32,
    /// Use count.
    pub uses: i32,
    /// Interface.
    pub interface: &'a [u8],
}

impl RouteLayout {
    /// Appends the title and the column names of the IPv4 table.
    pub fn push_header_v4(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Kernel IP routing table\n");
        let names = match self.columns {
            RouteColumns::Title => return,
            RouteColumns::Metric => "Metric Ref    Use Iface",
            RouteColumns::Window => "  MSS Window  irtt Iface",
            RouteColumns::All => "Metric Ref    Use Iface    MSS   Window irtt",
        };
        out.extend_from_slice(b"Destination     Gateway         Genmask         Flags ");
        out.extend_from_slice(names.as_bytes());
        out.push(b'\n');
    }

    /// Appends the title and the column names of the IPv4 cache. Since Linux 3.6 it has no entries.
    pub fn push_cache_v4(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Kernel IP routing cache\n");
        let names = match self.columns {
            RouteColumns::Title => return,
            RouteColumns::Metric => "Metric Ref    Use Iface",
            RouteColumns::Window => "  MSS Window  irtt Iface",
            RouteColumns::All => {
                "Metric Ref    Use Iface    MSS   Window irtt  TOS HHRef HHUptod     SpecDst"
            }
        };
        out.extend_from_slice(b"Source          Destination     Gateway         Flags ");
        out.extend_from_slice(names.as_bytes());
        out.push(b'\n');
    }

    /// Appends the title and the column names of the IPv6 table or cache.
    pub fn push_header_v6(&self, out: &mut Vec<u8>, cache: bool) {
        let title: &[u8] = if cache {
            b"Kernel IPv6 routing cache\n"
        } else {
            b"Kernel IPv6 routing table\n"
        };
        out.extend_from_slice(title);
        out.extend_from_slice(
            b"Destination                    Next Hop                   Flag Met Ref  Use If\n",
        );
    }

    /// Appends an IPv4 route.
    pub fn push_v4(&self, out: &mut Vec<u8>, route: &RouteV4<'_>, names: &dyn Names) {
        if self.columns == RouteColumns::Title {
            return;
        }
        let rejects = route.flags & RTF_REJECT != 0;
        let start = out.len();
        self.push_destination(out, route);
        out.truncate(out.len().min(start + 15));
        pad(out, start, 16);
        let start = out.len();
        if rejects {
            out.push(b'-');
        } else {
            push_host(out, IpAddr::V4(route.gateway), self.numeric, names);
            out.truncate(out.len().min(start + 15));
        }
        pad(out, start, 16);
        let start = out.len();
        push_host(out, IpAddr::V4(route.mask), true, names);
        pad(out, start, 16);
        let start = out.len();
        push_flags_v4(out, route.flags);
        pad(out, start, 5);
        out.push(b' ');
        match (self.columns, rejects) {
            (RouteColumns::Title, _) => {}
            (RouteColumns::Metric, true) => {
                push_number_left(out, route.metric, 6);
                out.extend_from_slice(b" -  ");
                push_signed_right(out, route.uses, 7);
                out.extend_from_slice(b" -");
            }
            (RouteColumns::Metric, false) => {
                push_number_left(out, route.metric, 7);
                push_number_left(out, route.references, 2);
                out.push(b' ');
                push_signed_right(out, route.uses, 7);
                out.push(b' ');
                out.extend_from_slice(route.interface);
            }
            (RouteColumns::Window, true) => out.extend_from_slice(b"    - -          - -"),
            (RouteColumns::Window, false) => {
                push_signed_right(out, route.mtu, 5);
                out.push(b' ');
                push_number_left(out, route.window, 5);
                out.push(b' ');
                push_signed_right(out, route.irtt, 6);
                out.push(b' ');
                out.extend_from_slice(route.interface);
            }
            (RouteColumns::All, true) => {
                push_number_left(out, route.metric, 6);
                out.extend_from_slice(b" -  ");
                push_signed_right(out, route.uses, 7);
                out.extend_from_slice(b" -        -     -      -");
            }
            (RouteColumns::All, false) => {
                push_number_left(out, route.metric, 6);
                out.push(b' ');
                push_number_left(out, route.references, 3);
                out.push(b' ');
                push_signed_right(out, route.uses, 6);
                out.push(b' ');
                push_left(out, &route.interface[..route.interface.len().min(6)], 6);
                out.extend_from_slice(b"   ");
                push_number_left(out, route.mtu, 5);
                out.push(b' ');
                push_number_left(out, route.window, 6);
                out.push(b' ');
                push_number_left(out, route.irtt, 0);
            }
        }
        out.push(b'\n');
    }

    fn push_destination(&self, out: &mut Vec<u8>, route: &RouteV4<'_>) {
        let is_any = route.destination.is_unspecified();
        match route.name.filter(|_| !self.numeric && !is_any) {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None if !self.numeric && is_any && route.mask.is_unspecified() => {
                out.extend_from_slice(b"default");
            }
            None => push_host(out, IpAddr::V4(route.destination), true, &sockeye_model::NoNames),
        }
    }

    /// Appends an IPv6 route.
    pub fn push_v6(&self, out: &mut Vec<u8>, route: &RouteV6<'_>, names: &dyn Names) {
        let start = out.len();
        push_host(out, IpAddr::V6(route.destination), self.numeric, names);
        out.push(b'/');
        push_decimal(out, route.prefix_len.into());
        pad(out, start, 30);
        out.push(b' ');
        let start = out.len();
        push_host(out, IpAddr::V6(route.next_hop), self.numeric, names);
        pad(out, start, 26);
        out.push(b' ');
        let start = out.len();
        out.extend(
            LETTERS_V6
                .iter()
                .filter(|(bit, _)| route.flags & bit != 0)
                .map(|(_, letter)| letter),
        );
        pad(out, start, 4);
        out.push(b' ');
        push_number_left(out, route.metric.into(), 3);
        out.push(b' ');
        push_number_left(out, route.references.into(), 1);
        out.push(b' ');
        push_signed_right(out, route.uses.into(), 6);
        out.push(b' ');
        out.extend_from_slice(route.interface);
        out.push(b'\n');
    }
}

impl RouteV4<'_> {
    /// Whether the destination is a host, so that a host's name is shown.
    #[must_use]
    pub fn is_to_host(destination: Ipv4Addr, mask: Ipv4Addr, flags: u32) -> bool {
        destination.to_bits() & !mask.to_bits() != 0 || flags & RTF_HOST != 0
    }
}

impl RouteV6<'_> {
    /// Whether a route belongs to the cache.
    #[must_use]
    pub const fn is_cached(flags: u32) -> bool {
        flags & RTF_CACHE != 0
    }
}

/// Appends the letters of flags. Those of a reject route begin with `!`, without U and G.
fn push_flags_v4(out: &mut Vec<u8>, flags: u32) {
    let letters = if flags & RTF_REJECT != 0 {
        out.push(b'!');
        &LETTERS_V4[2..]
    } else {
        LETTERS_V4
    };
    out.extend(
        letters
            .iter()
            .filter(|(bit, _)| flags & bit != 0)
            .map(|(_, letter)| letter),
    );
}

/// `RTF_*` of `include/uapi/linux/route.h` and `ipv6_route.h`
const RTF_UP: u32 = 0x1;
const RTF_GATEWAY: u32 = 0x2;
const RTF_HOST: u32 = 0x4;
const RTF_REJECT: u32 = 0x200;
const RTF_CACHE: u32 = 0x0100_0000;

const LETTERS_V4: &[(u32, u8)] = &[
    (RTF_UP, b'U'),
    (RTF_GATEWAY, b'G'),
    (RTF_HOST, b'H'),
    (0x8, b'R'),
    (0x10, b'D'),
    (0x20, b'M'),
    (0x1_0000, b'd'),
    (0x2_0000, b'a'),
    (0x4_0000, b'c'),
    (0x20_0000, b'o'),
    (0x40_0000, b'e'),
    (RTF_CACHE, b'c'),
    (0x0200_0000, b'f'),
    (0x0400_0000, b'p'),
    (0x8000_0000, b'l'),
    (0x40, b'u'),
    (0x80, b'w'),
    (0x100, b'i'),
    (0x400, b'n'),
];

const LETTERS_V6: &[(u32, u8)] = &[
    (RTF_UP, b'U'),
    (RTF_REJECT, b'!'),
    (RTF_GATEWAY, b'G'),
    (RTF_HOST, b'H'),
    (0x1_0000, b'D'),
    (0x4_0000, b'A'),
    (RTF_CACHE, b'C'),
    (0x2_0000, b'a'),
    (0x40_0000, b'e'),
    (0x20, b'm'),
    (0x20_0000, b'n'),
    (0x0200_0000, b'f'),
];

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::NoNames;

    const DEFAULT: RouteV4<'_> = RouteV4 {
        interface: b"eth0",
        destination: Ipv4Addr::UNSPECIFIED,
        name: None,
        gateway: Ipv4Addr::new(192, 0, 2, 1),
        flags: 3,
        references: 0,
        uses: 0,
        metric: 100,
        mask: Ipv4Addr::UNSPECIFIED,
        mtu: 1500,
        window: 0,
        irtt: 0,
    };

    #[track_caller]
    fn check(columns: RouteColumns, numeric: bool, route: &RouteV4<'_>, expected: &str) {
        let mut out = Vec::new();
        RouteLayout { columns, numeric }.push_v4(&mut out, route, &NoNames);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn ipv4_route_has_the_selected_columns() {
        check(
            RouteColumns::Window,
            false,
            &DEFAULT,
            "default         192.0.2.1       0.0.0.0         UG     1500 0          0 eth0\n",
        );
        check(
            RouteColumns::Metric,
            true,
            &DEFAULT,
            "0.0.0.0         192.0.2.1       0.0.0.0         UG    100    0        0 eth0\n",
        );
        check(
            RouteColumns::All,
            true,
            &DEFAULT,
            "0.0.0.0         192.0.2.1       0.0.0.0         UG    100    0        0 eth0     1500  0      0\n",
        );
        let rejects = RouteV4 {
            flags: 0x205,
            destination: [10, 0, 0, 1].into(),
            mask: Ipv4Addr::BROADCAST,
            name: Some("a-name-of-a-host.example.org"),
            ..DEFAULT
        };
        check(
            RouteColumns::Window,
            false,
            &rejects,
            "a-name-of-a-hos -               255.255.255.255 !H        - -          - -\n",
        );
        check(RouteColumns::Title, false, &DEFAULT, "");
    }

    #[test]
    fn ipv6_default_route_is_a_row() {
        let mut out = Vec::new();
        let layout = RouteLayout {
            columns: RouteColumns::Window,
            numeric: false,
        };
        layout.push_v6(
            &mut out,
            &RouteV6 {
                destination: Ipv6Addr::UNSPECIFIED,
                prefix_len: 0,
                next_hop: "fd00::1".parse().unwrap(),
                flags: 3,
                metric: -1,
                references: 3,
                uses: 0,
                interface: b"eth0",
            },
            &NoNames,
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "[::]/0                         fd00::1                    UG   -1  3      0 eth0\n"
        );
    }
}
