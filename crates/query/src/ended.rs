//! Sockets that ended before a pass could find them: events in the kernel have reported them.

use crate::event_processes::{CLOSE_WORDS, EVENT_WORDS};
use crate::listing::Listing;
use crate::workloads::SocketWorkloads;
use sockeye_model::{Entry, Owner, Socket, Workloads};
use sockeye_source::owners::Owners;

impl Listing<'_> {
    /// Whether the sockets of a network namespace, which `socket` names, are listed.
    pub fn selects(&self, socket: &Socket) -> bool {
        let selection = &self.context.namespaces;
        socket
            .netns
            .is_some_and(|netns| selection.with_inode(netns).is_some())
            || selection.iter().any(|netns| netns.is_none())
    }

    /// Calls `visit` with the entry of a socket that has ended and whether it matches the filter; `None`: events do not have what the filter tests,
    /// or its process had ended, too. `of_socket`: its owners, if they are
    /// known; `owners`: those of the sockets that are there.
    pub fn visit_ended(
        &self,
        socket: &Socket,
        of_socket: Option<&[Owner]>,
        owners: Option<&Owners>,
        visit: impl FnOnce(&Entry<'_>, Option<bool>),
    ) {
        let processes = self.sampled();
        let workloads = SocketWorkloads {
            context: self.context,
            has_owners: owners.is_some(),
            processes: &processes,
            kinds: &self.workload_kinds,
        };
        let has_workloads = !self.workload_kinds.is_empty();
        let entry = Entry {
            workloads: has_workloads.then_some(&workloads as &dyn Workloads),
            ..Entry::with_owners(socket, of_socket)
        };
        let resolved = self.targets.resolved_for(socket);
        let knows = |word: &str| EVENT_WORDS.contains(&word) || CLOSE_WORDS.contains(&word);
        let matches = match resolved {
            None => Some(false),
            Some(resolved) if resolved.filter.is_empty() => Some(true),
            Some(resolved) => match resolved.filter.decide(&entry, &knows) {
                // A connection without an owner, such as one of the kernel, has none that could match.
                None if entry.owners.is_none_or(<[Owner]>::is_empty)
                    && resolved.filter.first_unknown(&knows).is_none() =>
                {
                    Some(resolved.filter.matches(&entry))
                }
                decided => decided,
            },
        };
        visit(&entry, matches);
    }
}
