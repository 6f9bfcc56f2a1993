//! `sockeye config`: prints the settings in force.

use crate::args::{ConfigArgs, ConfigFormat};
use crate::configuration::Configuration;
use crate::output;
use sockeye_console::usage::UsageError;
use sockeye_console::{envelope, stdout};

/// Prints the settings, also if there is an error.
///
/// # Errors
/// If a file or a variable is wrong, or output failed.
pub fn run(args: &ConfigArgs, configuration: &Configuration) -> anyhow::Result<()> {
    let text = match args.format {
        ConfigFormat::Table => output::table(configuration, args.changed).into_bytes(),
        ConfigFormat::Json | ConfigFormat::Jsonl => {
            output::json(configuration, args.changed, &envelope::now())
        }
    };
    stdout::write(&text)?;
    match configuration.error() {
        Some(error) => Err(UsageError(error).into()),
        None => Ok(()),
    }
}
