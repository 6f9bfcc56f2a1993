//! Runs `events`.

use super::args::{EventFormat, EventsArgs};
use super::at_least::{self, AtLeast};
use super::batch::Batches;
use super::by_diag::DiagWatch;
use super::cgroup_names::{self, CgroupNames, CgroupTexts};
use super::command_lines::CommandLines;
use super::counted::{self, CountedBefore, Unseen};
use super::ended::Ended;
use super::kinds;
use super::late_names::LateNames;
use super::output::{self, EventRow, Events};
use super::owners::KnownOwners;
use super::selection::{self, Selection};
use super::since_start::{self, Opened};
use super::source::{EventSource, EventSourceArg};
use super::summary::EventSummary;
use crate::clock::Clock;
use anyhow::{Context, anyhow};
use sockeye_console::args::FormatArg;
use sockeye_console::envelope;
use sockeye_console::notes::say;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_filter::KernelFeatures;
use sockeye_model::{ConnectionEvent, NetnsInode, counted_were};
use sockeye_output::listing::{ListingWriter, columns_help, parse_columns};
use sockeye_output::wrap::push_wrapped;
use sockeye_output::{Format, Summary};
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::netns_targets::NetnsTargets;
use sockeye_source::{Ends, Families};
use sockeye_sys::interrupts::Interrupts;
use sockeye_tracepoints::{Accounting, Budget, ConnectionOptions, ConnectionWatch, Watch};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Prints events until ^C, `--count` or `--duration`.
///
/// # Errors
/// If the filter or an option is wrong, connections cannot be watched, or output failed.
pub fn run(args: &EventsArgs) -> anyhow::Result<()> {
    if args.common.columns.as_deref() == Some("help") {
        return stdout::write_lines(columns_help::<Events>());
    }
    let columns = args
        .common
        .columns
        .as_deref()
        .map(parse_columns::<Events>)
        .transpose();
    let columns = columns.map_err(|error| UsageError::unknown_column("--columns", "events", &error))?;
    let interrupts = Interrupts::catch().context("handle SIGINT")?;
    let context = QueryContext::new(&listing_args(args), false, true)?;
    let targets = NetnsTargets::new(&context, &args.filter(), None, KernelFeatures::FULL)?;
    selection::check(args, targets.filter())?;
    let netns = one_netns(args, &context);
    let options = ConnectionOptions {
        kinds: kinds::kinds(args),
        ends: targets
            .common_filter()
            .map_or(Ends::ANYWHERE, |resolved| resolved.ends),
        families: match (args.ipv4, args.ipv6) {
            (true, false) => Families { v4: true, v6: false },
            (false, true) => Families { v4: false, v6: true },
            _ => Families::BOTH,
        },
        netns,
        ring_bytes: args.common.ring,
        pid_namespace: sockeye_source::own_pid_namespace(),
        readers: !args.no_readers,
        protocols: kinds::protocols(args),
        cpu_ppm_max: args.budget.ppm_max(50),
    };
    let source = std::thread::scope(|scope| {
        // Without a thread they are read by the first row.
        let _ = std::thread::Builder::new()
            .name("names".to_owned())
            .spawn_scoped(scope, || cgroup_names::prepare(&context));
        begin_source(args, &context, &options)
    })?;
    let begin = Instant::now();
    let (owners, problems) = match source {
        EventSource::Bpf(_) => KnownOwners::read(&context),
        // Its polls find them.
        EventSource::Diag(_) => (KnownOwners::default(), Vec::new()),
    };
    let mut present = Vec::new();
    if args.since_start {
        match &source {
            EventSource::Bpf(_) => {
                let netns = netns.map(NetnsInode);
                present = since_start::list_present(
                    &context,
                    kinds::protocols(args),
                    options.families,
                    netns,
                    &owners,
                )?;
            }
            EventSource::Diag(watch) => watch.present(&mut |event| present.push(event)),
        }
    }
    if let (true, EventSource::Bpf(_)) = (args.common.verbose, &source) {
        say(&format!(
            "sockeye: watching by BPF at tracepoints, a ring of {} bytes; older sockets were read in {:.1} ms\n",
            args.common.ring,
            begin.elapsed().as_secs_f64() * 1e3
        ));
    }
    if let (true, EventSource::Bpf(_)) = (options.pid_namespace != 0, &source) {
        say(
            "sockeye: this is a pid namespace: processes outside of it have no number here, and their connections no owner\n",
        );
    }
    let mut counted = None;
    if let EventSource::Bpf(watch) = &source {
        let missing = watch.missing();
        kinds::report_missing(args, missing);
        let is_missing = |event: &str| match event {
            counted::ALL_RESETS => !watch.shows_all_resets(),
            event => missing.iter().any(|(name, _)| *name == event),
        };
        counted = CountedBefore::begin(args, &options, is_missing);
    }
    for problem in problems {
        say(&format!("sockeye: {problem}\n"));
    }
    let format = match args.format {
        EventFormat::Table => Format::Table,
        EventFormat::Jsonl => Format::Jsonl,
        EventFormat::Csv => Format::Csv,
    };
    let mut layout = output::layout(format, columns, netns.is_some(), kinds::has_protocols(args));
    layout.envelope = envelope::now();
    layout.no_header = args.common.no_header;
    layout.style = stdout::style(args.common.color);
    layout.width = stdout::width();
    let has_command_lines = args.summary.is_none()
        && (format == Format::Jsonl
            || layout
                .columns
                .iter()
                .any(|column| column.name == output::COMMAND_LINE));
    let out = stdout::InterruptedStdout::open(interrupts.descriptor()).context(stdout::WRITING)?;
    let mut events = EventStream {
        args,
        context: &context,
        selection: Selection::new(&context, &targets),
        owners,
        clock: Clock::default(),
        batches: Batches::default(),
        summary: EventSummary::default(),
        ended: Ended::default(),
        cgroup_names: CgroupNames::default(),
        late_names: LateNames::default(),
        command_lines: has_command_lines.then(CommandLines::default),
        writer: ListingWriter::new(out, layout),
        shown: 0,
        reported_losses: 0,
        interrupted: interrupts.descriptor(),
        is_sampled: false,
        counts_before: Accounting::default(),
        summary_begin: begin,
        summaries: 0,
        source,
        unwritten: Vec::new(),
        counted,
        not_compared: None,
    };
    let ended = if args.since_start {
        events.show_present(present)
    } else {
        Ok(())
    };
    let deadline = args.duration.map(|duration| begin + duration);
    match ended.and_then(|()| events.run(interrupts, deadline)) {
        Err(error) if stdout::is_blocked(&error) => events.give_up(),
        ended => ended,
    }
}

/// Begins to watch: by BPF, or by sock_diag where that is not possible, with a note about what is not seen then.
fn begin_source<'a>(
    args: &EventsArgs,
    context: &'a QueryContext,
    options: &ConnectionOptions,
) -> anyhow::Result<EventSource<'a>> {
    let reason = match args.source {
        EventSourceArg::Diag => "as --source asks".to_owned(),
        EventSourceArg::Auto | EventSourceArg::Bpf => {
            match ConnectionWatch::begin(&context.engine, options) {
                Ok(watch) => return Ok(EventSource::Bpf(Box::new(watch))),
                Err(unavailable) if args.source == EventSourceArg::Bpf => {
                    return Err(anyhow!(
                        "connections are watched by BPF programs in the kernel: {unavailable}"
                    ));
                }
                Err(unavailable) => format!("since BPF programs cannot watch: {unavailable}"),
            }
        }
    };
    if kinds::has_protocols(args) {
        if args.source == EventSourceArg::Diag {
            let text = "sockeye: --source diag shows TCP only: leave out -u and -M, or --source\n";
            return Err(UsageError(text.to_owned()).into());
        }
        if !kinds::protocols(args).tcp {
            return Err(anyhow!("UDP and MPTCP cannot be watched, {reason}"));
        }
        say("sockeye: UDP and MPTCP are not seen without BPF programs\n");
    }
    let watch = DiagWatch::begin(context, options.families, args.common.ring)?;
    say(&format!(
        "sockeye: watching closes by sock_diag and opens by polling, {reason}. Not seen: other network namespaces; opens of \
         connections shorter than {} ms; how and by whom one ended; most failed opens, retransmissions, resets, changes of states; which process another \
         user's connection has\n",
        DiagWatch::POLL.as_millis()
    ));
    Ok(EventSource::Diag(Box::new(watch)))
}

/// Events on their way from the ring to the output.
struct EventStream<'a, W: Write> {
    args: &'a EventsArgs,
    context: &'a QueryContext,
    selection: Selection<'a>,
    owners: KnownOwners,
    clock: Clock,
    batches: Batches,
    summary: EventSummary,
    ended: Ended,
    cgroup_names: CgroupNames<'a>,
    late_names: LateNames,
    /// If they are shown.
    command_lines: Option<CommandLines>,
    writer: ListingWriter<W, Events>,
    source: EventSource<'a>,
    /// Events that could not be shown, because the output takes nothing.
    unwritten: Vec<ConnectionEvent>,
    /// What the events are compared with at the end.
    counted: Option<CountedBefore>,
    /// Kinds of records that nothing is compared with; `None` before the end.
    not_compared: Option<Vec<&'static str>>,
    /// The counts of events at the last summary.
    counts_before: Accounting,
    summary_begin: Instant,
    /// How many summaries were written.
    summaries: u64,
    /// Events that were counted, and shown unless only a summary is.
    shown: u64,
    reported_losses: u64,
    /// Readable once a signal has arrived.
    interrupted: BorrowedFd<'static>,
    /// Whether it was noted that events are left out.
    is_sampled: bool,
}

impl<W: Write> EventStream<'_, W> {
    fn run(&mut self, interrupts: Interrupts, deadline: Option<Instant>) -> anyhow::Result<()> {
        if self.args.summary.is_none() {
            // A table has its header with the first events, which decide how wide its columns are.
            self.writer.begin().context(stdout::WRITING)?;
        }
        let mut next_check = Instant::now() + CHECK;
        let mut next_budget = Instant::now();
        let summary_interval = self.args.summary_interval();
        // The first events may be there already.
        self.step()?;
        let mut is_second_look = false;
        let interrupted = loop {
            // Events wait until the ring was read once more, which is soon, and not until the next interval.
            is_second_look = !is_second_look && !self.batches.is_empty();
            let interval = if is_second_look { SOON } else { Watch::INTERVAL };
            let now = Instant::now();
            let mut left = deadline.map_or(IDLE, |deadline| deadline.saturating_duration_since(now));
            if let Some(summary) = summary_interval {
                left = left.min(summary.saturating_sub(self.summary_begin.elapsed()));
            }
            let reads = [interrupts.as_fd()];
            self.source
                .wait(left.min(interval), left.min(IDLE), &reads)
                .context("wait for events")?;
            self.step()?;
            if Instant::now() >= next_budget {
                next_budget = Instant::now() + Budget::INTERVAL;
                self.keep_to_budget()?;
            }
            if interrupts.caught().is_some() {
                break true;
            }
            if self.is_enough() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break false;
            }
            if summary_interval.is_some_and(|interval| self.summary_begin.elapsed() >= interval) {
                let counts = self.source.accounting().context("read the counts of events")?;
                self.write_summary(&counts, false)?;
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
        let shown = self.shown;
        // So that it ends also while events are made faster than they are read.
        for _ in 0..BATCHES_MAX {
            let (batches, command_lines) = (&mut self.batches, &mut self.command_lines);
            let selection = &mut self.selection;
            let has_more = self.source.read(|event| {
                if let Some(lines) = command_lines {
                    lines.note(&event);
                }
                selection.note(&event);
                batches.push(event);
            })?;
            self.show()?;
            if !has_more {
                break;
            }
        }
        self.flush_since(shown)
    }

    /// Shows the events that have waited long enough.
    fn show(&mut self) -> anyhow::Result<()> {
        if self.batches.is_empty() {
            return Ok(());
        }
        let mut events = self.batches.take();
        if kinds::protocols(self.args).udp {
            self.owners.share(&mut events);
            self.owners.find_missing(&events, self.context);
        }
        for nth in 0..events.len() {
            let event = &mut events[nth];
            let known_by = event.owner.map(|owner| owner.known_by);
            self.owners.complete(event);
            self.ended.complete(event);
            if let Some(lines) = &mut self.command_lines
                && event.owner.map(|owner| owner.known_by) != known_by
            {
                lines.note(event);
            }
            self.selection.note(event);
            if let Err(error) = self.show_event(event) {
                self.unwritten.extend(events.drain(nth..));
                return Err(error);
            }
        }
        self.batches.give_back(events);
        Ok(())
    }

    /// Writes what was shown since so many events had been.
    fn flush_since(&mut self, shown: u64) -> anyhow::Result<()> {
        // The first rows of a table decide how wide its columns are: without one there is no header yet.
        if self.args.summary.is_none() && self.shown > shown {
            self.writer.flush().context(stdout::WRITING)?;
        }
        Ok(())
    }

    fn show_event(&mut self, event: &ConnectionEvent) -> anyhow::Result<()> {
        if !kinds::is_shown(self.args, event, &self.owners) || self.is_enough() || !self.matches(event) {
            return Ok(());
        }
        self.summary.add(event);
        self.shown += 1;
        if self.args.summary.is_none() {
            self.row(event).context(stdout::WRITING)?;
        }
        Ok(())
    }

    /// Shows what was there when the watch began, before everything else.
    fn show_present(&mut self, mut present: Vec<ConnectionEvent>) -> anyhow::Result<()> {
        self.clock.set();
        // What was opened since the watch began is listed as well, and has its own event.
        let (batches, mut opened) = (&mut self.batches, Opened::default());
        while self.source.read(|event| {
            opened.add(&event);
            batches.push(event);
        })? {}
        since_start::remove_opened(&mut present, &opened);
        for event in &present {
            self.owners.note_present(event);
            self.selection.note(event);
            self.show_event(event)?;
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
        let (names, cgroup) = match event.socket.cgroup {
            None => (self.context, CgroupTexts::default()),
            Some(cgroup) => match self.cgroup_names.of(self.context, cgroup) {
                Some(found) => (self.context, found),
                None => {
                    let late = self
                        .late_names
                        .of(self.context, || listing_args(self.args), cgroup);
                    (late, CgroupTexts::find(late, cgroup))
                }
            },
        };
        let row = EventRow {
            event,
            names,
            clock: &clock,
            cgroup: cgroup.path,
            container: cgroup.container,
            unit: cgroup.unit,
            command_line: self.command_lines.as_ref().and_then(|lines| lines.of(event)),
        };
        self.writer.row(&row)
    }

    /// Whether the filter accepts an event.
    fn matches(&mut self, event: &ConnectionEvent) -> bool {
        if self.selection.is_of_ends() {
            return self.selection.matches(event, self.context);
        }
        let late = event
            .socket
            .cgroup
            .filter(|cgroup| self.cgroup_names.of(self.context, *cgroup).is_none());
        let names = match late {
            None => self.context,
            Some(cgroup) => self
                .late_names
                .of(self.context, || listing_args(self.args), cgroup),
        };
        self.selection.matches(event, names)
    }

    fn is_enough(&self) -> bool {
        self.args.count.is_some_and(|count| self.shown >= count)
    }

    /// Leaves out the events of some connections while this process takes more of a processor than `--cpu` allows, and notes when that begins.
    fn keep_to_budget(&mut self) -> anyhow::Result<()> {
        let every = self.source.keep_to_budget().context("leave events out")?;
        if let Some(every) = every.filter(|every| *every > 1 && !self.is_sampled) {
            self.is_sampled = true;
            say(&format!(
                "sockeye: events take more of a processor than --cpu allows: only those of one in {every} connections are shown for now, and the others \
                 are counted as left out\n"
            ));
        }
        Ok(())
    }

    /// Notes on stderr that events were lost since the last call.
    fn report_losses(&mut self) -> anyhow::Result<()> {
        let counts = self.source.accounting().context("read the counts of events")?;
        let lost = counts.total().lost;
        if lost > self.reported_losses {
            let new = lost - self.reported_losses;
            self.reported_losses = lost;
            let remedy = match self.source {
                EventSource::Bpf(_) => "--ring BYTES makes it larger",
                EventSource::Diag(_) => {
                    "--ring BYTES makes it larger, up to net.core.rmem_max without CAP_NET_ADMIN"
                }
            };
            say(&format!(
                "sockeye: {} lost: the buffer was full; {remedy}\n",
                counted_were(new, "event")
            ));
        }
        Ok(())
    }

    /// Ends the watch, and writes the summary.
    fn finish(&mut self, interrupted: bool) -> anyhow::Result<()> {
        let unseen = self.unseen()?;
        let (batches, command_lines) = (&mut self.batches, &mut self.command_lines);
        let selection = &mut self.selection;
        let finished = self.source.finish(&mut |event| {
            if let Some(lines) = command_lines {
                lines.note(&event);
            }
            selection.note(&event);
            batches.push(event);
        });
        let mut counts = finished.context("read the counts of events")?;
        unseen.add_to(&mut counts);
        let shown = self.shown;
        for _ in 0..2 {
            self.show()?;
        }
        self.flush_since(shown)?;
        self.write_summary(&counts, interrupted)
    }

    /// Returns what the kernel has counted since the begin and no event has shown.
    fn unseen(&mut self) -> anyhow::Result<Unseen> {
        let counted = self.counted.take().and_then(CountedBefore::again);
        let is_compared = |record| counted.as_ref().is_some_and(|counted| counted.has(record));
        let shown = kinds::records_shown(self.args).into_iter();
        let not_compared = shown.filter(|(kind, _)| !is_compared(*kind));
        self.not_compared = Some(not_compared.map(|(_, name)| name).collect());
        let Some(counted) = counted else {
            return Ok(Unseen::default());
        };
        if self.args.common.verbose {
            let namespaces = sockeye_model::counted(counted.namespaces(), "network namespace");
            say(&format!(
                "sockeye: events are compared with the counters of {namespaces}\n"
            ));
        }
        self.step()?;
        self.take_aside()?;
        let unseen = counted.unseen(&self.batches.seen, |_| 0);
        if !unseen.any() {
            return Ok(unseen);
        }
        // What another processor was counting when the counters were read has its event by now.
        std::thread::sleep(SETTLED);
        let pending = counted::handshakes(self.context);
        self.step()?;
        self.take_aside()?;
        let pending = |netns| {
            pending
                .as_ref()
                .map_or(u64::MAX, |all| all.get(&netns).copied().unwrap_or(0))
        };
        Ok(counted.unseen(&self.batches.seen, pending))
    }

    /// Takes what the programs have counted without an event.
    fn take_aside(&mut self) -> anyhow::Result<()> {
        let counted = self.source.counted_aside().context("read the counts of events")?;
        self.batches.seen.set_aside(counted);
        Ok(())
    }

    /// Writes what is no row.
    fn write_text(&self, text: &[u8]) -> anyhow::Result<()> {
        stdout::InterruptedStdout::open(self.interrupted)
            .and_then(|mut out| out.write_all(text))
            .context(stdout::WRITING)
    }

    /// Ends the watch after a signal while the output takes nothing: what was not written is lost.
    fn give_up(&mut self) -> anyhow::Result<()> {
        let mut unwritten = std::mem::take(&mut self.unwritten);
        unwritten.extend(self.batches.take());
        unwritten.extend(self.batches.take());
        let counts = self.source.finish(&mut |event| unwritten.push(event));
        let mut counts = counts.context("read the counts of events")?;
        at_least::lose(&mut counts, &unwritten);
        let is_polled = matches!(self.source, EventSource::Diag(_));
        let at_least = AtLeast::of(&counts, is_polled).watching(|kind| self.args.watches(kind));
        let mut text = String::from(
            "sockeye: the last events were not written: what reads standard output has stopped to read\nsockeye: ",
        );
        output::summary::push_text(&mut text, &self.summary, &counts, &at_least);
        say(&text);
        Ok(())
    }

    fn write_summary(&mut self, counts: &Accounting, interrupted: bool) -> anyhow::Result<()> {
        let untracked = self.source.untracked().context("read the counts of sockets")?;
        kinds::report_untracked(untracked);
        let sources = kinds::sources(self.args, self.source.name());
        let whole = Summary {
            sources: &sources,
            interrupted,
            ..Summary::default()
        };
        let owner_unknown = self.selection.take_undecided();
        let (summary, only_summary) = (&self.summary, self.args.summary.is_some());
        let not_compared = self.not_compared.as_deref();
        let repeats = self.args.summary_interval().is_some();
        self.summaries += 1;
        let sample = repeats.then_some(self.summaries);
        let all_counts = *counts;
        let counts = &if repeats {
            output::summary::since(counts, &self.counts_before)
        } else {
            *counts
        };
        let is_polled = matches!(self.source, EventSource::Diag(_));
        let at_least = &AtLeast::of(counts, is_polled).watching(|kind| self.args.watches(kind));
        let sampled_every = self.source.take_sampled_every();
        let interval_ms = u64::try_from(self.summary_begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now = envelope::now();
        // Without rows a table would be a header only.
        if !only_summary || self.args.format == EventFormat::Jsonl {
            if only_summary {
                self.writer.set_sample(sample);
                self.writer.set_time(now.time_us);
            }
            self.writer
                .finish_with(&whole, |object| {
                    object.number("interval_ms", Some(interval_ms));
                    output::summary::push_fields(object, summary, counts, untracked, at_least, not_compared);
                    object.number("owner_unknown", owner_unknown);
                    let every = Some(sampled_every).filter(|every| *every > 1);
                    object.number("sampled_every", every);
                })
                .context(stdout::WRITING)?;
        }
        let mut text = String::new();
        match self.args.format {
            EventFormat::Table if only_summary => {
                let (mut out, width) = (Vec::new(), stdout::width());
                if repeats {
                    let (time, seconds) = (self.clock.text(now.time_us), interval_ms as f64 / 1000.0);
                    out.extend_from_slice(format!("{time}, {seconds:.1} s\n").as_bytes());
                }
                output::summary_tables::push(&mut out, summary, at_least, width);
                output::summary::push_text(&mut text, summary, counts, at_least);
                push_wrapped(&mut out, text.trim_end().as_bytes(), "", width);
                if repeats && !interrupted {
                    out.push(b'\n');
                }
                self.write_text(&out)?;
            }
            EventFormat::Csv if only_summary => {
                let begins = self.summaries == 1 && !self.args.common.no_header;
                let mut table = Vec::new();
                output::summary_csv::push(&mut table, &now, self.summaries, summary, at_least, begins);
                self.write_text(&table)?;
                say(&format!("sockeye: {}\n", output::summary::losses(counts)));
            }
            // It is no row of the table.
            EventFormat::Table | EventFormat::Csv => {
                output::summary::push_text(&mut text, summary, counts, at_least);
                say(&format!("sockeye: {text}"));
            }
            // The last line has it.
            EventFormat::Jsonl => {}
        }
        if let Some(undecided) = owner_unknown.filter(|undecided| *undecided > 0) {
            say(&format!(
                "sockeye: {} not shown although the filter may mean them: their processes are unknown, or had ended before they could be read\n",
                counted_were(undecided, "event")
            ));
        }
        self.summary = EventSummary::default();
        self.counts_before = all_counts;
        self.summary_begin = Instant::now();
        Ok(())
    }
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
    let netns = match args.netns.as_deref() {
        Some("all") | None => names_interfaces.then(|| "all".to_owned()),
        Some(netns) => Some(netns.to_owned()),
    };
    ListingArgs {
        ipv4: args.ipv4,
        ipv6: args.ipv6,
        ..args.common.listing(netns, FormatArg::Jsonl, Duration::ZERO)
    }
}

/// How long an event waits at least for a RST that the kernel sends after a close: microseconds later, unless another process gets the processor
/// in between.
const SOON: Duration = Duration::from_millis(4);
/// How long nothing is done while there are no events.
const IDLE: Duration = Budget::INTERVAL;
/// How long after a counter its event can be made.
const SETTLED: Duration = Duration::from_millis(20);
/// How many batches are read before anything else is done.
const BATCHES_MAX: usize = 1000;
/// How often losses and the reader of the output are looked at.
const CHECK: Duration = Duration::from_secs(1);
