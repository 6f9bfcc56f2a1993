//! The container and the pod of a process.

use sockeye_model::{Container, Pid, ShortText, cgroup_path, pod_of_cgroup};
use std::fs::File;
use std::io::Read as _;

/// Where a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessContainer {
    /// Its container.
    pub container: Container,
    /// The uid of its pod of Kubernetes; `None` if it is in none.
    pub pod: Option<ShortText<36>>,
}

/// Returns the container of a process. `None` if it is in none, has ended, or cannot be read.
#[must_use]
pub fn process_container(pid: Pid) -> Option<ProcessContainer> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/cgroup")).ok()?;
    file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(ProcessContainer {
        container: Container::from_cgroup_file(&bytes)?,
        pod: cgroup_path(&bytes).and_then(pod_of_cgroup),
    })
}

const BYTES_MAX: u64 = 16 << 10;
