//! The largest segment of a TCP socket.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// `TCP_MAXSEG`: the largest segment that is sent now, in bytes.
///
/// # Errors
/// It is no TCP socket.
pub fn max_segment(socket: impl AsFd) -> Result<u32, Errno> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; there are `len` bytes to write to at `value`, and `len` itself is
    // written to.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok(value.unsigned_abs())
    } else {
        Err(last_errno())
    }
}

/// `TCP_MAXSEG`: the largest segment, in both directions if it is set before the connection is made.
///
/// # Errors
/// `EINVAL`: below 88 or above 32767.
pub fn set_max_segment(socket: impl AsFd, bytes: u32) -> Result<(), Errno> {
    let value = libc::c_int::try_from(bytes).map_err(|_| Errno::INVAL)?;
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads as many bytes as a `c_int` has at `value`, and
    // keeps none of them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

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
