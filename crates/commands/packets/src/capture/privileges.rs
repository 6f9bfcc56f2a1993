//! The privileges that a capture drops once its ring and its file are open.
//!
//! | thread | keeps | for |
//! |---|---|---|
//! | capture | nothing | the ring and the file are open |
//! | capture with `--ring` | CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_CHOWN | creating the next file in any folder, deleting the oldest, giving it to the caller of sudo |
//! | lookups of owners | CAP_BPF, CAP_PERFMON | walking the kernel's tables by BPF |
//! | | CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH | `/proc/PID/fd` of other users |
//! | | CAP_SYS_ADMIN, with `-N` or before Linux 5.8 | entering the other network namespace; BPF |
//!
//! CAP_NET_RAW and CAP_NET_ADMIN are dropped in all cases. The user id stays.

use rustix::io::Errno;
use sockeye_console::notes;
use sockeye_sys::capabilities::{CapabilitySet, effective, keep_only};

/// Drops what the thread that captures does not need, and what later files of a ring do not need.
pub(super) fn keep_for_files(is_ring: bool) {
    let wanted = if is_ring {
        CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER | CapabilitySet::CHOWN
    } else {
        CapabilitySet::empty()
    };
    report(keep_only(wanted));
}

/// Drops what later lookups of owners do not need.
pub(super) fn keep_for_lookups(is_elsewhere: bool) {
    let bpf = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let mut wanted = bpf | CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH;
    // Before Linux 5.8 CAP_SYS_ADMIN includes the two of BPF.
    let has_bpf = effective().is_ok_and(|own| own.contains(CapabilitySet::BPF));
    if is_elsewhere || !has_bpf {
        wanted |= CapabilitySet::SYS_ADMIN;
    }
    report(keep_only(wanted));
}

fn report(outcome: Result<(), Errno>) {
    if let Err(errno) = outcome {
        notes::say(&format!(
            "sockeye: capture: privileges cannot be dropped here, and are kept: {errno}\n"
        ));
    }
}
