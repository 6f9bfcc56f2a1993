//! `sockeye prof`: where the time of processes goes.

mod args;
mod difference;
mod gather;
mod live;
pub mod output;
mod picture;
#[cfg(test)]
mod tests;

pub use args::ProfArgs;

use crate::output::{push_profile, write_folded};
use anyhow::Context;
use args::Target;
use gather::{Ended, gather};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_observe::Launched;
use sockeye_output::{Format, ReportLayout};
use sockeye_profile::{Profile, ReportOptions};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Profiles processes and reports where their time goes.
///
/// # Errors
/// If an option is wrong, nothing could be observed, or output failed.
pub fn run(args: &ProfArgs) -> anyhow::Result<ExitCode> {
    match args.target()? {
        Target::Difference(a, b) => difference::run(args, a, b),
        target => {
            // What could not be written is known before anybody is looked at.
            let picture = picture::prepare(args)?;
            let gathered = match gather(args, &target) {
                Ok(gathered) => gathered,
                Err(Ended::NotStarted(code)) => return Ok(code),
                Err(Ended::Error(error)) => return Err(error),
            };
            let code = tell(args, &gathered.profile)?;
            if let Some(picture) = picture {
                picture::draw(args, &gathered.profile, picture)?;
            }
            Ok(match gathered.command {
                Some(command) => of_command(command, code),
                None => code,
            })
        }
    }
}

/// The exit status of the command, which is waited for if it is still there; that of ours if that is worse.
fn of_command(mut command: Launched, ours: ExitCode) -> ExitCode {
    match command.wait().map(Launched::exit_code) {
        Ok(0) | Err(_) => ours,
        Ok(code) => ExitCode::from(code),
    }
}

/// Tells a profile on the standard output; exit status 1 if it is only a part.
fn tell(args: &ProfArgs, profile: &Profile) -> anyhow::Result<ExitCode> {
    if args.top.is_some() {
        // It was told while it was gathered.
    } else if args.folded {
        let mut out = BufWriter::with_capacity(1 << 16, stdout::open().context(stdout::WRITING)?);
        // There is no room for it among the stacks.
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

fn view(args: &ProfArgs) -> ReportOptions {
    ReportOptions {
        rows: args.rows.unwrap_or(match args.form() {
            Format::Table => ReportOptions::ROWS,
            Format::Json | Format::Jsonl | Format::Csv => 0,
        }),
        by_process: args.by.is_some(),
        ..ReportOptions::default()
    }
}

fn layout(args: &ProfArgs) -> ReportLayout {
    ReportLayout {
        format: args.form(),
        style: stdout::style(args.color),
        width: stdout::width(),
        no_header: args.no_header,
    }
}
