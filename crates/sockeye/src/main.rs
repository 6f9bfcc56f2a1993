//! `sockeye`: what was typed, what it means, and running it.

mod args;
mod completion;
mod definitions;
mod manual;
mod settings;
mod short_json;

use args::{Cli, Command};
use clap::CommandFactory;
use clap::error::{ContextKind, ErrorKind};
use settings::{Parsed, Stop};
use sockeye_console::exit::report;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_dropins::Tool;
use sockeye_filter::words;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some((tool, rest)) = Tool::from_command_line(&words) {
        return match stdout::check_open() {
            Ok(()) => tool.run(rest),
            Err(error) => report(&error),
        };
    }
    let outcome = match settings::parse(words) {
        // First of all: an action whose result cannot be shown is not begun.
        Ok(parsed) => check_output(&parsed).and_then(|()| run(parsed)),
        Err(Stop::Message(message, words)) => print_message(*message, &words).map(|()| ExitCode::SUCCESS),
        Err(Stop::Error(error)) => Err(error),
    };
    outcome.unwrap_or_else(|error| report(&error))
}

/// Checks that output can be shown, but for a command that writes none: a service may be started without.
fn check_output(parsed: &Parsed) -> anyhow::Result<()> {
    match parsed.cli.command {
        Some(Command::Record(_)) => Ok(()),
        _ => stdout::check_open(),
    }
}

fn run(parsed: Parsed) -> anyhow::Result<ExitCode> {
    let Parsed { cli, configuration } = parsed;
    match cli.command {
        None => sockeye_listing::all_flows(&cli.options.flows),
        Some(Command::Flows(args)) => sockeye_listing::flows(&args),
        Some(Command::Sockets(args)) => return sockeye_listing::sockets(&args),
        Some(Command::Doctor(args)) => sockeye_listing::doctor(&args),
        Some(Command::Events(args)) => sockeye_live::events::run(&args),
        Some(Command::Drops(args)) => return sockeye_live::drops::run(&args),
        Some(Command::Path(args)) => sockeye_path_command::run(&args),
        Some(Command::Top(args)) => sockeye_top::run(*args),
        Some(Command::Record(args)) => sockeye_record::record(&args),
        Some(Command::History(args)) => sockeye_record::history(&args, sockeye_top::replay),
        Some(Command::Config(args)) => sockeye_config::run(&args, &configuration),
        Some(Command::Check(args)) => {
            return sockeye_check::run(&args, &settings::thresholds(&configuration));
        }
        Some(Command::Capture(args)) => return sockeye_packets::capture::run(&args),
        Some(Command::Analyze(args)) => return sockeye_packets::analyze::run(&args),
        Some(Command::Graph(args)) => return sockeye_packets::graph::run(&args),
        Some(Command::Bench(args)) => return sockeye_bench::run(&args, &sockeye_iperf3::Iperf3),
        Some(Command::Demo(args)) => return sockeye_demo::run(&args),
        Some(Command::Explain(args)) => return sockeye_explain::run(&args),
        Some(Command::Serve(args)) => sockeye_serve::run(*args),
        Some(Command::Export(args)) => sockeye_export::run(&args),
        Some(Command::Fleet(args)) => sockeye_fleet_command::run(&args),
        Some(Command::Prof(args)) => return sockeye_prof::run(&args),
        Some(Command::Ns(args)) => return sockeye_netns::run(&args),
        Some(Command::Keepalive(args)) => return sockeye_actions::keepalive::run(&args),
        Some(Command::Kill(args)) => return sockeye_actions::kill::run(&args),
        Some(Command::Ss(args)) => return Ok(Tool::Ss.run(&args.words)),
        Some(Command::Netstat(args)) => return Ok(Tool::Netstat.run(&args.words)),
        Some(Command::Lstf(args)) => return Ok(Tool::Lstf.run(&args.words)),
        Some(Command::Completions { shell }) => completion::script(shell),
        Some(Command::Complete { described, words }) => completion::words(&words, described),
        Some(Command::Definitions) => definitions::print(),
        Some(Command::Man { folder }) => manual::write(&folder),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Help and version are output like any other, with its full disks and closed pipes; a usage error is
/// worded as our own messages are.
fn print_message(mut message: clap::Error, words: &[OsString]) -> anyhow::Result<()> {
    if !message.use_stderr() {
        return stdout::write(message.render().to_string().as_bytes());
    }
    if message.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // `sockeye bench`: help, and the status of a usage error.
        return Err(UsageError(message.render().to_string()).into());
    }
    // A filter begins with no flag: `-- -S` is no remedy for a flag that we lack.
    message.remove(ContextKind::Suggested);
    let value = words.get(1).map(|word| word.to_string_lossy());
    if value.is_some_and(|word| words::condition_for(&word).is_some()) {
        // `listen` is a state rather than a typo of a command.
        message.remove(ContextKind::SuggestedSubcommand);
    }
    let mut text = message.render().to_string();
    let is_misplaced = matches!(
        message.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict
    );
    let words: Vec<String> = words
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let is_command = |word: &String| Cli::command().find_subcommand(word).is_some();
    let is_condition = words
        .get(1)
        .is_some_and(|word| OPERATORS.contains(&word.as_str()));
    let has_similar = text.contains("similar subcommand") && !is_condition;
    if is_misplaced && !words.first().is_some_and(is_command) && !has_similar {
        text.push_str(&misplaced_filter(&words));
    }
    if message.kind() == ErrorKind::UnknownArgument {
        text.push_str(&unknown_flag(&words, is_command));
    }
    if message.kind() == ErrorKind::UnknownArgument && words.iter().any(|word| word == "--no-config") {
        text.push_str("\n--no-config belongs before the command: sockeye --no-config ...\n");
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Err(UsageError(format!("sockeye: {text}")).into())
}

/// The hint for a flag that the command does not have; empty if there is none.
fn unknown_flag(words: &[String], is_command: impl Fn(&String) -> bool) -> String {
    let has_format = |word: &&String| ["--json", "--csv", "--jsonl"].contains(&word.as_str());
    if let Some(format) = words.iter().find(has_format) {
        return if format == "--json" {
            "\nThis command has no JSON.\n".to_owned()
        } else {
            format!("\nIf this command has that format: --format {}\n", &format[2..])
        };
    }
    let are_letters =
        |word: &String| word.len() > 1 && word[1..].bytes().all(|byte| byte.is_ascii_alphabetic());
    match words {
        // As ss is called.
        [flags, rest @ ..]
            if flags.starts_with('-') && are_letters(flags) && !rest.iter().any(is_command) =>
        {
            format!("\nFlags of ss: sockeye sockets {}\n", words.join(" "))
        }
        _ => String::new(),
    }
}

/// The command that was probably meant by words without a command: a port, an address, the name or pid of a process, a filter.
fn misplaced_filter(words: &[String]) -> String {
    let is_flag = |word: &&String| word.starts_with('-');
    let wants_owners = words
        .iter()
        .take_while(is_flag)
        .any(|word| word == "-p" || word == "--processes");
    let rest: Vec<&str> = words.iter().skip_while(is_flag).map(String::as_str).collect();
    let filter = match rest.as_slice() {
        [pid] if wants_owners && pid.bytes().all(|byte| byte.is_ascii_digit()) => format!("pid = {pid}"),
        [word] => match word.strip_prefix(':').unwrap_or(word).parse::<u16>() {
            Ok(port) => format!("sport = :{port} or dport = :{port}"),
            Err(_) if word.parse::<std::net::IpAddr>().is_ok() => format!("src {word} or dst {word}"),
            Err(_) => words::condition_for(word).unwrap_or_else(|| {
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                if word.bytes().all(is_name) {
                    format!("owner = {word}")
                } else {
                    "FILTER".to_owned()
                }
            }),
        },
        ["process" | "program" | "command" | "comm", rest @ ..] if !rest.is_empty() => {
            format!("owner {}", rest.join(" "))
        }
        [_, operator, ..] if OPERATORS.contains(operator) => rest.join(" "),
        _ => "FILTER".to_owned(),
    };
    let quoted = if filter == "FILTER" {
        filter
    } else {
        format!("'{filter}'")
    };
    format!(
        "\nA filter belongs behind its command: sockeye sockets -ap {quoted}, or sockeye flows -p {quoted}\n"
    )
}

/// Operators of filters: what is before and behind one is a condition.
const OPERATORS: [&str; 7] = ["=", "==", "!=", "<", ">", "<=", ">="];
