//! Named network namespaces, as `ip netns` keeps them: bind mounts of `/proc/PID/ns/net` in `/run/netns`.

mod enter;
mod error;
mod folder;
mod journal;
mod leftover;
mod links;
mod make;
mod nsid;
mod own;
mod remove;
mod subnet;
mod unmount;
mod vrf;

pub use enter::{EnterError, EnterStep, Entered, FailedBind, enter, open};
pub use error::{NetnsError, NetnsStep};
pub use folder::Folder;
pub use journal::{Journal, Slot};
pub use links::{Addresses, LinkTarget, TargetError, VethLink, interface_name};
pub use make::{Made, Maker};
pub use nsid::{FreedWaiter, number};
pub use own::{Isolation, IsolationError, IsolationStep, isolate};
pub use remove::remove;
pub use subnet::{Subnet, SubnetFull, SubnetParseError};
pub use vrf::leave_vrf;

use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opens a namespace file, without blocking: the path may be anything, also a FIFO.
fn open_file(path: impl AsRef<Path>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path.as_ref(), flags, Mode::empty())
}

/// The namespace of the calling thread; `/proc/self` would be that of the main thread.
const OWN_NETNS: &str = "/proc/thread-self/ns/net";
