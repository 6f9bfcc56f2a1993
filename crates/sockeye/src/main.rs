//! `sockeye`: what was typed, what it means, and running it.

mod args;
mod completion;
mod definitions;
mod manual;
mod short_json;

use args::{Cli, Command};
use clap::error::{ContextKind, ErrorKind};
use sockeye_console::exit::report;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_dropins::Tool;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some((tool, rest)) = Tool::from_command_line(&words) {
        return match stdout::check_open() {
            Ok(()) => tool.run(rest),
            Err(error) => report(&error),
        };
    }
    let outcome = match args::parse() {
        // First of all: an action whose result cannot be shown is not begun.
        Ok(cli) => stdout::check_open().and_then(|()| run(cli)),
        Err(message) => print_message(message).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| report(&error))
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        None => sockeye_listing::all_flows(&cli.flows),
        Some(Command::Flows(args)) => sockeye_listing::flows(&args),
        Some(Command::Sockets(args)) => return sockeye_listing::sockets(&args),
        Some(Command::Doctor(args)) => sockeye_listing::doctor(&args),
        Some(Command::Check(args)) => return sockeye_check::run(&args),
        Some(Command::Capture(args)) => return sockeye_packets::capture::run(&args),
        Some(Command::Analyze(args)) => return sockeye_packets::analyze::run(&args),
        Some(Command::Graph(args)) => return sockeye_packets::graph::run(&args),
        Some(Command::Bench(args)) => return sockeye_bench::run(&args, &sockeye_iperf3::Iperf3),
        Some(Command::Explain(args)) => return sockeye_explain::run(&args),
        Some(Command::Prof(args)) => return sockeye_prof::run(&args),
        Some(Command::Ns(args)) => return sockeye_netns::run(&args),
        Some(Command::Keepalive(args)) => return sockeye_actions::keepalive::run(&args),
        Some(Command::Kill(args)) => return sockeye_actions::kill::run(&args),
        Some(Command::Ss(args)) => return Ok(Tool::Ss.run(&args.words)),
        Some(Command::Netstat(args)) => return Ok(Tool::Netstat.run(&args.words)),
        Some(Command::Lstf(args)) => return Ok(Tool::Lstf.run(&args.words)),
        Some(Command::Completions { shell }) => completion::script(shell),
        Some(Command::Complete { words }) => completion::words(&words),
        Some(Command::Definitions) => definitions::print(),
        Some(Command::Man { folder }) => manual::write(&folder),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Help and version are output like any other, with its full disks and closed pipes; a usage error is
/// worded as our own messages are.
fn print_message(mut message: clap::Error) -> anyhow::Result<()> {
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
    Err(UsageError(format!("sockeye: {text}")).into())
}
