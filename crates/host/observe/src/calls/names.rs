//! Names of system calls and errors by number.

use super::raw::Call;
use sockeye_wire::calls::COMPAT;
use syscalls::{Errno, Sysno};

impl Call {
    /// Returns its name; `syscall_N` if it has none that we know.
    pub(crate) fn name(self) -> String {
        let nr = self.nr;
        if nr == INVALID {
            return "invalid".to_owned();
        }
        if self.is_compat {
            return match compat(nr) {
                Some(name) => format!("{name} (32-bit)"),
                None => format!("syscall_{nr} (32-bit)"),
            };
        }
        // The x32 ABI has the same calls, and a few more from 512 on.
        match nr & !X32 {
            plain if nr != plain && cfg!(target_arch = "x86_64") => match native(plain) {
                Some(name) => format!("{name} (x32)"),
                None => format!("syscall_{plain} (x32)"),
            },
            _ => native(nr).map_or_else(|| format!("syscall_{nr}"), str::to_owned),
        }
    }
}

/// Returns the numbers of the calls that create a thread or process, 32-bit calls with the bit `COMPAT`: `thread_creating` of
/// bpf/calls.h.
pub(super) fn thread_creating_calls() -> [u8; 4 * BIRTHS_MAX] {
    let numbers = |of: fn(u32) -> Option<&'static str>, mark: u32| {
        (0..CALLS_MAX as u32).filter_map(move |nr| {
            let creates = of(nr).is_some_and(|name| ["clone", "clone3", "fork", "vfork"].contains(&name));
            creates.then_some(nr | mark)
        })
    };
    let mut bytes = [0; 4 * BIRTHS_MAX];
    let all = numbers(native, 0).chain(numbers(compat, COMPAT));
    for (slot, number) in bytes.chunks_exact_mut(4).zip(all) {
        slot.copy_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// Returns for each call number 1 if its first argument identifies what the call waits for, else 0.
pub(super) fn calls_with_objects() -> [u8; CALLS_MAX] {
    std::array::from_fn(|nr| {
        let name = u32::try_from(nr).ok().and_then(native);
        u8::from(name.is_some_and(|name| is_futex(name) || TAKE_DESCRIPTOR.contains(&name)))
    })
}

/// Returns whether the first argument is the address of a futex; else it is a file descriptor.
pub(super) fn is_futex(name: &str) -> bool {
    name.starts_with("futex") && name != "futex_waitv"
}

/// Returns the name of a call of the architecture that we are built for.
pub(super) fn native(nr: u32) -> Option<&'static str> {
    Sysno::new(usize::try_from(nr).ok()?).map(|call| call.name())
}

/// Returns the name of a call of 32-bit programs on this architecture.
#[cfg(target_arch = "x86_64")]
fn compat(nr: u32) -> Option<&'static str> {
    syscalls::x86::Sysno::new(usize::try_from(nr).ok()?).map(|call| call.name())
}

/// Returns the name of a call of 32-bit programs on this architecture.
#[cfg(target_arch = "aarch64")]
fn compat(nr: u32) -> Option<&'static str> {
    syscalls::arm::Sysno::new(usize::try_from(nr).ok()?).map(|call| call.name())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn compat(_nr: u32) -> Option<&'static str> {
    None
}

/// Returns the name of an errno, including those that only the kernel uses; `errno_N` if it has none.
pub(crate) fn errno_name(errno: u32) -> String {
    let internal = KERNEL_ERRNOS.iter().find(|(number, _)| *number == errno);
    let name = internal.map(|(_, name)| *name).or_else(|| {
        let errno = i32::try_from(errno).ok().filter(|errno| *errno < 512)?;
        Errno::new(errno).name()
    });
    name.map_or_else(|| format!("errno_{errno}"), str::to_owned)
}

/// The length of `thread_creating` in bpf/calls.h.
const BIRTHS_MAX: usize = 8;
/// `CALLS_MAX` of bpf/calls.h.
pub(super) const CALLS_MAX: usize = 512;

/// `INVALID` of bpf/calls.h: a negative call number.
const INVALID: u32 = 0x7fff_ffff;

/// `__X32_SYSCALL_BIT`
const X32: u32 = 0x4000_0000;

/// Errors of `include/linux/errno.h` that tracers see for calls that a signal interrupted.
const KERNEL_ERRNOS: [(u32, &str); 5] = [
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (516, "ERESTART_RESTARTBLOCK"),
    (529, "EIOCBQUEUED"),
];

/// Calls that can wait for the file descriptor in their first argument.
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
        Call { nr, is_compat }.name()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn call_names_of_all_abis() {
        assert_eq!(call(0, false), "read");
        assert_eq!(call(1, false), "write");
        assert_eq!(call(1, true), "exit (32-bit)");
        assert_eq!(call(X32 | 1, false), "write (x32)");
        assert_eq!(call(99_999, false), "syscall_99999");
        assert_eq!(call(99_999, true), "syscall_99999 (32-bit)");
    }

    #[test]
    fn errno_names_include_kernel_errnos() {
        assert_eq!(errno_name(2), "ENOENT");
        assert_eq!(errno_name(11), "EAGAIN");
        assert_eq!(errno_name(512), "ERESTARTSYS");
        assert_eq!(errno_name(515), "errno_515");
        assert_eq!(errno_name(4095), "errno_4095");
    }

    #[test]
    fn calls_with_descriptor_exist() {
        let with_objects = calls_with_objects();
        let known: Vec<_> = (0..CALLS_MAX as u32).filter_map(native).collect();
        assert_eq!(with_objects.len(), CALLS_MAX);
        // Newer architectures do not have them.
        let old = ["epoll_wait", "getdents"];
        for name in TAKE_DESCRIPTOR {
            assert!(known.contains(&name) || old.contains(&name), "{name}");
        }
    }

    #[test]
    fn thread_creating_calls_of_both_abis() {
        let all: Vec<String> = thread_creating_calls()
            .chunks_exact(4)
            .map(|number| u32::from_ne_bytes(number.try_into().unwrap()))
            .filter(|number| *number != 0)
            .map(|number| call(number & !COMPAT, number & COMPAT != 0))
            .collect();
        let count = |name: &str| all.iter().filter(|call| call.starts_with(name)).count();
        // Both native and 32-bit; the prefix clone matches clone3 too.
        let (clones, forks) = if cfg!(target_arch = "x86_64") {
            (4, 4)
        } else {
            (4, 2)
        };
        assert_eq!(count("clone"), clones, "{all:?}");
        assert_eq!(count("fork") + count("vfork"), forks, "{all:?}");
    }
}
