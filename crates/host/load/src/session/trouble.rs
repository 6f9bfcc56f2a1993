//! What goes wrong between two ends.

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why there is no session, or no longer one.
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
    /// Both ends speak our protocol, in different versions.
    Version {
        /// What this program speaks
        ours: u8,
        /// What the other end speaks
        theirs: u8,
    },
    /// The other end speaks something else; its first bytes.
    Foreign(Vec<u8>),
    /// A client does; its first bytes.
    Stranger(Vec<u8>),
    /// It is an iperf3 server.
    Iperf3Server,
    /// It closed the connection instead of answering.
    Unwelcome(Option<Errno>),
    /// The other end will not, in its own words.
    Rejected(String),
    /// The other end said nothing for so long.
    Silent(&'static str, Duration),
    /// The other end closed the connection, or it broke.
    Gone(Option<Errno>),
    /// The other end said what makes no sense.
    Nonsense(String),
    /// There is no such congestion control, or it may not be used.
    Congestion {
        /// Its name
        name: String,
        /// Why
        errno: Errno,
        /// Those that there are
        known: String,
    },
    /// There is no such processor.
    Processor(usize),
    /// A system call failed: which, and how.
    System(&'static str, Errno),
    /// It was asked to stop.
    Stopped,
}

impl Trouble {
    /// What an error of reading or writing a connection means.
    #[must_use]
    pub fn of_connection(error: &io::Error) -> Self {
        Self::Gone(Errno::from_io_error(error))
    }

    /// A stable word for reports.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Gone(_) => "peer-gone",
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
            } => {
                write!(f, "find the address of {host}: {error}")?;
                if host.contains(':') {
                    f.write_str("; the port goes by -p")?;
                }
                Ok(())
            }
            Self::Refused(address) => write!(
                f,
                "connect to {address}: connection refused; is `sockeye bench serve` running there, on this port (-p)?"
            ),
            Self::Unanswered(address, after) => write!(
                f,
                "connect to {address}: no answer within {after:?}; is the host up, and does a firewall between let TCP \
                 port {} through?",
                address.port()
            ),
            Self::Connect(SocketAddr::V6(address), Errno::INVAL)
                if address.ip().is_unicast_link_local() && address.scope_id() == 0 =>
            {
                let ip = address.ip();
                write!(
                    f,
                    "connect to {address}: an address of a link needs its device, like {ip}%eth0"
                )
            }
            Self::Connect(address, errno) => write!(f, "connect to {address}: {errno}{}", hint(*errno)),
            Self::Version { ours, theirs } => write!(
                f,
                "this end speaks version {ours} of the protocol, the other end version {theirs}; run the same version of \
                 sockeye on both"
            ),
            Self::Iperf3Server => f.write_str("the other end is an iperf3 server; add --iperf3"),
            Self::Foreign(bytes) => write!(
                f,
                "the other end does not speak this protocol (it said {:?}); is it `sockeye bench serve` that listens on \
                 this port?",
                String::from_utf8_lossy(&bytes[..bytes.len().min(FOREIGN_MAX)])
            ),
            Self::Stranger(bytes) => write!(
                f,
                "not a client of `sockeye bench` (it said {:?})",
                String::from_utf8_lossy(&bytes[..bytes.len().min(FOREIGN_MAX)])
            ),
            Self::Unwelcome(_) => f.write_str(
                "the other end closed the connection instead of answering; is it `sockeye bench serve` that listens on this \
                 port? (An iperf3 server takes --iperf3.)",
            ),
            Self::Rejected(text) => write!(f, "the other end refused: {text}"),
            Self::Silent(what, after) => {
                write!(
                    f,
                    "the other end said nothing for {after:?}, where {what} should have come"
                )
            }
            Self::Gone(None) => f.write_str("the other end closed the connection"),
            Self::Gone(Some(errno)) => write!(f, "the connection to the other end broke: {errno}"),
            Self::Nonsense(what) => write!(f, "the other end said what makes no sense: {what}"),
            Self::Congestion { name, errno, known } => write!(
                f,
                "set the congestion control {name:?}: {errno}; there are {known} (modprobe tcp_NAME loads others)"
            ),
            Self::Processor(number) => write!(
                f,
                "there is no processor {number} to stay on; nproc tells how many there are"
            ),
            Self::System(operation, errno) => write!(f, "{operation}: {errno}{}", hint(*errno)),
            Self::Stopped => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Trouble {}

/// What to try, behind a `; `, where something can be.
pub fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::MFILE => "; raise the limit of open files (ulimit -n), or use fewer streams",
        Errno::NFILE => "; the system is out of open files (sysctl fs.file-max)",
        Errno::NETUNREACH | Errno::HOSTUNREACH => "; `ip route get ADDRESS` tells which way it would go",
        Errno::ADDRNOTAVAIL => "; is it an address of this host, and are local ports left?",
        Errno::ADDRINUSE => {
            "; something listens there already: another port by -p, or `sockeye sockets -lnp` tells what"
        }
        Errno::ACCESS => "; ports below 1024 need root or CAP_NET_BIND_SERVICE",
        Errno::PERM => "; a firewall of this host forbids it (nft list ruleset)",
        _ => "",
    }
}

const FOREIGN_MAX: usize = 40;
