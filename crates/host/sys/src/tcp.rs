//! TCP socket options that rustix has no call for.

use crate::socket_option::{enable, read, set};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Reads `TCP_INFO` of a socket, as much of it as the kernel has.
///
/// # Errors
/// The errno of `getsockopt(2)`: `EOPNOTSUPP` if it is not a TCP socket.
pub fn info(socket: impl AsFd, buffer: &mut [u8; INFO_LEN_MAX]) -> Result<&[u8], Errno> {
    let len = read(socket, libc::IPPROTO_TCP, libc::TCP_INFO, buffer)?;
    Ok(&buffer[..len])
}

/// Size of a buffer for `struct tcp_info`, with space for the fields of later kernels.
pub const INFO_LEN_MAX: usize = 512;

/// Sets `SO_MAX_PACING_RATE`: the most bytes per second that the socket sends.
///
/// # Errors
/// The errno of `setsockopt(2)`.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_s: u64) -> Result<(), Errno> {
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_s)
}

/// Reads `TCP_MAXSEG`: the size of the largest segment that is sent now, in bytes.
///
/// # Errors
/// The errno of `getsockopt(2)` if it is not a TCP socket.
pub fn max_segment(socket: impl AsFd) -> Result<u32, Errno> {
    let mut value = [0; size_of::<libc::c_int>()];
    read(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &mut value)?;
    Ok(libc::c_int::from_ne_bytes(value).unsigned_abs())
}

/// Sets `TCP_MAXSEG`: the size of the largest segment, in bytes; in both directions if it is set before the connection
/// is made.
///
/// # Errors
/// `EINVAL`: below 88 or above 32767.
pub fn set_max_segment(socket: impl AsFd, bytes: u32) -> Result<(), Errno> {
    let value = libc::c_int::try_from(bytes).map_err(|_| Errno::INVAL)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &value)
}

/// Sets `IP_BIND_ADDRESS_NO_PORT` (Linux 4.2): `bind(2)` chooses an address only; `connect(2)` chooses the port.
///
/// # Errors
/// The errno of `setsockopt(2)`.
pub fn set_bind_without_port(socket: impl AsFd) -> Result<(), Errno> {
    enable(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn options_are_set_and_read_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut buffer = [0; INFO_LEN_MAX];
        // ESTABLISHED, and longer than the oldest structure.
        let tcp_info = info(&stream, &mut buffer).unwrap();
        assert!(tcp_info.len() > 100 && tcp_info[0] == 1);
        set_max_pacing_rate(&stream, 1_000_000).unwrap();
        let tcp_info = info(&stream, &mut buffer).unwrap();
        assert_eq!(tcp_info[112..120], 1_000_000_u64.to_ne_bytes());
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(info(&datagrams, &mut buffer).is_err());
        crate::udp_offload::set_segment_size(&datagrams, 1000).unwrap();
        set_bind_without_port(&stream).unwrap();
    }

    #[test]
    fn segment_size_is_read_and_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_max_segment(&listener, 1000).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!((900..=1000).contains(&max_segment(&socket).unwrap()));
        assert_eq!(set_max_segment(&listener, 1), Err(Errno::INVAL));
        assert_eq!(set_max_segment(&listener, u32::MAX), Err(Errno::INVAL));
        assert!(max_segment(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
