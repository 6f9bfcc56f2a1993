//! Calls the subcommand of `sockeye ns` that the command line names. `sockeye::main` calls it.

use crate::args::{ListArgs, NsArgs, NsCommand};
use crate::{add, attach, del, exec, guard, identify, list, monitor, pids};
use std::process::ExitCode;

/// Runs `sockeye ns`.
///
/// # Errors
/// If an option is wrong or the action failed.
pub fn run(args: &NsArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list::run(&ListArgs::default())?,
        Some(NsCommand::List(args)) => list::run(args)?,
        Some(NsCommand::Add(args)) => return add::run(args),
        Some(NsCommand::Del(args)) => return del::run(args),
        Some(NsCommand::Attach(args)) => attach::attach(args)?,
        Some(NsCommand::Set(args)) => attach::set(args)?,
        Some(NsCommand::Guard(args)) => guard::run(args)?,
        Some(NsCommand::Exec(args)) => return exec::run(args),
        Some(NsCommand::Pids(args)) => pids::run(args)?,
        Some(NsCommand::Identify(args)) => identify::run(args)?,
        Some(NsCommand::Monitor(args)) => monitor::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
