//! Network namespaces without a name, which end with their descriptor.

use rustix::io::Errno;
use sockeye_act::{Interfaces, LOOPBACK, RouteError};
use sockeye_sys::netns;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A network namespace with only a loopback interface, which is up. Only this descriptor keeps it: it ends with the
/// process at the latest.
#[derive(Debug)]
pub(crate) struct PrivateNetns(OwnedFd);

impl PrivateNetns {
    pub(crate) fn new() -> Result<Self, RouteError> {
        let opened = netns::on_netns_thread(|_| -> Result<OwnedFd, RouteError> {
            netns::unshare()?;
            Interfaces::open()?.bring_up(LOOPBACK)?;
            Ok(netns::open_own()?)
        })?;
        opened.map(Self)
    }

    /// Runs `act` in the namespace, on a thread of its own.
    pub(crate) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Errno> {
        netns::within(self.0.as_fd(), act)
    }
}

impl AsFd for PrivateNetns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
