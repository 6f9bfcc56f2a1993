use super::Map;
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

/// What the kernel tells of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Its number.
    pub id: u32,
    /// The first 15 bytes of its name.
    pub name: Vec<u8>,
    /// The numbers of its maps, sixteen at most.
    pub map_ids: Vec<u32>,
}

impl Program {
    /// A program that is in the kernel already.
    ///
    /// # Errors
    /// `ENOENT` if it is not any more, `EPERM` without CAP_SYS_ADMIN.
    pub fn by_id(id: u32) -> Result<Self, Errno> {
        let fd = call::program_by_id(id)?;
        Ok(Self { fd, array: None })
    }

    /// What the kernel tells of it.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn info(&self) -> Result<ProgramInfo, Errno> {
        let mut map_ids = [0; MAPS_MAX];
        let (info, maps) = call::program_info(self.fd.as_fd(), &mut map_ids)?;
        Ok(ProgramInfo {
            id: info.id,
            name: info
                .name
                .split(|&byte| byte == 0)
                .next()
                .unwrap_or_default()
                .to_owned(),
            map_ids: map_ids[..maps].to_vec(),
        })
    }

    /// Its map of this name.
    ///
    /// # Errors
    /// `ENOENT` if it has none, `EPERM` without CAP_SYS_ADMIN.
    pub fn map(&self, name: &str) -> Result<Map, Errno> {
        for id in self.info()?.map_ids {
            let map = Map::by_id(id)?;
            if map.is_called(name)? {
                return Ok(map);
            }
        }
        Err(Errno::NOENT)
    }

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

const MAPS_MAX: usize = 16;
