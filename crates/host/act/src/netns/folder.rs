use super::failure::{Act, Failure};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, mkdir, open};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind_recursive, mount_change};
use sockeye_model::NetnsName;

/// The folder of names, ready to take one: a shared mount, so that names reach the mount namespaces of others.
#[derive(Debug)]
pub struct Folder(());

impl Folder {
    /// Makes it ready, as `ip netns` does, and under the lock it takes: of several at once, one makes the folder a
    /// mount, and the others find it.
    ///
    /// # Errors
    /// Which step failed.
    pub fn prepare() -> Result<Self, Failure> {
        Self::make()?;
        let path = NetnsName::FOLDER;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(path, flags, Mode::empty()).map_err(|errno| Act::OpenFolder.on(path, errno))?;
        // A file system without locks is no reason to make no namespaces. Closing it unlocks.
        let _ = retry(|| flock(&folder, FlockOperation::LockExclusive));
        let share = || mount_change(path, MountPropagationFlags::SHARED | MountPropagationFlags::REC);
        let shared = match share() {
            // It is no mount yet.
            Err(Errno::INVAL) => mount_bind_recursive(path, path).and_then(|()| share()),
            done => done,
        };
        shared.map_err(|errno| Act::ShareFolder.on(path, errno))?;
        Ok(Self(()))
    }

    /// Makes the folder alone, for those who only look into it.
    ///
    /// # Errors
    /// The errno of `mkdir(2)`.
    pub fn make() -> Result<(), Failure> {
        let path = NetnsName::FOLDER;
        match mkdir(path, Mode::from(0o755)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(Act::MakeFolder.on(path, errno)),
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
