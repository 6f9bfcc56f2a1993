//! Sends a file to a socket, by every available method.

mod failure;
mod method;
mod receiver;
mod route;
mod sender;
mod test_file;
mod transfer;

pub use failure::{Failure, Step};
pub use method::Method;
pub use route::{Route, Routes};
pub use test_file::{Shortfall, TestFile};

use sockeye_measure::FileTransfers;
use std::time::Duration;
use transfer::{Workload, transfer};

/// Parameters of a file benchmark.
#[derive(Debug)]
pub struct FilePlan {
    /// Sizes in bytes, ascending; none exceeds the file.
    pub sizes: Vec<u64>,
    /// Methods to measure.
    pub methods: Vec<Method>,
    /// Repeats of each measurement.
    pub repeats: usize,
    /// Repeats of sizes of at least [`LONG`].
    pub repeats_of_long: usize,
    /// Least time of one measurement: short files are sent repeatedly.
    pub slice: Duration,
}

/// Outcome of a file benchmark.
#[derive(Debug, Default)]
pub struct Outcome {
    /// One per size, route and method that was tried.
    pub transfers: Vec<FileTransfers>,
    /// Methods that do not work here, and why.
    pub missing: Vec<(Method, Failure)>,
    /// Why it ended early; `None` if it did not.
    pub early_end: Option<EarlyEnd>,
    /// Transfers that were compared with the file byte by byte.
    pub verified: u64,
}

/// Why a benchmark ended early.
#[derive(Debug)]
pub enum EarlyEnd {
    /// The caller stopped it.
    Stopped,
    /// A step failed that normally works.
    Failed(Failure),
}

impl FilePlan {
    /// Returns the number of measurements.
    #[must_use]
    pub fn steps(&self, routes: &Routes) -> usize {
        let repeats: usize = self.sizes.iter().map(|&size| self.repeats_of(size)).sum();
        repeats * routes.all().len() * self.methods.len()
    }

    /// Measures. The methods take turns between two repeats of one of them. `stop` is called every few hundredths of a second
    /// with the number of finished measurements.
    pub fn measure(&self, file: &TestFile, routes: &Routes, stop: &mut dyn FnMut(usize) -> bool) -> Outcome {
        let mut outcome = Outcome::default();
        let mut done = 0;
        outcome.early_end = self
            .try_measure(file, routes, stop, &mut outcome, &mut done)
            .err();
        outcome
    }

    fn try_measure(
        &self,
        file: &TestFile,
        routes: &Routes,
        stop: &mut dyn FnMut(usize) -> bool,
        outcome: &mut Outcome,
        done: &mut usize,
    ) -> Result<(), EarlyEnd> {
        let mut methods = self.methods.clone();
        // 1. Check that each method works, and delivers the content of the file.
        let short = self.sizes.iter().copied().filter(|&size| size <= VERIFIED_MAX);
        let part = || self.sizes.first().map(|&size| size.min(VERIFIED_MAX));
        if let Some(size) = short.max().or_else(part) {
            let workload = Workload::verify(size, file).map_err(EarlyEnd::Failed)?;
            for route in routes.all() {
                let tried = std::mem::take(&mut methods);
                for method in tried {
                    match transfer(route, method, file, &workload, &mut || stop(*done)) {
                        Ok(_) => {
                            outcome.verified += 1;
                            methods.push(method);
                        }
                        Err(failure) if failure.is_unsupported() => outcome.missing.push((method, failure)),
                        Err(failure) => return Err(early_end(failure)),
                    }
                }
            }
        }
        // 2. Measure.
        let most = self.repeats.max(self.repeats_of_long);
        for turn in 0..most {
            for &size in self.sizes.iter().filter(|&&size| turn < self.repeats_of(size)) {
                let workload = Workload::measure(size, self.slice);
                for route in routes.all() {
                    // A different method comes first each time, since the first finds other caches.
                    let first = turn % methods.len().max(1);
                    let order: Vec<Method> = methods[first..]
                        .iter()
                        .chain(&methods[..first])
                        .copied()
                        .collect();
                    for method in order {
                        match transfer(route, method, file, &workload, &mut || stop(*done)) {
                            Ok(run) => push(&mut outcome.transfers, route, method, size, run),
                            Err(failure) if failure.is_unsupported() => {
                                methods.retain(|&other| other != method);
                                outcome.missing.push((method, failure));
                            }
                            Err(failure) => return Err(early_end(failure)),
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

fn early_end(failure: Failure) -> EarlyEnd {
    if failure.step == Step::Stopped {
        EarlyEnd::Stopped
    } else {
        EarlyEnd::Failed(failure)
    }
}

fn push(
    all: &mut Vec<FileTransfers>,
    route: &Route,
    method: Method,
    size: u64,
    run: sockeye_measure::FileRun,
) {
    let is_it = |one: &FileTransfers| {
        one.size_bytes == size
            && one.method == method.name()
            && (one.device, one.ip_version) == (route.device(), route.ip_version())
    };
    if let Some(transfers) = all.iter_mut().find(|one| is_it(one)) {
        transfers.runs.push(run);
        return;
    }
    all.push(FileTransfers {
        device: route.device(),
        ip_version: route.ip_version(),
        method: method.name(),
        size_bytes: size,
        runs: vec![run],
    });
}

/// Most bytes that are compared byte by byte, once. Otherwise one place per MiB is compared.
const VERIFIED_MAX: u64 = 64 << 20;
/// Least size of a long file, in bytes.
pub const LONG: u64 = 1 << 30;
