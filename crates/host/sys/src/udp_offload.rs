//! UDP segmentation and receive offload: many datagrams in one system call.

use crate::socket_option::{enable, set};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Makes the kernel split each send into datagrams of `bytes` bytes; 0 turns that off.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 4.18.
#[doc(alias = "UDP_SEGMENT")]
pub fn set_segment_size(socket: impl AsFd, bytes: u16) -> Result<(), Errno> {
    let bytes = libc::c_int::from(bytes);
    set(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, &bytes)
}

/// Makes the kernel merge consecutive datagrams of the same size into one receive. The segment size, a control message,
/// is not available here.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 5.0.
#[doc(alias = "UDP_GRO")]
pub fn enable_gro(socket: impl AsFd) -> Result<(), Errno> {
    enable(socket, libc::IPPROTO_UDP, libc::UDP_GRO)
}
