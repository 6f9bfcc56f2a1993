//! From a file to a socket, by every way there is.

mod content;
mod failure;
mod receiver;
mod road;
mod sender;
mod transfer;

pub use content::{Content, Shortfall};
pub use failure::{Failure, Step};
pub use road::{Road, Roads};
pub use sender::Way;

use sockeye_measure::FileTransfers;
use std::time::Duration;
use transfer::{Goal, transfer};

/// What is to be measured.
#[derive(Debug)]
pub struct FilePlan {
    /// In ascending order; none is longer than the file.
    pub sizes: Vec<u64>,
    /// Each by all ways.
    pub ways: Vec<Way>,
    /// How often each is measured.
    pub repeats: usize,
    /// Files of this size and above are sent as often as that instead.
    pub repeats_of_long: usize,
    /// How long one measurement takes at least: short files are sent again and again.
    pub slice: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// One for each size, road and way that was tried.
    pub transfers: Vec<FileTransfers>,
    /// Ways that do not work here, and why.
    pub missing: Vec<(Way, Failure)>,
    /// What ended it early.
    pub ended: Option<Ended>,
    /// How many transfers were compared with the file from the first to the last byte.
    pub verified: u64,
}

/// Why there is nothing more.
#[derive(Debug)]
pub enum Ended {
    /// It was stopped.
    Stopped,
    /// Something failed that works otherwise.
    Failed(Failure),
}

impl FilePlan {
    /// How many measurements that makes.
    #[must_use]
    pub fn steps(&self, roads: &Roads) -> usize {
        let repeats: usize = self.sizes.iter().map(|&size| self.repeats_of(size)).sum();
        repeats * roads.all().len() * self.ways.len()
    }

    /// Measures. All ways have their turn, one after the other, before one of them has its next repeat. `stop` is asked every
    /// few hundredths of a second, with the number of measurements that are done.
    pub fn measure(&self, content: &Content, roads: &Roads, stop: &mut dyn FnMut(usize) -> bool) -> Outcome {
        let mut outcome = Outcome::default();
        let mut done = 0;
        outcome.ended = self
            .try_measure(content, roads, stop, &mut outcome, &mut done)
            .err();
        outcome
    }

    fn try_measure(
        &self,
        content: &Content,
        roads: &Roads,
        stop: &mut dyn FnMut(usize) -> bool,
        outcome: &mut Outcome,
        done: &mut usize,
    ) -> Result<(), Ended> {
        let mut ways = self.ways.clone();
        // 1. Whether each way works at all, and delivers what is in the file.
        let short = self.sizes.iter().copied().filter(|&size| size <= VERIFIED_MAX);
        let part = || self.sizes.first().map(|&size| size.min(VERIFIED_MAX));
        if let Some(size) = short.max().or_else(part) {
            let goal = Goal::verify(size, content).map_err(Ended::Failed)?;
            for road in roads.all() {
                let tried = std::mem::take(&mut ways);
                for way in tried {
                    match transfer(road, way, content, &goal, &mut || stop(*done)) {
                        Ok(_) => {
                            outcome.verified += 1;
                            ways.push(way);
                        }
                        Err(failure) if failure.is_unsupported() => outcome.missing.push((way, failure)),
                        Err(failure) => return Err(ended(failure)),
                    }
                }
            }
        }
        // 2. How fast.
        let most = self.repeats.max(self.repeats_of_long);
        for turn in 0..most {
            for &size in self.sizes.iter().filter(|&&size| turn < self.repeats_of(size)) {
                let goal = Goal::measure(size, self.slice);
                for road in roads.all() {
                    // Nobody always comes first, when the caches are as others left them.
                    let first = turn % ways.len().max(1);
                    let order: Vec<Way> = ways[first..].iter().chain(&ways[..first]).copied().collect();
                    for way in order {
                        match transfer(road, way, content, &goal, &mut || stop(*done)) {
                            Ok(run) => push(&mut outcome.transfers, road, way, size, run),
                            Err(failure) if failure.is_unsupported() => {
                                ways.retain(|&other| other != way);
                                outcome.missing.push((way, failure));
                            }
                            Err(failure) => return Err(ended(failure)),
                        }
                        *done += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn repeats_of(&self, size: u64) -> usize {
        if size >= LONG {
            self.repeats_of_long
        } else {
            self.repeats
        }
    }
}

fn ended(failure: Failure) -> Ended {
    if failure.step == Step::Stopped {
        Ended::Stopped
    } else {
        Ended::Failed(failure)
    }
}

fn push(all: &mut Vec<FileTransfers>, road: &Road, way: Way, size: u64, run: sockeye_measure::FileRun) {
    let is_it = |one: &FileTransfers| {
        one.size_bytes == size
            && one.way == way.name()
            && (one.device, one.ip_version) == (road.device(), road.ip_version())
    };
    if let Some(transfers) = all.iter_mut().find(|one| is_it(one)) {
        transfers.runs.push(run);
        return;
    }
    all.push(FileTransfers {
        device: road.device(),
        ip_version: road.ip_version(),
        way: way.name(),
        size_bytes: size,
        runs: vec![run],
    });
}

/// So much is compared byte by byte once; later, and beyond, one place of each MiB is.
const VERIFIED_MAX: u64 = 64 << 20;
/// From here on a file is long: a GiB.
pub const LONG: u64 = 1 << 30;
