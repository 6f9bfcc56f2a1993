//! `inet_diag` bytecode: the programs the kernel runs over each socket of a dump (`INET_DIAG_REQ_BYTECODE`).
//!
//! ```text
//! struct inet_diag_bc_op    { u8 code; u8 yes; u16 no; }                     4, then what the code calls for:
//! struct inet_diag_hostcond { u8 family, prefix_len; int port; be32 addr[]; }  8 + 0, 4 or 16
//! struct inet_diag_bc_op    { -; -; u16 port; }        of *_GE, *_LE           4
//! u32 ifindex;                                         of DEV_COND             4
//! struct inet_diag_markcond { u32 mark, mask; }                                8
//! u64 cgroup_id;                                                               8
//! ```
//! A program runs from its first operation. If an operation's condition holds, execution continues `yes` bytes further,
//! otherwise `no` bytes. A socket that arrives exactly at the end is listed; one that lands beyond it (four bytes, by
//! convention) is not. Jumps go forward only.
//!
//! Source: `include/uapi/linux/inet_diag.h`, `inet_diag_bc_run()` and `inet_diag_bc_audit()` in
//! `net/ipv4/inet_diag.c`. [`run`] and [`audit`] implement these two.

use crate::bytes::{array, ne_u16, ne_u32, ne_u64};
use alloc::vec::Vec;

/// The end of the connection that a condition checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Local end
    Source,
    /// Peer's end
    Destination,
}

/// A condition that the kernel can check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The port is at least this (`S_GE`, `D_GE`).
    PortAtLeast(End, u16),
    /// The port is at most this (`S_LE`, `D_LE`).
    PortAtMost(End, u16),
    /// Address and port (`S_COND`, `D_COND`).
    Host {
        /// End of the connection.
        end: End,
        /// Prefix of the address. A [`Prefix::Inet`] also matches v4-mapped addresses of IPv6
        /// sockets; a [`Prefix::Inet6`] matches no IPv4 socket, even if it is empty.
        prefix: Prefix,
        /// Port; `None` for any.
        port: Option<u16>,
    },
    /// The port was chosen by the kernel, not by `bind` (`AUTO`).
    Auto,
    /// Bound to the interface with this index, 0 for not bound (`DEV_COND`, since Linux 4.8).
    Device(u32),
    /// The masked mark has this value (`MARK_COND`, since Linux 4.8, needs CAP_NET_ADMIN).
    Mark {
        /// Value
        mark: u32,
        /// Significant bits
        mask: u32,
    },
    /// In the cgroup v2 with this inode (`CGROUP_COND`, since Linux 5.9).
    Cgroup(u64),
}

/// An address prefix, with its length in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// Any address of any family.
    Any,
    /// IPv4
    Inet([u8; 4], u8),
    /// IPv6
    Inet6([u8; 16], u8),
}

/// Length of the longest program that fits into a netlink attribute, with its `u16` length and four bytes of header.
pub const LEN_MAX: usize = 65_528;

/// Length of an operation without operands.
const OPERATION_LEN: usize = 4;

/// Distance of "no" beyond the end.
const BEYOND: usize = 4;

/// A position in a program that is being assembled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// An assembler that writes a program from start to end.
///
/// ```
/// use sockeye_wire::bytecode::{Assembler, Condition, End, SocketEntry, run};
///
/// // sport = 80 or dport = 80
/// let (mut assembler, port) = (Assembler::default(), Some(80));
/// let (local, done) = (assembler.label(), assembler.label());
/// let any = sockeye_wire::bytecode::Prefix::Any;
/// assembler.condition(&Condition::Host { end: End::Source, prefix: any, port }, local);
/// assembler.jump(done);
/// assembler.place(local);
/// assembler.condition(&Condition::Host { end: End::Destination, prefix: any, port }, Assembler::REJECT);
/// assembler.place(done);
/// let program = assembler.finish().unwrap();
/// assert!(run(&program, &SocketEntry { destination_port: 80, ..SocketEntry::default() }));
/// assert!(!run(&program, &SocketEntry { destination_port: 81, ..SocketEntry::default() }));
/// ```
#[derive(Debug, Clone)]
pub struct Assembler {
    bytes: Vec<u8>,
    /// Offset of each label; the first is "no".
    labels: Vec<Option<usize>>,
    /// Offsets of operations, with the label of their `no`.
    jumps: Vec<(usize, Label)>,
}

impl Default for Assembler {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            labels: alloc::vec![None],
            jumps: Vec::new(),
        }
    }
}

impl Assembler {
    /// The label beyond the end: the socket is not listed.
    pub const REJECT: Label = Label(0);

    /// Creates a jump target, to be [`place`](Self::place)d later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places the label here: before the next operation, or at the end.
    pub fn place(&mut self, label: Label) {
        if label != Self::REJECT {
            self.labels[label.0] = Some(self.bytes.len());
        }
    }

    /// Length in bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the program is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends a condition: continues if it holds, jumps to `no` if not.
    pub fn condition(&mut self, condition: &Condition, no: Label) {
        let start = self.operation(condition.code(), no);
        match *condition {
            Condition::PortAtLeast(_, port) | Condition::PortAtMost(_, port) => {
                self.bytes.extend_from_slice(&[0, 0]);
                self.bytes.extend_from_slice(&port.to_ne_bytes());
            }
            Condition::Host { prefix, port, .. } => {
                let (family, len) = match prefix {
                    Prefix::Any => (AF_UNSPEC, 0),
                    Prefix::Inet(_, len) => (AF_INET, len),
                    Prefix::Inet6(_, len) => (AF_INET6, len),
                };
                self.bytes.extend_from_slice(&[family, len, 0, 0]);
                self.bytes
                    .extend_from_slice(&port.map_or(-1, i32::from).to_ne_bytes());
                match prefix {
                    Prefix::Any => {}
                    Prefix::Inet(address, _) => self.bytes.extend_from_slice(&address),
                    Prefix::Inet6(address, _) => self.bytes.extend_from_slice(&address),
                }
            }
            Condition::Auto => {}
            Condition::Device(index) => self.bytes.extend_from_slice(&index.to_ne_bytes()),
            Condition::Mark { mark, mask } => {
                self.bytes.extend_from_slice(&mark.to_ne_bytes());
                self.bytes.extend_from_slice(&mask.to_ne_bytes());
            }
            Condition::Cgroup(id) => self.bytes.extend_from_slice(&id.to_ne_bytes()),
        }
        // The longest operation has 28 bytes.
        self.bytes[start + 1] = (self.bytes.len() - start) as u8;
    }

    /// Appends an unconditional jump to `to`.
    pub fn jump(&mut self, to: Label) {
        let start = self.operation(code::JMP, to);
        self.bytes[start + 1] = OPERATION_LEN as u8;
    }

    /// Appends a finished program: the result accepts what both accept. Its jumps are relative, and its "no" is beyond
    /// its end, so it must be the last part.
    #[must_use]
    pub fn finish_with(mut self, program: &[u8]) -> Option<Vec<u8>> {
        self.bytes.extend_from_slice(program);
        self.finish()
    }

    /// Returns the program; `None` if it is empty (the kernel rejects that), too long, or jumps backward or to a label
    /// that was never placed.
    #[must_use]
    pub fn finish(mut self) -> Option<Vec<u8>> {
        let end = self.bytes.len();
        if end == 0 || end > LEN_MAX {
            return None;
        }
        self.labels[Self::REJECT.0] = Some(end + BEYOND);
        for (start, label) in self.jumps {
            let no = self.labels[label.0]?.checked_sub(start)?;
            let no = u16::try_from(no).ok()?;
            self.bytes[start + 2..start + 4].copy_from_slice(&no.to_ne_bytes());
        }
        Some(self.bytes)
    }

    fn operation(&mut self, code: u8, no: Label) -> usize {
        let start = self.bytes.len();
        self.jumps.push((start, no));
        self.bytes.extend_from_slice(&[code, 0, 0, 0]);
        start
    }
}

impl Condition {
    const fn code(&self) -> u8 {
        match self {
            Self::PortAtLeast(End::Source, _) => code::S_GE,
            Self::PortAtLeast(End::Destination, _) => code::D_GE,
            Self::PortAtMost(End::Source, _) => code::S_LE,
            Self::PortAtMost(End::Destination, _) => code::D_LE,
            Self::Host { end: End::Source, .. } => code::S_COND,
            Self::Host {
                end: End::Destination,
                ..
            } => code::D_COND,
            Self::Auto => code::AUTO,
            Self::Device(_) => code::DEV_COND,
            Self::Mark { .. } => code::MARK_COND,
            Self::Cgroup(_) => code::CGROUP_COND,
        }
    }
}

/// The properties of a socket that a program can check (`struct inet_diag_entry`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketEntry {
    /// `AF_INET` or `AF_INET6`
    pub family: u8,
    /// Local address in network order; IPv4 uses the first four bytes
    pub source: [u8; 16],
    /// Peer's address
    pub destination: [u8; 16],
    /// Local port; of a RAW socket the protocol number
    pub source_port: u16,
    /// Peer's port
    pub destination_port: u16,
    /// `sk_bound_dev_if`
    pub interface: u32,
    /// `sk_mark`; 0 for minimal sockets of older kernels
    pub mark: u32,
    /// Inode of the cgroup v2; 0 for minimal sockets
    pub cgroup: u64,
    /// `SOCK_BINDPORT_LOCK`: the port was requested by `bind`
    pub port_was_chosen: bool,
}

/// Runs a program on a socket as the kernel does. Returns whether the socket would be listed.
///
/// The kernel would not run a program that [`audit`] rejects; here it lists nothing, and terminates.
#[must_use]
pub fn run(program: &[u8], socket: &SocketEntry) -> bool {
    let mut rest = program;
    while !rest.is_empty() {
        let Some((holds, operation)) = evaluate(rest, socket) else {
            return false;
        };
        let step = if holds {
            usize::from(operation.yes)
        } else {
            usize::from(operation.no)
        };
        match rest.get(step..) {
            Some(next) if step > 0 => rest = next,
            _ => return false, // beyond the end, or nowhere
        }
    }
    true
}

/// Why the kernel would reject a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditError {
    /// `EINVAL`: the operation at this offset is unknown, truncated, or has an invalid jump.
    Invalid(usize),
    /// `EPERM`: the operation at this offset needs CAP_NET_ADMIN.
    NotPermitted(usize),
}

/// Checks a program as the kernel does before running it.
///
/// # Errors
/// The first error that the kernel would find.
pub fn audit(program: &[u8], net_admin: bool) -> Result<(), AuditError> {
    if program.len() < OPERATION_LEN {
        return Err(AuditError::Invalid(0));
    }
    let mut at = 0;
    while at < program.len() {
        let invalid = AuditError::Invalid(at);
        let rest = &program[at..];
        let operation = Operation::parse(rest).ok_or(invalid)?;
        if operation.code == code::MARK_COND && !net_admin {
            return Err(AuditError::NotPermitted(at));
        }
        let (yes, no) = (usize::from(operation.yes), usize::from(operation.no));
        let len_min = operation.len_min(rest).ok_or(invalid)?;
        let steps = |step: usize| step >= len_min && step <= rest.len() + BEYOND && step.is_multiple_of(4);
        if operation.code != code::NOP && !(steps(no) && (no >= rest.len() || is_start(program, at + no))) {
            return Err(invalid);
        }
        if !steps(yes) {
            return Err(invalid);
        }
        at += yes;
    }
    if at == program.len() {
        Ok(())
    } else {
        Err(AuditError::Invalid(program.len()))
    }
}

/// Whether following "yes" from the beginning leads to `target` (`valid_cc()`).
fn is_start(program: &[u8], target: usize) -> bool {
    let mut at = 0;
    while at < target {
        match program.get(at + 1) {
            Some(&yes) if yes >= 4 && yes.is_multiple_of(4) => at += usize::from(yes),
            _ => return false,
        }
    }
    at == target
}

/// `struct inet_diag_bc_op`
struct Operation {
    code: u8,
    yes: u8,
    no: u16,
}

impl Operation {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            code: *bytes.first()?,
            yes: *bytes.get(1)?,
            no: ne_u16(bytes, 2)?,
        })
    }

    /// Returns the minimum length of the operation at the front of `rest`; `None` if it does not fit or is invalid.
    fn len_min(&self, rest: &[u8]) -> Option<usize> {
        let operands = match self.code {
            code::NOP | code::JMP | code::AUTO => 0,
            code::S_GE | code::S_LE | code::D_GE | code::D_LE | code::S_EQ | code::D_EQ | code::DEV_COND => 4,
            code::MARK_COND | code::CGROUP_COND => 8,
            code::S_COND | code::D_COND => {
                let address_len = match *rest.get(4)? {
                    AF_UNSPEC => 0,
                    AF_INET => 4,
                    AF_INET6 => 16,
                    _ => return None,
                };
                if usize::from(*rest.get(5)?) > 8 * address_len {
                    return None;
                }
                8 + address_len
            }
            _ => return None,
        };
        let len = OPERATION_LEN + operands;
        (rest.len() >= len).then_some(len)
    }
}

/// Evaluates the operation at the front of `rest`. Returns whether it holds, and the operation.
fn evaluate(rest: &[u8], socket: &SocketEntry) -> Option<(bool, Operation)> {
    let operation = Operation::parse(rest)?;
    let port = || ne_u16(rest, 6);
    let holds = match operation.code {
        code::NOP => true,
        code::JMP => false,
        code::S_GE => socket.source_port >= port()?,
        code::S_LE => socket.source_port <= port()?,
        code::D_GE => socket.destination_port >= port()?,
        code::D_LE => socket.destination_port <= port()?,
        code::S_EQ => socket.source_port == port()?,
        code::D_EQ => socket.destination_port == port()?,
        code::AUTO => !socket.port_was_chosen,
        code::S_COND => holds_for_host(rest, socket.family, &socket.source, socket.source_port)?,
        code::D_COND => holds_for_host(rest, socket.family, &socket.destination, socket.destination_port)?,
        code::DEV_COND => socket.interface == ne_u32(rest, 4)?,
        code::MARK_COND => socket.mark & ne_u32(rest, 8)? == ne_u32(rest, 4)?,
        code::CGROUP_COND => socket.cgroup == ne_u64(rest, 4)?,
        // The kernel skips unknown operations; the audit rejects them.
        _ => true,
    };
    Some((holds, operation))
}

fn holds_for_host(rest: &[u8], family: u8, address: &[u8; 16], port: u16) -> Option<bool> {
    let (wanted_family, bits) = (*rest.get(4)?, usize::from(*rest.get(5)?));
    let wanted_port = i32::from_ne_bytes(array(rest, 8)?);
    let prefix = rest.get(12..)?;
    if wanted_port != -1 && wanted_port != i32::from(port) {
        return Some(false);
    }
    if wanted_family == AF_UNSPEC || wanted_family == family {
        return begins_with(address, prefix, bits);
    }
    if family == AF_INET6 && wanted_family == AF_INET && address[..12] == V4_MAPPED {
        return begins_with(&address[12..], prefix, bits);
    }
    Some(false)
}

fn begins_with(address: &[u8], prefix: &[u8], bits: usize) -> Option<bool> {
    let (whole, rest) = (bits / 8, bits % 8);
    if address.get(..whole)? != prefix.get(..whole)? {
        return Some(false);
    }
    if rest == 0 {
        return Some(true);
    }
    Some((address.get(whole)? ^ prefix.get(whole)?) >> (8 - rest) == 0)
}

/// `INET_DIAG_BC_*`
pub mod code {
    /// No operation
    pub const NOP: u8 = 0;
    /// Never holds: takes `no`
    pub const JMP: u8 = 1;
    /// Local port >=
    pub const S_GE: u8 = 2;
    /// Local port <=
    pub const S_LE: u8 = 3;
    /// Peer's port >=
    pub const D_GE: u8 = 4;
    /// Peer's port <=
    pub const D_LE: u8 = 5;
    /// Local port not chosen by `bind`
    pub const AUTO: u8 = 6;
    /// Local address and port
    pub const S_COND: u8 = 7;
    /// Peer's address and port
    pub const D_COND: u8 = 8;
    /// Interface (Linux 4.8)
    pub const DEV_COND: u8 = 9;
    /// Mark (Linux 4.8)
    pub const MARK_COND: u8 = 10;
    /// Local port == (Linux 4.16). Never written here: `S_COND` without a family means the same, takes four bytes more,
    /// and works on every kernel.
    pub const S_EQ: u8 = 11;
    /// Peer's port == (Linux 4.16)
    pub const D_EQ: u8 = 12;
    /// cgroup v2 (Linux 5.9)
    pub const CGROUP_COND: u8 = 13;
}

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const V4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn one(condition: Condition) -> Vec<u8> {
        let mut assembler = Assembler::default();
        assembler.condition(&condition, Assembler::REJECT);
        assembler.finish().unwrap()
    }

    fn host(end: End, prefix: Prefix, port: Option<u16>) -> Condition {
        Condition::Host { end, prefix, port }
    }

    /// An IPv6 socket with an IPv4 connection: 127.0.0.1:8080 to 10.1.2.3:40000.
    fn mapped() -> SocketEntry {
        let mut socket = SocketEntry {
            family: 10,
            source_port: 8080,
            destination_port: 40000,
            ..SocketEntry::default()
        };
        socket.source[..12].copy_from_slice(&V4_MAPPED);
        socket.source[12..].copy_from_slice(&[127, 0, 0, 1]);
        socket.destination[..12].copy_from_slice(&V4_MAPPED);
        socket.destination[12..].copy_from_slice(&[10, 1, 2, 3]);
        socket
    }

    #[test]
    fn operations_have_the_kernels_layout() {
        let bytes = one(host(End::Source, Prefix::Inet([10, 0, 0, 0], 8), Some(80)));
        let mut expected = vec![code::S_COND, 16];
        expected.extend_from_slice(&20_u16.to_ne_bytes());
        expected.extend_from_slice(&[2, 8, 0, 0]);
        expected.extend_from_slice(&80_i32.to_ne_bytes());
        expected.extend_from_slice(&[10, 0, 0, 0]);
        assert_eq!(bytes, expected);
        for (condition, len) in [
            (Condition::Auto, 4),
            (Condition::PortAtLeast(End::Source, 1), 8),
            (Condition::Device(1), 8),
            (host(End::Source, Prefix::Any, None), 12),
            (Condition::Mark { mark: 1, mask: 1 }, 12),
            (Condition::Cgroup(1), 12),
            (host(End::Source, Prefix::Inet6([0; 16], 0), None), 28),
        ] {
            let bytes = one(condition);
            assert_eq!((bytes.len(), usize::from(bytes[1])), (len, len));
            assert_eq!(audit(&bytes, true), Ok(()), "{condition:?}");
        }
    }

    #[test]
    fn conditions_hold_as_in_the_kernel() {
        let socket = mapped();
        let v4 = |a, len| Prefix::Inet(a, len);
        let mut v6 = [0; 16];
        v6[10..].copy_from_slice(&[0xff, 0xff, 10, 1, 2, 3]);
        for (condition, expected) in [
            (host(End::Source, v4([127, 0, 0, 0], 8), None), true),
            (host(End::Source, v4([126, 0, 0, 0], 7), None), true),
            (host(End::Source, v4([126, 0, 0, 0], 8), None), false),
            (host(End::Source, v4([0; 4], 0), None), true),
            (host(End::Destination, Prefix::Inet6(v6, 128), Some(40000)), true),
            (host(End::Destination, Prefix::Inet6(v6, 128), Some(40001)), false),
            (host(End::Destination, Prefix::Any, Some(40000)), true),
            (Condition::PortAtLeast(End::Source, 8080), true),
            (Condition::PortAtLeast(End::Source, 8081), false),
            (Condition::PortAtMost(End::Destination, 40000), true),
            (Condition::PortAtMost(End::Destination, 39999), false),
            (Condition::Auto, true),
            (Condition::Device(0), true),
            (Condition::Mark { mark: 0, mask: 0xff }, true),
            (Condition::Mark { mark: 1, mask: 0xff }, false),
            (Condition::Cgroup(0), true),
        ] {
            assert_eq!(run(&one(condition), &socket), expected, "{condition:?}");
        }
        // An IPv6 prefix does not match an IPv4 socket, and an IPv4 prefix only matches v4-mapped IPv6 sockets.
        let inet = SocketEntry {
            family: 2,
            ..SocketEntry::default()
        };
        let inet6 = SocketEntry {
            family: 10,
            ..SocketEntry::default()
        };
        assert!(!run(
            &one(host(End::Source, Prefix::Inet6([0; 16], 0), None)),
            &inet
        ));
        assert!(!run(&one(host(End::Source, v4([0; 4], 0), None)), &inet6));
    }

    #[test]
    fn audit_rejects_what_the_kernel_rejects() {
        assert_eq!(audit(&[], true), Err(AuditError::Invalid(0)));
        let mark = one(Condition::Mark { mark: 1, mask: 1 });
        assert_eq!(audit(&mark, false), Err(AuditError::NotPermitted(0)));
        let good = one(host(End::Source, Prefix::Inet([0; 4], 32), None));
        for (at, value) in [(0, 99), (1, 12), (1, 18), (2, 99), (4, 3), (5, 33)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(audit(&bad, true).is_err(), "byte {at} = {value}");
        }
        for len in 0..good.len() {
            assert!(audit(&good[..len], true).is_err());
        }
        // A jump into the middle of an operation.
        let mut two = Assembler::default();
        two.condition(&Condition::PortAtLeast(End::Source, 1), Assembler::REJECT);
        two.condition(&Condition::PortAtLeast(End::Source, 1), Assembler::REJECT);
        let mut two = two.finish().unwrap();
        two[2..4].copy_from_slice(&12_u16.to_ne_bytes());
        assert_eq!(audit(&two, true), Err(AuditError::Invalid(0)));
    }

    #[test]
    fn programs_are_concatenated() {
        let second = one(Condition::PortAtMost(End::Source, 8080));
        for (first, expected) in [(8080, true), (8081, false)] {
            let mut assembler = Assembler::default();
            assembler.condition(&Condition::PortAtLeast(End::Source, first), Assembler::REJECT);
            let both = assembler.finish_with(&second).unwrap();
            assert_eq!((audit(&both, false), run(&both, &mapped())), (Ok(()), expected));
        }
    }

    #[test]
    fn any_bytes_terminate() {
        let mut state = 1_u64;
        for _ in 0..if cfg!(miri) { 100 } else { 2000 } {
            let bytes: Vec<u8> = (0..64)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) as u8 & 0x1f
                })
                .collect();
            let _ = (run(&bytes, &mapped()), audit(&bytes, true));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "the longest program takes Miri 20 seconds")]
    fn too_long_empty_or_backward_program_is_none() {
        assert_eq!(Assembler::default().finish(), None);
        let mut long = Assembler::default();
        for _ in 0..=LEN_MAX / 4 {
            long.condition(&Condition::Auto, Assembler::REJECT);
        }
        assert_eq!(long.finish(), None);
        let mut back = Assembler::default();
        let label = back.label();
        back.place(label);
        back.jump(Assembler::REJECT);
        back.jump(label);
        assert_eq!(back.finish(), None);
    }
}
