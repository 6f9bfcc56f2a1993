//! Who holds which socket, by two programs: one goes along the list of processes, the other reads their tables.

use super::kernel::{Kernel, Prepared, Unavailable};
use crate::owners::SocketDescriptor;
use rustix::io::Errno;
use sockeye_model::{Comm, Losses, NetnsInode, Pgid, Pid, Process};
use sockeye_sys::bpf::{Program, Slot};
use sockeye_wire::holders::{self, After, Dealt, Item, ListTasks, Reply, Task, TaskId};
use sockeye_wire::walk::Outcome;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The programs, loaded, and their slots.
#[derive(Debug)]
pub(crate) struct Holders {
    lister: Lister,
    read_files: Program,
    slots: Mutex<Vec<Slot>>,
}

/// One pass over all processes.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// Every process that our pid namespace knows.
    pub(crate) processes: Vec<FoundProcess>,
    pub(crate) held: Vec<SocketDescriptor>,
    pub(crate) losses: Losses,
}

/// A process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundProcess {
    pub(crate) process: Process,
    pub(crate) netns: Option<NetnsInode>,
    /// Its cgroup v2; 0 if it has none.
    pub(crate) cgroup: u64,
}

impl Holders {
    pub(crate) fn load(kernel: &Kernel) -> Result<Self, Unavailable> {
        let (lister, read_files, slots) = Lister::load(kernel.prepare(HOLDERS, &[])?)?;
        Ok(Self {
            lister,
            read_files,
            slots: Mutex::new(slots),
        })
    }

    /// Goes over all processes. `socket` is a descriptor of ours that is a socket: its file shows what makes one.
    pub(crate) fn pass(&self, socket: BorrowedFd<'_>) -> Result<Pass, Unavailable> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots
            .first_mut()
            .ok_or(Unavailable::UnexpectedReply("no slots"))?;
        let (tasks, socket_operations) = self.lister.tasks(slot, socket)?;
        let mut pass = Pass::default();
        let mut work: Vec<(u32, Item)> = Vec::new();
        for task in &tasks {
            if task.pid == 0 {
                continue; // of no pid namespace that we see: `/proc` would not show it either
            }
            if !task.is_thread {
                pass.processes.push(FoundProcess::from(task));
            }
            // A thread with a table of its own comes right behind its process.
            let Some(place) = pass.processes.len().checked_sub(1) else {
                continue;
            };
            if pass.processes[place].process.pid.0 != task.pid {
                continue;
            }
            work.extend(work_of(task).map(|item| (place as u32, item)));
        }
        self.files(&mut slots, &Work::new(&work, socket_operations), &mut pass)?;
        Ok(pass)
    }

    /// All processes that our pid namespace knows, without what they hold.
    pub(crate) fn processes(&self, socket: BorrowedFd<'_>) -> Result<Vec<FoundProcess>, Unavailable> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots
            .first_mut()
            .ok_or(Unavailable::UnexpectedReply("no slots"))?;
        let (tasks, _) = self.lister.tasks(slot, socket)?;
        let known = tasks.iter().filter(|task| task.pid != 0 && !task.is_thread);
        Ok(known.map(FoundProcess::from).collect())
    }

    /// Reads the ranges of `work`, by as many threads as there is work for.
    fn files(&self, slots: &mut [Slot], work: &Work<'_>, pass: &mut Pass) -> Result<(), Unavailable> {
        let useful = work.threads_useful();
        let read = |slot: &mut Slot| self.read(slot, work);
        let results = thread::scope(|scope| {
            let mut slots = slots.iter_mut();
            let own = slots.next();
            let others: Vec<_> = slots
                .take(useful - 1)
                .map_while(|slot| thread::Builder::new().spawn_scoped(scope, || read(slot)).ok())
                .collect();
            let mut results: Vec<_> = own.into_iter().map(read).collect();
            for other in others {
                match other.join() {
                    Ok(result) => results.push(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            results
        });
        for result in results {
            let (held, vanished) = result?;
            pass.held.extend(held);
            pass.losses.vanished_processes += vanished;
        }
        Ok(())
    }

    /// What one thread does: batches of ranges, until none is left.
    fn read(&self, slot: &mut Slot, work: &Work<'_>) -> Result<(Vec<SocketDescriptor>, u64), Unavailable> {
        let mut held = Vec::new();
        let mut batch = Batch::default();
        while batch.request(work, slot.bytes_mut()) {
            let reply = run(&self.read_files, slot)?;
            for file in holders::files(slot.bytes(), &reply) {
                if let Some((process, ..)) = batch.ranges.get(file.item as usize) {
                    held.push(SocketDescriptor {
                        inode: file.inode,
                        process: *process,
                        fd: file.descriptor,
                    });
                }
            }
            batch.settle(slot.bytes(), &reply)?;
        }
        Ok((held, batch.vanished))
    }
}

/// What goes along the list of processes.
#[derive(Debug)]
pub(super) struct Lister(Program);

impl Lister {
    /// Loads both programs of an object that begins with `bpf/holders.h`: itself, the one that reads tables, and
    /// the slots that they share.
    pub(super) fn load(prepared: Prepared<'_>) -> Result<(Self, Program, Vec<Slot>), Unavailable> {
        let ([list_tasks, read_files], slots) =
            prepared.load_with_slots(["list_tasks", "read_files"], holders::SLOT_BYTES)?;
        Ok((Self(list_tasks), read_files, slots))
    }

    /// The list of all processes, in slices.
    pub(super) fn tasks(
        &self,
        slot: &mut Slot,
        socket: BorrowedFd<'_>,
    ) -> Result<(Vec<Task>, u64), Unavailable> {
        let mut tasks: Vec<Task> = Vec::new();
        let mut after = None;
        loop {
            let request = ListTasks {
                descriptor: u32::try_from(socket.as_raw_fd()).unwrap_or(u32::MAX),
                after,
                tasks_max: TASKS_PER_RUN,
            };
            request.write(slot.bytes_mut());
            let reply = run(&self.0, slot)?;
            match reply.outcome {
                Outcome::Done => {
                    tasks.extend(holders::tasks(slot.bytes(), &reply));
                    return Ok((tasks, reply.socket_operations));
                }
                Outcome::Full => {
                    let before = tasks.len();
                    tasks.extend(holders::tasks(slot.bytes(), &reply));
                    if tasks.len() == before {
                        return Err(Unavailable::UnexpectedReply(
                            "a process with more threads than fit",
                        ));
                    }
                    after = Some(After::Task(reply.last));
                }
                // The process to go on after has ended meanwhile: the list is in the order of their starts.
                Outcome::Unreadable => {
                    let Some(After::Task(TaskId { start_time, .. })) = after else {
                        return Err(Unavailable::UnexpectedReply("it lost the list of processes"));
                    };
                    after = Some(After::Start(start_time));
                }
                Outcome::NoTable => return Err(Unavailable::UnexpectedReply("our own socket was not found")),
                Outcome::Tangled => {
                    return Err(Unavailable::UnexpectedReply(
                        "what it walks along is no list of processes",
                    ));
                }
                Outcome::Unknown(_) => {
                    return Err(Unavailable::UnexpectedReply("an outcome that is not known"));
                }
            }
        }
    }
}

/// The ranges of a task's descriptors that are read one by one.
pub(super) fn work_of(task: &Task) -> impl Iterator<Item = Item> + use<> {
    let (task, end) = (task.id, task.descriptors_end);
    (0..end).step_by(RANGE as usize).map(move |first| Item {
        task,
        first,
        end: first.saturating_add(RANGE).min(end),
    })
}

/// Ranges of descriptors to be read, each with a number that stands for its process.
pub(super) struct Work<'a> {
    ranges: &'a [(u32, Item)],
    socket_operations: u64,
    /// The first that nobody has taken.
    next: AtomicUsize,
}

impl<'a> Work<'a> {
    pub(super) fn new(ranges: &'a [(u32, Item)], socket_operations: u64) -> Self {
        Self {
            ranges,
            socket_operations,
            next: AtomicUsize::new(0),
        }
    }

    /// How many threads are worth their start; at least 1.
    pub(super) fn threads_useful(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        (self.ranges.len() / BATCHES_PER_THREAD).clamp(1, cores)
    }
}

/// What one thread has taken of the work.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Ranges to be read, and how often that was tried.
    ranges: Vec<(u32, Item, u32)>,
    /// Ranges given up: their process ended.
    pub(super) vanished: u64,
}

impl Batch {
    /// Writes the request for the next run; `false`: there is nothing left to do.
    pub(super) fn request(&mut self, work: &Work<'_>, slot: &mut [u8]) -> bool {
        while self.ranges.len() < BATCH {
            let Some((process, item)) = work.ranges.get(work.next.fetch_add(1, Ordering::Relaxed)) else {
                // Others may still run, but whoever comes next must not wrap around.
                work.next.store(work.ranges.len(), Ordering::Relaxed);
                break;
            };
            self.ranges.push((*process, *item, 0));
        }
        let items: Vec<Item> = self.ranges.iter().map(|(_, item, _)| *item).collect();
        holders::write_items(slot, work.socket_operations, &items);
        !items.is_empty()
    }

    /// After the run: what was read is done, the rest comes with the next.
    pub(super) fn settle(&mut self, slot: &[u8], reply: &Reply) -> Result<(), Unavailable> {
        let dealt = reply.items as usize;
        if dealt == 0 || dealt > self.ranges.len() {
            return Err(Unavailable::UnexpectedReply("it does not get on"));
        }
        let mut again = Vec::new();
        for (place, (process, item, tries)) in self.ranges.drain(..).enumerate() {
            match holders::dealt(slot, place) {
                Dealt::Read => {}
                // The table grew, or the process ended.
                Dealt::Changed if tries < TRIES => again.push((process, item, tries + 1)),
                Dealt::Changed => self.vanished += 1,
                Dealt::NotYet => again.push((process, item, tries)),
            }
        }
        self.ranges = again;
        Ok(())
    }
}

impl From<&Task> for FoundProcess {
    fn from(task: &Task) -> Self {
        let end = task
            .comm
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(task.comm.len());
        Self {
            process: Process {
                pid: Pid(task.pid),
                pgid: (task.pgid != 0).then_some(Pgid(task.pgid)),
                comm: Comm::new(&task.comm[..end]),
            },
            netns: (task.netns != 0).then_some(NetnsInode(task.netns)),
            cgroup: task.cgroup,
        }
    }
}

pub(super) fn run(program: &Program, slot: &mut Slot) -> Result<Reply, Unavailable> {
    program.run(slot, &[]).map_err(Unavailable::Run)?;
    Reply::read(slot.bytes()).ok_or(Unavailable::Run(Errno::FAULT))
}

/// The compiled `bpf/holders.bpf.c`.
const HOLDERS: &[u8] = include_bytes!("../../../../../bpf/holders.bpf.o");

/// A run holds RCU for as long as it takes: 1,000 processes, or so many ranges of descriptors, take well below a
/// millisecond.
const TASKS_PER_RUN: u32 = 1000;
const BATCH: usize = 32;
const RANGE: u32 = 1024;

/// A thread is worth its start for so many ranges.
const BATCHES_PER_THREAD: usize = 16;

/// How often a range is read whose process changed its table meanwhile.
const TRIES: u32 = 5;
