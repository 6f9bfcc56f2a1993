//! System calls and waits, counted and timed in the kernel by BPF (see `bpf/calls.h`).
//!
//! Only the requested programs are attached. [`Calls::read`] returns the counts since [`Calls::begin`] and may be called every
//! second. A call is counted when it returns. The duration of a call that began before the observation is unknown, but its
//! wait counts from the start of the observation. Where a program makes very many calls, only some are timed
//! ([`RawSyscall::timed`]).
//!
//! What it deliberately does not do: observe kernel threads, which make no calls and sleep most of the time, and Sockeye
//! itself.

mod names;
mod objects;
mod options;
mod programs;
mod raw;
mod since;
mod sleepers;
mod snapshot;
mod throttle;
mod tracepoints;

pub(crate) use names::errno_name;
pub(crate) use options::CallOptions;
pub(crate) use programs::try_programs;
pub(crate) use raw::{Call, RawCalls, RawSyscall, RawWait, State};

use crate::{Scope, Unavailable};
use objects::Objects;
use programs::Programs;
use sleepers::Sleepers;
use snapshot::{Snapshot, StackCache};
use sockeye_source::BpfEngine;
use std::sync::Arc;

/// Attached BPF programs that count calls and waits. They are detached when this is dropped.
#[derive(Debug)]
pub(crate) struct Calls {
    options: CallOptions,
    programs: Programs,
    sleepers: Sleepers,
    stacks: StackCache,
    objects: Objects,
    missing_parts: Vec<Unavailable>,
    /// The counts when everything was attached.
    before: Snapshot,
    /// When the programs were detached; `None` while they run.
    stopped_ns: Option<u64>,
}

impl Calls {
    /// Loads and attaches the programs.
    pub(crate) fn start(
        engine: Arc<BpfEngine>,
        scope: &Scope,
        options: CallOptions,
    ) -> Result<Self, Unavailable> {
        let (programs, mut missing_parts) = Programs::start(&engine, scope, options)?;
        let sleepers = match Sleepers::list(&programs) {
            Ok(sleepers) => sleepers,
            Err(error) => {
                missing_parts.push(Unavailable::new(
                    "waits",
                    format!(
                        "list the threads that sleep already: {error}; until they wake, their waits are not seen"
                    ),
                ));
                Sleepers::default()
            }
        };
        // Before its exec the command's process has copies of our descriptors.
        let existing = match options.waits && !options.from_exec {
            true => programs::initial_pids(scope),
            false => Vec::new(),
        };
        Ok(Self {
            options,
            programs,
            sleepers,
            stacks: StackCache::default(),
            objects: Objects::new(engine, &existing),
            missing_parts,
            before: Snapshot::default(),
            stopped_ns: None,
        })
    }

    /// Resets the counts. Call it when all other observers are attached.
    pub(crate) fn begin(&mut self) -> Result<(), Unavailable> {
        self.before = self.snapshot()?;
        Ok(())
    }

    /// Detaches the programs: later reads return the counts of this moment.
    pub(crate) fn stop(&mut self) {
        self.programs.detach();
        self.stopped_ns.get_or_insert_with(crate::now_ns);
    }

    /// Returns the requested parts that do not work although the rest does.
    pub(crate) fn missing_parts(&self) -> &[Unavailable] {
        &self.missing_parts
    }

    /// Returns the counts since [`Calls::begin`].
    pub(crate) fn read(&mut self) -> Result<RawCalls, Unavailable> {
        let mut raw = self.snapshot()?.since(&self.before);
        if let Some(waits) = &mut raw.waits {
            self.objects.name_objects(waits);
        }
        Ok(raw)
    }

    fn snapshot(&mut self) -> Result<Snapshot, Unavailable> {
        let part = if self.options.syscalls {
            "syscalls"
        } else {
            "waits"
        };
        snapshot::read(
            &self.programs,
            self.options,
            &self.sleepers,
            &mut self.stacks,
            self.stopped_ns,
        )
        .map_err(|errno| Unavailable::new(part, format!("read what BPF programs have counted: {errno}")))
    }
}
