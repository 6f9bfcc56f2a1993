//! Failures of a laboratory: everything after [`Lab::new`](crate::Lab::new) panics at the caller's line, with
//! the failed operation and the kernel's error.

use std::fmt::Display;

pub(crate) trait OrPanic<T> {
    #[track_caller]
    fn or_panic(self, what: impl Display) -> T;
}

impl<T, E: Display> OrPanic<T> for Result<T, E> {
    #[track_caller]
    fn or_panic(self, what: impl Display) -> T {
        match self {
            Ok(value) => value,
            Err(error) => panic!("lab: {what}: {error}"),
        }
    }
}
