use super::failure::{Act, Failure};
use super::folder::Folder;
use super::journal::Slot;
use super::links::{Addresses, Link};
use super::remains::{self, Found};
use crate::route::Route;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open, stat, unlink};
use rustix::io::Errno;
use rustix::mount::mount_bind;
use sockeye_model::{NetnsName, Pid};
use sockeye_sys::netns;
use sockeye_wire::rtnetlink::change;
use std::path::Path;

/// Makes network namespaces with names, one after the other, on a thread of its own: the thread ends up in the last.
#[derive(Debug)]
pub struct Maker<'a> {
    slot: Slot<'a>,
    loopback_up: bool,
    link: Option<Link>,
}

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// In place of the remains of one with the same name.
    pub over_remains: bool,
}

impl<'a> Maker<'a> {
    /// One that writes down in `slot` what it is about to do. The folder is a proof that it is ready.
    #[must_use]
    pub const fn new(_: &Folder, slot: Slot<'a>) -> Self {
        Self {
            slot,
            loopback_up: false,
            link: None,
        }
    }

    /// Brings `lo` up in each.
    #[must_use]
    pub const fn loopback_up(mut self, up: bool) -> Self {
        self.loopback_up = up;
        self
    }

    /// Joins each to what this link leads to.
    #[must_use]
    pub fn link(mut self, link: Option<Link>) -> Self {
        self.link = link;
        self
    }

    /// Makes one. All that belongs to it is made before it gets its name, so that a failure leaves nothing: what has
    /// no name ends with the thread's next step.
    ///
    /// # Errors
    /// Which step failed; no half-made name is left.
    pub fn make(&mut self, name: &NetnsName, addresses: Option<Addresses>) -> Result<Made, Failure> {
        let path = name.path();
        // 1. A name that is in use is worth no namespace.
        let over_remains = room(&path)?;
        // 2. The namespace.
        netns::unshare().map_err(|errno| Act::Unshare.on(&path, errno))?;
        // 3. What is in it.
        if self.loopback_up {
            raise_loopback(&path)?;
        }
        if let Some(link) = &mut self.link {
            link.make(name, addresses)?;
        }
        // 4. Its name.
        self.bind(Path::new(OWN_NETNS), name)?;
        Ok(Made { over_remains })
    }

    /// Gives a name to the namespace that a process is in.
    ///
    /// # Errors
    /// As [`make`](Self::make); `ENOENT` if there is no such process.
    pub fn attach(&self, name: &NetnsName, pid: Pid) -> Result<Made, Failure> {
        let source = format!("/proc/{pid}/ns/net");
        stat(&*source).map_err(|errno| Act::OpenProcess.on(&source, errno))?;
        let over_remains = room(&name.path())?;
        self.bind(Path::new(&source), name)?;
        Ok(Made { over_remains })
    }

    /// Between the file and the mount there is half a name; whoever looks at it knows by its lock that we are at it.
    fn bind(&self, source: &Path, name: &NetnsName) -> Result<(), Failure> {
        let path = name.path();
        self.slot.making(name);
        let done = self.bind_file(source, &path);
        self.slot.done();
        done
    }

    fn bind_file(&self, source: &Path, path: &Path) -> Result<(), Failure> {
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::empty()).map_err(|errno| Act::CreateName.on(path, errno))?;
        // It is new, and so nobody else's.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        if let Ok(found) = fstat(&file) {
            self.slot.made_file(found.st_ino);
        }
        mount_bind(source, path).map_err(|errno| {
            // The failure to tell is the first.
            let _ = unlink(path);
            Act::Bind.on(path, errno)
        })
    }
}

/// Whether there were remains at the place of a name, which has room now.
fn room(path: &Path) -> Result<bool, Failure> {
    match remains::clear(path) {
        Ok(Found::Nothing) => Ok(false),
        Ok(Found::Cleared) => Ok(true),
        Ok(Found::Taken) => Err(Act::CreateName.on(path, Errno::EXIST)),
        Err(errno) => Err(Act::FindRoom.on(path, errno)),
    }
}

fn raise_loopback(path: &Path) -> Result<(), Failure> {
    let raise = || Route::open()?.act(|sequence| Some(change::bring_up(LOOPBACK, sequence)));
    raise().map_err(|refusal| Act::RaiseLoopback.on(path, refusal))
}

/// The first interface of every namespace (`LOOPBACK_IFINDEX`, `include/net/flow.h`).
const LOOPBACK: i32 = 1;
/// The namespace of the calling thread; `/proc/self` would be that of the first.
pub(super) const OWN_NETNS: &str = "/proc/thread-self/ns/net";
