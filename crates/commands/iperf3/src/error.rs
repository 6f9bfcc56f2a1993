//! Errors of an iperf3 test.

use super::refusal::Refusal;
use rustix::io::Errno;
use sockeye_load::session::Error as SessionError;
use std::fmt;
use std::io;

/// Why a test cannot begin or go on.
#[derive(Debug)]
pub enum Error {
    /// The connection cannot be made, was lost, or a system call failed.
    Transport(SessionError),
    /// The server runs another test.
    Busy,
    /// The server refused the test, with an errno if one is the cause.
    Rejected(Refusal, Option<Errno>),
    /// This end refused the test.
    Declined(Refusal),
    /// The server ended the test.
    ServerTerminated,
    /// The client ended the test.
    ClientTerminated,
    /// The connection of a stream failed.
    Stream(Errno),
}

impl Error {
    pub(crate) fn malformed(text: String) -> Self {
        SessionError::Malformed(text).into()
    }

    /// Returns a conversion of an errno or I/O error of this operation.
    pub(crate) fn system<E: Into<io::Error>>(operation: &'static str) -> impl Fn(E) -> Self {
        move |error| {
            let errno = Errno::from_io_error(&error.into()).unwrap_or(Errno::IO);
            SessionError::System(operation, errno).into()
        }
    }

    /// Returns whether the stop flag ended the test.
    pub(crate) const fn is_interrupted(&self) -> bool {
        matches!(self, Self::Transport(SessionError::Interrupted))
    }

    /// Returns a stable code for reports.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Transport(error) => error.code(),
            Self::ServerTerminated | Self::ClientTerminated | Self::Stream(_) => "peer-gone",
            Self::Busy | Self::Rejected(..) | Self::Declined(_) => "failed",
        }
    }
}

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Self {
        Self::Transport(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(SessionError::Refused(address)) => write!(
                f,
                "connect to {address}: connection refused; is `iperf3 -s` running there, on this port (-p)?"
            ),
            Self::Transport(SessionError::ConnectTimeout(address, after)) => write!(
                f,
                "connect to {address}: no answer within {after:?}; is the host up, and does a firewall let port {} \
                 through, TCP and (with --udp) UDP?",
                address.port()
            ),
            Self::Transport(SessionError::Disconnected(None)) => {
                f.write_str("the other end closed the control connection")
            }
            Self::Transport(SessionError::Disconnected(Some(errno))) => {
                write!(f, "the control connection broke: {errno}")
            }
            Self::Transport(SessionError::Malformed(what)) => {
                write!(f, "the other end does not speak iperf3's protocol: {what}")
            }
            Self::Transport(error) => error.fmt(f),
            Self::Busy => {
                f.write_str("the server is busy running a test; try again later, or start another on another port")
            }
            Self::Rejected(Refusal::AUTHENTICATION, _) => f.write_str(
                "the iperf3 server wants a user and a password, which is not supported; start one there without \
                 --authorized-users-path, on another port",
            ),
            Self::Rejected(refusal, errno) => {
                write!(f, "the iperf3 server refused: {refusal}")?;
                errno.map_or(Ok(()), |errno| write!(f, " ({errno})"))
            }
            Self::Declined(refusal) => write!(f, "the client was refused: {refusal}"),
            Self::ServerTerminated => f.write_str("the server ended the test"),
            Self::ClientTerminated => f.write_str("the client ended the test"),
            Self::Stream(errno) => write!(f, "the connection of a stream failed: {errno}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Transport(error) => error.source(),
            _ => None,
        }
    }
}
