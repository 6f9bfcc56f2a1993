//! What the BPF programs that look for owners and we tell each other: `bpf/holders.bpf.c`, from this side.
//!
//! As [`crate::walk`]: a slot is memory that both see, in native byte order.
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

/// Ranges that one run takes at most.
pub const ITEMS_MAX: usize = 128;

/// What is asked of `list_tasks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListTasks {
    /// A descriptor of ours that is a socket.
    pub descriptor: u32,
    /// The last task that was told of before.
    pub after: Option<After>,
    /// So many processes at most.
    pub tasks_max: u32,
}

/// Where to go on in the list of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Behind this task, as long as it is there.
    Task(TaskId),
    /// Behind all that started until then: the task is gone.
    Start(u64),
}

/// Which task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskId {
    /// Its address; never shown.
    pub task: u64,
    /// When it started, in ns: tells it from another one at the same place.
    pub start_time: u64,
    /// Its process, as the first pid namespace numbers them.
    pub tgid: u32,
}

/// A range of one task's descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Whose.
    pub task: TaskId,
    /// The first.
    pub first: u32,
    /// The one after the last.
    pub end: u32,
}

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dealt {
    /// It was read.
    Read,
    /// The process ended, or its table was replaced.
    Changed,
    /// Nobody came to it.
    NotYet,
}

/// What a program says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// How the run ended; [`Outcome::NoTable`] stands for a descriptor that there is not, and
    /// [`Outcome::Unreadable`] for a task to go on after that is gone.
    pub outcome: Outcome,
    /// Bytes of records.
    pub used: u32,
    /// What makes a file a socket.
    pub socket_operations: u64,
    /// The last task told of.
    pub last: TaskId,
    /// Items dealt with.
    pub items: u32,
}

impl ListTasks {
    /// Writes it to the beginning of a slot.
    pub fn write(&self, slot: &mut [u8]) {
        take_back(slot);
        let (task, start_time, tgid) = match self.after {
            None => (0, 0, 0),
            Some(After::Task(id)) => (id.task, id.start_time, id.tgid),
            Some(After::Start(time)) => (0, time, 0),
        };
        put(slot, 0, &self.descriptor.to_ne_bytes());
        put(slot, 16, &task.to_ne_bytes());
        put(slot, 24, &start_time.to_ne_bytes());
        put(slot, 32, &tgid.to_ne_bytes());
        put(slot, 36, &self.tasks_max.to_ne_bytes());
    }
}

/// Asks `read_files` for the first [`ITEMS_MAX`] of these.
pub fn write_items(slot: &mut [u8], socket_operations: u64, items: &[Item]) {
    take_back(slot);
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

/// What became of the item at `place`.
#[must_use]
pub fn dealt(slot: &[u8], place: usize) -> Dealt {
    match ne_u32(slot, ITEMS_AT + place * ITEM_BYTES + 28) {
        Some(1) => Dealt::Read,
        Some(2) => Dealt::Changed,
        _ => Dealt::NotYet,
    }
}

impl Reply {
    /// Reads it from a slot; `None` if that is shorter than slots are.
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

/// A process, or a thread with a table of descriptors of its own: `struct task_record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Which task.
    pub id: TaskId,
    /// Whether it is a thread that has left its process's table.
    pub is_thread: bool,
    /// The process's number in our pid namespace; 0: it is not to be seen from there.
    pub pid: u32,
    /// Its group's number, likewise.
    pub pgid: u32,
    /// Its user.
    pub uid: u32,
    /// The inode of its network namespace; 0: it is ending.
    pub netns: u32,
    /// Its cgroup v2.
    pub cgroup: u64,
    /// No descriptor of it has this number or a higher one.
    pub descriptors_end: u32,
    /// Its name, padded with NULs.
    pub comm: [u8; 16],
}

/// The tasks that `list_tasks` told of.
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
    /// Of which item.
    pub item: u32,
    /// Its number.
    pub descriptor: u32,
    /// The inode of the socket.
    pub inode: u32,
}

/// The descriptors that `read_files` told of.
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

/// An earlier reply must not pass for one to this request.
fn take_back(slot: &mut [u8]) {
    put(slot, REPLY_AT, &[0; 4]);
}

pub(crate) fn put(slot: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = slot.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

pub(crate) const REPLY_AT: usize = 256;
const REPLY_BYTES: usize = 48;
/// Behind the page of what is said, and the page of pointers.
const ITEMS_AT: usize = 8192;
const ITEM_BYTES: usize = 32;
pub(crate) const RECORDS_AT: usize = ITEMS_AT + 4096;
pub(crate) const RECORDS_BYTES: usize = 512 * 1024;
/// `struct task_record`
const TASK_BYTES: usize = 72;
/// `struct file_record`
const FILE_BYTES: usize = 16;
