//! Queries one TCP socket from inet_diag by its addresses.
//!
//! `/proc/net/tcp` would be enough, but the kernel walks the table of all namespaces for it, which takes 20
//! ms on a machine with 262,144 buckets, and tests poll often. Deliberately separate from the code under
//! test.

use crate::or_panic::OrPanic;
use crate::procnet::Row;
use crate::{State, Timer};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};

/// Finds a socket in the calling thread's namespace; of several listeners the one that would receive a SYN.
#[track_caller]
pub(crate) fn tcp(local: SocketAddr, peer: Option<SocketAddr>) -> Option<Row> {
    let netlink = Socket::new(
        Domain::from(AF_NETLINK),
        Type::RAW,
        Some(NETLINK_SOCK_DIAG.into()),
    );
    let netlink = netlink.or_panic("open a sock_diag socket");
    (&netlink)
        .write_all(&request(local, peer))
        .or_panic("ask sock_diag for one socket");
    let mut answer = [0; 8192];
    let length = (&netlink).read(&mut answer).or_panic("read sock_diag's answer");
    row(&answer[..length], local.is_ipv4()).filter(|row| {
        same(row.local, local) && peer.map_or(row.peer.port() == 0, |peer| same(row.peer, peer))
    })
}

/// `struct nlmsghdr` (16 bytes), then `struct inet_diag_req_v2` (56): family, protocol, extensions, padding,
/// states, and `struct inet_diag_sockid`: ports, addresses, interface, cookie.
/// include/uapi/linux/inet_diag.h, Linux 3.3.
fn request(local: SocketAddr, peer: Option<SocketAddr>) -> Vec<u8> {
    let interface = match local {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let mut bytes = Vec::with_capacity(72);
    bytes.extend(72u32.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([
        if local.is_ipv4() { AF_INET } else { AF_INET6 },
        IPPROTO_TCP,
        0,
        0,
    ]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(peer.map_or(0, |peer| peer.port()).to_be_bytes());
    bytes.extend(as_16_bytes(Some(local.ip())));
    bytes.extend(as_16_bytes(peer.map(|peer| peer.ip())));
    bytes.extend(interface.to_ne_bytes());
    bytes.extend([0xff; 8]); // INET_DIAG_NOCOOKIE
    bytes
}

/// `struct inet_diag_msg`: family, state, timer, retransmissions, `inet_diag_sockid`, then expiry, queues,
/// uid, inode. An error message, such as ENOENT, is no row.
fn row(answer: &[u8], v4: bool) -> Option<Row> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let message = answer.get(16..).filter(|_| kind == SOCK_DIAG_BY_FAMILY)?;
    let word = |at: usize| Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?));
    let address = |port: usize, ip: usize| {
        let port = u16::from_be_bytes(message.get(port..port + 2)?.try_into().ok()?);
        let bytes: [u8; 16] = message.get(ip..ip + 16)?.try_into().ok()?;
        let four = [bytes[0], bytes[1], bytes[2], bytes[3]];
        Some(SocketAddr::new(
            if v4 {
                IpAddr::from(four)
            } else {
                IpAddr::from(bytes)
            },
            port,
        ))
    };
    Some(Row {
        local: address(4, 8)?,
        peer: address(6, 24)?,
        state: State::from_kernel(u32::from(*message.get(1)?))?,
        timer: Timer::from_kernel(u32::from(*message.get(2)?))?,
        retransmissions: u32::from(*message.get(3)?),
        recv_queue: word(56)?,
        send_queue: word(60)?,
        uid: word(64)?,
        inode: u64::from(word(68)?),
    })
}

/// Compares addresses without the scope of link-local ones, which the kernel reports elsewhere.
fn same(shown: SocketAddr, queried: SocketAddr) -> bool {
    (shown.ip(), shown.port()) == (queried.ip(), queried.port())
}

fn as_16_bytes(ip: Option<IpAddr>) -> [u8; 16] {
    match ip {
        None => [0; 16],
        Some(IpAddr::V6(v6)) => v6.octets(),
        Some(IpAddr::V4(v4)) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            bytes
        }
    }
}

const AF_NETLINK: i32 = 16;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
