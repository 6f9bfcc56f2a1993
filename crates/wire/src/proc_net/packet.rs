//! Parses `/proc/net/packet` (AF_PACKET sockets), for the `/proc` source of sockets (`source/src/procfs.rs`),
//! the last of the ladder.

use super::columns::Columns;
use crate::{Error, Layer};

/// A line of `/proc/net/packet`.
///
/// ```text
/// sk RefCnt Type Proto Iface R Rmem User Inode
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketLine {
    /// `RefCnt`
    pub references: i64,
    /// `Type`: `SOCK_DGRAM` (2), `SOCK_RAW` (3) or the ancient `SOCK_PACKET` (10)
    pub kind: u32,
    /// `Proto`: the EtherType that it receives; 3 is all, 0 none
    pub ethertype: u16,
    /// `Iface`: index of the interface that it is bound to, 0 for all
    pub interface: u32,
    /// `R`: whether it is registered to receive packets
    pub running: bool,
    /// `Rmem`: memory of received packets
    pub rmem_alloc: u32,
    /// `User`, in the reader's user namespace
    pub uid: u32,
    /// `Inode`: 0 where no file refers to the socket
    pub inode: u64,
}

impl PacketLine {
    /// Parses one line.
    ///
    /// # Errors
    /// When a column is missing or not the number it should be; also for the header.
    pub fn parse(line: &[u8]) -> Result<Self, Error> {
        let mut columns = Columns::new(line, Layer::ProcNetPacket);
        columns.word(); // sk
        let line = Self {
            references: columns.signed(),
            kind: columns.decimal_u32(),
            ethertype: columns.hex_u16(),
            interface: columns.decimal_u32(),
            running: columns.decimal_u32() != 0,
            rmem_alloc: columns.decimal_u32(),
            uid: columns.decimal_u32(),
            inode: columns.decimal(),
        };
        columns.finish(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_read() {
        let line = b"000000001c7bd3b6 3      3    88cc   2     1 832    1000   54321 \n";
        assert_eq!(
            PacketLine::parse(line).unwrap(),
            PacketLine {
                references: 3,
                kind: 3,
                ethertype: 0x88cc,
                interface: 2,
                running: true,
                rmem_alloc: 832,
                uid: 1000,
                inode: 54321
            }
        );
        for len in 0..line.len() - 7 {
            assert!(PacketLine::parse(&line[..len]).is_err(), "cut at {len}");
        }
        assert!(
            PacketLine::parse(b"sk               RefCnt Type Proto  Iface R Rmem   User   Inode").is_err()
        );
    }
}
