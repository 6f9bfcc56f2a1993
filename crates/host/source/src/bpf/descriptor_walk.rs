//! Owners of sockets from two programs: one walks the list of processes, the other reads their descriptor tables.

use super::kernel::{Compiled, Kernel, Prepared, Start};
use crate::process_descriptors::{FoundProcess, ProcessDescriptors, SocketDescriptor};
use crate::threads::in_parallel;
use crate::unavailable::Unavailable;
use rustix::io::Errno;
use sockeye_sys::bpf::{Program, Slot};
use sockeye_wire::holders::{self, Cursor, FdRange, ItemStatus, ListTasks, Reply, Task, TaskId};
use sockeye_wire::walk::Outcome;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The programs, loaded, and their slots.
#[derive(Debug)]
pub(crate) struct DescriptorWalk {
    lister: Lister,
    read_files: Program,
    slots: Mutex<Vec<Slot>>,
}

impl DescriptorWalk {
    pub(crate) fn load(kernel: &Kernel, start: Start) -> Result<Self, Unavailable> {
        let (lister, read_files, slots) = kernel.load_best(&DESCRIPTORS, &[], start, Lister::load)?;
        Ok(Self {
            lister,
            read_files,
            slots: Mutex::new(slots),
        })
    }

    /// Reads the socket descriptors of all processes. `socket` is a socket of ours, with which the program recognizes the
    /// files of sockets.
    pub(crate) fn pass(&self, socket: BorrowedFd<'_>) -> Result<ProcessDescriptors, Unavailable> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots
            .first_mut()
            .ok_or(Unavailable::UnexpectedReply("no slots"))?;
        let (tasks, socket_operations) = self.lister.tasks(slot, socket)?;
        let mut pass = ProcessDescriptors::default();
        let mut work: Vec<(u32, FdRange)> = Vec::new();
        for task in &tasks {
            if task.pid == 0 {
                continue; // outside our pid namespace: `/proc` does not show it either
            }
            if !task.is_thread {
                pass.processes.push(FoundProcess::from(task));
            }
            // A thread with its own descriptor table follows its process.
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

    /// Lists all processes of our pid namespace, without their descriptors.
    pub(crate) fn processes(&self, socket: BorrowedFd<'_>) -> Result<Vec<FoundProcess>, Unavailable> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots
            .first_mut()
            .ok_or(Unavailable::UnexpectedReply("no slots"))?;
        let (tasks, _) = self.lister.tasks(slot, socket)?;
        let known = tasks.iter().filter(|task| task.pid != 0 && !task.is_thread);
        Ok(known.map(FoundProcess::from).collect())
    }

    /// Reads the ranges of `work` on as many threads as are useful.
    fn files(
        &self,
        slots: &mut [Slot],
        work: &Work<'_>,
        pass: &mut ProcessDescriptors,
    ) -> Result<(), Unavailable> {
        let slots = slots.iter_mut().take(work.threads_useful());
        for result in in_parallel(slots, |slot| self.read(slot, work)) {
            let (held, vanished) = result?;
            pass.descriptors.extend(held);
            pass.losses.vanished_processes += vanished;
        }
        Ok(())
    }

    /// Reads batches of ranges on one thread until none is left.
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

/// The program that walks the list of processes.
#[derive(Debug)]
pub(super) struct Lister(Program);

impl Lister {
    /// Loads both programs of an object that includes `bpf/descriptors.h`: this one, the one that reads descriptor tables, and
    /// the slots that they share.
    pub(super) fn load(prepared: Prepared<'_>) -> Result<(Self, Program, Vec<Slot>), Unavailable> {
        let ([list_tasks, read_files], slots) =
            prepared.load_with_slots(["list_tasks", "read_files"], holders::SLOT_BYTES)?;
        Ok((Self(list_tasks), read_files, slots))
    }

    /// Lists all processes, in several runs. Returns them with the address of the kernel's `socket_file_ops`.
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
                    after = Some(Cursor::Task(reply.last));
                }
                // The process to continue after has ended. The list is sorted by start time: continue there.
                Outcome::Unreadable => {
                    let Some(Cursor::Task(TaskId { start_time, .. })) = after else {
                        return Err(Unavailable::UnexpectedReply("it lost the list of processes"));
                    };
                    after = Some(Cursor::Start(start_time));
                }
                Outcome::NoTable => return Err(Unavailable::UnexpectedReply("our own socket was not found")),
                Outcome::TooManySteps => {
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
pub(super) fn work_of(task: &Task) -> impl Iterator<Item = FdRange> + use<> {
    let (task, end) = (task.id, task.descriptors_end);
    (0..end).step_by(RANGE as usize).map(move |first| FdRange {
        task,
        first,
        end: first.saturating_add(RANGE).min(end),
    })
}

/// Ranges of descriptors to read, each with the index of its process.
pub(super) struct Work<'a> {
    ranges: &'a [(u32, FdRange)],
    socket_operations: u64,
    /// Index of the first range that no thread has taken.
    next: AtomicUsize,
}

impl<'a> Work<'a> {
    pub(super) fn new(ranges: &'a [(u32, FdRange)], socket_operations: u64) -> Self {
        Self {
            ranges,
            socket_operations,
            next: AtomicUsize::new(0),
        }
    }

    /// Returns how many threads are useful; at least 1.
    pub(super) fn threads_useful(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        (self.ranges.len() / BATCHES_PER_THREAD).clamp(1, cores)
    }
}

/// The ranges that one thread works on.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Ranges to be read, and how often that was tried.
    ranges: Vec<(u32, FdRange, u32)>,
    /// Ranges given up: their process ended.
    pub(super) vanished: u64,
}

impl Batch {
    /// Writes the request for the next run; `false`: there is nothing left to do.
    pub(super) fn request(&mut self, work: &Work<'_>, slot: &mut [u8]) -> bool {
        while self.ranges.len() < BATCH {
            let Some((process, item)) = work.ranges.get(work.next.fetch_add(1, Ordering::Relaxed)) else {
                // Keeps the counter from wrapping around.
                work.next.store(work.ranges.len(), Ordering::Relaxed);
                break;
            };
            self.ranges.push((*process, *item, 0));
        }
        let items: Vec<FdRange> = self.ranges.iter().map(|(_, item, _)| *item).collect();
        holders::write_items(slot, work.socket_operations, &items);
        !items.is_empty()
    }

    /// Removes the ranges that a run has read; the others stay for the next run.
    pub(super) fn settle(&mut self, slot: &[u8], reply: &Reply) -> Result<(), Unavailable> {
        let dealt = reply.items as usize;
        if dealt == 0 || dealt > self.ranges.len() {
            return Err(Unavailable::UnexpectedReply("it does not get on"));
        }
        let mut again = Vec::new();
        for (place, (process, item, tries)) in self.ranges.drain(..).enumerate() {
            match holders::item_status(slot, place) {
                ItemStatus::Read => {}
                // The table grew, or the process ended.
                ItemStatus::Changed if tries < TRIES => again.push((process, item, tries + 1)),
                ItemStatus::Changed => self.vanished += 1,
                ItemStatus::Pending => again.push((process, item, tries)),
            }
        }
        self.ranges = again;
        Ok(())
    }
}

pub(super) fn run(program: &Program, slot: &mut Slot) -> Result<Reply, Unavailable> {
    program.run(slot, &[]).map_err(Unavailable::Run)?;
    Reply::read(slot.bytes()).ok_or(Unavailable::Run(Errno::FAULT))
}

/// The compiled `bpf/descriptors.bpf.c`.
const DESCRIPTORS: Compiled = Compiled {
    in_place: include_bytes!("../../../../../bpf/descriptors.bpf.o"),
    by_copy: include_bytes!("../../../../../bpf/descriptors_read.bpf.o"),
};

/// Processes per run. A run holds the RCU read lock; this many processes take well below a millisecond.
const TASKS_PER_RUN: u32 = 1000;
/// Ranges per run; likewise.
const BATCH: usize = 32;
/// Descriptors per range.
const RANGE: u32 = 1024;

/// Fewer ranges do not justify another thread.
const BATCHES_PER_THREAD: usize = 16;

/// How often a range is read again if its process changes its descriptor table.
const TRIES: u32 = 5;
