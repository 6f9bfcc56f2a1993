//! What holds network namespaces open, by the kernel's own iterator over descriptors: one pass, without a look at `/proc`.

use super::kernel::{Kernel, Prepared, Unavailable};
use rustix::io::Errno;
use sockeye_sys::bpf::Program;
use sockeye_wire::netns_file::{self, RECORD_BYTES, Record};
use std::io::{ErrorKind, Read};

/// The program, loaded.
#[derive(Debug)]
pub(crate) struct NetnsFile {
    list_files: Program,
}

impl NetnsFile {
    pub(crate) fn load(kernel: &Kernel) -> Result<Self, Unavailable> {
        let (prepared, iterated) = kernel.prepare_iterator(NETNS_FILE, "bpf_iter_task_file")?;
        let Prepared { object, missing, .. } = prepared;
        let list_files = object
            .load_iterator("list_netns_files", iterated)
            .map_err(|error| Unavailable::Load(error, missing))?;
        Ok(Self { list_files })
    }

    /// Every descriptor of a namespace, and of a socket elsewhere, of all processes of our pid namespace.
    pub(crate) fn pass(&self) -> Result<Vec<Record>, Unavailable> {
        let mut iteration = self.list_files.iterate().map_err(Unavailable::Run)?;
        let mut all = Vec::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut filled = 0;
        loop {
            match iteration.read(&mut buffer[filled..]) {
                Ok(0) if filled == 0 => return Ok(all),
                Ok(0) => return Err(Unavailable::UnexpectedReply("half a record")),
                Ok(bytes) => {
                    filled += bytes;
                    all.extend(netns_file::records(&buffer[..filled]));
                    let rest = filled % RECORD_BYTES;
                    buffer.copy_within(filled - rest..filled, 0);
                    filled = rest;
                }
                // The kernel breaks off after a million descriptors of no interest, to be asked again.
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

/// The compiled `bpf/netns_file.bpf.c`.
const NETNS_FILE: &[u8] = include_bytes!("../../../../../bpf/netns_file.bpf.o");

/// The kernel gives out 32 KiB at a time, whatever it is asked for.
const BUFFER_BYTES: usize = 64 * 1024;
