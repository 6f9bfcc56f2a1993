//! Descriptors that hold network namespaces open, from the kernel's iterator over descriptors: one pass, no `/proc`.

use super::file_iterator::FileIterator;
use super::kernel::Kernel;
use crate::unavailable::Unavailable;
use sockeye_wire::netns_file::{self, RECORD_BYTES, Record};

/// The program, loaded.
#[derive(Debug)]
pub(crate) struct NetnsFile(FileIterator);

impl NetnsFile {
    pub(crate) fn load(kernel: &Kernel) -> Result<Self, Unavailable> {
        FileIterator::load(kernel, NETNS_FILE, "list_netns_files").map(Self)
    }

    /// Lists every descriptor of a network namespace, and of a socket in another namespace than its process's, of all
    /// processes of our pid namespace.
    pub(crate) fn pass(&self) -> Result<Vec<Record>, Unavailable> {
        let mut all = Vec::new();
        self.0
            .run(RECORD_BYTES, |bytes| all.extend(netns_file::records(bytes)))?;
        Ok(all)
    }
}

/// The compiled `bpf/netns_file.bpf.c`.
const NETNS_FILE: &[u8] = include_bytes!("../../../../../bpf/netns_file.bpf.o");
