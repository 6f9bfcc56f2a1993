//! What others have on the same kernel.
//!
//! All network namespaces share one hash table, and every dump of any of them walks all of it: somebody else's 50,000 sockets in another
//! namespace disturb the figures unseen, most of all those of a nearly empty namespace. Whoever looks for owners walks past
//! everybody's descriptors.

use anyhow::{Context, Result};
use std::fs;

/// What is there, or what of it is too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// TCP sockets allocated on the whole kernel, every namespace's. The kernel counts them per processor, so this is right to within
    /// some dozens; it includes closed sockets that still have a descriptor, and leaves out TIME_WAIT.
    pub tcp_sockets: u64,
    /// Open files of all processes, whatever they are.
    pub files: u64,
    /// Network namespaces, as the kernel's allocator counts them, including those it is still clearing away. 0 where it does not tell
    /// (only root may read it).
    pub namespaces: u64,
}

/// More than so much of others is worth a warning; an ordinary host disturbs nothing.
pub const DISTURBING: Neighbours = Neighbours {
    tcp_sockets: 1_000,
    files: 10_000,
    namespaces: 200,
};

impl Neighbours {
    /// Counts what is there now.
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

    /// Without these, which are ours.
    #[must_use]
    pub fn without(self, ours: Self) -> Self {
        Self {
            tcp_sockets: self.tcp_sockets.saturating_sub(ours.tcp_sockets),
            files: self.files.saturating_sub(ours.files),
            namespaces: self.namespaces.saturating_sub(ours.namespaces),
        }
    }

    /// The more of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tcp_sockets: self.tcp_sockets.max(other.tcp_sockets),
            files: self.files.max(other.files),
            namespaces: self.namespaces.max(other.namespaces),
        }
    }

    /// What makes the figures doubtful, if there is so much of it.
    pub fn warning(self) -> Option<String> {
        let sockets = (self.tcp_sockets > DISTURBING.tcp_sockets).then(|| {
            format!(
                "{} TCP sockets of others on this kernel, and every dump walks past them",
                self.tcp_sockets
            )
        });
        let files = (self.files > DISTURBING.files).then(|| {
            format!(
                "{} open files of others, and every search for owners walks past them",
                self.files
            )
        });
        let namespaces = (self.namespaces > DISTURBING.namespaces).then(|| {
            format!(
                "{} network namespaces of others, to be listed too or still being cleared away",
                self.namespaces
            )
        });
        let reasons: Vec<String> = sockets.into_iter().chain(files).chain(namespaces).collect();
        (!reasons.is_empty()).then(|| format!("DISTURBED: {}", reasons.join("; ")))
    }
}

/// `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 1`; of these, `inuse` is the namespace's and `alloc` the kernel's (net/ipv4/proc.c,
/// sockstat_seq_show).
fn parse(sockstat: &str) -> Option<u64> {
    let mut words = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))?
        .split_whitespace();
    words.find(|word| *word == "alloc")?;
    words.next()?.parse().ok()
}

/// Allocated, unused, highest possible (Documentation/admin-guide/sysctl/fs.rst).
fn parse_files(file_nr: &str) -> Option<u64> {
    file_nr.split_whitespace().next()?.parse().ok()
}

/// `net_namespace 21 56 4288 ...`: name, objects in use, objects there is room for (mm/slab_common.c).
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
    fn the_whole_kernels_count_is_found() {
        let text = "sockets: used 15\nTCP: inuse 1 orphan 21 tw 0 alloc 79146 mem 166\nUDP: inuse 0 mem 0\n";
        assert_eq!(parse(text), Some(79_146));
        assert_eq!(parse("sockets: used 15\n"), None);
        assert_eq!(parse("TCP: inuse 1\n"), None);
    }

    #[test]
    fn this_kernel_says_it() {
        let now = Neighbours::now().expect("/proc");
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
        let many = Neighbours {
            namespaces: 2_021,
            ..Neighbours::default()
        };
        assert!(
            many.warning()
                .is_some_and(|why| why.contains("2021 network namespaces"))
        );
    }

    #[test]
    fn only_what_disturbs_is_said() {
        let ours = Neighbours {
            tcp_sockets: 79_200,
            files: 79_200,
            namespaces: 1,
        };
        let check = |tcp_sockets, files| {
            let namespaces = 150;
            let there = Neighbours {
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
