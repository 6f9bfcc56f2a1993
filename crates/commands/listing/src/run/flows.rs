//! `sockeye flows`: folds connections into host flows.

use super::{left_out, no_rows};
use crate::args::{FlowOptions, FlowsArgs, Peers};
use anyhow::Context;
use sockeye_console::args::FormatArg;
use sockeye_console::live::{self, Content, Live};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_flow::FoldedFlows;
use sockeye_model::{ConnectionTotals, Flow, GroupBy, Names, Protocol, ProtocolSet, StateSet, counted};
use sockeye_output::flow::{FlowDetails, FlowLayout, FlowRow, Flows, connections};
use sockeye_output::listing::{Column, ListingWriter, SortKey, columns_help, find_column, parse_columns};
use sockeye_output::socket::Sockets;
use sockeye_output::table::BUFFERED_ROWS_MAX;
use sockeye_output::{Envelope, Format, Summary};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{self, Listing, ListingReport, QueryOptions, Scope};
use sockeye_query::sampling::{FlowSampler, SamplingOptions};
use sockeye_source::Detail;
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Lists flows.
///
/// # Errors
/// If the filter or an option is wrong, nothing could be listed, or output failed.
pub fn run(args: &FlowsArgs) -> anyhow::Result<()> {
    list(&args.options, &args.filter)
}

/// Lists all flows, as `sockeye` without a command does.
///
/// # Errors
/// If an option is wrong, nothing could be listed, or output failed.
pub fn all(options: &FlowOptions) -> anyhow::Result<()> {
    list(options, &[])
}

fn list(options: &FlowOptions, words: &[String]) -> anyhow::Result<()> {
    if options.columns.as_deref() == Some("help") {
        return stdout::write_lines(columns_help::<Flows>());
    }
    let columns = options.columns.as_deref().map(columns).transpose()?;
    let peers = match options.filter_peers {
        Peers::All => None,
        Peers::Public => Some("peers = public"),
        Peers::Private => Some("not peers = public"),
    };
    let needs_netns = options.group_by == GroupBy::Netns || listing::tests_netns(words);
    let mut context = QueryContext::for_time(
        &options.common,
        !options.common.numeric,
        needs_netns,
        options.past.at.is_some(),
    )?;
    context.look_back(&options.past)?;
    context.is_column = |name| find_column::<Flows>(name).is_ok() || find_column::<Sockets>(name).is_ok();
    let mut listing = Listing::new(&options.common, words, peers, &context)?;
    let sort = SortKey::<Flows>::parse(&options.sort)
        .map_err(|error| UsageError::unknown_column("--sort", "flows", &error))?;
    let shown = columns.iter().flatten().copied();
    let needs = shown
        .chain([sort.column])
        .fold(Detail::NONE, |needs, column| needs | column.needs);
    let owners = needs.contains(Detail::OWNERS);
    if owners || options.group_by == GroupBy::Process {
        listing.require_owners();
    }
    if let GroupBy::Workload(kind) = options.group_by {
        listing.require_workloads(&[kind]);
    }
    if is_rate(sort.column) && options.watch.is_none() {
        let text = "sockeye: --sort: a rate needs two samples: give -w SECONDS\n";
        return Err(UsageError(text.to_owned()).into());
    }
    let totals = options.info || needs.contains(Detail::TCP_INFO);
    let protocol = if options.udp { Protocol::Udp } else { Protocol::Tcp };
    let states = listing
        .filter()
        .states()
        .unwrap_or(StateSet::FLOWS)
        .and(StateSet::FLOWS);
    if states.is_empty() {
        notes::say(
            "sockeye: no flow has a connection in these states: listening, unconnected and half-open sockets \
             are left out; `sockeye sockets` lists them\n",
        );
    }
    let watch = Watch {
        options,
        listing: &listing,
        layout: FlowLayout {
            format: Format::from(options.common.format),
            columns,
            group_by: options.group_by,
            details: FlowDetails {
                netns: context.namespaces.are_many(),
                states: options.states,
                owners: options.common.processes || owners,
                info: options.info,
                rates: false,
            },
            live: false,
            style: stdout::style(options.common.color),
            width: stdout::width(),
            no_header: options.common.no_header,
            sample: None,
            envelope: Envelope::default(),
        },
        sort,
        protocol,
        states,
        totals,
    };
    let is_empty = watch.run()? == 0;
    if is_empty && options.watch.is_none() && options.common.format == FormatArg::Table && !states.is_empty()
    {
        let filter: Vec<&str> = words.iter().map(String::as_str).chain(peers).collect();
        let all = QueryOptions {
            protocols: ProtocolSet::of(&[protocol]),
            families: watch.listing.families(),
            states: StateSet::FLOWS,
            detail: Detail::NONE,
            scope: Scope::Matching,
        };
        let nothing = "there is no connection (`sockeye sockets -l` lists what listens)";
        no_rows::report(&options.common, &filter.join(" "), nothing, &all, &context)?;
    }
    Ok(())
}

/// A listing of flows, once or repeated.
struct Watch<'a> {
    options: &'a FlowOptions,
    listing: &'a Listing<'a>,
    layout: FlowLayout,
    sort: SortKey<Flows>,
    protocol: Protocol,
    states: StateSet,
    /// Whether tcp_info is summed up.
    totals: bool,
}

/// The result of one pass over the connections.
struct Pass {
    flows: FoldedFlows,
    /// The places of the flows to show, sorted.
    shown: Vec<u32>,
    totals: Option<ConnectionTotals>,
    envelope: Envelope,
}

impl Pass {
    /// Returns the number of flows that `--top` leaves out.
    const fn left_out(&self) -> usize {
        self.flows.len() - self.shown.len()
    }
}

impl Watch<'_> {
    /// Prints the samples. Returns the number of flows of the last one.
    fn run(&self) -> anyhow::Result<usize> {
        let mut samples: u64 = 0;
        let mut sampler = self.sampler();
        let mut live = match self.options.watch {
            Some(_) if self.layout.format == Format::Table => Live::begin().context(live::BEGINNING)?,
            _ => None,
        };
        loop {
            let started = Instant::now();
            let mut report = self.listing.begin();
            let pass = self.pass(&mut sampler, &mut report)?;
            samples += 1;
            let number = pass.shown.len();
            let interval = self.options.watch.unwrap_or_default();
            if let Some(live) = &mut live {
                self.listing.write_notes(&report, self.options.common.verbose);
                self.draw(live, &pass, samples, &report, interval)?;
            } else {
                if samples > 1 && self.layout.format == Format::Table {
                    stdout::write(b"\n")?;
                }
                self.print(&pass, samples, &report)?;
            }
            if self.options.watch.is_none() || self.options.count.is_some_and(|count| samples >= count) {
                return Ok(number);
            }
            let left = interval.saturating_sub(started.elapsed());
            let goes_on = match &mut live {
                Some(live) => live.pause(left, &mut |live| {
                    self.draw(live, &pass, samples, &report, interval)
                })?,
                None => stdout::pause(left),
            };
            if !goes_on {
                return Ok(number);
            }
        }
    }

    /// Prepares the samples. Notes what they will not see.
    fn sampler(&self) -> FlowSampler<'_> {
        let group_by = self.options.group_by;
        let options = SamplingOptions {
            group_by,
            protocol: self.protocol,
            states: self.states,
            totals: self.totals,
            rates: self.options.watch.is_some(),
        };
        let mut sampler = FlowSampler::new(self.listing, options);
        let needs_owners = self.layout.details.owners
            || group_by == GroupBy::Process
            || self.listing.filter().needs().owners;
        if let Err(reason) = sampler.watch_between(needs_owners) {
            notes::say(&connections::unseen_note(&reason));
        }
        sampler
    }

    /// Takes a sample, and sorts its flows.
    fn pass(&self, sampler: &mut FlowSampler<'_>, report: &mut ListingReport) -> anyhow::Result<Pass> {
        let mut sample = sampler.sample(report)?;
        // The first sample has no rates to sort by.
        let sort = if !sample.has_rates && is_rate(self.sort.column) {
            SortKey::parse(FlowOptions::SORT).unwrap_or(self.sort)
        } else {
            self.sort
        };
        let mut shown = self.sorted(&mut sample.flows, sort);
        shown.truncate(self.options.top.unwrap_or(usize::MAX));
        Ok(Pass {
            flows: sample.flows,
            shown,
            totals: sample.totals,
            envelope: sample.envelope,
        })
    }

    /// Sorts flows by their keys, and returns their places in the order of a column: equal ones stay in the order of their keys.
    fn sorted(&self, flows: &mut FoldedFlows, sort: SortKey<Flows>) -> Vec<u32> {
        flows.sort(|id| self.listing.context.workload(id));
        let mut reader = flows.reader();
        let value = |place| sort.column.sort_value(&self.row(reader.read(place)));
        let order = sort.order_of(flows.places().map(value)).into_iter();
        order.map(|index| index as u32).collect()
    }

    const fn row<'a>(&'a self, flow: &'a Flow) -> FlowRow<'a> {
        FlowRow {
            flow,
            names: self.listing.context,
            protocol: self.protocol,
            has_owners: self.layout.details.owners,
        }
    }

    fn print(&self, pass: &Pass, sample: u64, report: &ListingReport) -> anyhow::Result<()> {
        let layout = self.layout_of(pass, sample);
        let out = stdout::open().context(stdout::WRITING)?;
        self.write(out, layout, pass, &pass.shown, report)
            .context(stdout::WRITING)?;
        if pass.left_out() > 0 && matches!(self.layout.format, Format::Table | Format::Csv) {
            notes::say(&left_out(pass.left_out(), "flow"));
        }
        if let Some(totals) = pass.totals {
            let line = connections::line(&totals, !self.listing.filter().is_empty());
            match self.layout.format {
                Format::Table => stdout::write(line.as_bytes())?,
                // JSON has them in its summary; these formats have none.
                Format::Csv | Format::Jsonl => notes::say(&format!("sockeye: {line}")),
                Format::Json => {}
            }
        }
        self.listing.write_notes(report, self.options.common.verbose);
        Ok(())
    }

    /// Draws a sample on a live screen.
    fn draw(
        &self,
        live: &mut Live,
        pass: &Pass,
        sample: u64,
        report: &ListingReport,
        interval: Duration,
    ) -> anyhow::Result<()> {
        let mut layout = self.layout_of(pass, sample);
        (layout.live, layout.width) = (true, Some(live.width()));
        // The widths and columns of a frame are those of its rows.
        let flows = pass.shown.len().min(live.rows());
        let mut body = Vec::new();
        let columns_left_out = self
            .write(&mut body, layout, pass, &pass.shown[..flows], report)
            .context(stdout::WRITING)?;
        let (shown, all) = (pass.shown.len(), pass.flows.len());
        let mut text = match pass.left_out() {
            0 => counted(all as u64, "flow"),
            _ => format!("{shown} of {}", counted(all as u64, "flow")),
        };
        text.push_str(&live::columns_left_out(columns_left_out));
        let totals = pass.totals.map_or_else(String::new, |totals| {
            connections::line(&totals, !self.listing.filter().is_empty())
        });
        live.draw(&Content {
            title: &live::title(&pass.envelope, interval, &text),
            body: &body,
            headings: usize::from(!self.layout.no_header),
            notes: &totals,
            unit: "flows",
            remedy: "--top N, or a filter",
            left_out: all - flows,
        })
    }

    /// Returns the layout of a sample, and looks its names up.
    fn layout_of(&self, pass: &Pass, sample: u64) -> FlowLayout {
        if !self.options.common.numeric {
            let hosts = pass.shown.iter().flat_map(|place| {
                let key = pass.flows.key(*place);
                // A prefix has no host name.
                [key.local, key.peer.filter(|_| key.peer_prefix.is_none())]
            });
            self.listing.context.hosts(hosts.flatten());
        }
        let mut layout = self.layout.clone();
        layout.details.rates = sample > 1;
        layout.envelope = pass.envelope;
        if self.options.watch.is_some() {
            layout.sample = Some(sample);
            // A file of many samples has one header.
            layout.no_header |= layout.format == Format::Csv && sample > 1;
        }
        layout
    }

    /// Writes a sample, and returns the number of columns that a narrow screen leaves out.
    fn write(
        &self,
        out: impl Write,
        layout: FlowLayout,
        pass: &Pass,
        flows: &[u32],
        report: &ListingReport,
    ) -> std::io::Result<usize> {
        let mut writer = ListingWriter::new(out, layout.listing());
        let sources = report.sources();
        writer.begin()?;
        let mut reader = pass.flows.reader();
        // The active flows, which come first, have no local port, for example.
        for place in flows.iter().step_by((flows.len() / ANNOUNCED).max(1)) {
            writer.announce(&self.row(reader.read(*place)));
        }
        let (first, rest) = flows.split_at(flows.len().min(BUFFERED_ROWS_MAX));
        for place in first {
            writer.row(&self.row(reader.read(*place)))?;
        }
        let has_cores = || thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        let model = writer
            .for_thread(io::sink())
            .filter(|_| rest.len() >= WORTH_A_THREAD && has_cores());
        match model {
            Some(model) => self.write_on_threads(&mut writer, &model, pass, rest)?,
            None => {
                for place in rest {
                    writer.row(&self.row(reader.read(*place)))?;
                }
            }
        }
        writer.finish(&Summary {
            connections: pass.totals,
            rows_left_out: pass.left_out(),
            ..report.summary(&sources)
        })?;
        Ok(writer.columns_left_out())
    }

    /// Writes rows in their order, every second part of them rendered by another thread. `model`: a listing for such a thread.
    fn write_on_threads<W: Write>(
        &self,
        writer: &mut ListingWriter<W, Flows>,
        model: &ListingWriter<io::Sink, Flows>,
        pass: &Pass,
        flows: &[u32],
    ) -> io::Result<()> {
        let render = |part: &[u32]| {
            let mut reader = pass.flows.reader();
            let mut rows = model.for_thread(Vec::with_capacity(PART_BYTES))?;
            let rendered = part
                .iter()
                .try_for_each(|place| rows.row(&self.row(reader.read(*place))))
                .and_then(|()| rows.flush());
            rendered.is_ok().then(|| rows.into_inner())
        };
        thread::scope(|scope| {
            // One part may wait: a slow reader of the output must not make them pile up.
            let (sender, parts) = mpsc::sync_channel(1);
            let others = flows.chunks(PART_ROWS).skip(1).step_by(2);
            let work = move || {
                for part in others {
                    if sender.send(render(part)).is_err() {
                        return;
                    }
                }
            };
            // Without a thread the channel is closed, and this one renders everything.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
            let mut reader = pass.flows.reader();
            for (number, part) in flows.chunks(PART_ROWS).enumerate() {
                let rendered = if number % 2 == 1 {
                    parts.recv().ok().flatten()
                } else {
                    None
                };
                match rendered {
                    Some(bytes) => writer.push_rows(&bytes, part.len())?,
                    None => {
                        for place in part {
                            writer.row(&self.row(reader.read(*place)))?;
                        }
                    }
                }
            }
            Ok(())
        })
    }
}

/// Fewer flows are rendered before another thread has started.
const WORTH_A_THREAD: usize = 4_096;
/// Flows that a thread renders at a time, and about their bytes.
const PART_ROWS: usize = 1_024;
const PART_BYTES: usize = 128 * 1024;

/// Number of flows that are announced to the writer.
const ANNOUNCED: usize = 64;

/// Whether a column has a change between two samples.
fn is_rate(column: &Column<Flows>) -> bool {
    column.json_paths().iter().any(|path| path.starts_with("rates."))
}

fn columns(list: &str) -> anyhow::Result<Vec<&'static Column<Flows>>> {
    parse_columns(list).map_err(|error| UsageError::unknown_column("--columns", "flows", &error).into())
}
