//! Whole requests and answers over a connection that hands out pieces.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::fmt;
use std::os::fd::AsFd;

/// What ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// What failed.
    pub operation: &'static str,
    /// The kernel's word for it; none if the other end closed the connection.
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

    /// Whether the other end is gone, as opposed to something that failed here.
    #[must_use]
    pub fn is_of_the_peer(&self) -> bool {
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

/// Sends so many bytes, which mean nothing, beginning with `first`.
pub(super) fn send_whole(socket: impl AsFd, first: &[u8], mut more: usize) -> Result<(), Failure> {
    send_all(&socket, first)?;
    while more > 0 {
        let piece = &NOTHING[..more.min(NOTHING.len())];
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

/// Receives so many bytes into a buffer that may be smaller; what was in it before is overwritten.
pub(super) fn receive_whole(
    socket: impl AsFd,
    buffer: &mut [u8],
    mut more: usize,
    spins: bool,
) -> Result<(), Failure> {
    let flags = if spins {
        RecvFlags::DONTWAIT
    } else {
        RecvFlags::empty()
    };
    while more > 0 {
        let room = more.min(buffer.len());
        match recv(&socket, &mut buffer[..room], flags) {
            Ok((0, _)) => return Err(Failure::closed("receive")),
            Ok((count, _)) => more -= count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if spins => std::hint::spin_loop(),
            Err(errno) => return Err(Failure::of("receive", errno)),
        }
    }
    Ok(())
}

/// What requests and answers consist of.
pub(super) static NOTHING: [u8; 64 * 1024] = [0; 64 * 1024];
/// Room of a thread that receives.
pub(super) const ROOM: usize = 64 * 1024;
