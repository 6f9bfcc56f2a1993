use super::failure::{Act, Failure};
use super::journal::Slot;
use super::remains::{self, Found};
use rustix::fs::{Access, access, stat, unlink};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use sockeye_model::NetnsName;
use std::path::Path;

/// Takes the name from a network namespace, as `ip netns del` does. The kernel frees the namespace when nobody lives in
/// it and nothing else holds it, some time later. The remains of a name are removed as well.
///
/// # Errors
/// Which step failed: `ENOENT` if there is no such name.
pub fn remove(name: &NetnsName, slot: &Slot<'_>) -> Result<(), Failure> {
    let path = name.path();
    slot.removing(name);
    let done = finish(&path);
    slot.done();
    done.map_err(|errno| Act::Unlink.on(path, errno))
}

/// Also where it had begun already.
pub(super) fn finish(path: &Path) -> Result<(), Errno> {
    // A name that cannot be removed shall not lose its namespace either.
    if let Err(errno @ (Errno::ROFS | Errno::ACCESS)) = access(NetnsName::FOLDER, Access::WRITE_OK) {
        return Err(errno);
    }
    for _ in 0..LAYERS_MAX {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => match unlink(path) {
                // Another mount was below: names are bound twice by those who share the folder after names are in it.
                Err(Errno::BUSY) => {}
                done => return done,
            },
            // No mount is there: remains, or a name that somebody is just making, which is waited for.
            Err(Errno::INVAL) => match remains::clear(path)? {
                Found::Cleared => return Ok(()),
                Found::Nothing => return Err(Errno::NOENT),
                Found::Taken if is_mount(path) => {}
                Found::Taken => return Err(Errno::NOTEMPTY),
            },
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::BUSY)
}

/// Whether something is mounted on it by now.
fn is_mount(path: &Path) -> bool {
    let device = |path: &Path| stat(path).map(|file| file.st_dev);
    device(path).is_ok_and(|its| device(Path::new(NetnsName::FOLDER)).is_ok_and(|folder| folder != its))
}

/// So many mounts on each other nobody makes by mistake.
const LAYERS_MAX: usize = 64;
