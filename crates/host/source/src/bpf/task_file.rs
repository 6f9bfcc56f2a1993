//! Who holds which socket, by the kernel's own iterator over descriptors: slower than our walk, but of any kernel
//! since Linux 5.8.

use super::holders::{FoundProcess, Pass};
use super::kernel::{Kernel, Prepared, Unavailable};
use crate::owners::SocketDescriptor;
use rustix::io::Errno;
use sockeye_model::{Comm, NetnsInode, Pgid, Pid, Process};
use sockeye_sys::bpf::Program;
use sockeye_wire::task_file::{self, RECORD_BYTES, Record};
use std::collections::HashMap;
use std::io::{ErrorKind, Read};

/// The program, loaded.
#[derive(Debug)]
pub(crate) struct TaskFile {
    list_files: Program,
}

impl TaskFile {
    pub(crate) fn load(kernel: &Kernel) -> Result<Self, Unavailable> {
        let (prepared, iterated) = kernel.prepare_iterator(TASK_FILE, "bpf_iter_task_file")?;
        let Prepared { object, missing, .. } = prepared;
        let list_files = object
            .load_iterator("list_files", iterated)
            .map_err(|error| Unavailable::Load(error, missing))?;
        Ok(Self { list_files })
    }

    /// Goes over all processes of our pid namespace; those without sockets are not among what comes.
    pub(crate) fn pass(&self) -> Result<Pass, Unavailable> {
        let mut iteration = self.list_files.iterate().map_err(Unavailable::Run)?;
        let mut collector = Collector::default();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut filled = 0;
        loop {
            match iteration.read(&mut buffer[filled..]) {
                Ok(0) if filled == 0 => return Ok(collector.pass),
                Ok(0) => return Err(Unavailable::UnexpectedReply("half a record")),
                Ok(bytes) => {
                    filled += bytes;
                    task_file::records(&buffer[..filled]).for_each(|record| collector.add(&record));
                    let rest = filled % RECORD_BYTES;
                    buffer.copy_within(filled - rest..filled, 0);
                    filled = rest;
                }
                // The kernel breaks off after a million descriptors of no sockets, to be asked again.
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => {
                    return Err(Unavailable::Run(
                        Errno::from_io_error(&error).unwrap_or(Errno::IO),
                    ));
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct Collector {
    pass: Pass,
    /// Places of processes, by their numbers.
    places: HashMap<u32, u32>,
    /// The process of the record before, and its place.
    last: Option<(u32, u32)>,
}

impl Collector {
    fn add(&mut self, record: &Record) {
        if record.pid == 0 {
            return;
        }
        let place = match self.last {
            Some((pid, place)) if pid == record.pid => place,
            _ => {
                let processes = &mut self.pass.processes;
                *self.places.entry(record.pid).or_insert_with(|| {
                    processes.push(FoundProcess::from(record));
                    (processes.len() - 1) as u32
                })
            }
        };
        self.last = Some((record.pid, place));
        self.pass.held.push(SocketDescriptor {
            inode: record.inode,
            process: place,
            fd: record.descriptor,
        });
    }
}

impl From<&Record> for FoundProcess {
    fn from(record: &Record) -> Self {
        let end = record.comm.iter().position(|byte| *byte == 0);
        Self {
            process: Process {
                pid: Pid(record.pid),
                pgid: (record.pgid != 0).then_some(Pgid(record.pgid)),
                comm: Comm::new(&record.comm[..end.unwrap_or(record.comm.len())]),
            },
            netns: (record.netns != 0).then_some(NetnsInode(record.netns)),
            cgroup: record.cgroup,
        }
    }
}

/// The compiled `bpf/task_file.bpf.c`.
const TASK_FILE: &[u8] = include_bytes!("../../../../../bpf/task_file.bpf.o");

/// The kernel gives out 32 KiB at a time, whatever it is asked for.
const BUFFER_BYTES: usize = 64 * 1024;
