//! `sockeye ns`: network namespaces, by the thousand.

mod add;
mod del;
mod exec;
mod guard;
mod identify;
mod list;
mod monitor;
mod notes;
mod one;
pub mod output;
mod pids;
mod spell;
#[cfg(test)]
mod tests;
mod workers;

use anyhow::Context;
use clap::{Args, Subcommand};
use sockeye_console::usage::UsageError;
use sockeye_model::NetnsName;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// Network namespaces by the thousand: make, delete, list, run programs in them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct NsArgs {
    /// `list` without one.
    #[command(subcommand)]
    command: Option<NsCommand>,
}

#[derive(Debug, Subcommand)]
enum NsCommand {
    #[command(visible_aliases = ["ls", "show"])]
    List(list::ListArgs),
    Add(add::AddArgs),
    Del(del::DelArgs),
    Attach(one::AttachArgs),
    Set(one::SetArgs),
    #[command(hide = true)]
    Guard(guard::GuardArgs),
    Exec(exec::ExecArgs),
    Pids(pids::PidsArgs),
    Identify(identify::IdentifyArgs),
    Monitor(monitor::MonitorArgs),
}

/// Names of the columns of `ns list`, which are its sort keys too, for completion.
pub fn namespace_columns() -> impl Iterator<Item = &'static str> {
    use sockeye_output::listing::Record;
    output::Namespaces::columns().iter().map(|column| column.name)
}

/// Manages network namespaces.
///
/// # Errors
/// If an option is wrong or the action failed.
pub fn run(args: &NsArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list::run(&list::ListArgs::default()).map(done),
        Some(NsCommand::List(args)) => list::run(args).map(done),
        Some(NsCommand::Add(args)) => add::run(args),
        Some(NsCommand::Del(args)) => del::run(args),
        Some(NsCommand::Attach(args)) => one::attach(args).map(done),
        Some(NsCommand::Set(args)) => one::set(args).map(done),
        Some(NsCommand::Guard(args)) => guard::run(args).map(done),
        Some(NsCommand::Exec(args)) => exec::run(args),
        Some(NsCommand::Pids(args)) => pids::run(args),
        Some(NsCommand::Identify(args)) => identify::run(args),
        Some(NsCommand::Monitor(args)) => monitor::run(args),
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

/// A name that somebody typed for a namespace there is.
fn existing(name: &OsStr) -> Result<NetnsName, UsageError> {
    NetnsName::of_file(name).map_err(|bad| bad_name(name, bad))
}

/// A name that somebody typed for a namespace there shall be.
fn new_name(name: OsString) -> Result<NetnsName, UsageError> {
    NetnsName::new(name.clone()).map_err(|bad| bad_name(&name, bad))
}

/// Every name there is, or those that begin so, in their natural order.
fn all_names(prefix: Option<&OsStr>) -> anyhow::Result<Vec<NetnsName>> {
    if let Some(prefix) = prefix {
        refuse_empty(prefix)?;
    }
    let all =
        sockeye_source::netns::names().with_context(|| format!("read the folder {}", NetnsName::FOLDER))?;
    let prefix = prefix.unwrap_or_default().as_encoded_bytes();
    let meant = all
        .into_iter()
        .filter(|name| name.as_encoded_bytes().starts_with(prefix));
    // What a folder holds has a name of a file.
    Ok(meant.filter_map(|name| NetnsName::of_file(name).ok()).collect())
}

/// Whoever types `--prefix "$P"` with no `P` does not mean all.
fn refuse_empty(prefix: &OsStr) -> Result<(), UsageError> {
    if prefix.is_empty() {
        return Err(UsageError(
            "sockeye: --prefix is empty; --all means all, where that is an option\n".to_owned(),
        ));
    }
    Ok(())
}

fn bad_name(name: &OsStr, bad: sockeye_model::InvalidNetnsName) -> UsageError {
    UsageError(format!(
        "sockeye: {name:?} is no name of a network namespace: {bad}\n"
    ))
}

const EXAMPLES: &str = "\
Examples:
  sockeye ns list                            every namespace, and who lives in it
  sockeye ns add --prefix web --count 2000   web0 to web1999";
