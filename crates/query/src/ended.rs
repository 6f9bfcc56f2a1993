//! Sockets that ended before a pass could find them: events in the kernel have reported them.

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

    /// Calls `visit` with the entry of a socket that has ended and whether it matches the filter. `of_socket`: its owners, if they are
    /// known; `owners`: those of the sockets that are there.
    pub fn visit_ended(
        &self,
        socket: &Socket,
        of_socket: Option<&[Owner]>,
        owners: Option<&Owners>,
        visit: impl FnOnce(&Entry<'_>, bool),
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
        let matches =
            resolved.is_some_and(|resolved| resolved.filter.is_empty() || resolved.filter.matches(&entry));
        visit(&entry, matches);
    }
}
