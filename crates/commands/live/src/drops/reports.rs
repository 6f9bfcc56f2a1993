//! Reports of intervals: one at the end, or again and again.

use super::counters::CounterSample;
use super::firewall::{self, FirewallSample};
use super::interval::{Ends, Reading, Report};
use super::pace::ListingPace;
use super::session::Session;
use super::sockets::SocketTable;
use anyhow::Context as _;
use sockeye_console::args::FormatArg;
use sockeye_console::live::{self, Content, Live};
use sockeye_console::notes::say;
use sockeye_console::{envelope, stdout};
use sockeye_model::counted_were;
use sockeye_observe::KernelFunctions;
use sockeye_query::listing::Listing;
use sockeye_tracepoints::{Budget, DropWatch};
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

impl Session<'_> {
    pub(super) fn reports(&self, mut watch: Option<DropWatch>) -> anyhow::Result<ExitCode> {
        if let Some(watch) = &mut watch {
            watch.attach().context("drops")?;
        }
        // The order of each report: with a steady rate of drops, what happens between these readings is the same at both ends.
        let mut before = self.read(self.listing, watch.as_ref())?;
        let mut meanwhile = CounterSample::default();
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
                watch.as_mut().map(|watch| Watched {
                    watch,
                    sockets: &mut sockets,
                    meanwhile: &mut meanwhile,
                    pace: &mut pace,
                }),
                live.as_mut(),
                &body,
            )? {
                break;
            }
            let is_over = self.interrupts.caught().is_some()
                || until.is_some_and(|until| Instant::now() >= until)
                || self.args.count == Some(number)
                || self.args.watch.is_none();
            let context = watch.as_ref().and_then(|_| self.renewed());
            let renewed = context
                .as_ref()
                .map(|context| self.listing_of(context))
                .transpose()?;
            let listing = renewed.as_ref().unwrap_or(self.listing);
            let now = self.read(listing, watch.as_ref())?;
            let accounting = watch
                .as_mut()
                .map(DropWatch::accounting)
                .transpose()
                .context("drops")?;
            let missed_now = accounting.map_or(0, |accounting| accounting.missed);
            let mut report = listing.begin();
            let sockets_now = SocketTable::read(listing, &mut report)?;
            let ends = Ends {
                before: &before,
                meanwhile: &meanwhile,
                now: &now,
                sockets: [&sockets_now, &sockets],
            };
            let mut result = self.report(listing, &ends, watch.is_some() && self.args.keys > 0);
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
            if let Some(everywhere) = report.all_netns.as_mut().filter(|_| !self.args.common.verbose) {
                everywhere.descriptors_only = false;
            }
            listing.write_notes(&report, self.args.common.verbose);
            self.say_losses(&result, &now);
            if is_over {
                // The last report is drawn, too.
                self.wait(Some(before.at), None, live.as_mut(), &body)?;
                break;
            }
            meanwhile = CounterSample::default();
            (before, sockets, missed) = (now, sockets_now, missed_now);
        }
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn read(&self, listing: &Listing<'_>, watch: Option<&DropWatch>) -> anyhow::Result<Reading> {
        // The same order at the beginning and at the end: what happens between both readings is in one of them too few at the
        // beginning, and too many at the end.
        let at = Instant::now();
        let counters = CounterSample::read(listing);
        let drops = watch.map(DropWatch::counts).transpose();
        let drops = drops
            .context("drops: read what the program has counted")?
            .unwrap_or_default();
        // Rules count where drops are counted, in the namespaces that are reported.
        let firewalls = FirewallSample::read(listing);
        Ok(Reading {
            counters,
            drops,
            firewalls,
            at,
        })
    }

    /// Begins a screen that is redrawn, for several reports on a terminal.
    pub(super) fn begin_screen(&self) -> anyhow::Result<Option<Live>> {
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
    pub(super) fn wait(
        &self,
        deadline: Option<Instant>,
        mut watched: Option<Watched<'_>>,
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
            if let Some(watched) = &mut watched {
                watched
                    .watch
                    .keep_to_budget()
                    .context("drops: read how long counting took")?;
                let made = watched
                    .watch
                    .keys_made()
                    .context("drops: read what the program has counted")?;
                let begin = Instant::now();
                if watched.pace.may_list(begin, made) {
                    self.remember(watched)?;
                    watched.pace.listed(begin, Instant::now(), made);
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

    /// Remembers the sockets and the counters of now: a process or a namespace may end before the report.
    fn remember(&self, watched: &mut Watched<'_>) -> anyhow::Result<()> {
        let context = self.renewed();
        let renewed = context
            .as_ref()
            .map(|context| self.listing_of(context))
            .transpose()?;
        let listing = renewed.as_ref().unwrap_or(self.listing);
        let sockets = SocketTable::read(listing, &mut listing.begin())?;
        watched.sockets.remember(sockets);
        watched.meanwhile.update(CounterSample::read(listing));
        Ok(())
    }

    pub(super) fn say_begin(&self, is_endless: bool) {
        if self.args.common.verbose || (is_endless && std::io::stderr().is_terminal()) {
            say("sockeye: drops are counted; ^C ends and reports\n");
        }
    }

    pub(super) fn say_losses(&self, result: &Report, now: &Reading) {
        let normal = result.normal.filter(|normal| *normal > 0);
        if let (Some(normal), FormatArg::Table) = (normal, self.args.format) {
            say(&format!(
                "sockeye: {normal} normal ends of packets are not shown; -a shows them\n"
            ));
        }
        if result.evicted_keys > 0 {
            say(&format!(
                "sockeye: {} combinations did not fit and were evicted: of their drops only the reason is known, not the network namespace; --keys makes room\n",
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
                "sockeye: rules of the packet filter changed meanwhile, {added} added and {removed} removed{}\n",
                match removed {
                    0 => "",
                    _ => ": what a removed one dropped has neither rule nor counter",
                }
            ));
        }
        if result.by_gone_rules > 0 {
            say(&format!(
                "sockeye: {} dropped by rules of the packet filter that were added and removed meanwhile: they have neither rule nor counter\n",
                counted_were(result.by_gone_rules, "packet")
            ));
        }
        if let Some(undecided) = result.undecided.filter(|undecided| *undecided > 0) {
            say(&format!(
                "sockeye: {} not shown although the filter may mean them: the owners of their sockets, or the sockets, are unknown\n",
                counted_were(undecided, "packet")
            ));
        }
        if result.missed > 0 {
            say(&format!(
                "sockeye: {} not seen, within another one on the same processor\n",
                counted_were(result.missed, "drop")
            ));
        }
        if result.may_be_by_legacy {
            firewall::say_legacy();
        }
        let [made, ended] = result.other_namespaces;
        if made > 0 {
            say(&format!(
                "sockeye: new network namespaces: {made}; their counters are compared with 0\n"
            ));
        }
        if ended > 0 {
            say(&format!(
                "sockeye: network namespaces that ended meanwhile: {ended}; their counters are those of the last reading before, or unknown\n"
            ));
        }
        if result.unread_namespaces > 0 {
            say(&format!(
                "sockeye: network namespaces that were made and ended between two readings of counters: {}; their counters are unknown\n",
                result.unread_namespaces
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
}

/// What is watched while time passes.
pub(super) struct Watched<'a> {
    watch: &'a mut DropWatch,
    sockets: &'a mut SocketTable,
    meanwhile: &'a mut CounterSample,
    pace: &'a mut ListingPace,
}

/// Longest wait without a look at the time.
const STEP_MAX: Duration = Duration::from_secs(3600);
