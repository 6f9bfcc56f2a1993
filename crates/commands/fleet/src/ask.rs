//! Asks one question, and lists the answer.

use crate::args::{AtArgs, BlameArgs, CommonArgs, FindingsArgs, HostsArgs, MapArgs, SelectionArgs, WhoArgs};
use crate::notes;
use crate::output::{
    BlameRow, BlameRows, EdgeRow, EdgeRows, FindingRow, FindingRows, HostRow, HostRows, ServiceRows,
    map_picture,
};
use crate::server::ask;
use anyhow::Context;
use sockeye_console::notes::say;
use sockeye_console::output_file::{OutputFile, Readers};
use sockeye_console::usage::UsageError;
use sockeye_fleet::question::{
    self, AcceptQueue, ClockPair, Edge, FleetFinding, FleetHost, Question, Selection, ServiceEdge,
};
use sockeye_fleet::{Cause, Filter, FilterError};
use sockeye_output::listing::Record as _;
use sockeye_output::picture::svg;
use sockeye_output::text::harmless;
use sockeye_output::{GraphTheme, Summary};
use sockeye_query::when;

/// `sockeye fleet hosts`.
pub(super) fn hosts(args: &HostsArgs) -> anyhow::Result<()> {
    let range = args.range.range()?;
    let hosts: Vec<FleetHost> = ask(&args.common, &question::hosts(&range))?;
    let pairs: Vec<ClockPair> = ask(&args.common, &question::clock_pairs(&range))?;
    let skews = sockeye_fleet::skews(&pairs);
    let local = local(&args.common);
    let row = |host| HostRow::of(host, skews.get(&host.host).copied(), &local);
    let rows: Vec<_> = hosts.iter().map(row).collect();
    args.common.rows.write::<HostRows>(
        HostRows::columns().iter().collect(),
        &HostRows::FIT,
        rows.iter(),
        &Summary::default(),
    )?;
    Ok(())
}

/// `sockeye fleet who`.
pub(super) fn who(args: &WhoArgs) -> anyhow::Result<()> {
    let port = args.port.map(|port| format!("port = {port}"));
    let selection = selection(&args.selection, port)?;
    let range = args.range.range()?;
    let count = edges(
        &args.common,
        &question::edges(&range, &selection),
        args.selection.top,
    )?;
    if count == 0 {
        notes::no_connection(&args.common, &question::stored(&range))?;
    }
    Ok(())
}

/// `sockeye fleet at`.
pub(super) fn at(args: &AtArgs) -> anyhow::Result<()> {
    let now = when::now();
    let at_ms = when::parse(&args.at, &now)
        .map_err(|error| UsageError(format!("sockeye: {}: {error}\n", args.at)))?;
    let now_ms = when::since("now", &now).unwrap_or(at_ms);
    let selection = selection(&args.selection, None)?;
    let (at_s, now_s) = (at_ms / 1_000, now_ms / 1_000);
    let count = edges(
        &args.common,
        &question::edges_at(at_s, now_s, &selection),
        args.selection.top,
    )?;
    if count == 0 {
        notes::no_connection(&args.common, &question::stored_at(at_s, now_s))?;
    }
    notes::missing_hosts(&args.common, at_s)
}

/// `sockeye fleet map`.
pub(super) fn map(args: &MapArgs) -> anyhow::Result<()> {
    let selection = selection(&args.selection, None)?;
    let range = args.range.range()?;
    let question = question::service_map(&range, &selection);
    let services: Vec<ServiceEdge> = ask(&args.common, &question)?;
    note_limit(services.len(), args.selection.top);
    if let Some(path) = &args.svg {
        let mut file = OutputFile::create_for(path, Readers::Owner)?;
        svg::write(file.file(), &map_picture(&services), GraphTheme::Auto)
            .with_context(|| format!("write {}", path.display()))?;
        file.finish()?;
    }
    let columns = ServiceRows::columns().iter().collect();
    args.common.rows.write::<ServiceRows>(
        columns,
        &ServiceRows::FIT,
        services.iter(),
        &Summary::default(),
    )?;
    if services.is_empty() {
        notes::no_connection(&args.common, &question::stored(&range))?;
    }
    Ok(())
}

/// `sockeye fleet findings`.
pub(super) fn findings(args: &FindingsArgs) -> anyhow::Result<()> {
    let (rule, host) = (args.rule.as_deref(), args.host.as_deref());
    let range = args.range.range()?;
    let question = question::findings(
        &range,
        rule.unwrap_or_default(),
        host.unwrap_or_default(),
        args.top.into(),
    );
    let findings: Vec<FleetFinding> = ask(&args.common, &question)?;
    note_limit(findings.len(), args.top);
    let local = local(&args.common);
    let rows: Vec<_> = findings
        .iter()
        .map(|finding| FindingRow::of(finding, &local))
        .collect();
    args.common.rows.write::<FindingRows>(
        FindingRows::table_columns(),
        &FindingRows::FIT,
        rows.iter(),
        &Summary::default(),
    )?;
    if rows.is_empty() {
        notes::no_finding(&args.common, &range, rule, host)?;
    }
    Ok(())
}

/// `sockeye fleet blame`.
pub(super) fn blame(args: &BlameArgs) -> anyhow::Result<()> {
    let range = args.range.range()?;
    let selection = Selection {
        filter: Some(Filter::of_service(&args.service)),
        edges_max: args.top.into(),
    };
    let mut edges: Vec<Edge> = ask(&args.common, &question::edges(&range, &selection))?;
    note_limit(edges.len(), args.top);
    // What was folded is no edge.
    edges.retain(|edge| !edge.server.is_unspecified());
    let single = edges.len();
    edges.extend(sockeye_fleet::edges_of_all(&edges));
    let queues: Vec<AcceptQueue> = ask(&args.common, &question::accept_queues(&range))?;
    let mut judged: Vec<_> = edges.iter().zip(sockeye_fleet::blame(&edges, &queues)).collect();
    // What an end saw of several services together is worth a row if it shows something.
    let mut place = 0;
    judged.retain(|(_, blame)| {
        place += 1;
        place <= single || blame.cause != Cause::None
    });
    let mut rows: Vec<_> = judged
        .iter()
        .map(|(edge, blame)| BlameRow::of(edge, blame))
        .collect();
    rows.sort_by_key(|row| row.blame.cause);
    args.common.rows.write::<BlameRows>(
        BlameRows::columns().iter().collect(),
        &BlameRows::FIT,
        rows.iter(),
        &Summary::default(),
    )?;
    if rows.is_empty() {
        notes::no_server(&args.common, &range, &args.service)?;
    }
    let causes: Vec<_> = judged.iter().map(|(_, blame)| blame.cause).collect();
    say(&format!("sockeye: {}\n", blame_summary(&args.service, &causes)));
    Ok(())
}

/// Returns how many edges have each cause.
fn blame_summary(service: &str, causes: &[Cause]) -> String {
    let counts = [Cause::Server, Cause::Network, Cause::Client, Cause::None].map(|cause| {
        let count = causes.iter().filter(|of_edge| **of_edge == cause).count();
        format!("{} {count}", cause.name())
    });
    // A program that takes its time to answer keeps all that TCP has in order.
    let beyond = if causes.contains(&Cause::None) {
        " (nothing that TCP shows: a program that answers slowly is not seen)"
    } else {
        ""
    };
    let service = harmless(service.as_bytes());
    format!(
        "{} {} to {service}: {}{beyond}",
        causes.len(),
        if causes.len() == 1 { "edge" } else { "edges" },
        counts.join(", ")
    )
}

/// Lists edges, and returns how many they are.
fn edges(common: &CommonArgs, question: &Question, top: u32) -> anyhow::Result<usize> {
    let edges: Vec<Edge> = ask(common, question)?;
    note_limit(edges.len(), top);
    let rows: Vec<_> = edges.iter().map(EdgeRow::of).collect();
    common.rows.write::<EdgeRows>(
        EdgeRows::table_columns(&rows),
        &EdgeRows::FIT,
        rows.iter(),
        &Summary::default(),
    )?;
    Ok(rows.len())
}

fn selection(args: &SelectionArgs, port: Option<String>) -> anyhow::Result<Selection> {
    let words = args.filter.join(" ");
    let filter = match (port, words.is_empty()) {
        (None, true) => None,
        (Some(port), true) => Some(port),
        (None, false) => Some(words),
        (Some(port), false) => Some(format!("{port} and ( {words} )")),
    };
    let parsed = filter.as_deref().map(Filter::parse).transpose();
    let wrong = |error: FilterError| UsageError(format!("sockeye: the filter: {error}\n"));
    Ok(Selection {
        filter: parsed.map_err(wrong)?,
        edges_max: args.top.into(),
    })
}

/// Returns what makes times of rows, in milliseconds since 1970, text.
fn local(common: &CommonArgs) -> fn(u64) -> String {
    if common.rows.is_narrow_table() {
        when::brief
    } else {
        when::local
    }
}

/// Says that there may be more rows than were asked for.
fn note_limit(rows: usize, top: u32) {
    if rows == top as usize {
        say(&format!("sockeye: the first {top}: --top shows more\n"));
    }
}
