//! The directory `/run/netns`. `ns add` and `ns attach` prepare it before they bind names in it; `Maker::new`
//! takes the `Folder` as proof, so that a caller cannot forget the step.

use super::error::{NetnsError, NetnsStep};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, mkdir, open};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind_recursive, mount_change};
use sockeye_model::NetnsName;

/// Proof that `/run/netns` is ready for new names: it is a shared mount, so that names propagate to other mount
/// namespaces.
#[derive(Debug)]
pub struct Folder(());

impl Folder {
    /// Prepares the directory as `ip netns` does, under the same lock: of several processes at once, only one turns it
    /// into a mount.
    ///
    /// # Errors
    /// The step that failed.
    pub fn prepare() -> Result<Self, NetnsError> {
        Self::make()?;
        let path = NetnsName::FOLDER;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            open(path, flags, Mode::empty()).map_err(|errno| NetnsStep::OpenFolder.on(path, errno))?;
        // Go on without the lock on a file system without locks. Closing the descriptor unlocks.
        let _ = retry(|| flock(&folder, FlockOperation::LockExclusive));
        let share = || mount_change(path, MountPropagationFlags::SHARED | MountPropagationFlags::REC);
        let shared = match share() {
            // It is not a mount yet.
            Err(Errno::INVAL) => mount_bind_recursive(path, path).and_then(|()| share()),
            done => done,
        };
        shared.map_err(|errno| NetnsStep::ShareFolder.on(path, errno))?;
        Ok(Self(()))
    }

    /// Creates the directory only, which is enough to list names.
    ///
    /// # Errors
    /// The errno of `mkdir(2)`.
    pub fn make() -> Result<(), NetnsError> {
        let path = NetnsName::FOLDER;
        match mkdir(path, Mode::from(0o755)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(NetnsStep::MakeFolder.on(path, errno)),
        }
    }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
