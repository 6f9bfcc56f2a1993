//! Complete requests and answers over a byte stream.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::fmt;
use std::os::fd::AsFd;

/// Why a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The operation that failed.
    pub(crate) operation: &'static str,
    /// The kernel's error; `None` if the other end closed the connection.
    pub errno: Option<Errno>,
}

impl Failure {
    pub(super) const fn of(operation: &'static str, errno: Errno) -> Self {
        Self {
            operation,
            errno: Some(errno),
        }
    }

    pub(super) const fn closed(operation: &'static str) -> Self {
        Self {
            operation,
            errno: None,
        }
    }

    /// Returns whether the other end is gone, as opposed to a local failure.
    #[must_use]
    pub fn is_peer_gone(&self) -> bool {
        matches!(
            self.errno,
            None | Some(Errno::CONNRESET | Errno::PIPE | Errno::CONNREFUSED | Errno::TIMEDOUT)
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            Some(errno) => write!(f, "{}: {errno}", self.operation),
            None => write!(f, "{}: the other end closed the connection", self.operation),
        }
    }
}

/// Sends `first`, and `more` zero bytes.
pub(super) fn send_exact(socket: impl AsFd, first: &[u8], mut more: usize) -> Result<(), Failure> {
    send_all(&socket, first)?;
    while more > 0 {
        let piece = &ZEROS[..more.min(ZEROS.len())];
        send_all(&socket, piece)?;
        more -= piece.len();
    }
    Ok(())
}

fn send_all(socket: impl AsFd, mut bytes: &[u8]) -> Result<(), Failure> {
    while !bytes.is_empty() {
        match send(&socket, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::of("send", errno)),
        }
    }
    Ok(())
}

/// Receives exactly `more` bytes into a buffer that may be smaller, and overwrites it.
pub(super) fn receive_exact(
    socket: impl AsFd,
    buffer: &mut [u8],
    mut more: usize,
    busy_poll: bool,
) -> Result<(), Failure> {
    let flags = receive_flags(busy_poll);
    while more > 0 {
        let len = more.min(buffer.len());
        match recv(&socket, &mut buffer[..len], flags) {
            Ok((0, _)) => return Err(Failure::closed("receive")),
            Ok((count, _)) => more -= count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if busy_poll => std::hint::spin_loop(),
            Err(errno) => return Err(Failure::of("receive", errno)),
        }
    }
    Ok(())
}

/// Returns the flags of `recv(2)`: with `busy_poll` it does not wait.
pub(super) fn receive_flags(busy_poll: bool) -> RecvFlags {
    if busy_poll {
        RecvFlags::DONTWAIT
    } else {
        RecvFlags::empty()
    }
}

/// Content of requests and answers.
pub(super) static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
/// Length of receive buffers, in bytes.
pub(super) const BUFFER_LEN: usize = 64 * 1024;
