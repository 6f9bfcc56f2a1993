//! Unmounts and unlinks the file of a name, for `remove` and for the `journal`, which completes a removal
//! after a kill. It leaves a file alone that is neither a mount point nor a leftover.

use super::leftover::{self, Found};
use rustix::fs::{Access, AtFlags, CWD, accessat, stat, unlink};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use sockeye_model::NetnsName;
use std::path::Path;

/// Removes the mounts at the path of a name, and its file; also if a removal was half done.
pub(super) fn unmount_name(path: &Path) -> Result<(), Errno> {
    // Do not unmount a name that cannot be unlinked. access(2) would ignore capabilities of the file or ambient ones.
    let writable = accessat(CWD, NetnsName::FOLDER, Access::WRITE_OK, AtFlags::EACCESS);
    if let Err(errno @ (Errno::ROFS | Errno::ACCESS)) = writable {
        return Err(errno);
    }
    for _ in 0..LAYERS_MAX {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => match unlink(path) {
                // Another mount is below: a name is mounted twice if the directory was shared after the name was
                // created.
                Err(Errno::BUSY) => {}
                done => return done,
            },
            // Not a mount: a leftover, or a name that is being created now, for which we wait.
            Err(Errno::INVAL) => match leftover::clear(path)? {
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

/// Whether something is mounted on it now.
fn is_mount(path: &Path) -> bool {
    let device = |path: &Path| stat(path).map(|file| file.st_dev);
    device(path).is_ok_and(|its| device(Path::new(NetnsName::FOLDER)).is_ok_and(|folder| folder != its))
}

/// Most stacked mounts that are removed.
const LAYERS_MAX: usize = 64;
