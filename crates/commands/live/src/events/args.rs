//! Arguments of `events`.

use clap::Args;
use sockeye_console::args::FormatArg;
use std::path::PathBuf;

/// Connections as they open and close, with their owners
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(crate) format: FormatArg,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub(crate) btf: PathBuf,
    /// Which connections: an expression as in ss, for example: dport = :443 and dst 10.0.0.0/8
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}
