//! The kernel's iterator over the descriptors of all processes (`task_file`, Linux 5.8), with a BPF program of ours that
//! selects descriptors and writes a record for each.

use super::kernel::{Kernel, Prepared};
use crate::unavailable::Unavailable;
use rustix::io::Errno;
use sockeye_sys::bpf::Program;
use std::io::{ErrorKind, Read};

/// A program for the iterator, loaded.
#[derive(Debug)]
pub(super) struct FileIterator(Program);

impl FileIterator {
    /// Loads the program `name` of the compiled object `elf`.
    pub(super) fn load(kernel: &Kernel, elf: &[u8], name: &str) -> Result<Self, Unavailable> {
        let (prepared, iterated) = kernel.prepare_iterator(elf, "bpf_iter_task_file")?;
        let Prepared { object, missing, .. } = prepared;
        let program = object
            .load_iterator(name, iterated)
            .map_err(|error| Unavailable::Load(error, missing))?;
        Ok(Self(program))
    }

    /// Runs the iterator once and passes its output to `take`, in pieces of whole records of `record_bytes` each.
    pub(super) fn run(&self, record_bytes: usize, mut take: impl FnMut(&[u8])) -> Result<(), Unavailable> {
        let mut iteration = self.0.iterate().map_err(Unavailable::Run)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut filled = 0;
        loop {
            match iteration.read(&mut buffer[filled..]) {
                Ok(0) if filled == 0 => return Ok(()),
                Ok(0) => return Err(Unavailable::UnexpectedReply("half a record")),
                Ok(bytes) => {
                    filled += bytes;
                    let rest = filled % record_bytes;
                    take(&buffer[..filled - rest]);
                    buffer.copy_within(filled - rest..filled, 0);
                    filled = rest;
                }
                // The kernel interrupts the read after a million descriptors without a record; it continues with the next.
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

/// The kernel returns at most 32 KiB per read.
const BUFFER_BYTES: usize = 64 * 1024;
