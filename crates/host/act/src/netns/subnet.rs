//! Choice of free addresses for the veth pairs of `ns add --subnet`. Pure: the caller passes the addresses
//! that are in use.

use super::links::Addresses;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses to assign: `10.1.0.0/16`, or starting at one of them: `10.1.0.50/16`.
///
/// ```
/// use sockeye_act::netns::Subnet;
///
/// let subnet: Subnet = "10.1.0.0/29".parse().unwrap();
/// let found = subnet.for_ports(2, &["10.1.0.3".parse().unwrap()].into()).unwrap();
/// assert_eq!(found[0].inner.to_string(), "10.1.0.2"); // the first is left to the bridge
/// assert_eq!(found[1].inner.to_string(), "10.1.0.4");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    is_v4: bool,
    /// First address as a number; for IPv4 in the lowest 32 bits.
    first: u128,
    last: u128,
    prefix_len: u8,
}

/// The subnet has fewer free addresses than requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubnetFull {
    /// Number of free addresses, or of pairs.
    pub available: usize,
}

impl Subnet {
    /// Returns free addresses for `count` ports of one bridge, without the `taken` ones.
    ///
    /// # Errors
    /// If there are not enough.
    pub fn for_ports(&self, count: usize, taken: &BTreeSet<IpAddr>) -> Result<Vec<Addresses>, SubnetFull> {
        let free = (self.first..=self.last)
            .map(|number| self.ip(number))
            .filter(|ip| !taken.contains(ip));
        let found = free.take(count).map(|inner| Addresses {
            inner,
            outer: None,
            prefix_len: self.prefix_len,
        });
        enough(found.collect(), count)
    }

    /// Returns free addresses for `count` pairs, each a separate network (RFC 3021, RFC 6164), without the `taken`
    /// ones.
    ///
    /// # Errors
    /// If there are not enough.
    pub fn for_pairs(&self, count: usize, taken: &BTreeSet<IpAddr>) -> Result<Vec<Addresses>, SubnetFull> {
        let even = self.first.next_multiple_of(2);
        let pairs = (even..self.last)
            .step_by(2)
            .map(|number| (self.ip(number), self.ip(number + 1)))
            .filter(|(outer, inner)| !taken.contains(outer) && !taken.contains(inner));
        let found = pairs.take(count).map(|(outer, inner)| Addresses {
            inner,
            outer: Some(outer),
            prefix_len: if self.is_v4 { 31 } else { 127 },
        });
        enough(found.collect(), count)
    }

    fn ip(&self, number: u128) -> IpAddr {
        if self.is_v4 {
            Ipv4Addr::from_bits(number as u32).into()
        } else {
            Ipv6Addr::from_bits(number).into()
        }
    }
}

fn enough(found: Vec<Addresses>, count: usize) -> Result<Vec<Addresses>, SubnetFull> {
    if found.len() < count {
        return Err(SubnetFull {
            available: found.len(),
        });
    }
    Ok(found)
}

/// Why a text is not a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubnetParseError {
    /// It is not `ADDRESS/BITS`.
    Form,
    /// The prefix is so long that fewer than two addresses are left.
    Bits,
}

impl FromStr for Subnet {
    type Err = SubnetParseError;

    fn from_str(text: &str) -> Result<Self, SubnetParseError> {
        let (ip, bits) = text.split_once('/').ok_or(SubnetParseError::Form)?;
        let ip: IpAddr = ip.parse().map_err(|_| SubnetParseError::Form)?;
        let prefix_len: u8 = bits.parse().map_err(|_| SubnetParseError::Form)?;
        let (number, width) = match ip {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
            IpAddr::V6(ip) => (ip.to_bits(), 128),
        };
        if prefix_len >= width {
            return Err(SubnetParseError::Bits);
        }
        let hosts = u128::MAX >> (128 - u32::from(width - prefix_len));
        let (base, end) = (number & !hosts, number | hosts);
        let has_two_addresses = hosts == 1;
        let first = if number != base {
            number
        } else if has_two_addresses {
            base
        } else {
            // Skip the network's address and the first host, which is usually the bridge or the router.
            base + 2
        };
        // The last address of an IPv4 network is the broadcast address.
        let last = if ip.is_ipv4() && !has_two_addresses {
            end - 1
        } else {
            end
        };
        Ok(Self {
            is_v4: ip.is_ipv4(),
            first,
            last,
            prefix_len,
        })
    }
}

impl fmt::Display for SubnetParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "expected ADDRESS/BITS, like 10.1.0.0/16 or fd00::/64",
            Self::Bits => "expected at most 31 bits of IPv4, or 127 of IPv6",
        })
    }
}

impl std::error::Error for SubnetParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(text: &str) -> Subnet {
        text.parse().unwrap()
    }

    fn shown(found: &[Addresses]) -> Vec<String> {
        let show = |found: &Addresses| {
            let outer = found.outer.map_or(String::new(), |outer| format!("{outer} "));
            format!("{outer}{}/{}", found.inner, found.prefix_len)
        };
        found.iter().map(show).collect()
    }

    #[test]
    fn bridge_ports_get_the_free_addresses() {
        let none = BTreeSet::new();
        let all = subnet("10.1.0.0/29").for_ports(5, &none).unwrap();
        let expected = [
            "10.1.0.2/29",
            "10.1.0.3/29",
            "10.1.0.4/29",
            "10.1.0.5/29",
            "10.1.0.6/29",
        ];
        assert_eq!(shown(&all), expected);
        assert_eq!(
            subnet("10.1.0.0/29").for_ports(6, &none),
            Err(SubnetFull { available: 5 })
        );
        let from = subnet("10.1.255.254/16").for_ports(1, &none).unwrap();
        assert_eq!(shown(&from), ["10.1.255.254/16"]);
        let taken = ["fd00::2".parse().unwrap()].into();
        let all = subnet("fd00::/64").for_ports(2, &taken).unwrap();
        assert_eq!(shown(&all), ["fd00::3/64", "fd00::4/64"]);
        assert_eq!(
            subnet("10.0.0.0/31").for_ports(3, &none),
            Err(SubnetFull { available: 2 })
        );
        assert_eq!(
            subnet("255.255.255.255/0").for_ports(2, &none),
            Err(SubnetFull { available: 0 })
        );
    }

    #[test]
    fn each_pair_is_a_separate_network() {
        let taken = ["10.1.0.5".parse().unwrap()].into();
        let all = subnet("10.1.0.0/28").for_pairs(3, &taken).unwrap();
        let expected = [
            "10.1.0.2 10.1.0.3/31",
            "10.1.0.6 10.1.0.7/31",
            "10.1.0.8 10.1.0.9/31",
        ];
        assert_eq!(shown(&all), expected);
        let none = BTreeSet::new();
        assert_eq!(
            subnet("10.1.0.0/30").for_pairs(2, &none),
            Err(SubnetFull { available: 0 })
        );
        assert_eq!(
            shown(&subnet("fd00::/127").for_pairs(1, &none).unwrap()),
            ["fd00:: fd00::1/127"]
        );
    }

    #[test]
    fn bad_subnet_is_refused() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/x",
            "/8",
            "10.0.0/8",
            "fd00::/-1",
        ] {
            assert_eq!(text.parse::<Subnet>(), Err(SubnetParseError::Form), "{text}");
        }
        for text in ["10.0.0.0/32", "10.0.0.0/33", "::/128"] {
            assert_eq!(text.parse::<Subnet>(), Err(SubnetParseError::Bits), "{text}");
        }
    }
}
