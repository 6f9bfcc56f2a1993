//! What the kernel counts: counters of network namespaces that moved, and dropped packets by reason.

use sockeye_model::{Counter, Counters, NetnsInode};
use std::collections::BTreeMap;

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CountKey {
    /// What counts it.
    pub kind: CountKind,
    /// The kernel's name of the counter or the reason.
    pub name: String,
    /// Network namespace; `None` if only one is recorded, or it is unknown.
    pub netns: Option<NetnsInode>,
    /// Function of the kernel that drops, if the reason does not say why.
    pub function: Option<String>,
    /// Network interface of the packets.
    pub device: Option<String>,
    /// Name of the process that owns the socket of the packets.
    pub owner: Option<String>,
}

/// What counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CountKind {
    /// A counter of the kernel.
    Counter,
    /// A program that sees each dropped packet.
    Drop,
}

impl CountKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Counter, Self::Drop];

    /// The name, as in the store and in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Drop => "drop",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Counters at the last look, for differences.
#[derive(Debug, Default)]
pub struct CounterTable {
    before: Option<BTreeMap<Option<NetnsInode>, Counters>>,
}

impl CounterTable {
    /// Returns the counters that moved since the look before, each with by how much; `None` for the first look. A counter that went back
    /// is that of another namespace with the same number. `names_netns`: whether counters name their namespace.
    pub fn look(
        &mut self,
        now: BTreeMap<Option<NetnsInode>, Counters>,
        names_netns: bool,
    ) -> Option<Vec<(CountKey, u64)>> {
        let moved = self.before.as_ref().map(|before| {
            let pairs = now
                .iter()
                .filter_map(|(netns, now)| Some((*netns, now, before.get(netns)?)));
            pairs
                .flat_map(|(netns, now, before)| {
                    let key = move |counter: Counter| key(counter, netns.filter(|_| names_netns));
                    moved(now, before).map(move |(counter, count)| (key(counter), count))
                })
                .collect()
        });
        self.before = Some(now);
        moved
    }
}

fn moved(now: &Counters, before: &Counters) -> impl Iterator<Item = (Counter, u64)> {
    Counter::ALL.iter().filter_map(move |&counter| {
        let count = now.value(counter)?.checked_sub(before.value(counter)?)?;
        (count > 0).then_some((counter, count))
    })
}

fn key(counter: Counter, netns: Option<NetnsInode>) -> CountKey {
    CountKey {
        kind: CountKind::Counter,
        name: counter.to_string(),
        netns,
        function: None,
        device: None,
        owner: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(values: &[(Counter, u64)]) -> Counters {
        let mut counters = Counters::default();
        for (counter, value) in values {
            counters.set(*counter, *value);
        }
        counters
    }

    #[test]
    fn counters_that_moved_are_returned() {
        let mut table = CounterTable::default();
        let own = Some(NetnsInode(1));
        let first = counters(&[(Counter::TcpRetransSegs, 5), (Counter::TcpOutRsts, 9)]);
        assert_eq!(table.look(BTreeMap::from([(own, first)]), true), None);
        let second = counters(&[
            (Counter::TcpRetransSegs, 7),
            (Counter::TcpOutRsts, 9),
            (Counter::TcpTimeouts, 3),
        ]);
        let moved = table.look(BTreeMap::from([(own, second.clone())]), true).unwrap();
        assert_eq!(moved, [(key(Counter::TcpRetransSegs, own), 2)]);
        // One that went back, and a namespace that was not there before.
        let third = counters(&[(Counter::TcpRetransSegs, 1), (Counter::TcpOutRsts, 10)]);
        let now = BTreeMap::from([(own, third), (Some(NetnsInode(2)), second)]);
        assert_eq!(
            table.look(now, false).unwrap(),
            [(key(Counter::TcpOutRsts, None), 1)]
        );
    }

    #[test]
    fn names_are_read_back() {
        for kind in CountKind::ALL {
            assert_eq!(CountKind::from_name(kind.name()), Some(kind));
        }
    }
}
