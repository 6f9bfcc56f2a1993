//! Descriptors that keep a namespace alive from outside, from BPF: of the namespace, and of sockets in it.

use super::process_scan::Descriptor;
use crate::bpf::BpfEngine;
use crate::process_descriptors::comm;
use crate::unavailable::Unavailable;
use sockeye_model::{Comm, Fd, NetnsInode, Pid, Process, SocketHolder, TruncatedList};
use sockeye_wire::netns_file::Kind;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The result of a pass over all descriptors.
#[derive(Debug, Default)]
pub(super) struct NetnsDescriptors {
    pub(super) descriptors: HashMap<NetnsInode, TruncatedList<Descriptor>>,
    pub(super) sockets: HashMap<NetnsInode, ForeignSockets>,
}

/// Sockets of a namespace whose owners are processes in another namespace.
#[derive(Debug, Default)]
pub(super) struct ForeignSockets {
    /// Owners, sorted by pid.
    pub(super) holders: TruncatedList<SocketHolder>,
    /// Number of distinct sockets.
    pub(super) sockets: u64,
}

impl NetnsDescriptors {
    pub(super) fn read(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let mut held = Self::default();
        let mut sockets: HashMap<NetnsInode, BTreeMap<u32, (Comm, BTreeSet<u32>)>> = HashMap::new();
        for record in engine.netns_descriptors()? {
            let (netns, pid) = (NetnsInode(record.netns), Pid(record.pid));
            // Descriptors that we inherited end with us.
            if pid.0 == std::process::id() {
                continue;
            }
            match record.kind {
                Kind::Namespace => {
                    let fd = Fd(record.descriptor);
                    held.descriptors
                        .entry(netns)
                        .or_default()
                        .push(Descriptor { pid, fd });
                }
                Kind::Socket(inode) => {
                    let of_netns = sockets.entry(netns).or_default();
                    let of_process = of_netns
                        .entry(pid.0)
                        .or_insert((comm(&record.comm), BTreeSet::new()));
                    of_process.1.insert(inode);
                }
            }
        }
        for (netns, by_pid) in sockets {
            let of_netns = held.sockets.entry(netns).or_default();
            let all: BTreeSet<u32> = by_pid
                .values()
                .flat_map(|(_, sockets)| sockets)
                .copied()
                .collect();
            of_netns.sockets = all.len() as u64;
            for (pid, (comm, sockets)) in by_pid {
                of_netns.holders.push(SocketHolder {
                    process: Process {
                        pid: Pid(pid),
                        pgid: None,
                        comm,
                    },
                    sockets: sockets.len() as u64,
                });
            }
        }
        Ok(held)
    }
}
