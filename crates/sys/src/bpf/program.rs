use super::array::{Identity, Slot};
use super::call;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A program in the kernel, for as long as this is kept.
#[derive(Debug)]
pub struct Program {
    pub(super) fd: OwnedFd,
    /// The array that it writes to.
    pub(super) array: Option<Arc<Identity>>,
}

impl Program {
    /// Runs the program once, here and now, attached to nothing (`BPF_PROG_TEST_RUN`, for raw tracepoints since
    /// Linux 5.10). Its first argument is the slot's number; `more` are the others, eleven at most.
    ///
    /// # Errors
    /// The errno of `bpf(2)`; `EINVAL` if the slot is none of the array that this program was loaded with, or there are
    /// too many arguments.
    pub fn run(&self, slot: &mut Slot, more: &[u64]) -> Result<u32, Errno> {
        let mut arguments = [0; 12];
        let is_its_own = self.array.as_ref().is_some_and(|array| slot.is_of(array));
        if !is_its_own || more.len() >= arguments.len() {
            return Err(Errno::INVAL);
        }
        arguments[0] = u64::from(slot.number());
        for (to, from) in arguments[1..].iter_mut().zip(more) {
            *to = *from;
        }
        call::run_program(self.fd.as_fd(), &arguments)
    }

    /// Starts an iterator; what it writes is to be read from the result. Each starts from the beginning.
    ///
    /// # Errors
    /// The errno of `bpf(2)`: `EINVAL` if this is none.
    pub fn iterate(&self) -> Result<Iteration, Errno> {
        let link = call::create_iterator_link(self.fd.as_fd())?;
        Ok(Iteration {
            file: File::from(call::create_iterator(link.as_fd())?),
        })
    }
}

/// An iterator's output.
#[derive(Debug)]
pub struct Iteration {
    file: File,
}

impl std::io::Read for Iteration {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.file.read(buffer)
    }
}
