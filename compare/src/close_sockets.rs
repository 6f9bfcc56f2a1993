//! Closing of thousands of sockets: each command gets a new load, which is created and removed untimed.

use crate::entry::{Entry, Phase, Target};
use crate::floor;
use crate::load::Load;
use crate::measure::{Output, measure};
use crate::run::{Absence, Figures, Installed};
use crate::suite::{peer, sockeye};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Commands that close every connection of the load, at both ends.
pub const CLOSING: &[Entry] = &[
    sockeye("kill", &["kill", "--yes", "state", "established"])
        .during(Phase::NetnsOperations)
        .targets(&[
            Target::Within {
                at_most_ns: 500_000_000,
            },
            Target::About {
                of: SS_KILL,
                wording: "ss -K, which knows no owners",
            },
        ]),
    peer(SS_KILL, "ss", &["-KtnH", "state", "established"]).during(Phase::NetnsOperations),
];

/// Runs them in alternating order, each on `sockets` new sockets.
pub fn closing(
    installed: &Installed,
    bench_load: &Path,
    sockets: usize,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Figures>> {
    let mut commands: Vec<(Option<PathBuf>, Figures)> = CLOSING
        .iter()
        .map(|entry| {
            let path = installed.path(entry.program);
            let absence = path.is_none().then_some(Absence::NotInstalled);
            (path, Figures::of(entry, absence))
        })
        .collect();
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let count = commands.len();
        for turn in 0..count {
            let turn = if round % 2 == 0 { turn } else { count - 1 - turn };
            let (path, figures) = &mut commands[turn];
            if let (Some(path), None) = (path, &figures.absence) {
                close(path, figures, bench_load, sockets)?;
            }
        }
    }
    Ok(commands.into_iter().map(|(_, figures)| figures).collect())
}

/// Runs one command on one load.
fn close(path: &Path, figures: &mut Figures, bench_load: &Path, sockets: usize) -> Result<()> {
    let before = count()?;
    let load = Load::start_program(bench_load, sockets, false)?;
    let made = count()?.saturating_sub(before);
    ensure!(
        made >= load.sockets() as u64,
        "the load has {} sockets, the kernel reports {made}",
        load.sockets()
    );
    let outcome = measure(path, figures.entry.arguments, Output::Discarded)?;
    // Listeners are no connections.
    let left = (count()? + load.sockets() as u64).saturating_sub(before + made);
    load.stop()?;
    if let Some(why) = outcome.failure {
        figures.fail(why);
    } else if left > 0 {
        figures.fail(format!("left {left} of {sockets} sockets"));
    } else {
        figures.samples.push(outcome.sample);
    }
    Ok(())
}

/// TCP sockets that the kernel reports.
fn count() -> Result<u64> {
    floor::dump(floor::Request::default())
        .map(|dump| dump.records)
        .context("counting sockets")
}

const SS_KILL: &str = "ss -K";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_refers_to_an_entry() {
        for target in CLOSING.iter().flat_map(|entry| entry.targets) {
            match target {
                Target::Within { .. } => {}
                Target::About { of, .. } => assert!(CLOSING.iter().any(|entry| entry.name == *of)),
                other => panic!("{other:?}"),
            }
        }
    }
}
