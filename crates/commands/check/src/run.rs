//! `sockeye check`: what is wrong with this host, what proves it, what to do.

mod list;
pub mod output;
mod rules;
mod ways;

use crate::output::{FindingsLayout, LookedAt, push_findings};
use anyhow::Context;
use clap::Args;
use rules::Judges;
use rustix::io::Errno;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::{HostVitals, Pid, Process, Protocol, ProtocolSet, StateSet, Vitals};
use sockeye_output::{Format, Summary};
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, ListingReport, QueryOptions, Scope, tests_netns};
use sockeye_query::namespaces::{Namespace, NetnsSelection};
use sockeye_source::owners::Owners;
use sockeye_source::{Detail, vitals};
use sockeye_verdict::{Baseline, Coverage, Finding, Rule, Scope as Concerns, Severity, Snapshot};
use std::collections::HashMap;
use std::io::{ErrorKind, Write as _};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What is wrong with this host: findings, the worst first, with evidence, owner and remedy
///
/// One look over all TCP and UDP sockets, counters, settings, devices, tables and limits. With a filter only rules
/// about sockets judge, and only the sockets that match. Counters say what was since the host started, and count if
/// they are a large share of what they are part of; with --watch, what is now.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Look again after so many seconds, and judge what changed in between
    #[arg(short = 'w', long, value_name = "SECS", allow_negative_numbers = true, value_parser = sockeye_console::values::seconds)]
    watch: Option<Duration>,
    /// With --watch: how many times to look
    #[arg(long, value_name = "N", requires = "watch", default_value = "2", allow_negative_numbers = true,
          value_parser = rules::samples)]
    count: u64,
    /// Exit with 1 if something as bad as this is found: info, notice, warning or critical
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<Severity>,
    /// Show nothing that is less bad than this
    #[arg(long, value_name = "SEVERITY", default_value = "notice")]
    severity: Severity,
    /// Only these rules, separated by commas; 'check --list' shows them
    #[arg(long, value_name = "RULES", value_parser = rules::rules)]
    only: Option<rules::RuleSet>,
    /// Not these rules
    #[arg(long, value_name = "RULES", value_parser = rules::rules)]
    skip: Option<rules::RuleSet>,
    /// Set a threshold, as in no-keepalive.idle=10m; 'check --list' shows them
    #[arg(long = "set", value_name = "THRESHOLD=VALUE", value_parser = rules::setting)]
    settings: Vec<rules::Setting>,
    /// List all rules with their thresholds, and look at nothing
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    common: ListingArgs,
    /// Only these sockets: an expression as ss takes it, for example: dport = :443 or owner = nginx
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// Looks for faults and reports findings.
///
/// # Errors
/// If an option is wrong, the host could not be looked at, or output failed.
pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let judges = Judges::new(
        args.only.as_ref(),
        args.skip.as_ref(),
        &args.settings,
        args.severity,
    );
    if args.list {
        return list::print(&judges, &args.common).map(|()| ExitCode::SUCCESS);
    }
    let context = QueryContext::new(&args.common, false, tests_netns(&args.filter))?;
    let mut listing = Listing::new(&args.common, &args.filter, None, &context)?;
    listing.require_owners();
    let check = Check {
        args,
        judges,
        listing: &listing,
    };
    check.run()
}

/// A check as it was asked for.
struct Check<'a> {
    args: &'a CheckArgs,
    judges: Judges,
    listing: &'a Listing<'a>,
}

/// What one look came to.
struct Look {
    findings: Vec<Finding>,
    /// How bad the worst is, told or not.
    worst: Option<Severity>,
    looked_at: LookedAt,
    memory: Baseline,
    taken: Instant,
}

impl Check<'_> {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let samples = self.args.watch.map_or(1, |_| self.args.count);
        let mut before: Option<(Baseline, Instant)> = None;
        let mut worst = None;
        for sample in 1..=samples {
            let mut report = self.listing.begin();
            let look = self.look(before.as_ref(), &mut report, samples > 1)?;
            // The first of several knows of no change.
            if sample > 1 || samples == 1 {
                worst = worst.max(look.worst);
                match self.print(&look, &report, (samples > 2).then_some(sample - 1)) {
                    // Who read it had enough; what was found was found.
                    Err(error) if stdout::is_closed_pipe(&error) => break,
                    printed => printed?,
                }
                self.listing.write_notes(&report, self.args.common.verbose);
                self.say_gaps(&look.looked_at.seen, &report);
            }
            before = Some((look.memory, look.taken));
            let Some(interval) = self.args.watch.filter(|_| sample < samples) else {
                break;
            };
            if !stdout::pause(interval) {
                break;
            }
        }
        let is_failure = self
            .args
            .fail_on
            .is_some_and(|least| worst.is_some_and(|worst| worst >= least));
        Ok(if is_failure {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    fn look(
        &self,
        before: Option<&(Baseline, Instant)>,
        report: &mut ListingReport,
        remember: bool,
    ) -> anyhow::Result<Look> {
        let begun = Instant::now();
        // Owners first: a socket opened after this has none, one closed after this is not listed.
        let owners = self.listing.owners(report)?;
        let mut snapshot = Snapshot::new(&self.judges.limits);
        if remember {
            snapshot = snapshot.keep_counters();
        }
        let taken = Instant::now();
        let interval = before.map(|(_, at)| taken.duration_since(*at));
        if let (Some((memory, _)), Some(interval)) = (before, interval) {
            snapshot = snapshot.after(memory, interval);
        }
        self.read_namespaces(&mut snapshot, report)?;
        let processes = self.read_sockets(&mut snapshot, owners.as_ref(), report)?;
        if self.args.filter.is_empty() {
            snapshot.host(self.read_host(&processes));
        }
        let mut findings = snapshot.findings();
        findings.retain(|finding| self.is_wanted(finding));
        let worst = findings.iter().map(|finding| finding.severity).max();
        let all = findings.len();
        findings.retain(|finding| self.judges.tell(finding));
        Ok(Look {
            looked_at: LookedAt {
                seen: snapshot.seen(),
                rules: self.judges.count(|rule| self.asks(*rule)),
                hidden: all - findings.len(),
                took_ms: milliseconds(begun.elapsed()),
                interval_ms: interval.map(milliseconds),
            },
            findings,
            worst,
            memory: snapshot.into_baseline(),
            taken,
        })
    }

    /// Reads counters, settings and devices of each namespace.
    fn read_namespaces(&self, snapshot: &mut Snapshot<'_>, report: &mut ListingReport) -> anyhow::Result<()> {
        let selection = &self.listing.context.namespaces;
        let targets = self.listing.targets.candidates();
        let namespaces: Vec<&Namespace> = targets.iter().filter_map(|target| target.netns).collect();
        if namespaces.is_empty() {
            snapshot.namespace(self.judged(vitals::namespace()));
            return Ok(());
        }
        let open = |number: usize, act: &mut dyn FnMut(sockeye_source::OpenNetns<'_>)| {
            let namespace = namespaces
                .get(number)
                .ok_or_else(|| std::io::Error::from(ErrorKind::NotFound))?;
            selection.open(namespace, act)
        };
        for (namespace, found) in namespaces.iter().zip(vitals::namespaces(namespaces.len(), &open)) {
            match found {
                Ok(vitals) => snapshot.namespace(self.judged(vitals)),
                // It no longer exists, so nothing is wrong with it.
                Err(error) if selection.are_many() && error.kind() == ErrorKind::NotFound => {}
                Err(_) if selection.are_many() => {
                    let is_new = report.unreadable_netns.insert(namespace.inode());
                    report.losses.unreadable_namespaces += u64::from(is_new);
                }
                Err(error) => {
                    return Err(match Errno::from_io_error(&error) {
                        Some(errno) => sockeye_source::Error::Namespace(namespace.inode(), errno).into(),
                        None => anyhow::Error::from(error).context("look into the network namespace"),
                    });
                }
            }
        }
        Ok(())
    }

    /// What devices lose is why connections lose it; where devices are not judged it has to be told of the connections.
    fn judged(&self, mut vitals: Vitals) -> Vitals {
        if !self.concerns(Concerns::Namespace) {
            for device in &mut vitals.devices {
                device.traffic = None;
                device.qdiscs.clear();
            }
        }
        vitals
    }

    /// All sockets, one after the other; gives the processes that own them.
    fn read_sockets(
        &self,
        snapshot: &mut Snapshot<'_>,
        owners: Option<&Owners>,
        report: &mut ListingReport,
    ) -> anyhow::Result<Vec<Process>> {
        let filter = self.listing.filter();
        let protocols = ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp, Protocol::UdpLite]);
        let ask = QueryOptions {
            protocols: protocols.retain(|protocol| filter.may_match(protocol)),
            families: self.listing.families(),
            states: filter.states().unwrap_or(StateSet::ALL),
            detail: Detail::QUEUES
                | Detail::TIMER
                | Detail::INODE
                | Detail::USER
                | Detail::TCP_INFO
                | Detail::MEMORY,
            scope: Scope::Matching,
        };
        let mut processes: HashMap<Pid, Process> = HashMap::new();
        self.listing.run(&ask, owners, report, &mut |entry, _| {
            for owner in entry.owners.unwrap_or_default() {
                processes.entry(owner.process.pid).or_insert(owner.process);
            }
            snapshot.socket(entry);
            ControlFlow::Continue(())
        })?;
        Ok(processes.into_values().collect())
    }

    /// What all namespaces share; of one namespace among many only what its processes have.
    fn read_host(&self, processes: &[Process]) -> HostVitals {
        let mut host = if self.concerns(Concerns::Host) {
            vitals::host()
        } else {
            HostVitals::default()
        };
        host.files = vitals::open_files(processes);
        host
    }

    /// Whether rules of this scope have anything to judge.
    fn concerns(&self, scope: Concerns) -> bool {
        match scope {
            Concerns::Sockets => true,
            Concerns::Namespace => self.args.filter.is_empty(),
            Concerns::Host => {
                self.args.filter.is_empty()
                    && !matches!(self.listing.context.namespaces, NetnsSelection::One(_))
            }
        }
    }

    /// Whether this rule has anything to judge; what processes have open is asked of all whose sockets are seen.
    fn asks(&self, rule: Rule) -> bool {
        self.concerns(rule.scope()) || (rule == Rule::OpenFiles && self.args.filter.is_empty())
    }

    fn is_wanted(&self, finding: &Finding) -> bool {
        let is_in_scope = self.args.filter.is_empty() || finding.rule.scope() == Concerns::Sockets;
        is_in_scope && self.judges.want(finding)
    }

    fn print(&self, look: &Look, report: &ListingReport, sample: Option<u64>) -> anyhow::Result<()> {
        let common = &self.args.common;
        let layout = FindingsLayout {
            format: Format::from(common.format),
            style: stdout::style(common.color),
            width: stdout::width(),
            // One header is enough for a file of many samples.
            no_header: common.no_header || sample.is_some_and(|sample| sample > 1),
            sample,
            ways: ways::ways(&look.findings, self.listing.context),
        };
        let sources = report.sources();
        let summary: Summary<'_> = report.summary(&sources);
        let mut out = Vec::new();
        push_findings(
            &mut out,
            &look.findings,
            &look.looked_at,
            &summary,
            &layout,
            self.listing.context,
        );
        stdout::open()
            .and_then(|mut stdout| stdout.write_all(&out))
            .context(stdout::WRITING)
    }

    /// What could not be judged, for whoever would take silence for health.
    fn say_gaps(&self, seen: &Coverage, report: &ListingReport) {
        if seen.without_info > 0 {
            notes::say(&format!(
                "sockeye: {} TCP connections could not be judged: their source ({}) tells no tcp_info\n",
                seen.without_info,
                report
                    .sources()
                    .iter()
                    .filter(|(what, _)| *what == "tcp")
                    .map(|(_, rung)| *rung)
                    .collect::<Vec<_>>()
                    .join(", "),
            ));
        }
        if seen.left_out > 0 {
            notes::say(&format!(
                "sockeye: {} sockets were counted, but not judged together: there are too many kinds of them\n",
                seen.left_out
            ));
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

const EXAMPLES: &str = "\
Examples:
  sockeye check                              everything that can be judged at once
  sockeye check --watch 5                    what moves within five seconds
  sockeye check --netns all --fail-on warning
                                             every network namespace; for a script
  sockeye check 'owner = nginx'              nginx's sockets only
  sockeye check --list                       all rules, and from where on they find something
  sockeye check --set no-keepalive.idle=10m --only no-keepalive";
