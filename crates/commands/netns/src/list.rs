//! `sockeye ns list`: every network namespace, who lives in it, and what keeps it.

use crate::output::{Namespaces, NetnsGaps, NetnsLayout, push_name_line, sort};
use anyhow::Context;
use clap::Args;
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_console::progress::Progress;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_filter::join_words;
use sockeye_filter::netns::{self, Filter};
use sockeye_model::Namespace;
use sockeye_output::SortKey;
use sockeye_output::listing::{Column, ListingWriter, columns_help, parse_columns};
use sockeye_output::{Format, Summary};
use sockeye_query::args::SourceArg;
use sockeye_query::context;
use sockeye_source::Choice;
use sockeye_source::names::{NameKinds, SystemNames};
use sockeye_source::netns::{Survey, SurveyOptions, names, survey};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::sync::PoisonError;

/// Every network namespace: named or not, lived in or merely held
///
/// Found by their names, by processes and their threads, by open descriptors and by mounts in every mount namespace; with
/// BPF also those that only sockets keep.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// Only the names, one a line
    #[arg(short = '1', long)]
    names: bool,
    /// Only those in which nobody lives, and what keeps them
    #[arg(long)]
    leaked: bool,
    /// Columns of the table or of CSV, separated by commas; 'help' lists them
    #[arg(long, value_name = "LIST")]
    columns: Option<String>,
    /// Sort by a column; with '-' before its name largest first
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    sort: Option<String>,
    /// In which form
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    format: FormatArg,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    color: ColorArg,
    /// Also in the mounts of every mount namespace, where there are too many to look at in a second
    #[arg(long)]
    complete: bool,
    /// Where sockets that keep namespaces are read from: auto, bpf, or procfs for none at all
    #[arg(long, value_enum, default_value_t = SourceArg::Auto)]
    source: SourceArg,
    /// Where the kernel describes its own types, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    btf: std::path::PathBuf,
    /// Say on stderr what was not looked at, and why
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Which namespaces, for example: name ~ web* and sockets > 0
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

impl Default for ListArgs {
    /// As if nothing had been typed.
    fn default() -> Self {
        Self {
            names: false,
            leaked: false,
            columns: None,
            sort: None,
            format: FormatArg::Table,
            no_header: false,
            color: ColorArg::Auto,
            complete: false,
            source: SourceArg::Auto,
            btf: sockeye_source::BpfEngine::TYPES.into(),
            verbose: false,
            filter: Vec::new(),
        }
    }
}

pub(super) fn run(args: &ListArgs) -> anyhow::Result<()> {
    if args.columns.as_deref() == Some("help") {
        return stdout::write_lines(columns_help::<Namespaces>());
    }
    let columns = args.columns.as_deref().map(columns).transpose()?;
    let key = args.sort.as_deref().map(sort_key).transpose()?;
    let text = join_words(&args.filter);
    let filter = netns::parse(&text).map_err(|error| UsageError(error.render(&text)))?;
    if args.names && !args.leaked && filter.is_empty() && key.is_none() && args.format == FormatArg::Table {
        return print_names(
            names()
                .context("read the folder of names, /run/netns")?
                .iter()
                .map(|name| name.as_bytes()),
        );
    }
    let mut found = look(args, &filter, columns.as_deref(), key)?;
    let unjudged = found
        .namespaces
        .iter()
        .filter(|one| one.is_leaked().is_none())
        .count();
    found
        .namespaces
        .retain(|one| filter.matches(one) && (!args.leaked || one.is_leaked() == Some(true)));
    if let Some(key) = key {
        sort(&mut found.namespaces, key);
    }
    if args.names && args.format == FormatArg::Table {
        let names = found.namespaces.iter().flat_map(|one| &one.names);
        print_names(names.map(|name| name.as_os_str().as_bytes()))?;
    } else {
        print(args, columns, &found)?;
    }
    report(args, &found, unjudged);
    Ok(())
}

fn look(
    args: &ListArgs,
    filter: &Filter,
    columns: Option<&[&Column<Namespaces>]>,
    key: Option<SortKey<Namespaces>>,
) -> anyhow::Result<Survey> {
    let names = SystemNames::new(NameKinds::ALL);
    let engine = context::bpf_engine(&args.btf)?;
    let named = columns.unwrap_or_default().iter().copied();
    let shows_container = named
        .chain(key.map(|key| key.column))
        .any(|column| column.name == "container");
    let is_data = args.format != FormatArg::Table && columns.is_none();
    let progress: Mutex<Option<Progress>> = Mutex::new(None);
    let step = |all: usize| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *progress {
            Some(progress) => progress.step(),
            None => *progress = Some(Progress::new("network namespaces", all)),
        }
    };
    let look = SurveyOptions {
        names: &names,
        engine: &engine,
        choice: Choice::from(args.source),
        containers: is_data || shows_container || filter.needs().containers,
        counts: true,
        complete: args.complete,
        progress: &step,
    };
    survey(&look).context("list network namespaces")
}

fn print_names<'a>(names: impl Iterator<Item = &'a [u8]>) -> anyhow::Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut text = Vec::new();
    for name in names {
        push_name_line(&mut text, name, is_terminal);
    }
    stdout::write(&text)
}

fn print(
    args: &ListArgs,
    columns: Option<Vec<&'static Column<Namespaces>>>,
    found: &Survey,
) -> anyhow::Result<()> {
    let layout = NetnsLayout {
        format: Format::from(args.format),
        columns,
        holders: args.leaked,
        style: stdout::style(args.color),
        width: stdout::width(),
        no_header: args.no_header,
    };
    let sources: &[(&str, &str)] = if found.socket_scan_error.is_none() {
        &[("processes", "procfs"), ("sockets", "bpf")]
    } else {
        &[("processes", "procfs")]
    };
    let mut losses = found.losses;
    losses.unreadable_namespaces += found.out_of_descriptors;
    let summary = Summary {
        losses,
        sources,
        ..Summary::default()
    };
    let gaps = NetnsGaps {
        remains: found.stale_names,
        unread_mount_namespaces: found.unread_mounts,
        processes_hidden: found.hidden,
        sockets_seen: found.socket_scan_error.is_none(),
    };
    let mut writer = ListingWriter::new(stdout::open()?, layout.listing());
    writer
        .begin()
        .and_then(|()| {
            found
                .namespaces
                .iter()
                .try_for_each(|one: &Namespace| writer.row(&one))
        })
        .and_then(|()| {
            let is_incomplete = summary.is_incomplete() || gaps.is_incomplete();
            writer.finish_with(&summary, is_incomplete, |fields| gaps.push_fields(fields))
        })
        .context(stdout::WRITING)
}

fn report(args: &ListArgs, found: &Survey, unjudged: usize) {
    crate::notes::namespaces(found, args.leaked.then_some(unjudged), args.verbose);
}

fn columns(list: &str) -> anyhow::Result<Vec<&'static Column<Namespaces>>> {
    parse_columns(list).map_err(|error| UsageError::unknown_column("--columns", "ns list", error).into())
}

fn sort_key(text: &str) -> anyhow::Result<SortKey<Namespaces>> {
    SortKey::parse(text).map_err(|error| UsageError::unknown_column("--sort", "ns list", error).into())
}

const EXAMPLES: &str = "\
Examples:
  sockeye ns list                            every namespace, and who lives in it
  sockeye ns list -1                         the names, as `ip netns list` has them
  sockeye ns list --leaked                   those that nobody lives in, and what keeps them
  sockeye ns list 'name ~ web* and sockets > 0'
  sockeye ns list --sort=-sockets            those with the most sockets first
  sockeye ns list --format jsonl             everything, for a script

A filter: name, container, inode, id, pids, threads, sockets, interfaces, age with = != < <= > >= ~ !~; leaked,
named, own; and, or, not, parentheses. Put it in quotes where it holds ( ) < > ! & or |.
Ages: '>' at least so old, as somebody holds it since then; '~' about, as its oldest process tells.";
