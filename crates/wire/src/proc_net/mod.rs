//! Lines of `/proc/net/*`: sockets, routes, interfaces, counters as text, the same on every kernel since 2.6.
//!
//! | file | line | kernel source |
//! |---|---|---|
//! | `tcp`, `tcp6`, `udp`, `udp6`, `udplite`, `udplite6`, `raw`, `raw6` | [`InetLine`] | `net/ipv4/{tcp_ipv4,udp,raw}.c`, `net/ipv6/{tcp_ipv6,datagram}.c` |
//! | `unix` | [`UnixLine`] | `net/unix/af_unix.c` |
//! | `packet` | [`PacketLine`] | `net/packet/af_packet.c` |
//! | `netlink` | [`NetlinkLine`] | `net/netlink/af_netlink.c` |
//! | `snmp`, `netstat` | [`CounterTable`] | `net/ipv4/proc.c` |
//! | `snmp6`, `sctp/snmp` | [`counter_lines`] | `net/ipv6/proc.c`, `net/sctp/proc.c` |
//! | `sockstat`, `sockstat6` | [`SockstatLine`] | `net/ipv4/proc.c`, `net/ipv6/proc.c` |
//! | `softnet_stat` | [`SoftnetLine`] | `net/core/net-procfs.c` |
//! | `dev` | [`DeviceLine`] | `net/core/net-procfs.c` |
//! | `route`, `ipv6_route` | [`RouteLine`], [`Route6Line`] | `net/ipv4/fib_trie.c`, `net/ipv6/ip6_fib.c` |
//! | `igmp`, `igmp6` | [`IgmpLine`], [`Igmp6Line`] | `net/ipv4/igmp.c`, `net/ipv6/mcast.c` |
//! | `if_inet6` | [`Inet6Line`] | `net/ipv6/addrconf.c` |
//!
//! A parser of sockets takes one line, with or without its newline, allocates nothing, and uses the order of
//! columns, not their offsets: columns have become wider and new ones were appended, but their order has not
//! changed. [`is_header`] recognizes the line with the columns' names.
//!
//! Written here although the crate `procfs` (three packages more) exists. It needs the standard library, makes owned values of all
//! lines, and gives up a file of which one line is not as it expects.
//!
//! ```
//! use sockeye_wire::proc_net::{InetLine, Tail};
//!
//! let line = b"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000002 00:00000000 00000000  1000        0 1129 1 \
//!              000000008f2c43e3 100 0 0 10 0";
//! let socket = InetLine::parse(line).unwrap();
//! assert_eq!((socket.local.port, socket.state, socket.receive_queue), (8080, 10, 2));
//! assert!(matches!(socket.tail, Tail::Tcp { snd_cwnd: 10, .. }));
//! ```

mod columns;
mod counters;
mod device;
mod inet;
mod membership;
mod netlink;
mod packet;
mod route;
mod sockstat;
mod softnet;
mod unix;
mod words;

pub use counters::{CounterTable, counter_lines};
pub use device::DeviceLine;
pub use inet::{Address, InetLine, Tail};
pub use membership::{Igmp6Line, IgmpLine, Inet6Line};
pub use netlink::NetlinkLine;
pub use packet::PacketLine;
pub use route::{Route6Line, RouteLine};
pub use sockstat::SockstatLine;
pub use softnet::SoftnetLine;
pub use unix::UnixLine;
pub(crate) use words::{decimal, words};

/// Whether this is the first line of one of these files, with the names of the columns.
#[must_use]
pub fn is_header(line: &[u8]) -> bool {
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
    matches!(word, Some(b"sl" | b"Num" | b"sk"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_recognized() {
        for header in [
            &b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when"[..],
            b"Num       RefCount Protocol Flags    Type St Inode Path",
            b"sk               RefCnt Type Proto  Iface R Rmem   User   Inode",
            b"sk               Eth Pid        Groups   Rmem",
        ] {
            assert!(is_header(header));
        }
        for other in [&b""[..], b"   ", b"   0: 00000000:07E8", b"skx"] {
            assert!(!is_header(other));
        }
    }
}
