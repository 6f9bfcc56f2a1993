//! State that `Processes` keeps for each process: name, end, and one layout for each exec. `PROGRAMS_MAX`
//! bounds the layouts of a process that calls `execve` often.

use super::layout::Layout;
use std::sync::Arc;

/// What is known of a process.
#[derive(Debug)]
pub(super) struct ProcessState {
    pub(super) name: Vec<u8>,
    /// Whether it was created during the observation.
    pub(super) began: bool,
    pub(super) ended: bool,
    /// Whether its first thread ended; others may still run.
    pub(super) is_leaderless: bool,
    /// Number of programs before the first of `programs`.
    pub(super) dropped_programs: u32,
    /// Its programs, the current one last; never empty.
    pub(super) programs: Vec<Program>,
}

/// A process from one exec to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Program {
    /// Shared with forked children.
    pub(super) layout: Arc<Layout>,
    /// The loss count when the layout was last complete; `None` if it was never read.
    pub(super) complete_at: Option<u32>,
}

impl ProcessState {
    pub(super) fn new(name: Vec<u8>, began: bool, program: Program) -> Self {
        Self {
            name,
            began,
            ended: false,
            is_leaderless: false,
            dropped_programs: 0,
            programs: vec![program],
        }
    }

    /// Returns the number of execs since the observation began.
    pub(super) fn execs(&self) -> u32 {
        self.dropped_programs + self.programs.len() as u32 - 1
    }

    /// Starts a new program with an empty layout: events report all that it maps.
    pub(super) fn exec(&mut self, name: Vec<u8>, loss_count: u32) {
        self.name = name;
        // The thread that calls execve becomes the first one.
        (self.is_leaderless, self.ended) = (false, false);
        if self.programs.len() >= PROGRAMS_MAX {
            self.programs.remove(0);
            self.dropped_programs += 1;
        }
        self.programs.push(Program {
            layout: Arc::default(),
            complete_at: Some(loss_count),
        });
    }
}

/// The most programs of one process whose layouts are kept: the last ones.
const PROGRAMS_MAX: usize = 64;
