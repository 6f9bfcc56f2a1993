//! What can be typed. Completions and man pages are made from the same definitions.

use crate::short_json;
use clap::{Args, Command as ClapCommand, CommandFactory, Parser, Subcommand};
use sockeye_listing::{DoctorArgs, FlowOptions, FlowsArgs, SocketsArgs};

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
    pub(crate) flows: FlowOptions,
    /// Read no file with settings; before the command
    #[arg(long)]
    pub(crate) no_config: bool,
}

/// Returns the definitions of all commands and options.
pub(crate) fn command() -> ClapCommand {
    short_json::add(Cli::command())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Flows(FlowsArgs),
    #[command(visible_alias = "s")]
    Sockets(SocketsArgs),
    Check(sockeye_check::CheckArgs),
    Capture(sockeye_packets::capture::CaptureArgs),
    Analyze(sockeye_packets::analyze::AnalyzeArgs),
    Graph(sockeye_packets::graph::GraphArgs),
    Bench(sockeye_bench::BenchArgs),
    Demo(sockeye_demo::DemoArgs),
    Prof(Box<sockeye_prof::ProfArgs>),
    Explain(sockeye_explain::ExplainArgs),
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
    pub(crate) words: Vec<std::ffi::OsString>,
}
