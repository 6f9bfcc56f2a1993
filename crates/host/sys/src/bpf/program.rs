//! A loaded BPF program: runs it once (`BPF_PROG_TEST_RUN`), reads its iterator output, or opens it and its
//! maps by id. `run` accepts only a slot of the array that the program was loaded with.

use super::Map;
use super::array::{Identity, Slot};
use super::attach_call;
use super::call;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A loaded program; the kernel frees it when this is dropped, unless it is attached.
#[derive(Debug)]
pub struct Program {
    pub(super) fd: OwnedFd,
    /// The array that it was loaded with.
    pub(super) array: Option<Arc<Identity>>,
}

/// The kernel's information about a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Program id.
    pub id: u32,
    /// Name, at most 15 bytes.
    pub name: Vec<u8>,
    /// Ids of its maps, at most 16.
    pub map_ids: Vec<u32>,
}

impl Program {
    /// Opens a loaded program by its id.
    ///
    /// # Errors
    /// `ENOENT` if it is no longer loaded, `EPERM` without CAP_SYS_ADMIN.
    pub fn by_id(id: u32) -> Result<Self, Errno> {
        let fd = call::program_by_id(id)?;
        Ok(Self { fd, array: None })
    }

    /// Returns the kernel's information about the program.
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

    /// Returns how often the program did not run because it was already running on the same processor (Linux 5.12; older kernels
    /// report 0).
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn missed_runs(&self) -> Result<u64, Errno> {
        call::missed_runs(self.fd.as_fd())
    }

    /// Opens the program's map with this name.
    ///
    /// # Errors
    /// `ENOENT` if it has none, `EPERM` without CAP_SYS_ADMIN.
    pub fn map(&self, name: &str) -> Result<Map, Errno> {
        for id in self.info()?.map_ids {
            let map = Map::by_id(id)?;
            if map.has_name(name)? {
                return Ok(map);
            }
        }
        Err(Errno::NOENT)
    }

    /// Runs the program once, without attaching it (`BPF_PROG_TEST_RUN`, for raw tracepoints since Linux 5.10). Its
    /// first argument is the slot's index; `more` has the others, at most eleven.
    ///
    /// # Errors
    /// The errno of `bpf(2)`; `EINVAL` if the slot is not of the array that this program was loaded with, or there are
    /// too many arguments.
    pub fn run(&self, slot: &mut Slot, more: &[u64]) -> Result<u32, Errno> {
        let mut arguments = [0; 12];
        let is_own_slot = self.array.as_ref().is_some_and(|array| slot.is_of(array));
        if !is_own_slot || more.len() >= arguments.len() {
            return Err(Errno::INVAL);
        }
        arguments[0] = slot.number() as u64;
        for (to, from) in arguments[1..].iter_mut().zip(more) {
            *to = *from;
        }
        call::run_program(self.fd.as_fd(), &arguments)
    }

    /// Starts an iterator run from the beginning; its output is read from the result.
    ///
    /// # Errors
    /// The errno of `bpf(2)`: `EINVAL` if this is not an iterator.
    pub fn iterate(&self) -> Result<Iteration, Errno> {
        let link = attach_call::create_iterator_link(self.fd.as_fd())?;
        Ok(Iteration {
            file: File::from(attach_call::create_iterator(link.as_fd())?),
        })
    }
}

/// The output of an iterator run.
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
