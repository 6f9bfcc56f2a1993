//! Opens the perf events: per processor if allowed, else per thread.

use crate::processes::proc_files::{all_pids, cgroup_pids};
use crate::{Scope, Unavailable};
use foldhash::{HashSet, HashSetExt};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use sockeye_sys::perf::{Attributes, Event, PerfTarget, Ring, flag, kind, software};
use sockeye_sys::processors;
use sockeye_sys::rights::{CheckedIn, remedy};
use sockeye_wire::perf::{SAMPLE_TYPE, SAMPLE_TYPE_WITH_STACKS, USER_REGISTERS};
use std::fs::{self, File};
use std::os::fd::AsFd;

/// Open perf events and their rings.
#[derive(Debug)]
pub(super) struct PerfEvents {
    /// One per processor.
    pub(super) rings: Vec<Ring>,
    events: Vec<Event>,
    /// Samples per second and processor; 0: only process events.
    pub(super) samples_per_s: u32,
    pub(super) user_only: bool,
    /// Whether records of processes outside the scope arrive too.
    pub(super) unfiltered: bool,
    pub(super) missing_parts: Vec<Unavailable>,
}

/// What to open, and on which processors.
struct EventPlan {
    processors: Vec<u32>,
    attributes: Attributes,
    pages: u32,
    /// The part of the profile that needs it.
    part: &'static str,
}

/// The ring and event of each online processor, or the operation that was refused.
type Opened = Result<(Vec<Ring>, Vec<Event>), Refused>;

/// An operation that the kernel refused.
#[derive(Debug, Clone, Copy)]
struct Refused {
    operation: &'static str,
    errno: Errno,
}

impl PerfEvents {
    /// Opens the events of a scope.
    pub(super) fn open(
        scope: &Scope,
        samples_per_s: Option<u32>,
        copies_stacks: bool,
    ) -> Result<Self, Unavailable> {
        let mut missing_parts = vec![];
        let samples_per_s = samples_per_s.map(|requested| {
            let (allowed, unavailable) = allowed_rate(requested);
            missing_parts.extend(unavailable);
            allowed
        });
        let plan = EventPlan::new(samples_per_s, copies_stacks);
        let mut events = Self {
            rings: vec![],
            events: vec![],
            samples_per_s: samples_per_s.unwrap_or(0),
            user_only: false,
            unfiltered: false,
            missing_parts,
        };
        let refused = match events.open_per_processor(&plan, scope) {
            Ok(()) => return Ok(events),
            Err(refused) => refused,
        };
        if !refused.is_permission_denied() {
            return Err(plan.unavailable(refused, EVERYWHERE));
        }
        // Without the right to observe a processor: each thread of our own processes.
        match scope {
            Scope::Processes(pids) => events.open_per_thread(&plan, pids, true)?,
            Scope::Cgroup { .. } | Scope::System => {
                let pids = match scope {
                    Scope::Cgroup { folder, .. } => cgroup_pids(folder),
                    _ => all_pids().collect(),
                };
                // The refusal for all processes says more than that for one of them.
                let all_refused = |_| plan.unavailable(refused, EVERYWHERE);
                events
                    .open_per_thread(&plan, &without_own(pids), false)
                    .map_err(all_refused)?;
                let text = format!(
                    "only processes of this user that are there already, and those that they start: {}",
                    refused.text(EVERYWHERE)
                );
                let unavailable = Unavailable::new(plan.part, text);
                events
                    .missing_parts
                    .push(unavailable.with_remedy(refused.remedy()));
            }
        }
        if events.user_only && samples_per_s.is_some() {
            let text = format!(
                "only the processes' own code is sampled: kernel.perf_event_paranoid is {}",
                paranoid().unwrap_or_else(|| "not to be read".to_owned())
            );
            let unavailable = Unavailable::new("kernel_samples", text);
            events.missing_parts.push(unavailable.with_remedy(format!(
                "{}; or `sysctl kernel.perf_event_paranoid=1`",
                remedy("CAP_PERFMON", CheckedIn::Initial)
            )));
        }
        Ok(events)
    }

    /// Disables the events; records in the rings stay readable.
    pub(super) fn stop(&self) {
        for event in &self.events {
            let _ = event.disable();
        }
    }

    /// Opens an event per processor, limited to the cgroup if the kernel can.
    fn open_per_processor(&mut self, plan: &EventPlan, scope: &Scope) -> Result<(), Refused> {
        if let Scope::Cgroup { folder, .. } = scope
            && let Ok(folder) = File::open(folder)
            // Fails if the kernel lacks it or the perf_event controller is in a cgroup v1 hierarchy.
            && let Ok(opened) = plan.open_on_all(PerfTarget::Cgroup(folder.as_fd()))
        {
            (self.rings, self.events) = opened;
            return Ok(());
        }
        (self.rings, self.events) = plan.open_on_all(PerfTarget::AllTasks)?;
        self.unfiltered = true;
        Ok(())
    }

    /// Opens events for each thread of these processes and their future children. `report_each`: report each process that
    /// is refused.
    fn open_per_thread(
        &mut self,
        plan: &EventPlan,
        pids: &[u32],
        report_each: bool,
    ) -> Result<(), Unavailable> {
        let mut threads = ThreadEvents {
            plan,
            attributes: Attributes {
                flags: plan.attributes.flags | flag::INHERIT,
                ..plan.attributes
            },
            rings: vec![],
            events: vec![],
            events_max: events_max(),
        };
        let mut first_refusal = None;
        for &pid in pids {
            let Err(refused) = threads.attach(pid) else {
                continue;
            };
            first_refusal = first_refusal.or(Some((pid, refused)));
            let is_full = refused.is_out_of_resources();
            // Among many processes some always end.
            if is_full || report_each {
                let unavailable = plan.unavailable(refused, &format!("to process {pid}"));
                self.missing_parts.push(unavailable);
            }
            if is_full {
                break;
            }
        }
        if threads.rings.is_empty() {
            let (target, refused) = match first_refusal {
                Some((pid, refused)) => (format!("to process {pid}"), refused),
                None => (
                    "to any process".to_owned(),
                    Refused {
                        operation: OPEN,
                        errno: Errno::SRCH,
                    },
                ),
            };
            return Err(plan.unavailable(refused, &target));
        }
        self.user_only = threads.attributes.flags & flag::EXCLUDE_KERNEL != 0;
        (self.rings, self.events) = (threads.rings, threads.events);
        Ok(())
    }
}

impl EventPlan {
    fn new(samples_per_s: Option<u32>, copies_stacks: bool) -> Self {
        let processors = processors::online();
        let (event, part) = match samples_per_s {
            Some(_) => (software::CPU_CLOCK, "cpu"),
            None => (software::DUMMY, "process"),
        };
        let frequency = match samples_per_s {
            Some(_) => flag::FREQ,
            None => 0,
        };
        let attributes = Attributes {
            sample_period: samples_per_s.unwrap_or(0).into(),
            sample_type: if copies_stacks {
                SAMPLE_TYPE_WITH_STACKS
            } else {
                SAMPLE_TYPE
            },
            sample_regs_user: if copies_stacks { USER_REGISTERS } else { 0 },
            sample_stack_user: if copies_stacks { STACK_BYTES } else { 0 },
            flags: frequency
                | flag::EXCLUDE_HV
                | flag::EXCLUDE_IDLE
                | flag::MMAP
                | flag::MMAP2
                | flag::COMM
                | flag::COMM_EXEC
                | flag::TASK
                | flag::SAMPLE_ID_ALL
                | flag::USE_CLOCKID
                // No one polls a ring: it is read periodically.
                | flag::WATERMARK,
            wakeup: u32::MAX,
            clock: CLOCK_MONOTONIC,
            ..Attributes::new(kind::SOFTWARE, event)
        };
        let pages = ring_pages(sockeye_sys::page_bytes(), processors.len(), copies_stacks);
        Self {
            processors,
            attributes,
            pages,
            part,
        }
    }

    /// Opens one event per processor.
    fn open_on_all(&self, target: PerfTarget<'_>) -> Opened {
        let (mut rings, mut events) = (vec![], vec![]);
        for &processor in &self.processors {
            let event = match Event::open(&self.attributes, target, Some(processor)) {
                Ok(event) => event,
                // It went offline meanwhile.
                Err(Errno::NODEV) => continue,
                Err(errno) => {
                    return Err(Refused {
                        operation: OPEN,
                        errno,
                    });
                }
            };
            rings.push(self.ring(&event)?);
            events.push(event);
        }
        match rings.is_empty() {
            true => Err(Refused {
                operation: OPEN,
                errno: Errno::NODEV,
            }),
            false => Ok((rings, events)),
        }
    }

    /// Maps a ring, as large as allowed.
    fn ring(&self, event: &Event) -> Result<Ring, Refused> {
        let mut pages = self.pages;
        loop {
            match Ring::of(event, pages) {
                Ok(ring) => return Ok(ring),
                Err(Errno::PERM | Errno::NOMEM) if pages > 1 => pages /= 2,
                Err(errno) => {
                    let operation = MAP;
                    return Err(Refused { operation, errno });
                }
            }
        }
    }

    fn unavailable(&self, refused: Refused, target: &str) -> Unavailable {
        Unavailable::new(self.part, refused.text(target)).with_remedy(refused.remedy())
    }
}

/// Events per thread.
struct ThreadEvents<'a> {
    plan: &'a EventPlan,
    attributes: Attributes,
    /// One per processor, in the order of the plan.
    rings: Vec<Ring>,
    /// Those of the first thread come first; their rings serve all.
    events: Vec<Event>,
    events_max: usize,
}

impl ThreadEvents<'_> {
    /// Opens events for all threads of a process.
    fn attach(&mut self, pid: u32) -> Result<(), Refused> {
        let mut attached: HashSet<u32> = HashSet::new();
        // A thread that is created meanwhile inherits the event of its creator, or is found in the next round.
        for _ in 0..ROUNDS_MAX {
            let before = attached.len();
            let tids = tids(pid).map_err(|errno| Refused {
                operation: "list the threads",
                errno,
            })?;
            for tid in tids {
                if attached.contains(&tid) {
                    continue;
                }
                match self.attach_thread(tid) {
                    Ok(()) => {
                        attached.insert(tid);
                    }
                    // It has ended.
                    Err(Refused {
                        errno: Errno::SRCH, ..
                    }) => {}
                    Err(refused) => return Err(refused),
                }
            }
            if attached.len() == before {
                break;
            }
        }
        match attached.is_empty() {
            true => Err(Refused {
                operation: OPEN,
                errno: Errno::SRCH,
            }),
            false => Ok(()),
        }
    }

    fn attach_thread(&mut self, tid: u32) -> Result<(), Refused> {
        let refused = |errno| Refused {
            operation: OPEN,
            errno,
        };
        if self.events.len() + self.plan.processors.len() > self.events_max {
            return Err(refused(Errno::MFILE));
        }
        let mut events = vec![];
        for &processor in &self.plan.processors {
            let mut opened = Event::open(&self.attributes, PerfTarget::Thread(tid), Some(processor));
            let may_exclude_kernel = self.attributes.flags & flag::EXCLUDE_KERNEL == 0;
            if let (Err(Errno::ACCESS | Errno::PERM), true) = (&opened, may_exclude_kernel) {
                let without = Attributes {
                    flags: self.attributes.flags | flag::EXCLUDE_KERNEL,
                    ..self.attributes
                };
                opened = Event::open(&without, PerfTarget::Thread(tid), Some(processor));
                if opened.is_ok() {
                    self.attributes = without;
                }
            }
            events.push(opened.map_err(refused)?);
        }
        if self.rings.is_empty() {
            for event in &events {
                self.rings.push(self.plan.ring(event)?);
            }
        } else {
            for (event, first) in events.iter().zip(&self.events) {
                let operation = "join the rings of perf events";
                event
                    .set_output(first)
                    .map_err(|errno| Refused { operation, errno })?;
            }
        }
        self.events.extend(events);
        Ok(())
    }
}

impl Refused {
    fn is_permission_denied(&self) -> bool {
        matches!(self.errno, Errno::ACCESS | Errno::PERM)
    }

    fn is_out_of_resources(&self) -> bool {
        matches!(self.errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
    }

    fn text(&self, target: &str) -> String {
        format!("{} {target}: {}", self.operation, self.errno)
    }

    fn remedy(&self) -> String {
        match self.errno {
            Errno::MFILE | Errno::NFILE => {
                format!(
                    "raise `ulimit -n`; or {}: then one per processor is enough",
                    remedy("CAP_PERFMON", CheckedIn::Initial)
                )
            }
            Errno::SRCH => "there is no such process".to_owned(),
            Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOENT => {
                "a kernel with CONFIG_PERF_EVENTS is needed".to_owned()
            }
            Errno::PERM if self.operation == MAP => {
                format!(
                    "raise kernel.perf_event_mlock_kb; or {}",
                    remedy("CAP_IPC_LOCK", CheckedIn::Initial)
                )
            }
            Errno::ACCESS | Errno::PERM => {
                let level = match paranoid() {
                    // Distributions have levels above 2: there only root may use perf.
                    Some(level) if level.parse::<i32>().is_ok_and(|level| level > 2) => format!(
                        " (kernel.perf_event_paranoid is {level}: `sysctl kernel.perf_event_paranoid=2` allows you your own \
                         processes, -1 all)"
                    ),
                    Some(level) => format!(
                        " (kernel.perf_event_paranoid is {level}: `sysctl kernel.perf_event_paranoid=-1` would do too)"
                    ),
                    None => String::new(),
                };
                let remedy = remedy("CAP_PERFMON", CheckedIn::Initial);
                format!("{remedy}{level}; in a container its seccomp profile must allow perf_event_open")
            }
            _ => "see dmesg".to_owned(),
        }
    }
}

/// Returns the rate that the kernel allows, and a report if that is less than requested.
fn allowed_rate(requested: u32) -> (u32, Option<Unavailable>) {
    let max = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .filter(|&max| max > 0);
    match max {
        Some(max) if requested > max => {
            let text = format!("{max} samples a second instead of {requested}: more are not allowed here");
            let remedy = format!("`sysctl kernel.perf_event_max_sample_rate={requested}`");
            (max, Some(Unavailable::new("cpu", text).with_remedy(remedy)))
        }
        _ => (requested.max(1), None),
    }
}

/// Returns the level of `kernel.perf_event_paranoid`.
fn paranoid() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    Some(text.trim().to_owned())
}

fn without_own(mut pids: Vec<u32>) -> Vec<u32> {
    let own = std::process::id();
    pids.retain(|&pid| pid != own);
    pids
}

/// Returns the thread ids of a process.
///
/// # Errors
/// `ESRCH` if there is no such process.
fn tids(pid: u32) -> Result<Vec<u32>, Errno> {
    match fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(entries) => Ok(entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect()),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT) | None => Err(Errno::SRCH),
            Some(errno) => Err(errno),
        },
    }
}

/// Returns how many descriptors events may use: half of the limit, since files need some too.
fn events_max() -> usize {
    let open_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(open_max / 2)
        .unwrap_or(EVENTS_MAX)
        .min(EVENTS_MAX)
}

/// Returns the number of pages of each ring: a power of two.
fn ring_pages(page_bytes: usize, processors: usize, copies_stacks: bool) -> u32 {
    let most = if copies_stacks {
        RING_BYTES_WITH_STACKS
    } else {
        RING_BYTES
    };
    let bytes = (RINGS_BYTES_MAX / processors.max(1)).clamp(RING_BYTES_MIN, most);
    1 << (bytes / page_bytes).max(1).ilog2()
}

const OPEN: &str = "perf_event_open";
const EVERYWHERE: &str = "on every processor";
const MAP: &str = "map the ring of a perf event";
/// `CLOCK_MONOTONIC` of `linux/time.h`
const CLOCK_MONOTONIC: i32 = 1;
/// What `kernel.perf_event_mlock_kb` allows every user per processor by default, without the first page: 512 KiB.
const RING_BYTES: usize = 512 << 10;
/// With copies of stacks: 4 MiB, which are 256 samples between two reads. Where that is not allowed, the ring is smaller.
const RING_BYTES_WITH_STACKS: usize = 4 << 20;
const RING_BYTES_MIN: usize = 32 << 10;
/// Bytes that are copied of a stack.
const STACK_BYTES: u32 = 16 << 10;
/// The most of all rings together.
const RINGS_BYTES_MAX: usize = 64 << 20;
/// The most descriptors, where there is one for each thread and processor.
const EVENTS_MAX: usize = 16_384;
/// How often new threads are searched for.
const ROUNDS_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// arm64 has kernels with pages of 16 and 64 KiB: rings of as many pages as with 4 KiB took up to 1 GiB, and more than users may lock.
    #[test]
    fn rings_have_the_same_size_whatever_the_size_of_a_page() {
        for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
            let ring_bytes =
                |processors, stacks| ring_pages(page_bytes, processors, stacks) as usize * page_bytes;
            assert_eq!(ring_bytes(2, false), 512 << 10);
            assert_eq!(ring_bytes(2, true), 4 << 20);
            assert_eq!(ring_bytes(64, true), 1 << 20);
            assert_eq!(ring_bytes(100_000, false), page_bytes.max(32 << 10));
            assert_eq!(ring_pages(page_bytes, 0, false) as usize * page_bytes, 512 << 10);
        }
    }

    #[test]
    fn rate_above_limit_is_lowered_and_reported() {
        let (rate, unavailable) = allowed_rate(u32::MAX);
        assert!(rate < u32::MAX);
        let text = unavailable.expect("above every limit").to_string();
        assert!(text.contains("4294967295"), "{text}");
        assert_eq!(allowed_rate(0), (1, None));
    }
}
