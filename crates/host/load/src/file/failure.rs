use super::sender::Way;
use rustix::io::Errno;
use std::fmt;

/// What could not be done, and what the kernel said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What.
    pub step: Step,
    /// Why not.
    pub errno: Errno,
}

/// The steps of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is told by its text
pub enum Step {
    ReadFile,
    Namespace,
    Pair,
    Listen,
    Connect,
    Thread,
    Prepare(Way),
    Send(Way),
    Receive,
    /// The file has become shorter.
    Shorter,
    /// Something else arrived than was sent, from this byte of the stream on.
    Differs(u64),
    /// Fewer or more bytes arrived than were sent.
    Count {
        sent: u64,
        arrived: u64,
    },
    /// Nothing moved any more.
    Stuck,
    /// Somebody asked to stop.
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
    /// Whether this kernel, or whoever confines us, has no such way; the others may work.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        match self.step {
            Step::Prepare(_) => true,
            Step::Send(way) => match self.errno {
                Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL => true,
                // Pages that may not be locked; for others there would be no buffer.
                Errno::NOBUFS | Errno::NOMEM => matches!(way, Way::ZeroCopy | Way::RingZeroCopy),
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
            Step::Prepare(way) => write!(f, "prepare {}: {errno}", way.name()),
            Step::Send(way) => write!(f, "send by {}: {errno}", way.name()),
            Step::Receive => write!(f, "receive: {errno}"),
            Step::Shorter => f.write_str("the file has become shorter while it was being sent"),
            Step::Differs(at) => write!(
                f,
                "what arrived differs from the file, around byte {at} of the stream; or somebody has changed it meanwhile"
            ),
            Step::Count { sent, arrived } => write!(f, "{sent} bytes were sent, but {arrived} arrived"),
            Step::Stuck => write!(
                f,
                "nothing got through for {} s",
                super::transfer::PATIENCE.as_secs()
            ),
            Step::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
    }
}
