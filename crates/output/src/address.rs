//! Addresses in the format of `ss`.

use crate::number::{push_decimal, push_hexadecimal, push_padded};
use crate::text::push_clean;
use sockeye_model::{Endpoint, Family, InterfaceIndex, Names, Port, Protocol, Socket};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Appends the local endpoint of `socket`.
#[inline]
pub fn push_local(out: &mut Vec<u8>, socket: &Socket, names: &dyn Names) {
    push_endpoint(out, &socket.local, socket, socket.interface, names);
}

/// Appends the peer's endpoint of `socket`.
#[inline]
pub fn push_peer(out: &mut Vec<u8>, socket: &Socket, names: &dyn Names) {
    // A link-local address is ambiguous without its interface.
    let scope = socket.interface.filter(|_| match socket.peer.ip() {
        Some(IpAddr::V6(ip)) => ip.is_unicast_link_local(),
        _ => false,
    });
    push_endpoint(out, &socket.peer, socket, scope, names);
}

#[inline]
fn push_endpoint(
    out: &mut Vec<u8>,
    endpoint: &Endpoint,
    socket: &Socket,
    scope: Option<InterfaceIndex>,
    names: &dyn Names,
) {
    match endpoint {
        Endpoint::None => out.push(b'*'),
        Endpoint::Inet { ip, port } => {
            if is_dual_stack_wildcard(*ip, socket) {
                out.push(b'*');
            } else if let Some(name) = names.host(*ip) {
                push_clean(out, name.as_bytes());
            } else {
                push_bracketed(out, *ip);
            }
            if let Some(interface) = scope {
                out.push(b'%');
                push_interface(out, interface, socket, names);
            }
            out.push(b':');
            push_port(out, *port, socket.protocol, names);
        }
        Endpoint::Unix { name, inode } => {
            match name {
                Some(name) if !name.as_bytes().is_empty() => push_unix_name(out, name.as_bytes()),
                _ => out.push(b'*'),
            }
            if let Some(inode) = inode {
                out.push(b' ');
                push_decimal(out, inode.0.into());
            }
        }
        Endpoint::Packet { ethertype, interface } => {
            push_ethertype(out, *ethertype);
            out.push(b':');
            match interface {
                Some(interface) => push_interface(out, *interface, socket, names),
                None => out.push(b'*'),
            }
        }
        Endpoint::Netlink {
            protocol,
            port,
            group,
        } => {
            match netlink_name(*protocol) {
                Some(name) => out.extend_from_slice(name.as_bytes()),
                None => push_decimal(out, (*protocol).into()),
            }
            out.push(b':');
            match port {
                0 => out.extend_from_slice(b"kernel"),
                port => push_decimal(out, (*port).into()),
            }
            if let Some(group) = group {
                out.extend_from_slice(b" group ");
                push_decimal(out, (*group).into());
            }
        }
    }
}

/// Returns whether this is an IPv6 wildcard that accepts IPv4 too; yes if `IPV6_V6ONLY` is unknown.
fn is_dual_stack_wildcard(ip: IpAddr, socket: &Socket) -> bool {
    socket.family == Family::Inet6
        && socket.v6only != Some(true)
        && matches!(ip, IpAddr::V6(ip) if ip.is_unspecified())
}

#[inline]
fn push_port(out: &mut Vec<u8>, port: Port, protocol: Protocol, names: &dyn Names) {
    if port.0 == 0 {
        out.push(b'*');
    } else {
        push_service(out, port, protocol, names);
    }
}

/// Appends the name of a service, or its port.
#[inline]
pub fn push_service(out: &mut Vec<u8>, port: Port, protocol: Protocol, names: &dyn Names) {
    match names.service(protocol, port) {
        Some(name) => push_clean(out, name.as_bytes()),
        None => push_decimal(out, port.0.into()),
    }
}

/// Appends the name of an interface, or its index.
pub fn push_interface(out: &mut Vec<u8>, index: InterfaceIndex, socket: &Socket, names: &dyn Names) {
    match names.interface(index, socket.netns) {
        Some(name) => push_clean(out, name.as_bytes()),
        None => push_decimal(out, index.0.into()),
    }
}

fn push_unix_name(out: &mut Vec<u8>, name: &[u8]) {
    match name.strip_prefix(b"\0") {
        Some(name) => {
            out.push(b'@');
            push_clean(out, name);
        }
        None => push_clean(out, name),
    }
}

fn push_ethertype(out: &mut Vec<u8>, ethertype: u16) {
    match ethertype_name(ethertype) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => push_hexadecimal(out, ethertype.into()),
    }
}

/// Appends an address; IPv6 addresses are in brackets.
#[inline]
pub fn push_bracketed(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => push_v4(out, ip),
        IpAddr::V6(ip) => {
            out.push(b'[');
            push_v6(out, ip);
            out.push(b']');
        }
    }
}

/// Appends an address without brackets.
#[inline]
pub fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => push_v4(out, ip),
        IpAddr::V6(ip) => push_v6(out, ip),
    }
}

/// Appends an IPv4 address in dotted form.
#[inline]
pub fn push_v4(out: &mut Vec<u8>, ip: Ipv4Addr) {
    let mut text = [0; 16];
    let mut at = 0;
    for octet in ip.octets() {
        // Three digits and a dot are always copied; the last byte of the entry is the number of digits.
        let [a, b, c, len] = OCTETS[usize::from(octet)];
        text[at..at + 3].copy_from_slice(&[a, b, c]);
        at += usize::from(len);
        text[at] = b'.';
        at += 1;
    }
    push_padded(out, &text, at - 1);
}

/// Appends an IPv6 address as in RFC 5952: lower case, the longest run of zeros shortened, v4-mapped addresses with dots.
fn push_v6(out: &mut Vec<u8>, ip: Ipv6Addr) {
    if let Some(v4) = ip.to_ipv4_mapped() {
        out.extend_from_slice(b"::ffff:");
        return push_v4(out, v4);
    }
    let groups = ip.segments();
    let (mut run_start, mut run_len) = (8, 1);
    let mut at = 0;
    while at < 8 {
        let len = groups[at..].iter().take_while(|&&group| group == 0).count();
        if len > run_len {
            (run_start, run_len) = (at, len);
        }
        at += len.max(1);
    }
    at = 0;
    while at < 8 {
        if at == run_start {
            out.extend_from_slice(b"::");
            at += run_len;
            continue;
        }
        if at > 0 && at != run_start + run_len {
            out.push(b':');
        }
        push_group(out, groups[at]);
        at += 1;
    }
}

fn push_group(out: &mut Vec<u8>, group: u16) {
    for shift in [12, 8, 4, 0] {
        if shift == 0 || group >> shift != 0 {
            out.push(b"0123456789abcdef"[usize::from(group >> shift & 15)]);
        }
    }
}

/// Returns the address; a v4-mapped one becomes IPv4.
pub fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// Returns the name of a common EtherType (`ETH_P_*`). 3, every protocol, is `*`.
pub const fn ethertype_name(ethertype: u16) -> Option<&'static str> {
    Some(match ethertype {
        0x0003 => "*",
        0x0004 => "802.2",
        0x0800 => "ip",
        0x0806 => "arp",
        0x8035 => "rarp",
        0x8100 => "802.1q",
        0x86dd => "ipv6",
        0x8847 => "mpls",
        0x8863 => "ppp_disc",
        0x8864 => "ppp_ses",
        0x888e => "eapol",
        0x88a8 => "802.1ad",
        0x88cc => "lldp",
        0x88f7 => "ptp",
        _ => return None,
    })
}

/// Returns the name of a netlink protocol (`include/uapi/linux/netlink.h`).
pub const fn netlink_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        0 => "route",
        2 => "usersock",
        3 => "firewall",
        4 => "diag",
        5 => "nflog",
        6 => "xfrm",
        7 => "selinux",
        8 => "iscsi",
        9 => "audit",
        10 => "fib_lookup",
        11 => "connector",
        12 => "netfilter",
        13 => "ip6_fw",
        14 => "dnrtmsg",
        15 => "kobject_uevent",
        16 => "generic",
        18 => "scsitransport",
        19 => "ecryptfs",
        20 => "rdma",
        21 => "crypto",
        22 => "smc",
        _ => return None,
    })
}

/// Digits of each octet, and their number.
const OCTETS: [[u8; 4]; 256] = {
    let mut octets = [[0; 4]; 256];
    let mut number = 0;
    while number < 256 {
        let (a, b, c) = (
            b'0' + (number / 100) as u8,
            b'0' + (number / 10 % 10) as u8,
            b'0' + (number % 10) as u8,
        );
        octets[number] = match number {
            0..10 => [c, 0, 0, 1],
            10..100 => [b, c, 0, 2],
            _ => [a, b, c, 3],
        };
        number += 1;
    }
    octets
};

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Inode, NoNames, State, UnixName};

    #[test]
    fn ip_addresses_equal_those_of_the_standard_library() {
        let mut seed = 1_u64;
        let mut next = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u16
        };
        for _ in 0..20_000 {
            // Many zeros, so that runs of them occur.
            let groups: [u16; 8] = std::array::from_fn(|_| match next() % 4 {
                0 => next(),
                1 => next() % 300,
                _ => 0,
            });
            for ip in [
                IpAddr::V6(groups.into()),
                IpAddr::V4(Ipv4Addr::from(u32::from(groups[0]) << 16 | u32::from(next()))),
                IpAddr::V6(Ipv4Addr::new(1, 20, 255, next() as u8).to_ipv6_mapped()),
            ] {
                let mut out = Vec::new();
                push_ip(&mut out, ip);
                assert_eq!(String::from_utf8(out).unwrap(), ip.to_string());
            }
        }
    }

    struct Known;

    impl Names for Known {
        fn interface(&self, index: InterfaceIndex, _: Option<sockeye_model::NetnsInode>) -> Option<&str> {
            (index.0 == 2).then_some("eth\x1b0")
        }
        fn service(&self, protocol: Protocol, port: Port) -> Option<&str> {
            (protocol == Protocol::Tcp && port.0 == 22).then_some("ssh")
        }
        fn host(&self, ip: IpAddr) -> Option<&str> {
            ip.is_loopback().then_some("localhost")
        }
    }

    fn inet(ip: &str, port: u16) -> Endpoint {
        Endpoint::inet(ip.parse().unwrap(), Port(port))
    }

    #[track_caller]
    fn check(endpoint: Endpoint, adjust: impl FnOnce(&mut Socket), numeric: &str, named: &str) {
        let mut socket = Socket::new(Protocol::Tcp, State::Listen);
        socket.local = endpoint;
        if let Some(ip) = endpoint.ip() {
            socket.family = if ip.is_ipv6() { Family::Inet6 } else { Family::Inet };
        }
        adjust(&mut socket);
        for (names, expected) in [(&NoNames as &dyn Names, numeric), (&Known, named)] {
            let mut out = Vec::new();
            push_local(&mut out, &socket, names);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn inet_endpoints_are_numeric_or_named() {
        check(inet("127.0.0.1", 22), |_| {}, "127.0.0.1:22", "localhost:ssh");
        check(inet("::1", 80), |_| {}, "[::1]:80", "localhost:80");
        check(inet("0.0.0.0", 80), |_| {}, "0.0.0.0:80", "0.0.0.0:80");
        check(inet("::", 80), |_| {}, "*:80", "*:80");
        check(inet("::", 80), |s| s.v6only = Some(true), "[::]:80", "[::]:80");
        check(inet("10.0.0.1", 0), |_| {}, "10.0.0.1:*", "10.0.0.1:*");
        check(
            inet("::ffff:1.2.3.4", 80),
            |_| {},
            "[::ffff:1.2.3.4]:80",
            "[::ffff:1.2.3.4]:80",
        );
        let bound = |s: &mut Socket| s.interface = Some(InterfaceIndex(2));
        check(
            inet("fe80::1", 80),
            bound,
            "[fe80::1]%2:80",
            "[fe80::1]%eth\\x1b0:80",
        );
        check(
            inet("0.0.0.0", 22),
            |s| s.protocol = Protocol::Raw,
            "0.0.0.0:22",
            "0.0.0.0:22",
        );
        check(Endpoint::None, |_| {}, "*", "*");
    }

    #[test]
    fn other_families_have_their_own_format() {
        let unix = |name: Option<&[u8]>, inode| Endpoint::Unix {
            name: name.map(UnixName::new),
            inode,
        };
        let inode = Some(Inode(77));
        check(
            unix(Some(b"/run/x\ny"), inode),
            |_| {},
            "/run/x\\x0ay 77",
            "/run/x\\x0ay 77",
        );
        check(
            unix(Some(b"\0abs\0tract"), None),
            |_| {},
            "@abs\\x00tract",
            "@abs\\x00tract",
        );
        check(
            unix(Some(&[b'n'; 108]), None),
            |_| {},
            &"n".repeat(108),
            &"n".repeat(108),
        );
        check(unix(Some(b""), None), |_| {}, "*", "*");
        check(unix(None, inode), |_| {}, "* 77", "* 77");
        let packet = |ethertype, interface| Endpoint::Packet { ethertype, interface };
        check(
            packet(0x0800, Some(InterfaceIndex(2))),
            |_| {},
            "ip:2",
            "ip:eth\\x1b0",
        );
        check(packet(3, None), |_| {}, "*:*", "*:*");
        check(packet(0xbeef, None), |_| {}, "0xbeef:*", "0xbeef:*");
        check(
            Endpoint::Netlink {
                protocol: 4,
                port: 812,
                group: None,
            },
            |_| {},
            "diag:812",
            "diag:812",
        );
        check(
            Endpoint::Netlink {
                protocol: 99,
                port: 0,
                group: Some(3),
            },
            |_| {},
            "99:kernel group 3",
            "99:kernel group 3",
        );
    }

    #[test]
    fn link_local_peer_has_its_interface() {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.interface = Some(InterfaceIndex(2));
        for (ip, expected) in [("fe80::2", "[fe80::2]%2:5"), ("2001:db8::2", "[2001:db8::2]:5")] {
            socket.peer = inet(ip, 5);
            let mut out = Vec::new();
            push_peer(&mut out, &socket, &NoNames);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
