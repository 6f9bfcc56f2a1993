//! An interval: what was read at its ends, and what happened in it.

use super::counters::CounterSample;
use super::firewall::FirewallSample;
use super::output::NamedLine;
use super::rows::DropRow;
use super::sockets::SocketTable;
use sockeye_output::Envelope;
use sockeye_tracepoints::DropCounts;
use std::time::{Duration, Instant};

/// What was read at one time.
pub(super) struct Reading {
    pub(super) counters: CounterSample,
    pub(super) drops: DropCounts,
    pub(super) firewalls: FirewallSample,
    pub(super) at: Instant,
}

/// What is known of an interval.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) before: &'a Reading,
    /// Counters that were read in between.
    pub(super) meanwhile: &'a CounterSample,
    pub(super) now: &'a Reading,
    /// Sockets at the end, then those at the beginning.
    pub(super) sockets: [&'a SocketTable; 2],
}

/// The result of an interval.
pub(super) struct Report {
    pub(super) rows: Vec<DropRow>,
    pub(super) counters: Vec<NamedLine>,
    /// Normal ends of packets that are not shown; `None` where one namespace is selected, since those that are counted by reason only
    /// may be of others.
    pub(super) normal: Option<u64>,
    /// Whether drops were watched.
    pub(super) is_watched: bool,
    pub(super) evicted_keys: u64,
    /// Drops that the program did not see.
    pub(super) missed: u64,
    /// With a filter, packets that are not shown although it may mean them: their sockets were too short-lived for a listing.
    pub(super) undecided: Option<u64>,
    /// Of how many drops one was counted by its key, at most; 1: each.
    pub(super) sampled_every: u32,
    /// Rules of the packet filter that drop, and that were added or removed.
    pub(super) changed_rules: [usize; 2],
    /// Packets that were dropped by rules of the packet filter that were added and removed meanwhile.
    pub(super) by_gone_rules: u64,
    /// Whether packets can have been dropped by rules of `iptables-legacy`.
    pub(super) may_be_by_legacy: bool,
    /// Namespaces with counters that were made, and that ended.
    pub(super) other_namespaces: [usize; 2],
    /// Namespaces with drops that were there at no reading of counters.
    pub(super) unread_namespaces: usize,
    /// How many drops each reason has had, in all namespaces: exact.
    pub(super) by_reason: Vec<(String, u64)>,
    pub(super) interval: Duration,
    pub(super) envelope: Envelope,
    pub(super) sample: Option<u64>,
}
