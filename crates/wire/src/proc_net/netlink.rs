//! Parses `/proc/net/netlink`, for the `/proc` source of sockets (`source/src/procfs.rs`), the last of the
//! ladder.

use super::columns::Columns;
use crate::{Error, Layer};

/// A line of `/proc/net/netlink`.
///
/// ```text
/// sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetlinkLine {
    /// `Eth`: the protocol, `NETLINK_ROUTE` is 0
    pub protocol: u32,
    /// `Pid`: the port, 0 for the kernel's own sockets, and for ones not bound yet
    pub port: u32,
    /// `Groups`: the first 32 groups that it joined, one bit each
    pub groups: u32,
    /// `Rmem`: memory of received data
    pub rmem_alloc: u32,
    /// `Wmem`: memory of data being sent
    pub wmem_alloc: u32,
    /// `Dump`: whether a dump is running. Before Linux 3.12 a pointer, which is zero if none is.
    pub dumping: bool,
    /// `Locks`: number of references
    pub references: i64,
    /// `Drops`: messages dropped because the buffer was full; missing on old kernels
    pub drops: Option<u32>,
    /// `Inode`; the kernel's own sockets have one too. Missing on old kernels
    pub inode: Option<u64>,
}

impl NetlinkLine {
    /// Parses one line.
    ///
    /// # Errors
    /// When a column is missing or not the number it should be; also for the header.
    pub fn parse(line: &[u8]) -> Result<Self, Error> {
        let mut columns = Columns::new(line, Layer::ProcNetNetlink);
        columns.word(); // sk
        let line = Self {
            protocol: columns.decimal_u32(),
            port: columns.decimal_u32(),
            groups: columns.hex_u32(),
            rmem_alloc: columns.decimal_u32(),
            wmem_alloc: columns.decimal_u32(),
            dumping: columns.word().iter().any(|&byte| byte != b'0'),
            references: columns.signed(),
            drops: if columns.more() {
                Some(columns.decimal_u32())
            } else {
                None
            },
            inode: if columns.more() {
                Some(columns.decimal())
            } else {
                None
            },
        };
        columns.finish(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_read() {
        let line =
            b"00000000f7a5dfda 15  4294960000 00000003 832      5        1     2        7        54321   \n";
        let found = NetlinkLine::parse(line).unwrap();
        assert_eq!(
            found,
            NetlinkLine {
                protocol: 15,
                port: 4_294_960_000,
                groups: 3,
                rmem_alloc: 832,
                wmem_alloc: 5,
                dumping: true,
                references: 2,
                drops: Some(7),
                inode: Some(54321)
            }
        );
    }

    #[test]
    fn older_kernels_have_fewer_columns() {
        let line = b"f6bb5200 0   0      00000000 0        0        00000000 2        0";
        let found = NetlinkLine::parse(line).unwrap();
        assert_eq!((found.dumping, found.drops, found.inode), (false, Some(0), None));
        let found = NetlinkLine::parse(&line[..line.len() - 1]).unwrap();
        assert_eq!((found.references, found.drops), (2, None));
        assert!(NetlinkLine::parse(b"sk       Eth Pid    Groups   Rmem").is_err());
        assert!(NetlinkLine::parse(b"f6bb5200 0   0      00000000 0").is_err());
    }
}
