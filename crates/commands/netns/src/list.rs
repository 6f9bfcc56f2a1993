//! `sockeye ns list`: network namespaces, their processes, and what holds them.

use crate::args::ListArgs;
use crate::output::{Namespaces, NetnsGaps, layout, notes, push_name_line, sort};
use anyhow::Context;
use sockeye_console::args::FormatArg;
use sockeye_console::envelope;
use sockeye_console::progress::Progress;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_filter::join_words;
use sockeye_filter::netns::{self, Filter};
use sockeye_model::NetnsName;
use sockeye_output::SortKey;
use sockeye_output::listing::{Column, ListingWriter, columns_help, parse_columns};
use sockeye_output::{Envelope, Format, Summary};
use sockeye_query::context;
use sockeye_source::Choice;
use sockeye_source::names::{NameKinds, SystemNames};
use sockeye_source::netns::{Survey, SurveyOptions, names, survey};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::sync::PoisonError;

pub(crate) fn run(args: &ListArgs) -> anyhow::Result<()> {
    if args.columns.as_deref() == Some("help") {
        return stdout::write_lines(columns_help::<Namespaces>());
    }
    let columns = args.columns.as_deref().map(columns).transpose()?;
    let key = args.sort.as_deref().map(sort_key).transpose()?;
    let text = join_words(&args.filter);
    let filter = netns::parse(&text).map_err(|error| UsageError(error.render(&text)))?;
    let only_names = args.names && args.format == FormatArg::Table;
    if only_names && !args.leaked && filter.is_empty() && key.is_none() {
        let names = names().with_context(|| format!("read the folder {}", NetnsName::FOLDER))?;
        return print_names(names.iter().map(|name| name.as_bytes()));
    }
    let taken = envelope::now();
    let mut found = find(args, &filter, columns.as_deref(), key)?;
    let all = &mut found.namespaces;
    let unknown = all.iter().filter(|one| one.is_leaked().is_none()).count();
    all.retain(|one| filter.matches(one) && (!args.leaked || one.is_leaked() == Some(true)));
    if let Some(key) = key {
        sort(all, key);
    }
    if only_names {
        let names = all.iter().flat_map(|one| &one.names);
        print_names(names.map(|name| name.as_os_str().as_bytes()))?;
    } else {
        print(args, columns, &found, taken)?;
    }
    if args.leaked && args.format == FormatArg::Table && !only_names && !args.no_header {
        notes::explain_leaked(&found.namespaces, !filter.is_empty());
    }
    notes::print(&found, args.leaked.then_some(unknown), args.verbose);
    Ok(())
}

fn find(
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
    let options = SurveyOptions {
        names: &names,
        engine: &engine,
        choice: Choice::from(args.source),
        containers: is_data || shows_container || filter.needs().containers,
        counts: true,
        complete: args.complete,
        progress: &step,
    };
    survey(&options).context("list network namespaces")
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
    taken: Envelope,
) -> anyhow::Result<()> {
    let mut layout = layout(Format::from(args.format), columns, args.leaked);
    layout.style = stdout::style(args.color);
    layout.width = stdout::width();
    layout.no_header = args.no_header;
    layout.envelope = taken;
    let sources: &[(&str, &str)] = &[("processes", "procfs"), ("sockets", "bpf")];
    let sockets_seen = found.socket_scan_error.is_none();
    let mut losses = found.losses;
    losses.unreadable_namespaces += found.out_of_descriptors;
    let summary = Summary {
        losses,
        sources: if sockets_seen { sources } else { &sources[..1] },
        ..Summary::default()
    };
    let gaps = NetnsGaps {
        stale_names: found.stale_names,
        unread_mount_namespaces: found.unread_mounts,
        processes_hidden: found.hidden || found.proc_error.is_some(),
        sockets_seen,
    };
    let mut writer = ListingWriter::new(stdout::open().context(stdout::WRITING)?, layout);
    writer
        .begin()
        .and_then(|()| found.namespaces.iter().try_for_each(|one| writer.row(&one)))
        .and_then(|()| writer.finish_with(&summary, |fields| gaps.push_fields(fields)))
        .context(stdout::WRITING)
}

fn columns(list: &str) -> anyhow::Result<Vec<&'static Column<Namespaces>>> {
    parse_columns(list).map_err(|error| UsageError::unknown_column("--columns", "ns list", &error).into())
}

fn sort_key(text: &str) -> anyhow::Result<SortKey<Namespaces>> {
    SortKey::parse(text).map_err(|error| UsageError::unknown_column("--sort", "ns list", &error).into())
}
