//! From the compiled objects to programs that are attached.

use super::pace::Pace;
use super::{Wanted, names};
use crate::{Obstacle, Scope};
use rustix::io::Errno;
use sockeye_source::BpfEngine;
use sockeye_sys::bpf::{Kind, Link, LoadError, LoadOptions, LoadedObject, Program, Table};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The programs that count, attached, and their maps.
#[derive(Debug)]
pub(super) struct Attached {
    pace: Option<Pace>,
    links: Vec<Link>,
    pub(super) sleepers: Option<Program>,
    pub(super) running: Arc<Table>,
    pub(super) cells: Table,
    pub(super) crowded: Table,
    pub(super) errors: Table,
    pub(super) threads: Table,
    pub(super) waits: Table,
    pub(super) stacks: Table,
    pub(super) lost: Table,
}

impl Attached {
    /// Loads and attaches them; what could not be, beside.
    pub(super) fn start(
        engine: &BpfEngine,
        scope: &Scope,
        wanted: Wanted,
    ) -> Result<(Self, Vec<Obstacle>), Obstacle> {
        let part = if wanted.syscalls { "syscalls" } else { "waits" };
        let loaded = match load(engine, FAST, scope, wanted) {
            // Before Linux 6.2.
            Err(sockeye_source::Unavailable::Lacks(_)) => load(engine, READING, scope, wanted),
            loaded => loaded,
        };
        let mut loaded = loaded.map_err(|obstacle| refused(part, &obstacle))?;
        let failed = |error: LoadError| Obstacle::new(part, error.to_string());
        let processes = loaded.table("processes").map_err(failed)?;
        for pid in listed(scope) {
            // It has executed nothing since; and whether it has to.
            let process = [0, u32::from(wanted.from_exec)].map(u32::to_ne_bytes).concat();
            match processes.update(&pid.to_ne_bytes(), &process) {
                Ok(()) => {}
                Err(Errno::TOOBIG) => break,
                Err(errno) => return Err(Obstacle::new(part, format!("write a BPF map: {errno}"))),
            }
        }
        let mut obstacles = Vec::new();
        let mut links = Vec::new();
        // Who runs where comes before what they do there.
        for (name, event) in LIVES {
            let program = loaded.program(name).map_err(failed)?;
            links.push(attach(&program, event).map_err(|text| Obstacle::new(part, text))?);
        }
        let running = Arc::new(loaded.table("running").map_err(failed)?);
        let mut pace = None;
        if wanted.syscalls {
            let (left, entered) = (loaded.program(LEFT.0), loaded.program(ENTERED.0));
            let (left, entered) = (left.map_err(failed)?, entered.map_err(failed)?);
            let attached = attach(&left, LEFT.1).and_then(|left| {
                links.push(left);
                Pace::start(entered, Arc::clone(&running))
            });
            match attached {
                Ok(attached) => pace = Some(attached),
                // Waits can still be had.
                Err(text) if wanted.waits => obstacles.push(Obstacle::new("syscalls", text)),
                Err(text) => return Err(Obstacle::new(part, text)),
            }
        }
        let attached = Self {
            pace,
            links,
            sleepers: loaded.program(SLEEPERS).ok(),
            running,
            cells: loaded.table("cells").map_err(failed)?,
            crowded: loaded.table("crowded").map_err(failed)?,
            errors: loaded.table("errors").map_err(failed)?,
            threads: loaded.table("threads").map_err(failed)?,
            waits: loaded.table("waits").map_err(failed)?,
            stacks: loaded.table("stacks").map_err(failed)?,
            lost: loaded.table("lost").map_err(failed)?,
        };
        Ok((attached, obstacles))
    }

    /// Takes the programs off: what their maps say stays.
    pub(super) fn stop(&mut self) {
        // Calls first: who runs where is known as long as they count.
        self.pace = None;
        while self.links.pop().is_some() {}
    }
}

fn load(
    engine: &BpfEngine,
    elf: &[u8],
    scope: &Scope,
    wanted: Wanted,
) -> Result<LoadedObject, sockeye_source::Unavailable> {
    let (kind, cgroup): (u32, u64) = match scope {
        Scope::Processes(_) => (0, 0),
        Scope::Cgroup { id, .. } => (1, *id),
        Scope::System => (2, 0),
    };
    let kind = kind.to_ne_bytes();
    let cgroup = cgroup.to_ne_bytes();
    let own = std::process::id().to_ne_bytes();
    let pid_namespace = crate::pid_namespace::own().to_ne_bytes();
    let waits = u32::from(wanted.waits).to_ne_bytes();
    let state_is_told = u32::from(is_since(5, 18)).to_ne_bytes();
    let with_objects = names::calls_with_objects();
    let registers = REGISTERS.map(u32::to_ne_bytes);
    let compat = COMPAT_BIT.to_ne_bytes();
    let rt_sigreturn = (syscalls::Sysno::rt_sigreturn as u32).to_ne_bytes();
    // Others have none, nor calls of such numbers.
    let uretprobe: u32 = if cfg!(target_arch = "x86_64") {
        335
    } else {
        u32::MAX - 2
    };
    let uretprobe = uretprobe.to_ne_bytes();
    let births = names::births();
    let constants: [(&str, &[u8]); 16] = [
        ("scope", &kind),
        ("scope_cgroup", &cgroup),
        ("self", &own),
        ("pid_namespace", &pid_namespace),
        ("wants_waits", &waits),
        ("state_is_told", &state_is_told),
        ("has_object", &with_objects),
        ("arg_at", &registers[0]),
        ("nr_at", &registers[1]),
        ("ip_at", &registers[2]),
        ("sp_at", &registers[3]),
        ("bp_at", &registers[4]),
        ("compat_bit", &compat),
        ("rt_sigreturn", &rt_sigreturn),
        ("births", &births),
        ("uretprobe", &uretprobe),
    ];
    let threads = match scope {
        Scope::Processes(_) => THREADS_OF_PROCESSES_MAX,
        _ => THREADS_MAX,
    };
    let mut programs: Vec<_> = LIVES
        .iter()
        .chain(&[LEFT, ENTERED])
        .map(|(name, _)| (*name, Kind::RawTracepoint))
        .collect();
    programs.push((SLEEPERS, Kind::Iterator("bpf_iter_task")));
    let parts = LoadOptions {
        programs: &programs,
        entries: &[("threads", threads)],
        constants: &constants,
    };
    engine.programs(elf, &parts)
}

pub(super) fn attach(program: &Program, event: &str) -> Result<Link, String> {
    program.attach_raw_tracepoint(event).map_err(|errno| match errno {
        Errno::NOENT => format!("attach a BPF program to {event}: this kernel has no such tracepoint"),
        errno => format!("attach a BPF program to {event}: {errno}"),
    })
}

fn refused(part: &'static str, obstacle: &sockeye_source::Unavailable) -> Obstacle {
    let whose = if part == "syscalls" {
        "system calls and waits"
    } else {
        "waits"
    };
    let what = Obstacle::new(part, format!("{whose} are counted in the kernel: {obstacle}"));
    match obstacle {
        // It says by itself what it needs.
        obstacle if obstacle.is_forbidden() => what
            .with_remedy("as a file's capabilities: setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep on sockeye"),
        sockeye_source::Unavailable::Types(..) => {
            what.with_remedy("it takes a kernel built with CONFIG_DEBUG_INFO_BTF")
        }
        _ => what,
    }
}

/// The processes to start with.
pub(super) fn listed(scope: &Scope) -> Vec<u32> {
    match scope {
        Scope::Processes(pids) => pids.clone(),
        Scope::Cgroup { folder, .. } => {
            let mut pids = Vec::new();
            collect(folder, 0, &mut pids);
            pids
        }
        Scope::System => Vec::new(),
    }
}

/// The processes in a cgroup and in those below.
fn collect(folder: &Path, depth: usize, pids: &mut Vec<u32>) {
    if let Ok(text) = fs::read_to_string(folder.join("cgroup.procs")) {
        pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    }
    if depth == CGROUP_DEPTH_MAX {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), depth + 1, pids);
        }
    }
}

/// Whether the kernel is one of this version, or later.
fn is_since(major: u32, minor: u32) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release
        .split(|character: char| !character.is_ascii_digit())
        .map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (major, minor)
}

/// Programs, and the tracepoints that they are for.
const LIVES: [(&str, &str); 4] = [
    ("switched", "sched_switch"),
    ("forked", "sched_process_fork"),
    ("executed", "sched_process_exec"),
    ("exited", "sched_process_exit"),
];
const LEFT: (&str, &str) = ("left", "sys_exit");
pub(super) const ENTERED: (&str, &str) = ("entered", "sys_enter");
const SLEEPERS: &str = "sleepers";

/// Threads that can be followed at a time.
const THREADS_MAX: u32 = 65_536;
const THREADS_OF_PROCESSES_MAX: u32 = 16_384;

/// `CGRP_ROOT`'s default `cgroup.max.depth` knows no bound; the programs look at as many levels.
const CGROUP_DEPTH_MAX: usize = 64;

/// Places in `struct pt_regs`: first argument, number of the call, places of code and stack, frame
/// (`arch/x86/include/asm/ptrace.h`).
#[cfg(target_arch = "x86_64")]
const REGISTERS: [u32; 5] = [112, 120, 128, 152, 32];
/// `TS_COMPAT`
#[cfg(target_arch = "x86_64")]
const COMPAT_BIT: u64 = 2;
/// `arch/arm64/include/asm/ptrace.h`: `orig_x0`, `syscallno`, `pc`, `sp`, `regs[29]`
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: [u32; 5] = [272, 280, 256, 248, 232];
/// `TIF_32BIT`
#[cfg(not(target_arch = "x86_64"))]
const COMPAT_BIT: u64 = 1 << 22;

/// The compiled `bpf/calls.bpf.c` and `bpf/calls_read.bpf.c`.
const FAST: &[u8] = include_bytes!("../../../../../bpf/calls.bpf.o");
const READING: &[u8] = include_bytes!("../../../../../bpf/calls_read.bpf.o");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_takes_both_for_every_scope() {
        let engine = BpfEngine::default();
        let group = Scope::Cgroup {
            folder: "/sys/fs/cgroup".into(),
            id: 1,
        };
        for elf in [FAST, READING] {
            for scope in [Scope::Processes(vec![1]), group.clone(), Scope::System] {
                for waits in [false, true] {
                    let wanted = Wanted {
                        from_exec: false,
                        syscalls: true,
                        waits,
                    };
                    match load(&engine, elf, &scope, wanted) {
                        Ok(_) => {}
                        Err(
                            obstacle @ (sockeye_source::Unavailable::Lacks(_)
                            | sockeye_source::Unavailable::Types(..)),
                        ) => {
                            sockeye_lab::Skip::new(obstacle.to_string()).tell();
                        }
                        Err(obstacle) if obstacle.is_forbidden() => {
                            sockeye_lab::Skip::new(obstacle.to_string()).tell();
                        }
                        Err(obstacle) => panic!("{scope:?}: {obstacle}"),
                    }
                }
            }
        }
    }
}
