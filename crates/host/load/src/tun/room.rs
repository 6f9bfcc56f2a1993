//! Network namespaces without a name, which end with whoever holds them.

use super::failure::{Failure, Step};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use sockeye_act::{Interfaces, LOOPBACK};
use sockeye_sys::netns;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A network namespace with nothing in it but a loopback interface that is up. Only its descriptor keeps it: nothing of
/// it is left when we end, in whichever way.
#[derive(Debug)]
pub(super) struct Room(OwnedFd);

impl Room {
    pub(super) fn make() -> Result<Self, Failure> {
        let made = netns::on_netns_thread(|_| {
            netns::unshare()?;
            // `/proc/self` would be the namespace of the first thread.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            open("/proc/thread-self/ns/net", flags, Mode::empty())
        });
        let made = made
            .and_then(|made| made)
            .map_err(|errno| Step::Namespace.failed(errno))?;
        let room = Self(made);
        room.within(|| {
            let mut interfaces = Interfaces::open()?;
            interfaces.bring_up(LOOPBACK)
        })?
        .map_err(|refusal| Step::Namespace.failed(refusal))?;
        Ok(room)
    }

    /// Runs something in it, on a thread of its own.
    pub(super) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        netns::within(self.0.as_fd(), act).map_err(|errno: Errno| Step::Enter.failed(errno))
    }
}

impl AsFd for Room {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
