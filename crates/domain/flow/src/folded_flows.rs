//! The flows of a finished fold. They stay as compact as they were folded: one that is to be shown is expanded when it is read.

use crate::flow_owners::{FoldedOwners, ProcessNumber};
use crate::key_table::{CompactKey, KeyTable};
use sockeye_model::{Flow, FlowKey, Rates, Totals, WorkloadId};

/// Flows by their numbers from 0, in no particular order: see [`FoldedFlows::order`].
#[derive(Debug)]
pub struct FoldedFlows {
    pub(crate) keys: KeyTable,
    pub(crate) flows: Vec<CompactFlow>,
    pub(crate) mixed_states: Vec<StateCounts>,
    pub(crate) owners: FoldedOwners,
    /// By flow; empty if they were not requested.
    pub(crate) totals: Vec<Option<Totals>>,
    /// By flow; empty without a sample before.
    pub(crate) rates: Vec<Option<Rates>>,
}

/// What every flow has: 32 bytes.
#[derive(Debug)]
pub(crate) struct CompactFlow {
    pub(crate) key: CompactKey,
    pub(crate) connections: u32,
    pub(crate) first_owner: Option<ProcessNumber>,
    states: States,
}

const _: () = assert!(size_of::<CompactFlow>() == 32);

/// The number of connections in each state, by its number.
pub(crate) type StateCounts = [u32; 14];

/// The states of the connections of a flow.
#[derive(Debug, Clone, Copy)]
enum States {
    /// All have the state with this number.
    Same(u8),
    /// They differ. The counts are at this index.
    Mixed(u32),
}

/// Expands one flow at a time, into the same place.
#[derive(Debug)]
pub struct FlowReader<'a> {
    flows: &'a FoldedFlows,
    flow: Option<Flow>,
}

impl CompactFlow {
    pub(crate) const fn new(key: CompactKey) -> Self {
        Self {
            key,
            connections: 0,
            first_owner: None,
            states: States::Same(0),
        }
    }

    /// Counts a connection in the state with this number.
    #[inline]
    pub(crate) fn count(&mut self, state: u8, mixed_states: &mut Vec<StateCounts>) {
        if self.connections == 0 {
            self.states = States::Same(state);
        } else if let States::Same(same) = self.states
            && same != state
        {
            let mut counts = StateCounts::default();
            count(&mut counts, same, self.connections);
            // At most as many as flows.
            self.states = States::Mixed(u32::try_from(mixed_states.len()).unwrap_or(u32::MAX));
            mixed_states.push(counts);
        }
        if let States::Mixed(index) = self.states {
            count(&mut mixed_states[index as usize], state, 1);
        }
        self.connections += 1;
    }
}

fn count(counts: &mut StateCounts, state: u8, connections: u32) {
    if let Some(count) = counts.get_mut(usize::from(state)) {
        *count += connections;
    }
}

impl FoldedFlows {
    /// Returns the number of flows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.flows.len()
    }

    /// Returns whether there is no flow.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Returns the key of a flow.
    #[must_use]
    pub fn key(&self, number: u32) -> FlowKey {
        self.keys.key(self.flows[number as usize].key)
    }

    /// Returns what reads flows one by one.
    #[must_use]
    pub const fn reader(&self) -> FlowReader<'_> {
        FlowReader {
            flows: self,
            flow: None,
        }
    }

    /// Returns every flow, each in a place of its own.
    pub fn iter(&self) -> impl Iterator<Item = Flow> {
        (0..).zip(&self.flows).map(|(number, _)| {
            let mut flow = Flow::new(self.key(number));
            self.read(number, &mut flow);
            flow
        })
    }

    /// Returns the rates of the flows that have any, to change them.
    pub fn rates_mut(&mut self) -> impl Iterator<Item = &mut Rates> {
        self.rates.iter_mut().flatten()
    }

    /// Returns the numbers of the flows, sorted by `name` of their workloads, whose numbers are in the order in which they
    /// were seen, then by key.
    pub fn order<'n>(&self, name: impl Fn(WorkloadId) -> Option<&'n str>) -> Vec<u32> {
        let ranks = self.keys.ranks(name);
        let ranked = (0..).zip(&self.flows).map(|(number, flow)| Ranked {
            rank: ranks.of(flow.key),
            number,
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_unstable_by_key(|flow| flow.rank);
        ranked.into_iter().map(|flow| flow.number).collect()
    }

    /// Reads a flow whose key is set.
    fn read(&self, number: u32, flow: &mut Flow) {
        let compact = &self.flows[number as usize];
        flow.connections = compact.connections;
        match compact.states {
            States::Same(state) => {
                flow.states = StateCounts::default();
                count(&mut flow.states, state, compact.connections);
            }
            States::Mixed(index) => flow.states = self.mixed_states[index as usize],
        }
        self.owners.read(number, compact.first_owner, &mut flow.owners);
        flow.totals = self.totals.get(number as usize).copied().flatten();
        flow.rates = self.rates.get(number as usize).copied().flatten();
    }
}

impl FlowReader<'_> {
    /// Reads a flow, over the last one.
    pub fn read(&mut self, number: u32) -> &Flow {
        let key = self.flows.key(number);
        let flow = self.flow.get_or_insert_with(|| Flow::new(key));
        flow.key = key;
        self.flows.read(number, flow);
        flow
    }
}

/// A flow in the order of keys.
#[derive(Debug)]
struct Ranked {
    rank: u128,
    number: u32,
}
