//! Which processes read the packets of a tun or tap device, from `/proc/PID/fdinfo`.

use sockeye_model::{Comm, Pid};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// Returns the processes that have a tun or tap device of the calling thread's network namespace open, in the order of their numbers. The
/// `fdinfo` of `/dev/net/tun` names the interface, but not its namespace: only processes in this one count.
#[must_use]
pub fn tunnel_readers(name: &str) -> Vec<(Pid, Comm)> {
    let netns = |folder: &str| {
        fs::metadata(format!("{folder}/ns/net"))
            .ok()
            .map(|file| (file.dev(), file.ino()))
    };
    let own = netns("/proc/thread-self");
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let holds = |number: &u32| {
        let folder = format!("/proc/{number}");
        netns(&folder) == own && has_open(&folder, name)
    };
    let mut found: Vec<(Pid, Comm)> = numbers
        .filter(holds)
        .filter_map(|number| {
            let comm = fs::read(format!("/proc/{number}/comm")).ok()?;
            let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
            Some((Pid(number), Comm::new(comm)))
        })
        .collect();
    found.sort_by_key(|(pid, _)| pid.0);
    found
}

fn has_open(folder: &str, name: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("{folder}/fd")) else {
        return false;
    };
    let mut numbers = files.filter_map(|entry| {
        let entry = entry.ok()?;
        let target = fs::read_link(entry.path()).ok()?;
        (target.as_os_str() == "/dev/net/tun").then(|| entry.file_name())
    });
    numbers.any(|number| {
        let info =
            fs::read_to_string(format!("{folder}/fdinfo/{}", number.to_string_lossy())).unwrap_or_default();
        info.lines()
            .filter_map(|line| line.strip_prefix("iff:"))
            .any(|of| of.trim() == name)
    })
}
