//! Namespace ids (nsid) over rtnetlink: `ns set` assigns one; `ns del` uses them to wait until the kernel has
//! freed the namespaces.

use super::OWN_NETNS;
use super::error::{NetnsError, NetnsStep};
use super::open_file;
use crate::route::{Route, RouteError};
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

/// Assigns an id (nsid) in our namespace to the namespace with this name; `None` for the lowest free id. It lasts as
/// long as both namespaces.
///
/// # Errors
/// `EEXIST` if it has an id already, or another namespace has this id.
pub fn number(name: &NetnsName, id: Option<i32>) -> Result<(), NetnsError> {
    let path = name.path();
    let fd = open_netns(&path)?;
    let assign = || Route::open()?.act(|sequence| Some(nsid::assign(raw(fd.as_fd()), id, sequence)));
    assign().map_err(|error| NetnsStep::Number.on(&path, error))
}

/// Waits until the kernel has freed namespaces, which it does some time after the last reference is gone.
///
/// The kernel does not report this. But a namespace loses its id in our namespace when its cleanup begins, and one
/// cleanup ends before the next begins (`cleanup_net()` runs on a work queue, one run at a time). So each namespace
/// gets an id. When all ids are gone, a last namespace is created and closed; when its id is gone too, the ones before
/// it are freed.
#[derive(Debug)]
pub struct FreedWaiter {
    route: Route,
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct Pending {
    id: i32,
    name: NetnsName,
    netns: NetnsInode,
}

impl FreedWaiter {
    fn new() -> Result<Self, NetnsError> {
        Ok(Self {
            route: Route::open().map_err(|error| NetnsStep::Number.on(OWN_NETNS, error))?,
            pending: Vec::new(),
        })
    }

    /// Prepares to wait for these namespaces; call it before their names are removed. Names without a namespace are
    /// skipped.
    ///
    /// # Errors
    /// If one cannot get an id.
    pub fn of_all(names: &[NetnsName]) -> Result<Self, NetnsError> {
        let mut all = Self::new()?;
        for name in names {
            match all.add(name) {
                Err(error) if matches!(error.error.errno, Errno::NOENT | Errno::INVAL) => {}
                done => done?,
            }
        }
        Ok(all)
    }

    fn add(&mut self, name: &NetnsName) -> Result<(), NetnsError> {
        let path = name.path();
        let fd = open_netns(&path)?;
        let id = self
            .id(fd.as_fd())
            .map_err(|error| NetnsStep::Number.on(&path, error))?;
        let found = fstat(&fd).map_err(|errno| NetnsStep::OpenNamespace.on(&path, errno))?;
        self.pending.push(Pending {
            id,
            name: name.clone(),
            netns: NetnsInode(u32::try_from(found.st_ino).unwrap_or_default()),
        });
        Ok(())
    }

    /// Waits until all namespaces whose name `is_removed` are freed. Returns those that still exist after `timeout`.
    ///
    /// # Errors
    /// If the kernel's ids can no longer be read.
    pub fn wait(
        mut self,
        timeout: Duration,
        is_removed: impl Fn(&NetnsName) -> bool,
    ) -> Result<Vec<(NetnsName, NetnsInode)>, NetnsError> {
        let deadline = Instant::now() + timeout;
        self.pending.retain(|pending| is_removed(&pending.name));
        let outcome = self.wait_until(deadline);
        outcome.map_err(|error| NetnsStep::Number.on(OWN_NETNS, error))?;
        let left = self.pending.into_iter();
        Ok(left.map(|pending| (pending.name, pending.netns)).collect())
    }

    fn wait_until(&mut self, deadline: Instant) -> Result<(), RouteError> {
        let mut ids: Vec<i32> = self.pending.iter().map(|pending| pending.id).collect();
        self.watch(&mut ids, deadline)?;
        self.pending.retain(|pending| ids.contains(&pending.id));
        if !ids.is_empty() {
            return Ok(());
        }
        let last = unnamed_namespace()?;
        let id = self.id(last.as_fd())?;
        drop(last);
        let mut ids = vec![id];
        self.watch(&mut ids, deadline)
    }

    /// Waits until all of these ids are gone or the deadline has passed; leaves the existing ones in `ids`.
    fn watch(&mut self, ids: &mut Vec<i32>, deadline: Instant) -> Result<(), RouteError> {
        let mut interval = FIRST_INTERVAL;
        loop {
            let mut existing = HashSet::new();
            self.route.ask(
                |sequence| Some(nsid::dump(sequence)),
                |_, payload| existing.extend(nsid::parse(payload).ok().flatten()),
            )?;
            ids.retain(|id| existing.contains(id));
            let left = deadline.saturating_duration_since(Instant::now());
            if ids.is_empty() || left.is_zero() {
                return Ok(());
            }
            sleep(interval.min(left));
            interval = (interval * 2).min(LAST_INTERVAL);
        }
    }

    /// Returns the id of a namespace; assigns one if it has none.
    fn id(&mut self, fd: BorrowedFd<'_>) -> Result<i32, RouteError> {
        match self
            .route
            .act(|sequence| Some(nsid::assign(raw(fd), None, sequence)))
        {
            Ok(())
            | Err(RouteError {
                errno: Errno::EXIST, ..
            }) => {}
            Err(error) => return Err(error),
        }
        let mut id = None;
        self.route.ask(
            |sequence| Some(nsid::of_descriptor(raw(fd), sequence)),
            |_, payload| id = nsid::parse(payload).ok().flatten(),
        )?;
        id.ok_or_else(|| Errno::NOENT.into())
    }
}

/// Creates a namespace without a name and without threads.
fn unnamed_namespace() -> Result<OwnedFd, RouteError> {
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
    made.map_err(RouteError::from)
}

fn open_netns(path: &Path) -> Result<OwnedFd, NetnsError> {
    open_file(path).map_err(|errno| NetnsStep::OpenNamespace.on(path, errno))
}

/// Returns a descriptor as netlink messages carry it.
fn raw(fd: BorrowedFd<'_>) -> u32 {
    u32::try_from(fd.as_raw_fd()).unwrap_or_default()
}

const FIRST_INTERVAL: Duration = Duration::from_micros(500);
const LAST_INTERVAL: Duration = Duration::from_millis(10);
