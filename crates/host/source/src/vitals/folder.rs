use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use sockeye_sys::mounts::detached_procfs;
use std::ffi::CStr;

/// `/proc/sys/net` of the network namespace that the thread is in.
#[derive(Debug)]
pub(super) enum Folder {
    None,
    /// On the mounted procfs.
    Mounted(OwnedFd),
    /// On a private procfs, with the number of namespaces that it may still be used for.
    Own(OwnedFd, u32),
}

impl Folder {
    pub(super) fn open() -> Self {
        if let Ok(folder) = Self::own() {
            return folder;
        }
        open_folder(None, c"/proc/sys/net").map_or(Self::None, Self::Mounted)
    }

    fn own() -> Result<Self, Errno> {
        let root = detached_procfs()?;
        let net = open_folder(Some(root.as_fd()), c"sys/net")?;
        // The private procfs lives as long as a descriptor below its root is open.
        Ok(Self::Own(net, VISITS_MAX))
    }

    /// Returns the folder for one more namespace.
    pub(super) fn visit(&mut self) -> Option<BorrowedFd<'_>> {
        if let Self::Own(_, left) = self {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => *self = Self::open(),
            }
        }
        match &*self {
            Self::None => None,
            Self::Mounted(net) | Self::Own(net, _) => Some(net.as_fd()),
        }
    }
}

/// Opens a folder, to open files below it.
pub(super) fn open_folder(below: Option<BorrowedFd<'_>>, path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match below {
        Some(folder) => openat(folder, path, flags, Mode::empty()),
        None => open(path, flags, Mode::empty()),
    }
}

/// Reads a file of `/proc`.
pub(super) fn read<'a>(
    folder: BorrowedFd<'_>,
    path: &CStr,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Errno> {
    read_by(BUFFER_LEN, folder, path, buffer)
}

/// Reads a file of `/proc/sys`.
pub(super) fn read_setting<'a>(
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

/// Namespaces per private procfs. The kernel searches the folder of a namespace linearly among all that were visited; a new
/// procfs takes 0.1 ms.
const VISITS_MAX: u32 = 32;
const BUFFER_LEN: usize = 32 * 1024;
const SETTING_LEN: usize = 256;
