//! Mounts of network namespaces in any mount namespace, such as Docker's in `/run/docker/netns`.

use super::process_scan::append;
use crate::threads::for_each;
use rustix::io::Errno;
use sockeye_model::{NetnsInode, Pid, TruncatedList};
use sockeye_wire::proc_pid::netns_mounts;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The mounts of all network namespaces.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// Mounts by namespace: ours first, then by process.
    pub(super) of: BTreeMap<NetnsInode, TruncatedList<Mount>>,
    /// Mount namespaces that were not read because of the limit on bytes.
    pub(super) unread: u64,
}

/// A mount of a network namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mount {
    /// A process of the mount namespace; `None` if that is ours.
    pub(super) pid: Option<Pid>,
    pub(super) path: Vec<u8>,
}

impl Mounts {
    /// Reads our own mount table.
    pub(super) fn own() -> Self {
        let mut own = Self::default();
        if let Ok(file) = fs::read("/proc/thread-self/mountinfo") {
            own.take(None, &file);
        }
        own
    }

    /// Removes our mounts in `folder` that are no names: they were deleted meanwhile.
    pub(super) fn keep_names(&mut self, folder: &[u8], is_name: impl Fn(&[u8]) -> bool) {
        for mounts in self.of.values_mut() {
            let before = mounts.first.len();
            mounts.first.retain(|mount| {
                let below = mount
                    .path
                    .strip_prefix(folder)
                    .and_then(|rest| rest.strip_prefix(b"/"));
                below.is_none_or(|name| name.contains(&b'/') || is_name(&mount.path))
            });
            mounts.total -= (before - mounts.first.len()) as u64;
        }
        self.of.retain(|_, mounts| mounts.total > 0);
    }

    /// Reads the mount tables of other mount namespaces through one process each; `every` lifts the limit on bytes.
    pub(super) fn read_others(
        &mut self,
        mount_namespaces: &HashMap<u64, Pid>,
        own: Option<u64>,
        every: bool,
    ) {
        let mut pids: Vec<_> = mount_namespaces
            .iter()
            .filter(|(inode, _)| Some(**inode) != own)
            .map(|(_, pid)| *pid)
            .collect();
        // Daemons have low pids, and their containers have copies of their mounts.
        pids.sort_unstable();
        let read = AtomicUsize::new(0);
        let parts = for_each(&pids, |&pid, part: &mut Self| {
            if !every && read.load(Ordering::Relaxed) > BYTES_MAX {
                part.unread += 1;
                return;
            }
            match fs::read(format!("/proc/{pid}/mountinfo")) {
                Ok(file) => {
                    read.fetch_add(file.len(), Ordering::Relaxed);
                    part.take(Some(pid), &file);
                }
                // It ended, and may have been the only process of its mount namespace.
                Err(error) if Errno::from_io_error(&error).is_some_and(|errno| errno != Errno::NOENT) => {
                    part.unread += u64::from(error.kind() != std::io::ErrorKind::NotFound);
                }
                Err(_) => {}
            }
        });
        for part in parts {
            self.unread += part.unread;
            for (inode, mounts) in part.of {
                append(self.of.entry(inode).or_default(), mounts);
            }
        }
    }

    fn take(&mut self, pid: Option<Pid>, file: &[u8]) {
        for mount in netns_mounts(file) {
            if let Ok(inode) = u32::try_from(mount.inode) {
                let mounts = self.of.entry(NetnsInode(inode)).or_default();
                mounts.push(Mount {
                    pid,
                    path: mount.path,
                });
            }
        }
    }
}

/// Limit on the size of all mount tables: about a tenth of a second. If each of 4,000 processes has a copy of 4,000 mounts, as
/// `ip netns exec` creates them, all tables together would be a gigabyte.
const BYTES_MAX: usize = 16 * 1024 * 1024;
