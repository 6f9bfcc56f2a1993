//! `sockeye keepalive`: who asks a silent peer whether it is still there, and having it done.

mod attach;
mod attached;
mod change;
mod guard;
mod list;
mod reach;
mod run;
mod set;
mod spell;
mod summary;
mod system;
pub(crate) mod times;
mod unset;

use clap::{Args, Subcommand};
use sockeye_model::{Protocol, ProtocolSet, StateSet};
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_source::Detail;
use std::process::ExitCode;

/// TCP keepalive: who has it; set it without a restart, give it to new connections
#[derive(Debug, Args)]
pub struct KeepaliveArgs {
    #[command(subcommand)]
    command: KeepaliveCommand,
}

#[derive(Debug, Subcommand)]
enum KeepaliveCommand {
    #[command(visible_aliases = ["ls", "show"])]
    List(list::ListArgs),
    Set(set::SetArgs),
    Unset(unset::UnsetArgs),
    Run(run::RunArgs),
    Attach(attach::AttachArgs),
    Detach(attach::DetachArgs),
    Attached(attached::AttachedArgs),
    #[command(hide = true)]
    Guard(guard::GuardArgs),
}

/// Lists or changes keepalive of running sockets.
///
/// # Errors
/// If an option is wrong or nothing could be changed.
pub fn run(args: &KeepaliveArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        KeepaliveCommand::List(args) => list::run(args),
        KeepaliveCommand::Set(args) => set::run(args),
        KeepaliveCommand::Unset(args) => unset::run(args),
        KeepaliveCommand::Run(args) => run::run(args),
        KeepaliveCommand::Attach(args) => attach::attach(args),
        KeepaliveCommand::Detach(args) => attach::detach(args),
        KeepaliveCommand::Attached(args) => attached::run(args).map(|()| ExitCode::SUCCESS),
        KeepaliveCommand::Guard(args) => guard::run(args).map(|()| ExitCode::SUCCESS),
    }
}

/// TCP sockets that the filter names; connected ones, unless it names states.
fn ask(listing: &Listing<'_>, idle: bool) -> QueryOptions {
    let filter = listing.filter();
    QueryOptions {
        protocols: ProtocolSet::of(&[Protocol::Tcp]).retain(|protocol| filter.may_match(protocol)),
        families: listing.families(),
        states: filter.states().unwrap_or(StateSet::SS_DEFAULT),
        detail: Detail::TIMER | Detail::INODE | Detail::TCP_INFO.when(idle),
        scope: Scope::Matching,
    }
}
