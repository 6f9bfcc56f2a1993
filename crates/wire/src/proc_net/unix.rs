//! Parses `/proc/net/unix`, for the `/proc` source of sockets (`source/src/procfs.rs`), the last of the
//! ladder. It must not trust the path: any process can put a newline into it.

use super::columns::Columns;
use crate::unix_diag::Name;
use crate::{Error, Layer};

/// A line of `/proc/net/unix`.
///
/// ```text
/// Num: RefCount Protocol Flags Type St Inode Path
/// ```
/// The kernel does not escape the path. A path with a newline splits its socket into two lines: the first is
/// valid with a truncated path, the second is an error unless it was crafted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixLine<'a> {
    /// `RefCount`
    pub references: u32,
    /// `Flags`: bit 16 (`__SO_ACCEPTCON`) for a listener
    pub flags: u32,
    /// `Type`: `SOCK_STREAM` (1), `SOCK_DGRAM` (2) or `SOCK_SEQPACKET` (5)
    pub kind: u16,
    /// `St`, an `enum socket_state`: 1 unconnected, 2 connecting, 3 connected, 4 disconnecting; sockets without a
    /// file are 2 (waiting to be accepted) or 4 (closing)
    pub state: u8,
    /// `Inode`: 0 where no file refers to the socket
    pub inode: u64,
    /// `Path`. The kernel prints each NUL of an abstract name as `@`, so it cannot be distinguished from an `@`; a path
    /// that starts with `@` looks like an abstract name.
    pub name: Option<Name<'a>>,
}

impl<'a> UnixLine<'a> {
    /// Parses one line.
    ///
    /// # Errors
    /// When a column is missing or not the number it should be; also for the header.
    pub fn parse(line: &'a [u8]) -> Result<Self, Error> {
        let mut columns = Columns::new(line, Layer::ProcNetUnix);
        if !columns.word().ends_with(b":") {
            columns.fail(0, 2, 0);
        }
        let references = columns.hex_u32();
        columns.hex_u32(); // Protocol, always 0
        let flags = columns.hex_u32();
        let kind = columns.hex_u16();
        let state = columns.hex_u8();
        let inode = columns.decimal();
        let name = match columns.rest() {
            [] | [b' '] => None,
            [b' ', b'@', name @ ..] => Some(Name::Abstract(name)),
            [b' ', path @ ..] => Some(Name::Path(path)),
            _ => {
                columns.byte(b' ');
                None
            }
        };
        columns.finish(Self {
            references,
            flags,
            kind,
            state,
            inode,
            name,
        })
    }

    /// Whether it listens (`__SO_ACCEPTCON`).
    #[must_use]
    pub const fn is_listening(&self) -> bool {
        self.flags & 1 << 16 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_read() {
        let line = b"00000000ce046c03: 00000002 00000000 00010000 0001 01 1388032 /run/a b \n";
        assert_eq!(
            UnixLine::parse(line).unwrap(),
            UnixLine {
                references: 2,
                flags: 0x10000,
                kind: 1,
                state: 1,
                inode: 1_388_032,
                name: Some(Name::Path(b"/run/a b "))
            }
        );
        assert!(UnixLine::parse(line).unwrap().is_listening());
    }

    #[test]
    fn names_of_each_kind_are_parsed() {
        for (path, name) in [
            (&b""[..], None),
            (b" ", None),
            (b" @", Some(Name::Abstract(&b""[..]))),
            (b" @a@b@", Some(Name::Abstract(b"a@b@"))),
            (b" x", Some(Name::Path(b"x"))),
            (b"  x", Some(Name::Path(b" x"))),
        ] {
            let mut line = b"0000000061fdc296: 00000003 00000000 00000000 0005 02     0".to_vec();
            line.extend_from_slice(path);
            assert_eq!(UnixLine::parse(&line).unwrap().name, name);
        }
    }

    #[test]
    fn broken_line_is_an_error() {
        for bad in [
            &b""[..],
            b"x",
            b"a path's second half",
            b"Num       RefCount Protocol Flags    Type St Inode Path",
            b"00000000ce046c03: 00000002 00000000 00010000 0001 01",
            b"00000000ce046c03: 00000002 00000000 00010000 0001 01 12x",
            b"00000000ce046c03: 00000002 00000000 00010000 0001 01 12:x",
        ] {
            let error = UnixLine::parse(bad).unwrap_err();
            assert!(error.layer == Layer::ProcNetUnix && error.offset <= bad.len());
        }
    }
}
