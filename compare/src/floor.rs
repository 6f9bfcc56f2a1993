//! The cheapest possible dump of the TCP sockets: request, receive, count, discard.
//!
//! Requests and replies are encoded here by hand after `include/uapi/linux/netlink.h`, `sock_diag.h` and
//! `inet_diag.h`, independent of Sockeye's own codecs, so that an error there does not affect the limit.

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};

/// The kind of dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Two sock_diag v2 dumps, IPv4 then IPv6, instead of the one-pass TCPDIAG_GETSOCK.
    pub v2: bool,
    /// Request INET_DIAG_INFO (tcp_info) for each socket.
    pub info: bool,
}

/// What a dump returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Sockets, one per record.
    pub records: u64,
    /// Calls of recv.
    pub receives: u64,
    /// Messages with NLM_F_DUMP_INTR: the table changed during the dump.
    pub interrupted: u64,
}

/// Why a dump failed.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(&'static str, Errno),
    /// The kernel answered the request with an error.
    Refused(Errno),
    /// A message at this offset is truncated, or longer than the received data.
    Envelope(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(operation, errno) => write!(out, "{operation} on a sock_diag socket: {errno}"),
            Self::Refused(errno) => write!(out, "the kernel refused the dump: {errno}"),
            Self::Envelope(offset) => write!(out, "broken netlink message at byte {offset} of a datagram"),
        }
    }
}

impl std::error::Error for Error {}

/// Dumps every TCP socket of this network namespace and counts them.
pub fn dump(request: Request) -> Result<Count, Error> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )
    .map_err(|errno| Error::System("socket", errno))?;
    let extensions = if request.info {
        1 << (INET_DIAG_INFO - 1)
    } else {
        0
    };
    let mut count = Count::default();
    if request.v2 {
        pass(&socket, &v2_message(AF_INET, extensions), &mut count)?;
        pass(&socket, &v2_message(AF_INET6, extensions), &mut count)?;
    } else {
        pass(&socket, &legacy_message(extensions), &mut count)?;
    }
    Ok(count)
}

fn pass(socket: &OwnedFd, request: &[u8], count: &mut Count) -> Result<(), Error> {
    send(socket.as_raw_fd(), request, MsgFlags::empty()).map_err(|errno| Error::System("send", errno))?;
    // The kernel never fills more than 32 KiB of a dump's datagram, whatever the buffer.
    let mut buffer = [0; 32 * 1024];
    loop {
        let length = match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC) {
            Ok(length) => length,
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(Error::System("recv", errno)),
        };
        count.receives += 1;
        // With MSG_TRUNC the length is the datagram's, also if the buffer was too small for it.
        let datagram = buffer.get(..length).ok_or(Error::Envelope(buffer.len()))?;
        if walk(datagram, count)? {
            return Ok(());
        }
    }
}

/// Counts the records of one datagram; true at the end of the dump.
fn walk(datagram: &[u8], count: &mut Count) -> Result<bool, Error> {
    let mut at = 0;
    while at < datagram.len() {
        let message = &datagram[at..];
        // struct nlmsghdr { u32 len; u16 type; u16 flags; u32 seq; u32 pid; }, in host byte order
        let Some((header, body)) = message.split_first_chunk::<NLMSG_HDRLEN>() else {
            return Err(Error::Envelope(at));
        };
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let flags = u16::from_ne_bytes([header[6], header[7]]);
        if length < NLMSG_HDRLEN || length > message.len() {
            return Err(Error::Envelope(at));
        }
        count.interrupted += u64::from(flags & NLM_F_DUMP_INTR != 0);
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                return Err(Error::Refused(Errno::from_raw(code.saturating_neg())));
            }
            NLMSG_NOOP => {}
            _ => count.records += 1,
        }
        at += length.next_multiple_of(4);
    }
    Ok(false)
}

/// `struct inet_diag_req`: u8 family, src_len, dst_len, ext; struct inet_diag_sockid id (48 bytes); u32 states, dbs.
fn legacy_message(extensions: u8) -> [u8; 76] {
    let mut message = [0; 76];
    put_header(&mut message, TCPDIAG_GETSOCK);
    message[19] = extensions;
    message[68..72].copy_from_slice(&ALL_STATES.to_ne_bytes());
    message
}

/// `struct inet_diag_req_v2`: u8 family, protocol, ext, pad; u32 states; struct inet_diag_sockid id (48 bytes).
fn v2_message(family: u8, extensions: u8) -> [u8; 72] {
    let mut message = [0; 72];
    put_header(&mut message, SOCK_DIAG_BY_FAMILY);
    message[16..19].copy_from_slice(&[family, IPPROTO_TCP, extensions]);
    message[20..24].copy_from_slice(&ALL_STATES.to_ne_bytes());
    message
}

fn put_header(message: &mut [u8], kind: u16) {
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
}

const NLMSG_HDRLEN: usize = 16;
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;
const TCPDIAG_GETSOCK: u16 = 18;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u8 = 2;
/// TCP_ESTABLISHED (1) to TCP_CLOSING (11), as for `ss -a`. Without TCP_BOUND_INACTIVE (13, since 6.8): for
/// it the kernel also walks all of bhash2, with every connected socket.
const ALL_STATES: u32 = 0xffe;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((NLMSG_HDRLEN + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn counts_records_up_to_the_end() {
        let mut datagram = message(TCPDIAG_GETSOCK, 2, &[0; 72]);
        datagram.extend(message(TCPDIAG_GETSOCK, 2 | NLM_F_DUMP_INTR, &[0; 72]));
        let mut count = Count::default();
        assert_eq!(walk(&datagram, &mut count), Ok(false));
        assert_eq!((count.records, count.interrupted), (2, 1));
        assert_eq!(walk(&message(NLMSG_DONE, 2, &[0; 4]), &mut count), Ok(true));
        assert_eq!(count.records, 2);
    }

    #[test]
    fn an_unaligned_message_is_followed_by_padding() {
        let mut datagram = message(TCPDIAG_GETSOCK, 2, &[0; 5]);
        datagram.extend([0; 3]);
        datagram.extend(message(TCPDIAG_GETSOCK, 2, &[0; 5]));
        let mut count = Count::default();
        assert_eq!(walk(&datagram, &mut count), Ok(false));
        assert_eq!(count.records, 2);
    }

    #[test]
    fn a_refusal_and_a_broken_envelope_are_errors() {
        let mut count = Count::default();
        assert_eq!(
            walk(&message(NLMSG_ERROR, 0, &(-1i32).to_ne_bytes()), &mut count),
            Err(Error::Refused(Errno::EPERM))
        );
        assert_eq!(walk(&[1, 2, 3], &mut count), Err(Error::Envelope(0)));
        let mut cut = message(TCPDIAG_GETSOCK, 0, &[0; 72]);
        cut.truncate(40);
        assert_eq!(walk(&cut, &mut count), Err(Error::Envelope(0)));
        assert_eq!(walk(&[0; 16], &mut count), Err(Error::Envelope(0)));
    }

    #[test]
    fn the_kernel_answers_both_kinds_of_request() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        for v2 in [false, true] {
            for info in [false, true] {
                let count = dump(Request { v2, info }).expect("sock_diag");
                assert!(count.records >= 1, "v2 {v2}, info {info}: {count:?}");
            }
        }
        drop(listener);
    }
}
