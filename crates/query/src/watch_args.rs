//! Flags of the commands that watch the kernel by BPF programs: `events`, `drops`, `path`.

use crate::args::{ListingArgs, SourceArg};
use crate::values::{CpuShare, cpu_share, ring_bytes};
use clap::Args;
use sockeye_console::args::{ColorArg, FormatArg};
use std::path::PathBuf;
use std::time::Duration;

/// Flags of every watch.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Memory for what is not printed yet: bytes, or with a unit
    #[arg(long, value_name = "BYTES", default_value = "4Mi", value_parser = ring_bytes)]
    pub ring: u32,
    /// Columns of the table or of CSV, separated by commas; 'help' lists them
    #[arg(long, value_name = "LIST")]
    pub columns: Option<String>,
    /// Numbers instead of the names of services, users and hosts
    #[arg(short = 'n', long)]
    pub numeric: bool,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub btf: PathBuf,
    /// Report on stderr what is watched, and by which source
    #[arg(short = 'v', long)]
    pub verbose: bool,
}

impl WatchArgs {
    /// Returns the flags of a listing of sockets with these, in this namespace, whose names of hosts may take so long.
    #[must_use]
    pub fn listing(&self, netns: Option<String>, format: FormatArg, names_timeout: Duration) -> ListingArgs {
        ListingArgs {
            processes: true,
            numeric: self.numeric,
            ipv4: false,
            ipv6: false,
            netns,
            complete: false,
            source: SourceArg::Auto,
            format,
            no_header: self.no_header,
            color: self.color,
            btf: self.btf.clone(),
            names_timeout,
            verbose: self.verbose,
        }
    }
}

/// The flag of watches that adapt to what they cost. `path` has `--sample` instead: the time that packets wait can only be known if as many are
/// followed all the time.
#[derive(Debug, Args)]
pub struct BudgetArgs {
    /// Most of one processor that watching may take, in percent; 0: no bound. Beyond it only a part is watched, which is said and counted.
    /// events: the time of Sockeye, 50% if nothing is given; only the events of one in so many connections are shown. drops: the time of its program
    /// in the kernel, 5%; drops are sampled at random, and their number is estimated
    #[arg(long, value_name = "PERCENT", value_parser = cpu_share)]
    pub cpu: Option<CpuShare>,
}

impl BudgetArgs {
    /// Returns the bound in millionths of a processor, where `percent` is the default; `None` without one.
    #[must_use]
    pub const fn ppm_max(&self, percent: u64) -> Option<u64> {
        match self.cpu {
            Some(share) => share.ppm_max(),
            None => Some(percent * 10_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_the_default_until_one_is_given() {
        let of = |text: Option<&str>| BudgetArgs {
            cpu: text.map(|text| cpu_share(text).expect("a share")),
        };
        assert_eq!(of(None).ppm_max(5), Some(50_000));
        assert_eq!(of(Some("1%")).ppm_max(5), Some(10_000));
        assert_eq!(of(Some("0")).ppm_max(5), None);
    }
}
