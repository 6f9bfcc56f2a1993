//! TCP sockets of others on the same kernel.
//!
//! All network namespaces share one hash table, and every dump of any of them walks all of it: somebody else's 50,000 sockets in another
//! namespace disturb the figures unseen, most of all those of a nearly empty namespace.

use anyhow::{Context, Result};
use std::fs;

/// More than so many sockets of others are worth a warning; an ordinary host's few disturb nothing.
pub const DISTURBING: u64 = 1_000;

/// TCP sockets allocated on the whole kernel, every namespace's. The kernel counts them per processor, so this is right to within
/// some dozens; it includes closed sockets that still have a descriptor, and leaves out TIME_WAIT.
pub fn allocated() -> Result<u64> {
    let text = fs::read_to_string("/proc/net/sockstat").context("reading /proc/net/sockstat")?;
    parse(&text).context("no TCP `alloc` in /proc/net/sockstat")
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
        assert!(allocated().is_ok());
    }
}
