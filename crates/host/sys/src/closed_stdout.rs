//! Whether standard output was closed when the program was started.
//!
//! The runtime of the standard library opens `/dev/null` in place of a closed standard stream, so that no file gets its
//! number. After that, what is written to a closed standard output (`>&-`) is lost without an error. So it is looked at
//! before: by a function of `.init_array`, which the C library calls first.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

/// Returns whether standard output was closed when the program was started.
#[must_use]
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the section holds pointers to functions, which the C library calls with arguments that this one ignores; the
// calling conventions of Linux allow that. It calls nothing that needs the runtime of the standard library.
#[used]
#[unsafe(link_section = ".init_array")]
static INSPECT: extern "C" fn() = inspect;

extern "C" fn inspect() {
    // SAFETY: it only reads the flags of a descriptor number, which may be closed.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
    WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}
