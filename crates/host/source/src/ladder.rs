//! The ladder of sources: finds the best source that works, and records why a better one does not.

use crate::bpf::{BpfEngine, Start, TableKind, WalkStats};
use crate::dump::{self, Dump, DumpStatus};
use crate::outcome::{DumpContext, Error, KernelVerdict, ProtocolSource, QueryOutcome, Reason, SourceKind};
use crate::procfs;
use crate::protocol_group::{GROUPS, Kind, ProtocolGroup};
use crate::query::{Choice, Families, NetnsScope, Query};
use crate::repeat::{self, Ending, Seen};
use crate::sock_diag::{decode, request};
use crate::socket_threads::SocketThreads;
use crate::split_dump;
use crate::unavailable::Unavailable;
use crate::walk::{self, Walk};
use rustix::io::Errno;
use sockeye_model::{Detail, Pid, Protocol, ProtocolSet, Socket, State, StateSet};
use sockeye_sys::netlink::NetlinkSocket;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Passes every socket that `query` selects to `take`, each once, until `take` breaks.
///
/// A protocol that no source can list does not end the group: its entry in [`QueryOutcome::used`] has the reason,
/// and it counts as a loss unless a kernel may lack it (MPTCP, UDP-Lite).
///
/// # Errors
/// When the namespace cannot be entered, or none of the protocols can be listed.
pub fn list(
    engine: &BpfEngine,
    query: &Query<'_>,
    take: &mut dyn FnMut(&Socket, KernelVerdict) -> ControlFlow<()>,
) -> Result<QueryOutcome, Error> {
    list_with_message(engine, query, &mut |socket, context| {
        take(socket, context.kernel_verdict)
    })
}

/// Lists as [`list`] does, and passes the kernel's netlink message with each socket.
///
/// # Errors
/// As [`list`].
pub fn list_with_message(
    engine: &BpfEngine,
    query: &Query<'_>,
    take: &mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>,
) -> Result<QueryOutcome, Error> {
    list_by(engine, query, take, None)
}

/// Lists as [`list_with_message`] does, and passes a part of the sockets to `threads`, where a source reads on several threads.
///
/// # Errors
/// As [`list`].
pub fn list_on_threads(
    engine: &BpfEngine,
    query: &Query<'_>,
    take: &mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>,
    threads: &dyn SocketThreads,
) -> Result<QueryOutcome, Error> {
    list_by(engine, query, take, Some(threads))
}

fn list_by(
    engine: &BpfEngine,
    query: &Query<'_>,
    take: &mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>,
    threads: Option<&dyn SocketThreads>,
) -> Result<QueryOutcome, Error> {
    let everywhere = matches!(query.scope, NetnsScope::All);
    let query = &without_unhashed(query);
    let mut fallback = Fallback {
        engine,
        query,
        take,
        threads,
        outcome: QueryOutcome::default(),
        sequence: 0,
    };
    if everywhere {
        fallback.owned_sockets();
    }
    for group in GROUPS {
        // The pass over descriptors covers them.
        if everywhere && group.walk().is_none() {
            continue;
        }
        if query.protocols.intersects(group.protocols) && !fallback.outcome.stopped {
            fallback.list_protocols(group)?;
        }
    }
    let QueryOutcome { used, losses, .. } = &fallback.outcome;
    let is_listed = used.iter().any(|used| used.source.is_some());
    // That this kernel lacks a protocol is no failure; that the source which the user named has no table for it is.
    let has_no_table = |used: &ProtocolSource| used.not_used.contains(&(SourceKind::Procfs, Reason::NoTable));
    let is_lost =
        losses.unlisted_protocols > 0 || (query.choice == Choice::Procfs && used.iter().any(has_no_table));
    if !everywhere && !is_listed && is_lost {
        return Err(Error::NoSource(fallback.outcome.used));
    }
    Ok(fallback.outcome)
}

/// The query without the state `Close` if it is for TCP alone: unconnected TCP sockets are in no table of the kernel,
/// but a dump that asks for them reads the table of all connections.
fn without_unhashed<'a>(query: &Query<'a>) -> Query<'a> {
    let is_tcp_alone = query.protocols == ProtocolSet::of(&[Protocol::Tcp]);
    let states = query.states.without(State::Close);
    Query {
        states: if is_tcp_alone && !states.is_empty() {
            states
        } else {
            query.states
        },
        ..query.clone()
    }
}

/// Tests whether `source` works, without group.
pub(crate) fn try_source(
    engine: &BpfEngine,
    group: &ProtocolGroup,
    source: SourceKind,
    query: &Query<'_>,
) -> Result<(), Reason> {
    if source == SourceKind::Procfs {
        // Reading it to its end costs as much with many sockets as listing them.
        return group.proc_tables(query)?.iter().take(1).try_for_each(|&table| {
            procfs::open(table)
                .map(drop)
                .map_err(|errno| Reason::File("open", table.path(), errno))
        });
    }
    let mut fallback = Fallback {
        engine,
        query,
        take: &mut |_, _| ControlFlow::Continue(()),
        threads: None,
        outcome: QueryOutcome::default(),
        sequence: 0,
    };
    let outcome = match source {
        SourceKind::Walk => fallback.walk(group),
        _ => fallback.by_netlink(group, source),
    };
    match outcome {
        Ok(_) => Ok(()),
        Err(Failure::Source(reason)) => Err(reason),
        Err(Failure::Namespace(Error::Namespace(_, errno))) => {
            Err(Reason::System("enter the namespace", errno))
        }
        Err(Failure::Namespace(Error::NoSource(_))) => Err(Reason::NoTable),
    }
}

/// The BPF programs that [`list`] will load for some sockets: each takes milliseconds, mostly of the kernel's verifier, which other cores can do
/// before.
#[derive(Debug)]
pub struct Preparation<'a> {
    engine: &'a BpfEngine,
    programs: Vec<Programs>,
    /// Index of the first one that no thread has taken.
    next: AtomicUsize,
}

/// Programs that are loaded together.
#[derive(Debug, Clone, Copy)]
enum Programs {
    Tables(TableKind, Start),
    OwnedSockets,
}

impl<'a> Preparation<'a> {
    /// Finds the programs for a query; `None` if they are loaded, or none will be.
    #[must_use]
    pub fn of(engine: &'a BpfEngine, query: &Query<'_>) -> Option<Self> {
        let query = &without_unhashed(query);
        let mut programs = Vec::new();
        for group in GROUPS
            .iter()
            .filter(|group| query.protocols.intersects(group.protocols))
        {
            let Some(walk) = group.walk() else {
                let is_first = !programs.iter().any(|one| matches!(one, Programs::OwnedSockets));
                let is_used = matches!(query.scope, NetnsScope::All) && !engine.has_loaded_owned_sockets();
                programs.extend((is_used && is_first).then_some(Programs::OwnedSockets));
                continue;
            };
            let kind = walk::table_kind(walk, query);
            let is_used = sources(group, query).next() == Some(SourceKind::Walk);
            if is_used
                && !engine.has_loaded_tables(kind)
                && let Ok(few) = few_sockets(engine, query, walk)
            {
                let start = if few.is_some() { Start::Quick } else { Start::Any };
                programs.push(Programs::Tables(kind, start));
            }
        }
        (!programs.is_empty()).then(|| Self {
            engine,
            programs,
            next: AtomicUsize::new(0),
        })
    }

    /// Loads programs until all are loaded, or being loaded by other threads that call this. If one does not load, [`list`] says so.
    pub fn run(&self) {
        while let Some(programs) = self.programs.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            match *programs {
                Programs::Tables(kind, start) => drop(self.engine.tables(kind, start)),
                Programs::OwnedSockets => drop(self.engine.try_owned_sockets()),
            }
        }
    }
}

/// Returns the number of sockets if they are too few for programs that load slowly.
///
/// # Errors
/// Why a walk reports too little, or is not worth loading its programs.
fn few_sockets(engine: &BpfEngine, query: &Query<'_>, walk: Walk) -> Result<Option<u64>, Failure> {
    let in_use = match walk {
        Walk::Tcp => split_dump::tcp_sockets_in_use,
        Walk::Udp => split_dump::udp_sockets_in_use,
    };
    if let Some(what) = walk::unsupported(engine, walk, query) {
        return Err(Reason::NotReported(what).into());
    }
    let is_auto = query.choice == Choice::Auto && !matches!(query.scope, NetnsScope::All);
    if is_auto && is_narrow(query) {
        return Err(Reason::NarrowQuery.into());
    }
    let count = if is_auto { query.inside(in_use)? } else { None };
    let few = |limit| count.filter(|count| *count < limit);
    match few(WORTH_A_WALK) {
        Some(few) => Err(Reason::FewSockets(few).into()),
        None => Ok(few(WORTH_A_SLOW_START)),
    }
}

struct Fallback<'a> {
    engine: &'a BpfEngine,
    query: &'a Query<'a>,
    take: &'a mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>,
    threads: Option<&'a dyn SocketThreads>,
    outcome: QueryOutcome,
    sequence: u32,
}

/// Why a source failed before it passed on a socket.
enum Failure {
    /// The next source may work.
    Source(Reason),
    /// No source can work.
    Namespace(Error),
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        Self::Source(reason)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Namespace(error)
    }
}

/// Why a listing stopped early; `None` if it is complete.
type EndedEarly = Option<Reason>;

impl Fallback<'_> {
    fn list_protocols(&mut self, group: &ProtocolGroup) -> Result<(), Error> {
        let mut used = group.unanswered();
        for source in sources(group, self.query) {
            let outcome = match source {
                SourceKind::Walk => self.walk(group),
                // The first covers several protocols: see `owned_sockets`. The second is no source of this moment.
                SourceKind::Descriptors | SourceKind::Store => Err(Reason::NoTable.into()),
                SourceKind::OnePass | SourceKind::DiagV2 => self.by_netlink(group, source),
                SourceKind::Procfs => self.procfs(group),
            };
            match outcome {
                Ok(ended_early) => {
                    let is_dump = matches!(source, SourceKind::OnePass | SourceKind::DiagV2);
                    if is_dump
                        && group.walk() == Some(Walk::Tcp)
                        && self.query.detail.contains(Detail::COOKIE)
                    {
                        self.engine.set_has_cookies(true);
                    }
                    (used.source, used.ended_early) = (Some(source), ended_early);
                    break;
                }
                Err(Failure::Source(reason)) => used.not_used.push((source, reason)),
                // `/proc/PID/net` may be readable although the namespace cannot be entered.
                Err(Failure::Namespace(Error::Namespace(_, errno)))
                    if source != SourceKind::Procfs && self.process().is_some() =>
                {
                    used.not_used
                        .push((source, Reason::System("enter the namespace", errno)));
                }
                Err(Failure::Namespace(error)) => return Err(error),
            }
        }
        // With all namespaces at once it is no loss: the caller lists one namespace after the other then.
        let is_lost =
            used.source.is_none() && !group.optional && !matches!(self.query.scope, NetnsScope::All);
        self.outcome.losses.unlisted_protocols += u64::from(is_lost);
        self.outcome.used.push(used);
        Ok(())
    }

    /// Lists the sockets that processes have descriptors of: every protocol without a walk, in one pass.
    fn owned_sockets(&mut self) {
        let query = self.query;
        let groups: Vec<_> = GROUPS
            .iter()
            .filter(|group| query.protocols.intersects(group.protocols) && group.walk().is_none())
            .collect();
        if groups.is_empty() {
            return;
        }
        let mut walked = WalkStats::default();
        let take = &mut *self.take;
        let owned = Query {
            protocols: query
                .protocols
                .retain(|one| groups.iter().any(|group| group.protocols.contains(one))),
            scope: NetnsScope::All,
            ..query.clone()
        };
        let outcome = self.engine.owned_sockets(&owned, &mut walked, &mut |socket| {
            take(socket, DumpContext::only(SourceKind::Descriptors))
        });
        // An incomplete pass counts once, for all its protocols.
        let outcome = self.add_walk(&walked, outcome);
        for group in groups {
            let mut used = group.unanswered();
            match &outcome {
                Ok(ended_early) => {
                    (used.source, used.ended_early) = (Some(SourceKind::Descriptors), ended_early.clone());
                }
                Err(reason) => used.not_used.push((SourceKind::Descriptors, reason.clone())),
            }
            self.outcome.used.push(used);
        }
    }

    /// A process in the namespace of the query, if one is known.
    fn process(&self) -> Option<Pid> {
        match self.query.scope {
            NetnsScope::One(netns) => netns.process,
            NetnsScope::Own | NetnsScope::All => None,
        }
    }

    /// Walks over the tables of TCP or UDP, if a walk reports what the query asks for.
    fn walk(&mut self, group: &ProtocolGroup) -> Result<EndedEarly, Failure> {
        let query = self.query;
        let walk = group.walk().ok_or(Reason::NoTable)?;
        let few = few_sockets(self.engine, query, walk)?;
        let start = if few.is_some() { Start::Quick } else { Start::Any };
        let mut walked = WalkStats::default();
        let take = &mut *self.take;
        let outcome = walk::walk(
            self.engine,
            walk,
            start,
            query,
            &mut walked,
            &mut |socket, message| {
                let context = DumpContext {
                    message,
                    ..DumpContext::only(SourceKind::Walk)
                };
                take(socket, context)
            },
            self.threads,
        )?;
        match (outcome, few) {
            (Err(Unavailable::SlowStart), Some(few)) => Err(Reason::FewSockets(few).into()),
            (outcome, _) => Ok(self.add_walk(&walked, outcome)?),
        }
    }

    /// Adds up the result of a BPF source. After the first socket there is no fallback to another source.
    fn add_walk(
        &mut self,
        walked: &WalkStats,
        outcome: Result<(), Unavailable>,
    ) -> Result<EndedEarly, Reason> {
        self.outcome.losses += walked.losses;
        self.outcome.rewalked_chains += walked.rewalked;
        self.outcome.stopped |= walked.stopped;
        let Err(unavailable) = outcome else {
            return Ok(None);
        };
        let reason = Reason::Bpf(Box::new(unavailable));
        if walked.delivered == 0 {
            return Err(reason);
        }
        self.outcome.losses.incomplete_dumps += 1;
        Ok(Some(reason))
    }

    fn by_netlink(&mut self, group: &ProtocolGroup, source: SourceKind) -> Result<EndedEarly, Failure> {
        match source {
            SourceKind::OnePass => self.netlink(group, source, AF_UNSPEC),
            _ => self.each_family(group),
        }
    }

    /// Lists by `sock_diag` v2, one address family at a time.
    fn each_family(&mut self, group: &ProtocolGroup) -> Result<EndedEarly, Failure> {
        let families = match group.kind {
            Kind::Inet(..) => {
                let Families { v4, v6 } = self.query.families;
                [v4.then_some(AF_INET), v6.then_some(AF_INET6)]
            }
            _ => [Some(AF_UNSPEC), None],
        };
        let (mut listed, mut ended_early) = (false, None);
        for family in families.into_iter().flatten() {
            match self.netlink(group, SourceKind::DiagV2, family) {
                Ok(outcome) => ended_early = ended_early.or(outcome),
                // The first family is out and must not be listed twice. That a kernel has no IPv6 is no loss; any
                // other failure is.
                Err(Failure::Source(reason)) if listed => {
                    if !reason.is_absence() {
                        self.outcome.losses.incomplete_dumps += 1;
                        ended_early = ended_early.or(Some(reason));
                    }
                }
                Err(failure) => return Err(failure),
            }
            if self.outcome.stopped {
                break;
            }
            listed = true;
        }
        Ok(ended_early)
    }

    /// Lists by netlink. If the kernel refuses a request, a simpler one follows: first without halves, then without the
    /// program; the caller filters then. The kernel refuses marks in a program without CAP_NET_ADMIN, instructions that
    /// it does not know, and programs that are longer than a message.
    fn netlink(
        &mut self,
        group: &ProtocolGroup,
        source: SourceKind,
        family: u8,
    ) -> Result<EndedEarly, Failure> {
        let program = match group.kind {
            Kind::Inet(..) => self.query.program,
            _ => &[],
        };
        // For few sockets, two dumps at once would only disturb each other.
        let halves = if source == SourceKind::OnePass && !is_narrow(self.query) {
            split_dump::programs(self.query, program)
        } else {
            None
        };
        let plans = [
            halves.map(Vec::from),
            (!program.is_empty()).then(|| vec![program.to_vec()]),
            Some(vec![Vec::new()]),
        ];
        let mut refusal = None;
        for programs in plans.into_iter().flatten() {
            self.sequence += 1;
            let requests: Option<Vec<_>> = programs
                .iter()
                .map(|program| request(group.kind, source, family, self.query, program, self.sequence))
                .collect();
            let Some(requests) = requests else { continue };
            // The programs of the halves filter nothing.
            let kernel_verdict = if program.is_empty() || programs.iter().any(Vec::is_empty) {
                KernelVerdict::NotRun
            } else {
                KernelVerdict::Passed
            };
            match self.dump(group, source, &requests, kernel_verdict) {
                Err(Failure::Source(reason @ Reason::Refused(..))) => refusal = Some(reason),
                outcome => return outcome,
            }
        }
        refusal.map_or(Ok(None), |reason| Err(reason.into()))
    }

    /// Sends all requests at once, and again while the kernel reports the dump as interrupted.
    fn dump(
        &mut self,
        group: &ProtocolGroup,
        source: SourceKind,
        requests: &[Vec<u8>],
        kernel_verdict: KernelVerdict,
    ) -> Result<EndedEarly, Failure> {
        let query = self.query;
        let netns = query.scope.inode();
        // The kernel reports a NETLINK socket twice if it is a member of a group (seen on Linux 6.18).
        let mut seen = match group.kind {
            Kind::Netlink if !query.detail.contains(Detail::REPEATS) => Seen::with_repeats(),
            _ => Seen::default(),
        };
        let heads_only = query.detail.is_in_heads();
        let mut broken = 0;
        let mut place = Socket::new(Protocol::Tcp, State::Close);
        let mut unreachable = None;
        let ending = repeat::until_complete(&mut seen, &mut self.outcome.losses, |seen| {
            let opened = query.inside(|| requests.iter().map(|_| NetlinkSocket::open()).collect());
            let sockets: Result<Vec<_>, Errno> = opened.unwrap_or_else(|error| {
                unreachable = Some(error);
                Err(Errno::PERM)
            });
            let sockets = match sockets {
                Ok(sockets) => sockets,
                Err(errno) => return DumpStatus::failed(Reason::System("open a sock_diag socket", errno)),
            };
            let dumps: Vec<_> = sockets
                .into_iter()
                .zip(requests)
                .map(|(socket, request)| Dump { socket, request })
                .collect();
            dump::run(&dumps, self.sequence, &mut |message| {
                match decode(message, group.kind, heads_only, &mut place) {
                    None => return ControlFlow::Continue(()),
                    Some(Ok(())) => {}
                    Some(Err(_)) => {
                        broken += 1;
                        return ControlFlow::Continue(());
                    }
                }
                if !query.matches(&place) || !seen.insert(&place) {
                    return ControlFlow::Continue(());
                }
                place.netns = netns;
                let message = Some(message.payload);
                (self.take)(
                    &place,
                    DumpContext {
                        kernel_verdict,
                        source,
                        message,
                    },
                )
            })
        });
        self.outcome.losses.broken_records += broken;
        if let Some(error) = unreachable {
            return Err(error.into());
        }
        match ending? {
            Ending::Complete | Ending::Interrupted => Ok(None),
            Ending::Failed(reason) => Ok(Some(reason)),
            Ending::Stopped => {
                self.outcome.stopped = true;
                Ok(None)
            }
        }
    }

    fn procfs(&mut self, group: &ProtocolGroup) -> Result<EndedEarly, Failure> {
        let query = self.query;
        let netns = query.scope.inode();
        let only_listeners = query.states == StateSet::EMPTY.with(State::Listen);
        let (mut listed, mut ended_early) = (false, None);
        for &table in group.proc_tables(query)? {
            let opened = match (query.inside(|| procfs::open(table)), self.process()) {
                (Err(Error::Namespace(..)), Some(process)) => Ok(procfs::open_of(table, process)),
                (opened, _) => opened,
            };
            let file = match opened? {
                Ok(file) => file,
                // A kernel without IPv6 lacks the second table.
                Err(Errno::NOENT) if listed => continue,
                Err(errno) => return Err(Reason::File("open", table.path(), errno).into()),
            };
            let count = || match table {
                procfs::Table::Unix => query.inside(procfs::unix_sockets_in_use).ok().flatten(),
                _ => None,
            };
            let before = count();
            let take = &mut *self.take;
            let read = procfs::read(&file, table, only_listeners, &mut |mut socket| {
                if !query.matches(&socket) {
                    return ControlFlow::Continue(());
                }
                listed = true;
                socket.netns = netns;
                take(&socket, DumpContext::only(SourceKind::Procfs))
            });
            match read {
                Ok(status) => {
                    self.outcome.losses.broken_records += status.broken;
                    // Any user can bind a name with a line feed and what looks like a row.
                    if let Some((before, after)) = before.zip(count()) {
                        self.outcome.losses.surplus_rows += status.rows.saturating_sub(before.max(after));
                    }
                    self.outcome.stopped |= status.stopped;
                }
                Err(errno) => {
                    let reason = Reason::File("read", table.path(), errno);
                    if !listed {
                        return Err(reason.into());
                    }
                    self.outcome.losses.incomplete_dumps += 1;
                    ended_early = ended_early.or(Some(reason));
                }
            }
            listed = true;
            if self.outcome.stopped {
                break;
            }
        }
        Ok(ended_early)
    }
}

/// Returns the sources to try for `group`, best first.
pub(crate) fn sources(group: &ProtocolGroup, query: &Query<'_>) -> impl Iterator<Item = SourceKind> + use<> {
    let is_tcp = matches!(group.kind, Kind::Inet(Protocol::Tcp, _));
    let tcp_of_both = is_tcp && query.families == Families::BOTH;
    let is_walked = group.walk().is_some();
    let everywhere = matches!(query.scope, NetnsScope::All);
    let (walk, one_pass, v2, procfs) = match query.choice {
        _ if everywhere => (is_walked, false, false, false),
        Choice::Auto => (is_walked, tcp_of_both, true, true),
        Choice::Bpf => (is_walked, false, false, false),
        Choice::Diag => (false, tcp_of_both, true, false),
        Choice::DiagV2 => (false, false, true, false),
        Choice::Procfs => (false, false, false, true),
    };
    [
        (walk, SourceKind::Walk),
        (one_pass, SourceKind::OnePass),
        (v2, SourceKind::DiagV2),
        (procfs, SourceKind::Procfs),
    ]
    .into_iter()
    .filter_map(|(allowed, source)| allowed.then_some(source))
}

/// Whether the query probably selects few of many sockets: the kernel skips the others by a program, a port or their
/// states in less time than our BPF programs take to load.
fn is_narrow(query: &Query<'_>) -> bool {
    !query.program.is_empty()
        || query.ends.only_ports() != (0, 0)
        || !query.states.contains(State::Established)
}

/// With fewer sockets a dump ends before the program is loaded.
const WORTH_A_WALK: u64 = 8_000;
/// The same where the program is loaded in 70 ms: the walk gains 0.9 us a socket.
const WORTH_A_SLOW_START: u64 = 80_000;

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
