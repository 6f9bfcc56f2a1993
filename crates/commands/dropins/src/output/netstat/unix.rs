//! UNIX sockets.

use super::field::{TextForm, push_left, push_number_left, push_text};
use super::inet::push_program;
use super::shown::Shown;
use sockeye_model::{Endpoint, Protocol, Socket, State};

/// The columns of the table.
#[derive(Debug, Clone, Copy)]
pub struct UnixLayout {
    /// The sockets of the title.
    pub shown: Shown,
    /// Program (`-p`).
    pub programs: bool,
    /// The form of program names and paths.
    pub text: TextForm,
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct UnixRow<'a> {
    /// The socket, read from `/proc/net/unix`.
    pub socket: &'a Socket,
    /// `PID/name`; empty if the column is not shown.
    pub program: &'a [u8],
}

impl UnixLayout {
    /// Appends the title and the names of the columns.
    pub fn push_header(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Active UNIX domain sockets ");
        out.extend_from_slice(self.shown.title());
        out.extend_from_slice(b"\nProto RefCnt Flags       Type       State         I-Node  ");
        if self.programs {
            out.extend_from_slice(b" PID/Program name    ");
        }
        out.extend_from_slice(b" Path\n");
    }

    /// Appends a socket.
    pub fn push_row(&self, out: &mut Vec<u8>, row: &UnixRow<'_>) {
        let socket = row.socket;
        out.extend_from_slice(b"unix  ");
        push_number_left(out, socket.references.unwrap_or(0).into(), 6);
        let flags: &[u8] = match socket.state {
            State::Listen => b" [ ACC ]     ",
            _ => b" [ ]         ",
        };
        out.extend_from_slice(flags);
        let kind: &[u8] = match socket.protocol {
            Protocol::UnixStream => b"STREAM",
            Protocol::UnixDgram => b"DGRAM",
            Protocol::UnixSeqpacket => b"SEQPACKET",
            Protocol::Unknown(3) => b"RAW",
            Protocol::Unknown(4) => b"RDM",
            _ => b"UNKNOWN",
        };
        push_left(out, kind, 11);
        let state: &[u8] = match socket.state {
            State::Unknown(0) => b"FREE",
            State::Listen => b"LISTENING",
            State::Close => b"",
            State::SynSent => b"CONNECTING",
            State::Established => b"CONNECTED",
            State::Closing => b"DISCONNECTING",
            _ => b"UNKNOWN",
        };
        push_left(out, state, 14);
        push_number_left(out, socket.inode.map_or(0, |inode| inode.0.into()), 8);
        if self.programs {
            push_program(out, row.program, self.text);
        }
        out.push(b' ');
        if let Endpoint::Unix { name: Some(name), .. } = &socket.local {
            push_path(out, name.as_bytes(), self.text);
        }
        out.push(b'\n');
    }
}

/// Appends the first word of a path: the original reads it with `%s`.
fn push_path(out: &mut Vec<u8>, name: &[u8], text: TextForm) {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let rest = match name.strip_prefix(b"\0") {
        Some(rest) => {
            out.push(b'@');
            rest
        }
        None => {
            let blanks = name.iter().take_while(|byte| is_blank(byte)).count();
            &name[blanks..]
        }
    };
    let len = rest.iter().position(is_blank).unwrap_or(rest.len());
    push_text(out, &rest[..len], text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Inode, UnixName};

    #[track_caller]
    fn check(name: Option<&[u8]>, protocol: Protocol, state: State, programs: bool, expected: &str) {
        let mut socket = Socket::new(protocol, state);
        socket.inode = Some(Inode(1234));
        socket.references = Some(2);
        socket.local = Endpoint::Unix {
            name: name.map(UnixName::new),
            inode: socket.inode,
        };
        let layout = UnixLayout {
            shown: Shown::All,
            programs,
            text: TextForm::Raw,
        };
        let mut out = Vec::new();
        let program = b"1/init";
        layout.push_row(
            &mut out,
            &UnixRow {
                socket: &socket,
                program,
            },
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn path_ends_at_its_first_blank() {
        check(
            Some(b"/run/a b"),
            Protocol::UnixStream,
            State::Listen,
            false,
            "unix  2      [ ACC ]     STREAM     LISTENING     1234     /run/a\n",
        );
        check(
            Some(b"\0abs"),
            Protocol::UnixSeqpacket,
            State::Established,
            true,
            "unix  2      [ ]         SEQPACKET  CONNECTED     1234     1/init               @abs\n",
        );
        check(
            None,
            Protocol::UnixDgram,
            State::Close,
            false,
            "unix  2      [ ]         DGRAM                    1234     \n",
        );
    }
}
