//! Calls the subcommand of `sockeye keepalive` that the command line names. `sockeye::main` calls it.

use super::args::{KeepaliveArgs, KeepaliveCommand};
use super::{attach, attached, exec, guard, list, set, unset};
use std::process::ExitCode;

/// Lists or changes keepalive of running sockets.
///
/// # Errors
/// If an option is wrong or nothing could be changed.
pub fn run(args: &KeepaliveArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        KeepaliveCommand::List(args) => list::run(args),
        KeepaliveCommand::Set(args) => set::run(args),
        KeepaliveCommand::Unset(args) => unset::run(args),
        KeepaliveCommand::Run(args) => exec::run(args),
        KeepaliveCommand::Attach(args) => attach::attach(args),
        KeepaliveCommand::Detach(args) => attach::detach(args),
        KeepaliveCommand::Attached(args) => attached::run(args).map(|()| ExitCode::SUCCESS),
        KeepaliveCommand::Guard(args) => guard::run(args).map(|()| ExitCode::SUCCESS),
    }
}
