//! Runs `events`.

use super::args::{EventFormat, EventsArgs};
use super::batch::Batches;
use super::output::{self, EventRow, Events};
use super::owners::KnownOwners;
use super::summary::EventSummary;
use crate::clock::Clock;
use anyhow::{Context, anyhow};
use sockeye_console::args::FormatArg;
use sockeye_console::envelope;
use sockeye_console::notes::say;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_filter::KernelFeatures;
use sockeye_model::{ConnectionEvent, ConnectionEventKind, Entry, Fd, Owner, WorkloadKind};
use sockeye_output::listing::{ListingWriter, columns_help, parse_columns};
use sockeye_output::{Format, Summary};
use sockeye_query::args::{ListingArgs, SourceArg};
use sockeye_query::context::QueryContext;
use sockeye_query::netns_targets::NetnsTargets;
use sockeye_source::{Ends, Families};
use sockeye_sys::interrupts::Interrupts;
use sockeye_tracepoints::{Accounting, ConnectionOptions, ConnectionWatch, Watch};
use sockeye_wire::connections::kind;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Prints events until ^C, `--count` or `--duration`.
///
/// # Errors
/// If the filter or an option is wrong, connections cannot be watched, or output failed.
pub fn run(args: &EventsArgs) -> anyhow::Result<()> {
    if args.columns.as_deref() == Some("help") {
        return stdout::write_lines(columns_help::<Events>());
    }
    let columns = args.columns.as_deref().map(parse_columns::<Events>).transpose();
    let columns = columns.map_err(|error| UsageError::unknown_column("--columns", "events", &error))?;
    let interrupts = Interrupts::catch().context("handle SIGINT")?;
    let context = QueryContext::new(&listing_args(args), false, true)?;
    let targets = NetnsTargets::new(&context, &args.filter, None, KernelFeatures::FULL)?;
    let netns = one_netns(args, &context);
    let options = ConnectionOptions {
        kinds: kinds(args),
        ends: targets
            .common_filter()
            .map_or(Ends::ANYWHERE, |resolved| resolved.ends),
        families: match (args.ipv4, args.ipv6) {
            (true, false) => Families { v4: true, v6: false },
            (false, true) => Families { v4: false, v6: true },
            _ => Families::BOTH,
        },
        netns,
        ring_bytes: args.ring,
        pid_namespace: sockeye_source::own_pid_namespace(),
        readers: !args.no_readers,
    };
    let watch = ConnectionWatch::begin(&context.engine, &options).map_err(|unavailable| {
        anyhow!("connections are watched by BPF programs in the kernel: {unavailable}")
    })?;
    let begin = Instant::now();
    let (owners, problems) = KnownOwners::read(&context);
    if args.verbose {
        say(&format!(
            "sockeye: watching by BPF at tracepoints, a ring of {} bytes; older sockets were read in {:.1} ms\n",
            args.ring,
            begin.elapsed().as_secs_f64() * 1e3
        ));
        for (tracepoint, error) in watch.missing() {
            say(&format!("sockeye: {tracepoint} is not watched: {error}\n"));
        }
    }
    for problem in problems {
        say(&format!("sockeye: {problem}\n"));
    }
    let format = match args.format {
        EventFormat::Table => Format::Table,
        EventFormat::Jsonl => Format::Jsonl,
        EventFormat::Csv => Format::Csv,
    };
    let mut layout = output::layout(format, columns, netns.is_some());
    layout.envelope = envelope::now();
    layout.no_header = args.no_header;
    layout.style = stdout::style(args.color);
    layout.width = stdout::width();
    let out = stdout::open().context(stdout::WRITING)?;
    let mut events = EventStream {
        args,
        context: &context,
        targets: &targets,
        owners,
        clock: Clock::default(),
        batches: Batches::default(),
        summary: EventSummary::default(),
        writer: ListingWriter::new(out, layout),
        shown: 0,
        reported_losses: 0,
        watch,
    };
    events.run(interrupts, args.duration.map(|duration| begin + duration))
}

/// Events on their way from the ring to the output.
struct EventStream<'a, W: Write> {
    args: &'a EventsArgs,
    context: &'a QueryContext,
    targets: &'a NetnsTargets<'a>,
    owners: KnownOwners,
    clock: Clock,
    batches: Batches,
    summary: EventSummary,
    writer: ListingWriter<W, Events>,
    watch: ConnectionWatch,
    /// Events that were counted, and shown unless only a summary is.
    shown: u64,
    reported_losses: u64,
}

impl<W: Write> EventStream<'_, W> {
    fn run(&mut self, interrupts: Interrupts, deadline: Option<Instant>) -> anyhow::Result<()> {
        if !self.args.summary {
            // A table has its header with the first events, which decide how wide its columns are.
            self.writer.begin().context(stdout::WRITING)?;
        }
        let mut next_check = Instant::now() + CHECK;
        let interrupted = loop {
            let now = Instant::now();
            let left = deadline.map_or(Watch::INTERVAL, |deadline| {
                deadline.saturating_duration_since(now)
            });
            let reads = [interrupts.as_fd()];
            self.watch
                .wait(left.min(Watch::INTERVAL), &reads)
                .context("wait for events")?;
            self.step()?;
            if interrupts.caught().is_some() {
                break true;
            }
            if self.is_enough() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break false;
            }
            // A reader that has ended ends us, also while nothing happens.
            if Instant::now() >= next_check {
                next_check = Instant::now() + CHECK;
                self.report_losses()?;
                if !stdout::pause(Duration::ZERO) {
                    return Ok(());
                }
            }
        };
        self.finish(interrupted)
    }

    /// Reads what is in the ring, and shows what was there before.
    fn step(&mut self) -> anyhow::Result<()> {
        self.clock.set();
        let batches = &mut self.batches;
        self.watch.read(|record| {
            batches.extend(ConnectionEvent::from_wire(record));
        });
        if self.batches.is_empty() {
            return Ok(());
        }
        self.show()
    }

    /// Shows the events that have waited long enough.
    fn show(&mut self) -> anyhow::Result<()> {
        let events = self.batches.take();
        if events.is_empty() {
            return Ok(());
        }
        for mut event in events {
            self.owners.complete(&mut event);
            if !self.args.shows(event.kind) || self.is_enough() || !self.matches(&event) {
                continue;
            }
            self.summary.add(&event);
            self.shown += 1;
            if !self.args.summary {
                self.row(&event).context(stdout::WRITING)?;
            }
        }
        if !self.args.summary {
            self.writer.flush().context(stdout::WRITING)?;
        }
        Ok(())
    }

    fn row(&mut self, event: &ConnectionEvent) -> std::io::Result<()> {
        let time_us = self.clock.unix_us(event.time_ns);
        let clock = match self.args.format {
            EventFormat::Table => self.clock.text(time_us),
            EventFormat::Jsonl | EventFormat::Csv => {
                self.writer.set_time(time_us);
                String::new()
            }
        };
        let context = self.context;
        let workload = |kind| context.workload_of_cgroup(event.socket.cgroup?, kind);
        let row = EventRow {
            event,
            names: context,
            clock: &clock,
            container: workload(WorkloadKind::Container),
            unit: workload(WorkloadKind::Unit),
        };
        self.writer.row(&row)
    }

    /// Whether the filter accepts an event: that of a connection with several processes, if it accepts any of them.
    fn matches(&self, event: &ConnectionEvent) -> bool {
        let netns = event.socket.netns;
        let Some(resolved) = netns.and_then(|netns| self.targets.filter_in(netns)) else {
            return false;
        };
        if resolved.filter.is_empty() {
            return true;
        }
        let processes = [event.owner.map(|owner| owner.process), event.closer];
        let mut owners: Vec<Owner> = processes
            .into_iter()
            .flatten()
            .map(|process| Owner { process, fd: Fd(0) })
            .collect();
        owners.sort_unstable();
        owners.dedup();
        resolved
            .filter
            .matches(&Entry::with_owners(&event.socket, Some(&owners)))
    }

    fn is_enough(&self) -> bool {
        self.args.count.is_some_and(|count| self.shown >= count)
    }

    /// Notes on stderr that events were lost since the last call.
    fn report_losses(&mut self) -> anyhow::Result<()> {
        let counts = self.watch.accounting().context("read the counts of events")?;
        let lost = counts.total().lost;
        if lost > self.reported_losses {
            let new = lost - self.reported_losses;
            self.reported_losses = lost;
            say(&format!(
                "sockeye: {new} events were lost: the buffer was full; --ring BYTES makes it larger\n"
            ));
        }
        Ok(())
    }

    /// Ends the watch, and writes the summary.
    fn finish(&mut self, interrupted: bool) -> anyhow::Result<()> {
        let batches = &mut self.batches;
        let finished = self.watch.finish(|record| {
            batches.extend(ConnectionEvent::from_wire(record));
        });
        let counts = finished.context("read the counts of events")?;
        for _ in 0..2 {
            self.show()?;
        }
        self.write_summary(&counts, interrupted)
    }

    fn write_summary(&mut self, counts: &Accounting, interrupted: bool) -> anyhow::Result<()> {
        let whole = Summary {
            sources: &[("tcp", "bpf")],
            interrupted,
            ..Summary::default()
        };
        let summary = &self.summary;
        // Without rows a table would be a header only.
        let is_shown = !self.args.summary || self.args.format == EventFormat::Jsonl;
        if is_shown {
            self.writer
                .finish_with(&whole, |object| {
                    output::summary::push_fields(object, summary, counts);
                })
                .context(stdout::WRITING)?;
        }
        let mut text = String::new();
        output::summary::push_text(&mut text, summary, counts, self.args.summary);
        match self.args.format {
            EventFormat::Table if self.args.summary => stdout::write(text.as_bytes())?,
            // It is no row of the table.
            EventFormat::Table | EventFormat::Csv => say(&format!("sockeye: {text}")),
            // The last line has it.
            EventFormat::Jsonl => {}
        }
        Ok(())
    }
}

/// Returns the kinds of records that the kernel is asked for.
fn kinds(args: &EventsArgs) -> Vec<u32> {
    // Owners are known by listeners, and how a connection ended by the RST that is sent.
    let mut kinds = vec![kind::LISTENS, kind::UNLISTENS, kind::RESET_SENT];
    for (event, kind) in [
        (ConnectionEventKind::Open, kind::OPENED),
        (ConnectionEventKind::Fail, kind::FAILED),
        (ConnectionEventKind::Close, kind::CLOSED),
        (ConnectionEventKind::State, kind::STATE),
        (ConnectionEventKind::ResetReceived, kind::RESET_RECEIVED),
        (ConnectionEventKind::Retransmit, kind::RETRANSMITTED),
    ] {
        if args.shows(event) {
            kinds.push(kind);
        }
    }
    kinds
}

/// Returns the inode of the only namespace to watch; `None` for all.
fn one_netns(args: &EventsArgs, context: &QueryContext) -> Option<u32> {
    args.netns.as_deref().filter(|netns| *netns != "all")?;
    let mut namespaces = context.namespaces.iter();
    namespaces.next().flatten().map(|namespace| namespace.inode().0)
}

/// Returns the options of a listing with the same meaning.
fn listing_args(args: &EventsArgs) -> ListingArgs {
    // Interfaces have other numbers in each namespace: their names have to be looked up in all.
    let names_interfaces = args
        .filter
        .iter()
        .any(|word| word.contains("dev") || word.contains("autobound"));
    ListingArgs {
        processes: true,
        numeric: args.numeric,
        ipv4: args.ipv4,
        ipv6: args.ipv6,
        netns: match args.netns.as_deref() {
            Some("all") | None => names_interfaces.then(|| "all".to_owned()),
            Some(netns) => Some(netns.to_owned()),
        },
        complete: false,
        source: SourceArg::Auto,
        format: FormatArg::Jsonl,
        no_header: args.no_header,
        color: args.color,
        btf: args.btf.clone(),
        names_timeout: Duration::ZERO,
        verbose: args.verbose,
    }
}

/// How often losses and the reader of the output are looked at.
const CHECK: Duration = Duration::from_secs(1);
