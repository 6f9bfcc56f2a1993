//! Errors of a session between a client and a server.

use super::peer_text::{PEER_MESSAGE_MAX, peer_text};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a session cannot begin or go on.
#[derive(Debug)]
pub enum Error {
    /// The host name has no usable address.
    Unresolved {
        /// The name as it was typed.
        host: String,
        /// The resolver's error; `None` if the name has no address of the requested family.
        error: Option<io::Error>,
    },
    /// No process listens on this address.
    Refused(SocketAddr),
    /// No answer to the connection attempt within this time.
    ConnectTimeout(SocketAddr, Duration),
    /// The connection failed for another reason.
    Connect(SocketAddr, Errno),
    /// Both ends speak this protocol, in different versions.
    Version {
        /// Version of this program.
        ours: u8,
        /// Version of the other end.
        theirs: u8,
    },
    /// The server speaks another protocol; its first bytes.
    ForeignServer(Vec<u8>),
    /// The client speaks another protocol; its first bytes.
    ForeignClient(Vec<u8>),
    /// The server is an iperf3 server.
    Iperf3Server,
    /// The server closed the connection instead of answering.
    ClosedAtOnce(Option<Errno>),
    /// The other end refused; its own message, [made harmless](peer_text).
    Rejected(String),
    /// What was expected, and how long nothing came.
    Timeout(&'static str, Duration),
    /// The other end closed the connection (`None`), or the connection failed.
    Disconnected(Option<Errno>),
    /// The other end sent something invalid.
    Malformed(String),
    /// The congestion control does not exist, or is not permitted.
    Congestion {
        /// Its name.
        name: String,
        /// The kernel's error.
        errno: Errno,
        /// The available ones, separated by commas.
        known: String,
    },
    /// This processor does not exist.
    NoProcessor(usize),
    /// The server wants a secret, and the client has none.
    SecretWanted,
    /// The client has a secret, and the server has none, so it cannot prove that it is the right one.
    SecretUnknown,
    /// The secrets of the two ends differ.
    WrongSecret,
    /// The server wants a secret, and the client speaks iperf3's protocol, which has no place for one.
    NoSecretInIperf3,
    /// The server takes clients of iperf3 only, and this is none.
    NotIperf3,
    /// The limit of these is reached; and the limit per address.
    Full(&'static str, usize),
    /// An idle or slow test made room for another.
    Evicted,
    /// A test takes longer than the server allows.
    TooLong(Duration),
    /// A client sent more messages than a test needs.
    Flood,
    /// A system call failed: the operation and its errno.
    System(&'static str, Errno),
    /// The stop flag was set.
    Interrupted,
}

impl Error {
    /// Returns the error for a refusal of the other end, whose message may be anything.
    pub(crate) fn rejected(message: &str) -> Self {
        Self::Rejected(peer_text(message, PEER_MESSAGE_MAX))
    }

    /// Returns the error for a failed read or write on a connection.
    #[must_use]
    pub fn of_connection(error: &io::Error) -> Self {
        Self::Disconnected(Errno::from_io_error(error))
    }

    /// Returns a stable code for reports.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Disconnected(_) => "peer-gone",
            Self::Timeout(..) | Self::ConnectTimeout(..) => "timeout",
            Self::Interrupted => "interrupted",
            _ => "failed",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved { host, error: None } => {
                write!(f, "{host} has no address of that family; try without -4 and -6")
            }
            Self::Unresolved {
                host,
                error: Some(error),
            } => {
                write!(f, "find the address of {host}: {error}")?;
                if host.contains(':') {
                    f.write_str("; the port is given with -p")?;
                }
                Ok(())
            }
            Self::Refused(address) => write!(
                f,
                "connect to {address}: connection refused; is `sockeye bench serve` running there, on this port (-p)?"
            ),
            Self::ConnectTimeout(address, after) => write!(
                f,
                "connect to {address}: no answer within {after:?}; is the host up, and does a firewall let TCP port {} \
                 through?",
                address.port()
            ),
            Self::Connect(SocketAddr::V6(address), Errno::INVAL)
                if address.ip().is_unicast_link_local() && address.scope_id() == 0 =>
            {
                let ip = address.ip();
                write!(
                    f,
                    "connect to {address}: a link-local address needs its device, like {ip}%eth0"
                )
            }
            Self::Connect(address, errno) => write!(f, "connect to {address}: {errno}{}", hint(*errno)),
            Self::Version { ours, theirs } => write!(
                f,
                "this end speaks version {ours} of the protocol, the other end version {theirs}; run the same version of \
                 sockeye on both"
            ),
            Self::Iperf3Server => f.write_str("the other end is an iperf3 server; add --iperf3"),
            Self::ForeignServer(bytes) => write!(
                f,
                "the other end does not speak this protocol (it sent {:?}); is it `sockeye bench serve` that listens on \
                 this port?",
                String::from_utf8_lossy(&bytes[..bytes.len().min(FOREIGN_MAX)])
            ),
            Self::ForeignClient(bytes) => write!(
                f,
                "not a client of `sockeye bench` (it sent {:?})",
                String::from_utf8_lossy(&bytes[..bytes.len().min(FOREIGN_MAX)])
            ),
            Self::ClosedAtOnce(_) => f.write_str(
                "the other end closed the connection instead of answering; is it `sockeye bench serve` that listens on this \
                 port? (An iperf3 server takes --iperf3.)",
            ),
            Self::Rejected(text) => write!(f, "the other end refused: {text}"),
            Self::Timeout(what, after) => {
                write!(
                    f,
                    "the other end sent nothing for {after:.1?}; expected {what}"
                )
            }
            Self::Disconnected(None) => f.write_str("the other end closed the connection"),
            Self::Disconnected(Some(errno)) => write!(f, "the connection to the other end broke: {errno}"),
            Self::Malformed(what) => write!(f, "the other end sent something invalid: {what}"),
            Self::Congestion { name, errno, known } => write!(
                f,
                "set the congestion control {name:?}: {errno}; there are {known} (modprobe tcp_NAME loads others)"
            ),
            Self::NoProcessor(number) => write!(
                f,
                "there is no processor {number}; nproc prints how many there are"
            ),
            Self::SecretWanted => {
                f.write_str("the other end wants to know its secret; name the file that has it by --secret-file")
            }
            Self::SecretUnknown => f.write_str(
                "the other end has no secret, so it cannot prove that it is the right one; start it with --secret-file, \
                 or leave the option out here",
            ),
            Self::WrongSecret => {
                f.write_str("the secrets of the two ends differ; compare the files of --secret-file")
            }
            Self::NoSecretInIperf3 => {
                f.write_str("iperf3's clients are not served: their protocol has no place for the secret")
            }
            Self::NotIperf3 => f.write_str("not an iperf3 client (--iperf3 takes no other)"),
            Self::Full(what, limit) => write!(
                f,
                "the limit of {what} is reached (at most {limit} for one address, and fewer while others use many); try \
                 again later"
            ),
            Self::Evicted => f.write_str("it was idle or slow while others needed its place"),
            Self::TooLong(limit) => write!(
                f,
                "a test may take {} s here at most (`sockeye bench serve --time-limit` allows more)",
                limit.as_secs_f64()
            ),
            Self::Flood => f.write_str("it sent more messages than a test needs"),
            Self::System(operation, errno) => write!(f, "{operation}: {errno}{}", hint(*errno)),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}

/// Returns what to try after this errno, beginning with `; `; empty if unknown.
pub(crate) fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::MFILE => "; raise the limit of open files (ulimit -n), or use fewer streams",
        Errno::NFILE => "; the system is out of open files (sysctl fs.file-max)",
        Errno::NETUNREACH | Errno::HOSTUNREACH => "; `ip route get ADDRESS` shows the route",
        Errno::ADDRNOTAVAIL => "; is it an address of this host, and are local ports left?",
        Errno::ADDRINUSE => {
            "; a process listens there already: choose another port by -p, or find it with `sockeye sockets -lnp`"
        }
        Errno::ACCESS => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE in the user namespace that owns the network namespace, as root there has"
        }
        Errno::PERM => "; a firewall of this host forbids it (nft list ruleset)",
        _ => "",
    }
}

const FOREIGN_MAX: usize = 40;
