//! The kernel's totals, to detect other load on the same kernel.
//!
//! All network namespaces share one hash table, and each dump walks all of it: 50,000 sockets of other
//! programs in another namespace affect the figures invisibly, most of all those of a nearly empty namespace.
//! A search for owners walks the descriptors of all processes.

use anyhow::{Context, Result};
use std::fs;

/// Totals of the kernel, or the part of them that belongs to other programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTotals {
    /// TCP sockets allocated on the whole kernel, in all namespaces. Counted per processor, so exact to some
    /// dozens; includes closed sockets that still have a descriptor, excludes TIME_WAIT.
    pub tcp_sockets: u64,
    /// Open files of all processes.
    pub files: u64,
    /// Network namespaces in the kernel's allocator, including those being removed. 0 if unknown (only root
    /// may read it).
    pub namespaces: u64,
}

/// More than this of other programs gives a warning; an ordinary host has less.
pub const DISTURBING: KernelTotals = KernelTotals {
    tcp_sockets: 1_000,
    files: 10_000,
    namespaces: 200,
};

impl KernelTotals {
    /// Reads the current totals.
    pub fn now() -> Result<Self> {
        let sockstat = fs::read_to_string("/proc/net/sockstat").context("reading /proc/net/sockstat")?;
        let files = fs::read_to_string("/proc/sys/fs/file-nr").context("reading /proc/sys/fs/file-nr")?;
        let slabs = fs::read_to_string("/proc/slabinfo").unwrap_or_default();
        Ok(Self {
            tcp_sockets: parse(&sockstat).context("no TCP `alloc` in /proc/net/sockstat")?,
            files: parse_files(&files).context("no number in /proc/sys/fs/file-nr")?,
            namespaces: parse_namespaces(&slabs).unwrap_or(0),
        })
    }

    /// The totals without this part, which is ours.
    #[must_use]
    pub fn without(self, ours: Self) -> Self {
        Self {
            tcp_sockets: self.tcp_sockets.saturating_sub(ours.tcp_sockets),
            files: self.files.saturating_sub(ours.files),
            namespaces: self.namespaces.saturating_sub(ours.namespaces),
        }
    }

    /// The maximum of each value.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tcp_sockets: self.tcp_sockets.max(other.tcp_sockets),
            files: self.files.max(other.files),
            namespaces: self.namespaces.max(other.namespaces),
        }
    }

    /// The reason why the figures are doubtful; `None` if they are not.
    pub fn warning(self) -> Option<String> {
        let sockets = (self.tcp_sockets > DISTURBING.tcp_sockets).then(|| {
            format!(
                "{} TCP sockets of other programs on this kernel, and every dump walks past them",
                self.tcp_sockets
            )
        });
        let files = (self.files > DISTURBING.files).then(|| {
            format!(
                "{} open files of other programs, and every search for owners walks past them",
                self.files
            )
        });
        let namespaces = (self.namespaces > DISTURBING.namespaces).then(|| {
            format!(
                "{} network namespaces of other programs, also listed or still being removed",
                self.namespaces
            )
        });
        let reasons: Vec<String> = sockets.into_iter().chain(files).chain(namespaces).collect();
        (!reasons.is_empty()).then(|| format!("DISTURBED: {}", reasons.join("; ")))
    }
}

/// `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 1`: `inuse` is the namespace's, `alloc` the kernel's
/// (net/ipv4/proc.c, sockstat_seq_show).
fn parse(sockstat: &str) -> Option<u64> {
    let mut words = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))?
        .split_whitespace();
    words.find(|word| *word == "alloc")?;
    words.next()?.parse().ok()
}

/// Allocated, unused, maximum (Documentation/admin-guide/sysctl/fs.rst).
fn parse_files(file_nr: &str) -> Option<u64> {
    file_nr.split_whitespace().next()?.parse().ok()
}

/// `net_namespace 21 56 4288 ...`: name, objects in use, allocated objects (mm/slab_common.c).
fn parse_namespaces(slabinfo: &str) -> Option<u64> {
    let mut words = slabinfo
        .lines()
        .find_map(|line| line.strip_prefix("net_namespace "))?
        .split_whitespace();
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_wide_count_is_parsed() {
        let text = "sockets: used 15\nTCP: inuse 1 orphan 21 tw 0 alloc 79146 mem 166\nUDP: inuse 0 mem 0\n";
        assert_eq!(parse(text), Some(79_146));
        assert_eq!(parse("sockets: used 15\n"), None);
        assert_eq!(parse("TCP: inuse 1\n"), None);
    }

    #[test]
    fn totals_of_this_kernel_are_read() {
        let now = KernelTotals::now().expect("/proc");
        assert!(now.files > 0);
    }

    #[test]
    fn open_files_are_the_first_number() {
        assert_eq!(parse_files("1184\t0\t9223372036854775807\n"), Some(1_184));
        assert_eq!(parse_files("\n"), None);
    }

    #[test]
    fn namespaces_are_the_objects_in_use() {
        let slabs = "slabinfo - version: 2.1\n# name <active_objs>\nnet_namespace       2021   2056   4288    7    8\n";
        assert_eq!(parse_namespaces(slabs), Some(2_021));
        assert_eq!(parse_namespaces(""), None);
        let many = KernelTotals {
            namespaces: 2_021,
            ..KernelTotals::default()
        };
        assert!(
            many.warning()
                .is_some_and(|why| why.contains("2021 network namespaces"))
        );
    }

    #[test]
    fn warning_names_only_large_values() {
        let ours = KernelTotals {
            tcp_sockets: 79_200,
            files: 79_200,
            namespaces: 1,
        };
        let check = |tcp_sockets, files| {
            let namespaces = 150;
            let there = KernelTotals {
                tcp_sockets,
                files,
                namespaces,
            };
            there.without(ours).warning()
        };
        assert_eq!(check(79_000, 80_000), None);
        let sockets = check(90_000, 80_000).expect("others' sockets");
        assert!(sockets.starts_with("DISTURBED: 10800 TCP sockets") && !sockets.contains("files"));
        let both = check(90_000, 100_000).expect("both");
        assert!(
            both.contains("10800 TCP") && both.contains("20800 open files"),
            "{both}"
        );
    }
}
