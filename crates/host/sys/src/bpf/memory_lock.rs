//! RLIMIT_MEMLOCK, against which kernels before 5.11 count BPF maps and programs. The default of most systems, 64 KiB,
//! is less than one of our maps has. Newer kernels count them for the memory cgroup instead.
//!
//! The limit is raised only while a map or program is made: what this process starts later must not inherit it.

use super::call::{self, MAP_TYPE_ARRAY, MapAttributes};
use crate::kernel_release::is_since;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::{Mutex, PoisonError};

/// Makes a map or a program. If the kernel refuses with `EPERM`, raises the limit for the moment and tries again.
pub(super) fn with_raised_limit<T>(make: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut make = make;
    match make() {
        Err(Errno::PERM) => {}
        made => return made,
    }
    // The limit is that of the process: one thread at a time raises it and sets it back.
    static RAISED: Mutex<()> = Mutex::new(());
    let _one_thread = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = getrlimit(Resource::Memlock);
    if !raise(limit) {
        return Err(Errno::PERM);
    }
    let made = make();
    // Lowering it is always allowed.
    let _ = setrlimit(Resource::Memlock, limit);
    made
}

/// Raises the limit as far as allowed; `false`: not at all.
fn raise(limit: Rlimit) -> bool {
    let up_to_maximum = Rlimit {
        current: limit.maximum,
        ..limit
    };
    limit.current.is_some()
        && (setrlimit(Resource::Memlock, UNLIMITED).is_ok()
            || (limit.current != limit.maximum && setrlimit(Resource::Memlock, up_to_maximum).is_ok()))
}

/// Returns the limit in bytes if it is the reason of this error of a map or a program.
pub(super) fn reached_limit(errno: Errno) -> Option<u64> {
    let limit = getrlimit(Resource::Memlock).maximum?;
    // Newer kernels do not count: there a security module has refused it, also if it allows others.
    let counts = !is_since(5, 11);
    (errno == Errno::PERM && counts && !may_be_unlimited() && (allows_small_map() || allows_types()))
        .then_some(limit)
}

/// Whether the limit can be removed: then it was, for the second attempt.
fn may_be_unlimited() -> bool {
    let limit = getrlimit(Resource::Memlock);
    let may = setrlimit(Resource::Memlock, UNLIMITED).is_ok();
    if may {
        let _ = setrlimit(Resource::Memlock, limit); // lowering it is always allowed
    }
    may
}

/// Whether a map of a few bytes can be made: then it is the size of another one that the kernel refuses. A missing right
/// or a security module would refuse this one as well.
fn allows_small_map() -> bool {
    call::create_map(&mut MapAttributes {
        map_type: MAP_TYPE_ARRAY,
        key_bytes: 4,
        value_bytes: 8,
        entries: 1,
        ..MapAttributes::default()
    })
    .is_ok()
}

/// Whether BPF types can be loaded, which takes the same rights and is not counted. Earlier maps may have left no room for even a
/// small one.
fn allows_types() -> bool {
    !matches!(call::load_types(&[]), Err(Errno::PERM | Errno::NOSYS))
}

const UNLIMITED: Rlimit = Rlimit {
    current: None,
    maximum: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn limit_is_raised_for_the_second_attempt_only() {
        let before = getrlimit(Resource::Memlock);
        let (calls, during) = (Cell::new(0), Cell::new(before));
        let made = with_raised_limit(|| {
            calls.set(calls.get() + 1);
            during.set(getrlimit(Resource::Memlock));
            if calls.get() == 1 {
                Err(Errno::PERM)
            } else {
                Ok(())
            }
        });
        assert_eq!(getrlimit(Resource::Memlock), before);
        if made.is_ok() {
            assert_eq!(calls.get(), 2);
            assert!(during.get().current > before.current || during.get().current.is_none());
        } else {
            // There is nothing to raise, or no right to.
            assert_eq!((made, calls.get()), (Err(Errno::PERM), 1));
        }
    }

    #[test]
    fn other_errors_are_returned_at_once() {
        let mut calls = 0;
        let made: Result<(), Errno> = with_raised_limit(|| {
            calls += 1;
            Err(Errno::INVAL)
        });
        assert_eq!((made, calls), (Err(Errno::INVAL), 1));
        assert_eq!(reached_limit(Errno::NOMEM), None);
    }

    /// A program for a kernel function, refused by the policy of a host, was reported as too large although small maps are allowed.
    #[test]
    fn limit_is_no_reason_where_the_kernel_does_not_count() {
        if is_since(5, 11) {
            assert_eq!(reached_limit(Errno::PERM), None);
        }
    }
}
