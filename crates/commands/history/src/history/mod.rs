//! `sockeye history`: answers from what was recorded.

mod args;
mod counts;
mod diff;
mod export;
mod findings;
mod list;
mod point_plan;
mod timeline;
mod top;
mod unseen;

pub use args::HistoryArgs;

use args::Command;
use sockeye_query::args::ReplayArgs;
use sockeye_query::past;

/// Answers. `replay` plays recorded time: it is the screen of another command.
///
/// # Errors
/// If an option is wrong, nothing is recorded, or output failed.
pub fn run(args: &HistoryArgs, replay: impl FnOnce(&ReplayArgs) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let store = args.command.store();
    let answered = match &args.command {
        Command::List(args) => list::run(args),
        Command::Top(args) => top::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Timeline(args) => timeline::run(args),
        Command::Findings(args) => findings::run(args),
        Command::Counts(args) => counts::run(args),
        Command::Export(args) => export::run(args),
        Command::Replay(args) => replay(args),
    };
    past::name_store(store, answered)
}
