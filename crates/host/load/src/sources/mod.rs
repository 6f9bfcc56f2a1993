//! The socket table, read by every source in turn.

mod floor;
mod socket_load;

pub use socket_load::{SocketLoad, SocketLoadError, descriptors_left, in_private_namespace};

use sockeye_measure::{FLOOR, SourceTimes};
use sockeye_model::{ProtocolSet, StateSet};
use sockeye_source::{
    BpfEngine, Choice, Detail, Ends, Families, NetnsScope, Probe, ProbeResult, ProtocolSource, Query,
    SourceKind, list, probe,
};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Parameters of the source benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcesPlan {
    /// Protocols to read.
    pub protocols: ProtocolSet,
    /// Reads of the whole table by each source, after a first one that starts it.
    pub repeats: usize,
    /// After this time [`MIN_REPEATS`] are enough.
    pub time_limit: Option<Duration>,
}

impl SourcesPlan {
    /// Reads the socket table of this thread's network namespace. `keep_going` gets the progress in thousandths; `false` ends
    /// the benchmark. The sources take turns, so that a disturbance affects all of them.
    pub fn measure(self, engine: &BpfEngine, mut keep_going: impl FnMut(u64) -> bool) -> Vec<SourceTimes> {
        let begin = Instant::now();
        let mut runs = self.runs(engine);
        // The first read is measured separately: it loads programs and fills caches.
        for run in &mut runs {
            if !keep_going(0) {
                break;
            }
            run.read(engine, true);
        }
        for round in 0..self.repeats {
            let count = runs.len();
            // Rotates the order, so that no source always runs after the slowest.
            for nth in 0..count {
                let done = (round * count + nth) * 1000 / (self.repeats * count);
                if !keep_going(done as u64) {
                    return runs.into_iter().map(|run| run.times).collect();
                }
                runs[(nth + round) % count].read(engine, false);
            }
            let is_late = self.time_limit.is_some_and(|limit| begin.elapsed() > limit);
            if is_late && round + 1 >= MIN_REPEATS {
                break;
            }
        }
        runs.into_iter().map(|run| run.times).collect()
    }

    /// Returns the floor and the sources of each protocol, including those that do not work here.
    fn runs(self, engine: &BpfEngine) -> Vec<SourceRun> {
        let mut runs: Vec<SourceRun> = Vec::new();
        for Probe { what, source, result } in probe(engine) {
            let Some(protocols) = ProtocolSet::from_name(what) else {
                continue;
            };
            if !self.protocols.intersects(protocols) {
                continue;
            }
            if runs.last().is_none_or(|last| last.times.what != what) {
                runs.push(SourceRun::new(what, protocols, None));
            }
            let mut run = SourceRun::new(what, protocols, Some(source));
            if let ProbeResult::Fails(reason) = result {
                run.times.missing = Some(reason.to_string());
            }
            runs.push(run);
        }
        // The order of reports, not of the ladder.
        runs.sort_by_key(|run| ORDER.iter().position(|what| *what == run.times.what));
        runs
    }
}

/// A source and its times so far.
struct SourceRun {
    protocols: ProtocolSet,
    /// `None`: the floor.
    source: Option<SourceKind>,
    times: SourceTimes,
}

impl SourceRun {
    fn new(what: &'static str, protocols: ProtocolSet, source: Option<SourceKind>) -> Self {
        Self {
            protocols,
            source,
            times: SourceTimes {
                what,
                source: source.map_or(FLOOR, SourceKind::name),
                ..SourceTimes::default()
            },
        }
    }

    /// Reads the table once. A source that fails is not tried again.
    fn read(&mut self, engine: &BpfEngine, is_first: bool) {
        if self.times.missing.is_some() {
            return;
        }
        let begin = Instant::now();
        let outcome = match self.source {
            None => floor::dump(self.times.what, STATES.bits()).map(|sockets| (sockets, 0)),
            Some(source) => self.list(engine, source),
        };
        let ns = begin.elapsed().as_nanos() as f64;
        match outcome {
            Ok((sockets, read_again)) => {
                self.times.sockets = sockets;
                self.times.read_again += read_again;
                if is_first {
                    self.times.first_ns = Some(ns);
                } else {
                    self.times.ns.push(ns);
                }
            }
            Err(reason) => self.times.missing = Some(reason),
        }
    }

    /// Lists all sockets by this source alone. Returns their number, and how often the table was read again.
    fn list(&self, engine: &BpfEngine, source: SourceKind) -> Result<(u64, u64), String> {
        let query = Query {
            protocols: self.protocols,
            families: Families::BOTH,
            states: STATES,
            // Details that all sources have.
            detail: Detail::QUEUES | Detail::INODE | Detail::USER,
            program: &[],
            ends: Ends::ANYWHERE,
            choice: match source {
                SourceKind::Walk | SourceKind::Descriptors => Choice::Bpf,
                SourceKind::OnePass => Choice::Diag,
                SourceKind::DiagV2 => Choice::DiagV2,
                SourceKind::Procfs => Choice::Procfs,
                SourceKind::Store => Choice::Auto,
            },
            scope: NetnsScope::Own,
            quiet: None,
            announce: None,
        };
        let mut sockets = 0;
        let answer = list(engine, &query, &mut |_, _| {
            sockets += 1;
            ControlFlow::Continue(())
        })
        .map_err(|error| error.to_string())?;
        match answer.used.as_slice() {
            [
                ProtocolSource {
                    source: Some(used),
                    ended_early,
                    ..
                },
            ] if *used == source => match ended_early {
                None => Ok((sockets, answer.losses.repeated_dumps + answer.rewalked_chains)),
                Some(reason) => Err(reason.to_string()),
            },
            others => Err(others
                .iter()
                .flat_map(|used| &used.not_used)
                .map(|(source, reason)| format!("{source}: {reason}"))
                .next()
                .unwrap_or_else(|| "it did not answer".to_owned())),
        }
    }
}

/// Fewest repeats that show a spread.
pub const MIN_REPEATS: usize = 3;
/// Order of the protocols in reports.
const ORDER: [&str; 8] = [
    "tcp", "mptcp", "udp", "udplite", "raw", "unix", "packet", "netlink",
];
/// The states of `ss -a`. Sockets that are only bound (Linux 6.8) are excluded: procfs does not show them, and the kernel
/// would walk all connections once more.
const STATES: StateSet = StateSet::ALL;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn all_sources_list_a_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let plan = SourcesPlan {
            protocols: ProtocolSet::from_name("tcp").unwrap(),
            repeats: 2,
            time_limit: None,
        };
        let engine = BpfEngine::default();
        let times = plan.measure(&engine, |_| true);
        assert_eq!(times[0].source, FLOOR);
        let timed = times.iter().filter(|one| one.missing.is_none());
        for one in timed.clone() {
            assert!(
                one.sockets > 0 && one.ns.len() == 2 && one.first_ns.is_some(),
                "{one:?}"
            );
        }
        assert!(timed.count() > 1, "{times:?}");
        let none = plan.measure(&engine, |_| false);
        assert!(none.iter().all(|one| one.ns.is_empty() && one.first_ns.is_none()));
        drop(listener);
    }
}
