//! Repeats a dump that the kernel interrupted, and drops the sockets that were passed on already.

use crate::dump::DumpStatus;
use crate::outcome::Reason;
use sockeye_model::{Losses, Protocol, Socket};
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Runs `dump` until it is not interrupted, at most [`TRIES`] times, and counts what went wrong.
///
/// # Errors
/// When a dump fails before the first socket, so that the caller can fall back to another source. A later failure is
/// counted and returned as [`Ending::Failed`]: no socket must be listed twice.
pub(crate) fn until_complete(
    seen: &mut Seen,
    losses: &mut Losses,
    mut dump: impl FnMut(&mut Seen) -> DumpStatus,
) -> Result<Ending, Reason> {
    for tries in 1..=TRIES {
        let status = dump(seen);
        losses.overruns += status.overruns;
        losses.truncated_messages += status.truncated;
        losses.broken_records += status.broken;
        if status.stopped {
            return Ok(Ending::Stopped);
        }
        match status.failure {
            Some(reason) if seen.is_empty() => return Err(reason),
            Some(reason) => {
                losses.incomplete_dumps += 1;
                return Ok(Ending::Failed(reason));
            }
            None if !status.interrupted => return Ok(Ending::Complete),
            None if tries < TRIES => {
                losses.repeated_dumps += 1;
                seen.remember();
            }
            None => {}
        }
    }
    losses.incomplete_dumps += 1;
    Ok(Ending::Interrupted)
}

/// How a dump ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All sockets were passed on.
    Complete,
    /// The caller stopped it.
    Stopped,
    /// The kernel interrupted every try: sockets may be missing.
    Interrupted,
    /// It failed after the first socket.
    Failed(Reason),
}

/// The sockets that were passed on: 8 bytes each, and a hash table only when sockets may repeat.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whether a socket may come again.
    repeats: bool,
    /// Sockets that came while none could repeat.
    order: Vec<u64>,
    set: HashSet<u64>,
}

impl Seen {
    /// An empty set for a source that may report a socket twice.
    pub(crate) fn with_repeats() -> Self {
        Self {
            repeats: true,
            ..Self::default()
        }
    }

    /// Adds `socket`; returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, socket: &Socket) -> bool {
        let Some(identity) = identity(socket) else {
            return true;
        };
        if self.repeats {
            return self.set.insert(identity);
        }
        self.order.push(identity);
        true
    }

    /// Prepares for a dump that may repeat all sockets so far.
    fn remember(&mut self) {
        self.repeats = true;
        self.set.extend(self.order.drain(..));
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty() && self.set.is_empty()
    }
}

/// A hash that identifies the socket: its cookie, which is never reused, else what distinguishes sockets of procfs. `None`
/// if nothing distinguishes it.
#[inline]
fn identity(socket: &Socket) -> Option<u64> {
    if let Some(cookie) = socket.cookie {
        return Some(cookie.0);
    }
    let mut hasher = DefaultHasher::new();
    match (socket.protocol, socket.inode) {
        // TCP sockets in TIME_WAIT and SYN_RECV have no inode, but their endpoints are unique. So are those of NETLINK
        // sockets.
        (Protocol::Tcp | Protocol::Netlink, inode) => {
            (inode, [&socket.local, &socket.peer]).hash(&mut hasher);
        }
        (_, Some(inode)) => inode.hash(&mut hasher),
        // UNIX connections that are not accepted yet all look the same.
        (_, None) => return None,
    }
    Some(hasher.finish())
}

/// Number of tries before a dump counts as incomplete.
const TRIES: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use sockeye_model::{Cookie, Endpoint, State};

    /// Runs against a fake kernel that lists these cookies at each call and returns this status.
    fn check(
        calls: &[(&[u64], DumpStatus)],
        listed: &[u64],
        ending: &Result<Ending, Reason>,
        losses: &Losses,
    ) {
        let (mut seen, mut counted, mut out) = (Seen::default(), Losses::default(), Vec::new());
        let mut calls = calls.iter();
        let found = until_complete(&mut seen, &mut counted, |seen| {
            let (cookies, status) = calls.next().expect("no more calls than expected");
            for &cookie in *cookies {
                let mut socket = Socket::new(Protocol::Tcp, State::Established);
                socket.cookie = Some(Cookie(cookie));
                if seen.insert(&socket) {
                    out.push(cookie);
                }
            }
            status.clone()
        });
        assert_eq!((&found, &counted), (ending, losses));
        assert_eq!(out, listed);
        assert!(calls.next().is_none(), "as many calls as expected");
    }

    fn interrupted() -> DumpStatus {
        DumpStatus {
            interrupted: true,
            ..DumpStatus::default()
        }
    }

    #[test]
    fn repeated_dump_adds_only_missed_sockets() {
        let losses = Losses {
            repeated_dumps: 1,
            ..Losses::default()
        };
        let calls = [
            (&[1, 2][..], interrupted()),
            (&[2, 3, 1, 4], DumpStatus::default()),
        ];
        check(&calls, &[1, 2, 3, 4], &Ok(Ending::Complete), &losses);
    }

    #[test]
    fn four_interruptions_are_an_incomplete_dump() {
        let losses = Losses {
            repeated_dumps: 3,
            incomplete_dumps: 1,
            ..Losses::default()
        };
        let calls: Vec<_> = (0..4).map(|_| (&[7][..], interrupted())).collect();
        check(&calls, &[7], &Ok(Ending::Interrupted), &losses);
    }

    #[test]
    fn failure_is_an_error_only_before_the_first_socket() {
        let reason = Reason::System("receive", Errno::AGAIN);
        let failed = DumpStatus {
            failure: Some(reason.clone()),
            overruns: 1,
            ..DumpStatus::default()
        };
        let overrun = Losses {
            overruns: 1,
            ..Losses::default()
        };
        check(&[(&[], failed.clone())], &[], &Err(reason.clone()), &overrun);
        let losses = Losses {
            incomplete_dumps: 1,
            ..overrun
        };
        check(&[(&[5], failed)], &[5], &Ok(Ending::Failed(reason)), &losses);
    }

    #[test]
    fn stopped_dump_counts_losses_and_is_not_repeated() {
        let status = DumpStatus {
            interrupted: true,
            overruns: 1,
            truncated: 2,
            broken: 3,
            stopped: true,
            failure: None,
        };
        let losses = Losses {
            overruns: 1,
            truncated_messages: 2,
            broken_records: 3,
            ..Losses::default()
        };
        check(&[(&[1], status)], &[1], &Ok(Ending::Stopped), &losses);
    }

    #[test]
    fn socket_without_cookie_is_listed_once() {
        let mut seen = Seen::with_repeats();
        let mut socket = Socket::new(Protocol::Netlink, State::Close);
        socket.local = Endpoint::Netlink {
            protocol: 0,
            port: 9,
            group: None,
        };
        assert!(seen.insert(&socket));
        assert!(
            !seen.insert(&socket),
            "identified by its endpoints if there is no cookie"
        );
    }
}
