//! What one socket tells of itself, and how fast it may send: options that rustix has no call for.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// `TCP_INFO` of a socket, as much of it as the kernel has.
///
/// # Errors
/// The errno of `getsockopt(2)`: `EOPNOTSUPP` of what is not TCP.
pub fn info(socket: impl AsFd, room: &mut [u8; INFO_LEN_MAX]) -> Result<&[u8], Errno> {
    let mut len = INFO_LEN_MAX as libc::socklen_t;
    // SAFETY: there are `len` bytes to write to at `room`, and `len` itself is written to; the descriptor is open as long
    // as it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            room.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(last_errno());
    }
    Ok(&room[..(len as usize).min(INFO_LEN_MAX)])
}

/// Room for `struct tcp_info`, with air for kernels to come.
pub const INFO_LEN_MAX: usize = 512;

/// `SO_MAX_PACING_RATE`: the socket sends no more than so many bytes a second.
///
/// # Errors
/// The errno of `setsockopt(2)`.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_s: u64) -> Result<(), Errno> {
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s)
}

/// `UDP_SEGMENT` (Linux 4.18): what is written at once goes out as datagrams of this length.
///
/// # Errors
/// `ENOPROTOOPT` on older kernels.
pub fn set_udp_segment(socket: impl AsFd, bytes: u16) -> Result<(), Errno> {
    set(
        socket,
        libc::SOL_UDP,
        libc::UDP_SEGMENT,
        &libc::c_int::from(bytes),
    )
}

/// `IP_BIND_ADDRESS_NO_PORT` (Linux 4.2): an address is bound without a port, which is picked when the socket is connected.
///
/// # Errors
/// The errno of `setsockopt(2)`.
pub fn set_bind_without_port(socket: impl AsFd) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    set(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on)
}

/// A number is set; the kernel takes it by its size.
fn set<T: Number>(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: &T) -> Result<(), Errno> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes at `value`, which is a plain number that lives until the call returns,
    // and keeps none of them; the descriptor is open as long as it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// What has no padding.
trait Number {}
impl Number for u64 {}
impl Number for libc::c_int {}

fn last_errno() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn sockets_tell_and_are_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut room = [0; INFO_LEN_MAX];
        // ESTABLISHED, and longer than the oldest structure.
        let told = info(&stream, &mut room).unwrap();
        assert!(told.len() > 100 && told[0] == 1);
        set_max_pacing_rate(&stream, 1_000_000).unwrap();
        let told = info(&stream, &mut room).unwrap();
        assert_eq!(told[112..120], 1_000_000_u64.to_ne_bytes());
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(info(&datagrams, &mut room).is_err());
        set_udp_segment(&datagrams, 1000).unwrap();
        set_bind_without_port(&stream).unwrap();
    }
}
