//! The flows of a finished fold. They stay as compact as they were folded: one that is to be shown is expanded when it is read.

use crate::flow_owners::{FoldedOwners, ProcessNumber};
use crate::key_table::{CompactKey, KeyTable};
use sockeye_model::{Flow, FlowKey, Rates, Totals, WorkloadId};
use std::ops::Range;

/// Flows by their places from 0, in no particular order before [`FoldedFlows::sort`].
#[derive(Debug)]
pub struct FoldedFlows {
    pub(crate) keys: KeyTable,
    pub(crate) flows: Vec<CompactFlow>,
    pub(crate) mixed_states: Vec<StateCounts>,
    pub(crate) owners: FoldedOwners,
    /// By number of the flow; empty if they were not requested.
    pub(crate) totals: Vec<Option<Totals>>,
    /// By number of the flow; empty without a sample before.
    pub(crate) rates: Vec<Option<Rates>>,
}

/// What every flow has: 32 bytes, which are sorted themselves, since to follow an order through memory costs more than to move them.
#[derive(Debug)]
pub(crate) struct CompactFlow {
    key: CompactKey,
    connections: u32,
    /// The number by which the rest of what is known is found. It stays.
    number: u32,
    pub(crate) first_owner: Option<ProcessNumber>,
    states: States,
}

const _: () = assert!(size_of::<CompactFlow>() == 32);

/// The number of connections in each state, by its number.
pub(crate) type StateCounts = [u32; 14];

/// The states of the connections of a flow: the number of the state that all have, or [`MIXED`] and the index of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct States(u32);

const MIXED: u32 = 1 << 31;

/// Expands one flow at a time, into the same place.
#[derive(Debug)]
pub struct FlowReader<'a> {
    flows: &'a FoldedFlows,
    flow: Option<Flow>,
}

impl CompactFlow {
    /// Appends a flow without connections.
    #[inline]
    pub(crate) fn push_new(flows: &mut Vec<Self>, key: CompactKey, number: u32) {
        // In two steps: a flow that is made elsewhere is copied in pieces of 16 bytes, each of which waits for the four stores of
        // its parts. Half of the samples of adding a connection were there.
        flows.push(Self {
            key: CompactKey::ZERO,
            connections: 0,
            number: 0,
            first_owner: None,
            states: States(0),
        });
        if let Some(flow) = flows.last_mut() {
            (flow.key, flow.number) = (key, number);
        }
    }

    #[inline]
    pub(crate) const fn key(&self) -> CompactKey {
        self.key
    }

    #[inline]
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// Adds the connections of another flow with the same key, whose counts of states are in `of_other`.
    pub(crate) fn add(
        &mut self,
        other: &Self,
        of_other: &[StateCounts],
        mixed_states: &mut Vec<StateCounts>,
    ) {
        match other.states.mixed() {
            None => self.count_some(other.states.0 as u8, other.connections, mixed_states),
            Some(index) => {
                for (state, &connections) in (0..).zip(&of_other[index]) {
                    if connections > 0 {
                        self.count_some(state, connections, mixed_states);
                    }
                }
            }
        }
    }

    /// Counts a connection in the state with this number.
    #[inline]
    pub(crate) fn count(&mut self, state: u8, mixed_states: &mut Vec<StateCounts>) {
        self.count_some(state, 1, mixed_states);
    }

    #[inline]
    fn count_some(&mut self, state: u8, connections: u32, mixed_states: &mut Vec<StateCounts>) {
        let same = States(u32::from(state));
        if self.connections == 0 {
            self.states = same;
        } else if self.states != same {
            let index = self.states.mixed().unwrap_or_else(|| {
                let mut counts = StateCounts::default();
                count(&mut counts, self.states.0 as u8, self.connections);
                mixed_states.push(counts);
                // Each of these flows has two connections, which the kernel counts in 32 bits.
                mixed_states.len() - 1
            });
            self.states = States(MIXED | index as u32);
            count(&mut mixed_states[index], state, connections);
        }
        self.connections += connections;
    }
}

impl States {
    /// Returns the index of the counts; `None` if all connections have the same state.
    const fn mixed(self) -> Option<usize> {
        if self.0 & MIXED == 0 {
            None
        } else {
            Some((self.0 & !MIXED) as usize)
        }
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

    /// Returns the places of all flows.
    #[must_use]
    pub fn places(&self) -> Range<u32> {
        // At most as many flows as connections, which the kernel counts in 32 bits.
        0..u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    /// Returns the key of a flow.
    #[must_use]
    pub fn key(&self, place: u32) -> FlowKey {
        self.keys.key(self.flows[place as usize].key)
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
        self.places().map(|place| {
            let mut flow = Flow::new(self.key(place));
            self.read(place, &mut flow);
            flow
        })
    }

    /// Returns the rates of the flows that have any, to change them.
    pub fn rates_mut(&mut self) -> impl Iterator<Item = &mut Rates> {
        self.rates.iter_mut().flatten()
    }

    /// Sorts flows by `name` of their workloads, whose numbers are in the order in which they were seen, then by key.
    pub fn sort<'n>(&mut self, name: impl Fn(WorkloadId) -> Option<&'n str>) {
        let renumbering = self.keys.sort(name);
        for flow in &mut self.flows {
            flow.key = renumbering.of(flow.key);
        }
        self.flows.sort_unstable_by_key(|flow| flow.key.number());
    }

    /// Reads a flow, over another.
    #[inline]
    fn read(&self, place: u32, flow: &mut Flow) {
        let compact = &self.flows[place as usize];
        self.keys.read(compact.key, &mut flow.key);
        flow.connections = compact.connections;
        match compact.states.mixed() {
            None => {
                flow.states = StateCounts::default();
                count(&mut flow.states, compact.states.0 as u8, compact.connections);
            }
            Some(index) => flow.states = self.mixed_states[index],
        }
        self.owners
            .read(compact.number, compact.first_owner, &mut flow.owners);
        let number = compact.number as usize;
        flow.totals = self.totals.get(number).copied().flatten();
        flow.rates = self.rates.get(number).copied().flatten();
    }
}

impl FlowReader<'_> {
    /// Reads the flow at a place, over the last one.
    #[inline]
    pub fn read(&mut self, place: u32) -> &Flow {
        let flows = self.flows;
        let flow = self.flow.get_or_insert_with(|| Flow::new(flows.key(place)));
        flows.read(place, flow);
        flow
    }
}
