//! Errors of building and using a tunnel.

use rustix::io::Errno;
use sockeye_act::RouteError;
use sockeye_sys::proc_mount;
use sockeye_sys::rights::{self, CheckedIn};
use std::borrow::Cow;
use std::fmt;

/// A failed step of building or using a tunnel, and the kernel's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The step that failed.
    pub(crate) step: Step,
    /// The kernel's error.
    pub(crate) refusal: RouteError,
}

/// The steps of building and using a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // described by their texts
pub enum Step {
    Namespace,
    Enter,
    Pair,
    Device,
    Offload,
    Address,
    QueueLength,
    Carrier,
    Forwarder,
    Listen,
    Connect,
    Accept,
    Congestion,
}

impl Step {
    pub(super) fn failed(self, refusal: impl Into<RouteError>) -> Failure {
        Failure {
            step: self,
            refusal: refusal.into(),
        }
    }

    pub(super) fn failed_io(self, error: &std::io::Error) -> Failure {
        let errno = Errno::from_io_error(error).unwrap_or(if error.kind() == std::io::ErrorKind::TimedOut {
            Errno::TIMEDOUT
        } else {
            Errno::IO
        });
        self.failed(errno)
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Namespace => "make a network namespace",
            Self::Enter => "enter a network namespace of our own",
            Self::Pair => "make a veth pair",
            Self::Device => "make a device by /dev/net/tun",
            Self::Offload => "switch on offload at a TUN device (TUNSETOFFLOAD)",
            Self::Address => "give an address to an interface",
            Self::QueueLength => "set the queue length of a device",
            Self::Carrier => "open the UDP sockets of the tunnel",
            Self::Forwarder => "start a thread",
            Self::Listen => "listen in a namespace of our own",
            Self::Connect => "connect through the tunnel",
            Self::Accept => "accept a connection through the tunnel",
            Self::Congestion => "set the congestion control",
        }
    }
}

impl Failure {
    /// Returns what may help.
    #[must_use]
    pub fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match (self.refusal.errno, self.step) {
            (Errno::PERM | Errno::ACCESS, Step::Congestion) => {
                let remedy = rights::remedy("CAP_NET_ADMIN", CheckedIn::OwnerOfNetns);
                return Some(
                    format!(
                        "only those in `sysctl net.ipv4.tcp_allowed_congestion_control` are for all users: {remedy}"
                    )
                    .into(),
                );
            }
            (Errno::PERM | Errno::ACCESS, Step::Namespace | Step::Enter) => {
                let remedy = rights::remedy("them", CheckedIn::Initial);
                return Some(
                    format!(
                        "needs CAP_SYS_ADMIN and CAP_NET_ADMIN: {remedy}, as in `sudo sockeye bench tun`; inside a container \
                         that takes `--cap-add SYS_ADMIN --cap-add NET_ADMIN --device /dev/net/tun`"
                    )
                    .into(),
                );
            }
            (Errno::PERM | Errno::ACCESS, _) => {
                let remedy = rights::remedy("CAP_NET_ADMIN", CheckedIn::OwnerOfNetns);
                return Some(format!("needs CAP_NET_ADMIN: {remedy}").into());
            }
            (Errno::NOENT, Step::Namespace | Step::Enter) if proc_mount::problem().is_some() => {
                return proc_mount::problem().map(|problem| problem.to_string().into());
            }
            (Errno::NOSPC, Step::Namespace) => {
                "there are as many as user.max_net_namespaces allows: `sysctl -w user.max_net_namespaces=N` raises it"
            }
            (Errno::NOENT | Errno::NODEV | Errno::NXIO, Step::Device) => {
                "is there a /dev/net/tun? `modprobe tun` loads the driver; inside a container: `--device /dev/net/tun`"
            }
            (Errno::OPNOTSUPP, Step::Pair) => "this kernel has no veth: `modprobe veth`",
            (Errno::NOENT, Step::Congestion) => {
                "`sysctl net.ipv4.tcp_available_congestion_control` lists those there are; `modprobe tcp_NAME` may add it"
            }
            (Errno::MFILE, _) => "too many open files: `ulimit -n N` raises the limit",
            (Errno::NOMEM, _) => "the kernel is out of memory, or of its cgroup's share",
            _ => return None,
        };
        Some(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step.text(), self.refusal)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.refusal)
    }
}
