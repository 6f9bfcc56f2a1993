use crate::holder::Borrowed;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::fmt;
use std::time::Duration;

/// When TCP asks a silent peer whether it is still there, and when it gives it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Seconds of silence before the first probe (`TCP_KEEPIDLE`).
    pub time_s: u32,
    /// Seconds between probes (`TCP_KEEPINTVL`).
    pub interval_s: u32,
    /// So many probes without an answer end the connection (`TCP_KEEPCNT`).
    pub probes: u32,
    /// How long what was sent, or a probe, may stay unanswered (`TCP_USER_TIMEOUT`), in milliseconds; 0: as the system
    /// has it. `None`: as it is.
    pub user_timeout_ms: Option<u32>,
}

impl Keepalive {
    /// The longest time and interval: `MAX_TCP_KEEPIDLE` and `MAX_TCP_KEEPINTVL` of `include/net/tcp.h`.
    pub const SECONDS_MAX: u32 = 32767;
    /// The most probes: `MAX_TCP_KEEPCNT`.
    pub const PROBES_MAX: u32 = 127;
    /// The longest user timeout: it is an `int`.
    pub const USER_TIMEOUT_MS_MAX: u32 = i32::MAX as u32;
}

/// What is to be changed; what is `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// As of [`Keepalive`].
    pub time_s: Option<u32>,
    /// As of [`Keepalive`].
    pub interval_s: Option<u32>,
    /// As of [`Keepalive`].
    pub probes: Option<u32>,
    /// As of [`Keepalive`].
    pub user_timeout_ms: Option<u32>,
}

/// How a socket has it, the system's settings counted in where it has none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effective {
    /// Whether it asks at all (`SO_KEEPALIVE`).
    pub is_on: bool,
    /// When; without a user timeout where the kernel does not tell it (MPTCP).
    pub times: Keepalive,
}

/// Which call failed, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionFailure {
    /// The option as the kernel's headers call it.
    pub option: &'static str,
    /// The errno of `getsockopt(2)` or `setsockopt(2)`.
    pub errno: Errno,
}

impl Borrowed {
    /// How this TCP socket has it.
    ///
    /// # Errors
    /// `EOPNOTSUPP` or `ENOPROTOOPT` where it is no TCP socket.
    pub fn keepalive(&self) -> Result<Effective, OptionFailure> {
        let fd = &self.fd;
        Ok(Effective {
            is_on: sockopt::socket_keepalive(fd).map_err(at("SO_KEEPALIVE"))?,
            times: Keepalive {
                time_s: seconds(sockopt::tcp_keepidle(fd).map_err(at("TCP_KEEPIDLE"))?),
                interval_s: seconds(sockopt::tcp_keepintvl(fd).map_err(at("TCP_KEEPINTVL"))?),
                probes: sockopt::tcp_keepcnt(fd).map_err(at("TCP_KEEPCNT"))?,
                user_timeout_ms: match sockopt::tcp_user_timeout(fd) {
                    // MPTCP keeps it to itself.
                    Err(Errno::OPNOTSUPP | Errno::NOPROTOOPT) => None,
                    read => Some(read.map_err(at("TCP_USER_TIMEOUT"))?),
                },
            },
        })
    }

    /// Has it ask, with what `change` makes of how it had it; how it had it. The times come first, so that it never asks
    /// at others; if one of them is refused, those before it are put back.
    ///
    /// # Errors
    /// What the first call that failed said.
    pub fn set_keepalive(
        &self,
        change: impl FnOnce(&Effective) -> Change,
    ) -> Result<Effective, OptionFailure> {
        let before = self.keepalive()?;
        let change = change(&before);
        let done = self
            .make(&change)
            .and_then(|()| sockopt::set_socket_keepalive(&self.fd, true).map_err(at("SO_KEEPALIVE")));
        let Err(failure) = done else {
            return Ok(before);
        };
        // As well as can be: where the system's setting held, its value is now the socket's own.
        let _ = self.make(&Change {
            time_s: change.time_s.and(Some(before.times.time_s)),
            interval_s: change.interval_s.and(Some(before.times.interval_s)),
            probes: change.probes.and(Some(before.times.probes)),
            user_timeout_ms: change.user_timeout_ms.and(before.times.user_timeout_ms),
        });
        Err(failure)
    }

    /// Has it ask no more; its times stay as they are. The user timeout goes back to the system's with `all`, and stays
    /// otherwise. Whether it has one then.
    ///
    /// # Errors
    /// What the call said, and nothing is changed.
    pub fn unset_keepalive(&self, all: bool) -> Result<bool, OptionFailure> {
        if all {
            sockopt::set_tcp_user_timeout(&self.fd, 0).map_err(at("TCP_USER_TIMEOUT"))?;
        }
        sockopt::set_socket_keepalive(&self.fd, false).map_err(at("SO_KEEPALIVE"))?;
        // MPTCP keeps it to itself.
        Ok(!all && sockopt::tcp_user_timeout(&self.fd).is_ok_and(|ms| ms > 0))
    }

    fn make(&self, change: &Change) -> Result<(), OptionFailure> {
        let fd = &self.fd;
        let whole = |seconds: u32| Duration::from_secs(seconds.into());
        if let Some(time) = change.time_s {
            sockopt::set_tcp_keepidle(fd, whole(time)).map_err(at("TCP_KEEPIDLE"))?;
        }
        if let Some(interval) = change.interval_s {
            sockopt::set_tcp_keepintvl(fd, whole(interval)).map_err(at("TCP_KEEPINTVL"))?;
        }
        if let Some(probes) = change.probes {
            sockopt::set_tcp_keepcnt(fd, probes).map_err(at("TCP_KEEPCNT"))?;
        }
        if let Some(ms) = change.user_timeout_ms {
            sockopt::set_tcp_user_timeout(fd, ms).map_err(at("TCP_USER_TIMEOUT"))?;
        }
        Ok(())
    }
}

impl fmt::Display for OptionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.option, self.errno)
    }
}

impl std::error::Error for OptionFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
    }
}

fn at(option: &'static str) -> impl Fn(Errno) -> OptionFailure {
    move |errno| OptionFailure { option, errno }
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Holder;
    use sockeye_model::{Fd, Inode, Pid};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;

    fn inode(fd: &impl std::os::fd::AsFd) -> Inode {
        Inode(u32::try_from(rustix::fs::fstat(fd).unwrap().st_ino).unwrap())
    }

    fn borrow(socket: &(impl std::os::fd::AsFd + AsRawFd)) -> Borrowed {
        let holder = Holder::open(Pid(std::process::id())).unwrap();
        let fd = Fd(u32::try_from(socket.as_raw_fd()).unwrap());
        holder.borrow(fd, inode(socket)).unwrap().unwrap()
    }

    #[test]
    fn what_is_set_is_what_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let borrowed = borrow(&client);
        let before = borrowed.keepalive().unwrap();
        assert!(!before.is_on);
        let times = Keepalive {
            time_s: 61,
            interval_s: 7,
            probes: 5,
            user_timeout_ms: None,
        };
        let change = Change {
            time_s: Some(61),
            interval_s: Some(7),
            probes: Some(5),
            user_timeout_ms: None,
        };
        assert_eq!(borrowed.set_keepalive(|_| change).unwrap(), before);
        let after = borrowed.keepalive().unwrap();
        assert!(after.is_on);
        assert_eq!(
            after.times,
            Keepalive {
                user_timeout_ms: Some(0),
                ..times
            }
        );
        assert!(!borrowed.unset_keepalive(false).unwrap());
        assert!(!borrowed.keepalive().unwrap().is_on);
        assert_eq!(borrowed.keepalive().unwrap().times, after.times);
        // What is not given stays, and the user timeout is told of, and goes if that is wanted.
        let timeout = Change {
            user_timeout_ms: Some(900),
            ..Change::default()
        };
        borrowed.set_keepalive(|_| timeout).unwrap();
        let with_timeout = Keepalive {
            user_timeout_ms: Some(900),
            ..times
        };
        assert_eq!(borrowed.keepalive().unwrap().times, with_timeout);
        assert!(borrowed.unset_keepalive(false).unwrap());
        assert!(!borrowed.unset_keepalive(true).unwrap());
        assert_eq!(borrowed.keepalive().unwrap().times, after.times);
    }

    #[test]
    fn a_refused_time_leaves_nothing_half_done() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let borrowed = borrow(&listener);
        let before = borrowed.keepalive().unwrap();
        let bad = Change {
            time_s: Some(9),
            interval_s: Some(9),
            probes: Some(Keepalive::PROBES_MAX + 1),
            user_timeout_ms: None,
        };
        let failure = borrowed.set_keepalive(|_| bad).unwrap_err();
        assert_eq!((failure.option, failure.errno), ("TCP_KEEPCNT", Errno::INVAL));
        assert_eq!(borrowed.keepalive().unwrap(), before);
    }

    #[test]
    fn another_socket_is_not_borrowed() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let holder = Holder::open(Pid(std::process::id())).unwrap();
        let fd = Fd(u32::try_from(socket.as_raw_fd()).unwrap());
        let other = Inode(inode(&socket).0.wrapping_add(1));
        assert!(holder.borrow(fd, other).unwrap().is_none());
        assert!(holder.borrow(Fd(u32::MAX >> 1), other).unwrap().is_none());
        assert!(borrow(&socket).keepalive().is_err(), "UDP has no keepalive");
        assert!(
            Holder::open(Pid(u32::MAX))
                .unwrap()
                .borrow(fd, other)
                .unwrap()
                .is_none()
        );
    }
}
