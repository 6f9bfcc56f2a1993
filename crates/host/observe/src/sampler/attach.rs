//! Opening the events, as wide as it is allowed.

use crate::processes::proc_files::{everybody, members};
use crate::{Obstacle, Scope, processors};
use foldhash::{HashSet, HashSetExt};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use sockeye_sys::perf::{Attributes, Event, PerfTarget, Ring, flag, kind, software};
use sockeye_wire::perf::SAMPLE_TYPE;
use std::fs::{self, File};
use std::os::fd::AsFd;

/// Events, and the rings that they write to.
#[derive(Debug)]
pub(super) struct Attached {
    /// One per processor.
    pub(super) rings: Vec<Ring>,
    events: Vec<Event>,
    /// 0: none.
    pub(super) samples_per_s: u32,
    pub(super) user_only: bool,
    /// Records may be of others than those who are meant.
    pub(super) hears_strangers: bool,
    pub(super) obstacles: Vec<Obstacle>,
}

/// What is opened, and where.
struct Plan {
    processors: Vec<u32>,
    attributes: Attributes,
    pages: u32,
    /// The part that is missing without.
    part: &'static str,
}

/// Events of every processor that is on, with its ring; and what was refused, if anything was.
type Opened = Result<(Vec<Ring>, Vec<Event>), Refused>;

/// An operation that the kernel refused.
#[derive(Debug, Clone, Copy)]
struct Refused {
    operation: &'static str,
    errno: Errno,
}

impl Attached {
    pub(super) fn to(scope: &Scope, samples_per_s: Option<u32>) -> Result<Self, Obstacle> {
        let mut obstacles = vec![];
        let samples_per_s = samples_per_s.map(|wanted| {
            let (allowed, obstacle) = allowed_rate(wanted);
            obstacles.extend(obstacle);
            allowed
        });
        let plan = Plan::of(samples_per_s);
        let mut attached = Self {
            rings: vec![],
            events: vec![],
            samples_per_s: samples_per_s.unwrap_or(0),
            user_only: false,
            hears_strangers: false,
            obstacles,
        };
        let refused = match attached.everywhere(&plan, scope) {
            Ok(()) => return Ok(attached),
            Err(refused) => refused,
        };
        if !refused.is_for_want_of_rights() {
            return Err(plan.obstacle(refused, EVERYWHERE));
        }
        // Only what is ours, then: thread by thread.
        match scope {
            Scope::Processes(pids) => attached.threads(&plan, pids, true)?,
            Scope::Cgroup { .. } | Scope::System => {
                let pids = match scope {
                    Scope::Cgroup { folder, .. } => members(folder),
                    _ => everybody().collect(),
                };
                // What is in the way of all is worth more words than what is in the way of one of them.
                let all_refused = |_| plan.obstacle(refused, EVERYWHERE);
                attached
                    .threads(&plan, &but_us(pids), false)
                    .map_err(all_refused)?;
                let text = format!(
                    "only processes of this user that are there already, and those that they start: {}",
                    refused.text(EVERYWHERE)
                );
                let obstacle = Obstacle::new(plan.part, text);
                attached.obstacles.push(obstacle.with_remedy(refused.remedy()));
            }
        }
        if attached.user_only && samples_per_s.is_some() {
            let text = format!(
                "only the processes' own code is sampled: kernel.perf_event_paranoid is {}",
                paranoid().unwrap_or_else(|| "not to be read".to_owned())
            );
            let obstacle = Obstacle::new("kernel_samples", text);
            attached
                .obstacles
                .push(obstacle.with_remedy(
                    "run as root or with CAP_PERFMON, or `sysctl kernel.perf_event_paranoid=1`",
                ));
        }
        Ok(attached)
    }

    /// Has everything stop; what is in the rings stays.
    pub(super) fn stop(&self) {
        for event in &self.events {
            let _ = event.disable();
        }
    }

    /// Everything that runs on any processor, or what of it is in the cgroup.
    fn everywhere(&mut self, plan: &Plan, scope: &Scope) -> Result<(), Refused> {
        if let Scope::Cgroup { folder, .. } = scope
            && let Ok(folder) = File::open(folder)
            // A kernel may lack it, or have the perf_event controller in a hierarchy of version 1.
            && let Ok(opened) = plan.open_everywhere(PerfTarget::Cgroup(folder.as_fd()))
        {
            (self.rings, self.events) = opened;
            return Ok(());
        }
        (self.rings, self.events) = plan.open_everywhere(PerfTarget::AllTasks)?;
        self.hears_strangers = true;
        Ok(())
    }

    /// Each thread of these processes, and whatever it starts. `each`: whoever is refused is told.
    fn threads(&mut self, plan: &Plan, pids: &[u32], each: bool) -> Result<(), Obstacle> {
        let mut threads = Threads {
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
            let is_full = refused.is_out_of_memory();
            // Whoever is gone is no news among many.
            if is_full || each {
                let obstacle = plan.obstacle(refused, &format!("to process {pid}"));
                self.obstacles.push(obstacle);
            }
            if is_full {
                break;
            }
        }
        if threads.rings.is_empty() {
            let (whom, refused) = match first_refusal {
                Some((pid, refused)) => (format!("to process {pid}"), refused),
                None => (
                    "to any process".to_owned(),
                    Refused {
                        operation: OPEN,
                        errno: Errno::SRCH,
                    },
                ),
            };
            return Err(plan.obstacle(refused, &whom));
        }
        self.user_only = threads.attributes.flags & flag::EXCLUDE_KERNEL != 0;
        (self.rings, self.events) = (threads.rings, threads.events);
        Ok(())
    }
}

impl Plan {
    fn of(samples_per_s: Option<u32>) -> Self {
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
            sample_type: SAMPLE_TYPE,
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
                // Nobody waits for a ring to be readable: it is read every so often.
                | flag::WATERMARK,
            wakeup: u32::MAX,
            clock: CLOCK_MONOTONIC,
            ..Attributes::new(kind::SOFTWARE, event)
        };
        let pages = (PAGES_MAX / (processors.len() as u32).max(1)).clamp(8, RING_PAGES);
        Self {
            processors,
            attributes,
            pages: 1 << pages.ilog2(),
            part,
        }
    }

    fn open_everywhere(&self, whom: PerfTarget<'_>) -> Opened {
        let (mut rings, mut events) = (vec![], vec![]);
        for &processor in &self.processors {
            let event = match Event::open(&self.attributes, whom, Some(processor)) {
                Ok(event) => event,
                // It was switched off meanwhile.
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

    /// A ring as large as is allowed.
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

    fn obstacle(&self, refused: Refused, whom: &str) -> Obstacle {
        Obstacle::new(self.part, refused.text(whom)).with_remedy(refused.remedy())
    }
}

/// Events of single threads.
struct Threads<'a> {
    plan: &'a Plan,
    attributes: Attributes,
    /// One per processor, as in the plan.
    rings: Vec<Ring>,
    /// Those of the first thread have the rings.
    events: Vec<Event>,
    events_max: usize,
}

impl Threads<'_> {
    /// All threads of a process.
    fn attach(&mut self, pid: u32) -> Result<(), Refused> {
        let mut attached: HashSet<u32> = HashSet::new();
        // A thread that is made while we look is attached to with the one that made it, or found in the next round.
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
            let may_leave_out = self.attributes.flags & flag::EXCLUDE_KERNEL == 0;
            if let (Err(Errno::ACCESS | Errno::PERM), true) = (&opened, may_leave_out) {
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
    fn is_for_want_of_rights(&self) -> bool {
        matches!(self.errno, Errno::ACCESS | Errno::PERM)
    }

    fn is_out_of_memory(&self) -> bool {
        matches!(self.errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
    }

    fn text(&self, whom: &str) -> String {
        format!("{} {whom}: {}", self.operation, self.errno)
    }

    fn remedy(&self) -> String {
        match self.errno {
            Errno::MFILE | Errno::NFILE => {
                "raise `ulimit -n`, or be root: then one per processor is enough".to_owned()
            }
            Errno::SRCH => "there is no such process".to_owned(),
            Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOENT => {
                "a kernel with CONFIG_PERF_EVENTS is needed".to_owned()
            }
            Errno::PERM if self.operation == MAP => {
                "raise kernel.perf_event_mlock_kb, or run as root or with CAP_IPC_LOCK".to_owned()
            }
            Errno::ACCESS | Errno::PERM => {
                let level = match paranoid() {
                    // Where distributions added levels above 2, nobody but root may do anything there.
                    Some(level) if level.parse::<i32>().is_ok_and(|level| level > 2) => format!(
                        " (kernel.perf_event_paranoid is {level}: `sysctl kernel.perf_event_paranoid=2` allows you your own \
                         processes, -1 all)"
                    ),
                    Some(level) => format!(
                        " (kernel.perf_event_paranoid is {level}: `sysctl kernel.perf_event_paranoid=-1` would do too)"
                    ),
                    None => String::new(),
                };
                format!(
                    "run as root or with CAP_PERFMON{level}; in a container its seccomp profile must allow perf_event_open"
                )
            }
            _ => "see dmesg".to_owned(),
        }
    }
}

/// As many samples a second as the kernel takes, and what it is told that it were fewer than wanted.
fn allowed_rate(wanted: u32) -> (u32, Option<Obstacle>) {
    let max = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .filter(|&max| max > 0);
    match max {
        Some(max) if wanted > max => {
            let text = format!("{max} samples a second instead of {wanted}: more are not allowed here");
            let remedy = format!("`sysctl kernel.perf_event_max_sample_rate={wanted}`");
            (max, Some(Obstacle::new("cpu", text).with_remedy(remedy)))
        }
        _ => (wanted.max(1), None),
    }
}

fn paranoid() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    Some(text.trim().to_owned())
}

fn but_us(mut pids: Vec<u32>) -> Vec<u32> {
    let own = std::process::id();
    pids.retain(|&pid| pid != own);
    pids
}

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

/// As many descriptors as events may take: half of what we may have open, since there is more to be read.
fn events_max() -> usize {
    let open_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(open_max / 2)
        .unwrap_or(EVENTS_MAX)
        .min(EVENTS_MAX)
}

const OPEN: &str = "perf_event_open";
const EVERYWHERE: &str = "on every processor";
const MAP: &str = "map the ring of a perf event";
/// `CLOCK_MONOTONIC` of `linux/time.h`
const CLOCK_MONOTONIC: i32 = 1;
/// What `kernel.perf_event_mlock_kb` allows everybody per processor by default, but for the first page: 512 KiB.
const RING_PAGES: u32 = 128;
/// All rings together: 64 MiB, of pages of 4 KiB.
const PAGES_MAX: u32 = 16_384;
/// So many descriptors are opened at most, where it is one for each thread and processor.
const EVENTS_MAX: usize = 16_384;
/// So often is looked for threads that were made meanwhile.
const ROUNDS_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_beyond_what_is_allowed_is_lowered_and_told() {
        let (rate, obstacle) = allowed_rate(u32::MAX);
        assert!(rate < u32::MAX);
        let text = obstacle.expect("nobody allows that").to_string();
        assert!(text.contains("4294967295"), "{text}");
        assert_eq!(allowed_rate(0), (1, None));
    }
}
