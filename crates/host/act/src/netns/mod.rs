//! Network namespaces with names, as `ip netns` keeps them: bind mounts of `/proc/PID/ns/net` in `/run/netns`.

mod enter;
mod failure;
mod folder;
mod ids;
mod journal;
mod links;
mod make;
mod remains;
mod remove;
mod subnet;
mod vrf;

pub use enter::{CannotEnter, EnterStep, Entered, FailedBind, enter, open};
pub use failure::{Act, Failure};
pub use folder::Folder;
pub use ids::{Farewell, number};
pub use journal::{Journal, Slot};
pub use links::{Addresses, Link, NoTarget, Target, interface_name};
pub use make::{Made, Maker};
pub use remove::remove;
pub use subnet::{BadSubnet, Full, Subnet};
pub use vrf::leave_vrf;

use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opens the file that stands for a namespace. It may be anything else: opening a FIFO must not wait.
fn open_file(path: impl AsRef<Path>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path.as_ref(), flags, Mode::empty())
}
