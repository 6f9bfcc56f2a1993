//! What numbers of system calls and errors are called.

use super::Call;
use sockeye_wire::calls::COMPAT;
use syscalls::{Errno, Sysno};

/// The name of a call.
pub(super) fn of_call(call: Call) -> String {
    let nr = call.nr;
    if nr == INVALID {
        return "invalid".to_owned();
    }
    if call.is_compat {
        return match compat(nr) {
            Some(name) => format!("{name} (32-bit)"),
            None => format!("syscall_{nr} (32-bit)"),
        };
    }
    // Programs of the ABI x32 have the same calls, and a few of their own from 512 on.
    match nr & !X32 {
        plain if nr != plain && cfg!(target_arch = "x86_64") => match native(plain) {
            Some(name) => format!("{name} (x32)"),
            None => format!("syscall_{plain} (x32)"),
        },
        _ => native(nr).map_or_else(|| format!("syscall_{nr}"), str::to_owned),
    }
}

/// The calls that make another thread: their numbers, those of 32-bit calls with `COMPAT`.
pub(super) fn births() -> [u8; 4 * BIRTHS_MAX] {
    let numbers = |of: fn(u32) -> Option<&'static str>, mark: u32| {
        (0..CALLS_MAX as u32).filter_map(move |nr| {
            let makes = of(nr).is_some_and(|name| ["clone", "clone3", "fork", "vfork"].contains(&name));
            makes.then_some(nr | mark)
        })
    };
    let mut bytes = [0; 4 * BIRTHS_MAX];
    let all = numbers(native, 0).chain(numbers(compat, COMPAT));
    for (place, number) in bytes.chunks_exact_mut(4).zip(all) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// The calls whose first argument says what they wait at: for each number whether it does.
pub(super) fn calls_with_objects() -> [u8; CALLS_MAX] {
    std::array::from_fn(|nr| {
        let name = u32::try_from(nr).ok().and_then(native);
        u8::from(name.is_some_and(|name| is_futex(name) || TAKE_DESCRIPTOR.contains(&name)))
    })
}

/// Whether the first argument is the address of a futex; else it is a file descriptor.
pub(super) fn is_futex(name: &str) -> bool {
    name.starts_with("futex") && name != "futex_waitv"
}

/// Of the architecture that we are built for.
pub(super) fn native(nr: u32) -> Option<&'static str> {
    Sysno::new(usize::try_from(nr).ok()?).map(|call| call.name())
}

/// Of the 32-bit programs that it runs as well.
#[cfg(target_arch = "x86_64")]
fn compat(nr: u32) -> Option<&'static str> {
    syscalls::x86::Sysno::new(usize::try_from(nr).ok()?).map(|call| call.name())
}

/// Likewise.
#[cfg(target_arch = "aarch64")]
fn compat(nr: u32) -> Option<&'static str> {
    syscalls::arm::Sysno::new(usize::try_from(nr).ok()?).map(|call| call.name())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn compat(_nr: u32) -> Option<&'static str> {
    None
}

/// The name of an errno.
pub(super) fn of_errno(errno: u32) -> String {
    let own = OF_THE_KERNEL.iter().find(|(number, _)| *number == errno);
    let name = own.map(|(_, name)| *name).or_else(|| {
        let errno = i32::try_from(errno).ok().filter(|errno| *errno < 512)?;
        Errno::new(errno).name()
    });
    name.map_or_else(|| format!("errno_{errno}"), str::to_owned)
}

/// The length of `births` in bpf/calls.h
const BIRTHS_MAX: usize = 8;
/// `CALLS_MAX` of bpf/calls.h
pub(super) const CALLS_MAX: usize = 512;

/// `INVALID` of bpf/calls.h: whoever asked for a negative number
const INVALID: u32 = 0x7fff_ffff;

/// `__X32_SYSCALL_BIT`
const X32: u32 = 0x4000_0000;

/// `include/linux/errno.h`: what tracers see of calls that a signal interrupted.
const OF_THE_KERNEL: [(u32, &str); 5] = [
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (516, "ERESTART_RESTARTBLOCK"),
    (529, "EIOCBQUEUED"),
];

/// Calls that wait, or may, at the descriptor that is their first argument.
const TAKE_DESCRIPTOR: [&str; 59] = [
    "accept",
    "accept4",
    "close",
    "close_range",
    "connect",
    "copy_file_range",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fallocate",
    "fchmod",
    "fchown",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "finit_module",
    "flock",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "getdents",
    "getdents64",
    "io_uring_enter",
    "ioctl",
    "lseek",
    "mq_timedreceive",
    "mq_timedsend",
    "pidfd_send_signal",
    "pread64",
    "preadv",
    "preadv2",
    "process_madvise",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "getsockopt",
    "shutdown",
    "splice",
    "sync_file_range",
    "syncfs",
    "tee",
    "timerfd_settime",
    "vmsplice",
    "write",
    "writev",
    "setns",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn call(nr: u32, is_compat: bool) -> String {
        of_call(Call { nr, is_compat })
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls() {
        assert_eq!(call(0, false), "read");
        assert_eq!(call(1, false), "write");
        assert_eq!(call(1, true), "exit (32-bit)");
        assert_eq!(call(X32 | 1, false), "write (x32)");
        assert_eq!(call(99_999, false), "syscall_99999");
        assert_eq!(call(99_999, true), "syscall_99999 (32-bit)");
    }

    #[test]
    fn errors() {
        assert_eq!(of_errno(2), "ENOENT");
        assert_eq!(of_errno(11), "EAGAIN");
        assert_eq!(of_errno(512), "ERESTARTSYS");
        assert_eq!(of_errno(515), "errno_515");
        assert_eq!(of_errno(4095), "errno_4095");
    }

    #[test]
    fn each_call_with_a_descriptor_is_one() {
        let with_objects = calls_with_objects();
        let known: Vec<_> = (0..CALLS_MAX as u32).filter_map(native).collect();
        assert_eq!(with_objects.len(), CALLS_MAX);
        // Older ones than some architectures.
        let old = ["epoll_wait", "getdents"];
        for name in TAKE_DESCRIPTOR {
            assert!(known.contains(&name) || old.contains(&name), "{name}");
        }
    }

    #[test]
    fn calls_that_make_another_thread() {
        let all: Vec<String> = births()
            .chunks_exact(4)
            .map(|number| u32::from_ne_bytes(number.try_into().unwrap()))
            .filter(|number| *number != 0)
            .map(|number| call(number & !COMPAT, number & COMPAT != 0))
            .collect();
        let twice = |name: &str| all.iter().filter(|told| told.starts_with(name)).count();
        // Each of this architecture and of its 32-bit programs; clone and clone3 begin alike.
        let (clones, forks) = if cfg!(target_arch = "x86_64") {
            (4, 4)
        } else {
            (4, 2)
        };
        assert_eq!(twice("clone"), clones, "{all:?}");
        assert_eq!(twice("fork") + twice("vfork"), forks, "{all:?}");
    }
}
