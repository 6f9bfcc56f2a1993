//! The subcommands of `sockeye keepalive`; the arguments of each are in its own file.

use super::{attach, attached, exec, guard, list, set, unset};
use clap::{Args, Subcommand};

/// TCP keepalive: list it, set it without a restart, give it to new connections
#[derive(Debug, Args)]
pub struct KeepaliveArgs {
    #[command(subcommand)]
    pub(super) command: KeepaliveCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum KeepaliveCommand {
    #[command(visible_aliases = ["ls", "show"])]
    List(list::ListArgs),
    Set(set::SetArgs),
    Unset(unset::UnsetArgs),
    Run(exec::RunArgs),
    Attach(attach::AttachArgs),
    Detach(attach::DetachArgs),
    Attached(attached::AttachedArgs),
    #[command(hide = true)]
    Guard(guard::GuardArgs),
}
