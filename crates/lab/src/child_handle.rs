//! A shared handle to a child process: `process.rs` kills and reaps the child when its `Process` is dropped,
//! `lab.rs` when the lab is. The second of both calls has no effect.

use std::process::Child;
use std::sync::{Mutex, PoisonError};

/// A child process, which both its [`Process`](crate::Process) and its lab may end.
#[derive(Debug)]
pub(crate) struct ChildHandle(Mutex<Child>);

impl ChildHandle {
    pub(crate) const fn new(child: Child) -> Self {
        Self(Mutex::new(child))
    }

    pub(crate) fn end(&self) {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Neither affects a child that was reaped before.
        let _ = child.kill();
        let _ = child.wait();
    }
}
