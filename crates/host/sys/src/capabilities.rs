//! Capabilities of the calling thread.

use rustix::io::Errno;
use rustix::thread::{CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

pub use rustix::thread::CapabilitySet;

/// Returns the effective capabilities of the calling thread.
///
/// # Errors
/// The errno of `capget(2)`.
pub fn effective() -> Result<CapabilitySet, Errno> {
    capabilities(None).map(|sets| sets.effective)
}

/// Drops all capabilities of the calling thread but these, for ever: neither it nor threads and programs that it starts
/// afterwards can get others. It adds none. Other threads keep theirs.
///
/// # Errors
/// The errno of `capset(2)` or `prctl(2)`, which only a sandbox returns.
pub fn keep_only(wanted: CapabilitySet) -> Result<(), Errno> {
    let own = capabilities(None)?;
    // A program that root executes would get all of them again.
    set_no_new_privs(true)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: own.effective & wanted,
            permitted: own.permitted & wanted,
            inheritable: CapabilitySet::empty(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_capabilities_are_those_of_the_thread() {
        let before = effective().unwrap();
        let kept = before & CapabilitySet::NET_RAW;
        let inside = std::thread::spawn(move || {
            keep_only(CapabilitySet::NET_RAW).unwrap();
            // None comes back.
            keep_only(CapabilitySet::all()).unwrap();
            let child = std::thread::spawn(effective).join().unwrap().unwrap();
            (effective().unwrap(), child)
        });
        assert_eq!(inside.join().unwrap(), (kept, kept));
        assert_eq!(effective().unwrap(), before);
    }
}
