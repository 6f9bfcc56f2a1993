//! Reads the counts of calls from the BPF maps.

use super::unwatched::PART;
use super::watch::Functions;
use crate::Unavailable;
use rustix::io::Errno;
use sockeye_profile::{Function, Functions as ProfileFunctions};
use sockeye_wire::functions as wire;
use std::collections::HashMap;

/// Counts of calls so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FunctionCounts {
    /// The calls by process and function.
    pub(crate) functions: ProfileFunctions,
    /// Number of calls that could not be followed, for [`sockeye_profile::Losses::functions`].
    pub(crate) lost: u64,
    /// Number of new processes in scope that could not be observed, for [`sockeye_profile::Losses::events`].
    pub(crate) lost_processes: u64,
}

impl Functions {
    /// Returns the counts since [`Functions::begin`].
    pub(crate) fn read(&self) -> Result<FunctionCounts, Unavailable> {
        let failed = |errno: Errno| {
            Unavailable::new(
                PART,
                format!("read the calls of functions from BPF maps: {errno}"),
            )
        };
        let mut counted: HashMap<wire::Key, (wire::Counts, u64)> = HashMap::new();
        let tables = &self.probes.tables;
        // Calls in progress first: a call that returns meanwhile is then counted twice rather than not at all.
        tables
            .threads
            .each(|_, value| {
                let Some(thread) = wire::Thread::read(value) else {
                    return;
                };
                for function in thread.functions {
                    let key = wire::Key {
                        pid: thread.pid,
                        function,
                    };
                    counted.entry(key).or_default().1 += 1;
                }
            })
            .map_err(failed)?;
        tables
            .counts
            .each(|key, value| {
                if let (Some(key), Some(counts)) = (wire::Key::read(key), wire::Counts::read(value)) {
                    counted.entry(key).or_default().0 = counts;
                }
            })
            .map_err(failed)?;
        let mut losses = [0; wire::Losses::BYTES];
        tables.losses.lookup(&[0; 4], &mut losses).map_err(failed)?;
        let losses = wire::Losses::read(&losses).unwrap_or_default();
        let counts = counted
            .iter()
            .map(|(key, (counts, _))| (key.function, counts.calls));
        let overhead_ns_per_call = self.overhead(counts);
        let mut calls: Vec<Function> = counted
            .into_iter()
            .filter_map(|(key, (counts, unfinished))| self.row(key, counts, unfinished))
            .collect();
        calls.sort_by(|one, other| {
            (other.total_ns, other.calls, &one.name, one.pid).cmp(&(
                one.total_ns,
                one.calls,
                &other.name,
                other.pid,
            ))
        });
        Ok(FunctionCounts {
            functions: ProfileFunctions {
                calls,
                overhead_ns_per_call,
                watched: self.watched(),
                means: vec![self.mechanism().to_owned()],
                calls_of_others: losses.others,
            },
            lost: losses.too_deep + losses.threads + losses.counts,
            lost_processes: losses.members,
        })
    }

    /// Returns the mean overhead per call in nanoseconds, weighted by the calls; without calls, of all watched functions.
    fn overhead(&self, counts: impl Iterator<Item = (u32, u64)>) -> Option<f64> {
        let (mut calls, mut cost_ns) = (0, 0.0);
        for (function, function_calls) in counts {
            if let Some(cost) = self.watched.get(function as usize).and_then(|one| one.cost_ns) {
                calls += function_calls;
                cost_ns += cost * function_calls as f64;
            }
        }
        if calls > 0 {
            return Some(cost_ns / calls as f64);
        }
        let costs = self.watched.iter().filter_map(|one| one.cost_ns);
        Some(costs.sum::<f64>() / self.watched.len() as f64).filter(|cost| cost.is_normal())
    }

    /// Returns the row of a process and function; `None` if it has no calls.
    fn row(&self, key: wire::Key, counts: wire::Counts, unfinished: u64) -> Option<Function> {
        let watched = self.watched.get(key.function as usize)?;
        let timed = |number: u64| (!watched.entries_only).then_some(number);
        // The maps are read one after the other, while calls return.
        let returned = counts.timed + counts.missed_returns;
        let unfinished = unfinished.min(counts.calls.saturating_sub(returned));
        (counts.calls > 0).then(|| Function {
            pid: key.pid,
            name: watched.name.clone(),
            module: watched.module.clone(),
            calls: counts.calls,
            total_ns: timed(counts.total_ns),
            self_ns: timed(counts.self_ns),
            max_ns: timed(counts.max_ns).filter(|_| counts.timed > 0),
            missed_returns: counts.missed_returns,
            unfinished,
        })
    }

    /// Returns how many processes those in scope have started.
    pub(super) fn started_processes(&self) -> Option<u64> {
        let mut losses = [0; wire::Losses::BYTES];
        self.probes.tables.losses.lookup(&[0; 4], &mut losses).ok()?;
        Some(wire::Losses::read(&losses)?.started)
    }
}
