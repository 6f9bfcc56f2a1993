//! Files of netlink messages about TCP sockets, as `ss -D` writes them and `TCPDIAG_FILE` names them.

use crate::outcome::{DumpContext, KernelVerdict, SourceKind};
use rustix::io::Errno;
use sockeye_model::{Protocol, Socket, State};
use sockeye_wire::inet_diag::{InetDiag, SOCK_DIAG_BY_FAMILY};
use sockeye_wire::netlink::{Messages, NLMSG_DONE, NLMSG_ERROR};
use std::fmt;
use std::io::{self, Read};

/// Returns a message with this payload in the format of such a file.
#[must_use]
pub fn message(payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEADER_LEN + payload.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER_LEN + payload.len() + 3);
    bytes.extend_from_slice(&len.to_ne_bytes());
    bytes.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&NLM_F_MULTI.to_ne_bytes());
    bytes.extend_from_slice(&SEQUENCE.to_ne_bytes());
    bytes.extend_from_slice(&0_u32.to_ne_bytes());
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The message that ends such a file.
pub const END: [u8; 20] = {
    let mut end = [0; 20];
    end[if cfg!(target_endian = "little") { 0 } else { 3 }] = 20;
    end[if cfg!(target_endian = "little") { 4 } else { 5 }] = NLMSG_DONE as u8;
    end[if cfg!(target_endian = "little") { 6 } else { 7 }] = NLM_F_MULTI as u8;
    end
};

/// Passes each socket of a file to `take`, up to `NLMSG_DONE`; later bytes are ignored. Of a message with malformed
/// attributes, the fields before them are used.
///
/// # Errors
/// When the file ends early, cannot be read, or has another format. The sockets before the error were passed on.
pub fn read(file: &mut dyn Read, take: &mut dyn FnMut(&Socket, DumpContext<'_>)) -> Result<(), Broken> {
    let mut socket = Socket::new(Protocol::Tcp, State::Close);
    let mut bytes = vec![0; HEADER_LEN];
    loop {
        bytes.resize(HEADER_LEN, 0);
        file.read_exact(&mut bytes)
            .map_err(|error| Broken::reading("header from ", &error))?;
        let len = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if !(HEADER_LEN..=MESSAGE_MAX).contains(&len) {
            return Err(Broken::NoMessage);
        }
        bytes.resize(len.next_multiple_of(4), 0);
        file.read_exact(&mut bytes[HEADER_LEN..])
            .map_err(|error| Broken::reading("", &error))?;
        let message = Messages::new(&bytes).flatten().next().ok_or(Broken::NoMessage)?;
        match message.kind {
            NLMSG_DONE => return Ok(()),
            NLMSG_ERROR => {
                let code = message.outcome().map_or(0, |outcome| outcome.code);
                // A file can contain any number, an `Errno` cannot.
                return Err(match code.saturating_neg() {
                    errno @ 1..=ERRNO_MAX => Broken::Error(Errno::from_raw_os_error(errno)),
                    _ => Broken::NoMessage,
                });
            }
            _ => {
                let wire = InetDiag::parse(message.payload).map_err(|_| Broken::NoMessage)?;
                // On an error the head has been read: it comes before the attributes.
                let _ = socket.read_inet_diag(&wire, Protocol::Tcp);
                let context = DumpContext {
                    kernel_verdict: KernelVerdict::NotRun,
                    source: SourceKind::DiagV2,
                    message: Some(message.payload),
                };
                take(&socket, context);
            }
        }
    }
}

/// An error in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// It ends in the middle.
    Short,
    /// It cannot be read: the part, and the errno.
    Unreadable(&'static str, Errno),
    /// A message in it is not about a socket.
    NoMessage,
    /// It contains an error message of the kernel.
    Error(Errno),
}

impl Broken {
    fn reading(what: &'static str, error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self::Unreadable(what, Errno::from_raw_os_error(errno)),
            None => Self::Short,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The texts of ss.
            Self::Short => f.write_str("Unexpected EOF reading $TCPDIAG_FILE"),
            Self::Unreadable(what, errno) => {
                let error = io::Error::from(*errno).to_string();
                let words = error.split(" (os error").next().unwrap_or_default();
                writeln!(f, "Reading {what}$TCPDIAG_FILE: {words}")
            }
            Self::NoMessage => {
                f.write_str("$TCPDIAG_FILE holds something that is no message about a socket\n")
            }
            Self::Error(errno) => writeln!(f, "TCPDIAG answered: {errno}"),
        }
    }
}

impl std::error::Error for Broken {}

const HEADER_LEN: usize = 16;
/// The buffer of ss.
const MESSAGE_MAX: usize = 16 * 1024;
/// The kernel's own limit (`include/linux/err.h`).
const ERRNO_MAX: i32 = 4095;
const NLM_F_MULTI: u16 = 2;
/// The sequence number of ss
const SEQUENCE: u32 = 123_456;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut file: &[u8], expected: Result<(), Broken>, sockets: usize) {
        let mut count = 0;
        let read = read(&mut file, &mut |_, context| {
            assert_eq!(context.message.map(<[u8]>::len), Some(72));
            count += 1;
        });
        assert_eq!((read, count), (expected, sockets));
    }

    #[test]
    fn file_is_read_up_to_done() {
        let one = message(&[2; 72]);
        check(&END, Ok(()), 0);
        check(&[&one[..], &END, &one].concat(), Ok(()), 1);
        check(&one, Err(Broken::Short), 1);
        check(&[&one[..], &one[..40]].concat(), Err(Broken::Short), 1);
        check(&message(&[2; 8]), Err(Broken::NoMessage), 0);
        check(&[], Err(Broken::Short), 0);
        let mut refused = message(&[0; 20]);
        refused[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        refused[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        check(&refused, Err(Broken::Error(Errno::PERM)), 0);
    }

    #[test]
    fn error_message_without_errno_is_no_message() {
        for code in [0, 1, i32::MAX, i32::MIN, -4096] {
            let mut error = message(&[0; 20]);
            error[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
            error[16..20].copy_from_slice(&code.to_ne_bytes());
            check(&error, Err(Broken::NoMessage), 0);
        }
        let mut short = message(&[]);
        short[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        check(&short, Err(Broken::NoMessage), 0);
    }
}
