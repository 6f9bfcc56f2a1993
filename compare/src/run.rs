//! A phase: runs all commands in turn, in rounds, so that a slower machine slows all of them.

use crate::entry::{Entry, Program};
use crate::measure::{Outcome, Output, Sample, measure};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Paths of the programs; `None` if not installed.
#[derive(Clone, Debug)]
pub struct Installed {
    /// `bench-floor`.
    pub floor: Option<PathBuf>,
    /// The sockeye binary.
    pub sockeye: Option<PathBuf>,
    /// Finds the peers.
    pub peer: fn(&str) -> Option<PathBuf>,
}

impl Installed {
    pub(crate) fn path(&self, program: Program) -> Option<PathBuf> {
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
    /// The program is not installed.
    NotInstalled,
    /// It failed, or printed too little.
    Failed(String),
    /// Its load could not be created here, with the reason.
    NotMeasured(String),
}

/// The results of one entry.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The command.
    pub entry: Entry,
    /// One sample per round that it ran in.
    pub samples: Vec<Sample>,
    /// Lines that the command printed in its check.
    pub lines: Option<u64>,
    /// Length of the file that it wrote.
    pub written_bytes: Option<u64>,
    /// Set if the figures must not be used.
    pub absence: Option<Absence>,
}

impl Figures {
    pub(crate) fn of(entry: &Entry, absence: Option<Absence>) -> Self {
        Self {
            entry: *entry,
            samples: Vec::new(),
            lines: None,
            written_bytes: None,
            absence,
        }
    }

    /// Figures of entries that cannot be measured here.
    pub fn absent(entries: impl Iterator<Item = &'static Entry>, why: &str) -> Vec<Self> {
        entries
            .map(|entry| Self::of(entry, Some(Absence::NotMeasured(why.to_owned()))))
            .collect()
    }

    pub(crate) fn fail(&mut self, why: String) {
        self.absence = Some(Absence::Failed(why));
        self.samples.clear();
    }
}

/// Total time for the runs of one command, in nanoseconds: a slower one has fewer runs.
pub const BUDGET_NS: u64 = 10_000_000_000;

/// A command, and the rounds that it runs in.
struct Runner {
    path: Option<PathBuf>,
    figures: Figures,
    schedule: Schedule,
}

/// How often a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schedule {
    /// In every n-th round.
    Every(usize),
    /// Not again: its check took so long that it is the measurement.
    Once,
}

impl Schedule {
    /// The schedule that keeps a command with this time within its budget.
    fn of(run_ns: u64, rounds: usize) -> Self {
        let affordable = BUDGET_NS.checked_div(run_ns).unwrap_or(u64::MAX);
        match usize::try_from(affordable).unwrap_or(usize::MAX) {
            0 => Self::Once,
            runs => Self::Every(rounds.div_ceil(runs).max(1)),
        }
    }

    fn takes_part(self, round: usize) -> bool {
        match self {
            Self::Every(n) => round.is_multiple_of(n),
            Self::Once => false,
        }
    }
}

/// Runs the entries: once with their lines counted, `warm_ups` times unmeasured, then `rounds` times
/// measured.
///
/// Every second round runs in reverse order, so that no command always follows the same other. A command runs
/// in as many rounds as fit into [`BUDGET_NS`]; if one run exceeds that, its check, with output through a
/// pipe, is the result.
pub fn interleaved(
    entries: impl Iterator<Item = &'static Entry>,
    installed: &Installed,
    sockets: usize,
    warm_ups: usize,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Figures>> {
    let mut commands: Vec<Runner> = entries
        .map(|entry| {
            let path = installed.path(entry.program);
            let absence = path.is_none().then_some(Absence::NotInstalled);
            Runner {
                path,
                figures: Figures::of(entry, absence),
                schedule: Schedule::Every(1),
            }
        })
        .collect();

    for runner in &mut commands {
        let Some(path) = &runner.path else { continue };
        let figures = &mut runner.figures;
        progress(&format!("checking {}", figures.entry.command()));
        let outcome = run(path, figures, figures.entry.checked())?;
        let lines = outcome.lines.unwrap_or(0);
        figures.lines = Some(lines);
        if figures.absence.is_some() {
            continue;
        }
        let lines_min = figures.entry.sockets_per_line.map_or(0, |each| sockets / each);
        if lines < lines_min as u64 {
            figures.fail(format!("printed {lines} lines for {sockets} sockets"));
            continue;
        }
        runner.schedule = Schedule::of(outcome.sample.wall_ns, rounds);
        if runner.schedule == Schedule::Once {
            figures.samples.push(outcome.sample);
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
            let Runner {
                path,
                figures,
                schedule,
            } = &mut commands[turn];
            let Some(path) = path.as_deref().filter(|_| figures.absence.is_none()) else {
                continue;
            };
            let Some(measured) = round.checked_sub(warm_ups) else {
                // A slow command has had its warm-up in the check.
                if *schedule == Schedule::Every(1) {
                    run(path, figures, figures.entry.measured())?;
                }
                continue;
            };
            if schedule.takes_part(measured) {
                let outcome = run(path, figures, figures.entry.measured())?;
                if outcome.failure.is_none() {
                    figures.samples.push(outcome.sample);
                }
            }
        }
    }
    Ok(commands.into_iter().map(|runner| runner.figures).collect())
}

/// Measures once; a failure invalidates all figures of the command, also those of earlier rounds.
fn run(path: &Path, figures: &mut Figures, output: Output) -> Result<Outcome> {
    let outcome = measure(path, figures.entry.arguments, output)?;
    if let Some(why) = &outcome.failure {
        figures.fail(why.clone());
    } else if let Some(file) = figures.entry.writes {
        match std::fs::metadata(file) {
            Ok(written) => figures.written_bytes = Some(written.len()),
            Err(error) => figures.fail(format!("{file}: {error}")),
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Phase;
    use crate::suite::entries;

    const SECOND_NS: u64 = 1_000_000_000;

    fn runs(run_ns: u64, rounds: usize) -> usize {
        let schedule = Schedule::of(run_ns, rounds);
        (0..rounds).filter(|round| schedule.takes_part(*round)).count()
    }

    #[test]
    fn a_quick_command_takes_part_in_every_round() {
        assert_eq!(runs(0, 15), 15);
        assert_eq!(runs(SECOND_NS / 10, 60), 60);
        assert_eq!(runs(BUDGET_NS / 15, 15), 15);
    }

    #[test]
    fn a_slow_command_stays_within_its_budget_and_is_spread_over_the_rounds() {
        assert_eq!(Schedule::of(5 * SECOND_NS / 2, 15), Schedule::Every(4));
        assert_eq!(runs(5 * SECOND_NS / 2, 15), 4);
        assert_eq!(runs(BUDGET_NS, 15), 1);
        for run_ns in [SECOND_NS / 3, SECOND_NS, 3 * SECOND_NS, 7 * SECOND_NS] {
            let runs = runs(run_ns, 15);
            assert!(runs >= 1 && runs as u64 * run_ns <= BUDGET_NS, "{run_ns}: {runs}");
        }
    }

    #[test]
    fn command_above_the_budget_runs_once() {
        assert_eq!(Schedule::of(BUDGET_NS + 1, 15), Schedule::Once);
        assert_eq!(runs(50 * SECOND_NS, 15), 0);
    }

    #[test]
    fn absent_entries_keep_their_places_and_the_reason() {
        let figures = Figures::absent(entries(Phase::Speed), "no rights");
        assert_eq!(figures.len(), entries(Phase::Speed).count());
        assert!(figures.iter().all(|figures| {
            figures.samples.is_empty()
                && figures.absence == Some(Absence::NotMeasured("no rights".to_owned()))
        }));
    }
}
