//! What goes wrong between the two ends of an iperf3 test.

use super::refusal::Refusal;
use rustix::io::Errno;
use sockeye_load::session;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why there is no test, or no longer one.
#[derive(Debug)]
pub enum Trouble {
    /// The name of the host means nothing here.
    Unresolved {
        /// As it was typed
        host: String,
        /// What the resolver said; none: it has no address of the family that was asked for
        error: Option<io::Error>,
    },
    /// Nobody listens there.
    Refused(SocketAddr),
    /// Nobody answered for so long.
    Unanswered(SocketAddr, Duration),
    /// It could not be connected to for another reason.
    Connect(SocketAddr, Errno),
    /// The server runs a test of somebody else.
    Busy,
    /// The server will not, for this reason, and with this errno if there is one.
    Rejected(Refusal, Option<Errno>),
    /// We will not, for this reason.
    Declined(Refusal),
    /// The server ends the test.
    ServerTerminated,
    /// The client ends the test.
    ClientTerminated,
    /// The other end said nothing for so long.
    Silent(&'static str, Duration),
    /// The other end closed the connection, or it broke.
    Gone(Option<Errno>),
    /// The other end said what makes no sense here.
    Nonsense(String),
    /// A stream broke.
    Stream(Errno),
    /// A system call failed: which, and how.
    System(&'static str, Errno),
    /// We were asked to stop.
    Stopped,
}

impl Trouble {
    pub(crate) fn of_connection(error: &io::Error) -> Self {
        Self::Gone(Errno::from_io_error(error))
    }

    pub(crate) fn system(operation: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System(operation, Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// A stable word for reports.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Gone(_) | Self::ServerTerminated | Self::ClientTerminated | Self::Stream(_) => "peer-gone",
            Self::Silent(..) | Self::Unanswered(..) => "timeout",
            Self::Stopped => "interrupted",
            _ => "failed",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved { host, error: None } => {
                write!(f, "{host} has no address of that family; try without -4 and -6")
            }
            Self::Unresolved {
                host,
                error: Some(error),
            } => write!(f, "find the address of {host}: {error}"),
            Self::Refused(address) => write!(
                f,
                "connect to {address}: connection refused; is `iperf3 -s` running there, on this port (-p)?"
            ),
            Self::Unanswered(address, after) => write!(
                f,
                "connect to {address}: no answer within {after:?}; is the host up, and does a firewall between let port {} \
                 through, TCP and (with --udp) UDP?",
                address.port()
            ),
            Self::Connect(address, errno) => write!(f, "connect to {address}: {errno}{}", hint(*errno)),
            Self::Busy => f.write_str("the server is busy running a test; try again later, or start another on another port"),
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
            Self::Silent(what, after) => {
                write!(f, "the other end said nothing for {after:?}, where {what} should have come")
            }
            Self::Gone(None) => f.write_str("the other end closed the control connection"),
            Self::Gone(Some(errno)) => write!(f, "the control connection broke: {errno}"),
            Self::Nonsense(what) => write!(f, "the other end does not speak iperf3's protocol: {what}"),
            Self::Stream(errno) => write!(f, "a stream broke: {errno}"),
            Self::System(operation, errno) => write!(f, "{operation}: {errno}{}", hint(*errno)),
            Self::Stopped => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Trouble {}

/// What to try.
fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::NOENT => "; `sysctl net.ipv4.tcp_available_congestion_control` tells which are there",
        _ => session::hint(errno),
    }
}
