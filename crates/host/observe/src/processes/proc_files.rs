//! Reads processes from `/proc` and cgroupfs.

use crate::Mapping;
use sockeye_wire::proc_maps::executable;
use sockeye_wire::proc_pid::{Stat, cgroup_lines};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the name of a process; `None` if it has ended.
pub(super) fn name(pid: u32) -> Option<Vec<u8>> {
    let mut name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    Some(name)
}

/// Returns the executable mappings of a process.
pub(super) fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    let mut maps = vec![];
    File::open(format!("/proc/{pid}/maps"))?
        .take(MAPS_BYTES_MAX)
        .read_to_end(&mut maps)?;
    let mappings = executable(&maps).map(|line| Mapping {
        start: line.start,
        end: line.end,
        offset: line.offset,
        device: line.device,
        inode: line.inode,
        path: line.path(),
    });
    Ok(mappings.collect())
}

/// Returns the parent of a process; `None` if it has ended.
pub(super) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Stat::parse(&stat).ok().map(|stat| stat.parent)
}

/// Returns all processes in our `/proc`.
pub(crate) fn all_pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Returns the processes in a cgroup and its descendants.
pub(crate) fn cgroup_pids(folder: &Path) -> Vec<u32> {
    let mut pids = vec![];
    let mut folders = vec![folder.to_owned()];
    // A cgroup that is removed meanwhile has no processes any more.
    while let Some(folder) = folders.pop() {
        let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        pids.extend(listed.lines().filter_map(|line| line.parse::<u32>().ok()));
        let below = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|entry| entry.path()));
    }
    // 0: a process outside our pid namespace.
    pids.retain(|&pid| pid != 0);
    pids
}

/// Checks whether a process is in a cgroup or a descendant, where the kernel does not filter events.
#[derive(Debug)]
pub(super) struct CgroupMembership {
    folder: PathBuf,
    /// The mount point of the hierarchy: paths in `/proc/PID/cgroup` are relative to it.
    root: PathBuf,
}

impl CgroupMembership {
    pub(super) fn new(folder: &Path) -> Self {
        let device = |path: &Path| fs::metadata(path).map(|it| it.dev()).ok();
        // The folder itself may have been removed.
        let own = folder.ancestors().find_map(device);
        let root = folder
            .ancestors()
            .take_while(|path| device(path).is_none_or(|device| Some(device) == own))
            .last()
            .unwrap_or(folder);
        Self {
            folder: folder.to_owned(),
            root: root.to_owned(),
        }
    }

    pub(super) fn includes(&self, pid: u32) -> bool {
        let Ok(file) = fs::read(format!("/proc/{pid}/cgroup")) else {
            return false;
        };
        cgroup_lines(&file)
            .find(|line| line.hierarchy == 0)
            .is_some_and(|line| {
                let below = line.path.strip_prefix(b"/").unwrap_or(line.path);
                self.root.join(OsStr::from_bytes(below)).starts_with(&self.folder)
            })
    }
}

/// The most bytes read of a `maps` file. 65,530 lines (the default limit) have about 10 MB.
const MAPS_BYTES_MAX: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn membership_includes_own_process_in_root_only() {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let root = mounts.lines().find_map(|line| {
            let mut columns = line.split(' ').skip(1);
            let (folder, kind) = (columns.next()?, columns.next()?);
            (kind == "cgroup2").then_some(Path::new(folder))
        });
        let Some(root) = root else {
            return; // a machine without cgroups of version 2
        };
        let own = std::process::id();
        assert!(CgroupMembership::new(root).includes(own));
        assert!(!CgroupMembership::new(&root.join("sockeye-nowhere")).includes(own));
        assert!(!CgroupMembership::new(root).includes(5_000_000));
        assert!(cgroup_pids(&root.join("sockeye-nowhere")).is_empty());
    }
}
