//! Observes processes, prints the report and returns the exit status, which is the command's if there is one. `sockeye::main` calls it.

use crate::args::{ProfArgs, Target};
use crate::collect::{CollectError, collect};
use crate::layout::{layout, view};
use crate::output::{push_profile, write_folded};
use crate::{diff, flame_file};
use anyhow::Context;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_observe::Launched;
use sockeye_profile::Profile;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Profiles processes and reports where their time goes.
///
/// # Errors
/// If an option is wrong, nothing could be observed, or output failed.
pub fn run(args: &ProfArgs) -> anyhow::Result<ExitCode> {
    match args.target()? {
        Target::Difference(a, b) => diff::run(args, a, b),
        target => {
            // A file that cannot be written fails before the command starts.
            let flame_file = flame_file::create(args)?;
            let collected = match collect(args, &target) {
                Ok(collected) => collected,
                Err(CollectError::CommandNotStarted(code)) => return Ok(code),
                Err(CollectError::Other(error)) => return Err(error),
            };
            let code = write_report(args, &collected.profile);
            // Also if standard output is a terminal that is gone, or a pipe without a reader.
            let drawn = flame_file.map(|file| flame_file::draw(args, &collected.profile, file));
            let code = code?;
            drawn.transpose()?;
            if collected.command.is_some() && args.output.is_none() && stdout::is_dev_null() {
                notes::say(
                    "sockeye: prof: the profile went to the standard output, which is /dev/null; what the command prints goes to stderr: \
                     2>/dev/null hides that\n",
                );
            }
            Ok(match collected.command {
                Some(command) => wait_for_command(command, code),
                None => code,
            })
        }
    }
}

/// Waits for the command's end and returns its exit status, or ours if the command succeeded.
fn wait_for_command(mut command: Launched, ours: ExitCode) -> ExitCode {
    match command.wait().map(Launched::exit_code) {
        Ok(0) | Err(_) => ours,
        Ok(code) => ExitCode::from(code),
    }
}

/// Writes a profile to the standard output; exit status 1 if it is only a part.
fn write_report(args: &ProfArgs, profile: &Profile) -> anyhow::Result<ExitCode> {
    if args.watch.is_some() {
        // It was written while it was collected.
    } else if args.folded {
        let mut out = BufWriter::with_capacity(1 << 16, stdout::open().context(stdout::WRITING)?);
        // Folded stacks have no place for it.
        for missing in &profile.missing {
            let remedy = missing.remedy.as_deref().map(|remedy| format!("; {remedy}"));
            notes::say(&format!(
                "sockeye: {}{}\n",
                missing.text,
                remedy.unwrap_or_default()
            ));
        }
        write_folded(&mut out, profile, args.stacks())
            .and_then(|()| out.flush())
            .context(stdout::WRITING)?;
    } else {
        let mut text = Vec::new();
        push_profile(&mut text, profile, &view(args), layout(args));
        stdout::write(&text)?;
    }
    Ok(if profile.partial.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
