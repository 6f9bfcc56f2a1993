//! What a user can do about a missing right: the remedy in messages, the same in all of them.
//!
//! "Run as root" is no remedy for root in a user namespace (`unshare -Ur`, a rootless container): the capabilities of that
//! root hold for what belongs to the user namespace, such as its network namespaces, and for nothing else. So a message
//! says in which user namespace the kernel looks for the capability.

use rustix::fs::{AtFlags, CWD, fstat, statat};
use std::os::fd::AsFd;

/// The user namespace in which the kernel looks for a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedIn {
    /// The initial one, that is the host's (`capable()` of the kernel): BPF, perf, processes and files of other users.
    Initial,
    /// The one that owns the network namespace (`ns_capable(net->user_ns, ...)`): its sockets, devices and packets.
    OwnerOfNetns,
}

/// Returns how to get capabilities that are missing: `CAP_NET_ADMIN`, `CAP_BPF and CAP_PERFMON`.
#[must_use]
pub fn remedy(capabilities: &str, checked_in: CheckedIn) -> String {
    let is_root = rustix::process::geteuid().is_root();
    text(capabilities, checked_in, is_root, in_user_namespace())
}

/// Returns whether this process is in another user namespace than the initial one; `false` if that is unknown.
#[must_use]
pub fn in_user_namespace() -> bool {
    let by_proc = statat(CWD, "/proc/thread-self/ns/user", AtFlags::empty());
    let found = by_proc.or_else(|_| {
        let file = crate::netns::own_by_pidfd(crate::netns::PIDFD_GET_USER_NAMESPACE)?;
        fstat(file.as_fd())
    });
    found.is_ok_and(|found| found.st_ino != INITIAL_USER_NAMESPACE)
}

fn text(capabilities: &str, checked_in: CheckedIn, is_root: bool, in_user_namespace: bool) -> String {
    match (in_user_namespace, checked_in) {
        (true, CheckedIn::Initial) => format!(
            "root of a user namespace does not have {capabilities} on the host: run as root of the initial user namespace"
        ),
        (true, CheckedIn::OwnerOfNetns) => format!(
            "{capabilities} counts in the user namespace that owns the network namespace: run as root of that one, or of \
             the initial user namespace"
        ),
        (false, _) if is_root => {
            "root here is confined: try outside the container, or as root of the host".to_owned()
        }
        (false, _) => format!("run as root, or grant {capabilities}"),
    }
}

/// `PROC_USER_INIT_INO` of `include/linux/proc_ns.h`: the inode of the initial user namespace.
const INITIAL_USER_NAMESPACE: u64 = 0xefff_fffd;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_names_root_where_root_is_enough() {
        for checked_in in [CheckedIn::Initial, CheckedIn::OwnerOfNetns] {
            let unprivileged = text("CAP_BPF", checked_in, false, false);
            assert_eq!(unprivileged, "run as root, or grant CAP_BPF");
            let confined = text("CAP_BPF", checked_in, true, false);
            assert!(confined.starts_with("root here is confined: "), "{confined}");
        }
    }

    #[test]
    fn remedy_in_a_user_namespace_names_the_namespace() {
        // Without a mapping for its user, even root is no root there.
        for is_root in [false, true] {
            let host = text("CAP_BPF", CheckedIn::Initial, is_root, true);
            assert!(
                host.contains("run as root of the initial user namespace"),
                "{host}"
            );
            let netns = text("CAP_NET_ADMIN", CheckedIn::OwnerOfNetns, is_root, true);
            assert!(
                netns.starts_with("CAP_NET_ADMIN counts in the user namespace that owns"),
                "{netns}"
            );
        }
    }

    #[test]
    fn user_namespace_is_the_same_by_proc_and_by_pidfd() {
        let Ok(file) = crate::netns::own_by_pidfd(crate::netns::PIDFD_GET_USER_NAMESPACE) else {
            // Linux 6.11 has it first.
            assert!(!crate::kernel_release::is_since(6, 11));
            return;
        };
        let by_proc = statat(CWD, "/proc/thread-self/ns/user", AtFlags::empty()).unwrap();
        assert_eq!(fstat(file.as_fd()).unwrap().st_ino, by_proc.st_ino);
    }
}
