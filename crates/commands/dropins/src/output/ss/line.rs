//! Fields that rows of several kinds of sockets have.

use super::column_buffer::{ColumnBuffer, NETID, PROCESSES, RECV_QUEUE, STATE};
use super::level::SsLevel;
use super::row::{SsLayout, SsNames, SsOwners};
use crate::output::address::is_v4_compatible;
use sockeye_model::{Comm, InterfaceIndex, Pid, Port, Protocol, Queues, Socket, State};
use sockeye_output::address::push_ip;
use sockeye_output::number::push_decimal;
use std::net::IpAddr;

/// Appends the fields of one row.
pub(super) struct Line<'a> {
    pub(super) columns: &'a mut ColumnBuffer,
    pub(super) layout: &'a SsLayout,
    pub(super) names: &'a dyn SsNames,
}

impl Line<'_> {
    #[inline]
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        self.columns.text()
    }

    pub(super) fn text(&mut self, text: &str) {
        self.out().extend_from_slice(text.as_bytes());
    }

    pub(super) fn number(&mut self, label: &str, number: u64) {
        self.text(label);
        push_decimal(self.out(), number);
    }

    /// Appends untrusted text. On a terminal each byte of a control or invisible character becomes a `?`, so that columns
    /// are as wide as in ss.
    pub(super) fn untrusted(&mut self, text: &[u8]) {
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

    /// Appends protocol, state and queues.
    #[inline]
    pub(super) fn state(&mut self, netid: &str, socket: &Socket) {
        if self.columns.shows(NETID) {
            sockeye_output::number::push_short(self.out(), netid.as_bytes());
            self.columns.next();
        }
        if self.columns.shows(STATE) {
            sockeye_output::number::push_short(self.out(), state_name(socket).as_bytes());
            self.columns.next();
        }
        if !self.columns.shows(RECV_QUEUE) {
            return;
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
            self.columns.next();
        }
    }

    /// `%-6d`
    #[inline]
    pub(super) fn queue(&mut self, bytes: u32) {
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

    /// Appends `users:(("nginx",pid=1,fd=5))`; since 6.15 to a column of its own, which is not always shown.
    #[inline]
    pub(super) fn owners(&mut self, owners: SsOwners<'_>) {
        if !self.columns.shows(PROCESSES) {
            return;
        }
        match owners {
            SsOwners::None | SsOwners::Processes([]) | SsOwners::Threads([]) => {}
            SsOwners::Processes(owners) => {
                self.text(" users:(");
                for (nth, owner) in owners.iter().rev().enumerate() {
                    self.owner_entry(nth, &owner.process.comm, owner.process.pid);
                    self.number(",fd=", owner.fd.0.into());
                    self.text(")");
                }
                self.text(")");
            }
            SsOwners::Threads(threads) => {
                self.text(" users:(");
                for (nth, thread) in threads.iter().enumerate() {
                    self.owner_entry(nth, &thread.comm, thread.pid);
                    self.number(",tid=", thread.tid.0.into());
                    self.number(",fd=", thread.fd.into());
                    self.text(")");
                }
                self.text(")");
            }
        }
        if self.layout.level >= SsLevel::V6_15 {
            self.columns.next();
        }
    }

    pub(super) fn owner_entry(&mut self, nth: usize, comm: &Comm, pid: Pid) {
        self.text(if nth == 0 { "(\"" } else { ",(\"" });
        let name = until_parenthesis(comm);
        if self.layout.level >= SsLevel::V7_3 {
            let escaped = escape(name);
            self.untrusted(&escaped);
        } else {
            self.untrusted(name);
        }
        self.number("\",pid=", pid.0.into());
    }

    /// Appends the details of `-e`, for all but UNIX and NETLINK sockets.
    pub(super) fn details(&mut self, socket: &Socket) {
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

    pub(super) fn cgroup(&mut self, socket: &Socket) {
        let Some(id) = socket.cgroup else { return };
        self.text(" cgroup:");
        match self.names.cgroup(id) {
            Some(path) => self.untrusted(path.as_bytes()),
            None => self.text(&format!("unreachable:{:x}", id.0)),
        }
    }

    /// Appends `skmem:(...)`, or `mem:(...)` for kernels before Linux 3.6.
    pub(super) fn memory(&mut self, socket: &Socket) {
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

    /// Begins a further line, except with `-O`.
    pub(super) fn break_line(&mut self) {
        if !self.layout.one_line {
            self.text("\n\t");
        }
    }

    /// As [`Line::break_line`], but appends a space with `-O`.
    pub(super) fn break_line_or_space(&mut self) {
        self.text(if self.layout.one_line { " " } else { "\n\t" });
    }

    pub(super) fn shutdown(&mut self, socket: &Socket) {
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
    pub(super) fn service(&mut self, protocol: Protocol, port: Port) {
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
            Some(name) => self.untrusted(name.as_bytes()),
            None if protocol == Protocol::Raw && !self.layout.numeric => {
                self.number("ipproto-", port.0.into());
            }
            None => push_decimal(self.out(), port.0.into()),
        }
    }

    pub(super) fn interface(&mut self, index: InterfaceIndex, socket: &Socket) {
        match self.names.interface(index, socket.netns) {
            Some(name) => self.untrusted(name.as_bytes()),
            None => self.number("if", index.0.into()),
        }
    }
}

/// Returns a name up to the first closing parenthesis, which `ss` takes for its end.
pub(super) fn until_parenthesis(comm: &Comm) -> &[u8] {
    comm.as_bytes()
        .split(|&byte| byte == b')')
        .next()
        .unwrap_or_default()
}

/// Replaces control characters and bytes that are not ASCII, as `ss` does with names of processes since 7.0.
fn escape(name: &[u8]) -> Vec<u8> {
    let shown = |byte: &u8| match byte {
        0 => b'@',
        1..=0x1f | 0x7f => b'.',
        0x80.. => b'?',
        &plain => plain,
    };
    name.iter().map(shown).collect()
}

/// Returns the state that ss shows. NETLINK sockets are always UNCONN; so are sockets that are only bound, a state that ss
/// does not know.
const fn state_name(socket: &Socket) -> &'static str {
    match (socket.protocol, socket.state) {
        (Protocol::Netlink, _) | (_, State::BoundInactive) => State::Close.short_name(),
        (_, state) => state.short_name(),
    }
}

/// Appends an address as glibc's `inet_ntop` writes it: v4-compatible addresses too end in an IPv4 address.
#[inline]
pub(super) fn push_address(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V6(ip) if is_v4_compatible(ip) => {
            let [.., high, low] = ip.segments();
            out.extend_from_slice(b"::");
            push_ip(out, IpAddr::V4((u32::from(high) << 16 | u32::from(low)).into()));
        }
        ip => push_ip(out, ip),
    }
}
