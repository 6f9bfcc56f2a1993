//! Reads `/proc/PID/fd` of one process and finds its sockets, for `procfs_scan.rs` and `large_process.rs`. It
//! must not open, duplicate or `stat` what a descriptor refers to: it only reads the links.

use crate::proc_folder::{Decimal, number, open_folder, open_to_list};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{RawDir, SeekFrom, readlinkat_raw, seek, statat};
use rustix::io::Errno;
use sockeye_wire::proc_pid;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::Range;

/// All descriptor numbers.
pub(super) const ALL: Range<u32> = 0..u32::MAX;

/// An open folder `/proc/PID/fd`.
///
/// Measured on 79,124 sockets in four processes, kernel 6.18, 2 cores (best of several passes; the first pass
/// over new descriptors costs 70 ms more, as it fills the dentry cache):
///
/// | method | ms |
/// |---|---|
/// | `getdents64` alone, 64 KiB a call, no link read | 61 |
/// | `getdents64`, then `readlinkat` of each name | 272 |
/// | `getdents64`, then `statx` of each name | 250 |
/// | `readlinkat` of 0, 1, 2, ... until as many were found as there are | 220 |
/// | the same with `statx` | 206 |
/// | the same with `readlinkat`, by two threads | 118 |
///
/// The rest is the cost of the kernel: 2.8 us per call, for the path walk to the dentry and one task look-up after the other;
/// our own share of the 220 ms is 6 ms. `statx` would save a little of it because it does not write `socket:[N]`, but it
/// asks the file system of each ordinary file, which may hang; `readlinkat` does not. `pidfd_getfd` is no option: for a
/// moment it makes us an owner of the socket, so that our close might be the last.
#[derive(Debug)]
pub(super) struct Descriptors {
    folder: OwnedFd,
}

impl Descriptors {
    /// Returns the number of descriptors of the process: the size of its folder since Linux 6.2; 0 before.
    pub(super) fn count(proc: BorrowedFd<'_>, process: &CStr) -> Result<u32, Errno> {
        let size = statat(proc, process, rustix::fs::AtFlags::empty())?.st_size;
        Ok(u32::try_from(size).unwrap_or(u32::MAX))
    }

    /// Opens `PID/fd` below `proc`.
    pub(super) fn open(proc: BorrowedFd<'_>, process: &CStr) -> Result<Self, Errno> {
        // O_PATH needs no right to read the folder; reading the links shows whether we have it.
        let folder = open_folder(proc, process)?;
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Tries one number after the other until `expected` descriptors were found or the numbers are sparse, and
    /// leaves the rest of the range to [`Descriptors::list`]. Passes (fd, inode) of every socket to `socket`
    /// and returns the number of descriptors of any kind.
    ///
    /// The rest is listed even if all were found: if a process opened low numbers after it was counted,
    /// the count is reached before its higher numbers.
    pub(super) fn probe(
        &self,
        range: Range<u32>,
        expected: u32,
        buffer: &mut Vec<u8>,
        socket: &mut impl FnMut(u32, u32),
    ) -> Result<u32, Errno> {
        let (mut found, mut missed) = (0, 0);
        for fd in range.clone() {
            if found == expected || missed > MISSED_MAX + found / 8 {
                return Ok(found + self.list(fd..range.end, buffer, socket)?);
            }
            match self.link(Decimal::new(fd).as_c_str())? {
                Link::None => missed += 1,
                Link::Other => found += 1,
                Link::Socket(inode) => {
                    found += 1;
                    socket(fd, inode);
                }
            }
        }
        Ok(found)
    }

    /// Lists the numbers in the range, then reads each. For kernels without a descriptor count, and for processes
    /// with sparse descriptors.
    pub(super) fn list(
        &self,
        range: Range<u32>,
        buffer: &mut Vec<u8>,
        socket: &mut impl FnMut(u32, u32),
    ) -> Result<u32, Errno> {
        let folder = open_to_list(self.folder(), c".")?;
        // Offset 2 + n of this folder is descriptor n (fs/proc/fd.c, proc_readfd_common). If that changes, names below the
        // range are only skipped one by one.
        seek(&folder, SeekFrom::Start(u64::from(range.start) + 2))?;
        buffer.clear();
        buffer.reserve(LIST_BUFFER_BYTES);
        let mut names = RawDir::new(&folder, buffer.spare_capacity_mut());
        let mut found = 0;
        while let Some(name) = names.next() {
            let name = name?;
            let Some(fd) = number(name.file_name()) else {
                continue; // "." and ".."
            };
            if fd < range.start {
                continue;
            }
            if fd >= range.end {
                break;
            }
            match self.link(name.file_name())? {
                Link::None => {}
                Link::Other => found += 1,
                Link::Socket(inode) => {
                    found += 1;
                    socket(fd, inode);
                }
            }
        }
        Ok(found)
    }

    fn link(&self, name: &CStr) -> Result<Link, Errno> {
        // Longer than any "socket:[N]". A longer link is truncated, and is no socket.
        let mut buffer = [MaybeUninit::uninit(); 32];
        match readlinkat_raw(&self.folder, name, &mut buffer[..]) {
            Ok((target, _)) => Ok(socket_inode(target).map_or(Link::Other, Link::Socket)),
            Err(Errno::NOENT) => Ok(Link::None),
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::SRCH)) => Err(errno),
            Err(_) => Ok(Link::Other), // such as ENAMETOOLONG: a file deep down
        }
    }
}

/// The state of a descriptor number.
enum Link {
    None,
    Other,
    Socket(u32),
}

/// Free numbers, plus one in eight, after which listing is cheaper than probing. A free number costs about as
/// much as a used one, because the kernel creates and drops a dentry; but a new descriptor gets the lowest free
/// number, so that most tables have few gaps. (An exception is descriptor 255 of a shell.)
const MISSED_MAX: u32 = 8;

/// The kernel fills at most the free part of the buffer; a larger buffer gains nothing.
const LIST_BUFFER_BYTES: usize = 64 * 1024;

/// Parses the inode of `socket:[N]`; sockfs numbers its inodes in 32 bits (`get_next_ino`).
fn socket_inode(target: &[u8]) -> Option<u32> {
    u32::try_from(proc_pid::socket_inode(target)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_socket_links_have_an_inode() {
        assert_eq!(socket_inode(b"socket:[4026531840]"), Some(4_026_531_840));
        for other in [
            "socket:[]",
            "socket:[1",
            "socket:[1]x",
            "socket:[99999999999]",
            "pipe:[1]",
            "/socket:[1]",
            "",
        ] {
            assert_eq!(socket_inode(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn ended_process_is_an_error_not_an_empty_list() {
        let proc = open_folder(rustix::fs::CWD, "/proc").unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let path = Decimal::with_suffix(child.id(), "/fd");
        let descriptors = Descriptors::open(proc.as_fd(), path.as_c_str()).unwrap();
        let read = |buffer: &mut Vec<u8>| {
            (
                descriptors.probe(ALL, 3, buffer, &mut |_, _| {}),
                descriptors.list(ALL, buffer, &mut |_, _| {}),
            )
        };
        let mut buffer = Vec::new();
        let alive = read(&mut buffer);
        child.kill().unwrap();
        child.wait().unwrap();
        // It may have inherited more descriptors, or still be loading its libraries.
        assert!(alive.0.is_ok_and(|found| found >= 3), "{alive:?}");
        assert!(alive.1.is_ok_and(|found| found >= 3), "{alive:?}");
        assert_eq!(read(&mut buffer), (Err(Errno::NOENT), Err(Errno::NOENT)));
        assert!(super::super::stat::Stat::of_process(descriptors.folder()).is_err());
    }
}
