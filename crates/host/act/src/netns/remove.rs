//! Removal of a name for `ns del`. The `Journal` slot records it, so that the guard process completes the
//! removal after a kill.

use super::error::{NetnsError, NetnsStep};
use super::journal::Slot;
use super::unmount::unmount_name;
use sockeye_model::NetnsName;

/// Removes the name of a network namespace, as `ip netns del` does. The kernel frees the namespace later, when it has
/// no process and no other reference. A leftover file of a name is removed as well.
///
/// # Errors
/// The step that failed: `ENOENT` if there is no such name.
pub fn remove(name: &NetnsName, slot: &Slot<'_>) -> Result<(), NetnsError> {
    let path = name.path();
    slot.removing(name);
    let done = unmount_name(&path);
    slot.done();
    done.map_err(|errno| NetnsStep::Unlink.on(path, errno))
}
