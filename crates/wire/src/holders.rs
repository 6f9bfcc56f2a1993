//! Slots of the BPF programs that find socket owners: mirrors `bpf/descriptors.bpf.c`.
//!
//! As in [`crate::walk`], a slot is memory shared with the program, in native byte order.
//!
//! ```
//! use sockeye_wire::holders::{self, ListTasks, Reply};
//!
//! let mut slot = vec![0; holders::SLOT_BYTES];
//! ListTasks { descriptor: 3, after: None, tasks_max: 100 }.write(&mut slot);
//! // ... the program runs ...
//! let reply = Reply::read(&slot).unwrap();
//! assert_eq!(holders::tasks(&slot, &reply).count(), 0); // it did not
//! ```

use crate::bytes::{array, ne_u32, ne_u64};
pub use crate::walk::Outcome;

/// Bytes of one slot: `struct files_slot`.
pub const SLOT_BYTES: usize = RECORDS_AT + RECORDS_BYTES;

/// Most descriptor ranges in one run.
pub const ITEMS_MAX: usize = 128;

/// The request of `list_tasks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListTasks {
    /// A descriptor of this process that refers to a socket.
    pub descriptor: u32,
    /// Where to continue; `None` to start.
    pub after: Option<Cursor>,
    /// Most processes to return.
    pub tasks_max: u32,
}

/// A position in the list of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    /// After this task, while it exists.
    Task(TaskId),
    /// After all tasks that started until this time, if the task is gone.
    Start(u64),
}

/// Identifies a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskId {
    /// Address of its `task_struct`; never shown to users.
    pub task: u64,
    /// Start time in nanoseconds, which differs for another task at the same address.
    pub start_time: u64,
    /// Process id in the initial pid namespace.
    pub tgid: u32,
}

/// A range of a task's descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FdRange {
    /// The task.
    pub task: TaskId,
    /// First descriptor.
    pub first: u32,
    /// Descriptor after the last.
    pub end: u32,
}

/// Result of reading a descriptor range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemStatus {
    /// The range was read.
    Read,
    /// The process ended, or its table was replaced.
    Changed,
    /// The run ended before this range.
    Pending,
}

/// The reply of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// How the run ended; [`Outcome::NoTable`] means that the descriptor does not exist, and
    /// [`Outcome::Unreadable`] that the task to continue after is gone.
    pub outcome: Outcome,
    /// Length of all records in bytes.
    pub used: u32,
    /// Address of the kernel's `socket_file_ops`, by which a file is known to be a socket.
    pub socket_operations: u64,
    /// The last task that was written.
    pub last: TaskId,
    /// Number of descriptor ranges that were processed.
    pub items: u32,
}

impl ListTasks {
    /// Writes the request to the beginning of a slot.
    pub fn write(&self, slot: &mut [u8]) {
        clear_reply(slot);
        let (task, start_time, tgid) = match self.after {
            None => (0, 0, 0),
            Some(Cursor::Task(id)) => (id.task, id.start_time, id.tgid),
            Some(Cursor::Start(time)) => (0, time, 0),
        };
        put(slot, 0, &self.descriptor.to_ne_bytes());
        put(slot, 16, &task.to_ne_bytes());
        put(slot, 24, &start_time.to_ne_bytes());
        put(slot, 32, &tgid.to_ne_bytes());
        put(slot, 36, &self.tasks_max.to_ne_bytes());
    }
}

/// Writes a request to `read_files` for the first [`ITEMS_MAX`] of these ranges.
pub fn write_items(slot: &mut [u8], socket_operations: u64, items: &[FdRange]) {
    clear_reply(slot);
    let count = items.len().min(ITEMS_MAX);
    put(slot, 4, &u32::try_from(count).unwrap_or_default().to_ne_bytes());
    put(slot, 8, &socket_operations.to_ne_bytes());
    for (place, item) in items.iter().take(count).enumerate() {
        let at = ITEMS_AT + place * ITEM_BYTES;
        put(slot, at, &item.task.task.to_ne_bytes());
        put(slot, at + 8, &item.task.start_time.to_ne_bytes());
        put(slot, at + 16, &item.task.tgid.to_ne_bytes());
        put(slot, at + 20, &item.first.to_ne_bytes());
        put(slot, at + 24, &item.end.to_ne_bytes());
        put(slot, at + 28, &[0; 4]);
    }
}

/// Returns the result of the descriptor range at this index.
#[must_use]
pub fn item_status(slot: &[u8], index: usize) -> ItemStatus {
    match ne_u32(slot, ITEMS_AT + index * ITEM_BYTES + 28) {
        Some(1) => ItemStatus::Read,
        Some(2) => ItemStatus::Changed,
        _ => ItemStatus::Pending,
    }
}

impl Reply {
    /// Reads the reply from a slot; `None` if the slot is too short.
    #[must_use]
    pub fn read(slot: &[u8]) -> Option<Self> {
        let reply = slot.get(REPLY_AT..REPLY_AT + REPLY_BYTES)?;
        Some(Self {
            outcome: Outcome::from_number(ne_u32(reply, 0)?),
            used: ne_u32(reply, 4)?,
            socket_operations: ne_u64(reply, 16)?,
            last: TaskId {
                task: ne_u64(reply, 24)?,
                start_time: ne_u64(reply, 32)?,
                tgid: ne_u32(reply, 40)?,
            },
            items: ne_u32(reply, 44)?,
        })
    }
}

/// A process, or a thread with its own descriptor table: `struct task_record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Identity of the task.
    pub id: TaskId,
    /// Whether it is a thread that does not share its process's descriptor table.
    pub is_thread: bool,
    /// Process id in our pid namespace; 0 if the process is not visible there.
    pub pid: u32,
    /// Process group id, likewise.
    pub pgid: u32,
    /// User id.
    pub uid: u32,
    /// The inode of its network namespace; 0 if the task is exiting.
    pub netns: u32,
    /// Id of its cgroup v2.
    pub cgroup: u64,
    /// A number above all of its descriptors.
    pub descriptors_end: u32,
    /// Its name, padded with NULs.
    pub comm: [u8; 16],
}

/// Iterates over the tasks that `list_tasks` wrote.
pub fn tasks<'a>(slot: &'a [u8], reply: &Reply) -> impl Iterator<Item = Task> + use<'a> {
    records(slot, reply, TASK_BYTES).filter_map(|record| {
        Some(Task {
            is_thread: record[2] == 2,
            id: TaskId {
                tgid: ne_u32(record, 4)?,
                task: ne_u64(record, 8)?,
                start_time: ne_u64(record, 16)?,
            },
            pid: ne_u32(record, 24)?,
            pgid: ne_u32(record, 28)?,
            uid: ne_u32(record, 32)?,
            netns: ne_u32(record, 36)?,
            cgroup: ne_u64(record, 40)?,
            descriptors_end: ne_u32(record, 48)?,
            comm: array(record, 56)?,
        })
    })
}

/// A descriptor of a socket: `struct file_record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Index of the descriptor range in the request.
    pub item: u32,
    /// The descriptor.
    pub descriptor: u32,
    /// The inode of the socket.
    pub inode: u32,
}

/// Iterates over the descriptors that `read_files` wrote.
pub fn files<'a>(slot: &'a [u8], reply: &Reply) -> impl Iterator<Item = File> + use<'a> {
    records(slot, reply, FILE_BYTES).filter_map(|record| {
        Some(File {
            item: ne_u32(record, 0)?,
            descriptor: ne_u32(record, 4)?,
            inode: ne_u32(record, 8)?,
        })
    })
}

fn records<'a>(slot: &'a [u8], reply: &Reply, bytes: usize) -> core::slice::ChunksExact<'a, u8> {
    let used = (reply.used as usize).min(RECORDS_BYTES);
    slot.get(RECORDS_AT..RECORDS_AT + used)
        .unwrap_or_default()
        .chunks_exact(bytes)
}

/// Clears an earlier reply, so that it is not taken for the reply to this request.
fn clear_reply(slot: &mut [u8]) {
    put(slot, REPLY_AT, &[0; 4]);
}

pub(crate) fn put(slot: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = slot.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

pub(crate) const REPLY_AT: usize = 256;
const REPLY_BYTES: usize = 48;
/// After the page of request and reply, and the page of pointers.
const ITEMS_AT: usize = 8192;
const ITEM_BYTES: usize = 32;
pub(crate) const RECORDS_AT: usize = ITEMS_AT + 4096;
pub(crate) const RECORDS_BYTES: usize = 512 * 1024;
/// `struct task_record`
const TASK_BYTES: usize = 72;
/// `struct file_record`
const FILE_BYTES: usize = 16;
