//! Loads and attaches the BPF programs.

use super::names;
use super::options::CallOptions;
use super::throttle::TimingThrottle;
use super::tracepoints::{ENTERED, LEFT, LIFECYCLE, attach};
use crate::processes::proc_files::cgroup_pids;
use crate::{Scope, Unavailable};
use rustix::io::Errno;
use sockeye_source::BpfEngine;
use sockeye_sys::bpf::{Kind, Link, LoadError, LoadOptions, LoadedObject, Program, Table};
use sockeye_sys::kernel_release::is_since;
use std::sync::Arc;

/// The attached programs and their maps.
#[derive(Debug)]
pub(super) struct Programs {
    throttle: Option<TimingThrottle>,
    links: Vec<Link>,
    pub(super) sleepers: Option<Program>,
    pub(super) running: Arc<Table>,
    pub(super) cells: Table,
    pub(super) overflow: Table,
    pub(super) errors: Table,
    pub(super) threads: Table,
    pub(super) waits: Table,
    pub(super) stacks: Table,
    pub(super) lost: Table,
}

impl Programs {
    /// Loads and attaches the programs. Returns also the requested parts that do not work although the rest does.
    pub(super) fn start(
        engine: &BpfEngine,
        scope: &Scope,
        options: CallOptions,
    ) -> Result<(Self, Vec<Unavailable>), Unavailable> {
        let part = if options.syscalls { "syscalls" } else { "waits" };
        let loaded = load_for_kernel(engine, scope, options);
        let mut loaded = loaded.map_err(|unavailable| refused(part, &unavailable))?;
        let failed = |error: LoadError| Unavailable::new(part, error.to_string());
        let processes = loaded.table("processes").map_err(failed)?;
        for pid in initial_pids(scope) {
            // Number of execs, and whether it counts only from the next one.
            let process = [0, u32::from(options.from_exec)].map(u32::to_ne_bytes).concat();
            match processes.update(&pid.to_ne_bytes(), &process) {
                Ok(()) => {}
                Err(Errno::TOOBIG) => break,
                Err(errno) => return Err(Unavailable::new(part, format!("write a BPF map: {errno}"))),
            }
        }
        let mut missing_parts = Vec::new();
        let mut links = Vec::new();
        // First the programs that record which thread runs where: the others need it.
        for (name, event) in LIFECYCLE {
            let program = loaded.program(name).map_err(failed)?;
            links.push(attach(&program, event).map_err(|text| Unavailable::new(part, text))?);
        }
        let running = Arc::new(loaded.table("running").map_err(failed)?);
        let mut throttle = None;
        if options.syscalls {
            let (left, entered) = (loaded.program(LEFT.0), loaded.program(ENTERED.0));
            let (left, entered) = (left.map_err(failed)?, entered.map_err(failed)?);
            let attached = attach(&left, LEFT.1).and_then(|left| {
                links.push(left);
                TimingThrottle::start(entered, Arc::clone(&running))
            });
            match attached {
                Ok(attached) => throttle = Some(attached),
                // Waits still work.
                Err(text) if options.waits => missing_parts.push(Unavailable::new("syscalls", text)),
                Err(text) => return Err(Unavailable::new(part, text)),
            }
        }
        let attached = Self {
            throttle,
            links,
            sleepers: loaded.program(SLEEPERS).ok(),
            running,
            cells: loaded.table("cells").map_err(failed)?,
            overflow: loaded.table("overflow").map_err(failed)?,
            errors: loaded.table("errors").map_err(failed)?,
            threads: loaded.table("threads").map_err(failed)?,
            waits: loaded.table("waits").map_err(failed)?,
            stacks: loaded.table("stacks").map_err(failed)?,
            lost: loaded.table("lost").map_err(failed)?,
        };
        Ok((attached, missing_parts))
    }

    /// Detaches the programs; their maps stay readable.
    pub(super) fn detach(&mut self) {
        // Calls first: they need the record of which thread runs where.
        self.throttle = None;
        while self.links.pop().is_some() {}
    }
}

/// Loads the programs in the form for this kernel.
fn load_for_kernel(
    engine: &BpfEngine,
    scope: &Scope,
    options: CallOptions,
) -> Result<LoadedObject, sockeye_source::Unavailable> {
    match load(engine, OBJECT, scope, options) {
        // Before Linux 6.2.
        Err(sockeye_source::Unavailable::Lacks(_)) => load(engine, OBJECT_BEFORE_6_2, scope, options),
        loaded => loaded,
    }
}

fn load(
    engine: &BpfEngine,
    elf: &[u8],
    scope: &Scope,
    options: CallOptions,
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
    let waits = u32::from(options.waits).to_ne_bytes();
    let state_is_argument = u32::from(is_since(5, 18)).to_ne_bytes();
    let has_task_registers = u32::from(engine.has_helper("task_pt_regs")?).to_ne_bytes();
    // include/asm: THREAD_SIZE, without KASAN.
    let stack_bytes = u32::try_from(sockeye_sys::page_bytes())
        .unwrap_or(0)
        .max(16 << 10)
        .to_ne_bytes();
    let with_objects = names::calls_with_objects();
    let registers = REGISTERS.map(u32::to_ne_bytes);
    let compat = COMPAT_BIT.to_ne_bytes();
    let rt_sigreturn = (syscalls::Sysno::rt_sigreturn as u32).to_ne_bytes();
    // Other architectures have no such call; no call has this number.
    let uretprobe: u32 = if cfg!(target_arch = "x86_64") {
        335
    } else {
        u32::MAX - 2
    };
    let uretprobe = uretprobe.to_ne_bytes();
    let thread_creating = names::thread_creating_calls();
    let constants: [(&str, &[u8]); 18] = [
        ("scope", &kind),
        ("scope_cgroup", &cgroup),
        ("self", &own),
        ("pid_namespace", &pid_namespace),
        ("wants_waits", &waits),
        ("state_is_argument", &state_is_argument),
        ("has_task_registers", &has_task_registers),
        ("stack_bytes", &stack_bytes),
        ("has_object", &with_objects),
        ("arg_at", &registers[0]),
        ("nr_at", &registers[1]),
        ("ip_at", &registers[2]),
        ("sp_at", &registers[3]),
        ("bp_at", &registers[4]),
        ("compat_bit", &compat),
        ("rt_sigreturn", &rt_sigreturn),
        ("thread_creating", &thread_creating),
        ("uretprobe", &uretprobe),
    ];
    let threads = match scope {
        Scope::Processes(_) => THREADS_OF_PROCESSES_MAX,
        _ => THREADS_MAX,
    };
    let mut programs: Vec<_> = LIFECYCLE
        .iter()
        .chain(&[LEFT, ENTERED])
        .map(|(name, _)| (*name, Kind::RawTracepoint))
        .collect();
    programs.push((SLEEPERS, SLEEPERS_KIND));
    let parts = LoadOptions {
        programs: &programs,
        entries: &[("threads", threads)],
        constants: &constants,
        preallocated_entries: &[("overflow", OVERFLOW_PREALLOCATED)],
        ..LoadOptions::default()
    };
    engine.programs(elf, &parts)
}

/// Loads the programs that count calls or waits, with maps for a profile of the whole system: smaller programs and maps may be allowed
/// where these are not. Nothing is attached.
pub(crate) fn try_programs(engine: &BpfEngine, part: &'static str) -> Result<(), Unavailable> {
    let options = CallOptions {
        from_exec: false,
        syscalls: part == "syscalls",
        waits: part == "waits",
    };
    load_for_kernel(engine, &Scope::System, options)
        .map(drop)
        .map_err(|unavailable| Unavailable::new(part, unavailable.to_string()))
}

/// Returns the report for programs that could not be loaded.
fn refused(part: &'static str, unavailable: &sockeye_source::Unavailable) -> Unavailable {
    let subject = if part == "syscalls" {
        "system calls and waits"
    } else {
        "waits"
    };
    let what = Unavailable::new(
        part,
        format!("{subject} are counted in the kernel: {unavailable}"),
    );
    match unavailable {
        // The text already names the required rights.
        unavailable if unavailable.is_forbidden() => what
            .with_remedy("as a file's capabilities: setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep on sockeye"),
        sockeye_source::Unavailable::Types(..) => {
            what.with_remedy("it takes a kernel built with CONFIG_DEBUG_INFO_BTF")
        }
        _ => what,
    }
}

/// Returns the processes of the scope that exist already; none for the whole system.
pub(super) fn initial_pids(scope: &Scope) -> Vec<u32> {
    match scope {
        Scope::Processes(pids) => pids.clone(),
        Scope::Cgroup { folder, .. } => cgroup_pids(folder),
        Scope::System => Vec::new(),
    }
}

const SLEEPERS: &str = "sleepers";
const SLEEPERS_KIND: Kind<'static> = Kind::Iterator("bpf_iter_task");

/// The most threads at a time.
const THREADS_MAX: u32 = 65_536;
const THREADS_OF_PROCESSES_MAX: u32 = 16_384;
/// Where the map of calls without a place of their own is allocated at once, for each processor: 0.5 MB each.
const OVERFLOW_PREALLOCATED: u32 = 8192;

/// Offsets in `struct pt_regs`: first argument, call number, instruction, stack and frame pointer
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

/// The compiled `bpf/calls.bpf.c`.
const OBJECT: &[u8] = include_bytes!("../../../../../bpf/calls.bpf.o");
/// The compiled `bpf/calls_read.bpf.c`, for kernels before Linux 6.2.
const OBJECT_BEFORE_6_2: &[u8] = include_bytes!("../../../../../bpf/calls_read.bpf.o");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifier_accepts_both_objects_for_every_scope() {
        let engine = BpfEngine::default();
        let group = Scope::Cgroup {
            folder: "/sys/fs/cgroup".into(),
            id: 1,
        };
        for elf in [OBJECT, OBJECT_BEFORE_6_2] {
            for scope in [Scope::Processes(vec![1]), group.clone(), Scope::System] {
                for waits in [false, true] {
                    let options = CallOptions {
                        from_exec: false,
                        syscalls: true,
                        waits,
                    };
                    match load(&engine, elf, &scope, options) {
                        Ok(_) => {}
                        Err(
                            unavailable @ (sockeye_source::Unavailable::Lacks(_)
                            | sockeye_source::Unavailable::Types(..)),
                        ) => {
                            sockeye_lab::Skip::new(unavailable.to_string()).print();
                        }
                        Err(unavailable) if unavailable.is_forbidden() => {
                            sockeye_lab::Skip::new(unavailable.to_string()).print();
                        }
                        Err(unavailable) => panic!("{scope:?}: {unavailable}"),
                    }
                }
            }
        }
    }
}
