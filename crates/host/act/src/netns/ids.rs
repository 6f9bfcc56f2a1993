use super::failure::{Act, Failure};
use super::make::OWN_NETNS;
use super::open_file;
use crate::route::{Refusal, Route};
use rustix::fs::fstat;
use rustix::io::Errno;
use sockeye_model::{NetnsInode, NetnsName};
use sockeye_sys::netns;
use sockeye_wire::nsid;
use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Gives the namespace of this name a number in ours; `None`: the lowest that is free. It keeps it as long as both are.
///
/// # Errors
/// `EEXIST` if it has a number, or another namespace has this one.
pub fn number(name: &NetnsName, id: Option<i32>) -> Result<(), Failure> {
    let path = name.path();
    let fd = open_netns(&path)?;
    let give = || Route::open()?.act(|sequence| Some(nsid::give(raw(fd.as_fd()), id, sequence)));
    give().map_err(|refusal| Act::Number.on(&path, refusal))
}

/// Knows when the kernel has really freed namespaces, which it does some time after the last has left them.
///
/// The kernel tells of no such thing; but a namespace loses its number in ours when its end begins, and one end is
/// over before the next begins (`cleanup_net()` runs on a queue of its own, one run at a time). So each gets a number;
/// when all numbers are gone, a last namespace is made and let go, and when its number is gone too, those before it
/// are freed.
#[derive(Debug)]
pub struct Farewell {
    route: Route,
    awaited: Vec<Awaited>,
}

#[derive(Debug)]
struct Awaited {
    id: i32,
    name: NetnsName,
    netns: NetnsInode,
}

impl Farewell {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            route: Route::open().map_err(|refusal| Act::Number.on(OWN_NETNS, refusal))?,
            awaited: Vec::new(),
        })
    }

    /// For all of these, before their names are removed. What is no namespace, or none any more, is none to wait for.
    ///
    /// # Errors
    /// When one gets no number.
    pub fn of_all(names: &[NetnsName]) -> Result<Self, Failure> {
        let mut all = Self::new()?;
        for name in names {
            match all.add(name) {
                Err(failure) if matches!(failure.refusal.errno, Errno::NOENT | Errno::INVAL) => {}
                done => done?,
            }
        }
        Ok(all)
    }

    fn add(&mut self, name: &NetnsName) -> Result<(), Failure> {
        let path = name.path();
        let fd = open_netns(&path)?;
        let id = self
            .id(fd.as_fd())
            .map_err(|refusal| Act::Number.on(&path, refusal))?;
        let found = fstat(&fd).map_err(|errno| Act::OpenNamespace.on(&path, errno))?;
        self.awaited.push(Awaited {
            id,
            name: name.clone(),
            netns: NetnsInode(u32::try_from(found.st_ino).unwrap_or_default()),
        });
        Ok(())
    }

    /// Waits until all of them whose name `is_removed` are freed, and gives those that are still held by something
    /// when time is up.
    ///
    /// # Errors
    /// When the kernel cannot be asked any more.
    pub fn wait(
        mut self,
        patience: Duration,
        is_removed: impl Fn(&NetnsName) -> bool,
    ) -> Result<Vec<(NetnsName, NetnsInode)>, Failure> {
        let until = Instant::now() + patience;
        self.awaited.retain(|awaited| is_removed(&awaited.name));
        let outcome = self.wait_until(until);
        outcome.map_err(|refusal| Act::Number.on(OWN_NETNS, refusal))?;
        let left = self.awaited.into_iter();
        Ok(left.map(|awaited| (awaited.name, awaited.netns)).collect())
    }

    fn wait_until(&mut self, until: Instant) -> Result<(), Refusal> {
        let mut ids: Vec<i32> = self.awaited.iter().map(|awaited| awaited.id).collect();
        self.watch(&mut ids, until)?;
        self.awaited.retain(|awaited| ids.contains(&awaited.id));
        if !ids.is_empty() {
            return Ok(());
        }
        let last = another()?;
        let id = self.id(last.as_fd())?;
        drop(last);
        let mut ids = vec![id];
        self.watch(&mut ids, until)
    }

    /// Until all of these numbers are gone, or time is up; leaves those that are there still.
    fn watch(&mut self, ids: &mut Vec<i32>, until: Instant) -> Result<(), Refusal> {
        let mut interval = FIRST_INTERVAL;
        loop {
            let mut there = HashSet::new();
            self.route.ask(
                |sequence| Some(nsid::dump(sequence)),
                |_, payload| there.extend(nsid::parse(payload).ok().flatten()),
            )?;
            ids.retain(|id| there.contains(id));
            let left = until.saturating_duration_since(Instant::now());
            if ids.is_empty() || left.is_zero() {
                return Ok(());
            }
            sleep(interval.min(left));
            interval = (interval * 2).min(LAST_INTERVAL);
        }
    }

    /// The number it has, or gets now.
    fn id(&mut self, fd: BorrowedFd<'_>) -> Result<i32, Refusal> {
        match self
            .route
            .act(|sequence| Some(nsid::give(raw(fd), None, sequence)))
        {
            Ok(())
            | Err(Refusal {
                errno: Errno::EXIST, ..
            }) => {}
            Err(refusal) => return Err(refusal),
        }
        let mut id = None;
        self.route.ask(
            |sequence| Some(nsid::of_descriptor(raw(fd), sequence)),
            |_, payload| id = nsid::parse(payload).ok().flatten(),
        )?;
        id.ok_or_else(|| Errno::NOENT.into())
    }
}

/// A namespace that nobody is in.
fn another() -> Result<OwnedFd, Refusal> {
    let made = std::thread::scope(|scope| {
        let make = || -> Result<OwnedFd, Errno> {
            netns::unshare()?;
            open_file(OWN_NETNS)
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, make);
        let thread = thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    made.map_err(Refusal::from)
}

fn open_netns(path: &Path) -> Result<OwnedFd, Failure> {
    open_file(path).map_err(|errno| Act::OpenNamespace.on(path, errno))
}

/// As the kernel takes descriptors in messages.
fn raw(fd: BorrowedFd<'_>) -> u32 {
    u32::try_from(fd.as_raw_fd()).unwrap_or_default()
}

const FIRST_INTERVAL: Duration = Duration::from_micros(500);
const LAST_INTERVAL: Duration = Duration::from_millis(10);
