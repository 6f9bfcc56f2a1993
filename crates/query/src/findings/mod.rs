//! Findings: the host is read and judged, once or repeatedly. The rules are in `sockeye_verdict`.

mod crowded;
mod gaps;
mod remedies;
mod rules;
mod text;
mod words;

pub use remedies::{RemedyAccess, inside};
pub use rules::RuleSelection;
pub use text::FindingText;
pub use words::finding_record;

use crate::drops::{DropLosses, DropObserver, DropSelection};
use crate::listing::{Listing, ListingReport, QueryOptions, Scope};
use crate::namespaces::{Namespace, NetnsSelection};
use crate::refusals::RefusalObserver;
use crowded::Crowded;
use gaps::Gaps;
use rustix::io::Errno;
use sockeye_console::{envelope, stdout};
use sockeye_model::{
    HostVitals, Losses, NeighbourTable, Neighbours, NetnsInode, PathQuery, Pid, Protocol, ProtocolSet,
    SendPath, State, StateSet, Vitals,
};
use sockeye_output::Envelope;
use sockeye_source::names::{NameKinds, SystemNames};
use sockeye_source::owners::Owners;
use sockeye_source::{Detail, Error, Families, OpenNetns, own_namespace, vitals, within};
use sockeye_verdict::{
    Baseline, Coverage, Finding, Limit, Rule, Scope as Concerns, Severity, Snapshot, Suspects, Victim,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How a host is checked.
#[derive(Debug, Clone, Copy)]
pub struct FindingOptions {
    /// Whether there is more than one sample: what changed between two is judged, too.
    pub is_repeated: bool,
    /// Whether the listing has a filter: only the rules about sockets run.
    pub is_filtered: bool,
    /// Time after which suspicious sockets are looked at again, without further samples; zero: never.
    pub second_look: Duration,
}

/// Checks a host again and again.
#[derive(Debug)]
pub struct FindingSampler<'a> {
    listing: &'a Listing<'a>,
    rules: RuleSelection,
    options: FindingOptions,
    /// `None` if drops are not watched.
    drops: RefCell<Option<DropObserver>>,
    /// `None` if it is not watched whom listeners turn away.
    refusals: RefCell<Option<RefusalObserver>>,
    before: Option<(Baseline, Instant)>,
}

/// The result of one check.
#[derive(Debug)]
pub struct FindingSample {
    /// The findings to show, the worst first.
    pub findings: Vec<Finding>,
    /// Severity of the worst finding, shown or not; `None` without findings.
    pub worst: Option<Severity>,
    /// What was dropped since the previous sample, with owners; empty if drops are not watched.
    pub drops: Vec<Victim>,
    /// What was checked, and what could not be.
    pub checked: CheckedScope,
    /// When the sockets were read, by the clock, for documents.
    pub envelope: Envelope,
}

/// What was checked, in addition to the findings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckedScope {
    /// Number of sockets, namespaces and devices.
    pub seen: Coverage,
    /// Number of rules.
    pub rules: usize,
    /// Number of findings that are not shown, since their severity is too low.
    pub hidden: usize,
    /// Duration of the check.
    pub took_ms: u64,
    /// Time since the previous sample; `None` for the first.
    pub interval_ms: Option<u64>,
    /// Whether drops were watched since the previous sample; `None` with a single sample.
    pub drops_watched: Option<bool>,
    /// What could not be judged.
    pub not_judged: Vec<NotJudged>,
    /// Rules that are judged in the initial network namespace only, and this is another one: no gap.
    pub on_host_only: Vec<Rule>,
}

/// Something that could not be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJudged {
    /// What it is: `namespaces`, `connections`, ...
    pub kind: &'static str,
    /// How many of them.
    pub count: u64,
    /// Rules that lack it; empty: all.
    pub rules: Vec<Rule>,
    /// What it is, in words.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// When a sample was taken.
struct Timing {
    begun: Instant,
    envelope: Envelope,
    /// Time since the sample before.
    interval: Option<Duration>,
}

impl<'a> FindingSampler<'a> {
    /// Prepares checks of what a listing selects. With `drops`, findings about drops name whom they hit.
    #[must_use]
    pub const fn new(
        listing: &'a Listing<'a>,
        rules: RuleSelection,
        options: FindingOptions,
        drops: Option<DropObserver>,
    ) -> Self {
        Self {
            listing,
            rules,
            options,
            drops: RefCell::new(drops),
            refusals: RefCell::new(None),
            before: None,
        }
    }

    /// Lets findings about listeners name the clients that were turned away.
    #[must_use]
    pub fn with_refusals(self, refusals: Option<RefusalObserver>) -> Self {
        self.refusals.replace(refusals);
        self
    }

    /// Returns the selected rules.
    pub const fn rules(&self) -> &RuleSelection {
        &self.rules
    }

    /// Returns what the drops of the last sample do not have; `None` if drops are not watched.
    #[must_use]
    pub fn drop_losses(&self) -> Option<DropLosses> {
        self.drops.borrow().as_ref().map(DropObserver::losses)
    }

    /// Checks the host.
    ///
    /// # Errors
    /// If the sockets or the namespaces could not be read.
    pub fn sample(&mut self, report: &mut ListingReport) -> anyhow::Result<FindingSample> {
        if self.listing.context.looks_back() {
            return self.judge_recorded(report);
        }
        let before = self.before.take();
        let keep_counters = self.options.is_repeated;
        let begun = Instant::now();
        let mut gaps = Gaps::default();
        // Owners first: a socket opened after this has none, one closed after this is not listed.
        let owners = self.listing.owners_before(&self.socket_options(), report)?;
        let mut later = Suspects::default();
        let mut snapshot = Snapshot::new(&self.rules.limits);
        if keep_counters {
            snapshot = snapshot.keep_counters();
        }
        let (taken, envelope) = (Instant::now(), envelope::now());
        let interval = before.as_ref().map(|(_, at)| taken.duration_since(*at));
        if let (Some((baseline, _)), Some(interval)) = (&before, interval) {
            snapshot = snapshot.after(baseline, interval);
        }
        self.read_namespaces(&mut snapshot, &mut gaps, report)?;
        let drops_watched = self.read_drops(&mut snapshot);
        let looked = Instant::now();
        let mut crowded = self.crowded(owners.as_ref(), &mut gaps);
        let owning = self.read_sockets(&mut snapshot, owners.as_ref(), &mut crowded, report)?;
        self.read_unix_listeners(&mut snapshot, owners.as_ref(), report)?;
        let queues_looked = Instant::now();
        for netns in snapshot.unix_queues_in_question() {
            let queues = self.within(netns, vitals::unix_queues);
            snapshot.unix_queues(netns, &queues.unwrap_or_default());
        }
        snapshot.send_paths(self.look_up(&snapshot.paths_to_look_up()));
        for netns in snapshot.firewalls_in_question() {
            // Without the right to read its rules the state of the sockets has to do.
            if let Some(firewall) = self.within(netns, vitals::firewall).flatten() {
                snapshot.firewall(netns, firewall);
            } else {
                snapshot.firewall_unreadable(netns);
                gaps.unreadable_firewalls += 1;
            }
        }
        // Of many namespaces only those in question count.
        let are_many = self.listing.context.namespaces.are_many();
        if gaps.unreadable_firewalls == 0 && self.rules.has(Rule::FirewallDrops) && !are_many {
            gaps.unreadable_firewalls = u64::from(!self.may_read_firewall());
        }
        for pid in snapshot.owners_in_question() {
            if let Some(state) = vitals::process_state(pid) {
                snapshot.owner_state(pid, state);
            }
        }
        if !self.options.is_filtered {
            snapshot.host(self.read_host(&owning, &crowded, &mut gaps));
            gaps.unclear_neighbours = snapshot.has_unclear_neighbours();
        }
        // With several samples the next one is the second look.
        if snapshot.needs_second_look() && !keep_counters {
            let wait = self.options.second_look;
            if !wait.is_zero() && stdout::pause(wait) {
                let apart = looked.elapsed();
                self.look_again(&mut later, owners.as_ref())?;
                snapshot.confirm_paths(&self.look_up(&snapshot.paths_to_confirm()));
                snapshot.second_look(&later, apart);
                self.look_at_unix_queues_again(&mut snapshot, queues_looked);
            } else {
                gaps.unproven = true;
            }
        }
        let timing = Timing {
            begun,
            envelope,
            interval,
        };
        let (sample, baseline) = self.finish(snapshot, &gaps, report, timing, drops_watched);
        self.before = Some((baseline, taken));
        Ok(sample)
    }

    /// Judges the sockets of a recorded moment. What is known only now, as settings and counters, says nothing about them.
    fn judge_recorded(&self, report: &mut ListingReport) -> anyhow::Result<FindingSample> {
        let begun = Instant::now();
        let owners = self.listing.owners(report)?;
        let mut snapshot = Snapshot::of_record(&self.rules.limits);
        self.read_sockets(&mut snapshot, owners.as_ref(), &mut Crowded::default(), report)?;
        let mut gaps = Gaps::default();
        gaps.unproven = snapshot.needs_second_look();
        gaps.is_recorded = true;
        let timing = Timing {
            begun,
            envelope: self.listing.context.envelope(),
            interval: None,
        };
        Ok(self.finish(snapshot, &gaps, report, timing, false).0)
    }

    /// Returns the sample when everything was read, and what the next one is compared with.
    fn finish(
        &self,
        mut snapshot: Snapshot<'_>,
        gaps: &Gaps,
        report: &ListingReport,
        timing: Timing,
        drops_watched: bool,
    ) -> (FindingSample, Baseline) {
        let mut findings = snapshot.findings();
        findings.retain(|finding| self.is_selected(finding) && gaps.can_judge(finding.rule));
        if !self.listing.context.looks_back() {
            show_owner_states(&mut findings);
        }
        sockeye_verdict::remove_effects(&mut findings);
        let worst = findings.iter().map(|finding| finding.severity).max();
        let all = findings.len();
        findings.retain(|finding| self.rules.shows(finding));
        let seen = snapshot.seen();
        let checked = CheckedScope {
            seen,
            rules: self
                .rules
                .count(|rule| self.can_judge(*rule) && gaps.can_judge(*rule)),
            hidden: all - findings.len(),
            took_ms: milliseconds(timing.begun.elapsed()),
            interval_ms: timing.interval.map(milliseconds),
            drops_watched: self.options.is_repeated.then_some(drops_watched),
            not_judged: gaps.list(report, &seen, timing.interval, &self.rules, |rule| {
                self.can_judge(rule)
            }),
            on_host_only: on_host_only(gaps, &self.rules),
        };
        let sample = FindingSample {
            checked,
            findings,
            worst,
            drops: snapshot.take_drops(),
            envelope: timing.envelope,
        };
        (sample, snapshot.into_baseline())
    }

    /// Reads counters, settings and devices of each namespace.
    fn read_namespaces(
        &self,
        snapshot: &mut Snapshot<'_>,
        gaps: &mut Gaps,
        report: &mut ListingReport,
    ) -> anyhow::Result<()> {
        let selection = &self.listing.context.namespaces;
        let targets = self.listing.targets.candidates();
        let namespaces: Vec<&Namespace> = targets.iter().filter_map(|target| target.netns).collect();
        if namespaces.is_empty() {
            let vitals = vitals::namespace();
            gaps.namespace(&vitals);
            snapshot.namespace(self.without_unjudged(vitals));
            return Ok(());
        }
        let open = |number: usize, act: &mut dyn FnMut(OpenNetns<'_>)| {
            let namespace = namespaces
                .get(number)
                .ok_or_else(|| std::io::Error::from(ErrorKind::NotFound))?;
            selection.open(namespace, act)
        };
        for (namespace, found) in namespaces.iter().zip(vitals::namespaces(namespaces.len(), &open)) {
            match found {
                Ok(vitals) => {
                    gaps.namespace(&vitals);
                    snapshot.namespace(self.without_unjudged(vitals));
                }
                // It no longer exists, so nothing is wrong with it.
                Err(error) if selection.are_many() && error.kind() == ErrorKind::NotFound => {}
                Err(_) if selection.are_many() => {
                    let is_new = report.unreadable_netns.insert(namespace.inode());
                    report.losses.unreadable_namespaces += u64::from(is_new);
                }
                Err(error) => {
                    return Err(match Errno::from_io_error(&error) {
                        Some(errno) => Error::Namespace(namespace.inode(), errno).into(),
                        None => anyhow::Error::from(error).context("look into the network namespace"),
                    });
                }
            }
        }
        Ok(())
    }

    /// Adds what was dropped since the last sample. Returns whether drops are watched.
    fn read_drops(&self, snapshot: &mut Snapshot<'_>) -> bool {
        let mut drops = self.drops.borrow_mut();
        let Some(drops) = drops.as_mut() else {
            return false;
        };
        let selection = DropSelection::of(self.listing);
        let mut victims = drops.since_last(&selection);
        if let Some(refusals) = self.refusals.borrow_mut().as_mut() {
            // Without counts it is not known how many were lost; the drops have theirs.
            victims.extend(refusals.since_last(&selection).unwrap_or_default());
        }
        snapshot.drops(victims);
        true
    }

    /// Removes the counters of devices if no rule judges them. Loss on a device hides the same loss of connections, which
    /// must then be reported for the connections.
    fn without_unjudged(&self, mut vitals: Vitals) -> Vitals {
        if !self.concerns(Concerns::Namespace) {
            for device in &mut vitals.devices {
                device.traffic = None;
                device.qdiscs.clear();
            }
        }
        vitals
    }

    /// Finds the processes that use much of their limit of open files, if a rule judges them.
    fn crowded(&self, owners: Option<&Owners>, gaps: &mut Gaps) -> Crowded {
        if self.options.is_filtered || !self.rules.has(Rule::OpenFiles) {
            return Crowded::default();
        }
        // All processes are looked at.
        let scan = vitals::crowded_processes(self.rules.limits.of(Limit::OpenFilesShare));
        gaps.unreadable_files = scan.unreadable;
        let (selection, own) = (&self.listing.context.namespaces, own_namespace());
        let all_families = self.listing.families() == Families::BOTH;
        let is_walked = |netns: NetnsInode| match selection {
            NetnsSelection::Here => own == Some(netns),
            _ => selection.with_inode(netns).is_some(),
        };
        Crowded::new(scan.processes, owners.filter(|_| all_families), is_walked)
    }

    /// Adds all sockets to the snapshot; returns the processes that own them.
    fn read_sockets(
        &self,
        snapshot: &mut Snapshot<'_>,
        owners: Option<&Owners>,
        crowded: &mut Crowded,
        report: &mut ListingReport,
    ) -> anyhow::Result<HashSet<Pid>> {
        let options = self.socket_options();
        let (mut processes, mut last) = (HashSet::new(), None);
        self.listing.run(&options, owners, report, &mut |entry, _| {
            for owner in entry.owners.unwrap_or_default() {
                // Most sockets are owned by the process that owns the one before.
                if last.replace(owner.process.pid) != Some(owner.process.pid) {
                    processes.insert(owner.process.pid);
                }
            }
            crowded.socket(entry);
            snapshot.socket(entry);
            ControlFlow::Continue(())
        })?;
        Ok(processes)
    }

    /// Returns which sockets [`Self::read_sockets`] lists.
    fn socket_options(&self) -> QueryOptions {
        let filter = self.listing.filter();
        let protocols = ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp, Protocol::UdpLite]);
        QueryOptions {
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
        }
    }

    /// Adds the UNIX sockets that listen, if their rule is selected.
    fn read_unix_listeners(
        &self,
        snapshot: &mut Snapshot<'_>,
        owners: Option<&Owners>,
        report: &mut ListingReport,
    ) -> anyhow::Result<()> {
        let filter = self.listing.filter();
        let protocols = ProtocolSet::of(&[Protocol::UnixStream, Protocol::UnixSeqpacket]);
        let states = filter.states().unwrap_or(StateSet::ALL);
        let options = QueryOptions {
            protocols: protocols.retain(|protocol| filter.may_match(protocol)),
            families: self.listing.families(),
            states: StateSet::EMPTY.with(State::Listen).and(states),
            detail: Detail::QUEUES | Detail::INODE | Detail::USER,
            scope: Scope::Matching,
        };
        if !self.rules.has(Rule::AcceptQueue) || options.protocols.is_empty() {
            return Ok(());
        }
        self.listing.run(&options, owners, report, &mut |entry, _| {
            snapshot.socket(entry);
            ControlFlow::Continue(())
        })
    }

    /// Compares the queues of UNIX listeners, when that proves something.
    fn look_at_unix_queues_again(&self, snapshot: &mut Snapshot<'_>, looked: Instant) {
        let Some(needed) = snapshot.unix_queues_need() else {
            return;
        };
        let left = needed.saturating_sub(looked.elapsed());
        if !left.is_zero() && !stdout::pause(left) {
            return;
        }
        for netns in snapshot.unix_queues_in_question() {
            let apart = looked.elapsed();
            let queues = self.within(netns, vitals::unix_queues);
            snapshot.unix_queues_later(netns, &queues.unwrap_or_default(), apart);
        }
    }

    /// Looks at the TCP sockets again.
    fn look_again(&self, later: &mut Suspects, owners: Option<&Owners>) -> anyhow::Result<()> {
        let filter = self.listing.filter();
        let states = StateSet::EMPTY
            .with(State::Established)
            .with(State::CloseWait)
            .with(State::FinWait2);
        let options = QueryOptions {
            protocols: ProtocolSet::of(&[Protocol::Tcp]),
            families: self.listing.families(),
            states: states.and(filter.states().unwrap_or(StateSet::ALL)),
            detail: Detail::QUEUES | Detail::INODE | Detail::TCP_INFO,
            scope: Scope::Matching,
        };
        let mut report = self.listing.begin();
        self.listing.run(&options, owners, &mut report, &mut |entry, _| {
            later.socket(entry, &self.rules.limits);
            ControlFlow::Continue(())
        })
    }

    /// Looks up how the host would send to these peers now, in the namespaces of their sockets.
    fn look_up(&self, queries: &[PathQuery]) -> Vec<SendPath> {
        let mut by_netns: BTreeMap<Option<NetnsInode>, Vec<PathQuery>> = BTreeMap::new();
        for query in queries {
            by_netns.entry(query.netns).or_default().push(*query);
        }
        let mut found = Vec::new();
        for (netns, queries) in by_netns {
            // Without the right to enter it the state of the sockets has to do.
            let paths = self.within(netns, || vitals::send_paths(&queries));
            found.extend(paths.unwrap_or_default());
        }
        found
    }

    /// Runs `read` in a network namespace; `None` if it cannot be entered.
    fn within<T: Send>(&self, netns: Option<NetnsInode>, read: impl FnOnce() -> T + Send) -> Option<T> {
        let Some(netns) = netns else {
            return Some(read());
        };
        let selection = &self.listing.context.namespaces;
        let namespace = selection.with_inode(netns)?;
        let found = selection.open(namespace, |place| within(place, read));
        found.ok()?.ok()
    }

    /// Whether the packet filter rules may be read where we are, or in the one namespace that is selected.
    fn may_read_firewall(&self) -> bool {
        let selected = match &self.listing.context.namespaces {
            NetnsSelection::One(_) => {
                let mut targets = self.listing.context.namespaces.iter().flatten();
                targets.next().map(Namespace::inode)
            }
            _ => None,
        };
        self.within(selected, vitals::may_read_firewall).unwrap_or(false)
    }

    /// Counts the neighbours of the namespaces that are not judged, if a table is so full that it matters which of its
    /// entries count; `None` otherwise, or if they cannot be found.
    fn neighbours_elsewhere(&self, host: &HostVitals) -> Option<Neighbours> {
        let is_crowded = |table: &NeighbourTable| table.fill.used.saturating_mul(2) >= table.fill.max;
        let selection = &self.listing.context.namespaces;
        if selection.are_many() || !host.neighbours.iter().any(is_crowded) {
            return None;
        }
        let names = SystemNames::new(NameKinds::ALL);
        let all = NetnsSelection::find(Some("all"), &names, None, &mut Losses::default()).ok()?;
        let own = own_namespace();
        let is_judged = |namespace: &&Namespace| match selection {
            NetnsSelection::Here => own == Some(namespace.inode()),
            _ => selection.with_inode(namespace.inode()).is_some(),
        };
        let namespaces: Vec<&Namespace> = all.iter().flatten().filter(|one| !is_judged(one)).collect();
        let open = |number: usize, act: &mut dyn FnMut(OpenNetns<'_>)| {
            let namespace = namespaces
                .get(number)
                .ok_or_else(|| std::io::Error::from(ErrorKind::NotFound))?;
            all.open(namespace, act)
        };
        let found = vitals::namespaces(namespaces.len(), &open);
        let each = found.into_iter().flatten().filter_map(|vitals| vitals.neighbours);
        Some(each.fold(Neighbours::default(), |sum, one| Neighbours {
            exempt_ipv4: sum.exempt_ipv4 + one.exempt_ipv4,
            exempt_ipv6: sum.exempt_ipv6 + one.exempt_ipv6,
            limited_ipv4: sum.limited_ipv4 + one.limited_ipv4,
            limited_ipv6: sum.limited_ipv6 + one.limited_ipv6,
        }))
    }

    /// Reads what all namespaces share; with one selected namespace, only the open files of its processes and the
    /// tables of neighbours, which all namespaces share.
    fn read_host(&self, owning: &HashSet<Pid>, crowded: &Crowded, gaps: &mut Gaps) -> HostVitals {
        let mut host = vitals::host();
        if self.rules.has(Rule::Neighbours) {
            host.neighbours_elsewhere = self.neighbours_elsewhere(&host);
        }
        let mut processes: Vec<_> = crowded.processes().collect();
        if self.concerns(Concerns::Host) {
            gaps.host(&host);
            // Seen from another namespace than the host's, processes of others are not in question.
            let is_here = matches!(self.listing.context.namespaces, NetnsSelection::Here);
            if is_here && vitals::lacks_host_settings() {
                let own = own_namespace();
                processes.retain(|process| process.netns.is_none() || process.netns == own);
            }
        } else {
            let neighbours = std::mem::take(&mut host.neighbours);
            host = HostVitals {
                neighbours,
                neighbours_elsewhere: host.neighbours_elsewhere,
                rmem_max_bytes: host.rmem_max_bytes,
                wmem_max_bytes: host.wmem_max_bytes,
                ..HostVitals::default()
            };
            let selection = &self.listing.context.namespaces;
            processes.retain(|process| {
                let netns = process.netns;
                owning.contains(&process.pid())
                    || netns.is_some_and(|netns| selection.with_inode(netns).is_some())
            });
        }
        host.files = processes
            .into_iter()
            .map(|process| crowded.files(process))
            .collect();
        host
    }

    /// Returns whether this check covers a scope.
    fn concerns(&self, scope: Concerns) -> bool {
        match scope {
            Concerns::Sockets => true,
            Concerns::Namespace => !self.options.is_filtered,
            Concerns::Host => {
                !self.options.is_filtered
                    && !matches!(self.listing.context.namespaces, NetnsSelection::One(_))
            }
        }
    }

    /// Returns whether a rule has anything to judge. Open files and neighbours are read for one namespace, too.
    fn can_judge(&self, rule: Rule) -> bool {
        self.concerns(rule.scope())
            || (matches!(rule, Rule::OpenFiles | Rule::Neighbours) && !self.options.is_filtered)
    }

    fn is_selected(&self, finding: &Finding) -> bool {
        let is_in_scope = !self.options.is_filtered || finding.rule.scope() == Concerns::Sockets;
        is_in_scope && self.rules.contains(finding)
    }
}

/// Adds what the owners are doing to findings about what they do not do. One that is stopped is the cause.
fn show_owner_states(findings: &mut [Finding]) {
    let inactive = findings
        .iter_mut()
        .filter(|finding| finding.is_about_inactivity());
    for finding in inactive.take(OWNER_STATES_MAX) {
        let state = finding.owner.and_then(|owner| vitals::process_state(owner.pid));
        if let Some(state) = state {
            finding.set_owner_state(state);
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
}

/// The selected rules that cannot be judged in this network namespace, whatever the rights.
fn on_host_only(gaps: &Gaps, rules: &RuleSelection) -> Vec<Rule> {
    let all = gaps.on_host_only.iter().copied();
    all.filter(|rule| rules.has(*rule)).collect()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Owners whose state is read.
const OWNER_STATES_MAX: usize = 100;
