//! Whether `/proc` is usable: in a chroot or a minimal container it may not be mounted.

use rustix::fs::{AtFlags, CWD, PROC_SUPER_MAGIC, statat, statfs};
use std::fmt;

/// Why `/proc` does not show this process, and what helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcProblem {
    /// No proc file system is mounted on `/proc`.
    NotMounted,
    /// The one on `/proc` is that of a pid namespace in which this process has no pid.
    OtherPidNamespace,
}

/// Returns why `/proc` is not usable; `None` if it is.
#[must_use]
pub fn problem() -> Option<ProcProblem> {
    if !statfs("/proc").is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC) {
        Some(ProcProblem::NotMounted)
    } else if statat(CWD, "/proc/self/stat", AtFlags::empty()).is_ok() {
        None
    } else {
        Some(ProcProblem::OtherPidNamespace)
    }
}

impl fmt::Display for ProcProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMounted => "no proc file system is mounted on /proc; try: mount -t proc proc /proc",
            Self::OtherPidNamespace => {
                "/proc is that of another pid namespace and does not show this process; try, in a mount namespace of its \
                 own: mount -t proc proc /proc"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_of_this_host_is_usable() {
        assert_eq!(problem(), None);
    }

    #[test]
    fn each_problem_names_the_remedy() {
        for problem in [ProcProblem::NotMounted, ProcProblem::OtherPidNamespace] {
            assert!(problem.to_string().ends_with("mount -t proc proc /proc"));
        }
    }
}
