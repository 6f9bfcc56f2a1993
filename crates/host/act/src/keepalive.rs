//! Reads and sets `SO_KEEPALIVE`, `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT` and `TCP_USER_TIMEOUT` on
//! borrowed sockets, for `keepalive list`, `set` and `unset`.

use crate::borrow::BorrowedSocket;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::fmt;
use std::time::Duration;

/// TCP keepalive settings: when idle connections are probed, and when they are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle seconds before the first probe (`TCP_KEEPIDLE`).
    pub time_s: u32,
    /// Seconds between probes (`TCP_KEEPINTVL`).
    pub interval_s: u32,
    /// Number of unanswered probes after which the connection is closed (`TCP_KEEPCNT`).
    pub probes: u32,
    /// Longest time in milliseconds that data or a probe may stay unacknowledged (`TCP_USER_TIMEOUT`); 0 for the
    /// system's default; `None` to leave it unchanged.
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

/// A change of keepalive settings; fields that are `None` stay unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeepaliveChange {
    /// As in [`Keepalive`].
    pub time_s: Option<u32>,
    /// As in [`Keepalive`].
    pub interval_s: Option<u32>,
    /// As in [`Keepalive`].
    pub probes: Option<u32>,
    /// As in [`Keepalive`].
    pub user_timeout_ms: Option<u32>,
}

/// The keepalive settings in effect on a socket: its own, or the system's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveKeepalive {
    /// Whether keepalive is on (`SO_KEEPALIVE`).
    pub is_on: bool,
    /// The times; the user timeout is `None` if the kernel does not report it (MPTCP).
    pub times: Keepalive,
}

/// A failed call on a socket option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptionError {
    /// Name of the option in the kernel's headers.
    pub option: &'static str,
    /// The errno of `getsockopt(2)` or `setsockopt(2)`.
    pub errno: Errno,
}

impl BorrowedSocket {
    /// Returns the keepalive settings in effect on this TCP socket.
    ///
    /// # Errors
    /// `EOPNOTSUPP` or `ENOPROTOOPT` if it is not a TCP socket.
    pub fn keepalive(&self) -> Result<EffectiveKeepalive, SocketOptionError> {
        let fd = &self.fd;
        Ok(EffectiveKeepalive {
            is_on: sockopt::socket_keepalive(fd).map_err(at("SO_KEEPALIVE"))?,
            times: Keepalive {
                time_s: seconds(sockopt::tcp_keepidle(fd).map_err(at("TCP_KEEPIDLE"))?),
                interval_s: seconds(sockopt::tcp_keepintvl(fd).map_err(at("TCP_KEEPINTVL"))?),
                probes: sockopt::tcp_keepcnt(fd).map_err(at("TCP_KEEPCNT"))?,
                user_timeout_ms: match sockopt::tcp_user_timeout(fd) {
                    // MPTCP does not report it.
                    Err(Errno::OPNOTSUPP | Errno::NOPROTOOPT) => None,
                    read => Some(read.map_err(at("TCP_USER_TIMEOUT"))?),
                },
            },
        })
    }

    /// Turns keepalive on, with the change that `change` makes from the current settings. Returns the previous
    /// settings. The times are set first, so that keepalive never runs with other times; if one of them fails, the ones
    /// before it are restored.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn set_keepalive(
        &self,
        change: impl FnOnce(&EffectiveKeepalive) -> KeepaliveChange,
    ) -> Result<EffectiveKeepalive, SocketOptionError> {
        let before = self.keepalive()?;
        let change = change(&before);
        let done = self
            .apply(&change)
            .and_then(|()| sockopt::set_socket_keepalive(&self.fd, true).map_err(at("SO_KEEPALIVE")));
        let Err(failure) = done else {
            return Ok(before);
        };
        // Not exact: where the system's default applied, the socket now has that value as its own.
        let _ = self.apply(&KeepaliveChange {
            time_s: change.time_s.and(Some(before.times.time_s)),
            interval_s: change.interval_s.and(Some(before.times.interval_s)),
            probes: change.probes.and(Some(before.times.probes)),
            user_timeout_ms: change.user_timeout_ms.and(before.times.user_timeout_ms),
        });
        Err(failure)
    }

    /// Turns keepalive off; its times stay unchanged. With `all` the user timeout is reset to the system's default.
    /// Returns whether the socket still has a user timeout.
    ///
    /// # Errors
    /// The call that failed; nothing is changed then.
    pub fn unset_keepalive(&self, all: bool) -> Result<bool, SocketOptionError> {
        if all {
            sockopt::set_tcp_user_timeout(&self.fd, 0).map_err(at("TCP_USER_TIMEOUT"))?;
        }
        sockopt::set_socket_keepalive(&self.fd, false).map_err(at("SO_KEEPALIVE"))?;
        // MPTCP does not report it.
        Ok(!all && sockopt::tcp_user_timeout(&self.fd).is_ok_and(|ms| ms > 0))
    }

    fn apply(&self, change: &KeepaliveChange) -> Result<(), SocketOptionError> {
        let fd = &self.fd;
        let duration = |seconds: u32| Duration::from_secs(seconds.into());
        if let Some(time) = change.time_s {
            sockopt::set_tcp_keepidle(fd, duration(time)).map_err(at("TCP_KEEPIDLE"))?;
        }
        if let Some(interval) = change.interval_s {
            sockopt::set_tcp_keepintvl(fd, duration(interval)).map_err(at("TCP_KEEPINTVL"))?;
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

impl fmt::Display for SocketOptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.option, self.errno)
    }
}

impl std::error::Error for SocketOptionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
    }
}

fn at(option: &'static str) -> impl Fn(Errno) -> SocketOptionError {
    move |errno| SocketOptionError { option, errno }
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketOwner;
    use sockeye_model::{Fd, Inode, Pid};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;

    fn inode(fd: &impl std::os::fd::AsFd) -> Inode {
        Inode(u32::try_from(rustix::fs::fstat(fd).unwrap().st_ino).unwrap())
    }

    fn borrow(socket: &(impl std::os::fd::AsFd + AsRawFd)) -> BorrowedSocket {
        let owner = SocketOwner::open(Pid(std::process::id())).unwrap();
        let fd = Fd(u32::try_from(socket.as_raw_fd()).unwrap());
        owner.borrow(fd, inode(socket)).unwrap().unwrap()
    }

    #[test]
    fn settings_are_read_back() {
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
        let change = KeepaliveChange {
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
        // Fields that are not given stay; a user timeout is reported, and reset with `all`.
        let timeout = KeepaliveChange {
            user_timeout_ms: Some(900),
            ..KeepaliveChange::default()
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
    fn failed_change_is_rolled_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let borrowed = borrow(&listener);
        let before = borrowed.keepalive().unwrap();
        let bad = KeepaliveChange {
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
        let owner = SocketOwner::open(Pid(std::process::id())).unwrap();
        let fd = Fd(u32::try_from(socket.as_raw_fd()).unwrap());
        let other = Inode(inode(&socket).0.wrapping_add(1));
        assert!(owner.borrow(fd, other).unwrap().is_none());
        assert!(owner.borrow(Fd(u32::MAX >> 1), other).unwrap().is_none());
        assert!(borrow(&socket).keepalive().is_err(), "UDP has no keepalive");
        assert!(
            SocketOwner::open(Pid(u32::MAX))
                .unwrap()
                .borrow(fd, other)
                .unwrap()
                .is_none()
        );
    }
}
