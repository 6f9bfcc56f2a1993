//! Samples of what runs on the processors, and the events of processes that come with them: the kernel writes both into
//! a ring per processor, and [`Sampler::drain`] takes them out.

mod attach;
mod stacks;

use crate::processes::Event;
use crate::{Incarnation, Keep, Mapping, Obstacle, Processes, RawStack, Scope, now_ns};
use attach::Attached;
use sockeye_wire::perf::{AddressSpace, Body, Record, Records, Sample};
use stacks::Stacks;
use std::time::Instant;

/// Rings of perf that are being filled.
#[derive(Debug)]
pub struct Sampler {
    attached: Attached,
    /// What was read but may still be overtaken by what another processor has not written yet.
    held: Vec<Told>,
    buffer: Vec<u8>,
    counts: RawCpu,
    stacks: Stacks,
    samples_wanted: bool,
    /// Samples of before do not count.
    since_ns: u64,
}

/// What was sampled since the beginning, but for the stacks: [`Sampler::stacks`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawCpu {
    /// How often a second, of each processor.
    pub samples_per_s: u32,
    /// How many there are of those who are looked at.
    pub samples: u64,
    /// Of these, how many in the kernel.
    pub kernel_samples: u64,
    /// Of these, how many whose own stack has one frame.
    pub cut_stacks: u64,
    /// Of these, how many whose stack there was no room for: they count without one.
    pub lost_stacks: u64,
    /// Records for which the kernel had no room, of whatever kind, and samples of nobody knows whom.
    pub lost: u64,
    /// How often the kernel stopped a processor's sampling for a while, since it cost too much.
    pub throttled: u64,
    /// Records that could not be understood.
    pub broken: u64,
    /// Only the processes' own code could be sampled.
    pub user_only: bool,
    /// From our start until everything was attached.
    pub ready_ns: u64,
}

/// A record out of a ring, with its time.
#[derive(Debug)]
struct Told {
    time_ns: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Sample {
        pid: u32,
        is_kernel: bool,
        stack: RawStack,
    },
    Event(Event),
    Throttle,
}

impl Sampler {
    /// Attaches to all processors, or, where that is not allowed, to each thread of the processes; from then on rings are
    /// filled. Without `samples_per_s` they hold the events of processes only.
    ///
    /// `began`: when our program began to work on it.
    ///
    /// # Errors
    /// When there is nothing at all that we may attach to: what was refused, and what would help.
    pub fn start(scope: &Scope, samples_per_s: Option<u32>, began: Instant) -> Result<Self, Obstacle> {
        let attached = Attached::to(scope, samples_per_s)?;
        let counts = RawCpu {
            samples_per_s: attached.samples_per_s,
            user_only: attached.user_only,
            ready_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            ..RawCpu::default()
        };
        Ok(Self {
            attached,
            held: vec![],
            buffer: vec![],
            counts,
            stacks: Stacks::default(),
            samples_wanted: samples_per_s.is_some(),
            since_ns: 0,
        })
    }

    /// Has samples count from now on, not from the start, if others took a while to start.
    pub fn begin(&mut self) {
        self.since_ns = now_ns();
        self.stacks = Stacks::default();
        self.counts = RawCpu {
            samples: 0,
            kernel_samples: 0,
            cut_stacks: 0,
            lost_stacks: 0,
            ..self.counts
        };
    }

    /// What was not allowed of what was asked for.
    #[must_use]
    pub fn obstacles(&self) -> &[Obstacle] {
        &self.attached.obstacles
    }

    /// Takes out of the rings what is there, and tells `processes` of everything that cannot be overtaken any more. To be
    /// called every 100 ms: rings have an end, and files are opened while whoever mapped them lives.
    pub fn drain(&mut self, processes: &mut Processes, keep: &mut Keep<'_>) {
        // The time of the call, not of the last ring: those read first hold nothing that came later.
        let now_ns = now_ns();
        self.read(processes);
        self.tell(now_ns.saturating_sub(OVERTAKEN_NS_MAX), processes, keep);
    }

    /// Stops, and takes everything out.
    pub fn finish(&mut self, processes: &mut Processes, keep: &mut Keep<'_>) {
        self.attached.stop();
        self.read(processes);
        self.tell(u64::MAX, processes, keep);
    }

    /// How many samples there are, and of what kind.
    #[must_use]
    pub fn look(&self) -> RawCpu {
        self.counts
    }

    /// Who was seen where, and in how many samples.
    pub fn stacks(&self) -> impl Iterator<Item = (Incarnation, &RawStack, u64)> {
        self.stacks.iter()
    }

    fn read(&mut self, processes: &mut Processes) {
        processes.expect_strangers(self.attached.hears_strangers);
        for ring in &mut self.attached.rings {
            self.buffer.clear();
            ring.take(&mut self.buffer);
            for record in Records::new(&self.buffer) {
                let Ok(record) = record else {
                    self.counts.broken += 1;
                    continue;
                };
                if let Some(told) = Told::of(&record) {
                    if let What::Event(event) = &told.what {
                        processes.expect(event);
                    }
                    self.held.push(told);
                }
            }
        }
    }

    /// Tells what happened before a time, in its order.
    fn tell(&mut self, before_ns: u64, processes: &mut Processes, keep: &mut Keep<'_>) {
        // Stable: what one processor wrote at the same time stays in its order.
        self.held.sort_by_key(|told| told.time_ns);
        let ready = self.held.partition_point(|told| told.time_ns < before_ns);
        for told in self.held.drain(..ready) {
            match told.what {
                What::Event(event) => {
                    if let Event::Lost(count) = event {
                        self.counts.lost += count;
                    }
                    processes.tell(event, keep);
                }
                What::Throttle => self.counts.throttled += 1,
                What::Sample {
                    pid,
                    is_kernel,
                    stack,
                } => {
                    let who = processes.seen(pid, is_kernel, keep);
                    if told.time_ns < self.since_ns {
                        continue;
                    }
                    // One that has just ended has no number any more.
                    self.counts.lost += u64::from(pid == u32::MAX);
                    if let Some(who) = who.filter(|_| self.samples_wanted) {
                        self.counts.samples += 1;
                        self.counts.kernel_samples += u64::from(is_kernel);
                        self.counts.cut_stacks += u64::from(stack.user.len() == 1);
                        self.counts.lost_stacks += u64::from(!self.stacks.add(who, stack));
                    }
                }
            }
        }
    }
}

impl Told {
    fn of(record: &Record<'_>) -> Option<Self> {
        let what = match record.body {
            Body::Sample(sample) => What::Sample {
                pid: sample.pid,
                is_kernel: sample.is_kernel,
                stack: stack(&sample),
            },
            Body::Mapping(it) => What::Event(Event::Mapped {
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
            } => What::Event(Event::Exec {
                pid,
                name: name.to_vec(),
            }),
            // Other threads have names of their own.
            Body::Comm { pid, tid, name, .. } if pid == tid => What::Event(Event::Name {
                pid,
                name: name.to_vec(),
            }),
            Body::Fork(kin) if kin.pid != kin.parent => What::Event(Event::Fork {
                pid: kin.pid,
                parent: kin.parent,
            }),
            Body::Exit(kin) => What::Event(Event::Exit {
                pid: kin.pid,
                tid: kin.tid,
            }),
            Body::Lost(count) => What::Event(Event::Lost(count)),
            Body::Throttle => What::Throttle,
            _ => return None,
        };
        Some(Self {
            time_ns: record.time_ns,
            what,
        })
    }
}

fn stack(sample: &Sample<'_>) -> RawStack {
    let mut stack = RawStack::default();
    for (place, address) in sample.chain() {
        match place {
            AddressSpace::Kernel => stack.kernel.push(address),
            AddressSpace::User => stack.user.push(address),
            AddressSpace::Other => {}
        }
    }
    // Where it was is known even if not how it came there.
    let innermost = match sample.is_kernel {
        true => &mut stack.kernel,
        false => &mut stack.user,
    };
    if innermost.is_empty() {
        innermost.push(sample.address);
    }
    stack
}

/// For so long may a record be on its way into a ring: from reading the clock until the head moves nothing but a hypervisor
/// holds a processor up.
const OVERTAKEN_NS_MAX: u64 = 20_000_000;
