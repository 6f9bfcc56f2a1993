//! IPv6 addresses that glibc writes with an IPv4 address.

use std::net::Ipv6Addr;

/// Whether an address is v4-compatible: six zero groups and a seventh that is not. glibc's `inet_ntop` writes it as
/// `::a.b.c.d`.
pub(super) fn is_v4_compatible(ip: Ipv6Addr) -> bool {
    let groups = ip.segments();
    groups[..6] == [0; 6] && groups[6] != 0
}
