//! What has been counted of the calls, read from BPF maps.

use super::{Functions, PART};
use crate::Obstacle;
use rustix::io::Errno;
use sockeye_profile::{Function, Functions as Counted};
use sockeye_wire::functions as wire;
use std::collections::HashMap;

/// What was counted so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenFunctions {
    /// The calls.
    pub counted: Counted,
    /// Calls that could not be followed, for [`sockeye_profile::Losses::functions`].
    pub lost: u64,
    /// Processes that were started, but not looked at, for [`sockeye_profile::Losses::events`].
    pub lost_processes: u64,
}

impl Functions {
    /// What was counted so far.
    ///
    /// # Errors
    /// When the kernel does not give it.
    pub fn look(&self) -> Result<SeenFunctions, Obstacle> {
        let failed = |errno: Errno| {
            Obstacle::new(
                PART,
                format!("read the calls of functions from BPF maps: {errno}"),
            )
        };
        let mut counted: HashMap<wire::Key, (wire::Counts, u64)> = HashMap::new();
        let tables = &self.probes.tables;
        // Calls that last first: one that returns meanwhile is rather counted twice as finished than told as neither.
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
            .filter_map(|(key, (counts, unfinished))| self.told(key, counts, unfinished))
            .collect();
        calls.sort_by(|one, other| {
            (other.total_ns, other.calls, &one.name, one.pid).cmp(&(
                one.total_ns,
                one.calls,
                &other.name,
                other.pid,
            ))
        });
        Ok(SeenFunctions {
            counted: Counted {
                calls,
                overhead_ns_per_call,
                watched: self.watched(),
                means: vec![self.means().to_owned()],
                calls_of_others: losses.others,
            },
            lost: losses.too_deep + losses.threads + losses.counts,
            lost_processes: losses.members,
        })
    }

    /// What watching a call has cost, of those that were counted.
    fn overhead(&self, counted: impl Iterator<Item = (u32, u64)>) -> Option<f64> {
        let (mut calls, mut cost_ns) = (0, 0.0);
        for (function, of_it) in counted {
            if let Some(cost) = self.watched.get(function as usize).and_then(|one| one.cost_ns) {
                calls += of_it;
                cost_ns += cost * of_it as f64;
            }
        }
        if calls > 0 {
            return Some(cost_ns / calls as f64);
        }
        // There was none: as if each had been called as often.
        let costs = self.watched.iter().filter_map(|one| one.cost_ns);
        Some(costs.sum::<f64>() / self.watched.len() as f64).filter(|cost| cost.is_normal())
    }

    fn told(&self, key: wire::Key, counts: wire::Counts, unfinished: u64) -> Option<Function> {
        let watched = self.watched.get(key.function as usize)?;
        let timed = |number: u64| (!watched.entries_only).then_some(number);
        // Read a moment apart, while calls return.
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

    /// How many processes those in scope have started.
    pub(super) fn started(&self) -> Option<u64> {
        let mut losses = [0; wire::Losses::BYTES];
        self.probes.tables.losses.lookup(&[0; 4], &mut losses).ok()?;
        Some(wire::Losses::read(&losses)?.started)
    }
}
