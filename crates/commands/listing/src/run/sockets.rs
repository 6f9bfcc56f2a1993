//! `sockeye sockets`: lists sockets, one row each.

use super::{left_out, no_rows};
use crate::args::SocketsArgs;
use anyhow::Context;
use sockeye_console::args::FormatArg;
use sockeye_console::live::{self, Content, Live};
use sockeye_console::notes;
use sockeye_console::stdout::{self, SharedStdout};
use sockeye_console::usage::UsageError;
use sockeye_flow::SocketSample;
use sockeye_model::{Endpoint, Protocol, ProtocolSet, StateSet, WorkloadKind, counted};
use sockeye_output::listing::{Column, columns_help, parse_columns};
use sockeye_output::table::BUFFERED_ROWS_MAX;
use sockeye_output::{
    Details, Envelope, Format, JsonObject, SocketLayout, SocketWriter, Sockets, SortKey, Summary,
};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{self, EntryThreads, Listing, QueryOptions, Scope, TakeEntry};
use sockeye_source::Detail;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::io::{self, Write};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Lists sockets.
///
/// # Errors
/// If the filter or an option is wrong, nothing could be listed, or output failed.
pub fn run(args: &SocketsArgs) -> anyhow::Result<ExitCode> {
    if args.columns.as_deref() == Some("help") {
        return stdout::write_lines(columns_help::<Sockets>()).map(|()| ExitCode::SUCCESS);
    }
    let columns = args.columns.as_deref().map(columns).transpose()?;
    let sort = args
        .sort
        .as_deref()
        .map(SortKey::parse)
        .transpose()
        .map_err(|error| UsageError::unknown_column("--sort", "sockets", &error))?;
    if sort.is_some_and(|key| key.column.heading.ends_with("/s")) && args.watch.is_none() {
        let text = "sockeye: --sort: a rate needs two samples: give --watch SECONDS\n";
        return Err(UsageError(text.to_owned()).into());
    }
    let mut context = QueryContext::for_time(
        &args.common,
        args.resolve,
        listing::tests_netns(&args.filter),
        args.past.at.is_some(),
    )?;
    context.look_back(&args.past)?;
    let mut listing = Listing::new(&args.common, &args.filter, None, &context)?;
    let named = columns
        .iter()
        .flatten()
        .copied()
        .chain(sort.map(|key| key.column));
    let needs = named.fold(Detail::NONE, |needs, column| needs | column.needs);
    if needs.contains(Detail::OWNERS) {
        listing.require_owners();
    }
    let kinds = WorkloadKind::ALL.into_iter().filter(|kind| {
        let shows = |column: &Column<Sockets>| match column.name {
            "workload_source" => matches!(kind, WorkloadKind::Container),
            name => column.needs.contains(Detail::WORKLOADS) && name == kind.name(),
        };
        columns
            .iter()
            .flatten()
            .copied()
            .chain(sort.map(|key| key.column))
            .any(shows)
    });
    listing.require_workloads(&kinds.collect::<Vec<_>>());
    let filter = listing.filter();
    let requested = protocols(args);
    // With a filter on ports, for example, protocols without ports need no dump.
    let protocols = requested.retain(|protocol| filter.may_match(protocol));
    let unrecorded = context.unrecorded(protocols);
    if !unrecorded.is_empty() {
        let names = UNRECORDED
            .iter()
            .filter(|(_, set)| !unrecorded.retain(|protocol| set.contains(protocol)).is_empty());
        let names: Vec<_> = names.map(|(name, _)| *name).collect();
        notes::say(&format!("sockeye: not recorded: {} sockets\n", names.join(", ")));
    }
    let states = filter.states().unwrap_or(args.which.states());
    let options = QueryOptions {
        protocols,
        families: listing.families(),
        states,
        detail: needs | detail(args, context.namespaces.are_many()),
        scope: Scope::Matching,
    };
    let marks = args.extended || columns.iter().flatten().any(|column| column.name == "mark");
    if marks && !listing.sees_marks {
        notes::say(&format!(
            "sockeye: the kernel reports marks only with CAP_NET_ADMIN; {}\n",
            remedy("it", CheckedIn::OwnerOfNetns)
        ));
    }
    let watch = Watch {
        args,
        listing: &listing,
        // Of a socket that matches only in one sample, the other has the counters too.
        options: QueryOptions {
            states: if args.watch.is_some() {
                states.or(StateSet::FLOWS)
            } else {
                states
            },
            scope: if args.watch.is_some() {
                Scope::All
            } else {
                Scope::Matching
            },
            ..options
        },
        states,
        layout: SocketLayout {
            format: Format::from(args.common.format),
            columns,
            details: Details {
                netid: !requested.is_single(),
                netns: context.namespaces.are_many(),
                owners: args.common.processes,
                timers: args.timers,
                extended: args.extended,
                memory: args.memory,
                info: args.info,
                rates: false,
            },
            sort: sort.or_else(|| default_sort(args)),
            top: args.top,
            sample: None,
            live: false,
            style: stdout::style(args.common.color),
            width: stdout::width(),
            no_header: args.common.no_header,
            envelope: context.envelope(),
        },
    };
    let (rows, lacks_protocols) = watch.run()?;
    if rows == 0
        && (unrecorded.is_empty() || unrecorded != protocols)
        && args.watch.is_none()
        && args.common.format == FormatArg::Table
    {
        let options = QueryOptions {
            protocols: requested,
            states: args.which.states(),
            ..options
        };
        let nothing = if args.which.all || args.which.listening {
            "there is no such socket"
        } else {
            "there is no connection (-l lists what listens, -a everything)"
        };
        no_rows::report(&args.common, &args.filter.join(" "), nothing, &options, &context)?;
    }
    // The rows are those of the other protocols.
    Ok(if lacks_protocols {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Writes the rows of other threads.
struct RowThreads<'a> {
    context: &'a QueryContext,
    /// Writes no rows itself: others are made from it. Empty until other threads may write.
    model: OnceLock<(SocketWriter<io::Sink>, SharedStdout)>,
    /// Rows of the threads that have ended, and their first error.
    ended: Mutex<(usize, io::Result<()>)>,
}

impl<'a> RowThreads<'a> {
    const fn new(context: &'a QueryContext) -> Self {
        Self {
            context,
            model: OnceLock::new(),
            ended: Mutex::new((0, Ok(()))),
        }
    }

    /// Lets other threads begin, if rows do not depend on each other. What was written before comes first.
    fn let_begin<W: Write>(&self, writer: &mut SocketWriter<W>, shared: &SharedStdout) -> io::Result<()> {
        if let Some(model) = writer.for_thread(io::sink()) {
            writer.flush()?;
            let _ = self.model.set((model, shared.clone())); // it is called once
        }
        Ok(())
    }

    /// Returns the number of rows that other threads wrote, and their first error.
    fn finish(self) -> (usize, io::Result<()>) {
        self.ended.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EntryThreads for RowThreads<'_> {
    fn may_begin(&self) -> bool {
        self.model.get().is_some()
    }

    fn on_thread(&self, read: &mut dyn FnMut(TakeEntry<'_>)) {
        let Some((model, shared)) = self.model.get() else {
            return;
        };
        let Some(mut writer) = model.for_thread(shared.clone()) else {
            return;
        };
        let before = writer.listing().rows();
        let mut written = Ok(());
        read(&mut |entry, _| {
            written = writer.row(entry, self.context);
            if written.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        written = written.and_then(|()| writer.flush());
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.0 += writer.listing().rows() - before;
        if ended.1.is_ok() {
            ended.1 = written;
        }
    }
}

/// Rows that are written before other threads begin: those that settle the widths of a table.
const ROWS_BEFORE_THREADS: usize = BUFFERED_ROWS_MAX;

/// A listing of sockets, once or repeated.
struct Watch<'a> {
    args: &'a SocketsArgs,
    listing: &'a Listing<'a>,
    options: QueryOptions,
    /// States of the sockets that are listed.
    states: StateSet,
    layout: SocketLayout,
}

/// What a sample is compared with.
struct Before {
    sample: SocketSample,
    /// When its sockets were read.
    taken: Instant,
}

/// The result of one pass over the sockets.
struct Pass {
    before: Before,
    envelope: Envelope,
    /// Rows, with those that were left out.
    rows: usize,
    left_out: usize,
    columns_left_out: usize,
    /// `None` in the first sample.
    changes: Option<Changes>,
    lacks_protocols: bool,
}

/// Sockets that only one of two samples has.
#[derive(Clone, Copy)]
struct Changes {
    opened: u64,
    closed: u64,
    interval: Duration,
}

impl Changes {
    fn push_json(&self, object: &mut JsonObject<'_>) {
        let mut changes = object.object("changes");
        changes.number("sockets_opened", Some(self.opened));
        changes.number("sockets_closed", Some(self.closed));
        let interval_ms = u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX);
        changes.number("interval_ms", Some(interval_ms));
        changes.end();
    }

    fn text(&self) -> String {
        format!("{} opened, {} closed", self.opened, self.closed)
    }
}

impl Watch<'_> {
    /// Prints the samples. Returns the number of rows of the last one, and whether one lacked protocols.
    fn run(&self) -> anyhow::Result<(usize, bool)> {
        let is_table = self.layout.format == Format::Table;
        let mut live = match self.args.watch {
            Some(_) if is_table => Live::begin().context(live::BEGINNING)?,
            _ => None,
        };
        let mut before: Option<Before> = None;
        let mut lacks_protocols = false;
        for sample in 1_u64.. {
            let started = Instant::now();
            let interval = self.args.watch.unwrap_or_default();
            let mut body = Vec::new();
            let pass = if let Some(live) = &live {
                let mut layout = self.layout_of(sample);
                (layout.live, layout.width) = (true, Some(live.width()));
                layout.top = Some(self.args.top.unwrap_or(usize::MAX).min(live.rows()));
                self.list(&mut body, None, layout, before.as_ref())?
            } else {
                if sample > 1 && is_table {
                    stdout::write(b"\n")?;
                }
                let out = SharedStdout::from(stdout::open().context(stdout::WRITING)?);
                let shared = Some(out.clone());
                let pass = self.list(out, shared, self.layout_of(sample), before.as_ref())?;
                self.write_changes(&pass)?;
                pass
            };
            lacks_protocols |= pass.lacks_protocols;
            if let Some(live) = &mut live {
                self.draw(live, &pass, &body, interval)?;
            }
            if self.args.watch.is_none() || self.args.count == Some(sample) {
                return Ok((pass.rows, lacks_protocols));
            }
            let left = interval.saturating_sub(started.elapsed());
            let goes_on = match &mut live {
                Some(live) => live.pause(left, &mut |live| self.draw(live, &pass, &body, interval))?,
                None => stdout::pause(left),
            };
            if !goes_on {
                return Ok((pass.rows, lacks_protocols));
            }
            before = Some(pass.before);
        }
        Ok((0, lacks_protocols))
    }

    /// Returns the layout of a sample.
    fn layout_of(&self, sample: u64) -> SocketLayout {
        let mut layout = self.layout.clone();
        layout.envelope = self.listing.context.envelope();
        if self.args.watch.is_some() {
            layout.sample = Some(sample);
            layout.details.rates = sample > 1;
            // A file of many samples has one header.
            layout.no_header |= layout.format == Format::Csv && sample > 1;
        }
        layout
    }

    /// Lists the sockets once. `shared` is the output if several threads may write to it.
    fn list(
        &self,
        out: impl Write,
        shared: Option<SharedStdout>,
        layout: SocketLayout,
        before: Option<&Before>,
    ) -> anyhow::Result<Pass> {
        let (listing, context) = (self.listing, self.listing.context);
        let mut report = listing.begin();
        // Owners first: a socket opened after this has none, one closed after this is not listed.
        let owners = listing.owners_before(&self.options, &mut report)?;
        if self.args.resolve {
            // A first listing, so that names are known when rows are printed. Its losses occur in the second one too.
            let mut hosts: Vec<IpAddr> = Vec::new();
            listing.run(
                &self.options,
                owners.as_ref(),
                &mut listing.begin(),
                &mut |entry, _| {
                    let ends = [&entry.socket.local, &entry.socket.peer];
                    hosts.extend(ends.into_iter().filter_map(Endpoint::ip));
                    ControlFlow::Continue(())
                },
            )?;
            context.hosts(hosts);
        }
        let has_rates = self.args.watch.is_some();
        let (taken, envelope) = (Instant::now(), layout.envelope);
        let since = before.map(|before| (&before.sample, taken.duration_since(before.taken)));
        let mut sample = SocketSample::default();
        let mut writer = SocketWriter::new(out, layout);
        let mut written = writer.begin();
        let mut listed = Ok(());
        let threads = RowThreads::new(context);
        if written.is_ok() {
            let shared = shared.filter(|_| !has_rates);
            listed = listing.run_on_threads(
                &self.options,
                owners.as_ref(),
                &mut report,
                &mut |entry, matches| {
                    if has_rates {
                        let matches = matches && self.states.contains(entry.socket.state);
                        let rates = sample.record(entry.socket, matches, since);
                        if matches {
                            written = writer.row_with_rates(entry, context, rates);
                        }
                    } else {
                        written = writer.row(entry, context);
                        if writer.listing().rows() == ROWS_BEFORE_THREADS
                            && written.is_ok()
                            && let Some(shared) = &shared
                        {
                            written = threads.let_begin(&mut writer, shared);
                        }
                    }
                    if written.is_ok() {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                },
                &threads,
            );
        }
        let (rows, written_by_others) = threads.finish();
        writer.add_rows(rows);
        written = written.and(written_by_others);
        let rows = writer.listing().rows();
        if rows == 0 {
            listed?;
            listed = Ok(());
        }
        let changes = since.map(|(before, interval)| Changes {
            opened: sample.opened(),
            closed: sample.closed_since(before),
            interval,
        });
        let left_out = writer.listing().left_out();
        // Also after a failure: a document that has begun needs its end.
        let sources = report.sources();
        let summary = Summary {
            rows_left_out: left_out,
            ..report.summary(&sources)
        };
        written
            .and_then(|()| {
                writer.finish_with(&summary, |object| {
                    if let Some(changes) = changes {
                        changes.push_json(object);
                    }
                })
            })
            .context(stdout::WRITING)?;
        listed?;
        listing.write_notes(&report, self.args.common.verbose);
        Ok(Pass {
            before: Before { sample, taken },
            envelope,
            rows,
            left_out,
            columns_left_out: writer.listing().columns_left_out(),
            changes,
            lacks_protocols: report.lacks_protocols(),
        })
    }

    /// Writes what a table or CSV does not have: rows that were left out, sockets that are new or gone.
    fn write_changes(&self, pass: &Pass) -> anyhow::Result<()> {
        let format = self.layout.format;
        if pass.left_out > 0 && matches!(format, Format::Table | Format::Csv) {
            notes::say(&left_out(pass.left_out, "socket"));
        }
        if let Some(changes) = pass.changes {
            let line = format!(
                "sockets: {} in {:.1}s\n",
                changes.text(),
                changes.interval.as_secs_f64()
            );
            match format {
                Format::Table => stdout::write(line.as_bytes())?,
                // JSON has them in its summary; these formats have none.
                Format::Csv | Format::Jsonl => notes::say(&format!("sockeye: {line}")),
                Format::Json => {}
            }
        }
        Ok(())
    }

    /// Draws a sample on a live screen.
    fn draw(&self, live: &mut Live, pass: &Pass, body: &[u8], interval: Duration) -> anyhow::Result<()> {
        let all = pass.rows;
        let mut text = match self.args.top {
            Some(top) if top < all => format!("{top} of {}", counted(all, "socket")),
            _ => counted(all, "socket"),
        };
        if let Some(changes) = pass.changes {
            text.push_str(&format!(", {}", changes.text()));
        }
        text.push_str(&live::columns_left_out(pass.columns_left_out));
        live.draw(&Content {
            title: &live::title(&pass.envelope, interval, &text),
            body,
            headings: usize::from(!self.layout.no_header),
            notes: "",
            unit: "sockets",
            remedy: "--top N, or a filter",
            left_out: pass.left_out,
        })
    }
}

/// Returns the order of repeated tables without `--sort`: the busiest first.
fn default_sort(args: &SocketsArgs) -> Option<SortKey<Sockets>> {
    let is_busiest = args.watch.is_some() && (args.common.format == FormatArg::Table || args.top.is_some());
    is_busiest
        .then(|| SortKey::parse("-traffic_bytes_per_s").ok())
        .flatten()
}

/// Returns the protocols that the flags select; all if they select none.
fn protocols(args: &SocketsArgs) -> ProtocolSet {
    args.which
        .protocols()
        .unwrap_or(if args.common.ipv4 || args.common.ipv6 {
            ProtocolSet::INET
        } else {
            ProtocolSet::ALL
        })
}

/// Sockets that no recorded moment has, with their names in notes.
const UNRECORDED: [(&str, ProtocolSet); 3] = [
    ("UNIX", ProtocolSet::UNIX),
    ("PACKET", ProtocolSet::PACKET),
    ("netlink", ProtocolSet::of(&[Protocol::Netlink])),
];

/// Returns what has to be asked of the kernel because of the flags. Columns have their own needs.
fn detail(args: &SocketsArgs, has_many_namespaces: bool) -> Detail {
    let all = args.common.format != FormatArg::Table || args.columns.is_some();
    Detail::QUEUES
        | Detail::TIMER.when(all || args.timers)
        | Detail::INODE.when(all || args.extended || args.common.processes)
        | (Detail::USER | Detail::OPTIONS).when(all || args.extended)
        // No namespace is entered for cookies alone: of many namespaces, only existing cookies are shown.
        | Detail::COOKIE.when(args.extended && !has_many_namespaces)
        | (Detail::TCP_INFO | Detail::CONGESTION).when(args.info)
        | Detail::MEMORY.when(args.memory)
        | Detail::SERVICE_CLASS.when(args.extended)
        | (Detail::TCP_INFO | Detail::COOKIE).when(args.watch.is_some())
}

fn columns(list: &str) -> anyhow::Result<Vec<&'static Column<Sockets>>> {
    parse_columns(list).map_err(|error| UsageError::unknown_column("--columns", "sockets", &error).into())
}
