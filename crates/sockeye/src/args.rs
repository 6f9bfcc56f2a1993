//! What can be typed. Completions and man pages are made from the same definitions.

use crate::short_json;
use clap::{Args, Command as ClapCommand, CommandFactory, Parser, Subcommand};
use sockeye_listing::{DoctorArgs, FlowOptions, FlowsArgs, SocketsArgs};
use std::ffi::OsString;

/// Shows every connection of this host.
///
/// Without a command it is `sockeye flows`: connections folded into host flows.
#[derive(Debug, Parser)]
#[command(name = "sockeye", version, args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  sockeye -np                            who talks to whom
  sockeye sockets -tlnp                  TCP listeners and their processes
  sockeye sockets -tanp 'sport = :8080'  everything on local port 8080
  sockeye help sockets                   more, and the flags

Exit status: 0 fine, 1 a failure, 2 usage error; `sockeye check --fail-on`: 1 also for a finding, 3 for \
what could not be judged.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) options: RootOptions,
}

/// Options without a command.
#[derive(Debug, Args)]
pub(crate) struct RootOptions {
    #[command(flatten)]
    pub(crate) flows: FlowOptions,
    /// Read no file with settings; before the command
    #[arg(long)]
    pub(crate) no_config: bool,
}

/// Returns the definitions of all commands and options.
pub(crate) fn command() -> ClapCommand {
    short_json::add(Cli::command())
}

/// Returns the definitions by which these words are parsed: of one command only if the first word after the program names one that scripts
/// repeat. Those of all commands take longer to make than such a command to run.
pub(crate) fn command_for(words: &[OsString]) -> ClapCommand {
    let name = words.get(1).and_then(|word| word.to_str());
    match name.and_then(one_command) {
        Some(one) => {
            let root = ClapCommand::new("sockeye").args_conflicts_with_subcommands(true);
            short_json::add(RootOptions::augment_args(root).subcommand(one))
        }
        None => command(),
    }
}

/// Returns the definitions of a command, without `--json`; `None` if they are made with those of all others only.
fn one_command(name: &str) -> Option<ClapCommand> {
    Some(match name {
        "flows" => FlowsArgs::augment_args(ClapCommand::new("flows")),
        "sockets" | "s" => SocketsArgs::augment_args(ClapCommand::new("sockets")).visible_alias("s"),
        "check" => sockeye_check::CheckArgs::augment_args(ClapCommand::new("check")),
        "explain" => sockeye_explain::ExplainArgs::augment_args(ClapCommand::new("explain")),
        "ns" => sockeye_netns::NsArgs::augment_args(ClapCommand::new("ns")),
        _ => return None,
    })
}

/// Replaces `-w SECS` and `-wSECS` of `sockets` by `--watch SECS`. Its `-w` selects RAW sockets, as in ss, and is followed by no number:
/// no filter begins with one. `-w4`, `-w6` and `-w0` are flags of ss: RAW sockets and IPv4, IPv6 or packet sockets.
pub(crate) fn watch_words(mut words: Vec<OsString>) -> Vec<OsString> {
    if !words.get(1).is_some_and(|word| word == "sockets" || word == "s") {
        return words;
    }
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let found = (2..words.len()).find_map(|index| {
        let (letters, attached) = words[index].to_str()?.strip_prefix('-')?.split_once('w')?;
        let are_flags = letters.bytes().all(|letter| letter.is_ascii_alphanumeric());
        let is_seconds = if attached.is_empty() {
            words.get(index + 1)?.to_str().is_some_and(is_number)
        } else {
            // Not `-winf`; `-wn` are flags.
            let begins_with_digit =
                attached.starts_with(|first: char| first.is_ascii_digit() || first == '.');
            begins_with_digit && is_number(attached) && !["0", "4", "6"].contains(&attached)
        };
        (are_flags && is_seconds).then(|| (index, letters.to_owned(), attached.to_owned()))
    });
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    if let Some((index, letters, attached)) = found.filter(|(index, ..)| *index < end) {
        words[index] = "--watch".into();
        if !attached.is_empty() {
            words.insert(index + 1, attached.into());
        }
        if !letters.is_empty() {
            words.insert(index, format!("-{letters}").into());
        }
    }
    words
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Flows(FlowsArgs),
    #[command(visible_alias = "s")]
    Sockets(SocketsArgs),
    Events(Box<sockeye_live::events::EventsArgs>),
    Drops(Box<sockeye_live::drops::DropsArgs>),
    Path(Box<sockeye_path_command::PathArgs>),
    Top(Box<sockeye_top::TopArgs>),
    Check(sockeye_check::CheckArgs),
    Record(sockeye_record::RecordArgs),
    History(sockeye_record::HistoryArgs),
    Capture(sockeye_packets::capture::CaptureArgs),
    Analyze(sockeye_packets::analyze::AnalyzeArgs),
    Graph(sockeye_packets::graph::GraphArgs),
    Bench(sockeye_bench::BenchArgs),
    Demo(sockeye_demo::DemoArgs),
    Prof(Box<sockeye_prof::ProfArgs>),
    Explain(sockeye_explain::ExplainArgs),
    Serve(Box<sockeye_serve::ServeArgs>),
    Export(Box<sockeye_export::ExportArgs>),
    Fleet(sockeye_fleet_command::FleetArgs),
    Ns(sockeye_netns::NsArgs),
    Keepalive(sockeye_actions::keepalive::KeepaliveArgs),
    Kill(sockeye_actions::kill::KillArgs),
    Doctor(DoctorArgs),
    Config(sockeye_config::ConfigArgs),
    /// Sockets, as ss of iproute2 prints them: its options, its output
    #[command(disable_help_flag = true)]
    Ss(ToolArgs),
    /// Sockets, statistics, interfaces and routes, as netstat of net-tools prints them
    #[command(disable_help_flag = true)]
    Netstat(ToolArgs),
    /// Host flows, as lstf prints them
    #[command(disable_help_flag = true)]
    Lstf(ToolArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell to write it for
        shell: clap_complete::Shell,
    },
    /// Print the words that a completion script offers
    #[command(hide = true, disable_help_flag = true)]
    Complete {
        /// With a description behind each word, after a tab
        #[arg(long)]
        described: bool,
        /// The command line without `sockeye`, up to the word at the cursor
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print all options, columns and words of filters
    #[command(hide = true, disable_help_flag = true)]
    Definitions,
    /// Write the manual pages into a folder
    Man {
        /// The folder; it has to exist
        folder: std::path::PathBuf,
    },
}

/// What a tool is called with that we stand in for. It reads them itself.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    /// Its own options; --help lists them
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let words = line.split(' ').map(OsString::from).collect();
        let expected: Vec<OsString> = expected.split(' ').map(OsString::from).collect();
        assert_eq!(watch_words(words), expected);
    }

    #[test]
    fn definitions_of_one_command_are_those_among_all() {
        let options = |command: &ClapCommand| format!("{:?}", command.get_arguments().collect::<Vec<_>>());
        let all = command();
        for name in ["flows", "sockets", "s", "check", "explain", "ns"] {
            let mut of_all = all.find_subcommand(name).unwrap().clone();
            let words = ["sockeye", name].map(OsString::from);
            let pruned = command_for(&words);
            assert_eq!(pruned.get_subcommands().count(), 1, "{name}");
            let mut of_one = pruned.find_subcommand(name).unwrap().clone();
            assert_eq!(options(&of_one), options(&of_all), "{name}");
            let names = |command: &ClapCommand| -> Vec<String> {
                command.get_all_aliases().map(str::to_owned).collect()
            };
            assert_eq!(names(&of_one), names(&of_all), "{name}");
            let (of_one, of_all) = (of_one.render_long_help(), of_all.render_long_help());
            assert_eq!(of_one.to_string(), of_all.to_string(), "{name}");
        }
        // Only the places in the help of the root differ, which is made with all commands.
        let names = |command: &ClapCommand| {
            let names = command
                .get_arguments()
                .map(|arg| format!("{} {:?} {:?}", arg.get_id(), arg.get_long(), arg.get_short()));
            names.collect::<Vec<_>>()
        };
        let words = ["sockeye", "flows"].map(OsString::from);
        assert_eq!(names(&command_for(&words)), names(&all));
        for more in ["help", "top", "-np", "flow"] {
            let words = ["sockeye", more].map(OsString::from);
            assert!(command_for(&words).get_subcommands().count() > 20, "{more}");
        }
    }

    #[test]
    fn number_makes_w_of_sockets_watch() {
        check("sockeye sockets -w 2", "sockeye sockets --watch 2");
        check("sockeye s -tnw 0.5 -c 2", "sockeye s -tn --watch 0.5 -c 2");
        check("sockeye sockets -w1 -c 2", "sockeye sockets --watch 1 -c 2");
        check("sockeye s -tnw0.5", "sockeye s -tn --watch 0.5");
        check("sockeye s -w10", "sockeye s --watch 10");
        for same in [
            "sockeye sockets -w",
            "sockeye sockets -w sport = :22",
            "sockeye sockets -w4",
            "sockeye sockets -wn",
            "sockeye sockets -winf",
            "sockeye flows -w2",
            "sockeye flows -w 2",
            "sockeye kill -w 2",
            "sockeye sockets --raw 2",
            "sockeye sockets -- -w 2",
        ] {
            check(same, same);
        }
    }
}
