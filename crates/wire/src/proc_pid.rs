//! Files of `/proc/PID`: `stat`, cgroups, mounts, and the targets of links to sockets and namespaces.
//!
//! Source: `fs/proc/array.c` (`do_task_stat`), `kernel/cgroup/cgroup.c` (`proc_cgroup_show`), proc(5), cgroups(7).
//!
//! ```
//! use sockeye_wire::proc_pid::{Stat, socket_inode};
//!
//! let stat = Stat::parse(b"42 (a) b) S 1 40 40 0 -1 4194560").unwrap();
//! assert_eq!((stat.pid, stat.comm, stat.state, stat.parent, stat.group), (42, &b"a) b"[..], b'S', 1, 40));
//! assert_eq!(socket_inode(b"socket:[1129]"), Some(1129));
//! ```

use crate::{Error, Layer};

/// The first columns of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat<'a> {
    /// Process id.
    pub pid: u32,
    /// Name: any bytes, including parentheses, blanks, newlines and escape sequences. Usually at
    /// most 15 bytes, but kernel threads' may be longer. The kernel does not escape it here.
    pub comm: &'a [u8],
    /// State, a letter: `R` running, `S` sleeping, `D` waiting for a disk or similar, `Z` zombie, `T` stopped, ...
    pub state: u8,
    /// Parent process id; 0 for none, or one that is not visible.
    pub parent: u32,
    /// Process group id; 0 for one outside of our pid namespace.
    pub group: u32,
}

impl<'a> Stat<'a> {
    /// Parses the file's content; a part with the first five columns is enough.
    ///
    /// # Errors
    /// If one of these columns is missing or invalid.
    pub fn parse(stat: &'a [u8]) -> Result<Self, Error> {
        let broken = |offset, needed, got| Error {
            layer: Layer::ProcPidStat,
            offset,
            needed,
            got,
        };
        let open = stat
            .iter()
            .position(|&byte| byte == b'(')
            .ok_or(broken(0, 1, 0))?;
        let pid = stat[..open].strip_suffix(b" ").and_then(decimal);
        let pid = pid.ok_or(broken(0, 1, 0))?;
        // What follows the name has no parentheses, so the last one ends it.
        let close = stat
            .iter()
            .rposition(|&byte| byte == b')')
            .filter(|&close| close > open)
            .ok_or(broken(stat.len(), 1, 0))?;
        let mut at = close + 1;
        let mut column = || {
            let start = at + 1;
            let rest = stat.get(at..)?.strip_prefix(b" ")?;
            let len = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
            at = start + len;
            Some((start, rest.get(..len)?))
        };
        let (state_at, state) = column().ok_or(broken(close + 1, 2, 0))?;
        let &[state] = state else {
            return Err(broken(state_at, 1, state.len()));
        };
        let mut number = || {
            let (start, digits) = column().ok_or(broken(stat.len(), 1, 0))?;
            decimal(digits).ok_or(broken(start, 1, 0))
        };
        Ok(Self {
            pid,
            comm: &stat[open + 1..close],
            state,
            parent: number()?,
            group: number()?,
        })
    }
}

/// Returns the start time of the process of this `stat`, in ticks since boot: column 22.
#[must_use]
pub fn start_ticks(stat: &[u8]) -> Option<u64> {
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    // What follows the name is column 3.
    let column = stat.get(close + 1..)?.split(|&byte| byte == b' ').nth(20)?;
    decimal_u64(column)
}

/// Returns the limit of open files in a `/proc/PID/limits`: the soft `RLIMIT_NOFILE`, and the hard one if there is one.
/// `None` if the line is missing or there is no limit.
///
/// ```
/// use sockeye_wire::proc_pid::open_files_max;
///
/// let file = b"Limit                     Soft Limit           Hard Limit           Units     \n\
///              Max open files            1024                 524288               files     \n";
/// assert_eq!(open_files_max(file), Some((1024, Some(524_288))));
/// ```
#[must_use]
pub fn open_files_max(limits: &[u8]) -> Option<(u64, Option<u64>)> {
    let mut lines = limits.split(|&byte| byte == b'\n');
    let rest = lines.find_map(|line| line.strip_prefix(b"Max open files"))?;
    let mut words = rest.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let soft = decimal_u64(words.next()?)?;
    Some((soft, words.next().and_then(decimal_u64)))
}

/// A mount of a network namespace, from a line of `/proc/PID/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetnsMount {
    /// The inode in `net:[N]`.
    pub inode: u64,
    /// Mount point below the root of the process; any bytes but NUL.
    pub path: alloc::vec::Vec<u8>,
}

/// Iterates over the mounts of network namespaces in `/proc/PID/mountinfo`; other lines are skipped.
///
/// ```
/// use sockeye_wire::proc_pid::netns_mounts;
///
/// let file = b"25 1 0:24 / /run rw - tmpfs run rw\n95 25 0:4 net:[4026532177] /run/netns/a\\040b rw shared:4 - nsfs nsfs rw\n";
/// let all: Vec<_> = netns_mounts(file).map(|mount| (mount.inode, mount.path)).collect();
/// assert_eq!(all, [(4_026_532_177, b"/run/netns/a b".to_vec())]);
/// ```
pub fn netns_mounts(mountinfo: &[u8]) -> impl Iterator<Item = NetnsMount> + '_ {
    mountinfo.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut columns = line.split(|&byte| byte == b' ');
        // ID, parent, device, root within the file system, mount point
        let root = columns.nth(3)?;
        let inode = netns_inode(root)?;
        Some(NetnsMount {
            inode,
            path: unescape(columns.next()?),
        })
    })
}

/// Decodes octal escapes: blanks, tabs, newlines and backslashes are written as `\040` (`mangle_path()` of
/// `fs/seq_file.c`).
fn unescape(path: &[u8]) -> alloc::vec::Vec<u8> {
    let mut out = alloc::vec::Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            (&byte, _) => out.push(byte),
        }
    }
    out
}

/// A line of `/proc/PID/cgroup`: the cgroup of the process in one hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupLine<'a> {
    /// Id of the hierarchy; 0 is version 2.
    pub hierarchy: u32,
    /// `cpu,cpuacct`, `name=systemd`; empty for version 2.
    pub controllers: &'a [u8],
    /// Path below the root of our cgroup namespace; any bytes but newline. It starts with `/..` outside of it, and ends
    /// with ` (deleted)` if the cgroup is removed.
    pub path: &'a [u8],
}

/// Iterates over the lines of `/proc/PID/cgroup`; invalid lines are skipped.
pub fn cgroup_lines(file: &[u8]) -> impl Iterator<Item = CgroupLine<'_>> {
    file.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (hierarchy, rest) = (decimal(&line[..colon])?, &line[colon + 1..]);
        // The name of a hierarchy may contain a colon; a path always starts with a slash.
        let end = rest.windows(2).position(|pair| pair == b":/")?;
        let (controllers, path) = (&rest[..end], &rest[end + 1..]);
        Some(CgroupLine {
            hierarchy,
            controllers,
            path,
        })
    })
}

/// Returns the inode in `socket:[N]`, the target of a socket's link in `/proc/PID/fd`.
#[must_use]
#[inline]
pub fn socket_inode(target: &[u8]) -> Option<u64> {
    bracketed(target.strip_prefix(b"socket:[")?)
}

/// Returns the inode in `net:[N]`, the target of `/proc/PID/ns/net`.
#[must_use]
#[inline]
pub fn netns_inode(target: &[u8]) -> Option<u64> {
    bracketed(target.strip_prefix(b"net:[")?)
}

/// Returns the inode in `mnt:[N]`, or in the link of any other type of namespace.
#[must_use]
pub fn namespace_inode(target: &[u8]) -> Option<u64> {
    let open = target.iter().position(|&byte| byte == b'[')?;
    bracketed(target.get(open + 1..)?)
}

#[inline]
fn bracketed(rest: &[u8]) -> Option<u64> {
    decimal_u64(rest.strip_suffix(b"]")?)
}

fn decimal(digits: &[u8]) -> Option<u32> {
    u32::try_from(decimal_u64(digits)?).ok()
}

/// Parses decimal digits: at least one, nothing else, no overflow.
#[inline]
fn decimal_u64(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_may_contain_any_bytes() {
        for comm in [
            &b"nginx"[..],
            b"",
            b"(sd-pam)",
            b") R 1 1 (",
            b"a\nb\x1b[31m",
            b"a b",
            b")",
            b"\xff\xfe",
        ] {
            let mut stat = b"4194304 (".to_vec();
            stat.extend_from_slice(comm);
            stat.extend_from_slice(b") D 0 4194303 0 0 -1 0\n");
            assert_eq!(
                Stat::parse(&stat),
                Ok(Stat {
                    pid: 4_194_304,
                    comm,
                    state: b'D',
                    parent: 0,
                    group: 4_194_303
                })
            );
        }
    }

    #[test]
    fn broken_stat_is_an_error() {
        for bad in [
            &b""[..],
            b"1",
            b"1 (a",
            b"(a) S 1 1 ",
            b"x (a) S 1 1 ",
            b"1 )a( S 1 1 ",
            b"1 (a)",
            b"1 (a) ",
            b"1 (a) S",
            b"1 (a) SS 1 1 ",
            b"1 (a)S 1 1 ",
            b"1 (a) S 1",
            b"1 (a) S 1 ",
            b"1 (a) S -1 1 ",
            b"1 (a) S 1 x ",
            b"4294967296 (a) S 1 1 ",
        ] {
            let error = Stat::parse(bad).unwrap_err();
            assert!(
                error.layer == Layer::ProcPidStat && error.offset <= bad.len(),
                "{}",
                bad.escape_ascii()
            );
        }
        // A buffer that ends within the group would yield another group; the file always has more columns.
        assert_eq!(Stat::parse(b"1 (a) S 1 12").map(|stat| stat.group), Ok(12));
    }

    #[test]
    fn start_time_is_read() {
        let stat = b"1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 77 1000 1\n";
        assert_eq!(start_ticks(stat), Some(77));
        for bad in [
            &b""[..],
            b"1 (a) S 0",
            b"1 (a",
            b"1 (a) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 x ",
        ] {
            assert_eq!(start_ticks(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn namespace_mounts_are_listed() {
        let file = b"1 2 0:4 net:[5] /a\\134b\\012 rw - nsfs nsfs rw\n1 2 0:4 mnt:[6] /m rw - nsfs nsfs rw\n\n1 2 0:4 net:[7]\n1 2 0:4 net:[8] /x\\9 rw";
        let found: alloc::vec::Vec<_> = netns_mounts(file)
            .map(|mount| (mount.inode, mount.path))
            .collect();
        assert_eq!(found, [(5, b"/a\\b\n".to_vec()), (8, b"/x\\9".to_vec())]);
    }

    #[test]
    fn cgroup_lines_are_parsed() {
        let file = b"12:cpu,cpuacct:/docker/1f\n1:name=systemd:/a:b/c\n3:name=a:b:c:/d\n\n0::/\n7:pids\nx::/\n1:a:b\n:::\n5::";
        let found: alloc::vec::Vec<_> = cgroup_lines(file)
            .map(|line| (line.hierarchy, line.controllers, line.path))
            .collect();
        let expected: [(u32, &[u8], &[u8]); 4] = [
            (12, b"cpu,cpuacct", b"/docker/1f"),
            (1, b"name=systemd", b"/a:b/c"),
            (3, b"name=a:b:c", b"/d"),
            (0, b"", b"/"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn link_targets_are_parsed() {
        assert_eq!(socket_inode(b"socket:[0]"), Some(0));
        assert_eq!(netns_inode(b"net:[4026531840]"), Some(4_026_531_840));
        for other in [
            &b""[..],
            b"socket:[]",
            b"socket:[1",
            b"socket:[1]x",
            b"socket:[-1]",
            b"socket:[1 ]",
            b"net:[1]",
            b"/socket:[1]",
            b"socket:[18446744073709551616]",
        ] {
            assert_eq!(socket_inode(other), None, "{}", other.escape_ascii());
        }
        assert_eq!(netns_inode(b"socket:[1]"), None);
    }
}
