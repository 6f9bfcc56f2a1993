//! Options of samples, which all formats have.

use clap::Args;
use sockeye_console::args::FormatArg;
use sockeye_query::args::{ListingArgs, SampledArgs};
use std::path::PathBuf;
use std::time::Duration;

/// What is sampled, and how often.
#[derive(Debug, Args)]
pub(crate) struct SampleArgs {
    /// Time between two samples, in seconds
    #[arg(long, value_name = "SECS", default_value = "10", allow_negative_numbers = true, value_parser = sample_interval)]
    pub(crate) sample_interval: Duration,
    /// Time between two checks for findings, in seconds; 0 for none
    #[arg(long, value_name = "SECS", default_value = "60", allow_negative_numbers = true, value_parser = check_interval)]
    pub(crate) check_interval: Duration,
    /// The most services that have metrics of their own; the rest counts as service "other"
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) services: u16,
    /// The file of `sockeye record` whose health is among the metrics; otherwise that of the host, or your own, if there is one
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sampled: SampledArgs,
}

impl SampleArgs {
    /// Returns the flags of the listing that is sampled.
    pub(crate) fn listing(&self) -> ListingArgs {
        self.sampled.listing(FormatArg::Table)
    }
}

fn sample_interval(text: &str) -> Result<Duration, String> {
    let interval = sockeye_console::values::seconds(text)?;
    if (Duration::from_millis(250)..=Duration::from_mins(10)).contains(&interval) {
        Ok(interval)
    } else {
        Err("expected 0.25 to 600 seconds".to_owned())
    }
}

fn check_interval(text: &str) -> Result<Duration, String> {
    let interval = sockeye_console::values::seconds_or_zero(text)?;
    if interval.is_zero() || interval >= Duration::from_secs(1) {
        Ok(interval)
    } else {
        Err("expected 0, or at least 1 second".to_owned())
    }
}
