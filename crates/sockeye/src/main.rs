//! `sockeye`: what was typed, what it means, and running it.

mod analyze;
mod args;
mod bench;
mod capture;
mod cgroup;
mod check;
mod consent;
mod deed;
mod doctor;
mod dropin;
mod explain;
mod flows;
mod generate;
mod getopt;
mod graph;
mod keepalive;
mod kill;
mod listing;
mod lookup;
mod lstf;
mod netstat;
mod notes;
mod ns;
mod places;
mod prof;
mod program;
mod progress;
mod replacement;
mod rooms;
mod run;
mod sockets;
mod ss;
mod stdout;
mod targets;
mod usage;
mod values;

use args::{Cli, Command};
use clap::Parser;
use clap::error::{ContextKind, ErrorKind};
use dropin::Tool;
use std::process::ExitCode;
use usage::Usage;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some((tool, rest)) = Tool::called(&words) {
        return tool.run(rest);
    }
    let outcome = match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(message) => tell(message).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| report(&error))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        None => flows::run(&cli.flows, &[]),
        Some(Command::Flows(args)) => flows::run(&args.options, &args.filter),
        Some(Command::Sockets(args)) => sockets::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Check(args)) => return check::run(&args),
        Some(Command::Capture(args)) => return capture::run(&args),
        Some(Command::Analyze(args)) => return analyze::run(&args),
        Some(Command::Graph(args)) => return graph::run(&args),
        Some(Command::Bench(args)) => return bench::run(&args),
        Some(Command::Explain(args)) => return explain::run(&args),
        Some(Command::Prof(args)) => return prof::run(&args),
        Some(Command::Ns(args)) => return ns::run(&args),
        Some(Command::Keepalive(args)) => return keepalive::run(&args),
        Some(Command::Kill(args)) => return kill::run(&args),
        Some(Command::Ss(args)) => return Ok(Tool::Ss.run(&args.words)),
        Some(Command::Netstat(args)) => return Ok(Tool::Netstat.run(&args.words)),
        Some(Command::Lstf(args)) => return Ok(Tool::Lstf.run(&args.words)),
        Some(Command::Completions { shell }) => generate::completions(shell),
        Some(Command::Man { folder }) => generate::manual(&folder),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Help and version are output like any other, with its full disks and closed pipes; a mistake is told in
/// our own voice.
fn tell(mut message: clap::Error) -> anyhow::Result<()> {
    if !message.use_stderr() {
        return stdout::write(message.render().to_string().as_bytes());
    }
    // A filter begins with no flag: `-- -S` is no remedy for a flag that we lack.
    message.remove(ContextKind::Suggested);
    let mut text = message.render().to_string();
    let misplaced = matches!(
        message.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict
    );
    // Other commands take no filter, or take it elsewhere.
    let others = [
        "bench",
        "prof",
        "explain",
        "analyze",
        "graph",
        "ns",
        "keepalive",
        "kill",
        "capture",
    ];
    let first = std::env::args_os().nth(1);
    let is_listing = first.is_none_or(|word| others.iter().all(|other| word != *other));
    if misplaced && is_listing && !text.contains("similar subcommand") {
        text.push_str(
            "\nA filter belongs behind its command: sockeye flows FILTER, sockeye sockets FILTER.\n",
        );
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Err(Usage(format!("sockeye: {text}")).into())
}

/// Says what failed and chooses the exit status.
fn report(error: &anyhow::Error) -> ExitCode {
    if stdout::is_closed_pipe(error) {
        // Who read our output has had enough, as in `sockeye sockets | head`.
        return ExitCode::SUCCESS;
    }
    if let Some(usage) = error.downcast_ref::<Usage>() {
        notes::say(&usage.0);
        return ExitCode::from(2);
    }
    notes::say(&format!("sockeye: {error:#}\n"));
    ExitCode::FAILURE
}
