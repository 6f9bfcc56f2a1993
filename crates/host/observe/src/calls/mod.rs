//! System calls and waits, counted and timed in the kernel by BPF (`bpf/calls.h` says how).
//!
//! Only what is asked for is attached, and [`Calls::look`] reads what has been counted since [`Calls::begin`], so that it
//! may be called every second. Calls are counted when they return. Of one that had begun before we did, nobody knows how long it
//! took, but the wait in it counts from our beginning. Of programs that do nothing but calls few are timed
//! ([`RawSyscall::timed`]).
//!
//! What it deliberately does not do: threads of the kernel's own, which make no calls and sleep for a living, and
//! Sockeye itself are in nobody's scope.

mod load;
mod look;
mod names;
mod objects;
mod pace;
mod raw;
mod since;
mod sleepers;

pub use raw::{Call, CallLosses, RawCalls, RawSyscall, RawWait, State, errno_name};

use crate::{Obstacle, Scope};
use load::Attached;
use look::{Looked, Stacks};
use objects::Objects;
use sleepers::Sleepers;
use sockeye_source::BpfEngine;
use std::sync::Arc;

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// System calls are counted.
    pub syscalls: bool,
    /// Time off the processors is.
    pub waits: bool,
    /// Of the processes that are named nothing before their next exec: they stand still until then.
    pub from_exec: bool,
}

/// Programs that count, until this is dropped.
#[derive(Debug)]
pub struct Calls {
    wanted: Wanted,
    attached: Attached,
    sleepers: Sleepers,
    stacks: Stacks,
    objects: Objects,
    obstacles: Vec<Obstacle>,
    /// What had happened when everything was attached.
    before: Looked,
    /// When the programs were taken off.
    stopped_ns: Option<u64>,
}

impl Calls {
    /// Begins to count.
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub fn start(engine: Arc<BpfEngine>, scope: &Scope, wanted: Wanted) -> Result<Self, Obstacle> {
        let (attached, mut obstacles) = Attached::start(&engine, scope, wanted)?;
        let sleepers = match Sleepers::list(&attached) {
            Ok(sleepers) => sleepers,
            Err(error) => {
                obstacles.push(Obstacle::new(
                    "waits",
                    format!(
                        "list the threads that sleep already: {error}; until they wake, their waits are not seen"
                    ),
                ));
                Sleepers::default()
            }
        };
        // One that is yet to become the command has the descriptors of ours.
        let already = match wanted.waits && !wanted.from_exec {
            true => load::listed(scope),
            false => Vec::new(),
        };
        Ok(Self {
            wanted,
            attached,
            sleepers,
            stacks: Stacks::default(),
            objects: Objects::new(engine, &already),
            obstacles,
            before: Looked::default(),
            stopped_ns: None,
        })
    }

    /// Forgets what has happened so far: others were still to be attached.
    ///
    /// # Errors
    /// When the kernel does not hand out what it has counted.
    pub fn begin(&mut self) -> Result<(), Obstacle> {
        self.before = self.looked()?;
        Ok(())
    }

    /// Counts no longer: what is looked at later is of this moment.
    pub fn stop(&mut self) {
        self.attached.stop();
        self.stopped_ns.get_or_insert_with(crate::now_ns);
    }

    /// What of what is wanted cannot be had, though the rest can.
    #[must_use]
    pub fn obstacles(&self) -> &[Obstacle] {
        &self.obstacles
    }

    /// What has been counted since [`Calls::begin`].
    ///
    /// # Errors
    /// When the kernel does not hand out what it has counted.
    pub fn look(&mut self) -> Result<RawCalls, Obstacle> {
        let mut raw = self.looked()?.since(&self.before);
        if let Some(waits) = &mut raw.waits {
            self.objects.name(waits);
        }
        Ok(raw)
    }

    fn looked(&mut self) -> Result<Looked, Obstacle> {
        let part = if self.wanted.syscalls { "syscalls" } else { "waits" };
        look::look(
            &self.attached,
            self.wanted,
            &self.sleepers,
            &mut self.stacks,
            self.stopped_ns,
        )
        .map_err(|errno| Obstacle::new(part, format!("read what BPF programs have counted: {errno}")))
    }
}
