//! A wait that can be interrupted.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Waits; returns whether it was interrupted.
pub(super) fn wait(until: Instant, interrupt: Option<BorrowedFd<'_>>) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let Some(interrupt) = interrupt else {
            std::thread::sleep(left);
            continue;
        };
        let mut polled = [PollFd::new(&interrupt, PollFlags::IN)];
        let timeout = Timespec::try_from(left).ok();
        if matches!(poll(&mut polled, timeout.as_ref()), Ok(ready) if ready > 0) {
            return true;
        }
    }
}
