//! One pass over the sockets of all selected namespaces.

use crate::entry_threads::EntryThreads;
use crate::listing::{Listing, QueryOptions, Scope};
use crate::netns_targets::{NetnsTarget, ResolvedFilter};
use crate::past::Past;
use crate::report::{AllNetnsReport, ListingReport};
use crate::sample_owners::{FindOwners, SampleOwners};
use crate::workloads::SocketWorkloads;
use sockeye_console::notes::say;
use sockeye_console::progress::Progress;
use sockeye_filter::Filter;
use sockeye_model::{Entry, Inode, NetnsInode, ProtocolSet, Socket, Workloads};
use sockeye_source::owners::Owners;
use sockeye_source::{
    Announce, BpfEngine, Choice, Detail, Ends, Error, KernelVerdict, NetnsScope, Preparation, Query,
    QueryOutcome, QuietWalk, Reason, SocketThreads, SourceKind, TakeSocket, list, list_on_threads,
};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

impl Listing<'_> {
    /// Calls `emit` with the sockets of every namespace and whether they match the filter; it may break off.
    pub fn run(
        &self,
        options: &QueryOptions,
        owners: Option<&Owners>,
        report: &mut ListingReport,
        emit: &mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        let owners = owners.map(|owners| owners as &dyn FindOwners);
        self.run_with(options, owners, report, emit, None, None)
    }

    /// As [`Self::run`], with owners of a sample, and without the connections that `quiet` notes.
    pub fn run_quiet(
        &self,
        options: &QueryOptions,
        owners: Option<&SampleOwners<'_>>,
        report: &mut ListingReport,
        quiet: Option<&QuietWalk>,
        emit: &mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>,
    ) -> anyhow::Result<()> {
        let owners = owners.map(|owners| owners as &dyn FindOwners);
        self.run_with(options, owners, report, emit, None, quiet)
    }

    /// As [`Self::run`], and passes a part of the sockets to `threads`, where the source reads on several threads.
    pub fn run_on_threads(
        &self,
        options: &QueryOptions,
        owners: Option<&Owners>,
        report: &mut ListingReport,
        emit: &mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>,
        threads: &dyn EntryThreads,
    ) -> anyhow::Result<()> {
        let owners = owners.map(|owners| owners as &dyn FindOwners);
        self.run_with(options, owners, report, emit, Some(threads), None)
    }

    fn run_with(
        &self,
        options: &QueryOptions,
        owners: Option<&dyn FindOwners>,
        report: &mut ListingReport,
        emit: &mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>,
        threads: Option<&dyn EntryThreads>,
        quiet: Option<&QuietWalk>,
    ) -> anyhow::Result<()> {
        let processes = self.sampled();
        let workloads = SocketWorkloads {
            context: self.context,
            has_owners: owners.is_some(),
            processes: &processes,
            kinds: &self.workload_kinds,
        };
        let owners = Found {
            owners,
            workloads: (!self.workload_kinds.is_empty()).then_some(&workloads),
        };
        let result = self.scan(options, owners, report, emit, threads, quiet);
        processes.add_to(report);
        result
    }

    /// Returns the programs that a listing with these options will load; `None` if there is nothing to load, or it is not known yet.
    pub(crate) fn preparation(&self, options: &QueryOptions) -> Option<Preparation<'_>> {
        let context = self.context;
        if context.past.is_some() {
            return None;
        }
        let mut query = query(
            options,
            needs(self.targets.filter()),
            options.protocols,
            self.targets.common_filter(),
        );
        query.choice = context.choice;
        if context.namespaces.are_many() {
            if !matches!(context.choice, Choice::Auto | Choice::Bpf) {
                return None;
            }
            (query.scope, query.program) = (NetnsScope::All, &[]);
        } else if self
            .targets
            .candidates()
            .iter()
            .any(|target| target.netns.is_some())
        {
            // The number of its sockets, which decides, can only be read inside.
            return None;
        }
        Preparation::of(&context.engine, &query)
    }

    fn scan(
        &self,
        options: &QueryOptions,
        found: Found<'_>,
        report: &mut ListingReport,
        emit: &mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>,
        threads: Option<&dyn EntryThreads>,
        quiet: Option<&QuietWalk>,
    ) -> anyhow::Result<()> {
        let mut scan = Scan {
            quiet,
            listing: self,
            options,
            found,
            report,
            emit,
            threads,
            stopped: false,
            emitted: HashSet::new(),
        };
        if let Some(past) = &self.context.past {
            scan.replay(past);
            return Ok(());
        }
        let remaining = if self.context.namespaces.are_many() {
            scan.list_all_at_once()
        } else {
            options.protocols
        };
        if remaining.is_empty() || scan.stopped {
            return Ok(());
        }
        let targets = self.targets.candidates();
        if targets.len() < PARALLEL_MIN {
            scan.list_one_by_one(remaining, &targets)
        } else {
            scan.list_in_parallel(remaining, &targets)
        }
    }
}

/// State of a pass over the sockets.
struct Scan<'a> {
    listing: &'a Listing<'a>,
    options: &'a QueryOptions,
    found: Found<'a>,
    report: &'a mut ListingReport,
    emit: &'a mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>,
    threads: Option<&'a dyn EntryThreads>,
    /// What a walk may leave out, of a listing of one namespace.
    quiet: Option<&'a QuietWalk>,
    stopped: bool,
    /// Sockets that were found by their descriptors; filled only if those without one are listed after them.
    emitted: HashSet<(NetnsInode, Inode)>,
}

/// What takes entries on several threads, as what takes their sockets.
struct Threads<'a> {
    threads: &'a dyn EntryThreads,
    listing: &'a Listing<'a>,
    options: &'a QueryOptions,
    found: Found<'a>,
    /// The only namespace; `None`: each socket has its own.
    target: Option<&'a NetnsTarget<'a>>,
    emitted: &'a HashSet<(NetnsInode, Inode)>,
}

impl SocketThreads for Threads<'_> {
    fn may_begin(&self) -> bool {
        self.threads.may_begin()
    }

    fn on_thread(&self, read: &mut dyn FnMut(TakeSocket<'_>)) {
        self.threads.on_thread(&mut |emit| {
            read(&mut |socket, context| {
                let targets = &self.listing.targets;
                let resolved = match self.target {
                    Some(target) => Some(targets.filter_of(target)),
                    None => socket.netns.and_then(|netns| targets.filter_in(netns)),
                };
                let Some(resolved) = resolved else {
                    return ControlFlow::Continue(());
                };
                let entry = self.found.entry(socket);
                match decide(self.options, resolved, &entry, context.kernel_verdict) {
                    Decision::Emit { matches } if !contains(self.emitted, socket) => emit(&entry, matches),
                    _ => ControlFlow::Continue(()),
                }
            });
        });
    }
}

/// What entries have in addition to the socket.
#[derive(Clone, Copy)]
struct Found<'a> {
    owners: Option<&'a dyn FindOwners>,
    workloads: Option<&'a SocketWorkloads<'a>>,
}

impl<'a> Found<'a> {
    fn announce(self) -> Option<&'a dyn Announce> {
        self.owners.map(|owners| owners as &dyn Announce)
    }

    fn entry(self, socket: &'a Socket) -> Entry<'a> {
        let of = |owners: &'a dyn FindOwners| socket.inode.map_or(&[][..], |inode| owners.of(inode));
        Entry {
            workloads: self.workloads.map(|workloads| workloads as &dyn Workloads),
            ..Entry::with_owners(socket, self.owners.map(of))
        }
    }
}

/// Whether a socket is emitted, and whether it matches.
enum Decision {
    Skip,
    Emit { matches: bool },
}

/// Message of a worker thread about a namespace, which it names by its index.
enum WorkerEvent {
    Sockets(Vec<(Socket, bool)>),
    Finished(usize, anyhow::Result<Option<QueryOutcome>>),
    /// It could not be entered, perhaps since other threads have too many descriptors open: tried again at the end.
    Postponed(usize),
}

impl Scan<'_> {
    /// Lists all namespaces at once, by BPF. Returns the protocols that have to be listed in each namespace.
    fn list_all_at_once(&mut self) -> ProtocolSet {
        let (listing, options, found) = (self.listing, self.options, self.found);
        if !matches!(listing.context.choice, Choice::Auto | Choice::Bpf) {
            self.report.all_netns = Some(AllNetnsReport {
                one_by_one: Some(Reason::NotSelected),
                descriptors_only: false,
            });
            return options.protocols;
        }
        let resolved = listing.targets.common_filter();
        let mut query = query(
            options,
            needs(listing.targets.filter()),
            options.protocols,
            resolved,
        );
        query.choice = listing.context.choice;
        (query.scope, query.announce) = (NetnsScope::All, found.announce());
        // Filter programs run in the dump of one namespace, and this is none.
        query.program = &[];
        // A source that the user selected is the only one that is used.
        let complete = listing.complete && listing.context.choice == Choice::Auto;
        let (emit, emitted) = (&mut *self.emit, &mut self.emitted);
        let nothing = HashSet::new();
        // What is emitted is noted on this thread only.
        let threads = self.threads.filter(|_| !complete).map(|threads| Threads {
            threads,
            listing,
            options,
            found,
            target: None,
            emitted: &nothing,
        });
        let outcome = list_with(
            &listing.context.engine,
            &query,
            threads.as_ref(),
            &mut |socket, kernel_verdict| {
                if complete && let (Some(netns), Some(inode)) = (socket.netns, socket.inode) {
                    emitted.insert((netns, inode));
                }
                let Some(resolved) = socket.netns.and_then(|netns| listing.targets.filter_in(netns)) else {
                    return ControlFlow::Continue(());
                };
                let entry = found.entry(socket);
                match decide(options, resolved, &entry, kernel_verdict) {
                    Decision::Emit { matches } => emit(&entry, matches),
                    Decision::Skip => ControlFlow::Continue(()),
                }
            },
        );
        let mut outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                say(&format!("sockeye: not every namespace at once: {error}\n"));
                return options.protocols;
            }
        };
        let mut remaining = ProtocolSet::EMPTY;
        let by = |source| outcome.used.iter().any(|used| used.source == Some(source));
        let reason = outcome.used.iter().find_map(|used| used.not_used.first());
        self.report.all_netns = Some(AllNetnsReport {
            one_by_one: reason.map(|(_, reason)| reason.clone()),
            descriptors_only: by(SourceKind::Descriptors) && !complete,
        });
        for used in &outcome.used {
            // Sockets without a descriptor may exist in addition to those found by descriptors.
            let others = complete && used.source == Some(SourceKind::Descriptors);
            if used.source.is_none() || others {
                let protocols = ProtocolSet::from_name(used.what).unwrap_or(ProtocolSet::EMPTY);
                remaining = remaining.or(options.protocols.retain(|one| protocols.contains(one)));
            }
        }
        // The listing of each namespace reports the source of the other protocols.
        outcome.used.retain(|used| used.source.is_some());
        self.add_outcome(outcome);
        remaining
    }

    /// Lists the sockets of a recorded moment.
    fn replay(&mut self, past: &Past) {
        let (listing, options, found) = (self.listing, self.options, self.found);
        self.report.losses += past.losses();
        for used in past.sources(options.protocols) {
            self.report.add_source(used);
        }
        for (identity, socket) in past.sockets(options, listing.context) {
            let Some(resolved) = listing.targets.resolved_for(&socket) else {
                continue;
            };
            let workloads = found
                .workloads
                .map(|workloads| past.workloads(identity, workloads));
            let entry = Entry {
                workloads: workloads.as_ref().map(|workloads| workloads as &dyn Workloads),
                ..Entry::with_owners(&socket, found.owners.and(identity.owners.as_deref()))
            };
            if let Decision::Emit { matches } = decide(options, resolved, &entry, KernelVerdict::NotRun)
                && (self.emit)(&entry, matches).is_break()
            {
                self.stopped = true;
                return;
            }
        }
    }

    /// Lists one namespace after the other; sockets are emitted as they come.
    fn list_one_by_one(
        &mut self,
        protocols: ProtocolSet,
        targets: &[&NetnsTarget<'_>],
    ) -> anyhow::Result<()> {
        let (listing, options, found) = (self.listing, self.options, self.found);
        for target in targets {
            let (emit, emitted) = (&mut *self.emit, &self.emitted);
            let threads = self.threads.map(|threads| Threads {
                threads,
                listing,
                options,
                found,
                target: Some(target),
                emitted,
            });
            let outcome = list_target(
                listing,
                options,
                protocols,
                target,
                WalkOptions {
                    announce: found.announce(),
                    quiet: (targets.len() == 1).then_some(self.quiet).flatten(),
                    threads: threads.as_ref(),
                },
                &mut |socket, kernel_verdict| {
                    let entry = found.entry(socket);
                    match decide(options, listing.targets.filter_of(target), &entry, kernel_verdict) {
                        Decision::Emit { matches } if !contains(emitted, socket) => emit(&entry, matches),
                        _ => ControlFlow::Continue(()),
                    }
                },
            )?;
            self.finish_target(target, outcome);
            if self.stopped {
                break;
            }
        }
        Ok(())
    }

    /// Lists many namespaces with a thread per core; this thread emits their sockets.
    fn list_in_parallel(
        &mut self,
        protocols: ProtocolSet,
        targets: &[&NetnsTarget<'_>],
    ) -> anyhow::Result<()> {
        let (listing, options, found) = (self.listing, self.options, self.found);
        let emitted = std::mem::take(&mut self.emitted);
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut progress = Progress::new("network namespaces", targets.len());
        thread::scope(|scope| {
            let (sender, events) = mpsc::sync_channel(cores * 4);
            for _ in 0..cores {
                let (sender, next, stop, emitted) = (sender.clone(), &next, &stop, &emitted);
                let work = move || {
                    while !stop.load(Ordering::Relaxed) {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(target) = targets.get(index) else {
                            return;
                        };
                        let (mut batch, mut has_sent) = (Vec::new(), false);
                        let outcome = list_target(
                            listing,
                            options,
                            protocols,
                            target,
                            WalkOptions {
                                announce: found.announce(),
                                quiet: None,
                                threads: None,
                            },
                            &mut |socket, kernel_verdict| {
                                let entry = found.entry(socket);
                                let filter = listing.targets.filter_of(target);
                                let decision = decide(options, filter, &entry, kernel_verdict);
                                if let Decision::Emit { matches } = decision
                                    && !contains(emitted, socket)
                                {
                                    batch.push((socket.clone(), matches));
                                }
                                if batch.len() >= BATCH {
                                    has_sent = true;
                                    let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
                                    if sender.send(WorkerEvent::Sockets(full)).is_err() {
                                        return ControlFlow::Break(());
                                    }
                                }
                                ControlFlow::Continue(())
                            },
                        );
                        let can_repeat = !has_sent && batch.is_empty();
                        let event = match outcome {
                            Err(error) if can_repeat && is_out_of_descriptors(&error) => {
                                WorkerEvent::Postponed(index)
                            }
                            Ok(None) if can_repeat => WorkerEvent::Postponed(index),
                            outcome => WorkerEvent::Finished(index, outcome),
                        };
                        if sender.send(WorkerEvent::Sockets(batch)).is_err() || sender.send(event).is_err() {
                            return;
                        }
                    }
                };
                // The threads that could be started list all targets; if none could, this one does, below.
                if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            drop(sender);
            let mut failure = Ok(());
            let mut postponed = Vec::new();
            for event in events {
                match event {
                    WorkerEvent::Sockets(batch) => {
                        for (socket, matches) in &batch {
                            if self.stopped || (self.emit)(&found.entry(socket), *matches).is_break() {
                                self.stopped = true;
                                stop.store(true, Ordering::Relaxed);
                                break;
                            }
                        }
                    }
                    WorkerEvent::Finished(index, Ok(outcome)) => {
                        progress.step();
                        self.finish_target(targets[index], outcome);
                    }
                    WorkerEvent::Finished(_, Err(error)) => {
                        failure = Err(error);
                        stop.store(true, Ordering::Relaxed);
                    }
                    WorkerEvent::Postponed(index) => postponed.push(index),
                }
            }
            // Targets that no thread took, since none could be started.
            postponed.extend(next.load(Ordering::Relaxed).min(targets.len())..targets.len());
            if self.stopped {
                postponed.clear();
            }
            failure.map(|()| postponed)
        })
        .and_then(|postponed| {
            self.emitted = emitted;
            let targets: Vec<_> = postponed
                .into_iter()
                .filter_map(|index| targets.get(index).copied())
                .collect();
            self.list_one_by_one(protocols, &targets)
        })
    }

    /// Adds the outcome of one namespace to the report; `None`: it could not be entered.
    fn finish_target(&mut self, target: &NetnsTarget<'_>, outcome: Option<QueryOutcome>) {
        match (outcome, target.netns) {
            (Some(outcome), _) => self.add_outcome(outcome),
            // A listing may visit each namespace twice.
            (None, Some(netns)) => {
                let is_new = self.report.unreadable_netns.insert(netns.inode());
                self.report.losses.unreadable_namespaces += u64::from(is_new);
            }
            (None, None) => self.report.losses.unreadable_namespaces += 1,
        }
    }

    fn add_outcome(&mut self, outcome: QueryOutcome) {
        self.report.losses += outcome.losses;
        self.report.rewalked_chains += outcome.rewalked_chains;
        for used in outcome.used {
            self.report.add_source(used);
        }
        self.stopped |= outcome.stopped;
    }
}

/// What a walk may do in addition to the query.
#[derive(Clone, Copy)]
struct WalkOptions<'a> {
    announce: Option<&'a dyn Announce>,
    quiet: Option<&'a QuietWalk>,
    threads: Option<&'a Threads<'a>>,
}

/// Lists one namespace; `None`: it is one of many and could not be entered.
fn list_target(
    listing: &Listing<'_>,
    options: &QueryOptions,
    protocols: ProtocolSet,
    target: &NetnsTarget<'_>,
    walk: WalkOptions<'_>,
    emit: &mut dyn FnMut(&Socket, KernelVerdict) -> ControlFlow<()>,
) -> anyhow::Result<Option<QueryOutcome>> {
    let context = listing.context;
    let resolved = listing.targets.filter_of(target);
    let mut query = query(options, needs(&resolved.filter), protocols, Some(resolved));
    (query.choice, query.announce, query.quiet) = (context.choice, walk.announce, walk.quiet);
    let outcome = match target.netns {
        None => list_with(&context.engine, &query, walk.threads, emit),
        Some(namespace) => {
            let listed = context.namespaces.open(namespace, |netns| {
                let query = Query {
                    scope: NetnsScope::One(netns),
                    ..query.clone()
                };
                list_with(&context.engine, &query, walk.threads, emit)
            });
            match listed {
                Ok(outcome) => outcome,
                // It no longer exists, so nothing is missing.
                Err(error) if context.namespaces.are_many() && error.kind() == ErrorKind::NotFound => {
                    return Ok(Some(QueryOutcome::default()));
                }
                Err(_) if context.namespaces.are_many() => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    };
    match outcome {
        Ok(outcome) => Ok(Some(outcome)),
        // With many namespaces, one that cannot be entered is counted as a loss.
        Err(Error::Namespace(..)) if listing.targets.count() > 1 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Lists sockets, on several threads if there are `threads`.
fn list_with(
    engine: &BpfEngine,
    query: &Query<'_>,
    threads: Option<&Threads<'_>>,
    emit: &mut dyn FnMut(&Socket, KernelVerdict) -> ControlFlow<()>,
) -> Result<QueryOutcome, Error> {
    match threads {
        Some(threads) => list_on_threads(
            engine,
            query,
            &mut |socket, context| emit(socket, context.kernel_verdict),
            threads,
        ),
        None => list(engine, query, emit),
    }
}

fn is_out_of_descriptors(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Error>()
        .is_some_and(Error::lacks_descriptors)
}

fn query<'a>(
    options: &QueryOptions,
    needs: Detail,
    protocols: ProtocolSet,
    resolved: Option<&'a ResolvedFilter>,
) -> Query<'a> {
    let resolved = resolved.filter(|_| options.scope != Scope::All);
    Query {
        protocols,
        families: options.families,
        states: options.states,
        detail: options.detail | needs,
        program: resolved.map_or(&[], |resolved| &resolved.program.bytecode),
        ends: resolved.map_or(Ends::ANYWHERE, |resolved| resolved.ends),
        choice: Choice::Auto,
        scope: NetnsScope::Own,
        quiet: None,
        announce: None,
    }
}

/// Returns the details that the filter tests.
fn needs(filter: &Filter) -> Detail {
    let needs = filter.needs();
    // Cheap details are not tracked one by one.
    let some = !filter.is_empty();
    let cheap = Detail::QUEUES | Detail::TIMER | Detail::INODE | Detail::USER | Detail::OPTIONS;
    cheap.when(some)
        | Detail::AUTOBOUND.when(needs.kernel_only)
        | Detail::TCP_INFO.when(needs.tcp_info)
        | Detail::MEMORY.when(needs.memory)
        | Detail::CONGESTION.when(needs.congestion)
        | Detail::SERVICE_CLASS.when(needs.service_class)
}

fn contains(emitted: &HashSet<(NetnsInode, Inode)>, socket: &Socket) -> bool {
    let key = socket.netns.zip(socket.inode);
    !emitted.is_empty() && key.is_some_and(|key| emitted.contains(&key))
}

fn decide(
    options: &QueryOptions,
    resolved: &ResolvedFilter,
    entry: &Entry<'_>,
    kernel_verdict: KernelVerdict,
) -> Decision {
    // An exact program knows more than we do: whether the kernel chose a port, for example.
    let decided = kernel_verdict == KernelVerdict::Passed && resolved.program.exact;
    let matches = decided || resolved.filter.is_empty() || resolved.filter.matches(entry);
    if matches || options.scope == Scope::All {
        Decision::Emit { matches }
    } else {
        Decision::Skip
    }
}

/// Sockets that a thread sends at a time.
const BATCH: usize = 64;

/// Number of namespaces from which on several threads list them.
const PARALLEL_MIN: usize = 8;
