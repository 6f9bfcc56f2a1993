//! Which events a filter accepts, and the words of the language that events do not have.

use super::args::EventsArgs;
use sockeye_console::usage::UsageError;
use sockeye_filter::Filter;
use sockeye_model::{ConnectionEvent, ConnectionEventKind, Entry, Fd, Owner, Workloads};
use sockeye_query::context::QueryContext;
use sockeye_query::event_processes::{CLOSE_WORDS, EVENT_WORDS, EventProcesses};
use sockeye_query::netns_targets::NetnsTargets;

/// Selects events by a filter.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    context: &'a QueryContext,
    targets: &'a NetnsTargets<'a>,
    /// If the filter tests more of them than name and number.
    processes: Option<EventProcesses>,
    /// Whether the filter tests something of processes.
    is_by_process: bool,
    /// Events that were not selected, although they may be meant.
    undecided: u64,
}

impl<'a> Selection<'a> {
    /// Prepares it for a filter that was checked.
    pub(crate) fn new(context: &'a QueryContext, targets: &'a NetnsTargets<'a>) -> Self {
        let needs = targets.filter().needs();
        Self {
            context,
            targets,
            processes: EventProcesses::of_filter(targets.filter()),
            is_by_process: needs.owners || needs.workloads,
            undecided: 0,
        }
    }

    /// Whether the cgroups of events need no names.
    pub(crate) const fn is_of_ends(&self) -> bool {
        self.processes.is_none()
    }

    /// Reads what the filter tests of the processes of an event.
    #[inline]
    pub(crate) fn note(&mut self, event: &ConnectionEvent) {
        let Some(processes) = &mut self.processes else {
            return;
        };
        for process in processes_of(event).into_iter().flatten() {
            processes.note(self.context, &process, event.time_ns);
        }
    }

    /// Whether the filter accepts an event: that of a connection with several processes, if it accepts any of them. `cgroups` names also those
    /// that were made since the begin.
    pub(crate) fn matches(&mut self, event: &ConnectionEvent, cgroups: &QueryContext) -> bool {
        let netns = event.socket.netns;
        let Some(resolved) = netns.and_then(|netns| self.targets.filter_in(netns)) else {
            return false;
        };
        if resolved.filter.is_empty() {
            return true;
        }
        let with_group = |process| match &self.processes {
            Some(processes) => processes.with_group(process),
            None => process,
        };
        let owners = processes_of(event).map(|process| {
            process.map(|process| Owner {
                process: with_group(process),
                fd: Fd(0),
            })
        });
        let (pair, count) = in_order(owners);
        let owners = pair.as_ref().map_or(&[][..], |pair| &pair[..count]);
        let workloads = self
            .processes
            .as_ref()
            .map(|processes| processes.workloads(self.context, cgroups));
        let entry = Entry {
            workloads: workloads.as_ref().map(|workloads| workloads as &dyn Workloads),
            ..Entry::with_owners(&event.socket, Some(owners))
        };
        if !self.is_by_process {
            return resolved.filter.matches(&entry);
        }
        resolved.filter.decide(&entry, &|_| true).unwrap_or_else(|| {
            let matches = resolved.filter.matches(&entry);
            self.undecided += u64::from(!matches);
            matches
        })
    }

    /// Returns how many events were not selected since the last call although they may be meant; `None` if the filter tests no process.
    pub(crate) fn take_undecided(&mut self) -> Option<u64> {
        let undecided = std::mem::take(&mut self.undecided);
        self.is_by_process.then_some(undecided)
    }
}

fn processes_of(event: &ConnectionEvent) -> [Option<sockeye_model::Process>; 2] {
    [event.owner.map(|owner| owner.process), event.closer]
}

/// Returns the owners in the order of a listing, each once, and how many there are.
fn in_order(owners: [Option<Owner>; 2]) -> (Option<[Owner; 2]>, usize) {
    match owners {
        [Some(one), Some(other)] if one != other => (Some([one.min(other), one.max(other)]), 2),
        [Some(one), _] | [None, Some(one)] => (Some([one, one]), 1),
        [None, None] => (None, 0),
    }
}

/// Checks that events have what a filter tests, wherever in it that stands.
///
/// # Errors
/// Names the first condition that cannot be decided, and what can be.
pub(crate) fn check(args: &EventsArgs, filter: &Filter) -> anyhow::Result<()> {
    let always = |word: &str| EVENT_WORDS.contains(&word);
    let at_close = |word: &str| CLOSE_WORDS.contains(&word);
    if let Some(unknown) = filter.first_unknown(&|word| always(word) || at_close(word)) {
        let text = format!(
            "sockeye: events: '{}' cannot be decided: events do not have this of a connection; `sockeye sockets` has it while the connection is \
             there. Events know {}; when a connection closes, {}\n",
            unknown.text,
            EVENT_WORDS.join(", "),
            CLOSE_WORDS.join(", "),
        );
        return Err(UsageError(text).into());
    }
    let has_counters = args.shows(ConnectionEventKind::Close) || args.since_start;
    if let Some(unknown) = filter.first_unknown(&always).filter(|_| !has_counters) {
        let text = format!(
            "sockeye: events: '{}' cannot be decided: it is known when a connection closes, and closes are not watched: add --kinds close\n",
            unknown.text
        );
        return Err(UsageError(text).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Comm, Pid, Process};

    #[test]
    fn owners_are_in_order_and_each_once() {
        let owner = |pid| Owner {
            process: Process {
                pid: Pid(pid),
                pgid: None,
                comm: Comm::new(b"nginx"),
            },
            fd: Fd(0),
        };
        let (one, two) = (owner(1), owner(2));
        for (owners, expected) in [
            ([None, None], &[][..]),
            ([Some(one), None], &[one]),
            ([None, Some(one)], &[one]),
            ([Some(one), Some(one)], &[one]),
            ([Some(two), Some(one)], &[one, two]),
        ] {
            let (pair, count) = in_order(owners);
            assert_eq!(&pair.into_iter().flatten().collect::<Vec<_>>()[..count], expected);
        }
    }
}
