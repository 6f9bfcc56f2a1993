//! Owners of sockets from the kernel's iterator over descriptors: slower than our walk, but it works since Linux 5.8.

use super::file_iterator::FileIterator;
use super::kernel::Kernel;
use crate::process_descriptors::{FoundProcess, ProcessDescriptors, SocketDescriptor};
use crate::unavailable::Unavailable;
use sockeye_wire::task_file::{self, RECORD_BYTES, Record};
use std::collections::HashMap;

/// The program, loaded.
#[derive(Debug)]
pub(crate) struct TaskFile(FileIterator);

impl TaskFile {
    pub(crate) fn load(kernel: &Kernel) -> Result<Self, Unavailable> {
        FileIterator::load(kernel, TASK_FILE, "list_files").map(Self)
    }

    /// Lists the socket descriptors of all processes of our pid namespace; processes without sockets are not reported.
    pub(crate) fn pass(&self) -> Result<ProcessDescriptors, Unavailable> {
        let mut collector = Collector::default();
        self.0.run(RECORD_BYTES, |bytes| {
            task_file::records(bytes).for_each(|record| collector.add(&record));
        })?;
        Ok(collector.pass)
    }
}

#[derive(Debug, Default)]
struct Collector {
    pass: ProcessDescriptors,
    /// Index of each process, by pid.
    places: HashMap<u32, u32>,
    /// Pid and index of the process of the previous record.
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
        self.pass.descriptors.push(SocketDescriptor {
            inode: record.inode,
            process: place,
            fd: record.descriptor,
        });
    }
}

/// The compiled `bpf/task_file.bpf.c`.
const TASK_FILE: &[u8] = include_bytes!("../../../../../bpf/task_file.bpf.o");
