//! Parses the routing tables `/proc/net/route` and `ipv6_route`, for `netstat -r`.

use super::words::{decimal, hex, ipv4, ipv6, words};

/// A line of `route`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteLine<'a> {
    /// `Iface`, `*` for none
    pub interface: &'a [u8],
    /// `Destination`, in network order
    pub destination: [u8; 4],
    /// `Gateway`
    pub gateway: [u8; 4],
    /// `Flags`: `RTF_*`
    pub flags: u32,
    /// `RefCnt`, `Use`, `Metric`
    pub references: i32,
    /// Always 0 since Linux 2.6.39
    pub uses: i32,
    /// Priority
    pub metric: i32,
    /// `Mask`
    pub mask: [u8; 4],
    /// `MTU`
    pub mtu: i32,
    /// `Window`
    pub window: i32,
    /// `IRTT`
    pub irtt: i32,
}

impl<'a> RouteLine<'a> {
    /// Parses one line; `None` for the header and for lines of another form.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = words(line);
        let mut next = || words.next();
        // The kernel prints them as signed ints.
        let int = |word: &[u8]| decimal(word).map(|value| value as i32);
        Some(Self {
            interface: next()?,
            destination: ipv4(next()?)?,
            gateway: ipv4(next()?)?,
            flags: hex(next()?)?,
            references: int(next()?)?,
            uses: int(next()?)?,
            metric: int(next()?)?,
            mask: ipv4(next()?)?,
            mtu: int(next()?)?,
            window: int(next()?)?,
            irtt: int(next()?)?,
        })
    }
}

/// A line of `ipv6_route`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route6Line<'a> {
    /// Destination in network order
    pub destination: [u8; 16],
    /// Prefix length
    pub prefix_len: u8,
    /// Next hop
    pub next_hop: [u8; 16],
    /// Priority
    pub metric: u32,
    /// References
    pub references: u32,
    /// Always 0 since Linux 4.2
    pub uses: u32,
    /// `RTF_*`
    pub flags: u32,
    /// Interface
    pub interface: &'a [u8],
}

impl<'a> Route6Line<'a> {
    /// Parses one line; `None` if it has another form.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = words(line);
        let mut next = || words.next();
        let destination = ipv6(next()?)?;
        let prefix_len = u8::try_from(hex(next()?)?).ok()?;
        next()?; // source
        next()?; // and its prefix
        Some(Self {
            destination,
            prefix_len,
            next_hop: ipv6(next()?)?,
            metric: hex(next()?)?,
            references: hex(next()?)?,
            uses: hex(next()?)?,
            flags: hex(next()?)?,
            interface: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn ipv4_route_line_is_parsed() {
        let gateway = u32::from_ne_bytes([192, 0, 2, 1]);
        let line = format!("eth0\t00000000\t{gateway:08X}\t0003\t0\t0\t-1\t00000000\t1500\t0\t0     ");
        let found = RouteLine::parse(line.as_bytes()).unwrap();
        assert_eq!(
            (found.interface, found.gateway, found.flags),
            (&b"eth0"[..], [192, 0, 2, 1], 3)
        );
        assert_eq!((found.metric, found.mtu), (-1, 1500));
        assert_eq!(RouteLine::parse(b"Iface\tDestination\tGateway \tFlags"), None);
    }

    #[test]
    fn ipv6_route_line_is_parsed() {
        let zeros = "0".repeat(32);
        let line = format!(
            "{zeros} 00 {zeros} 00 fd000000000000000000000000000001 ffffffff 00000003 00000000 00000003     eth0"
        );
        let found = Route6Line::parse(line.as_bytes()).unwrap();
        assert_eq!(
            (found.prefix_len, found.metric, found.interface),
            (0, u32::MAX, &b"eth0"[..])
        );
        assert_eq!((found.next_hop[0], found.next_hop[15]), (0xfd, 1));
    }
}
