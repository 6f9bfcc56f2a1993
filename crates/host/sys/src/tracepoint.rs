//! Counters of tracepoint hits.

use crate::perf::{Attributes, Event, PerfTarget, flag, kind};
use rustix::io::Errno;
use std::ffi::CStr;

/// A count of how often this process's threads hit a tracepoint: the calling thread, and all threads started from it
/// after the counter was opened.
#[derive(Debug)]
pub struct TracepointCounter(Event);

impl TracepointCounter {
    /// Starts counting. `id` is the number in the file `id` of the tracepoint's directory in tracefs. `filter` has the
    /// syntax of the file `filter` in that directory: only hits that match it count.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without CAP_PERFMON; `ENOENT` without such a tracepoint; `EINVAL` if it has no such field.
    pub fn open(id: u64, filter: &CStr) -> Result<Self, Errno> {
        let attributes = Attributes {
            flags: flag::INHERIT,
            ..Attributes::new(kind::TRACEPOINT, id)
        };
        let event = Event::open(&attributes, PerfTarget::Thread(0), None)?;
        event.filter(filter)?;
        Ok(Self(event))
    }

    /// Returns the number of hits since the counter was opened.
    ///
    /// # Errors
    /// The errno of `read(2)`.
    pub fn value(&self) -> Result<u64, Errno> {
        self.0.count()
    }
}
