//! Errors of transfers.

use super::method::Method;
use rustix::io::Errno;
use std::fmt;
use std::time::Duration;

/// A failed step, and the kernel's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The step that failed.
    pub step: Step,
    /// The kernel's error.
    pub errno: Errno,
}

/// The steps of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // described by their texts
pub enum Step {
    ReadFile,
    Namespace,
    Pair,
    Listen,
    Connect,
    Thread,
    Prepare(Method),
    Send(Method),
    Receive,
    /// The file has become shorter.
    Shorter,
    /// The received bytes differ from the file, from this byte of the stream on.
    Differs(u64),
    /// Fewer or more bytes arrived than were sent.
    Count {
        sent: u64,
        arrived: u64,
    },
    /// No progress.
    Stuck,
    /// The caller stopped it.
    Stopped,
}

impl Step {
    pub(super) const fn failed(self, errno: Errno) -> Failure {
        Failure { step: self, errno }
    }

    pub(super) fn failed_io(self, error: &std::io::Error) -> Failure {
        let other = if error.kind() == std::io::ErrorKind::TimedOut {
            Errno::TIMEDOUT
        } else {
            Errno::IO
        };
        self.failed(Errno::from_io_error(error).unwrap_or(other))
    }
}

impl Failure {
    /// Returns whether the method is not available here (kernel, seccomp, limits); others may work.
    pub(crate) fn is_unsupported(&self) -> bool {
        match self.step {
            Step::Prepare(_) => true,
            Step::Send(method) => match self.errno {
                Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL => true,
                // Zero copying locks pages; other methods would only lack a buffer.
                Errno::NOBUFS | Errno::NOMEM => matches!(method, Method::ZeroCopy | Method::RingZeroCopy),
                Errno::NODEV | Errno::PERM | Errno::ACCESS => true,
                _ => false,
            },
            _ => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errno = self.errno;
        match self.step {
            Step::ReadFile => write!(f, "read the file: {errno}"),
            Step::Namespace => write!(f, "make a network namespace: {errno}"),
            Step::Pair => write!(f, "make a veth pair: {errno}"),
            Step::Listen => write!(f, "listen: {errno}"),
            Step::Connect => write!(f, "connect: {errno}"),
            Step::Thread => write!(f, "start a thread: {errno}"),
            Step::Prepare(method) => write!(f, "prepare {}: {errno}", method.name()),
            Step::Send(method) => write!(f, "send by {}: {errno}", method.name()),
            Step::Receive => write!(f, "receive: {errno}"),
            Step::Shorter => f.write_str("the file has become shorter while it was being sent"),
            Step::Differs(at) => write!(
                f,
                "what arrived differs from the file, around byte {at} of the stream; or the file was changed meanwhile"
            ),
            Step::Count { sent, arrived } => write!(f, "{sent} bytes were sent, but {arrived} arrived"),
            Step::Stuck => write!(f, "no progress for {} s", TIMEOUT.as_secs()),
            Step::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
    }
}

/// Longest time without progress.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
