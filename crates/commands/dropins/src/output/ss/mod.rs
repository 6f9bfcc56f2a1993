//! Sockets as `ss` of iproute2 6.1 writes them, byte for byte.
//!
//! Formats and orders are those of `misc/ss.c` (iproute2 6.1.0) and of what that program prints; the tests of the
//! binary compare with it.

mod inet;
mod others;
mod printf;
mod sheet;
mod tcp;

use sheet::Sheet;
use sockeye_model::{
    Comm, DiagDetails, Family, InterfaceIndex, Names, Owner, Pid, Port, Protocol, Queues, Socket, State,
};
use sockeye_output::address::push_ip;
use sockeye_output::number::push_decimal;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr};

/// What is shown, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SsLayout {
    /// The column of protocols
    pub netid: bool,
    /// The column of states
    pub state: bool,
    /// `-o`: timers
    pub timers: bool,
    /// `-e`: user, inode, cookie and more
    pub extended: bool,
    /// `-m`
    pub memory: bool,
    /// `-i`
    pub info: bool,
    /// `--tos`
    pub service_class: bool,
    /// `--cgroup`
    pub cgroup: bool,
    /// `--inet-sockopt`
    pub options: bool,
    /// `-b`: programs
    pub bpf: bool,
    /// `-O`: no line is broken
    pub one_line: bool,
    /// `-n`
    pub numeric: bool,
    /// Columns to fill, if lines are to be as wide as a terminal
    pub width: Option<usize>,
    /// Whether it goes to a terminal: what comes from outside is made harmless then
    pub terminal: bool,
}

/// A socket, and what is shown beside it.
#[derive(Debug, Clone, Copy)]
pub struct SsRow<'a> {
    /// The socket
    pub socket: &'a Socket,
    /// What only few ask for
    pub diag_details: &'a DiagDetails<'a>,
    /// Who holds it, if anybody asked; in the order in which they are shown
    pub holders: SsHolders<'a>,
    /// Whether nothing more of an IP or UNIX socket is shown, whatever is asked for
    pub is_brief: bool,
}

/// Who holds a socket.
#[derive(Debug, Clone, Copy)]
pub enum SsHolders<'a> {
    /// Nobody asked, or nobody does.
    None,
    /// Processes, by pid and descriptor; shown from the last to the first.
    Processes(&'a [Owner]),
    /// Threads, in the order in which they are shown.
    Threads(&'a [SsThread]),
}

/// A thread that holds a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SsThread {
    /// Its own name
    pub comm: Comm,
    /// Of its process
    pub pid: Pid,
    /// Its own
    pub tid: Pid,
    /// The descriptor
    pub fd: u32,
}

/// Names that only `ss` knows.
pub trait SsNames: Names {
    /// A netlink protocol (`/etc/iproute2/nl_protos`).
    fn netlink_protocol(&self, protocol: u8) -> Option<&str>;
    /// The process that a netlink socket's port id stands for.
    fn process(&self, pid: u32) -> Option<Comm>;
}

/// Writes rows as `ss` does. Nothing is written before [`SsWriter::finish`], unless it becomes very much.
#[derive(Debug)]
pub struct SsWriter<W> {
    out: W,
    layout: SsLayout,
    sheet: Sheet,
}

impl<W: Write> SsWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W, layout: SsLayout) -> Self {
        let sheet = Sheet::new(layout.netid, layout.state, layout.width);
        Self { out, layout, sheet }
    }

    /// The header line.
    pub fn header(&mut self) {
        self.sheet.header();
    }

    /// One socket.
    ///
    /// # Errors
    /// When what was gathered cannot be written.
    #[inline]
    pub fn row(&mut self, row: &SsRow<'_>, names: &dyn SsNames) -> io::Result<()> {
        self.sheet.begin(&mut self.out)?;
        let mut line = Line {
            sheet: &mut self.sheet,
            layout: &self.layout,
            names,
        };
        match row.socket.protocol {
            Protocol::Tcp | Protocol::Udp | Protocol::UdpLite | Protocol::Raw | Protocol::Mptcp => {
                line.inet(row);
            }
            Protocol::PacketRaw | Protocol::PacketDgram => line.packet(row),
            Protocol::Netlink => line.netlink(row),
            _ if row.socket.family == Family::Packet => line.packet(row),
            _ => line.unix(row),
        }
        Ok(())
    }

    /// Writes what was gathered. More rows may follow, for which widths never become smaller.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.sheet.finish(&mut self.out)?;
        self.out.flush()
    }
}

/// The row that is being made.
struct Line<'a> {
    sheet: &'a mut Sheet,
    layout: &'a SsLayout,
    names: &'a dyn SsNames,
}

impl Line<'_> {
    #[inline]
    fn out(&mut self) -> &mut Vec<u8> {
        self.sheet.text()
    }

    fn text(&mut self, text: &str) {
        self.out().extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, label: &str, number: u64) {
        self.text(label);
        push_decimal(self.out(), number);
    }

    /// Text from outside: as it is, unless it goes to a terminal. There each byte that is not to reach it is a `?`, so
    /// that columns are as wide as ss makes them.
    fn outside(&mut self, text: &[u8]) {
        if !self.layout.terminal {
            return self.out().extend_from_slice(text);
        }
        for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() || sockeye_output::text::is_hidden(character) {
                    let len = character.len_utf8();
                    self.out().extend(std::iter::repeat_n(b'?', len));
                } else {
                    let mut bytes = [0; 4];
                    let bytes = character.encode_utf8(&mut bytes);
                    self.text(bytes);
                }
            }
            let len = chunk.invalid().len();
            self.out().extend(std::iter::repeat_n(b'?', len));
        }
    }

    /// Protocol, state and queues.
    #[inline]
    fn state(&mut self, netid: &str, socket: &Socket) {
        if self.sheet.shows(sheet::NETID) {
            sockeye_output::number::push_short(self.out(), netid.as_bytes());
            self.sheet.next();
        }
        if self.sheet.shows(sheet::STATE) {
            sockeye_output::number::push_short(self.out(), state_name(socket).as_bytes());
            self.sheet.next();
        }
        let (receive, send) = match socket.queues {
            Queues::Unknown => (0, 0),
            Queues::Data {
                receive_bytes,
                send_bytes,
            } => (receive_bytes, send_bytes),
            Queues::Accept { waiting, backlog } => (waiting, backlog.unwrap_or(0)),
        };
        for queue in [receive, send] {
            self.queue(queue);
            self.sheet.next();
        }
    }

    /// `%-6d`
    #[inline]
    fn queue(&mut self, bytes: u32) {
        if bytes < 10 {
            self.out()
                .extend_from_slice(&[b'0' + bytes as u8, b' ', b' ', b' ', b' ', b' ']);
            return;
        }
        let start = self.out().len();
        let signed = bytes.cast_signed();
        if signed < 0 {
            self.out().push(b'-');
        }
        push_decimal(self.out(), signed.unsigned_abs().into());
        let end = self.out().len();
        if end - start < 6 {
            self.out().resize(start + 6, b' ');
        }
    }

    /// `users:(("nginx",pid=1,fd=5))`
    #[inline]
    fn holders(&mut self, holders: SsHolders<'_>) {
        match holders {
            SsHolders::None | SsHolders::Processes([]) | SsHolders::Threads([]) => {}
            SsHolders::Processes(owners) => {
                self.text(" users:(");
                for (nth, owner) in owners.iter().rev().enumerate() {
                    self.holder(nth, &owner.process.comm, owner.process.pid);
                    self.number(",fd=", owner.fd.0.into());
                    self.text(")");
                }
                self.text(")");
            }
            SsHolders::Threads(threads) => {
                self.text(" users:(");
                for (nth, thread) in threads.iter().enumerate() {
                    self.holder(nth, &thread.comm, thread.pid);
                    self.number(",tid=", thread.tid.0.into());
                    self.number(",fd=", thread.fd.into());
                    self.text(")");
                }
                self.text(")");
            }
        }
    }

    fn holder(&mut self, nth: usize, comm: &Comm, pid: Pid) {
        self.text(if nth == 0 { "(\"" } else { ",(\"" });
        self.outside(until_parenthesis(comm));
        self.number("\",pid=", pid.0.into());
    }

    /// `-e`, of all but UNIX and NETLINK sockets.
    fn details(&mut self, socket: &Socket) {
        if let Some(uid) = socket.uid.filter(|uid| uid.0 != 0) {
            self.number(" uid:", uid.0.into());
        }
        self.number(" ino:", socket.inode.map_or(0, |inode| inode.0).into());
        self.text(&format!(" sk:{:x}", socket.cookie.map_or(0, |cookie| cookie.0)));
        if let Some(mark) = socket.mark.filter(|mark| *mark != 0) {
            self.text(&format!(" fwmark:0x{mark:x}"));
        }
        if socket.cgroup.is_some_and(|id| id.0 != 0) {
            self.cgroup(socket);
        }
    }

    fn cgroup(&mut self, socket: &Socket) {
        let Some(id) = socket.cgroup else { return };
        self.text(" cgroup:");
        match self.names.cgroup(id) {
            Some(path) => self.outside(path.as_bytes()),
            None => self.text(&format!("unreachable:{:x}", id.0)),
        }
    }

    /// `skmem:(...)`, or what kernels before Linux 3.6 say.
    fn memory(&mut self, socket: &Socket) {
        let Some(memory) = &socket.memory else { return };
        let count = |value: Option<u32>| u64::from(value.unwrap_or(0));
        if memory.rcvbuf_bytes.is_none() {
            self.number(" mem:(r", count(memory.rmem_alloc_bytes));
            self.number(",w", count(memory.wmem_queued_bytes));
            self.number(",f", count(memory.fwd_alloc_bytes));
            self.number(",t", count(memory.wmem_alloc_bytes));
            return self.text(")");
        }
        self.number(" skmem:(r", count(memory.rmem_alloc_bytes));
        self.number(",rb", count(memory.rcvbuf_bytes));
        self.number(",t", count(memory.wmem_alloc_bytes));
        self.number(",tb", count(memory.sndbuf_bytes));
        self.number(",f", count(memory.fwd_alloc_bytes));
        self.number(",w", count(memory.wmem_queued_bytes));
        self.number(",o", count(memory.optmem_bytes));
        if let Some(backlog) = memory.backlog_bytes {
            self.number(",bl", backlog.into());
        }
        if let Some(drops) = memory.drops {
            self.number(",d", drops.into());
        }
        self.text(")");
    }

    /// A further line, or with `-O` the same one.
    fn break_line(&mut self) {
        if !self.layout.one_line {
            self.text("\n\t");
        }
    }

    /// As [`Line::break_line`], for what brings no space of its own.
    fn break_line_or_space(&mut self) {
        self.text(if self.layout.one_line { " " } else { "\n\t" });
    }

    fn shutdown(&mut self, socket: &Socket) {
        if let Some(shutdown) = socket.shutdown {
            self.text(match (shutdown.receive, shutdown.send) {
                (false, false) => " <->",
                (true, false) => " -->",
                (false, true) => " <--",
                (true, true) => " ---",
            });
        }
    }

    #[inline]
    fn service(&mut self, protocol: Protocol, port: Port) {
        if port.0 == 0 {
            self.out().push(b'*');
            return;
        }
        let name = if self.layout.numeric {
            None
        } else {
            self.names.service(protocol, port)
        };
        match name {
            Some(name) => self.outside(name.as_bytes()),
            None if protocol == Protocol::Raw && !self.layout.numeric => {
                self.number("ipproto-", port.0.into());
            }
            None => push_decimal(self.out(), port.0.into()),
        }
    }

    fn interface(&mut self, index: InterfaceIndex, socket: &Socket) {
        match self.names.interface(index, socket.netns) {
            Some(name) => self.outside(name.as_bytes()),
            None => self.number("if", index.0.into()),
        }
    }
}

/// A name up to the parenthesis that `ss` takes for the end of it.
fn until_parenthesis(comm: &Comm) -> &[u8] {
    comm.as_bytes()
        .split(|&byte| byte == b')')
        .next()
        .unwrap_or_default()
}

/// NETLINK sockets have no state but this, and of merely bound ones ss does not know.
const fn state_name(socket: &Socket) -> &'static str {
    match (socket.protocol, socket.state) {
        (Protocol::Netlink, _) | (_, State::BoundInactive) => State::Close.short_name(),
        (_, state) => state.short_name(),
    }
}

/// As `inet_ntop` of glibc writes an address: of those that end in an IPv4 address, also ones that are not v4-mapped.
#[inline]
fn push_address(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V6(ip) if is_v4_compatible(ip) => {
            let [.., high, low] = ip.segments();
            out.extend_from_slice(b"::");
            push_ip(out, IpAddr::V4((u32::from(high) << 16 | u32::from(low)).into()));
        }
        ip => push_ip(out, ip),
    }
}

/// Six groups of zeros, and no more.
fn is_v4_compatible(ip: Ipv6Addr) -> bool {
    let groups = ip.segments();
    groups[..6] == [0; 6] && groups[6] != 0
}
