//! Parses multicast memberships (`/proc/net/igmp`, `igmp6`) and IPv6 addresses (`if_inet6`), for `netstat -g`
//! and `netstat -i`.

use super::words::{decimal, hex, ipv4, ipv6, words};

/// A line of `igmp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgmpLine<'a> {
    /// An interface; its groups follow.
    Interface(&'a [u8]),
    /// A group.
    Group {
        /// Address in network order
        address: [u8; 4],
        /// Number of sockets that joined
        users: u64,
    },
}

impl<'a> IgmpLine<'a> {
    /// Parses one line; `None` for the header and for lines of another form.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        if let Some(group) = line.strip_prefix(b"\t") {
            let mut words = words(group);
            let address = ipv4(words.next()?)?;
            let users = decimal(words.next()?)?;
            return Some(Self::Group { address, users });
        }
        // index TAB name padded to ten COLON ...
        let tab = line.iter().position(|&byte| byte == b'\t')?;
        decimal(&line[..tab])?;
        let rest = &line[tab + 1..];
        let colon = rest.iter().position(|&byte| byte == b':')?;
        Some(Self::Interface(rest[..colon].trim_ascii_end()))
    }
}

/// A line of `igmp6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Igmp6Line<'a> {
    /// Interface
    pub interface: &'a [u8],
    /// Group, in network order
    pub address: [u8; 16],
    /// Number of sockets that joined
    pub users: u64,
}

impl<'a> Igmp6Line<'a> {
    /// Parses one line; `None` if it has another form.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = words(line);
        decimal(words.next()?)?;
        Some(Self {
            interface: words.next()?,
            address: ipv6(words.next()?)?,
            users: decimal(words.next()?)?,
        })
    }
}

/// A line of `if_inet6`: an address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inet6Line<'a> {
    /// The address, in network order
    pub address: [u8; 16],
    /// Prefix length
    pub prefix_len: u8,
    /// `IPV6_ADDR_*` bits of its scope
    pub scope: u8,
    /// Interface
    pub interface: &'a [u8],
}

impl<'a> Inet6Line<'a> {
    /// Parses one line; `None` if it has another form.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = words(line);
        let address = ipv6(words.next()?)?;
        words.next()?; // index of the interface
        let prefix_len = u8::try_from(hex(words.next()?)?).ok()?;
        let scope = u8::try_from(hex(words.next()?)?).ok()?;
        words.next()?; // flags
        Some(Self {
            address,
            prefix_len,
            scope,
            interface: words.next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn igmp_lines_are_parsed() {
        let address = u32::from_ne_bytes([224, 0, 0, 1]);
        let group = format!("\t\t\t\t{address:08X}     2 0:00000000\t\t0");
        assert_eq!(
            IgmpLine::parse(group.as_bytes()),
            Some(IgmpLine::Group {
                address: [224, 0, 0, 1],
                users: 2
            })
        );
        assert_eq!(
            IgmpLine::parse(b"4\teth0      :     1      V3"),
            Some(IgmpLine::Interface(b"eth0"))
        );
        assert_eq!(IgmpLine::parse(b"Idx\tDevice    : Count Querier"), None);
    }

    #[test]
    fn igmp6_and_if_inet6_lines_are_parsed() {
        let line = b"1    lo              ff020000000000000000000000000001     3 0000000C 0";
        let found = Igmp6Line::parse(line).unwrap();
        assert_eq!((found.interface, found.users), (&b"lo"[..], 3));
        assert_eq!(
            (found.address[..2].as_ref(), found.address[15]),
            (&[0xff, 2][..], 1)
        );
        assert_eq!(Igmp6Line::parse(b"1 lo ff02 3"), None);
        let line = b"fe8000000000000000fc00fffe000001 04 40 20 80     eth0";
        let found = Inet6Line::parse(line).unwrap();
        assert_eq!(
            (found.prefix_len, found.scope, found.interface),
            (64, 0x20, &b"eth0"[..])
        );
    }
}
