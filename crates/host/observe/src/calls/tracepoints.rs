//! The tracepoints that the programs are attached to.

use rustix::io::Errno;
use sockeye_sys::bpf::{Link, Program};

/// Attaches a program to a tracepoint.
pub(super) fn attach(program: &Program, event: &str) -> Result<Link, String> {
    program.attach_raw_tracepoint(event).map_err(|errno| match errno {
        Errno::NOENT => format!("attach a BPF program to {event}: this kernel has no such tracepoint"),
        errno => format!("attach a BPF program to {event}: {errno}"),
    })
}

/// Programs that follow threads and processes, and their tracepoints.
pub(super) const LIFECYCLE: [(&str, &str); 4] = [
    ("switched", "sched_switch"),
    ("forked", "sched_process_fork"),
    ("executed", "sched_process_exec"),
    ("exited", "sched_process_exit"),
];
/// The program that counts calls when they return.
pub(super) const LEFT: (&str, &str) = ("left", "sys_exit");
/// The program that times calls.
pub(super) const ENTERED: (&str, &str) = ("entered", "sys_enter");
