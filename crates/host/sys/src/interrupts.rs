//! Handlers of `SIGINT`, `SIGTERM` and `SIGHUP` that record the signal instead of ending the program.
#![allow(unsafe_code)]

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Instant;

/// The installed handlers of `SIGINT`, `SIGTERM` and `SIGHUP` (a terminal or ssh connection that is gone). The first signal
/// is recorded. Another one has its default effect, unless it comes within a tenth of a second: `timeout` and service managers send the same signal
/// to a process and to its group, which is one request to end.
///
/// `SIGXFSZ` loses its effect: a write beyond the limit of `ulimit -f` fails with `EFBIG`, and is an error like a full disk.
///
/// A signal that was ignored stays ignored (`nohup`, `&` in a script). Programs started in the meantime get the default
/// dispositions: handlers do not survive `execve(2)`.
#[derive(Debug, Clone, Copy)]
pub struct Interrupts(BorrowedFd<'static>);

impl Interrupts {
    /// Installs the handlers.
    ///
    /// # Errors
    /// If no descriptor can be created.
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
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            handle(signal, record, libc::SA_RESTART)?;
        }
        handle(libc::SIGXFSZ, ignore, libc::SA_RESTART)?;
        Ok(Self(event.as_fd()))
    }

    /// Lets a `SIGWINCH` interrupt calls that wait, such as `poll(2)`: the terminal has another size.
    ///
    /// # Errors
    /// Those of `sigaction(2)`.
    pub fn notice_resizes(&self) -> io::Result<()> {
        handle(libc::SIGWINCH, ignore, 0)
    }

    /// Waits until a time. Returns whether a signal has arrived before.
    ///
    /// # Errors
    /// Those of `poll(2)`.
    pub fn arrive_before(&self, until: Instant) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&left)) {
                Err(Errno::INTR) => {}
                polled => return Ok(polled? > 0),
            }
        }
    }

    /// Returns the descriptor that is readable once a signal has arrived. Do not read from it.
    #[must_use]
    pub const fn descriptor(&self) -> BorrowedFd<'static> {
        self.0
    }

    /// Returns the number of the first signal that arrived, or `None`.
    #[must_use]
    pub fn caught(&self) -> Option<i32> {
        Some(CAUGHT.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
    }
}

/// Ends this process by a signal that was caught, so that its parent sees it: the signal gets its default effect first.
///
/// # Errors
/// Those of `kill(2)`.
pub fn end_by(signal: Signal) -> io::Result<()> {
    // SAFETY: no preconditions, and SIG_DFL is a valid handler.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
    kill_process(getpid(), signal)?;
    Ok(())
}

/// The descriptor is readable once a signal has arrived. Do not read from it: every poller must see it.
impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0
    }
}

/// Whether a signal that [`Interrupts`] catch has arrived; for what waits without them.
#[must_use]
pub fn has_any_arrived() -> bool {
    CAUGHT.load(Ordering::Relaxed) != 0
}

/// A handler can reach nothing but statics: these are the crate's only mutable ones.
static CAUGHT: AtomicI32 = AtomicI32::new(0);
/// When it did, in milliseconds of the monotonic clock, which wrap.
static CAUGHT_MS: AtomicU32 = AtomicU32::new(0);
static EVENT_NUMBER: AtomicI32 = AtomicI32::new(-1);
/// Never closed, because a handler may be running.
static EVENT: OnceLock<OwnedFd> = OnceLock::new();

/// After so long another signal is a new one.
const AGAIN_MS: u32 = 100;

/// Returns the time of the monotonic clock, which wraps after 49 days.
fn monotonic_ms() -> u32 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u32)
        .wrapping_mul(1000)
        .wrapping_add((time.tv_nsec / 1_000_000) as u32)
}

fn handle(signal: i32, handler: extern "C" fn(i32), flags: i32) -> io::Result<()> {
    let mut old = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with a null pointer for the new action, the call only writes the old one, to memory of its size.
    if unsafe { libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, and so has written all of it.
    let old = unsafe { old.assume_init() };
    if old.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    // SAFETY: an all-zero `sigaction` is valid: an empty mask, no flags, SIG_DFL.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler as libc::sighandler_t;
    new.sa_flags = flags;
    // SAFETY: `new` is a complete `sigaction`; both handlers of this file are async-signal-safe (see there).
    if unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The handler of a signal without effect. Unlike `SIG_IGN`, programs that we start do not inherit it.
extern "C" fn ignore(_: i32) {}

/// The handler of signals that end the program. It uses only atomics and calls that signal-safety(7) allows, and restores errno for the
/// interrupted code.
extern "C" fn record(signal: i32) {
    let now = monotonic_ms();
    if CAUGHT
        .compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok()
    {
        CAUGHT_MS.store(now, Ordering::SeqCst);
    } else if now.wrapping_sub(CAUGHT_MS.load(Ordering::SeqCst)) >= AGAIN_MS {
        // SAFETY: async-signal-safe, and SIG_DFL is a valid handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: async-signal-safe. The signal is blocked while its handler runs, and has its default effect when that returns.
        unsafe { libc::raise(signal) };
    }
    let one = 1_u64.to_ne_bytes();
    // SAFETY: no preconditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: it points to this thread's errno, which lives as long as the thread and which nothing else refers to.
    let errno = unsafe { &mut *errno };
    let before = *errno;
    // SAFETY: the eventfd is never closed, and `one` has the given length. A full counter is harmless: it is readable.
    unsafe {
        libc::write(
            EVENT_NUMBER.load(Ordering::SeqCst),
            one.as_ptr().cast(),
            one.len(),
        )
    };
    *errno = before;
}
