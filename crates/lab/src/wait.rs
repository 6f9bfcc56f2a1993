//! Polls until a condition holds, and panics after a deadline with the name of what is missing. The lab and
//! the tests use it instead of fixed sleeps.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Longest wait before it counts as a failure.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Calls `attempt` about every millisecond until it returns a value; panics after [`DEADLINE`], naming
/// `what`.
#[track_caller]
pub fn wait_for<T>(what: impl Display, attempt: impl FnMut() -> Option<T>) -> T {
    wait_within(DEADLINE, what, attempt)
}

/// [`wait_for`] with another deadline.
#[track_caller]
pub fn wait_within<T>(limit: Duration, what: impl Display, mut attempt: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        let waited = started.elapsed();
        assert!(waited < limit, "lab: waited {waited:?} for {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Waits until `value` has stayed the same for so long: for what shows no other sign of its end; panics after [`DEADLINE`].
#[track_caller]
pub fn wait_until_steady<T: PartialEq>(what: impl Display, quiet: Duration, mut value: impl FnMut() -> T) {
    let (mut last, mut since) = (value(), Instant::now());
    wait_within(DEADLINE + quiet, format!("{what} to stay as it is"), || {
        let now = value();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        (since.elapsed() >= quiet).then_some(())
    });
}

/// Waits until `condition` holds, and returns whether it does within the limit. It does not panic: for destructors, and for what need
/// not happen.
pub fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Waits until `condition` holds; see [`wait_for`].
#[track_caller]
pub fn wait_until(what: impl Display, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}
