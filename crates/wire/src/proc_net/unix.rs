use super::columns::Columns;
use crate::unix_diag::Name;
use crate::{Error, Layer};

/// One line of `/proc/net/unix`.
///
/// ```text
/// Num: RefCount Protocol Flags Type St Inode Path
/// ```
/// The kernel prints the path as it is. One with a newline in it makes two lines of its socket: the
/// first reads well, with a path too short, the second is an error unless it was made to deceive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixLine<'a> {
    /// `RefCount`
    pub references: u32,
    /// `Flags`: bit 16 (`__SO_ACCEPTCON`) for a listener
    pub flags: u32,
    /// `Type`: `SOCK_STREAM` (1), `SOCK_DGRAM` (2) or `SOCK_SEQPACKET` (5)
    pub kind: u16,
    /// `St`, an `enum socket_state`: 1 unconnected, 2 connecting, 3 connected, 4 disconnecting; those without a
    /// file, so waiting to be accepted or ending, are 2 and 4
    pub state: u8,
    /// `Inode`: 0 where no file holds the socket
    pub inode: u64,
    /// `Path`. Of an abstract name every NUL was turned into `@`, and so was an `@` that had been
    /// there; a path that itself begins with `@` looks like an abstract name.
    pub name: Option<Name<'a>>,
}

impl<'a> UnixLine<'a> {
    /// One line.
    ///
    /// # Errors
    /// When a column is missing or not the number it should be; so for the header.
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
    fn reads_each_column() {
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
    fn names_of_each_sort() {
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
    fn broken_lines() {
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
