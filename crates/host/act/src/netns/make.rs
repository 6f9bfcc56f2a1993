//! Creation of named namespaces for `ns add`, and names for existing ones for `ns attach`. The `Journal` slot
//! records the name while it is unfinished, so that the guard process can undo it.

use super::OWN_NETNS;
use super::error::{NetnsError, NetnsStep};
use super::folder::Folder;
use super::journal::Slot;
use super::leftover::{self, Found};
use super::links::{Addresses, VethLink};
use crate::route::Route;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open, stat, unlink};
use rustix::io::Errno;
use rustix::mount::mount_bind;
use sockeye_model::{NetnsName, Pid};
use sockeye_sys::netns;
use sockeye_wire::rtnetlink::change;
use std::path::Path;

/// Creates named network namespaces one after the other. Use it on a dedicated thread, which stays in the last one.
#[derive(Debug)]
pub struct Maker<'a> {
    slot: Slot<'a>,
    loopback_up: bool,
    link: Option<VethLink>,
}

/// A created name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// Whether a leftover file with the same name was removed first.
    pub replaced_leftover: bool,
}

impl<'a> Maker<'a> {
    /// Creates a maker that records unfinished changes in `slot`. The folder proves that the directory is ready.
    #[must_use]
    pub const fn new(_: &Folder, slot: Slot<'a>) -> Self {
        Self {
            slot,
            loopback_up: false,
            link: None,
        }
    }

    /// Sets whether `lo` is brought up in each namespace.
    #[must_use]
    pub const fn loopback_up(mut self, up: bool) -> Self {
        self.loopback_up = up;
        self
    }

    /// Sets the link that connects each namespace to a target.
    #[must_use]
    pub fn link(mut self, link: Option<VethLink>) -> Self {
        self.link = link;
        self
    }

    /// Creates a namespace. Its name comes last, so that a failure leaves nothing: the kernel frees a namespace without
    /// a name when the thread leaves it.
    ///
    /// # Errors
    /// The step that failed; no half-created name is left.
    pub fn make(&mut self, name: &NetnsName, addresses: Option<Addresses>) -> Result<Made, NetnsError> {
        let path = name.path();
        // 1. Check that the name is free.
        let replaced_leftover = free_path(&path)?;
        // 2. The namespace.
        netns::unshare().map_err(|errno| NetnsStep::Unshare.on(&path, errno))?;
        // 3. What is in it.
        if self.loopback_up {
            bring_loopback_up(&path)?;
        }
        if let Some(link) = &mut self.link {
            link.make(name, addresses)?;
        }
        // 4. Its name.
        self.bind(Path::new(OWN_NETNS), name)?;
        Ok(Made { replaced_leftover })
    }

    /// Names the network namespace of a process.
    ///
    /// # Errors
    /// As for [`make`](Self::make); `ENOENT` if there is no such process.
    pub fn attach(&self, name: &NetnsName, pid: Pid) -> Result<Made, NetnsError> {
        let source = format!("/proc/{pid}/ns/net");
        stat(&*source).map_err(|errno| NetnsStep::OpenProcess.on(&source, errno))?;
        let replaced_leftover = free_path(&name.path())?;
        self.bind(Path::new(&source), name)?;
        Ok(Made { replaced_leftover })
    }

    /// Creates the file of a name and mounts the namespace on it. The file is locked in between, so that other
    /// processes do not take it for a leftover.
    fn bind(&self, source: &Path, name: &NetnsName) -> Result<(), NetnsError> {
        let path = name.path();
        self.slot.making(name);
        let done = self.bind_file(source, &path);
        self.slot.done();
        done
    }

    fn bind_file(&self, source: &Path, path: &Path) -> Result<(), NetnsError> {
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::empty()).map_err(|errno| NetnsStep::CreateName.on(path, errno))?;
        // The file is new, so the lock is free.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        if let Ok(found) = fstat(&file) {
            self.slot.made_file(found.st_ino);
        }
        mount_bind(source, path).map_err(|errno| {
            // Report the first error.
            let _ = unlink(path);
            NetnsStep::Bind.on(path, errno)
        })
    }
}

/// Makes sure that the path of a name is free. Returns whether a leftover was removed.
fn free_path(path: &Path) -> Result<bool, NetnsError> {
    match leftover::clear(path) {
        Ok(Found::Nothing) => Ok(false),
        Ok(Found::Cleared) => Ok(true),
        Ok(Found::Taken) => Err(NetnsStep::CreateName.on(path, Errno::EXIST)),
        Err(errno) => Err(NetnsStep::CheckPath.on(path, errno)),
    }
}

fn bring_loopback_up(path: &Path) -> Result<(), NetnsError> {
    let bring_up = || Route::open()?.act(|sequence| Some(change::bring_up(LOOPBACK, sequence)));
    bring_up().map_err(|error| NetnsStep::BringLoopbackUp.on(path, error))
}

/// The first interface of every namespace (`LOOPBACK_IFINDEX`, `include/net/flow.h`).
const LOOPBACK: i32 = 1;
