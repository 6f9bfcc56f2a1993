//! The size of a page and the unit of times in `/proc`, from the C library.
//!
//! rustix has functions for both (`rustix::param`, a feature that no crate of the workspace may enable): they read the
//! auxiliary vector by `prctl(PR_GET_AUXV)`, or from `/proc/self/auxv` on kernels before 6.4, and panic where neither
//! works. The C library was given the vector when the program started.
#![allow(unsafe_code)]

/// Returns the size of a page in bytes.
#[must_use]
pub fn page_bytes() -> usize {
    parameter(libc::_SC_PAGESIZE).unwrap_or(4096)
}

/// Returns the clock ticks per second, in which `/proc/PID/stat` counts times; at least 1.
#[must_use]
pub fn clock_ticks_per_s() -> u64 {
    parameter(libc::_SC_CLK_TCK).map_or(100, |ticks| ticks as u64)
}

/// Returns a parameter of the system; `None` if it is unknown or 0.
fn parameter(name: libc::c_int) -> Option<usize> {
    // SAFETY: sysconf(3) takes any number, and accesses no memory of ours.
    let value = unsafe { libc::sysconf(name) };
    usize::try_from(value).ok().filter(|&value| value > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_this_system_are_plausible() {
        assert!(page_bytes().is_power_of_two() && page_bytes() >= 4096);
        // USER_HZ of the kernel: 100 except on alpha and ia64, which have 1024.
        assert!([100, 1024].contains(&clock_ticks_per_s()));
        assert_eq!(parameter(-1), None);
    }
}
