//! The argument of `src`, `dst`, `sport` and `dport` (`parse_hostcond()`).

use super::Context;
use super::error::HostError;
use super::number;
use super::tree::{ANY_PORT, Host, Prefix};
use crate::Resolve;
use sockeye_model::{Family, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A parser of host words; each word may depend on those before.
pub(super) struct Reader<'a> {
    resolve: &'a dyn Resolve,
    context: &'a Context,
    preferred: Option<Family>,
    /// The family to which a word restricted the listing
    confined_to: Option<Family>,
    netlink: NetlinkCache,
}

impl<'a> Reader<'a> {
    pub(super) fn new(context: &'a Context, resolve: &'a dyn Resolve) -> Self {
        Self {
            resolve,
            context,
            preferred: context.preferred,
            confined_to: None,
            netlink: NetlinkCache::default(),
        }
    }

    pub(super) const fn confined_to(&self) -> Option<Family> {
        self.confined_to
    }

    /// Parses a word. `is_port` means after `sport` or `dport`, where there is no address.
    pub(super) fn read(&mut self, word: &str, is_port: bool) -> Result<Host, HostError> {
        let named = PREFIXES
            .iter()
            .find_map(|&(prefix, family)| Some((Some(family), word.strip_prefix(prefix)?)));
        let (family, text) = named.unwrap_or((self.preferred, word));
        let host = match family {
            Some(Family::Unix) => Host::Unix(text.into()),
            Some(Family::Packet) => self.link(text, is_port)?,
            Some(Family::Netlink) => self.netlink(text, is_port)?,
            Some(VSOCK) => vsock(text, is_port)?,
            family => self.inet(text, is_port, family)?,
        };
        if family.is_some() {
            (self.confined_to, self.preferred) = (family, family);
        }
        Ok(host)
    }

    fn inet(&self, text: &str, is_port: bool, family: Option<Family>) -> Result<Host, HostError> {
        let (address, port) = if let Some(rest) = text.strip_prefix('[') {
            let unclosed = HostError::Unexplained("an address in [ ]");
            rest.split_once(']').ok_or(unclosed)?
        } else if let Some(port) = text.strip_prefix('*') {
            (text, port)
        } else {
            let from = text.find('/').unwrap_or(0);
            match text[from..].rfind(':') {
                Some(colon) => text.split_at(from + colon),
                None => (text, ""),
            }
        };
        // Brackets are allowed, but neither they nor a colon inside turn a port into an address.
        let (address, port) = match (is_port, text.starts_with('[')) {
            (true, true) => ("", address),
            (true, false) => ("", text),
            (false, _) => (address, port),
        };
        let port = match port.strip_prefix(':').unwrap_or(port) {
            "" => ANY_PORT,
            any if any.starts_with('*') => ANY_PORT,
            port => self.port(port).map_or_else(|| self.service(port), Ok)?,
        };
        if address.is_empty() || address.starts_with('*') {
            return Ok(Host::of(Prefix::NONE, port));
        }
        if let Some(prefix) = prefix(address, family) {
            return Ok(Host::of(prefix, port));
        }
        let mut prefixes = self.look_up(address, family).into_iter();
        match prefixes.next() {
            Some(first) => Ok(Host::Address {
                port,
                first,
                others: prefixes.collect(),
            }),
            None => Err(HostError::NotAnAddress(address.to_owned())),
        }
    }

    /// Parses the number of a port, of an interface or of a netlink port.
    fn port(&self, text: &str) -> Option<i64> {
        if self.context.since_6_15 {
            number::wide(text)
        } else {
            number::signed(text).map(i64::from)
        }
    }

    fn service(&self, name: &str) -> Result<i64, HostError> {
        let port = |is_listed: bool, protocol| {
            is_listed
                .then(|| self.resolve.service_of(protocol, name))
                .flatten()
        };
        let udp = port(self.context.udp, Protocol::Udp);
        let tcp = port(self.context.tcp, Protocol::Tcp);
        match (udp, tcp) {
            (Some(udp), Some(tcp)) if udp != tcp => Err(HostError::AmbiguousPort(name.to_owned())),
            (Some(port), _) | (_, Some(port)) => Ok(port.into()),
            (None, None) => Err(HostError::NotAPort(name.to_owned())),
        }
    }

    /// Resolves a name as `gethostbyname2(3)` does: first the IPv4 addresses, then those of IPv6.
    fn look_up(&self, name: &str, family: Option<Family>) -> Vec<Prefix> {
        let (v4, v6) = match family {
            None => (true, true),
            Some(Family::Inet) => (true, false),
            Some(Family::Inet6) => (false, true),
            Some(_) => return Vec::new(),
        };
        let is_numeric = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_numeric && !name.starts_with('.') && !name.ends_with('.') {
            let address = whole_ipv4(name).filter(|_| v4);
            return address
                .map(|address| Prefix::v4(address, 32))
                .into_iter()
                .collect();
        }
        // `ss` does not resolve other forms of numbers, so they must not reach the resolver.
        if name.contains(['/', ':']) || whole_ipv4(name).is_some() {
            return Vec::new();
        }
        let found = self.resolve.host(name);
        let first = found.iter().filter_map(|ip| match *ip {
            IpAddr::V4(ip) if v4 => Some(Prefix::v4(ip, 32)),
            _ => None,
        });
        let then = found.iter().filter_map(|ip| match *ip {
            IpAddr::V6(ip) if v6 => Some(Prefix::v6(ip, 128)),
            _ => None,
        });
        first.chain(then).collect()
    }

    fn link(&self, text: &str, is_port: bool) -> Result<Host, HostError> {
        let (ethertype, interface) = at_colon(text, is_port);
        let interface = match interface {
            None | Some("" | "*") => ANY_PORT,
            Some(name) => self
                .port(name)
                .or_else(|| {
                    let index = interface_index(name, self.resolve)?;
                    let index = i32::try_from(index).ok().filter(|&index| index > 0);
                    index.map(i64::from)
                })
                .ok_or(HostError::Unexplained("the name or index of an interface"))?,
        };
        let prefix = match ethertype {
            "" | "*" => Prefix::any(Some(Family::Packet)),
            name => Prefix::number(
                Family::Packet,
                crate::host::ethertype_of_ss(name, self.context.since_6_15)
                    .or_else(|| number::unsigned(name)?.try_into().ok())
                    .ok_or(HostError::Unexplained("an Ethernet protocol"))?
                    .into(),
            ),
        };
        Ok(Host::of(prefix, interface))
    }

    fn netlink(&mut self, text: &str, is_port: bool) -> Result<Host, HostError> {
        let (protocol, port) = at_colon(text, is_port);
        let port = match port {
            None | Some("" | "*") => ANY_PORT,
            Some(port) => self
                .port(port)
                .or((port == "kernel").then_some(0))
                .ok_or(HostError::Unexplained("a netlink port id or 'kernel'"))?,
        };
        let prefix = match protocol {
            "" | "*" => Prefix::any(Some(Family::Netlink)),
            name => {
                let unknown = HostError::Unexplained("a netlink protocol");
                Prefix::number(Family::Netlink, self.netlink.number(name).ok_or(unknown)?)
            }
        };
        Ok(Host::of(prefix, port))
    }
}

impl Host {
    const fn of(first: Prefix, port: i64) -> Self {
        Self::Address {
            port,
            first,
            others: Vec::new(),
        }
    }
}

fn vsock(text: &str, is_port: bool) -> Result<Host, HostError> {
    let (cid, port) = at_colon(text, is_port);
    let port = match port {
        None | Some("*") => ANY_PORT,
        Some(port) => number::unsigned(port)
            .ok_or(HostError::Unexplained("a vsock port"))?
            .cast_signed()
            .into(),
    };
    if !matches!(cid, "" | "*") && number::unsigned(cid).is_none() {
        return Err(HostError::Unexplained("a vsock CID"));
    }
    // `vsock_set_inet_prefix()` clears the length after setting it: the CID is never compared.
    Ok(Host::of(Prefix::any(Some(VSOCK)), port))
}

/// Splits at the first colon, as `find_port()` does for these families.
fn at_colon(text: &str, is_port: bool) -> (&str, Option<&str>) {
    match (is_port, text.split_once(':')) {
        (true, _) => ("", Some(text.strip_prefix(':').unwrap_or(text))),
        (false, Some((address, port))) => (address, Some(port)),
        (false, None) => (text, None),
    }
}

/// Parses as `get_prefix_1()`.
fn prefix(text: &str, family: Option<Family>) -> Option<Prefix> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let bits = |max: u8| match bits {
        None => Some(max),
        Some(text) => u8::try_from(netmask(text)?).ok().filter(|&bits| bits <= max),
    };
    if ANY.contains(&address) {
        return (address == text).then_some(Prefix::any(family));
    }
    let is_or_may_be = |expected: Family| family.is_none_or(|family| family == expected);
    if address.contains(':') {
        let address: Ipv6Addr = address.parse().ok().filter(|_| is_or_may_be(Family::Inet6))?;
        Some(Prefix::v6(address, bits(128)?))
    } else {
        let address = ipv4(address).filter(|_| is_or_may_be(Family::Inet))?;
        Some(Prefix::v4(address, bits(32)?))
    }
}

/// Parses a number of bits or a dotted mask, which may be as short as an address: `/255.255`; `/any` is 0.
fn netmask(text: &str) -> Option<u32> {
    number::unsigned(text).or_else(|| {
        let mask = if ANY.contains(&text) {
            0
        } else {
            ipv4(text)?.to_bits()
        };
        (mask.leading_ones() == mask.count_ones()).then_some(mask.leading_ones())
    })
}

/// Parses as `get_addr_ipv4()`: one to four numbers; missing ones at the end are 0.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut text = text;
    for (place, octet) in octets.iter_mut().enumerate() {
        let (number, rest) = number::leading(text)?;
        *octet = number.try_into().ok()?;
        if rest.is_empty() {
            break;
        }
        text = rest.strip_prefix('.').filter(|_| place < 3)?;
    }
    Some(octets.into())
}

/// Parses as `inet_aton(3)`: one to four numbers, the last of which fills the rest of the address.
fn whole_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.');
    let last = parts.next_back()?;
    let number = |part: &str| {
        let begins_well = part.starts_with(|first: char| first.is_ascii_digit());
        number::unsigned(part).filter(|_| begins_well)
    };
    let (mut bits, mut shift) = (0_u32, 32);
    for part in parts {
        if shift == 8 {
            return None;
        }
        shift -= 8;
        bits |= u32::from(u8::try_from(number(part)?).ok()?) << shift;
    }
    let last = number(last)?;
    let fits = shift == 32 || last >> shift == 0;
    fits.then(|| Ipv4Addr::from_bits(bits | last))
}

/// Finds an index as `ll_name_to_index()`: by name, or from `ifINDEX` with any suffix. 0: none.
pub(super) fn interface_index(name: &str, resolve: &dyn Resolve) -> Option<u32> {
    if let Some(index) = resolve.interface(name) {
        return Some(index.0);
    }
    // `%u` of sscanf: decimal, modulo 2^32.
    let text = name.strip_prefix("if")?.trim_start_matches(number::SPACE);
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let len = text
        .find(|char: char| !char.is_ascii_digit())
        .unwrap_or(text.len());
    if len == 0 {
        return None;
    }
    let number = text[..len].parse::<u64>().unwrap_or(u64::MAX);
    let number = if negative && number != u64::MAX {
        number.wrapping_neg()
    } else {
        number
    };
    Some(number as u32)
}

/// The cache of `nl_proto_a2n()`: the last name it found, and its result for that name, which is the number that it
/// returned last, possibly for another name.
#[derive(Default)]
struct NetlinkCache {
    name: Option<&'static str>,
    number: u32,
}

impl NetlinkCache {
    fn number(&mut self, text: &str) -> Option<u32> {
        if self.name == Some(text) {
            return Some(self.number);
        }
        if let Some((number, name)) = crate::host::netlink_protocol_of_ss(text) {
            (self.name, self.number) = (Some(name), number.into());
        } else {
            self.number = number::unsigned(text).filter(|&number| number <= 255)?;
        }
        Some(self.number)
    }
}

const PREFIXES: &[(&str, Family)] = &[
    ("unix:", Family::Unix),
    ("link:", Family::Packet),
    ("netlink:", Family::Netlink),
    ("vsock:", VSOCK),
    ("inet:", Family::Inet),
    ("inet6:", Family::Inet6),
];

const ANY: [&str; 3] = ["default", "all", "any"];

/// `AF_VSOCK`
pub(super) const VSOCK: Family = Family::Unknown(40);
