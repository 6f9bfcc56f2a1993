//! Arguments of `sockeye ns` and its subcommands.

use clap::{Args, FromArgMatches, Subcommand, ValueEnum};
use sockeye_act::netns::Subnet;
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_query::args::SourceArg;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Manage network namespaces, many at once: list, create and delete them, run programs in them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct NsArgs {
    /// `None`: `list`.
    #[command(subcommand)]
    pub(crate) command: Option<NsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NsCommand {
    #[command(visible_aliases = ["ls", "show"])]
    List(ListArgs),
    Add(AddArgs),
    Del(DelArgs),
    Attach(AttachArgs),
    Set(SetArgs),
    #[command(hide = true)]
    Guard(GuardArgs),
    Exec(ExecArgs),
    Pids(PidsArgs),
    Identify(IdentifyArgs),
    Monitor(MonitorArgs),
}

/// List network namespaces: with and without a name, with and without processes
///
/// They are found by their names, by processes and threads, by open descriptors and by mounts in every mount namespace;
/// with BPF also those that only sockets hold.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Print only the names, one per line
    #[arg(short = '1', long)]
    pub(crate) names: bool,
    /// Only namespaces that exist without any process or thread in them, and what keeps each: a name, a descriptor, a socket, a mount
    #[arg(long)]
    pub(crate) leaked: bool,
    /// Columns of the table or of CSV, separated by commas; 'help' lists them
    #[arg(long, value_name = "LIST")]
    pub(crate) columns: Option<String>,
    /// Sort by a column, ascending; with '-' before its name descending
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub(crate) sort: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(crate) format: FormatArg,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub(crate) no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
    /// Search the mounts of every mount namespace, even if there are too many for one second
    #[arg(long)]
    pub(crate) complete: bool,
    /// Source of the sockets that hold namespaces: auto or bpf; procfs has none
    #[arg(long, value_enum, default_value_t = SourceArg::Auto)]
    pub(crate) source: SourceArg,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub(crate) btf: PathBuf,
    /// Report on stderr what was not searched, and why
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
    /// Which namespaces, for example: name ~ web* and sockets > 0
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

impl Default for ListArgs {
    /// Returns the arguments of an empty command line.
    fn default() -> Self {
        let command = Self::augment_args(clap::Command::new("list"));
        Self::from_arg_matches(&command.get_matches_from(["list"]))
            .expect("no argument of `list` is required")
    }
}

/// Create network namespaces with names, as ip netns add does, many at once
///
/// Each is created completely or not at all, even if this command is killed.
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddArgs {
    /// Their names
    #[arg(
        value_name = "NAME",
        required_unless_present = "prefix",
        conflicts_with = "prefix"
    )]
    pub(crate) names: Vec<OsString>,
    /// Instead of names: this prefix and a number
    #[arg(long, value_name = "PREFIX", requires = "count")]
    pub(crate) prefix: Option<OsString>,
    /// With --prefix: the number of namespaces
    #[arg(short = 'c', long, value_name = "N", requires = "prefix", allow_negative_numbers = true, value_parser = add_count)]
    pub(crate) count: Option<u32>,
    /// With --prefix: the first number
    #[arg(long, value_name = "N", requires = "prefix", allow_negative_numbers = true, default_value = "0",
          value_parser = first_number)]
    pub(crate) start: u32,
    /// Bring lo up in each
    #[arg(long)]
    pub(crate) up: bool,
    /// Connect each to this bridge, or to the network namespace of this name, by a veth pair: eth0 in it, v-NAME there
    #[arg(long, value_name = "BRIDGE|NAME")]
    pub(crate) veth_to: Option<String>,
    /// With --veth-to: give the pairs free addresses of this subnet, like 10.1.0.0/16; on a bridge the first stays free
    #[arg(long, value_name = "SUBNET", requires = "veth_to", value_parser = subnet)]
    pub(crate) subnet: Option<Subnet>,
    /// How many to create at the same time [default: the number of processors]
    #[arg(short = 'j', long, value_name = "N", allow_negative_numbers = true, value_parser = jobs)]
    pub(crate) jobs: Option<usize>,
    /// Continue after a failure
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Create nothing; print the names
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Report on stderr how many were created, and how long it took
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
}

/// Delete network namespaces, as ip netns del does, many at once
///
/// A namespace with processes keeps its name, and the processes are listed; --kill ends them, --force deletes only the
/// name.
#[derive(Debug, Args)]
#[command(visible_alias = "delete", after_help = DEL_EXAMPLES)]
pub(crate) struct DelArgs {
    /// Their names
    #[arg(value_name = "NAME", required_unless_present_any = ["prefix", "all"])]
    pub(crate) names: Vec<OsString>,
    /// All whose names begin with this
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["names", "all"])]
    pub(crate) prefix: Option<OsString>,
    /// All that have names
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Do not ask for confirmation with --prefix or --all
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// End the processes in them: SIGTERM, and SIGKILL two seconds later
    #[arg(long)]
    pub(crate) kill: bool,
    /// Delete the names of namespaces with processes; the processes continue
    #[arg(long, conflicts_with = "kill")]
    pub(crate) force: bool,
    /// Wait until the kernel has freed them, and print when that was
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: wait at most this long
    #[arg(long, value_name = "SECS", default_value = "30", requires = "wait", allow_negative_numbers = true,
          value_parser = sockeye_console::values::seconds)]
    pub(crate) timeout: Duration,
    /// How many to delete at the same time [default: 32, since a deletion mostly waits]
    #[arg(short = 'j', long, value_name = "N", allow_negative_numbers = true, value_parser = jobs)]
    pub(crate) jobs: Option<usize>,
    /// Delete nothing; print the names
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Give a name to the network namespace of a process
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The name
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
    /// The process
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = pid)]
    pub(crate) pid: u32,
}

/// Give a network namespace an id (nsid) in the current one, by which the kernel's messages identify it
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,
    /// The id, 0 or more; auto: the lowest free one
    #[arg(value_name = "ID|auto", allow_negative_numbers = true, value_parser = nsid)]
    pub(crate) id: Nsid,
}

/// An nsid; `None`: the kernel chooses one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nsid(pub(crate) Option<i32>);

/// Repair what another sockeye leaves unfinished; its journal is stdin
#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// Its process
    #[arg(value_name = "PID")]
    pub(crate) pid: i32,
}

/// Run a program in a network namespace, as ip netns exec does, or in many at once
///
/// In one namespace the program replaces sockeye: same process, terminal and exit status. With --all or --prefix the
/// programs have no input; each line of their output has the name of the namespace before it, stdout on stdout and
/// stderr on stderr. Their output is not changed otherwise, also on a terminal.
///
/// The program sees the interfaces of the namespace in /sys, and the files of /etc/netns/NAME over those of /etc.
#[derive(Debug, Args)]
#[command(override_usage = "sockeye ns exec [OPTIONS] NAME [--] COMMAND...\n       \
                            sockeye ns exec [OPTIONS] --all|--prefix PREFIX [--] COMMAND...")]
#[command(after_help = EXEC_EXAMPLES)]
pub(crate) struct ExecArgs {
    /// In every namespace that has a name
    #[arg(long, conflicts_with = "prefix")]
    pub(crate) all: bool,
    /// In every namespace whose name begins with this
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<OsString>,
    /// How many programs to run at the same time [default: twice the number of processors]
    #[arg(short = 'j', long, value_name = "N", value_parser = sockeye_console::values::count)]
    pub(crate) jobs: Option<u64>,
    /// Output format; with json and jsonl the output and exit status of each program, in the order of their ends
    #[arg(long, value_enum, default_value_t = TextFormat::Text)]
    pub(crate) format: TextFormat,
    /// Print the names of the namespaces, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The namespace, unless --all or --prefix is given; then the program and its arguments
    #[arg(value_name = "NAME COMMAND", trailing_var_arg = true)]
    pub(crate) words: Vec<OsString>,
}

/// List the processes in a network namespace, as ip netns pids does
#[derive(Debug, Args)]
pub(crate) struct PidsArgs {
    /// The namespace
    #[arg(allow_hyphen_values = true)]
    pub(crate) name: OsString,
    /// Output format; json and jsonl also have the names of the processes
    #[arg(long, value_enum, default_value_t = TextFormat::Text)]
    pub(crate) format: TextFormat,
}

/// Output format of `exec` and `pids`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextFormat {
    /// Lines of text
    Text,
    /// One array of objects
    Json,
    /// One object per line
    Jsonl,
}

/// Print the names of the network namespace of a process, as ip netns identify does
///
/// All its names, one per line; an empty line if it has none. `sockeye ns list` shows more than names.
#[derive(Debug, Args)]
pub(crate) struct IdentifyArgs {
    /// The process [default: sockeye itself]
    #[arg(allow_hyphen_values = true)]
    pub(crate) pid: Option<String>,
}

/// Print names of network namespaces as they are added and deleted, as ip netns monitor does
///
/// `add NAME` and `delete NAME`, as soon as it happens, until ^C. A new name is printed shortly before its namespace can
/// be entered.
#[derive(Debug, Args)]
pub(crate) struct MonitorArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = MonitorFormat::Text)]
    pub(crate) format: MonitorFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MonitorFormat {
    /// Lines of text
    Text,
    /// One object per line, with the time
    Jsonl,
}

/// Parses the number of namespaces to create.
fn add_count(text: &str) -> Result<u32, String> {
    in_range(text, 1, COUNT_MAX)
}

/// Parses the number of the first name.
fn first_number(text: &str) -> Result<u32, String> {
    in_range(text, 0, u32::MAX)
}

/// Parses the value of `-j` of `add` and `del`.
fn jobs(text: &str) -> Result<usize, String> {
    in_range(text, 1, JOBS_MAX).map(|jobs| jobs as usize)
}

fn in_range(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("expected a whole number of {min} to {max}"))
}

fn subnet(text: &str) -> Result<Subnet, String> {
    text.parse()
        .map_err(|error: sockeye_act::netns::SubnetParseError| error.to_string())
}

fn pid(text: &str) -> Result<u32, String> {
    in_range(text, 1, i32::MAX.unsigned_abs()).map_err(|_| "expected the number of a process".to_owned())
}

fn nsid(text: &str) -> Result<Nsid, String> {
    if text == "auto" {
        return Ok(Nsid(None));
    }
    let id = text.parse().ok().filter(|id| *id >= 0);
    id.map(|id| Nsid(Some(id)))
        .ok_or_else(|| format!("expected a number of 0 to {}, or auto", i32::MAX))
}

/// More namespaces than any kernel has memory for.
const COUNT_MAX: u32 = 10_000_000;
const JOBS_MAX: u32 = 1024;

const EXAMPLES: &str = "\
Examples:
  sockeye ns list                           all, with their processes
  sockeye ns add --prefix web --count 2000  web0 to web1999";

const LIST_EXAMPLES: &str = "\
Examples:
  sockeye ns list                  all, with their processes
  sockeye ns list -1               the names, like `ip netns list`
  sockeye ns list --leaked         without processes: what keeps them
  sockeye ns list 'name ~ web* and sockets > 0'
  sockeye ns list --sort=-sockets  the most sockets first
  sockeye ns list --format jsonl   everything, for a script

A filter: name, container, inode, id, pids, threads, sockets, interfaces, age with = != < <= > >= ~ !~; leaked, \
named, own; and, or, not, parentheses. Put it in quotes where it contains ( ) < > ! & or |. \
Ages: '>' is a minimum, from an open descriptor; '~' is an estimate, from the oldest process.";

const ADD_EXAMPLES: &str = "\
Examples:
  sockeye ns add web1 web2
  sockeye ns add --prefix web --count 2000 --up
  sockeye ns add --prefix w --count 9 --up --veth-to br0 --subnet 10.1.0.0/24";

const DEL_EXAMPLES: &str = "\
Examples:
  sockeye ns del web1 web2
  sockeye ns del --prefix web --yes --wait
  sockeye ns del web1 --kill";

const EXEC_EXAMPLES: &str = "\
Examples:
  sockeye ns exec web1 ip addr                   as in ip netns
  sockeye ns exec --all -- ip -br link           with names before lines
  sockeye ns exec --prefix web -j 8 -- ping -c1 10.0.0.1
  sockeye ns exec --all --format jsonl -- ss -s  for scripts

Exit status: that of the command, or 128 and the number of the signal that killed it; of many, the \
highest. 255 if the namespace cannot be entered, 1 if the command cannot be started, 2 for a \
usage error, 130 after ^C.";
