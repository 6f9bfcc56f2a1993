//! The last source of the ladder: the text files of `/proc/net`.
//!
//! They cost the kernel three times as much as a dump, return at most a page per read, and have less: no
//! cookie, mark, cgroup, backlog or tcp_info. But every kernel has them, and a sandbox that forbids netlink may
//! still allow them.

use crate::query::Families;
use crate::repeat::Seen;
use rustix::io::Errno;
use sockeye_model::{Pid, Protocol, Socket, State};
use sockeye_wire::proc_net::{InetLine, NetlinkLine, PacketLine, UnixLine, is_header};
use std::fs::{self, File};
use std::ops::ControlFlow;

/// A file of `/proc/net`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Tcp,
    Tcp6,
    Udp,
    Udp6,
    UdpLite,
    UdpLite6,
    Raw,
    Raw6,
    Unix,
    Packet,
    Netlink,
}

impl Table {
    /// Returns the files that list `protocol`; empty if none does (MPTCP).
    pub(crate) fn inet(protocol: Protocol, families: Families) -> &'static [Self] {
        let both: &'static [Self; 2] = match protocol {
            Protocol::Tcp => &[Self::Tcp, Self::Tcp6],
            Protocol::Udp => &[Self::Udp, Self::Udp6],
            Protocol::UdpLite => &[Self::UdpLite, Self::UdpLite6],
            Protocol::Raw => &[Self::Raw, Self::Raw6],
            _ => return &[],
        };
        match families {
            Families { v4: true, v6: true } => both,
            Families { v4: true, v6: false } => &both[..1],
            Families { v4: false, v6: true } => &both[1..],
            Families { v4: false, v6: false } => &[],
        }
    }

    /// Its path. `thread-self` rather than `self`: a thread may be in another namespace than its process.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Tcp => "/proc/thread-self/net/tcp",
            Self::Tcp6 => "/proc/thread-self/net/tcp6",
            Self::Udp => "/proc/thread-self/net/udp",
            Self::Udp6 => "/proc/thread-self/net/udp6",
            Self::UdpLite => "/proc/thread-self/net/udplite",
            Self::UdpLite6 => "/proc/thread-self/net/udplite6",
            Self::Raw => "/proc/thread-self/net/raw",
            Self::Raw6 => "/proc/thread-self/net/raw6",
            Self::Unix => "/proc/thread-self/net/unix",
            Self::Packet => "/proc/thread-self/net/packet",
            Self::Netlink => "/proc/thread-self/net/netlink",
        }
    }

    fn parse(self, line: &[u8]) -> Result<Socket, sockeye_wire::Error> {
        let inet = |protocol| InetLine::parse(line).map(|line| Socket::from_proc_inet(&line, protocol));
        match self {
            Self::Tcp | Self::Tcp6 => inet(Protocol::Tcp),
            Self::Udp | Self::Udp6 => inet(Protocol::Udp),
            Self::UdpLite | Self::UdpLite6 => inet(Protocol::UdpLite),
            Self::Raw | Self::Raw6 => inet(Protocol::Raw),
            Self::Unix => UnixLine::parse(line).map(|line| Socket::from_proc_unix(&line)),
            Self::Packet => PacketLine::parse(line).map(|line| Socket::from_proc_packet(&line)),
            Self::Netlink => NetlinkLine::parse(line).map(|line| Socket::from_proc_netlink(&line)),
        }
    }

    /// Whether listeners come before all others (`tcp_seq_next`).
    const fn has_listeners_first(self) -> bool {
        matches!(self, Self::Tcp | Self::Tcp6)
    }
}

/// The status after a file was read.
#[derive(Debug, Default)]
pub(crate) struct ReadStatus {
    /// Lines that could not be parsed.
    pub(crate) broken: u64,
    /// Lines that were parsed, also those that were listed before.
    pub(crate) rows: u64,
    /// The caller stopped the reading.
    pub(crate) stopped: bool,
}

/// Opens a table of the calling thread's network namespace.
pub(crate) fn open(table: Table) -> Result<File, Errno> {
    use rustix::fs::{Mode, OFlags, open};
    open(table.path(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(File::from)
}

/// Opens a table of another process's network namespace.
pub(crate) fn open_of(table: Table, process: Pid) -> Result<File, Errno> {
    use rustix::fs::{Mode, OFlags, open};
    let path = table.path().replacen("thread-self", &process.to_string(), 1);
    open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(File::from)
}

/// Passes every socket of the table to `take`. With `only_listeners` it stops after the listeners, if they come first in
/// this table.
pub(crate) fn read(
    file: &File,
    table: Table,
    only_listeners: bool,
    take: &mut dyn FnMut(Socket) -> ControlFlow<()>,
) -> Result<ReadStatus, Errno> {
    let mut lines = Lines {
        table,
        only_listeners,
        take,
        status: ReadStatus::default(),
        seen: Seen::with_repeats(),
    };
    let mut buffer = vec![0; BUFFER_LEN];
    let mut filled = 0;
    loop {
        let got = match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(got) => got,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        filled += got;
        let complete = match buffer[..filled].iter().rposition(|&byte| byte == b'\n') {
            // The end of the file ends its last line.
            _ if got == 0 => filled,
            Some(newline) => newline + 1,
            // These files have no line longer than the buffer.
            None if filled == buffer.len() => {
                lines.status.broken += 1;
                filled = 0;
                continue;
            }
            None => 0,
        };
        if lines.all(&buffer[..complete]).is_break() || got == 0 {
            return Ok(lines.status);
        }
        buffer.copy_within(complete..filled, 0);
        filled -= complete;
    }
}

/// Returns the number of UNIX sockets in the calling thread's network namespace; `None` if it cannot be read.
pub(crate) fn unix_sockets_in_use() -> Option<u64> {
    in_use(&fs::read_to_string("/proc/thread-self/net/protocols").ok()?)
}

/// Adds up the third column, `sockets`, of the protocols `UNIX` and, since Linux 5.15, `UNIX-STREAM`.
fn in_use(protocols: &str) -> Option<u64> {
    let counts = protocols.lines().filter(|line| line.starts_with("UNIX"));
    let counts: Vec<u64> = counts
        .map(|line| line.split_ascii_whitespace().nth(2)?.parse().ok())
        .collect::<Option<_>>()?;
    (!counts.is_empty()).then(|| counts.iter().sum())
}

struct Lines<'a> {
    table: Table,
    only_listeners: bool,
    take: &'a mut dyn FnMut(Socket) -> ControlFlow<()>,
    status: ReadStatus,
    seen: Seen,
}

impl Lines<'_> {
    fn all(&mut self, text: &[u8]) -> ControlFlow<()> {
        for line in text.split(|&byte| byte == b'\n') {
            if line.is_empty() || is_header(line) {
                continue;
            }
            let Ok(socket) = self.table.parse(line) else {
                self.status.broken += 1;
                continue;
            };
            self.status.rows += 1;
            if self.only_listeners && self.table.has_listeners_first() && socket.state != State::Listen {
                return ControlFlow::Break(());
            }
            // Between two reads the kernel stores its position as a number of sockets to skip in a hash chain
            // (`tcp_seek_last_pos`). New sockets are inserted at the front and push others behind that position, so that they
            // are listed again. On a busy host the same connection was listed a hundred times.
            if !self.seen.insert(&socket) {
                continue;
            }
            if (self.take)(socket).is_break() {
                self.status.stopped = true;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// The kernel returns at most a page per read for most of these files.
const BUFFER_LEN: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_sockets_of_all_types_are_counted() {
        let header = "protocol  size sockets  memory press maxhdr  slab module     cl co\n";
        let row = "UNIX        1152     34      -1   NI       0   yes  kernel      y  n\n";
        let stream = "UNIX-STREAM 1152      8      -1   NI       0   yes  kernel      y  n\n";
        let other = "TCP         2496      5       0   no     320   yes  kernel      y  y\n";
        assert_eq!(in_use(&format!("{header}{stream}{other}{row}")), Some(42));
        assert_eq!(in_use(&format!("{header}{row}")), Some(34));
        assert_eq!(in_use(&format!("{header}{other}")), None);
        assert_eq!(in_use("UNIX 1152 many"), None);
    }
}
