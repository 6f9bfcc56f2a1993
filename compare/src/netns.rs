//! A private network namespace with loopback up; it is removed with its last process.

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::os::fd::AsRawFd;

/// Moves the calling thread, and all processes that it starts later, into a new network namespace.
///
/// Needs CAP_SYS_ADMIN: without it returns `Ok(false)` and changes nothing.
pub fn enter_private() -> Result<bool> {
    match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => {}
        Err(Errno::EPERM) => return Ok(false),
        Err(errno) => return Err(errno).context("unshare(CLONE_NEWNET)"),
    }
    raise_loopback().context("raising lo in the new network namespace")?;
    Ok(true)
}

/// RTM_NEWLINK for interface 1, which is always `lo` in a new namespace, with IFF_UP.
pub(crate) fn raise_loopback() -> Result<()> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
    .context("socket(NETLINK_ROUTE)")?;
    send(socket.as_raw_fd(), &link_up_message(1), MsgFlags::empty()).context("send(RTM_NEWLINK)")?;
    let mut buffer = [0; 1024];
    let length =
        recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).context("recv of the acknowledgement")?;
    // struct nlmsghdr (16 bytes), then struct nlmsgerr { int error; ... }
    let code = buffer[..length]
        .get(16..20)
        .and_then(|bytes| bytes.first_chunk().copied())
        .map(i32::from_ne_bytes);
    let code = code.context("the acknowledgement is cut short")?;
    ensure!(
        code == 0,
        "RTM_NEWLINK refused: {}",
        Errno::from_raw(code.saturating_neg())
    );
    Ok(())
}

/// struct nlmsghdr, then struct ifinfomsg { u8 family, pad; u16 type; i32 index; u32 flags, change; }
fn link_up_message(index: i32) -> [u8; 32] {
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST_ACK: u16 = 0x1 | 0x4;
    const IFF_UP: u32 = 1;
    let mut message = [0; 32];
    message[0..4].copy_from_slice(&32u32.to_ne_bytes());
    message[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST_ACK.to_ne_bytes());
    message[20..24].copy_from_slice(&index.to_ne_bytes());
    message[24..28].copy_from_slice(&IFF_UP.to_ne_bytes());
    message[28..32].copy_from_slice(&IFF_UP.to_ne_bytes());
    message
}
