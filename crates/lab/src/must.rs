//! A laboratory that cannot be built is a failed test: everything after [`Lab::new`](crate::Lab::new)
//! panics, at the caller's line, with what was tried and what the kernel said.

use std::fmt::Display;

pub(crate) trait Must<T> {
    #[track_caller]
    fn must(self, what: impl Display) -> T;
}

impl<T, E: Display> Must<T> for Result<T, E> {
    #[track_caller]
    fn must(self, what: impl Display) -> T {
        match self {
            Ok(value) => value,
            Err(error) => panic!("lab: {what}: {error}"),
        }
    }
}
