//! Folders and files below `/proc`, and the processes listed there.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, RawDir, fstatfs, openat};
use rustix::io::Errno;
use rustix::path::Arg;
use sockeye_model::Pid;
use std::ffi::CStr;
use std::io::Write;

/// Opens `/proc`; `ENOENT` if something else than a proc file system is there, such as an empty folder.
pub(crate) fn open_proc() -> Result<OwnedFd, Errno> {
    let proc = open_to_list(CWD, c"/proc")?;
    if fstatfs(&proc)?.f_type == PROC_SUPER_MAGIC {
        Ok(proc)
    } else {
        Err(Errno::NOENT)
    }
}

/// Opens a folder, to list it or to open files below it.
pub(crate) fn open_to_list(below: BorrowedFd<'_>, path: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(below, path, flags, Mode::empty())
}

/// Opens a folder, to open files below it. Needs no right to list it.
pub(crate) fn open_folder(below: BorrowedFd<'_>, path: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(below, path, flags, Mode::empty())
}

/// Reads a file of `/proc`.
pub(crate) fn read<'a>(
    folder: BorrowedFd<'_>,
    path: &CStr,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Errno> {
    read_by(BUFFER_LEN, folder, path, buffer)
}

/// Reads a file of `/proc/sys`.
pub(crate) fn read_setting<'a>(
    folder: BorrowedFd<'_>,
    path: &CStr,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Errno> {
    // The kernel allocates and clears a buffer of the size of ours.
    read_by(SETTING_LEN, folder, path, buffer)
}

fn read_by<'a>(
    len: usize,
    folder: BorrowedFd<'_>,
    path: &CStr,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Errno> {
    let file = openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut filled = 0;
    loop {
        buffer.resize(buffer.len().max(filled + len), 0);
        let read = rustix::io::read(&file, &mut buffer[filled..filled + len])?;
        filled += read;
        // Both kinds of file fill the buffer up to a whole line or value; a short read is the last one.
        if read < len / 4 {
            return Ok(&buffer[..filled]);
        }
    }
}

/// Returns the pids that an open `/proc` lists, or the thread ids of `/proc/PID/task`.
pub(crate) fn processes(proc: BorrowedFd<'_>) -> Result<Vec<Pid>, Errno> {
    let mut buffer = Vec::<u8>::with_capacity(64 * 1024);
    let mut names = RawDir::new(proc, buffer.spare_capacity_mut());
    let mut pids = Vec::new();
    while let Some(name) = names.next() {
        pids.extend(number(name?.file_name()).map(Pid));
    }
    Ok(pids)
}

/// Parses a name in `/proc` or `/proc/PID/fd` as a number.
pub(crate) fn number(name: &CStr) -> Option<u32> {
    name.to_str()
        .ok()
        .filter(|name| !name.starts_with('+'))?
        .parse()
        .ok()
}

/// A number as a path, without allocation.
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
        // Cannot fail: ten digits and the suffix leave room for the final NUL. A longer text would be truncated but still
        // terminated.
        let _ = write!(&mut text[..23], "{number}{suffix}");
        Self { text }
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.text).unwrap_or_default()
    }
}

const BUFFER_LEN: usize = 32 * 1024;
const SETTING_LEN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_as_paths() {
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
