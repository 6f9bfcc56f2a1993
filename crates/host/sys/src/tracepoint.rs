//! Counting how often the kernel comes past one of its tracepoints.

use crate::perf::{Attributes, Event, Whom, flag, kind};
use rustix::io::Errno;
use std::ffi::CStr;

/// How often the threads of this process came past a tracepoint: those started after it was made, by whomever they were.
#[derive(Debug)]
pub struct Passes(Event);

impl Passes {
    /// Counts from now on. `id` is that in the file `id` of the tracepoint's folder in tracefs, `filter` what its file
    /// `filter` would take: only passes with such fields count.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without CAP_PERFMON; `ENOENT` without such a tracepoint; `EINVAL` if it has no such field.
    pub fn count(id: u64, filter: &CStr) -> Result<Self, Errno> {
        let attributes = Attributes {
            flags: flag::INHERIT,
            ..Attributes::new(kind::TRACEPOINT, id)
        };
        let event = Event::open(&attributes, Whom::Thread(0), None)?;
        event.filter(filter)?;
        Ok(Self(event))
    }

    /// How many there were so far.
    ///
    /// # Errors
    /// The errno of `read(2)`.
    pub fn so_far(&self) -> Result<u64, Errno> {
        self.0.count()
    }
}
