//! Reverse look-ups for names in output (`SystemNames`), and `resolve`, by which filters look up a host. The
//! system resolver can block without limit, so it runs on threads of its own, and callers have a deadline.

use super::append_only_map::AppendOnlyMap;
use dns_lookup::{LookupErrorKind, getnameinfo};
use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::{fmt, io, thread};

/// Host names, looked up by several threads at once and cached.
///
/// No call waits for a resolver without limit: [`Hosts::host`] returns what is known, [`Hosts::wait`] returns
/// at its deadline. Slow look-ups keep their thread and continue in the background, so that a later listing of
/// the same program has names that came too late for this one.
#[derive(Debug)]
pub(super) struct Hosts {
    shared: Arc<Shared>,
}

/// The result of a resolver for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostLookup {
    /// A name, unchecked: not to be trusted.
    Name(String),
    /// The address has no name.
    NoName,
    /// The look-up failed.
    Failed,
}

/// The state of the look-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCounts {
    /// Addresses with a name.
    pub named: usize,
    /// Addresses without a name.
    pub nameless: usize,
    /// Failed look-ups, and invalid names.
    pub failed: usize,
    /// Look-ups without a result yet; after `Hosts::wait`, those that missed the deadline.
    pub pending: usize,
    /// Addresses that were not looked up because of the limit.
    pub skipped: usize,
}

/// Maximum number of concurrent look-ups. Each mostly waits for a server.
const THREADS_MAX: usize = 32;

/// Maximum number of addresses that one [`Hosts`] looks up.
const ADDRESSES_MAX: usize = 16_384;

/// Enough for glibc's name service modules; most of it is never touched.
const STACK_BYTES: usize = 512 * 1024;

struct Shared {
    resolver: Box<dyn Fn(IpAddr) -> HostLookup + Send + Sync>,
    names: AppendOnlyMap<IpAddr, Box<str>>,
    work: Mutex<Work>,
    done: Condvar,
}

#[derive(Default)]
struct Work {
    queue: VecDeque<IpAddr>,
    asked: HashSet<IpAddr>,
    threads: usize,
    counts: HostCounts,
}

impl Default for Hosts {
    /// Uses the resolver of this host: `/etc/hosts`, then the name servers.
    fn default() -> Self {
        Self::with_resolver(ask_system)
    }
}

impl Hosts {
    /// Uses this function, which several threads call at once.
    pub(crate) fn with_resolver(resolver: impl Fn(IpAddr) -> HostLookup + Send + Sync + 'static) -> Self {
        Self {
            shared: Arc::new(Shared {
                resolver: Box::new(resolver),
                names: AppendOnlyMap::default(),
                work: Mutex::default(),
                done: Condvar::new(),
            }),
        }
    }

    /// Starts to look up these addresses, each once, and returns at once. A v4-mapped address counts as its IPv4
    /// address; the unspecified address has no name.
    pub(crate) fn prefetch(&self, ips: impl IntoIterator<Item = IpAddr>) {
        let mut work = self.shared.lock();
        for ip in ips {
            let ip = ip.to_canonical();
            if ip.is_unspecified() || work.asked.contains(&ip) {
                continue;
            }
            if work.asked.len() >= ADDRESSES_MAX {
                work.counts.skipped += 1;
                continue;
            }
            work.asked.insert(ip);
            work.queue.push_back(ip);
            work.counts.pending += 1;
            if work.threads < THREADS_MAX {
                self.start_thread(&mut work);
            }
        }
    }

    /// Waits until no look-up is pending, at most until the deadline.
    pub(crate) fn wait(&self, deadline: Instant) -> HostCounts {
        let mut work = self.shared.lock();
        while work.counts.pending > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let woken = self.shared.done.wait_timeout(work, left);
            work = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        work.counts
    }

    /// Returns the name of this address; `None` if it has none or is not looked up yet.
    pub(crate) fn host(&self, ip: IpAddr) -> Option<&str> {
        self.shared.names.get(&ip.to_canonical()).map(|name| &**name)
    }

    fn start_thread(&self, work: &mut Work) {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new()
            .name("host-names".to_owned())
            .stack_size(STACK_BYTES);
        match thread.spawn(move || shared.serve()) {
            Ok(_detached) => work.threads += 1,
            // Existing threads take the queue; without any, the look-ups are lost.
            Err(_) if work.threads == 0 => {
                let lost = work.queue.drain(..).count();
                work.counts.pending -= lost;
                work.counts.failed += lost;
            }
            Err(_) => {}
        }
    }
}

impl Drop for Hosts {
    /// Clears the queue: threads end after their current look-up.
    fn drop(&mut self) {
        self.shared.lock().queue.clear();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes addresses from the queue until it is empty.
    fn serve(&self) {
        let mut work = self.lock();
        while let Some(ip) = work.queue.pop_front() {
            drop(work);
            let answer = (self.resolver)(ip);
            let named = match &answer {
                HostLookup::Name(name) => host_name(name),
                HostLookup::NoName | HostLookup::Failed => None,
            };
            if let Some(name) = named {
                self.names.insert(ip, Box::from(name));
            }
            work = self.lock();
            work.counts.pending -= 1;
            match (named, &answer) {
                (Some(_), _) => work.counts.named += 1,
                (None, HostLookup::NoName) => work.counts.nameless += 1,
                (None, _) => work.counts.failed += 1,
            }
            self.done.notify_all();
        }
        work.threads -= 1;
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Checks a name from a resolver. The owner of an address controls its PTR record, so only letters, digits, `-`, `_` and
/// dots are allowed, in labels of up to 63 and names of up to 253 characters (RFC 1035, 2.3.4).
fn host_name(name: &str) -> Option<&str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    (name.len() <= 253 && name.split('.').all(is_label)).then_some(name)
}

/// Calls `getnameinfo(3)`, which may block for a long time.
fn ask_system(ip: IpAddr) -> HostLookup {
    // <netdb.h>, the same in glibc and musl.
    const NI_NUMERICSERV: i32 = 2;
    const NI_NAMEREQD: i32 = 8;
    match getnameinfo(&SocketAddr::new(ip, 0), NI_NAMEREQD | NI_NUMERICSERV) {
        Ok((name, _)) => HostLookup::Name(name),
        Err(error) if matches!(error.kind(), LookupErrorKind::NoName) => HostLookup::NoName,
        Err(_) => HostLookup::Failed,
    }
}

/// Why a host name could not be resolved.
#[derive(Debug)]
pub enum ResolveError {
    /// The resolver returned an error.
    Failed(io::Error),
    /// It did not respond by the deadline.
    TimedOut,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(_) => f.write_str("the resolver knows no address of this host"),
            Self::TimedOut => f.write_str("the resolver did not answer in time"),
        }
    }
}

impl std::error::Error for ResolveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            Self::TimedOut => None,
        }
    }
}

/// Returns the addresses of a host, each once, in the resolver's order. Waits at most until the deadline.
///
/// # Errors
/// When the resolver knows none, fails, or is too slow.
pub fn resolve(name: &str, deadline: Instant) -> Result<Vec<IpAddr>, ResolveError> {
    let name = name.to_owned();
    resolve_with(deadline, move || {
        (name.as_str(), 0)
            .to_socket_addrs()
            .map(|addresses| addresses.map(|address| address.ip()).collect())
    })
}

fn resolve_with(
    deadline: Instant,
    ask: impl FnOnce() -> io::Result<Vec<IpAddr>> + Send + 'static,
) -> Result<Vec<IpAddr>, ResolveError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new()
        .name("host-address".to_owned())
        .stack_size(STACK_BYTES);
    thread
        .spawn(move || sender.send(ask()))
        .map_err(ResolveError::Failed)?;
    match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(found)) => {
            let mut ips = Vec::with_capacity(found.len());
            for ip in found {
                if !ips.contains(&ip) {
                    ips.push(ip);
                }
            }
            Ok(ips)
        }
        Ok(Err(error)) => Err(ResolveError::Failed(error)),
        Err(RecvTimeoutError::Timeout) => Err(ResolveError::TimedOut),
        Err(RecvTimeoutError::Disconnected) => Err(ResolveError::Failed(io::Error::other(
            "the look-up ended without an answer",
        ))),
    }
}

#[cfg(test)]
#[path = "hosts_tests.rs"]
mod tests;
