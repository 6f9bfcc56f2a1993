//! `sockeye fleet`: what many hosts have sent by `sockeye export clickhouse`: its tables, and answers from them.
//!
//! - `schema`: prints or creates the tables
//! - `ask`: one question, its rows, and the listing of them; `server`: whom it asks
//! - `notes`: why an answer has no rows, or what is not known of a host
//! - `output/`: the columns of each answer; pure
//!
//! What it deliberately does not do: send (`export` does), keep anything, join rows: `sockeye_fleet::question` folds both ends first.

mod args;
mod ask;
mod notes;
mod output;
mod schema;
mod server;

pub use args::FleetArgs;

use args::Command;

/// Answers.
///
/// # Errors
/// If an option is wrong, the server does not answer, or output failed.
pub fn run(args: &FleetArgs) -> anyhow::Result<()> {
    match &args.command {
        Command::Schema(args) => schema::run(args),
        Command::Hosts(args) => ask::hosts(args),
        Command::Who(args) => ask::who(args),
        Command::At(args) => ask::at(args),
        Command::Map(args) => ask::map(args),
        Command::Findings(args) => ask::findings(args),
        Command::Blame(args) => ask::blame(args),
    }
}
