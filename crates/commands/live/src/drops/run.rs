//! Watches drops and counters, and reports them once, repeatedly, or packet by packet.

use super::args::DropsArgs;
use super::counters::{CounterSample, listener_drops, socket_drops};
use super::estimates;
use super::firewall::{self, FirewallSample, HostAddresses};
use super::output::{
    DropCounters, DropPackets, Drops, NamedLine, PACKET_COLUMNS, ShownPacket, counter_name,
    push_counter_lines, push_sums, rule_text, table_columns,
};
use super::rows::{DropRow, Naming};
use super::sockets::SocketTable;
use crate::clock::Clock;
use anyhow::{Context as _, bail};
use sockeye_console::args::FormatArg;
use sockeye_console::live::{self, Content, Live};
use sockeye_console::notes::say;
use sockeye_console::usage::UsageError;
use sockeye_console::{envelope, stdout};
use sockeye_dictionary::{Dictionary, DropClass};
use sockeye_drops::{CounterLine, CounterSubject, Reasons, reconcile};
use sockeye_model::{Names as _, NetnsInode};
use sockeye_observe::KernelFunctions;
use sockeye_output::listing::{
    Column, Layout, ListingWriter, Record, SortKey, UnknownColumn, columns_help, parse_columns,
};
use sockeye_output::{Envelope, Format, Summary};
use sockeye_query::context::{QueryContext, bpf_engine};
use sockeye_query::drops::reasons_of;
use sockeye_query::listing::{Listing, ListingReport};
use sockeye_sys::interrupts::Interrupts;
use sockeye_tracepoints::{Budget, DropCounts, DropOptions, DropWatch, Watch};
use sockeye_verdict::MEANINGS;
use sockeye_wire::drops::{Packet, reason_at};
use std::cell::OnceCell;
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Watches drops and prints them.
///
/// # Errors
/// If an option is wrong, nothing can be watched, or output failed.
pub fn run(args: &DropsArgs) -> anyhow::Result<ExitCode> {
    let interrupts = Interrupts::catch().context("handle SIGINT, SIGTERM and SIGHUP")?;
    if args.columns.as_deref() == Some("help") {
        let help = match (args.packets, args.counters) {
            (true, _) => columns_help::<DropPackets>(),
            (_, true) => columns_help::<DropCounters>(),
            _ => columns_help::<Drops>(),
        };
        return stdout::write_lines(help).map(|()| ExitCode::SUCCESS);
    }
    let shown = Shown::parse(args)?;
    if args.keys == 0 && (args.packets || !args.filter.is_empty()) {
        let text =
            "sockeye: drops: with --keys 0 only reasons are counted: no packets, and nothing to filter\n";
        return Err(UsageError(text.to_owned()).into());
    }
    let engine = bpf_engine(&args.btf)?;
    let mut reasons = reasons_of(&engine);
    let options = DropOptions {
        treatments: &reasons.treatments(args.all, args.keys > 0),
        packets: args.packets,
        ring_bytes: args.ring,
        // The kernel wants at least one.
        keys: args.keys.max(1),
        cpu_ppm_max: args.cpu.ppm_max(),
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
        shown,
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
    shown: Shown,
}

/// Columns and order of what is printed; `None`: those without options.
#[derive(Default)]
struct Shown {
    drops: Option<Vec<&'static Column<Drops>>>,
    counters: Option<Vec<&'static Column<DropCounters>>>,
    packets: Option<Vec<&'static Column<DropPackets>>>,
    drops_by: Option<SortKey<Drops>>,
    counters_by: Option<SortKey<DropCounters>>,
}

impl Shown {
    /// Reads `--columns` and `--sort`: of counters and packets where these are what is printed.
    fn parse(args: &DropsArgs) -> anyhow::Result<Self> {
        let mut shown = Self::default();
        let columns_error = |error: UnknownColumn| UsageError::unknown_column("--columns", "drops", &error);
        if let Some(list) = &args.columns {
            if args.packets {
                shown.packets = Some(parse_columns(list).map_err(columns_error)?);
            } else if args.counters {
                shown.counters = Some(parse_columns(list).map_err(columns_error)?);
            } else {
                shown.drops = Some(parse_columns(list).map_err(columns_error)?);
            }
        }
        let sort_error = |error: UnknownColumn| UsageError::unknown_column("--sort", "drops", &error);
        if let Some(text) = &args.sort {
            if args.counters {
                shown.counters_by = Some(SortKey::parse(text).map_err(sort_error)?);
            } else {
                shown.drops_by = Some(SortKey::parse(text).map_err(sort_error)?);
            }
        }
        Ok(shown)
    }
}

/// What was read at one time.
struct Reading {
    counters: CounterSample,
    drops: DropCounts,
    firewalls: FirewallSample,
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
    /// Of how many drops one was counted by its key, at most; 1: each.
    sampled_every: u32,
    /// Rules of the packet filter that drop, and that were added or removed.
    changed_rules: [usize; 2],
    /// How many drops each reason has had, in all namespaces: exact.
    by_reason: Vec<(String, u64)>,
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
        let (mut missed, mut pace) = (0, ListingPace::new(before.at));
        let until = self.args.duration.map(|duration| before.at + duration);
        if watch.is_some() {
            self.say_begin(until.is_none() && self.args.watch.is_none());
        }
        let mut live = self.begin_screen()?;
        let mut body = b"The first report comes after the interval.\n".to_vec();
        for number in 1.. {
            let next = self.args.watch.map(|interval| before.at + interval);
            let deadline = [next, until].into_iter().flatten().min();
            if !self.wait(
                deadline,
                watch.as_mut().map(|watch| (watch, &mut sockets, &mut pace)),
                live.as_mut(),
                &body,
            )? {
                break;
            }
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
            result.sampled_every = watch.as_mut().map_or(1, DropWatch::take_sampled_every);
            let text = self.text(&result, &report, number > 1 && live.is_none())?;
            let written = match live {
                Some(_) => Ok(()),
                None => stdout::write(&text),
            };
            body = text;
            match written {
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
                // The last report is drawn, too.
                self.wait(Some(before.at), None, live.as_mut(), &body)?;
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
        // Rules count where drops are counted, in the namespaces that are reported.
        let firewalls = FirewallSample::read(self.listing);
        Ok(Reading {
            counters,
            drops,
            firewalls,
            at,
        })
    }

    /// Begins a screen that is redrawn, for several reports on a terminal.
    fn begin_screen(&self) -> anyhow::Result<Option<Live>> {
        let is_redrawn =
            self.args.watch.is_some() && self.args.count != Some(1) && self.args.format == FormatArg::Table;
        if is_redrawn {
            Live::begin().context(live::BEGINNING)
        } else {
            Ok(None)
        }
    }

    /// Waits for a time or for a signal, keeps the program to its budget, and remembers the sockets of new drops: their process may end before the
    /// report. On a screen it shows `body` meanwhile. Returns whether there is to be a report: not after `q`.
    fn wait(
        &self,
        deadline: Option<Instant>,
        mut watched: Option<(&mut DropWatch, &mut SocketTable, &mut ListingPace)>,
        mut live: Option<&mut Live>,
        body: &[u8],
    ) -> anyhow::Result<bool> {
        let title = live::title(&envelope::now(), self.args.watch.unwrap_or_default(), "drops");
        let content = Content {
            title: &title,
            body,
            unit: "lines",
            remedy: "a filter, or a larger terminal",
            ..Content::default()
        };
        if let Some(live) = &mut live {
            live.draw(&content)?;
        }
        let step_max = match watched {
            Some(_) => Budget::INTERVAL,
            None => STEP_MAX,
        };
        loop {
            if let Some((watch, sockets, pace)) = &mut watched {
                watch
                    .keep_to_budget()
                    .context("drops: read how long counting took")?;
                let made = watch
                    .keys_made()
                    .context("drops: read what the program has counted")?;
                let begin = Instant::now();
                if pace.may_list(begin, made) {
                    sockets.remember(SocketTable::read(self.listing, &mut self.listing.begin())?);
                    pace.listed(begin, Instant::now(), made);
                }
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) || self.interrupts.caught().is_some() {
                return Ok(true);
            }
            let step = left.unwrap_or(step_max).min(step_max);
            if let Some(live) = &mut live {
                if !live.pause(step, &mut |live| live.draw(&content))? {
                    return Ok(false);
                }
                continue;
            }
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
        let addresses = now.counters.addresses();
        for row in &mut rows {
            row.rule = now.firewalls.rule_since(&before.firewalls, row, &addresses);
        }
        let by_rules = now.firewalls.since(&before.firewalls);
        for row in &mut rows {
            // The kept packets were dropped by a rule that did not drop all of them.
            if firewall::has_counted_less(&by_rules.counters, row) {
                row.rule = None;
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
            moved.extend(by_rules.counters);
            let listeners = listener_drops(sockets[1], sockets[0]);
            let lines = reconcile(&moved, &events, &listeners);
            let name = |line| self.named(line, sockets[0], is_watched);
            counters = lines.into_iter().map(name).collect();
            if let Some(key) = &self.shown.counters_by {
                let values: Vec<_> = counters.iter().map(|line| key.column.sort_value(&line)).collect();
                counters = in_order(counters, key.order(&values));
            }
        } else {
            rows.retain(|row| row.matches(self.listing.filter()));
        }
        if let Some(key) = &self.shown.drops_by {
            let values: Vec<_> = rows.iter().map(|row| key.column.sort_value(&row)).collect();
            rows = in_order(rows, key.order(&values));
        }
        Report {
            rows,
            counters,
            normal,
            is_watched: true,
            evicted_keys: now.drops.evicted_keys.saturating_sub(before.drops.evicted_keys),
            missed: 0,
            sampled_every: 1,
            changed_rules: [by_rules.added, by_rules.removed],
            by_reason: estimates::by_reason(&before.drops, &now.drops, &self.reasons, self.args.all),
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
        let is_normal = |index: &usize| {
            reason_at(*index).is_some_and(|reason| self.reasons.class(reason) == Some(DropClass::Normal))
        };
        let all = (0..now.by_reason.len()).filter(is_normal);
        all.map(|index| estimates::counted(before, now, index)).sum()
    }

    fn named(&self, line: CounterLine, sockets: &SocketTable, is_watched: bool) -> NamedLine {
        let name = counter_name(&line.moved.subject);
        let mut advice = None;
        let of = match &line.moved.subject {
            CounterSubject::Protocol(counter) => {
                let meaning = MEANINGS.iter().find(|meaning| meaning.counter == *counter);
                advice = meaning.and_then(|meaning| meaning.remedy);
                None
            }
            CounterSubject::Backlog => None,
            CounterSubject::Qdisc(device)
            | CounterSubject::Received(device)
            | CounterSubject::Sent(device) => Some(String::from_utf8_lossy(device.as_bytes()).into_owned()),
            CounterSubject::FirewallRule(name) => Some(rule_text(name)),
            CounterSubject::Socket(inode) => sockets.with_inode(inode.0).map(|socket| {
                let local = socket
                    .local
                    .map_or_else(|| inode.to_string(), |local| local.to_string());
                let owner = socket.owner.as_ref().map(super::rows::owner_text);
                let owner = owner.map_or(String::new(), |owner| format!(" {owner}"));
                format!("udp {local}{owner}")
            }),
        };
        let explain = match &line.moved.subject {
            CounterSubject::Protocol(_) | CounterSubject::Backlog => explain_name(&name),
            CounterSubject::Received(_) => explain_name("rx_dropped"),
            CounterSubject::Sent(_) => explain_name("tx_dropped"),
            CounterSubject::Qdisc(_) => explain_name("QDISC_DROP"),
            CounterSubject::Socket(_) => explain_name("SOCKET_RCVBUFF"),
            CounterSubject::FirewallRule(_) => explain_name("NETFILTER_DROP"),
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

    fn text(&self, result: &Report, report: &ListingReport, is_later: bool) -> anyhow::Result<Vec<u8>> {
        let mut out = Vec::new();
        let sources = report.sources();
        let summary = report.summary(&sources);
        if self.args.counters {
            self.push_counters(&mut out, result, &summary, is_later, true)?;
        } else {
            self.push_report(&mut out, result, &summary, is_later)?;
        }
        Ok(out)
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
        let rule = result.rows.iter().any(|row| row.rule.is_some());
        let estimated = result.rows.iter().any(|row| row.estimated > 0);
        let columns = table_columns(netns, rule, estimated);
        let layout = self.layout(
            self.shown.drops.as_deref(),
            &columns,
            result,
            is_later && !is_table,
        );
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
            writer = ListingWriter::new(&mut *out, self.layout::<Drops>(None, "class", result, true));
        }
        writer.finish_with(summary, |object| {
            if format == Format::Json {
                push_counter_lines(object, &result.counters);
            }
            push_sums(object, &result.by_reason);
            object.number("interval_ms", u64::try_from(result.interval.as_millis()).ok());
            object.number("normal_not_shown", result.normal);
            object.number("evicted_keys", Some(result.evicted_keys));
            object.number("missed", Some(result.missed));
            object.number(
                "sampled_every",
                Some(result.sampled_every).filter(|every| *every > 1),
            );
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
        let mut layout = self.layout(self.shown.counters.as_deref(), &columns, result, is_later);
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

    /// Returns how records are written: in these columns, if there are any, else in those of a `table`, and all of them in CSV and JSON.
    fn layout<R: Record>(
        &self,
        columns: Option<&[&'static Column<R>]>,
        table: &str,
        result: &Report,
        no_header: bool,
    ) -> Layout<R> {
        let format = Format::from(self.args.format);
        let columns = match format {
            Format::Table | Format::Csv if columns.is_some() => columns.unwrap_or_default().to_vec(),
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
        if result.sampled_every > 1 {
            say(&format!(
                "sockeye: counting took more of a processor than --cpu allows: at times one of {} drops was counted, for as many; such \
                 numbers are estimates, and fit the number of drops of their reason, which is exact\n",
                result.sampled_every
            ));
        }
        let [added, removed] = result.changed_rules;
        if added + removed > 0 {
            say(&format!(
                "sockeye: rules of the packet filter changed meanwhile, {added} added and {removed} removed: what a removed one dropped has neither rule nor \
                 counter\n"
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

    /// Reads the rules that can drop packets, and the addresses by which their directions are known.
    fn rules(&self) -> (FirewallSample, HostAddresses) {
        let addresses = CounterSample::read(self.listing).addresses();
        (FirewallSample::read_rules(self.listing), addresses)
    }

    /// Prints each dropped packet.
    fn packets(&self, mut watch: DropWatch) -> anyhow::Result<ExitCode> {
        let mut report = self.listing.begin();
        let mut sockets = SocketTable::read(self.listing, &mut report)?;
        let mut next_listing = Instant::now() + LISTING_MIN;
        let (mut firewalls, mut addresses) = self.rules();
        let mut rules_read = Instant::now();
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
            sampled_every: 1,
            changed_rules: [0, 0],
            by_reason: Vec::new(),
            interval: Duration::ZERO,
            envelope: envelope::now(),
            sample: None,
        };
        let mut layout = self.layout(self.shown.packets.as_deref(), PACKET_COLUMNS, &result, false);
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
            let begin = Instant::now();
            if begin >= next_listing && batch.iter().any(is_unknown) {
                sockets = SocketTable::read(self.listing, &mut report)?;
                next_listing = after_listing(begin, Instant::now());
            }
            let is_by_rule = |packet: &Packet| {
                self.reasons.name(packet.key.reason).as_deref() == Some(firewall::NETFILTER)
            };
            if rules_read.elapsed() >= LISTING_MIN && batch.iter().any(is_by_rule) {
                (firewalls, addresses) = self.rules();
                rules_read = Instant::now();
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
                let mut row = naming.row(
                    &packet.key,
                    packet.socket.as_ref(),
                    packet.device,
                    std::slice::from_ref(&packet.sample),
                );
                row.rule = firewalls.rule_of(&row, std::slice::from_ref(&packet.sample), &addresses);
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

/// Returns items in another order.
fn in_order<T>(items: Vec<T>, order: Vec<usize>) -> Vec<T> {
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|place| items.get_mut(place)?.take())
        .collect()
}

/// Returns the name of the dictionary's entry of a counter or reason.
fn explain_name(name: &str) -> Option<&'static str> {
    let found = Dictionary::new().find(name);
    found.entries.first().map(|entry| entry.name.as_ref())
}

/// Longest wait without a look at the time.
const STEP_MAX: Duration = Duration::from_secs(3600);
/// When the sockets of new drops are listed.
#[derive(Debug)]
struct ListingPace {
    next: Instant,
    /// How many keys had been made at the last listing.
    keys: u64,
}

impl ListingPace {
    const fn new(next: Instant) -> Self {
        Self { next, keys: 0 }
    }

    /// Whether to list sockets: there are new keys, and it is time.
    fn may_list(&self, now: Instant, keys: u64) -> bool {
        keys != self.keys && now >= self.next
    }

    fn listed(&mut self, begin: Instant, end: Instant, keys: u64) {
        (self.next, self.keys) = (after_listing(begin, end), keys);
    }
}

/// Returns the earliest time of the listing after one.
fn after_listing(begin: Instant, end: Instant) -> Instant {
    end + (end.duration_since(begin) * LISTING_PAUSE).max(LISTING_MIN)
}

/// Shortest time between two listings of sockets for owners of packets, and between two readings of rules.
const LISTING_MIN: Duration = Duration::from_secs(1);
/// How many times as long as a listing took the pause after it is: listing takes 2 % of the time at most.
const LISTING_PAUSE: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_listed_for_new_keys_in_two_percent_of_the_time() {
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        let mut pace = ListingPace::new(begin);
        assert!(pace.may_list(begin, 1) && !pace.may_list(begin, 0));
        pace.listed(begin, after(200), 1);
        assert!(!pace.may_list(after(10_199), 2));
        assert!(pace.may_list(after(10_200), 2));
        assert!(!pace.may_list(after(60_000), 1));
        pace.listed(begin, after(1), 1);
        assert!(!pace.may_list(after(1_000), 2));
        assert!(pace.may_list(after(1_001), 2));
    }
}
