//! Watches drops and counters, and reports them once, repeatedly, or packet by packet.

use super::args::DropsArgs;
use super::counters::{CounterSample, listener_drops, socket_drops};
use super::output::{
    DropCounters, DropPackets, Drops, NamedLine, PACKET_COLUMNS, ShownPacket, counter_name,
    push_counter_lines, table_columns,
};
use super::rows::{DropRow, Naming, Reasons};
use super::sockets::SocketTable;
use crate::clock::Clock;
use anyhow::{Context as _, bail};
use sockeye_console::args::FormatArg;
use sockeye_console::notes::say;
use sockeye_console::usage::UsageError;
use sockeye_console::{envelope, stdout};
use sockeye_dictionary::{Dictionary, DropClass};
use sockeye_drops::{CounterLine, CounterSubject, reconcile};
use sockeye_model::{Names as _, NetnsInode};
use sockeye_observe::KernelFunctions;
use sockeye_output::listing::{Layout, ListingWriter, Record, parse_columns};
use sockeye_output::{Envelope, Format, Summary};
use sockeye_query::context::{QueryContext, bpf_engine};
use sockeye_query::listing::{Listing, ListingReport};
use sockeye_sys::interrupts::Interrupts;
use sockeye_tracepoints::{DropCounts, DropOptions, DropWatch, Watch};
use sockeye_verdict::MEANINGS;
use sockeye_wire::drops::{Packet, reason_at};
use std::cell::OnceCell;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Watches drops and prints them.
///
/// # Errors
/// If an option is wrong, nothing can be watched, or output failed.
pub fn run(args: &DropsArgs) -> anyhow::Result<ExitCode> {
    let interrupts = Interrupts::catch().context("handle SIGINT, SIGTERM and SIGHUP")?;
    if args.keys == 0 && (args.packets || !args.filter.is_empty()) {
        let text =
            "sockeye: drops: with --keys 0 only reasons are counted: no packets, and nothing to filter\n";
        return Err(UsageError(text.to_owned()).into());
    }
    let engine = bpf_engine(&args.btf)?;
    let mut reasons = Reasons::new(&engine.enumerators("skb_drop_reason").unwrap_or_default());
    let options = DropOptions {
        treatments: &reasons.treatments(args.all, args.keys > 0),
        packets: args.packets,
        ring_bytes: args.ring,
        // The kernel wants at least one.
        keys: args.keys.max(1),
    };
    let watch = match DropWatch::load(&engine, &options) {
        Ok(watch) => Some(watch),
        Err(error) if args.packets || !args.filter.is_empty() => {
            bail!("drops: packets cannot be watched: {error}");
        }
        Err(error) => {
            say(&format!(
                "sockeye: drops: only counters of this network namespace: dropped packets, their reasons and owners cannot be seen: \
                 {error}\n"
            ));
            None
        }
    };
    reasons.are_given = watch.as_ref().is_some_and(DropWatch::has_reasons);
    if watch.is_some() && !reasons.are_given {
        say("sockeye: drops: this kernel gives no reasons (Linux 5.17): only places are known\n");
    }
    let netns = args
        .netns
        .clone()
        .or_else(|| watch.is_some().then(|| "all".to_owned()));
    let common = args.listing(netns);
    let context = QueryContext::new(&common, false, true)?;
    let mut listing = Listing::new(&common, &args.filter, None, &context)?;
    listing.require_owners();
    let session = Session {
        args,
        reasons,
        listing: &listing,
        functions: OnceCell::new(),
        interrupts,
    };
    match watch {
        Some(watch) if args.packets => session.packets(watch),
        watch => session.reports(watch),
    }
}

struct Session<'a> {
    args: &'a DropsArgs,
    reasons: Reasons,
    listing: &'a Listing<'a>,
    functions: OnceCell<KernelFunctions>,
    interrupts: Interrupts,
}

/// What was read at one time.
struct Reading {
    counters: CounterSample,
    drops: DropCounts,
    at: Instant,
}

/// The result of an interval.
struct Report {
    rows: Vec<DropRow>,
    counters: Vec<NamedLine>,
    /// Normal ends of packets that are not shown; `None` where one namespace is selected, since those that are counted by reason only
    /// may be of others.
    normal: Option<u64>,
    /// Whether drops were watched.
    is_watched: bool,
    evicted_keys: u64,
    /// Drops that the program did not see.
    missed: u64,
    interval: Duration,
    envelope: Envelope,
    sample: Option<u64>,
}

impl Session<'_> {
    fn reports(&self, mut watch: Option<DropWatch>) -> anyhow::Result<ExitCode> {
        if let Some(watch) = &mut watch {
            watch.attach().context("drops")?;
        }
        // The order of each report: with a steady rate of drops, what happens between these readings is the same at both ends.
        let mut before = self.read(watch.as_ref())?;
        let mut sockets = SocketTable::read(self.listing, &mut self.listing.begin())?;
        let mut missed = 0;
        let until = self.args.duration.map(|duration| before.at + duration);
        if watch.is_some() {
            self.say_begin(until.is_none() && self.args.watch.is_none());
        }
        for number in 1.. {
            let next = self.args.watch.map(|interval| before.at + interval);
            let deadline = [next, until].into_iter().flatten().min();
            self.wait(deadline)?;
            let is_over = self.interrupts.caught().is_some()
                || until.is_some_and(|until| Instant::now() >= until)
                || self.args.count == Some(number)
                || self.args.watch.is_none();
            let now = self.read(watch.as_ref())?;
            let accounting = watch
                .as_mut()
                .map(DropWatch::accounting)
                .transpose()
                .context("drops")?;
            let missed_now = accounting.map_or(0, |accounting| accounting.missed);
            let mut report = self.listing.begin();
            let sockets_now = SocketTable::read(self.listing, &mut report)?;
            let mut result = self.report(
                &before,
                &now,
                [&sockets_now, &sockets],
                watch.is_some() && self.args.keys > 0,
            );
            result.is_watched = watch.is_some();
            result.missed = missed_now.saturating_sub(missed);
            result.sample = self.args.watch.map(|_| number);
            match self.print(&result, &report, number > 1) {
                Err(error) if stdout::is_closed_pipe(&error) => break,
                printed => printed?,
            }
            // Sockets without a process have no owner, which is all that is looked for.
            if let Some(everywhere) = report.all_netns.as_mut().filter(|_| !self.args.verbose) {
                everywhere.descriptors_only = false;
            }
            self.listing.write_notes(&report, self.args.verbose);
            self.say_losses(&result, &now);
            if is_over {
                break;
            }
            (before, sockets, missed) = (now, sockets_now, missed_now);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn read(&self, watch: Option<&DropWatch>) -> anyhow::Result<Reading> {
        // The same order at the beginning and at the end: what happens between both readings is in one of them too few at the
        // beginning, and too many at the end.
        let at = Instant::now();
        let counters = CounterSample::read(self.listing);
        let drops = watch.map(DropWatch::counts).transpose();
        let drops = drops
            .context("drops: read what the program has counted")?
            .unwrap_or_default();
        Ok(Reading { counters, drops, at })
    }

    /// Waits for a time or for a signal.
    fn wait(&self, deadline: Option<Instant>) -> anyhow::Result<()> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) || self.interrupts.caught().is_some() {
                return Ok(());
            }
            let step = left.unwrap_or(STEP_MAX).min(STEP_MAX);
            let timeout = rustix::event::Timespec::try_from(step).context("wait")?;
            let interrupts = self.interrupts.as_fd();
            let mut polled = [rustix::event::PollFd::new(
                &interrupts,
                rustix::event::PollFlags::IN,
            )];
            match rustix::event::poll(&mut polled, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(anyhow::Error::from(errno).context("wait")),
            }
        }
    }

    fn report(
        &self,
        before: &Reading,
        now: &Reading,
        sockets: [&SocketTable; 2],
        is_watched: bool,
    ) -> Report {
        let functions = self.functions.get_or_init(KernelFunctions::read);
        let netns_name = |inode| self.netns_name(inode);
        let naming = Naming {
            reasons: &self.reasons,
            functions,
            sockets,
            netns_name: &netns_name,
            has_keys: self.args.keys > 0,
        };
        let (mut rows, normal_by_place) = naming.rows(&before.drops, &now.drops, self.args.all);
        let devices = now.counters.devices();
        for row in &mut rows {
            if let (None, Some(index)) = (row.device, row.ifindex) {
                row.device = devices.get(&(row.netns, index.0)).copied();
            }
        }
        // A reason that is not counted by key is in the totals only.
        let normal = matches!(self.args.netns.as_deref(), None | Some("all"))
            .then(|| normal_by_place + self.normal(&before.drops, &now.drops));
        rows.retain(|row| self.is_selected(row.netns));
        let mut counters = Vec::new();
        if self.args.filter.is_empty() {
            let events: Vec<_> = rows.iter().map(DropRow::event).collect();
            let mut moved = now.counters.since(&before.counters);
            let mut of_sockets = socket_drops(sockets[1], sockets[0]);
            of_sockets.retain(|moved| moved.netns.is_none_or(|netns| self.is_selected(Some(netns))));
            moved.append(&mut of_sockets);
            let listeners = listener_drops(sockets[1], sockets[0]);
            let lines = reconcile(&moved, &events, &listeners);
            let name = |line| self.named(line, sockets[0], is_watched);
            counters = lines.into_iter().map(name).collect();
        } else {
            rows.retain(|row| row.matches(self.listing.filter()));
        }
        Report {
            rows,
            counters,
            normal,
            is_watched: true,
            evicted_keys: now.drops.evicted_keys.saturating_sub(before.drops.evicted_keys),
            missed: 0,
            interval: now.at.duration_since(before.at),
            envelope: envelope::now(),
            sample: None,
        }
    }

    /// Returns the number of normal ends that are counted by reason only.
    fn normal(&self, before: &DropCounts, now: &DropCounts) -> u64 {
        if self.args.all {
            return 0;
        }
        let since =
            |index: usize, now: u64| now.saturating_sub(before.by_reason.get(index).copied().unwrap_or(0));
        let all = now.by_reason.iter().enumerate();
        all.filter(|(index, _)| {
            reason_at(*index).is_some_and(|reason| self.reasons.class(reason) == Some(DropClass::Normal))
        })
        .map(|(index, now)| since(index, *now))
        .sum()
    }

    fn named(&self, line: CounterLine, sockets: &SocketTable, is_watched: bool) -> NamedLine {
        let name = counter_name(line.moved.subject);
        let mut advice = None;
        let of = match line.moved.subject {
            CounterSubject::Protocol(counter) => {
                let meaning = MEANINGS.iter().find(|meaning| meaning.counter == counter);
                advice = meaning.and_then(|meaning| meaning.remedy);
                None
            }
            CounterSubject::Backlog => None,
            CounterSubject::Qdisc(device)
            | CounterSubject::Received(device)
            | CounterSubject::Sent(device) => Some(String::from_utf8_lossy(device.as_bytes()).into_owned()),
            CounterSubject::Socket(inode) => sockets.with_inode(inode.0).map(|socket| {
                let local = socket
                    .local
                    .map_or_else(|| inode.to_string(), |local| local.to_string());
                let owner = socket.owner.as_ref().map(super::rows::owner_text);
                let owner = owner.map_or(String::new(), |owner| format!(" {owner}"));
                format!("udp {local}{owner}")
            }),
        };
        let explain = match line.moved.subject {
            CounterSubject::Protocol(_) | CounterSubject::Backlog => explain_name(&name),
            CounterSubject::Received(_) => explain_name("rx_dropped"),
            CounterSubject::Sent(_) => explain_name("tx_dropped"),
            CounterSubject::Qdisc(_) => explain_name("QDISC_DROP"),
            CounterSubject::Socket(_) => explain_name("SOCKET_RCVBUFF"),
        };
        NamedLine {
            netns_name: line.moved.netns.and_then(|netns| self.netns_name(netns)),
            line,
            name,
            of,
            explain,
            advice,
            is_watched,
        }
    }

    fn netns_name(&self, inode: NetnsInode) -> Option<String> {
        self.listing.context.netns(inode).map(str::to_owned)
    }

    /// Whether a network namespace is one of those that the user selected.
    fn is_selected(&self, netns: Option<NetnsInode>) -> bool {
        match self.args.netns.as_deref() {
            None | Some("all") => true,
            Some(_) => netns.is_some_and(|netns| self.listing.context.namespaces.with_inode(netns).is_some()),
        }
    }

    fn print(&self, result: &Report, report: &ListingReport, is_later: bool) -> anyhow::Result<()> {
        let mut out = Vec::new();
        let sources = report.sources();
        let summary = report.summary(&sources);
        if self.args.counters {
            self.push_counters(&mut out, result, &summary, is_later, true)?;
        } else {
            self.push_report(&mut out, result, &summary, is_later)?;
        }
        stdout::open()
            .and_then(|mut stdout| stdout.write_all(&out))
            .context(stdout::WRITING)
    }

    fn push_report(
        &self,
        out: &mut Vec<u8>,
        result: &Report,
        summary: &Summary<'_>,
        is_later: bool,
    ) -> anyhow::Result<()> {
        let format = Format::from(self.args.format);
        let is_table = format == Format::Table;
        let netns = result
            .rows
            .iter()
            .any(|row| row.netns != sockeye_source::own_namespace());
        let layout = self.layout::<Drops>(&table_columns(netns), result, is_later && !is_table);
        if is_table && is_later {
            out.push(b'\n');
        }
        if is_table && result.rows.is_empty() {
            let seconds = result.interval.as_secs_f64();
            let shown = if self.args.filter.is_empty() {
                ""
            } else {
                " that matches"
            };
            let text = match result.is_watched {
                true => format!("No packet{shown} was dropped in {seconds:.1} s.\n"),
                false => "Dropped packets were not watched.\n".to_owned(),
            };
            out.extend_from_slice(text.as_bytes());
        }
        if is_table {
            if !result.rows.is_empty() {
                let mut writer = ListingWriter::new(&mut *out, layout);
                for row in &result.rows {
                    writer.row(&row)?;
                }
                writer.finish(summary)?;
            }
            if !result.counters.is_empty() {
                out.push(b'\n');
                self.push_counters(out, result, summary, false, false)?;
            }
            return Ok(());
        }
        let mut writer = ListingWriter::new(&mut *out, layout);
        writer.begin()?;
        for row in &result.rows {
            writer.row(&row)?;
        }
        if format == Format::Jsonl {
            writer.flush()?;
            drop(writer);
            self.push_counters(out, result, summary, is_later, false)?;
            writer = ListingWriter::new(&mut *out, self.layout::<Drops>("class", result, true));
        }
        writer.finish_with(summary, |object| {
            if format == Format::Json {
                push_counter_lines(object, &result.counters);
            }
            object.number("interval_ms", u64::try_from(result.interval.as_millis()).ok());
            object.number("normal_not_shown", result.normal);
            object.number("evicted_keys", Some(result.evicted_keys));
            object.number("missed", Some(result.missed));
        })?;
        Ok(())
    }

    /// Appends the counters; as a whole document with its end, or only their rows.
    fn push_counters(
        &self,
        out: &mut Vec<u8>,
        result: &Report,
        summary: &Summary<'_>,
        is_later: bool,
        is_document: bool,
    ) -> anyhow::Result<()> {
        let netns = result
            .counters
            .iter()
            .any(|line| line.line.moved.netns != sockeye_source::own_namespace());
        let of = result.counters.iter().any(|line| line.of.is_some());
        let columns = format!(
            "counter,moved,explained,remainder{}{},advice",
            if of { ",of" } else { "" },
            if netns { ",netns" } else { "" }
        );
        let mut layout = self.layout::<DropCounters>(&columns, result, is_later);
        layout.document_type = Drops::KEY;
        let format = layout.format;
        let mut writer = ListingWriter::new(&mut *out, layout);
        if is_document || format != Format::Json {
            writer.begin()?;
        }
        for line in &result.counters {
            writer.row(&line)?;
        }
        if is_document || format == Format::Table {
            writer.finish(summary)?;
        } else {
            writer.flush()?;
        }
        Ok(())
    }

    fn layout<R: Record>(&self, table: &str, result: &Report, no_header: bool) -> Layout<R> {
        let format = Format::from(self.args.format);
        let columns = match format {
            Format::Table => parse_columns::<R>(table).unwrap_or_default(),
            _ => R::columns().iter().collect(),
        };
        let mut layout = Layout::new(format, columns);
        layout.style = stdout::style(self.args.color);
        layout.width = stdout::width();
        layout.no_header = self.args.no_header || no_header;
        layout.marks_last = true;
        layout.sample = result.sample;
        layout.envelope = result.envelope;
        layout
    }

    fn say_begin(&self, is_endless: bool) {
        if self.args.verbose || (is_endless && std::io::stderr().is_terminal()) {
            say("sockeye: drops are counted; ^C ends and reports\n");
        }
    }

    fn say_losses(&self, result: &Report, now: &Reading) {
        let normal = result.normal.filter(|normal| *normal > 0);
        if let (Some(normal), FormatArg::Table) = (normal, self.args.format) {
            say(&format!(
                "sockeye: {normal} normal ends of packets are not shown; -a shows them\n"
            ));
        }
        if result.evicted_keys > 0 {
            say(&format!(
                "sockeye: {} combinations did not fit and were evicted: of their drops only the reason is known; --keys makes room\n",
                result.evicted_keys
            ));
        }
        if result.missed > 0 {
            say(&format!(
                "sockeye: {} drops were not seen: they happened within another one, on the same processor\n",
                result.missed
            ));
        }
        if now.counters.unreadable > 0 {
            say(&format!(
                "sockeye: the counters of {} network namespaces could not be read\n",
                now.counters.unreadable
            ));
        }
        if let Some(unavailable) = self.functions.get().and_then(KernelFunctions::unavailable) {
            say(&format!("sockeye: {}\n", unavailable.text));
        }
    }

    /// Prints each dropped packet.
    fn packets(&self, mut watch: DropWatch) -> anyhow::Result<ExitCode> {
        let mut report = self.listing.begin();
        let mut sockets = SocketTable::read(self.listing, &mut report)?;
        let mut listed = Instant::now();
        let functions = self.functions.get_or_init(KernelFunctions::read);
        let mut clock = Clock::default();
        clock.set();
        watch.attach().context("drops")?;
        let until = self.args.duration.map(|duration| Instant::now() + duration);
        self.say_begin(until.is_none());
        let result = Report {
            rows: Vec::new(),
            counters: Vec::new(),
            normal: None,
            is_watched: true,
            evicted_keys: 0,
            missed: 0,
            interval: Duration::ZERO,
            envelope: envelope::now(),
            sample: None,
        };
        let mut layout = self.layout::<DropPackets>(PACKET_COLUMNS, &result, false);
        layout.document_type = Drops::KEY;
        let out = stdout::open().context(stdout::WRITING)?;
        let mut writer = ListingWriter::new(out, layout);
        writer.begin()?;
        let empty = SocketTable::default();
        let mut batch = Vec::new();
        let mut is_open = true;
        let mut accounting = None;
        loop {
            let is_over =
                self.interrupts.caught().is_some() || until.is_some_and(|until| Instant::now() >= until);
            if is_over {
                let last = watch.finish(|packet| batch.push(packet.clone()));
                accounting = Some(last.context("drops: end watching")?);
            } else {
                watch.packets(|packet| batch.push(packet.clone()));
            }
            let is_unknown =
                |packet: &Packet| packet.key.inode != 0 && sockets.with_inode(packet.key.inode).is_none();
            if batch.iter().any(is_unknown) && listed.elapsed() >= LISTING_MIN {
                sockets = SocketTable::read(self.listing, &mut report)?;
                listed = Instant::now();
            }
            let netns_name = |inode| self.netns_name(inode);
            let naming = Naming {
                reasons: &self.reasons,
                functions,
                sockets: [&sockets, &empty],
                netns_name: &netns_name,
                has_keys: true,
            };
            let mut written = Ok(());
            for packet in batch.drain(..) {
                let row = naming.row(
                    &packet.key,
                    packet.socket.as_ref(),
                    packet.device,
                    std::slice::from_ref(&packet.sample),
                );
                let is_normal = row.class == Some(DropClass::Normal) && !self.args.all;
                if is_normal || !self.is_selected(row.netns) || !row.matches(self.listing.filter()) {
                    continue;
                }
                let shown = ShownPacket {
                    time: clock.rfc3339(packet.sample.ns),
                    len: packet.sample.len,
                    owner: row.owner_text(),
                    row,
                };
                written = writer.row(&&shown);
                if written.is_err() {
                    break;
                }
            }
            let written = written.and_then(|()| writer.flush()).map_err(anyhow::Error::from);
            match written {
                Err(error) if stdout::is_closed_pipe(&error) => is_open = false,
                written => written.context(stdout::WRITING)?,
            }
            if is_over || !is_open {
                break;
            }
            let left = until.map_or(Watch::INTERVAL, |until| {
                until.saturating_duration_since(Instant::now())
            });
            watch
                .wait(left.min(Watch::INTERVAL), &[self.interrupts.as_fd()])
                .context("wait for drops")?;
        }
        let counts = accounting.map(|accounting| (accounting.total(), accounting.missed));
        if is_open {
            let sources = report.sources();
            writer
                .finish_with(&report.summary(&sources), |object| {
                    if let Some((total, missed)) = counts {
                        object.number("made", Some(total.made));
                        object.number("lost", Some(total.lost));
                        object.number("missed", Some(missed));
                    }
                })
                .context(stdout::WRITING)?;
        }
        if let Some((total, missed)) = counts.filter(|(total, missed)| total.lost + missed > 0) {
            say(&format!(
                "sockeye: {} of {} packets did not fit into the ring (--ring), and {missed} were not seen\n",
                total.lost, total.made
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the name of the dictionary's entry of a counter or reason.
fn explain_name(name: &str) -> Option<&'static str> {
    let found = Dictionary::new().find(name);
    found.entries.first().map(|entry| entry.name.as_ref())
}

/// Longest wait without a look at the time.
const STEP_MAX: Duration = Duration::from_secs(3600);
/// Shortest time between two listings of sockets for owners of single packets.
const LISTING_MIN: Duration = Duration::from_secs(1);
