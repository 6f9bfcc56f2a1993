//! The socket table, read by every source of the ladder of sources in turn.

mod crowd;
mod floor;

pub use crowd::{Crowd, CrowdFailure, descriptors_left, within_own_namespace};

use sockeye_measure::{FLOOR, SourceTimes};
use sockeye_model::{ProtocolSet, StateSet};
use sockeye_source::{
    BpfEngine, Choice, Detail, Ends, Families, NetnsScope, Probe, ProbeResult, ProtocolSource, Query,
    SourceKind, list, probe,
};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// What is read, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcesPlan {
    /// Of which protocols.
    pub protocols: ProtocolSet,
    /// How often each source reads the whole table, after a first time that starts it.
    pub repeats: usize,
    /// After so long [`FEWEST_REPEATS`] are enough.
    pub patience: Option<Duration>,
}

impl SourcesPlan {
    /// Reads the table of the network namespace that this thread is in, until `keep_going`, which is told how much of it
    /// is done in thousandths, says no. The sources take turns: what else the machine does meets all of them.
    pub fn measure(self, engine: &BpfEngine, mut keep_going: impl FnMut(u64) -> bool) -> Vec<SourceTimes> {
        let begin = Instant::now();
        let mut contenders = self.contenders(engine);
        // The first time is another matter: it loads programs and fills caches.
        for contender in &mut contenders {
            if !keep_going(0) {
                break;
            }
            contender.read(engine, true);
        }
        for round in 0..self.repeats {
            let count = contenders.len();
            // Nobody is always the one behind the slowest.
            for nth in 0..count {
                let done = (round * count + nth) * 1000 / (self.repeats * count);
                if !keep_going(done as u64) {
                    return contenders.into_iter().map(|contender| contender.times).collect();
                }
                contenders[(nth + round) % count].read(engine, false);
            }
            let is_late = self.patience.is_some_and(|patience| begin.elapsed() > patience);
            if is_late && round + 1 >= FEWEST_REPEATS {
                break;
            }
        }
        contenders.into_iter().map(|contender| contender.times).collect()
    }

    /// The floor and the sources of each protocol, those too that do not work here.
    fn contenders(self, engine: &BpfEngine) -> Vec<Contender> {
        let mut contenders: Vec<Contender> = Vec::new();
        for Probe { what, source, result } in probe(engine) {
            let Some(protocols) = ProtocolSet::from_name(what) else {
                continue;
            };
            if !self.protocols.intersects(protocols) {
                continue;
            }
            if contenders.last().is_none_or(|last| last.times.what != what) {
                contenders.push(Contender::new(what, protocols, None));
            }
            let mut contender = Contender::new(what, protocols, Some(source));
            if let ProbeResult::Fails(reason) = result {
                contender.times.missing = Some(reason.to_string());
            }
            contenders.push(contender);
        }
        // The ladder begins with what few have many of.
        contenders.sort_by_key(|contender| ORDER.iter().position(|what| *what == contender.times.what));
        contenders
    }
}

/// A source and what it took so far.
struct Contender {
    protocols: ProtocolSet,
    /// None: the floor
    source: Option<SourceKind>,
    times: SourceTimes,
}

impl Contender {
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

    /// Reads the table once; what does not work is not tried again.
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

    /// All sockets by this source and no other: how many, and how often the table had to be read again.
    fn list(&self, engine: &BpfEngine, source: SourceKind) -> Result<(u64, u64), String> {
        let query = Query {
            protocols: self.protocols,
            families: Families::BOTH,
            states: STATES,
            // What all of them can tell.
            detail: Detail::QUEUES | Detail::INODE | Detail::USER,
            program: &[],
            ends: Ends::ANYWHERE,
            choice: match source {
                SourceKind::Walk | SourceKind::Descriptors => Choice::Bpf,
                SourceKind::OnePass => Choice::Diag,
                SourceKind::DiagV2 => Choice::DiagV2,
                SourceKind::Procfs => Choice::Procfs,
            },
            scope: NetnsScope::Own,
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

/// Fewer say nothing about how much they differ.
pub const FEWEST_REPEATS: usize = 3;
/// In which order tables are told; stable, so that sources stay in theirs.
const ORDER: [&str; 8] = [
    "tcp", "mptcp", "udp", "udplite", "raw", "unix", "packet", "netlink",
];
/// What `ss -a` asks for: sockets that are bound and nothing else (Linux 6.8) are in tables that procfs does not show, and
/// for them the kernel walks past all connections once more.
const STATES: StateSet = StateSet::ALL;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn all_sources_tell_of_a_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let plan = SourcesPlan {
            protocols: ProtocolSet::from_name("tcp").unwrap(),
            repeats: 2,
            patience: None,
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
