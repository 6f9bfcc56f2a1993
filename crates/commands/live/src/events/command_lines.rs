//! Command lines of the owners of events. They are read when an event is read and not when it is shown: a process may end meanwhile.

use foldhash::HashMap;
use sockeye_model::{ConnectionEvent, Pid, Process};
use sockeye_source::names::command_line;

/// The command lines of the processes of the last second.
#[derive(Debug, Default)]
pub(crate) struct CommandLines {
    known: HashMap<Pid, Known>,
}

#[derive(Debug)]
struct Known {
    process: Process,
    read_ns: u64,
    line: Option<Vec<u8>>,
}

impl CommandLines {
    /// Reads the command line of an event's owner, unless it was read in the last second.
    pub(crate) fn note(&mut self, event: &ConnectionEvent) {
        let Some(process) = event.owner.map(|owner| owner.process) else {
            return;
        };
        let is_known = self.known.get(&process.pid).is_some_and(|known| {
            known.process.comm == process.comm && event.time_ns.saturating_sub(known.read_ns) < INTERVAL_NS
        });
        if is_known {
            return;
        }
        if self.known.len() >= PROCESSES_MAX {
            self.known.clear();
        }
        let known = Known {
            process,
            read_ns: event.time_ns,
            line: command_line(&process),
        };
        self.known.insert(process.pid, known);
    }

    /// Returns the command line of an event's owner; `None` if it was not read in time.
    pub(crate) fn of(&self, event: &ConnectionEvent) -> Option<&[u8]> {
        let process = event.owner?.process;
        let known = self.known.get(&process.pid)?;
        let is_same = known.process.comm == process.comm;
        known.line.as_deref().filter(|_| is_same)
    }
}

/// After so long a command line is read again: the number may be that of another process.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The most processes that are kept.
const PROCESSES_MAX: usize = 4096;
