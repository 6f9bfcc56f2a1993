//! Arguments of `sockeye config`.

use clap::{Args, ValueEnum};

/// Show the settings in force, and where each comes from
///
/// Settings are default values of options, thresholds of check, and aliases. An option on the command line comes first, then the
/// variable of the setting (SOCKEYE_COLOR for color), then your file, then the file of the system.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArgs {
    /// Only settings that do not have their default values
    #[arg(long)]
    pub(crate) changed: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = ConfigFormat::Table)]
    pub(crate) format: ConfigFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigFormat {
    /// Aligned columns
    Table,
    /// One JSON object
    Json,
    /// The same, as one line
    Jsonl,
}

const EXAMPLES: &str = "\
Examples:
  sockeye config               every setting
  sockeye config --changed     those with other values than the default ones
  SOCKEYE_COLOR=never sockeye  a setting for one run
  sockeye --no-config check    without the files

Exit status: 0 success, 1 failure, 2 usage error, or a file or a variable is wrong.";
