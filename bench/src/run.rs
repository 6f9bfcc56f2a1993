//! A phase: every command in turn, round after round, so that whatever slows the machine down slows them all.

use crate::measure::{Outcome, Output, Sample, measure};
use crate::suite::{Entry, Program};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Where the programs are; None if not installed.
#[derive(Clone, Debug)]
pub struct Installed {
    /// `bench-floor`.
    pub floor: Option<PathBuf>,
    /// The one on trial.
    pub sockeye: Option<PathBuf>,
    /// Finds the others.
    pub peer: fn(&str) -> Option<PathBuf>,
}

impl Installed {
    fn path(&self, program: Program) -> Option<PathBuf> {
        match program {
            Program::Floor => self.floor.clone(),
            Program::Sockeye => self.sockeye.clone(),
            Program::Peer(name) => (self.peer)(name),
        }
    }
}

/// Why there are no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The program is not there.
    NotInstalled,
    /// It failed, or printed too little.
    Failed(String),
}

/// What was measured of one entry.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Which command.
    pub entry: Entry,
    /// One sample a round.
    pub samples: Vec<Sample>,
    /// Lines the command printed in the warm-up.
    pub lines: Option<u64>,
    /// Set if the figures must not be used.
    pub absence: Option<Absence>,
}

impl Figures {
    fn fail(&mut self, why: String) {
        self.absence = Some(Absence::Failed(why));
        self.samples.clear();
    }
}

/// Runs the entries: once with their lines counted, `warm_ups` times unmeasured, then `rounds` times for the record.
///
/// Every second round goes backwards, so that no command always runs in the wake of the same other.
pub fn interleaved(
    entries: impl Iterator<Item = &'static Entry>,
    installed: &Installed,
    sockets: usize,
    warm_ups: usize,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Figures>> {
    let mut commands: Vec<(Option<PathBuf>, Figures)> = entries
        .map(|entry| {
            let path = installed.path(entry.program);
            let absence = path.is_none().then_some(Absence::NotInstalled);
            (
                path,
                Figures {
                    entry: *entry,
                    samples: Vec::new(),
                    lines: None,
                    absence,
                },
            )
        })
        .collect();

    for (path, figures) in &mut commands {
        let Some(path) = path else { continue };
        progress(&format!("checking {}", figures.entry.command()));
        let outcome = run(path, figures, Output::Counted)?;
        let lines = outcome.lines.unwrap_or(0);
        figures.lines = Some(lines);
        if figures.absence.is_none() && figures.entry.line_each && lines < sockets as u64 {
            figures.fail(format!("printed {lines} lines for {sockets} sockets"));
        }
    }
    for round in 0..warm_ups + rounds {
        match round.checked_sub(warm_ups) {
            None => progress(&format!("warm-up {} of {warm_ups}", round + 1)),
            Some(measured) => progress(&format!("round {} of {rounds}", measured + 1)),
        }
        let count = commands.len();
        for turn in 0..count {
            let turn = if round % 2 == 0 { turn } else { count - 1 - turn };
            let (path, figures) = &mut commands[turn];
            let Some(path) = path.as_deref().filter(|_| figures.absence.is_none()) else {
                continue;
            };
            let Some(measured) = round.checked_sub(warm_ups) else {
                // A slow command has had its warm-up when its lines were counted.
                if figures.entry.every == 1 {
                    run(path, figures, Output::Discarded)?;
                }
                continue;
            };
            if measured % figures.entry.every == 0 {
                let outcome = run(path, figures, Output::Discarded)?;
                if outcome.failure.is_none() {
                    figures.samples.push(outcome.sample);
                }
            }
        }
    }
    Ok(commands.into_iter().map(|(_, figures)| figures).collect())
}

/// Measures once; a failure spoils all figures of the command, also those of the rounds before.
fn run(path: &Path, figures: &mut Figures, output: Output) -> Result<Outcome> {
    let outcome = measure(path, figures.entry.arguments, output)?;
    if let Some(why) = &outcome.failure {
        figures.fail(why.clone());
    }
    Ok(outcome)
}
