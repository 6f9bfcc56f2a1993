//! The frames of a stack that show where a thread waits.

use crate::profile::{Frame, Profile, Space};

/// Where a thread waited, by function names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StackSite<'a> {
    /// In its own program, or in a library that it called
    pub(crate) user: Option<&'a str>,
    /// In the kernel
    pub(crate) kernel: Option<&'a str>,
}

/// The innermost function of the process and of the kernel that is not part of every wait: no system call
/// wrapper of the C library, and no scheduler.
pub(crate) fn site_of<'a>(profile: &'a Profile, stack: &[u32]) -> StackSite<'a> {
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
    StackSite {
        user: user.map(|(_, name)| name),
        kernel: kernel.map(|(_, name)| name),
    }
}

/// Whether it is a system call wrapper.
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

/// Libraries with system call wrappers.
const WRAPPERS: &[&str] = &[
    "libc",
    "libpthread",
    "ld-linux-x86-64",
    "ld-linux-aarch64",
    "ld-musl-x86_64",
    "ld-musl-aarch64",
    "[vdso",
];

/// System call wrappers inside a program: Go's runtime, Rust's standard library.
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

/// Kernel functions that are part of every wait.
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
    fn waiting_function_is_found() {
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
            assert_eq!(site_of(&profile, stack), StackSite { user, kernel }, "{stack:?}");
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
