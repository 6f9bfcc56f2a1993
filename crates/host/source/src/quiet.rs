//! Repeated walks over the same sockets: a connection to which nothing has happened since the walk before need not be read again.

use sockeye_model::{Cookie, NetnsInode};
use sockeye_wire::walk::Quiet;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};

/// A walk over TCP's connections that leaves out what an earlier one has read, if nothing has happened to it since. What it leaves out
/// is noted here, and not passed on. Only a walk by BPF in one network namespace does so, of a query with `tcp_info` and without bounds
/// on the endpoints; any other source passes all sockets on.
///
/// Nothing has happened if no segment was received, no sending was attempted, and no timer has expired; and nothing is queued in either
/// direction. Of such a connection state, queues, and all of `tcp_info` but ages and options are as before. What a system call
/// changes is not seen: its user, its cgroup, its interface, its options, and which processes own it.
#[derive(Debug)]
pub struct QuietWalk {
    /// 0: every socket is read.
    since_us: u64,
    /// The only buckets to walk over.
    buckets: Option<Vec<u32>>,
    seen: Mutex<QuietSeen>,
}

/// What a walk left out.
#[derive(Debug, Default)]
pub struct QuietSeen {
    /// When the walk began, for the next one; `None` if there was none, or it was not complete.
    pub began: Option<WalkTime>,
    /// The connections that it left out, each once or, if it was moved meanwhile, twice.
    pub sockets: Vec<QuietSocket>,
}

/// When a walk began: microseconds of the kernel's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkTime(NonZeroU64);

/// A connection that a walk left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietSocket {
    /// Its cookie.
    pub cookie: Cookie,
    /// Its network namespace.
    pub netns: NetnsInode,
    /// The bucket in which it is found again.
    pub bucket: u32,
}

impl QuietWalk {
    /// A walk that reads every socket, for the first time.
    #[must_use]
    pub fn whole() -> Self {
        Self::new(0, None)
    }

    /// A walk that leaves out what has not changed since the walk that began then.
    #[must_use]
    pub fn since(began: WalkTime) -> Self {
        Self::new(began.0.get().saturating_sub(MARGIN_US), None)
    }

    /// A walk over these buckets only, which reads every connection in them.
    #[must_use]
    pub fn over(buckets: Vec<u32>) -> Self {
        Self::new(0, Some(buckets))
    }

    fn new(since_us: u64, buckets: Option<Vec<u32>>) -> Self {
        Self {
            since_us,
            buckets,
            seen: Mutex::default(),
        }
    }

    /// Returns what was left out.
    #[must_use]
    pub fn into_seen(self) -> QuietSeen {
        self.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn since_us(&self) -> u64 {
        self.since_us
    }

    pub(crate) fn buckets(&self) -> Option<&[u32]> {
        self.buckets.as_deref()
    }

    /// Notes what a walk has left out. `ktime_ns`: when it began; `None` if it is not complete.
    pub(crate) fn note(&self, ktime_ns: Option<u64>, sockets: Vec<QuietSocket>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.began = ktime_ns.and_then(|ns| NonZeroU64::new(ns / 1000)).map(WalkTime);
        seen.sockets = sockets;
    }
}

impl QuietSocket {
    pub(crate) fn of(quiet: &Quiet) -> Self {
        Self {
            cookie: Cookie(quiet.cookie),
            netns: NetnsInode(quiet.netns),
            bucket: quiet.bucket,
        }
    }
}

/// How long the kernel may take from the time that it notes in a socket to the end of what happens then. Meanwhile the walk reads old values.
/// It is microseconds, unless the process in whose name it happens is interrupted.
const MARGIN_US: u64 = 200_000;
