//! `MSG_ZEROCOPY`: pages lent to the kernel, and its notifications when it has finished with them.
//!
//! ```text
//! cmsghdr           size_t cmsg_len, int cmsg_level, int cmsg_type
//! sock_extended_err u32 ee_errno, u8 ee_origin, ee_type, ee_code, ee_pad, u32 ee_info, ee_data
//! ```
//! Source: `include/uapi/linux/errqueue.h`, `Documentation/networking/msg_zerocopy.rst`; TCP since 4.14.
#![allow(unsafe_code)]

use crate::errno::last_errno;
use crate::socket_option;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A notification that the kernel has released the pages of consecutive `send(2)` calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Number of the first call, from 0.
    pub first: u32,
    /// Number of the last call.
    pub last: u32,
    /// Whether the kernel copied the data after all (`SO_EE_CODE_ZEROCOPY_COPIED`).
    pub copied: bool,
}

impl Completion {
    /// Returns the number of calls that it covers.
    #[must_use]
    pub const fn calls(self) -> u64 {
        self.last.wrapping_sub(self.first) as u64 + 1
    }
}

/// Enables `MSG_ZEROCOPY` on a socket.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 4.14.
pub fn enable(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    socket_option::enable(socket, libc::SOL_SOCKET, SO_ZEROCOPY)
}

/// Returns the next completion, or `None` if there is none yet; does not wait.
///
/// # Errors
/// The errno of `recvmsg(2)`.
pub fn completion(socket: BorrowedFd<'_>) -> Result<Option<Completion>, Errno> {
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: an all-zero `msghdr` is valid: no name, no data, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: `message` is a complete `msghdr`; its only buffer has the stated length and lives through the call.
    let received = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut message,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    if received < 0 {
        return match last_errno() {
            Errno::AGAIN => Ok(None),
            errno => Err(errno),
        };
    }
    let bytes: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let len = (message.msg_controllen as usize).min(bytes.len());
    // Other errors on the queue are read and discarded here as well.
    Ok(parse(&bytes[..len]))
}

/// Finds the completion among control messages.
fn parse(mut control: &[u8]) -> Option<Completion> {
    while let (Some(len), Some(level), Some(kind)) = (
        word(control, 0),
        int(control, LENGTH_BYTES),
        int(control, LENGTH_BYTES + 4),
    ) {
        let data = control.get(HEADER_BYTES..len)?;
        let is_error = matches!(
            (level.cast_signed(), kind.cast_signed()),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        );
        if is_error && int(data, 0) == Some(0) && data.get(4) == Some(&SO_EE_ORIGIN_ZEROCOPY) {
            return Some(Completion {
                first: int(data, 8)?,
                last: int(data, 12)?,
                copied: *data.get(6)? & SO_EE_CODE_ZEROCOPY_COPIED != 0,
            });
        }
        control = control.get(len.next_multiple_of(LENGTH_BYTES)..)?;
    }
    None
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(LENGTH_BYTES)?)?;
    let len = usize::from_ne_bytes(bytes.try_into().ok()?);
    // A message shorter than its own header would loop for ever.
    (HEADER_BYTES..=CONTROL_WORDS * 8).contains(&len).then_some(len)
}

fn int(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

const SO_ZEROCOPY: libc::c_int = 60;
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
/// Size of `cmsg_len`, which is also the alignment of messages.
const LENGTH_BYTES: usize = size_of::<usize>();
const HEADER_BYTES: usize = LENGTH_BYTES + 8;
const CONTROL_WORDS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER_BYTES + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(LENGTH_BYTES), 0);
        bytes
    }

    fn error(origin: u8, code: u8, first: u32, last: u32) -> Vec<u8> {
        let mut data = vec![0, 0, 0, 0, origin, 0, code, 0];
        data.extend(first.to_ne_bytes());
        data.extend(last.to_ne_bytes());
        data.extend([0; 16]);
        data
    }

    #[test]
    fn completion_is_found_among_control_messages() {
        let expected = Completion {
            first: 3,
            last: 5,
            copied: true,
        };
        let v4 = message(libc::SOL_IP, libc::IP_RECVERR, &error(5, 1, 3, 5));
        assert_eq!(parse(&v4), Some(expected));
        assert_eq!(expected.calls(), 3);
        let other = message(libc::SOL_SOCKET, 29, &[1, 2, 3]);
        let v6 = message(libc::SOL_IPV6, libc::IPV6_RECVERR, &error(5, 0, 7, 7));
        let found = parse(&[other, v6].concat()).unwrap();
        assert_eq!((found.first, found.copied, found.calls()), (7, false, 1));
        // An ICMP error is not a completion.
        assert_eq!(
            parse(&message(libc::SOL_IP, libc::IP_RECVERR, &error(2, 1, 3, 5))),
            None
        );
        // Truncated anywhere, and with wrong lengths.
        for len in 0..HEADER_BYTES + 16 {
            assert_eq!(parse(&v4[..len]), None, "{len}");
        }
        for len in [0, 1, HEADER_BYTES - 1, usize::MAX] {
            let mut wrong = v4.clone();
            wrong[..LENGTH_BYTES].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(parse(&wrong), None, "{len}");
        }
    }
}
