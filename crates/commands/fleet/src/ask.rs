//! Asks one question, and lists the answer.

use crate::args::{AtArgs, BlameArgs, CommonArgs, FindingsArgs, HostsArgs, MapArgs, SelectionArgs, WhoArgs};
use crate::output::{
    BlameRow, BlameRows, EdgeRow, EdgeRows, FindingRow, FindingRows, HostRow, HostRows, ServiceRows,
    map_picture,
};
use anyhow::Context;
use sockeye_clickhouse::Server;
use sockeye_console::notes::say;
use sockeye_console::output_file::{OutputFile, Readers};
use sockeye_console::server_args::ServerArgs;
use sockeye_console::usage::UsageError;
use sockeye_fleet::question::{
    self, AcceptQueue, Answer, ClockPair, Edge, FleetFinding, FleetHost, Question, Selection, ServiceEdge,
};
use sockeye_fleet::{Blame, Cause, Filter, FilterError};
use sockeye_http::Target;
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
    let row = |host| HostRow::of(host, skews.get(&host.host).copied(), &when::local);
    let rows: Vec<_> = hosts.iter().map(row).collect();
    args.common.rows.write::<HostRows>(
        HostRows::columns().iter().collect(),
        rows.iter(),
        &Summary::default(),
    )
}

/// `sockeye fleet who`.
pub(super) fn who(args: &WhoArgs) -> anyhow::Result<()> {
    let port = args.port.map(|port| format!("port = {port}"));
    let selection = selection(&args.selection, port)?;
    edges(
        &args.common,
        &question::edges(&args.range.range()?, &selection),
        args.selection.top,
    )
}

/// `sockeye fleet at`.
pub(super) fn at(args: &AtArgs) -> anyhow::Result<()> {
    let now = when::now();
    let at_ms = when::parse(&args.at, &now)
        .map_err(|error| UsageError(format!("sockeye: {}: {error}\n", args.at)))?;
    let now_ms = when::since("now", &now).unwrap_or(at_ms);
    let selection = selection(&args.selection, None)?;
    edges(
        &args.common,
        &question::edges_at(at_ms / 1_000, now_ms / 1_000, &selection),
        args.selection.top,
    )
}

/// `sockeye fleet map`.
pub(super) fn map(args: &MapArgs) -> anyhow::Result<()> {
    let selection = selection(&args.selection, None)?;
    let question = question::service_map(&args.range.range()?, &selection);
    let services: Vec<ServiceEdge> = ask(&args.common, &question)?;
    note_limit(services.len(), args.selection.top);
    if let Some(path) = &args.svg {
        let mut file = OutputFile::create_for(path, Readers::Owner)?;
        svg::write(file.file(), &map_picture(&services), GraphTheme::Auto)
            .with_context(|| format!("write {}", path.display()))?;
        file.finish()?;
    }
    let columns = ServiceRows::columns().iter().collect();
    args.common
        .rows
        .write::<ServiceRows>(columns, services.iter(), &Summary::default())
}

/// `sockeye fleet findings`.
pub(super) fn findings(args: &FindingsArgs) -> anyhow::Result<()> {
    let (rule, host) = (args.rule.as_deref(), args.host.as_deref());
    let question = question::findings(
        &args.range.range()?,
        rule.unwrap_or_default(),
        host.unwrap_or_default(),
        args.top.into(),
    );
    let findings: Vec<FleetFinding> = ask(&args.common, &question)?;
    note_limit(findings.len(), args.top);
    let rows: Vec<_> = findings
        .iter()
        .map(|finding| FindingRow::of(finding, &when::local))
        .collect();
    args.common
        .rows
        .write::<FindingRows>(FindingRows::table_columns(), rows.iter(), &Summary::default())
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
    let queues: Vec<AcceptQueue> = ask(&args.common, &question::accept_queues(&range))?;
    let judged = sockeye_fleet::blame(&edges, &queues);
    let mut rows: Vec<_> = edges
        .iter()
        .zip(&judged)
        .map(|(edge, blame)| BlameRow::of(edge, blame))
        .collect();
    rows.sort_by_key(|row| row.blame.cause);
    args.common.rows.write::<BlameRows>(
        BlameRows::columns().iter().collect(),
        rows.iter(),
        &Summary::default(),
    )?;
    say(&format!("sockeye: {}\n", blame_summary(&args.service, &judged)));
    Ok(())
}

/// Returns how many edges have each cause.
fn blame_summary(service: &str, judged: &[Blame]) -> String {
    let counts = [Cause::Server, Cause::Network, Cause::Client, Cause::None].map(|cause| {
        let count = judged.iter().filter(|blame| blame.cause == cause).count();
        format!("{} {count}", cause.name())
    });
    let service = harmless(service.as_bytes());
    format!("{} edges to {service}: {}", judged.len(), counts.join(", "))
}

fn edges(common: &CommonArgs, question: &Question, top: u32) -> anyhow::Result<()> {
    let edges: Vec<Edge> = ask(common, question)?;
    note_limit(edges.len(), top);
    let rows: Vec<_> = edges.iter().map(EdgeRow::of).collect();
    common
        .rows
        .write::<EdgeRows>(EdgeRows::table_columns(), rows.iter(), &Summary::default())
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

/// Returns the server that options name.
pub(super) fn server(args: &ServerArgs) -> anyhow::Result<Server> {
    let target =
        Target::parse(&args.url).map_err(|error| UsageError(format!("sockeye: --url: {error}\n")))?;
    let password = args.password()?;
    let tls = args.tls.client(&target)?;
    let server = Server::new(target, tls, &args.database, &args.user, password.as_deref());
    server.map_err(|error| UsageError(format!("sockeye: {error}\n")).into())
}

fn ask<A: Answer>(args: &CommonArgs, question: &Question) -> anyhow::Result<Vec<A>> {
    let server = server(&args.server)?;
    let answer = match server.query(&question.sql, &question.parameters) {
        Ok(answer) => answer,
        Err(error) => {
            let hint = if error.is_missing() {
                ": `sockeye fleet schema --apply` creates the tables"
            } else {
                ""
            };
            return Err(anyhow::Error::from(error)).with_context(|| format!("{}{hint}", server.target()));
        }
    };
    Ok(question::read_rows(&answer)?)
}

/// Says that there may be more rows than were asked for.
fn note_limit(rows: usize, top: u32) {
    if rows == top as usize {
        say(&format!("sockeye: the first {top}: --top shows more\n"));
    }
}
