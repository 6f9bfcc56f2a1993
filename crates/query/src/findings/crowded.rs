//! Processes near their limit of open files: what the pass over descriptors and the walk over sockets show of them need not be read
//! from `/proc`, where each descriptor and each socket takes a microsecond or more.

use foldhash::HashMap;
use sockeye_model::{Entry, NetnsInode, OpenFiles, Pid};
use sockeye_source::owners::Owners;
use sockeye_source::vitals::{CrowdedProcess, KnownSockets};

/// The processes, each with what is known of its sockets.
#[derive(Debug, Default)]
pub(super) struct Crowded {
    processes: Vec<CrowdedProcess>,
    /// Those whose sockets are in tables that are walked over.
    known: HashMap<Pid, KnownSockets>,
}

impl Crowded {
    /// Takes over what owners show. `is_walked`: whether the tables of a namespace will be walked over.
    pub(super) fn new(
        processes: Vec<CrowdedProcess>,
        owners: Option<&Owners>,
        is_walked: impl Fn(NetnsInode) -> bool,
    ) -> Self {
        let walked = processes
            .iter()
            .filter(|process| owners.is_some() && process.netns.is_some_and(&is_walked));
        let mut known: HashMap<_, _> = walked
            .map(|process| (process.pid(), KnownSockets::default()))
            .collect();
        if let Some(owners) = owners.filter(|_| !known.is_empty()) {
            for (inode, of_socket) in owners.iter() {
                for owner in of_socket {
                    if let Some(known) = known.get_mut(&owner.process.pid) {
                        known.add(owner.fd, inode);
                    }
                }
            }
        }
        Self { processes, known }
    }

    /// Notes that a table has a socket.
    pub(super) fn socket(&mut self, entry: &Entry<'_>) {
        let (Some(inode), false) = (entry.socket.inode, self.known.is_empty()) else {
            return;
        };
        for owner in entry.owners.unwrap_or_default() {
            if let Some(known) = self.known.get_mut(&owner.process.pid) {
                known.set_listed(inode);
            }
        }
    }

    /// Returns the processes.
    pub(super) fn processes(&self) -> impl Iterator<Item = &CrowdedProcess> {
        self.processes.iter()
    }

    /// Returns what the descriptors of a process are.
    pub(super) fn files(&self, process: &CrowdedProcess) -> OpenFiles {
        process.files(self.known.get(&process.pid()))
    }
}
