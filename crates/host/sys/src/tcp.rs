//! What one socket tells of itself, and how fast it may send: options that rustix has no call for.

use crate::socket_option::{read, set};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// `TCP_INFO` of a socket, as much of it as the kernel has.
///
/// # Errors
/// The errno of `getsockopt(2)`: `EOPNOTSUPP` of what is not TCP.
pub fn info(socket: impl AsFd, room: &mut [u8; INFO_LEN_MAX]) -> Result<&[u8], Errno> {
    let len = read(socket, libc::IPPROTO_TCP, libc::TCP_INFO, room)?;
    Ok(&room[..len])
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

/// `TCP_MAXSEG`: the largest segment that is sent now, in bytes.
///
/// # Errors
/// It is no TCP socket.
pub fn max_segment(socket: impl AsFd) -> Result<u32, Errno> {
    let mut value = [0; size_of::<libc::c_int>()];
    read(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &mut value)?;
    Ok(libc::c_int::from_ne_bytes(value).unsigned_abs())
}

/// `TCP_MAXSEG`: the largest segment, in both directions if it is set before the connection is made.
///
/// # Errors
/// `EINVAL`: below 88 or above 32767.
pub fn set_max_segment(socket: impl AsFd, bytes: u32) -> Result<(), Errno> {
    let value = libc::c_int::try_from(bytes).map_err(|_| Errno::INVAL)?;
    set(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &value)
}

/// `IP_BIND_ADDRESS_NO_PORT` (Linux 4.2): an address is bound without a port, which is picked when the socket is connected.
///
/// # Errors
/// The errno of `setsockopt(2)`.
pub fn set_bind_without_port(socket: impl AsFd) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    set(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on)
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
        crate::udp_offload::cut_into(&datagrams, 1000).unwrap();
        set_bind_without_port(&stream).unwrap();
    }

    #[test]
    fn segments_are_told_and_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_max_segment(&listener, 1000).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!((900..=1000).contains(&max_segment(&socket).unwrap()));
        assert_eq!(set_max_segment(&listener, 1), Err(Errno::INVAL));
        assert_eq!(set_max_segment(&listener, u32::MAX), Err(Errno::INVAL));
        assert!(max_segment(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
