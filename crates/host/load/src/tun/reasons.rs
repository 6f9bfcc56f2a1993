//! Why the kernel dropped packets, in its own words: the reasons of the tracepoint `skb:kfree_skb` (Linux 5.17).

use sockeye_sys::tracepoint::TracepointCounter;
use std::ffi::CString;
use std::fs;
use std::path::Path;

/// Counts drops of packets in the threads that are started from now on.
#[derive(Debug)]
pub(super) struct Reasons(Vec<(&'static str, TracepointCounter)>);

impl Reasons {
    /// None where tracefs is not mounted, the kernel tells no reasons, or it is forbidden: counters of devices have to do.
    pub(super) fn watch() -> Option<Self> {
        let folder = FOLDERS.iter().map(Path::new).find(|folder| folder.exists())?;
        let id = fs::read_to_string(folder.join("id")).ok()?.trim().parse().ok()?;
        let format = fs::read_to_string(folder.join("format")).ok()?;
        let passes = WATCHED.into_iter().filter_map(|name| {
            let filter = CString::new(format!("reason == {}", number_of(&format, name)?)).ok()?;
            Some((name, TracepointCounter::open(id, &filter).ok()?))
        });
        let passes: Vec<_> = passes.collect();
        (!passes.is_empty()).then_some(Self(passes))
    }

    /// Those that occurred so far, by name.
    pub(super) fn value(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter();
        counts
            .map(|(name, passes)| (*name, passes.value().unwrap_or(0)))
            .collect()
    }
}

/// Numbers change from kernel to kernel; what it prints of them tells: `{ 74, "FULL_RING" }`.
fn number_of(format: &str, name: &str) -> Option<u32> {
    let (before, _) = format.split_once(&format!(", \"{name}\" }}"))?;
    before.rsplit_once('{')?.1.trim().parse().ok()
}

/// Where tracefs is, and where it was before Linux 4.1.
const FOLDERS: [&str; 2] = [
    "/sys/kernel/tracing/events/skb/kfree_skb",
    "/sys/kernel/debug/tracing/events/skb/kfree_skb",
];
/// What can happen to a packet between a socket and the reader of a device, or on the way into a socket.
const WATCHED: [&str; 9] = [
    "FULL_RING",
    "QDISC_DROP",
    "QDISC_OVERLIMIT",
    "CPU_BACKLOG",
    "SOCKET_RCVBUFF",
    "SOCKET_BACKLOG",
    "NOMEM",
    "DEV_READY",
    "TAP_TXFILTER",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_reasons() {
        let format = "print fmt: \"...\", __print_symbolic(REC->reason, { 2, \"NOT_SPECIFIED\" }, { 74, \"FULL_RING\" })";
        assert_eq!(number_of(format, "FULL_RING"), Some(74));
        assert_eq!(number_of(format, "NOT_SPECIFIED"), Some(2));
        assert_eq!(number_of(format, "RING"), None);
        assert_eq!(number_of("", "FULL_RING"), None);
    }
}
