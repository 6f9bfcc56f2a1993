//! Samples of code on the processors, and process events. The kernel writes both into one ring per processor;
//! [`Sampler::drain`] reads them.

mod perf_events;
mod stacks;

use crate::unwind::{StackCopy, StackWalker};
use crate::{
    Incarnation, Mapping, OnMapping, ProcessEvent, Processes, RawStack, Scope, Symbols, Unavailable, Unwind,
    now_ns,
};
use perf_events::PerfEvents;
use sockeye_wire::perf::{AddressSpace, Body, Record, Records, Sample};
use stacks::Stacks;
use std::time::Instant;

/// Perf events and the records read from their rings.
#[derive(Debug)]
pub(crate) struct Sampler {
    events: PerfEvents,
    /// Records that were read; another processor may still write earlier ones.
    pending: Vec<TimedRecord>,
    buffer: Vec<u8>,
    counts: RawCpu,
    stacks: Stacks,
    samples_wanted: bool,
    unwind: Unwind,
    /// Samples whose stacks are not walked yet.
    unwalked: Vec<(Incarnation, RawStack, StackCopy)>,
    walker: StackWalker,
    /// Earlier samples do not count.
    since_ns: u64,
}

/// Counters of the samples; for their stacks see [`Sampler::stacks`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RawCpu {
    /// Samples per second and processor that the kernel takes; 0: none.
    pub(crate) samples_per_s: u32,
    /// Number of samples of observed processes.
    pub(crate) samples: u64,
    /// Number of these in the kernel.
    pub(crate) kernel_samples: u64,
    /// Number of these whose user stack has only one frame.
    pub(crate) cut_stacks: u64,
    /// Number of these whose stack did not fit: they count without a stack.
    pub(crate) lost_stacks: u64,
    /// Number of records of any kind that the kernel dropped, and samples of unknown processes.
    pub(crate) lost: u64,
    /// How often the kernel paused sampling on a processor because it cost too much.
    pub(crate) throttled: u64,
    /// Number of records that could not be decoded.
    pub(crate) broken: u64,
    /// Whether only user code could be sampled.
    pub(crate) user_only: bool,
    /// Nanoseconds from the program's start until everything was attached.
    pub(crate) ready_ns: u64,
}

/// A record of a ring, with its time.
#[derive(Debug)]
struct TimedRecord {
    time_ns: u64,
    kind: RecordKind,
}

#[derive(Debug)]
enum RecordKind {
    Sample {
        pid: u32,
        is_kernel: bool,
        stack: RawStack,
        copy: Option<StackCopy>,
    },
    Event(ProcessEvent),
    Throttle,
}

impl Sampler {
    /// Attaches to all processors or, where that is not allowed, to each thread of the processes. From then on the kernel
    /// fills the rings; without `samples_per_s` only with process events.
    ///
    /// `began`: when our program started to prepare the observation.
    pub(crate) fn start(
        scope: &Scope,
        samples_per_s: Option<u32>,
        unwind: Unwind,
        began: Instant,
    ) -> Result<Self, Unavailable> {
        let copies_stacks = samples_per_s.is_some() && unwind != Unwind::FramePointers;
        let mut events = PerfEvents::open(scope, samples_per_s, copies_stacks && Unwind::HAS_TABLES)?;
        if copies_stacks && !Unwind::HAS_TABLES {
            events.missing_parts.push(Unavailable::new(
                "unwind",
                "stacks are walked by frame pointers: unwind tables are read on x86-64 only",
            ));
        }
        let counts = RawCpu {
            samples_per_s: events.samples_per_s,
            user_only: events.user_only,
            ready_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            ..RawCpu::default()
        };
        Ok(Self {
            events,
            pending: vec![],
            buffer: vec![],
            counts,
            stacks: Stacks::default(),
            samples_wanted: samples_per_s.is_some(),
            unwind,
            unwalked: vec![],
            walker: StackWalker::new(),
            since_ns: 0,
        })
    }

    /// Resets the counters: only later samples count. Call it when all other observers are attached.
    pub(crate) fn begin(&mut self) {
        self.since_ns = now_ns();
        self.unwalked.clear();
        self.stacks = Stacks::default();
        self.counts = RawCpu {
            samples: 0,
            kernel_samples: 0,
            cut_stacks: 0,
            lost_stacks: 0,
            ..self.counts
        };
    }

    /// Returns what of the request was refused.
    pub(crate) fn missing_parts(&self) -> &[Unavailable] {
        &self.events.missing_parts
    }

    /// Reads the rings and applies all records to `processes` that no other processor can precede any more. Call it every
    /// 100 ms: rings can overflow, and files must be opened while the process that mapped them exists.
    pub(crate) fn drain(&mut self, processes: &mut Processes, on_mapping: &mut OnMapping<'_>) {
        // The time before reading: the rings that are read first have no later records.
        let now_ns = now_ns();
        self.read(processes);
        self.apply_before(now_ns.saturating_sub(WRITE_DELAY_NS_MAX), processes, on_mapping);
    }

    /// Stops sampling and applies all remaining records.
    pub(crate) fn finish(&mut self, processes: &mut Processes, on_mapping: &mut OnMapping<'_>) {
        self.events.stop();
        self.read(processes);
        self.apply_before(u64::MAX, processes, on_mapping);
    }

    /// Walks the copied stacks of the samples that were applied. Call it after [`Sampler::drain`] and [`Sampler::finish`].
    pub(crate) fn walk(&mut self, processes: &Processes, symbols: &Symbols) {
        for (process, mut stack, copy) in self.unwalked.drain(..) {
            let walked = self.walker.walk(process, &copy, processes, symbols);
            // Registers that are no frame pointers lead to addresses without code.
            let by_pointers = stack.user.iter().enumerate().take_while(|(depth, address)| {
                let call = address.wrapping_sub(u64::from(*depth > 0));
                processes.locate(process, call).is_some()
            });
            let is_longer =
                walked.len() > by_pointers.count() || self.unwind == Unwind::Tables && walked.len() > 1;
            if is_longer {
                stack.user = walked;
            }
            self.counts.cut_stacks += u64::from(stack.user.len() == 1);
            self.counts.lost_stacks += u64::from(!self.stacks.add(process, stack));
        }
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> RawCpu {
        self.counts
    }

    /// Returns each process and stack with its number of samples.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = (Incarnation, &RawStack, u64)> {
        self.stacks.iter()
    }

    fn read(&mut self, processes: &mut Processes) {
        processes.set_unfiltered_events(self.events.unfiltered);
        for ring in &mut self.events.rings {
            self.buffer.clear();
            ring.take(&mut self.buffer);
            for record in Records::new(&self.buffer) {
                let Ok(record) = record else {
                    self.counts.broken += 1;
                    continue;
                };
                if let Some(record) = TimedRecord::new(&record) {
                    if let RecordKind::Event(event) = &record.kind {
                        processes.announce(event);
                    }
                    self.pending.push(record);
                }
            }
        }
    }

    /// Applies the pending records before a time, in the order of their times.
    fn apply_before(&mut self, before_ns: u64, processes: &mut Processes, on_mapping: &mut OnMapping<'_>) {
        // A stable sort keeps the order of equal times on one processor.
        self.pending.sort_by_key(|record| record.time_ns);
        let ready = self.pending.partition_point(|record| record.time_ns < before_ns);
        for record in self.pending.drain(..ready) {
            match record.kind {
                RecordKind::Event(event) => {
                    if let ProcessEvent::Lost(count) = event {
                        self.counts.lost += count;
                    }
                    processes.apply(event, on_mapping);
                }
                RecordKind::Throttle => self.counts.throttled += 1,
                RecordKind::Sample {
                    pid,
                    is_kernel,
                    stack,
                    copy,
                } => {
                    let process = processes.identify(pid, is_kernel, on_mapping);
                    if record.time_ns < self.since_ns {
                        continue;
                    }
                    // A thread that has just ended has no pid any more.
                    self.counts.lost += u64::from(pid == u32::MAX);
                    if let Some(process) = process.filter(|_| self.samples_wanted) {
                        self.counts.samples += 1;
                        self.counts.kernel_samples += u64::from(is_kernel);
                        if let Some(copy) = copy {
                            self.unwalked.push((process, stack, copy));
                            continue;
                        }
                        self.counts.cut_stacks += u64::from(stack.user.len() == 1);
                        self.counts.lost_stacks += u64::from(!self.stacks.add(process, stack));
                    }
                }
            }
        }
    }
}

impl TimedRecord {
    /// Returns `None` for records that are not used.
    fn new(record: &Record<'_>) -> Option<Self> {
        let kind = match record.body {
            Body::Sample(sample) => RecordKind::Sample {
                pid: sample.pid,
                is_kernel: sample.is_kernel,
                stack: stack(&sample),
                copy: sample.user.as_ref().map(StackCopy::new),
            },
            Body::Mapping(it) => RecordKind::Event(ProcessEvent::Mapped {
                pid: it.pid,
                mapping: Mapping {
                    start: it.start,
                    end: it.start.saturating_add(it.bytes),
                    offset: it.offset,
                    device: it.device,
                    inode: it.inode,
                    path: it.path.to_vec(),
                },
            }),
            Body::Comm {
                pid,
                name,
                is_exec: true,
                ..
            } => RecordKind::Event(ProcessEvent::Exec {
                pid,
                name: name.to_vec(),
            }),
            // Other threads have their own names.
            Body::Comm { pid, tid, name, .. } if pid == tid => RecordKind::Event(ProcessEvent::Renamed {
                pid,
                name: name.to_vec(),
            }),
            Body::Fork(task) if task.pid != task.parent => RecordKind::Event(ProcessEvent::Fork {
                pid: task.pid,
                parent: task.parent,
            }),
            Body::Exit(task) => RecordKind::Event(ProcessEvent::Exit {
                pid: task.pid,
                tid: task.tid,
            }),
            Body::Lost(count) => RecordKind::Event(ProcessEvent::Lost(count)),
            Body::Throttle => RecordKind::Throttle,
            _ => return None,
        };
        Some(Self {
            time_ns: record.time_ns,
            kind,
        })
    }
}

/// Returns the stack of a sample.
fn stack(sample: &Sample<'_>) -> RawStack {
    let mut stack = RawStack::default();
    for (place, address) in sample.chain() {
        match place {
            AddressSpace::Kernel => stack.kernel.push(address),
            AddressSpace::User => stack.user.push(address),
            AddressSpace::Other => {}
        }
    }
    // The sampled address is known even if the stack could not be walked.
    let innermost = match sample.is_kernel {
        true => &mut stack.kernel,
        false => &mut stack.user,
    };
    if innermost.is_empty() {
        innermost.push(sample.address);
    }
    stack
}

/// The longest time from the timestamp of a record to its appearance in the ring. Only a hypervisor can delay a processor
/// in between.
const WRITE_DELAY_NS_MAX: u64 = 20_000_000;
