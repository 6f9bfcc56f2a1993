//! Who waits: the frames of a stack that tell it.

use crate::profile::{Frame, Profile, Space};

/// Where a thread was, in a few words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place<'a> {
    /// In its own program, or the library that it called
    pub(crate) user: Option<&'a str>,
    /// In the kernel
    pub(crate) kernel: Option<&'a str>,
}

/// The innermost function of the process and of the kernel that is not just how one waits: not the C library's wrapper of a
/// call, and not the scheduler.
pub(crate) fn place_of<'a>(profile: &'a Profile, stack: &[u32]) -> Place<'a> {
    let frames = || {
        let frames = stack.iter().rev();
        frames.filter_map(|place| profile.frames.get(*place as usize))
    };
    let named = |space: Space| {
        frames()
            .filter(move |frame| frame.space == space)
            .filter_map(|frame| Some((frame, frame.function.as_deref()?)))
    };
    let user = named(Space::User)
        .find(|(frame, _)| !is_wrapper(frame))
        .or_else(|| named(Space::User).next());
    let kernel = named(Space::Kernel)
        .find(|(_, name)| !is_scheduler(name))
        .or_else(|| named(Space::Kernel).next());
    Place {
        user: user.map(|(_, name)| name),
        kernel: kernel.map(|(_, name)| name),
    }
}

/// Whether it belongs to what every program goes through to call the kernel.
fn is_wrapper(frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or_default();
    let is_library = WRAPPERS.iter().any(|name| {
        module
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', ']']))
    });
    let function = frame.function.as_deref().unwrap_or_default();
    is_library || RUNTIME.iter().any(|name| function.starts_with(name))
}

fn is_scheduler(name: &str) -> bool {
    SCHEDULER.iter().any(|known| name.starts_with(known))
}

/// Libraries between programs and the kernel.
const WRAPPERS: &[&str] = &[
    "libc",
    "libpthread",
    "ld-linux-x86-64",
    "ld-linux-aarch64",
    "ld-musl-x86_64",
    "ld-musl-aarch64",
    "[vdso",
];

/// The same where it is part of the program: Go's calls, Rust's standard library.
const RUNTIME: &[&str] = &[
    "syscall.",
    "internal/runtime/syscall.",
    "runtime/internal/syscall.",
    "internal/poll.",
    "std::sys::",
    "<std::sys::",
    "__GI_",
    "__libc_",
];

/// How the kernel itself waits.
const SCHEDULER: &[&str] = &[
    "__schedule",
    "schedule",
    "io_schedule",
    "preempt_schedule",
    "__cond_resched",
    "wait_woken",
    "mutex_lock",
    "__mutex_lock",
    "down_read",
    "down_write",
    "__down_",
    "rwsem_down",
    "rt_mutex_",
    "__rt_mutex",
    "__traceiter_",
    "bpf_",
    "__bpf_",
    "perf_trace_",
    "trace_event_",
    "do_syscall_64",
    "el0_svc",
    "entry_SYSCALL_64",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits() {
        let frame = |name: &str, module: &str, space| Frame {
            function: Some(name.to_owned()),
            module: Some(module.to_owned()),
            offset: None,
            space,
        };
        let user = |name: &str, module: &str| frame(name, module, Space::User);
        let kernel = |name: &str| frame(name, "kernel", Space::Kernel);
        let profile = Profile {
            frames: vec![
                user("main", "web"),
                user("read_reply", "web"),
                user("__libc_recv", "libc.so.6"),
                kernel("entry_SYSCALL_64_after_hwframe"),
                kernel("tcp_recvmsg_locked"),
                kernel("schedule_timeout"),
                kernel("__schedule"),
                user("crypt", "libcrypto.so.3"),
            ],
            ..Profile::default()
        };
        let check = |stack: &[u32], user: Option<&str>, kernel: Option<&str>| {
            assert_eq!(place_of(&profile, stack), Place { user, kernel }, "{stack:?}");
        };
        check(
            &[0, 1, 2, 3, 4, 5, 6],
            Some("read_reply"),
            Some("tcp_recvmsg_locked"),
        );
        check(&[2, 3, 6], Some("__libc_recv"), Some("__schedule"));
        check(&[0, 7], Some("crypt"), None);
        check(&[], None, None);
        check(&[99, 4], None, Some("tcp_recvmsg_locked"));
    }
}
