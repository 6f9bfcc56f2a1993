//! The state of a process and the function of the kernel that it waits in, from `/proc/PID/task/TID/stat` and `wchan`.
//! `check` shows them with what the process does not do.

use crate::proc_folder::{open_folder, open_to_list, processes, read};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::CWD;
use sockeye_model::{Comm, Pgid, Pid, Process, ProcessState, ShortText};
use sockeye_wire::proc_pid::Stat;

/// Reads the state of a process; `None` if it has ended.
#[must_use]
pub fn process_state(pid: Pid) -> Option<ProcessState> {
    let folder = open_folder(CWD, format!("/proc/{}", pid.0)).ok()?;
    let mut buffer = Vec::new();
    let mut state = thread_state(folder.as_fd(), &mut buffer)?;
    if let Ok(tasks) = open_to_list(folder.as_fd(), c"task") {
        for thread in processes(tasks.as_fd())
            .unwrap_or_default()
            .into_iter()
            .take(THREADS_MAX)
        {
            let opened = open_folder(tasks.as_fd(), format!("{}", thread.0)).ok();
            let found = opened.and_then(|thread| thread_state(thread.as_fd(), &mut buffer));
            let Some(found) = found.filter(|found| !is_ended(found.letter)) else {
                continue;
            };
            // The first thread may have ended before the others.
            if is_ended(state.letter) {
                state = ProcessState {
                    is_other_thread: true,
                    ..found
                };
            }
            state.threads_at_work += u32::from(is_at_work(&found));
        }
    }
    // A first thread that is at work itself leaves nothing to others.
    if is_at_work(&state) && !state.is_other_thread {
        state.threads_at_work = 0;
    }
    if state.letter == b't' {
        state.tracer = tracer(folder.as_fd(), &mut buffer);
    }
    // A frozen thread waits there (`do_freezer_trap()`); in version 1 of cgroups, in the other.
    state.is_frozen = match state.waits_in.as_bytes() {
        b"__refrigerator" | b"do_freezer_trap" => true,
        // Inlined; whatever else stops a thread there has another state.
        b"get_signal" => state.letter == b'S',
        b"" => is_frozen(folder.as_fd(), &mut buffer),
        _ => false,
    };
    Some(state)
}

fn thread_state(folder: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Option<ProcessState> {
    let letter = Stat::parse(read(folder, c"stat", buffer).ok()?).ok()?.state;
    // "0": it waits in none, or we may not know.
    let waits_in = match read(folder, c"wchan", buffer) {
        Ok(b"0") | Err(_) => ShortText::new(b""),
        Ok(name) => ShortText::new(name),
    };
    Some(ProcessState::new(letter, waits_in))
}

/// Whether a thread has ended, and only its process keeps it.
const fn is_ended(letter: u8) -> bool {
    matches!(letter, b'Z' | b'X')
}

fn is_at_work(thread: &ProcessState) -> bool {
    let waits_in = thread.waits_in.as_bytes();
    match thread.letter {
        b'R' | b'D' => true,
        b'S' => !waits_in.is_empty() && !IDLE.iter().any(|idle| waits_in.starts_with(idle)),
        _ => false,
    }
}

/// The process that traces this one, a line of `/proc/PID/status`.
fn tracer(folder: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Option<Process> {
    let status = read(folder, c"status", buffer).ok()?;
    let mut lines = status.split(|&byte| byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"TracerPid:"))?;
    let pid: u32 = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
    let tracer = open_folder(CWD, format!("/proc/{pid}"))
        .ok()
        .filter(|_| pid != 0)?;
    let stat = Stat::parse(read(tracer.as_fd(), c"stat", buffer).ok()?).ok()?;
    Some(Process {
        pid: Pid(stat.pid),
        pgid: (stat.group != 0).then_some(Pgid(stat.group)),
        comm: Comm::new(stat.comm),
    })
}

/// Whether the cgroup of a process is frozen (version 2, `cgroup.events`).
fn is_frozen(folder: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> bool {
    let path = |text: &[u8]| {
        let mut lines = text.split(|&byte| byte == b'\n');
        let path = lines.find_map(|line| line.strip_prefix(b"0::/"))?;
        Some(String::from_utf8_lossy(path).into_owned())
    };
    let Some(path) = read(folder, c"cgroup", buffer).ok().and_then(path) else {
        return false;
    };
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mounts") else {
        return false;
    };
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mounts.find(|words| words.get(2) == Some(&"cgroup2"));
    let Some(root) = mount.and_then(|words| words.get(1).map(|root| (*root).to_owned())) else {
        return false;
    };
    let Ok(cgroup) = open_folder(CWD, format!("{root}/{path}")) else {
        return false;
    };
    let Ok(events) = read(cgroup.as_fd(), c"cgroup.events", buffer) else {
        return false;
    };
    events
        .split(|&byte| byte == b'\n')
        .any(|line| line == b"frozen 1")
}

/// Threads of a process that are looked at.
const THREADS_MAX: usize = 256;
/// Where threads wait that have nothing to do, or that wait for each other.
const IDLE: [&[u8]; 12] = [
    b"futex",
    b"inet_csk_accept",
    b"unix_accept",
    b"ep_poll",
    b"do_epoll_wait",
    b"poll_schedule_timeout",
    b"do_poll",
    b"do_select",
    b"do_sys_poll",
    b"sk_wait_data",
    b"wait_woken",
    b"unix_stream_read",
];
