//! Owner processes of flows. Most flows have one: only further ones cost more than four bytes.

use foldhash::{HashMap, HashSet};
use sockeye_model::{Pid, Process};
use std::num::NonZero;

/// Number of a process in [`FlowOwners`], from 1: an absent one takes no further byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProcessNumber(NonZero<u32>);

/// The processes of all flows, and the flows with more than one.
#[derive(Debug, Default)]
pub(crate) struct FlowOwners {
    processes: Vec<Process>,
    numbers: HashMap<Pid, ProcessNumber>,
    /// Flows and their owners after the first.
    further: HashSet<(u32, ProcessNumber)>,
}

/// The same, after the last connection.
#[derive(Debug)]
pub(crate) struct FoldedOwners {
    processes: Vec<Process>,
    /// Sorted by flow.
    further: Vec<(u32, ProcessNumber)>,
}

impl FlowOwners {
    /// Adds an owner to a flow, whose first owner is `first`.
    #[inline]
    pub(crate) fn add(&mut self, flow: u32, first: &mut Option<ProcessNumber>, process: Process) {
        match *first {
            None => *first = Some(self.number(process)),
            Some(first) if first.of(&self.processes).pid == process.pid => {}
            Some(_) => {
                let number = self.number(process);
                self.further.insert((flow, number));
            }
        }
    }

    /// Returns the process with a number.
    pub(crate) fn process(&self, number: ProcessNumber) -> Process {
        number.of(&self.processes)
    }

    /// Returns the flows and their owners after the first.
    pub(crate) fn further(&self) -> impl Iterator<Item = (u32, Process)> {
        let further = self.further.iter();
        further.map(|(flow, number)| (*flow, self.process(*number)))
    }

    fn number(&mut self, process: Process) -> ProcessNumber {
        *self.numbers.entry(process.pid).or_insert_with(|| {
            self.processes.push(process);
            // Pids have 22 bits.
            let number = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
            ProcessNumber(NonZero::new(number).unwrap_or(NonZero::<u32>::MAX))
        })
    }

    pub(crate) fn finish(self) -> FoldedOwners {
        let mut further: Vec<_> = self.further.into_iter().collect();
        further.sort_unstable_by_key(|(flow, _)| *flow);
        FoldedOwners {
            processes: self.processes,
            further,
        }
    }
}

impl FoldedOwners {
    /// Replaces the content of `owners` by the owners of a flow, sorted.
    #[inline]
    pub(crate) fn read(&self, flow: u32, first: Option<ProcessNumber>, owners: &mut Vec<Process>) {
        owners.clear();
        let Some(first) = first else { return };
        owners.push(first.of(&self.processes));
        let start = self.further.partition_point(|(of, _)| *of < flow);
        let further = self.further[start..].iter().take_while(|(of, _)| *of == flow);
        owners.extend(further.map(|(_, number)| number.of(&self.processes)));
        owners.sort_unstable();
    }
}

impl ProcessNumber {
    fn of(self, processes: &[Process]) -> Process {
        processes[self.0.get() as usize - 1]
    }
}
