//! Many UDP datagrams by one system call: cut by the kernel on the way out, put together on the way in.

use crate::socket_option::set;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// What is sent at once is cut into datagrams of this many bytes; 0: no longer.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 4.18.
#[doc(alias = "UDP_SEGMENT")]
pub fn cut_into(socket: impl AsFd, bytes: u16) -> Result<(), Errno> {
    set(
        socket,
        libc::IPPROTO_UDP,
        libc::UDP_SEGMENT,
        &libc::c_int::from(bytes),
    )
}

/// Datagrams of the same size that came one behind the other are received at once. Where one ends and the next begins
/// is not told here.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 5.0.
#[doc(alias = "UDP_GRO")]
pub fn put_together(socket: impl AsFd) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    set(socket, libc::IPPROTO_UDP, libc::UDP_GRO, &on)
}
