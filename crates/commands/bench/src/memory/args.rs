//! Arguments of `sockeye bench memory`.

use crate::output_args::OutputArgs;
use crate::sizes::{self, Sizes};
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use sockeye_console::usage::UsageError;
use sockeye_load::memory::{MemoryPlan, available_bytes};
use sockeye_sys::memory::{BYTES_MIN, MemoryOp};
use std::time::Duration;

/// Measure how fast memory is set and copied, and where the rate drops
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Sizes: a list, or ranges with four sizes an octave [default: 64-64Mi]
    #[arg(long, value_name = "SIZES", value_parser = sizes::sizes)]
    pub(super) sizes: Option<Sizes>,
    /// Methods to measure: memset, memcpy, memmove, and overlap (memmove 64 bytes further up) [default: all]
    #[arg(long, value_name = "METHODS", value_enum, value_delimiter = ',')]
    methods: Vec<MethodArg>,
    /// Approximate time of the whole benchmark, in seconds
    #[arg(short = 'd', long, value_name = "SECS", default_value = "15", value_parser = sockeye_console::values::seconds)]
    pub(super) duration: Duration,
    /// Repeats of each measurement; the report shows the median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) repeats: u64,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodArg {
    Memset,
    Memcpy,
    Memmove,
    Overlap,
}

impl MemoryArgs {
    pub(super) fn plan(&self) -> anyhow::Result<MemoryPlan> {
        let available = available_bytes();
        let sizes = match &self.sizes {
            Some(Sizes(sizes)) => sizes.clone(),
            None => {
                let all = sizes::sizes("64-64Mi").map_err(|error| anyhow!(error))?.0;
                let fits = |size: &u64| {
                    available.is_none_or(|available| size * 2 <= available / 2 || *size == all[0])
                };
                all.iter().copied().filter(fits).collect()
            }
        };
        let wrong = |text: String| anyhow!(UsageError(format!("sockeye: --sizes: {text}\n")));
        if let Some(short) = sizes.iter().find(|&&size| size < BYTES_MIN as u64) {
            return Err(wrong(format!(
                "{short} bytes: the shortest that is measured is {BYTES_MIN}"
            )));
        }
        if sizes.len() > SIZES_MAX {
            return Err(wrong(format!(
                "{} sizes are too many; at most {SIZES_MAX}",
                sizes.len()
            )));
        }
        let longest = sizes.last().copied().unwrap_or_default();
        // Beyond it the OOM killer would end a process, maybe this one.
        if let Some(available) = available.filter(|&available| longest.saturating_mul(2) > available) {
            return Err(wrong(format!(
                "{} needs twice as much memory, and {} are available",
                sizes::text(longest),
                sizes::text(available)
            )));
        }
        let mut operations = Vec::new();
        for (name, operation) in METHODS {
            if self.methods.is_empty() || self.methods.contains(&name) {
                operations.push(operation);
            }
        }
        Ok(MemoryPlan {
            sizes,
            operations,
            repeats: usize::try_from(self.repeats).unwrap_or(usize::MAX),
            time: self.duration,
        })
    }
}

const METHODS: [(MethodArg, MemoryOp); 4] = [
    (MethodArg::Memset, MemoryOp::Set),
    (MethodArg::Memcpy, MemoryOp::Copy),
    (MethodArg::Memmove, MemoryOp::Move),
    (MethodArg::Overlap, MemoryOp::Shift),
];

const SIZES_MAX: usize = 1000;
