//! The parser of `[FAMILY:]ADDRESS[:PORT]` after `src`, `dst`, `sport` and `dport`, as in `ss`.

use crate::Resolve;
use crate::expr::{Expr, Host, Inet, Net, Ports, Side, Test};
use sockeye_model::iproute2;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A parsed host condition, before its operator is applied.
pub(crate) enum Condition {
    /// An IP endpoint with any of these addresses (all if empty) and one of these ports (all if `None`).
    Inet {
        family: Option<Inet>,
        nets: Vec<Net>,
        ports: Option<Ports>,
    },
    /// An endpoint of another family.
    Other(Test),
}

impl Condition {
    pub(crate) fn into_expr(self, side: Side) -> Expr {
        match self {
            Self::Other(test) => Expr::Test(test),
            Self::Inet {
                family: None,
                nets,
                ports,
            } if nets.is_empty() => match ports {
                None => Expr::All,
                Some(ports) => Expr::Test(Test::Port(side, ports)),
            },
            Self::Inet { family, nets, ports } => {
                let host = |net| {
                    Expr::Test(Test::Host(Host {
                        side,
                        family,
                        net,
                        ports,
                    }))
                };
                let mut each = nets.into_iter().map(|net| host(Some(net)));
                match each.next() {
                    None => host(None),
                    Some(first) => each.fold(first, Expr::or),
                }
            }
        }
    }
}

/// Parses `text`; the error is what was expected instead.
///
/// `is_port` means after `sport` or `dport`, where there is no address.
pub(crate) fn parse(
    text: &str,
    side: Side,
    is_port: bool,
    resolve: &dyn Resolve,
) -> Result<Condition, &'static str> {
    if let Some(pattern) = text.strip_prefix("unix:") {
        let pattern = pattern.into();
        return Ok(Condition::Other(Test::Unix { side, pattern }));
    }
    for (prefix, read) in OTHERS {
        if let Some(rest) = text.strip_prefix(prefix) {
            // These split at the first colon, unlike IP addresses.
            let (address, port) = match (is_port, rest.split_once(':')) {
                (true, _) => ("", rest.strip_prefix(':').unwrap_or(rest)),
                (false, Some(both)) => both,
                (false, None) => (rest, ""),
            };
            return read(side, any(address), any(port), resolve).map(Condition::Other);
        }
    }
    if let Some(rest) = text.strip_prefix("inet:") {
        return inet(rest, Some(Inet::V4), is_port, resolve);
    }
    if let Some(rest) = text.strip_prefix("inet6:") {
        return inet(rest, Some(Inet::V6), is_port, resolve);
    }
    inet(text, None, is_port, resolve)
}

type Read = fn(Side, Option<&str>, Option<&str>, &dyn Resolve) -> Result<Test, &'static str>;

const OTHERS: [(&str, Read); 3] = [("netlink:", netlink), ("link:", link), ("vsock:", vsock)];

fn any(text: &str) -> Option<&str> {
    (!text.is_empty() && text != "*").then_some(text)
}

fn inet(
    text: &str,
    family: Option<Inet>,
    is_port: bool,
    resolve: &dyn Resolve,
) -> Result<Condition, &'static str> {
    if is_port {
        let ports = ports(text.strip_prefix(':').unwrap_or(text), resolve)?;
        let nets = Vec::new();
        return Ok(Condition::Inet { family, nets, ports });
    }
    let (address, port) = split(text)?;
    let parsed = nets(address, family);
    let condition = match (parsed, ports(port, resolve)) {
        (Some(nets), Ok(ports)) => Condition::Inet { family, nets, ports },
        (parsed, ports) => {
            // An IPv6 address without brackets: `ss` takes its last group for a port, and so do we if that is valid.
            if !text.starts_with('[')
                && let Some(nets) = nets(text, family)
            {
                let ports = None;
                Condition::Inet { family, nets, ports }
            } else {
                let nets = parsed.map_or_else(|| look_up(address, family, resolve), Ok)?;
                let ports = ports?;
                Condition::Inet { family, nets, ports }
            }
        }
    };
    Ok(condition)
}

/// Splits into address and port; each may be empty.
fn split(text: &str) -> Result<(&str, &str), &'static str> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or("an IPv6 address in [ ]")?;
        return Ok((address, port.strip_prefix(':').unwrap_or(port)));
    }
    if let Some(port) = text.strip_prefix('*') {
        return Ok(("", port.strip_prefix(':').unwrap_or(port)));
    }
    let from = text.find('/').unwrap_or(0);
    Ok(match text[from..].rfind(':') {
        Some(colon) => (&text[..from + colon], &text[from + colon + 1..]),
        None => (text, ""),
    })
}

/// Parses a numeric address or prefix; empty for "any", `None` if it has to be looked up.
fn nets(text: &str, family: Option<Inet>) -> Option<Vec<Net>> {
    if matches!(text, "" | "*" | "any" | "all" | "default") {
        return Some(Vec::new());
    }
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len)),
        None => (text, None),
    };
    let net = if address.contains(':') {
        let len = len.map_or(Some(128), |len| prefix_len(len, 128))?;
        Net::v6(address.parse().ok()?, len)
    } else {
        let len = len.map_or(Some(32), |len| prefix_len(len, 32))?;
        Net::v4(ipv4(address)?, len)
    };
    match (family, net) {
        (Some(Inet::V4), Net::V6 { .. }) | (Some(Inet::V6), Net::V4 { .. }) => None,
        _ => Some(vec![net]),
    }
}

/// Parses one to four numbers, also hexadecimal and octal; missing ones at the end are 0: `10.1` is `10.1.0.0`.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        match parts.next() {
            Some(part) => *octet = number(part)?.try_into().ok()?,
            None => break,
        }
    }
    parts.next().is_none().then(|| octets.into())
}

/// Parses a number of bits, or a dotted mask.
fn prefix_len(text: &str, max: u8) -> Option<u8> {
    if let Some(len) = number(text) {
        return u8::try_from(len).ok().filter(|&len| len <= max);
    }
    let mask = ipv4(text)?.to_bits();
    let len = mask.leading_ones();
    (mask.count_ones() == len).then_some(len as u8)
}

fn look_up(name: &str, family: Option<Inet>, resolve: &dyn Resolve) -> Result<Vec<Net>, &'static str> {
    let mut nets = Vec::new();
    if !name.contains('/') {
        for ip in resolve.host(name) {
            let net = match ip {
                IpAddr::V4(ip) if family != Some(Inet::V6) => Net::v4(ip, 32),
                IpAddr::V6(ip) if family != Some(Inet::V4) => Net::v6(ip, 128),
                _ => continue,
            };
            if !nets.contains(&net) {
                nets.push(net);
            }
        }
    }
    match (nets.is_empty(), family) {
        (false, _) => Ok(nets),
        (true, None) => Err("an address, a prefix or the name of a known host"),
        (true, Some(Inet::V4)) => Err("an IPv4 address, prefix or known host"),
        (true, Some(Inet::V6)) => Err("an IPv6 address, prefix or known host"),
    }
}

/// Parses ports; `None` is any port.
fn ports(text: &str, resolve: &dyn Resolve) -> Result<Option<Ports>, &'static str> {
    if text.is_empty() || text == "*" {
        return Ok(None);
    }
    if let Some(port) = number(text) {
        return match u16::try_from(port) {
            Ok(port) => Ok(Some(Ports::one(port))),
            Err(_) => Err("a port (0 to 65535)"),
        };
    }
    if let Some((low, high)) = text.split_once('-')
        && let (Some(low), Some(high)) = (number(low), number(high))
    {
        return match (u16::try_from(low), u16::try_from(high)) {
            (Ok(low), Ok(high)) if low <= high => Ok(Some(Ports { low, high })),
            _ => Err("a range of ports, the lower one first (8000-8999)"),
        };
    }
    match resolve.service(text) {
        Some(port) => Ok(Some(Ports::one(port))),
        None => Err("a port number or the name of a known service"),
    }
}

fn netlink(
    side: Side,
    address: Option<&str>,
    port: Option<&str>,
    _: &dyn Resolve,
) -> Result<Test, &'static str> {
    let protocol = match address {
        None => None,
        Some(text) => Some(
            number(text)
                .and_then(|number| u8::try_from(number).ok())
                .or_else(|| {
                    iproute2::NETLINK_PROTOCOLS
                        .iter()
                        .find(|(_, name)| *name == text)
                        .map(|&(number, _)| number)
                })
                .ok_or("a netlink protocol (rtnl, genl, uevent, ...) or its number")?,
        ),
    };
    let port = match port {
        None => None,
        Some("kernel") => Some(0),
        Some(text) => Some(signed(text).ok_or("a netlink port id, 'kernel' or '*'")?),
    };
    Ok(Test::Netlink { side, protocol, port })
}

fn link(
    side: Side,
    address: Option<&str>,
    port: Option<&str>,
    resolve: &dyn Resolve,
) -> Result<Test, &'static str> {
    let ethertype = match address {
        None => None,
        Some(text) => Some(
            iproute2::ETHERTYPES
                .iter()
                .find(|(_, name)| name.eq_ignore_ascii_case(text))
                .map(|&(number, _)| number)
                .or_else(|| u16::try_from(number(text)?).ok())
                .ok_or("an Ethernet protocol (ip, ipv6, arp, all, ...) or its number")?,
        ),
    };
    let interface = match port {
        None => None,
        Some(text) => Some(device(text, resolve).ok_or(DEVICE)?),
    };
    Ok(Test::Packet {
        side,
        ethertype,
        interface,
    })
}

fn vsock(
    side: Side,
    address: Option<&str>,
    port: Option<&str>,
    _: &dyn Resolve,
) -> Result<Test, &'static str> {
    let read = |text: Option<&str>, expected| match text {
        None => Ok(None),
        Some(text) => signed(text).map(Some).ok_or(expected),
    };
    Ok(Test::Vsock {
        side,
        cid: read(address, "a vsock CID (a number) or '*'")?,
        port: read(port, "a vsock port (a number) or '*'")?,
    })
}

/// The expected argument of [`device`].
pub(crate) const DEVICE: &str = "the name or index of an interface";

/// Parses an interface: a name, an index, or `ifINDEX`.
pub(crate) fn device(text: &str, resolve: &dyn Resolve) -> Option<u32> {
    resolve.interface(text).map(|index| index.0).or_else(|| {
        number(text)
            .or_else(|| number(text.strip_prefix("if")?))?
            .try_into()
            .ok()
    })
}

/// Parses a number in C syntax: decimal, hexadecimal (`0x`) or octal (`0`).
pub(crate) fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// Parses a 32-bit number; the upper half may be written as negative numbers.
pub(crate) fn signed(text: &str) -> Option<u32> {
    match text.strip_prefix('-') {
        Some(negative) => {
            let magnitude = i64::try_from(number(negative)?).ok()?;
            i32::try_from(-magnitude).ok().map(i32::cast_unsigned)
        }
        None => number(text)?.try_into().ok(),
    }
}

/// Whether a word in place of a condition looks like an address.
pub(crate) fn looks_like_address(text: &str) -> bool {
    let (ip, port) = match text.rsplit_once(':') {
        Some((ip, port)) if ip.contains('.') || ip.ends_with(']') => (ip, port),
        _ => (text, "0"),
    };
    let ip = ip
        .strip_prefix('[')
        .and_then(|ip| ip.strip_suffix(']'))
        .unwrap_or(ip);
    let is_ip = ip.parse::<Ipv6Addr>().is_ok() || (ip.contains('.') && nets(ip, None).is_some());
    is_ip && (port == "*" || port.parse::<u16>().is_ok())
}

/// Finds a netlink protocol by its name in `ss`.
pub(crate) fn netlink_protocol_of_ss(name: &str) -> Option<(u8, &'static str)> {
    let is_ours = |name| matches!(name, "route" | "sock_diag" | "netfilter");
    let known = iproute2::NETLINK_PROTOCOLS
        .iter()
        .find(|(_, known)| *known == name);
    known.filter(|(_, known)| !is_ours(*known)).copied()
}

/// Finds an EtherType by its name in `ss`, in any case; 6.1 lacks one that 6.15 has.
pub(crate) fn ethertype_of_ss(name: &str, since_6_15: bool) -> Option<u16> {
    let is_later = |name| matches!(name, "cfm") && !since_6_15;
    let known = iproute2::ETHERTYPES
        .iter()
        .find(|(_, known)| known.eq_ignore_ascii_case(name));
    known
        .filter(|(_, known)| !is_later(*known))
        .map(|&(number, _)| number)
}
