//! Signals that ask the program to end, noticed instead of obeyed.
#![allow(unsafe_code)]

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// `SIGINT` and `SIGTERM` are taken note of, the first time. The second time each does what it did before.
///
/// One that was ignored stays ignored (`nohup`, `&` in a script). Programs that are started meanwhile have the usual
/// dispositions: handlers do not outlive `execve(2)`.
#[derive(Debug, Clone, Copy)]
pub struct Interrupts(BorrowedFd<'static>);

impl Interrupts {
    /// From now on.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn catch() -> io::Result<Self> {
        let event = match EVENT.get() {
            Some(event) => event,
            None => {
                let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
                let made = eventfd(0, flags)?;
                EVENT.get_or_init(|| made)
            }
        };
        EVENT_NUMBER.store(event.as_raw_fd(), Ordering::SeqCst);
        for signal in [libc::SIGINT, libc::SIGTERM] {
            handle(signal)?;
        }
        Ok(Self(event.as_fd()))
    }

    /// The first signal that came, by its number.
    #[must_use]
    pub fn caught(&self) -> Option<i32> {
        Some(CAUGHT.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
    }
}

/// Readable once a signal came. Not to be read: everybody who polls shall see it.
impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0
    }
}

/// A handler has no other way to anything: these are the crate's only statics that change.
static CAUGHT: AtomicI32 = AtomicI32::new(0);
static EVENT_NUMBER: AtomicI32 = AtomicI32::new(-1);
/// Never closed: a handler may be running.
static EVENT: OnceLock<OwnedFd> = OnceLock::new();

fn handle(signal: i32) -> io::Result<()> {
    let mut old = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with a null pointer for the new action, it only writes the old one to where there is room for it.
    if unsafe { libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, and so has written all of it.
    let old = unsafe { old.assume_init() };
    if old.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    // SAFETY: a `sigaction` of nothing but zeros is one: an empty mask, no flags, SIG_DFL.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = note as extern "C" fn(i32) as libc::sighandler_t;
    new.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    // SAFETY: `new` is a whole `sigaction`, whose handler does nothing that a handler must not (see there).
    if unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Only atomics and `write(2)`, which signal-safety(7) allows; whoever was interrupted finds its errno unchanged.
extern "C" fn note(signal: i32) {
    let _ = CAUGHT.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
    let one = 1_u64.to_ne_bytes();
    // SAFETY: it has no conditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: it points to this thread's own errno, which lives as long as the thread and which nobody else refers to.
    let errno = unsafe { &mut *errno };
    let before = *errno;
    // SAFETY: the eventfd is never closed, and `one` is as long as is told. A full counter is no harm: it is readable.
    unsafe {
        libc::write(
            EVENT_NUMBER.load(Ordering::SeqCst),
            one.as_ptr().cast(),
            one.len(),
        )
    };
    *errno = before;
}
