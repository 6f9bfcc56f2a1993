use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, openat, readlinkat_raw, seek, statat};
use rustix::io::Errno;
use sockeye_wire::proc_pid;
use std::ffi::CStr;
use std::io::Write;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Descriptor numbers of one process.
pub(super) const ALL: Range<u32> = 0..u32::MAX;

/// `/proc/PID/fd` of one process, open.
///
/// Measured on 79,124 sockets in four processes, kernel 6.18, 2 cores (best of several passes; the first pass
/// over new descriptors costs 70 ms more, as it fills the dentry cache):
///
/// | source | ms |
/// |---|---|
/// | `getdents64` alone, 64 KiB a call, no link read | 61 |
/// | `getdents64`, then `readlinkat` of each name | 272 |
/// | `getdents64`, then `statx` of each name | 250 |
/// | `readlinkat` of 0, 1, 2, ... until as many were found as there are | 220 |
/// | the same with `statx` | 206 |
/// | the same with `readlinkat`, by two threads | 118 |
///
/// What remains is the kernel's: 2.8 us a call, spread over the walk to the dentry and one look-up of the task
/// after the other; our own share of the 220 is 6. `statx` would save a little of it by not writing `socket:[N]`, but it
/// asks the file system of each ordinary file, which may hang; `readlinkat` asks nobody. `pidfd_getfd` is
/// out of the query: for a moment it makes us an owner of the socket, which must not be closed by us.
#[derive(Debug)]
pub(super) struct Descriptors {
    folder: OwnedFd,
}

impl Descriptors {
    /// How many descriptors the process holds, as the size of its folder says since Linux 6.2; 0 before.
    pub(super) fn count(proc: BorrowedFd<'_>, process: &CStr) -> Result<u32, Errno> {
        let size = statat(proc, process, rustix::fs::AtFlags::empty())?.st_size;
        Ok(u32::try_from(size).unwrap_or(u32::MAX))
    }

    /// Opens `PID/fd` below `proc`.
    pub(super) fn open(proc: BorrowedFd<'_>, process: &CStr) -> Result<Self, Errno> {
        // O_PATH asks for no right to read the folder: whether we may is what its links will tell.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(proc, process, flags, Mode::empty())?;
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Tries one number after the other until `wanted` descriptors were found or the numbers are sparse, and
    /// leaves the rest of the range to [`Descriptors::list`]. Hands every socket's (fd, inode) to `socket`
    /// and returns how many descriptors, of any kind, there were.
    ///
    /// The rest is listed also when all were found: a process that opened low numbers since it was counted
    /// makes the count full before its higher numbers were reached.
    pub(super) fn probe(
        &self,
        range: Range<u32>,
        wanted: u32,
        buffer: &mut Vec<u8>,
        socket: &mut impl FnMut(u32, u32),
    ) -> Result<u32, Errno> {
        let (mut found, mut missed) = (0, 0);
        for fd in range.clone() {
            if found == wanted || missed > MISSED_MAX + found / 8 {
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

    /// Lists the numbers in the range, then reads each. For kernels that do not count, and for processes
    /// whose descriptors lie far apart.
    pub(super) fn list(
        &self,
        range: Range<u32>,
        buffer: &mut Vec<u8>,
        socket: &mut impl FnMut(u32, u32),
    ) -> Result<u32, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&self.folder, c".", flags, Mode::empty())?;
        // Place 2 + n of this folder is descriptor n (fs/proc/fd.c, proc_readfd_common). Were it
        // otherwise, names below the range would only be skipped one by one.
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
        // Longer than any "socket:[N]"; a longer link comes truncated, and is no socket.
        let mut buffer = [MaybeUninit::uninit(); 32];
        match readlinkat_raw(&self.folder, name, &mut buffer[..]) {
            Ok((target, _)) => Ok(socket_inode(target).map_or(Link::Other, Link::Socket)),
            Err(Errno::NOENT) => Ok(Link::None),
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::SRCH)) => Err(errno),
            Err(_) => Ok(Link::Other), // such as ENAMETOOLONG: a file deep down
        }
    }
}

/// What a number stands for in a table of descriptors.
enum Link {
    None,
    Other,
    Socket(u32),
}

/// Free numbers, besides one in eight, after which listing is cheaper than guessing on. A free number costs
/// about as much as a used one, for the kernel makes and throws away a dentry; but new descriptors take the
/// lowest free number, so that most tables have few. (The exception is a shell's 255.)
const MISSED_MAX: u32 = 8;

/// The kernel fills at most what is free in the buffer; more than this gains nothing.
const LIST_BUFFER_BYTES: usize = 64 * 1024;

/// Inode out of `socket:[N]`; sockfs numbers its inodes in 32 bits (`get_next_ino`).
fn socket_inode(target: &[u8]) -> Option<u32> {
    u32::try_from(proc_pid::socket_inode(target)?).ok()
}

/// The number that a name in `/proc` or in `/proc/PID/fd` is, if it is one.
pub(crate) fn number(name: &CStr) -> Option<u32> {
    name.to_str()
        .ok()
        .filter(|name| !name.starts_with('+'))?
        .parse()
        .ok()
}

/// A number as a path, on the stack.
pub(crate) struct Decimal {
    text: [u8; 24],
}

impl Decimal {
    pub(crate) fn new(number: u32) -> Self {
        Self::with_suffix(number, "")
    }

    /// `suffix` of at most 13 bytes.
    pub(crate) fn with_suffix(number: u32, suffix: &str) -> Self {
        let mut text = [0; 24];
        // Cannot fail: ten digits and the suffix leave room for the final NUL; and if it did, the text
        // would be cut short but still end.
        let _ = write!(&mut text[..23], "{number}{suffix}");
        Self { text }
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_sockets_from_the_rest() {
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
    fn a_process_that_has_ended_is_told_from_one_that_holds_nothing() {
        let proc = rustix::fs::open("/proc", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
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
        // It may have inherited more, or be loading its libraries still.
        assert!(alive.0.is_ok_and(|found| found >= 3), "{alive:?}");
        assert!(alive.1.is_ok_and(|found| found >= 3), "{alive:?}");
        assert_eq!(read(&mut buffer), (Err(Errno::NOENT), Err(Errno::NOENT)));
        assert!(super::super::stat::Stat::of_process(descriptors.folder()).is_err());
    }

    #[test]
    fn writes_numbers_as_paths() {
        assert_eq!(Decimal::new(0).as_c_str(), c"0");
        assert_eq!(Decimal::with_suffix(u32::MAX, "/fd").as_c_str(), c"4294967295/fd");
        assert_eq!(number(Decimal::new(u32::MAX).as_c_str()), Some(u32::MAX));
        for other in [
            c"",
            c".",
            c"..",
            c"+1",
            c"-1",
            c"1a",
            c"self",
            c"4294967296",
            c"\xff",
        ] {
            assert_eq!(number(other), None, "{other:?}");
        }
    }
}
