//! `sockeye`: what was typed, what it means, and running it.

mod args;
mod doctor;
mod flows;
mod generate;
mod listing;
mod lookup;
mod notes;
mod places;
mod sockets;
mod stdout;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        None => flows::run(&cli.flows, &[]),
        Some(Command::Flows(args)) => flows::run(&args.options, &args.filter),
        Some(Command::Sockets(args)) => sockets::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Completions { shell }) => generate::completions(shell),
        Some(Command::Man { folder }) => generate::manual(&folder),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Says what failed and chooses the exit status.
fn report(error: &anyhow::Error) -> ExitCode {
    if stdout::is_closed_pipe(error) {
        // Who read our output has had enough, as in `sockeye sockets | head`.
        return ExitCode::SUCCESS;
    }
    if let Some(usage) = error.downcast_ref::<listing::Usage>() {
        notes::say(&usage.0);
        return ExitCode::from(2);
    }
    notes::say(&format!("sockeye: {error:#}\n"));
    ExitCode::FAILURE
}
