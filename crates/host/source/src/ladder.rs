//! The ladder of sources: the best source that works, and why not a better one.

use crate::bpf::{self, BpfEngine, Selection, WalkStats};
use crate::dump::{self, Dump, DumpStatus};
use crate::outcome::{DumpContext, Error, KernelVerdict, ProtocolSource, QueryOutcome, Reason, SourceKind};
use crate::procfs;
use crate::query::{Choice, Detail, End, Families, NetnsScope, Query};
use crate::repeat::{self, Ending, Seen};
use crate::split_dump;
use crate::walk::{self, Walk};
use rustix::io::Errno;
use sockeye_model::{Family, Pid, Protocol, ProtocolSet, Socket, State, StateSet};
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::inet_diag::{self, InetDiag, SOCK_DIAG_BY_FAMILY, TCPDIAG_GETSOCK, attribute};
use sockeye_wire::netlink::Message;
use sockeye_wire::netlink_diag::{self, NetlinkDiag};
use sockeye_wire::packet_diag::{self, PacketDiag};
use sockeye_wire::unix_diag::{self, UnixDiag};
use std::ops::ControlFlow;

/// Hands every socket that `query` asks for to `take`, each once, with whether the kernel ran the
/// query's program over it, until `take` breaks off.
///
/// A protocol that no source can list does not end the others' listing: its entry in [`QueryOutcome::used`] says
/// why, and it is counted as a loss, unless kernels may lack it (MPTCP, UDP-Lite).
///
/// # Errors
/// When the namespace cannot be entered, or nothing at all of what is asked for can be listed.
pub fn list(
    engine: &BpfEngine,
    query: &Query<'_>,
    take: &mut dyn FnMut(&Socket, KernelVerdict) -> ControlFlow<()>,
) -> Result<QueryOutcome, Error> {
    list_with_message(engine, query, &mut |socket, context| {
        take(socket, context.kernel_verdict)
    })
}

/// As [`list`], with what the kernel said of each socket beside it.
///
/// # Errors
/// As [`list`].
pub fn list_with_message(
    engine: &BpfEngine,
    query: &Query<'_>,
    take: &mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>,
) -> Result<QueryOutcome, Error> {
    let everywhere = matches!(query.scope, NetnsScope::All);
    let query = &hashed(query);
    let mut fallback = Fallback {
        engine,
        query,
        take,
        outcome: QueryOutcome::default(),
        sequence: 0,
    };
    if everywhere {
        fallback.held();
    }
    for listing in LISTINGS {
        // What one pass has told already, or not.
        if everywhere && listing.kind.walk().is_none() {
            continue;
        }
        if query.protocols.intersects(listing.protocols) && !fallback.outcome.stopped {
            fallback.listing(listing)?;
        }
    }
    let QueryOutcome { used, losses, .. } = &fallback.outcome;
    if !everywhere && losses.unlisted_protocols > 0 && used.iter().all(|used| used.source.is_none()) {
        return Err(Error::NoSource(fallback.outcome.used));
    }
    Ok(fallback.outcome)
}

/// The same query, without a state in which nothing is to be found: of TCP alone, unconnected sockets are in no table
/// of the kernel's, but a dump that asks for them goes through the table of all connections.
fn hashed<'a>(query: &Query<'a>) -> Query<'a> {
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

/// Whether `source` works, or why not.
pub(crate) fn try_rung(
    engine: &BpfEngine,
    listing: &Listing,
    source: SourceKind,
    query: &Query<'_>,
) -> Result<(), Reason> {
    if source == SourceKind::Procfs {
        // Reading it to its end costs as much with many sockets as listing them.
        return tables(listing.kind, query)?
            .iter()
            .take(1)
            .try_for_each(|&table| {
                procfs::open(table)
                    .map(drop)
                    .map_err(|errno| Reason::File("open", table.path(), errno))
            });
    }
    let mut fallback = Fallback {
        engine,
        query,
        take: &mut |_, _| ControlFlow::Continue(()),
        outcome: QueryOutcome::default(),
        sequence: 0,
    };
    let outcome = match source {
        SourceKind::Walk => fallback.walk(listing),
        _ => fallback.netlink_rung(listing, source),
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

/// Protocols that the kernel lists together.
pub(crate) struct Listing {
    pub(crate) what: &'static str,
    protocols: ProtocolSet,
    kind: Kind,
    /// Kernels may lack it.
    optional: bool,
}

impl Listing {
    /// No source has answered yet.
    const fn unanswered(&self) -> ProtocolSource {
        ProtocolSource {
            what: self.what,
            optional: self.optional,
            source: None,
            not_used: Vec::new(),
            ended_early: None,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Protocol number for `sock_diag`
    Inet(Protocol, u16),
    Unix,
    Packet,
    Netlink,
}

impl Kind {
    /// The walk over its tables, if there is one.
    const fn walk(self) -> Option<Walk> {
        match self {
            Self::Inet(Protocol::Tcp, _) => Some(Walk::Tcp),
            Self::Inet(Protocol::Udp, _) => Some(Walk::Udp),
            _ => None,
        }
    }
}

pub(crate) const LISTINGS: &[Listing] = &[
    Listing {
        what: "netlink",
        protocols: ProtocolSet::of(&[Protocol::Netlink]),
        kind: Kind::Netlink,
        optional: false,
    },
    Listing {
        what: "packet",
        protocols: ProtocolSet::PACKET,
        kind: Kind::Packet,
        optional: false,
    },
    Listing {
        what: "unix",
        protocols: ProtocolSet::UNIX,
        kind: Kind::Unix,
        optional: false,
    },
    Listing {
        what: "raw",
        protocols: ProtocolSet::of(&[Protocol::Raw]),
        kind: Kind::Inet(Protocol::Raw, 255),
        optional: false,
    },
    Listing {
        what: "udp",
        protocols: ProtocolSet::of(&[Protocol::Udp]),
        kind: Kind::Inet(Protocol::Udp, 17),
        optional: false,
    },
    Listing {
        what: "udplite",
        protocols: ProtocolSet::of(&[Protocol::UdpLite]),
        kind: Kind::Inet(Protocol::UdpLite, 136),
        optional: true,
    },
    Listing {
        what: "mptcp",
        protocols: ProtocolSet::of(&[Protocol::Mptcp]),
        kind: Kind::Inet(Protocol::Mptcp, 262),
        optional: true,
    },
    Listing {
        what: "tcp",
        protocols: ProtocolSet::of(&[Protocol::Tcp]),
        kind: Kind::Inet(Protocol::Tcp, 6),
        optional: false,
    },
];

struct Fallback<'a> {
    engine: &'a BpfEngine,
    query: &'a Query<'a>,
    take: &'a mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>,
    outcome: QueryOutcome,
    sequence: u32,
}

/// Why a source did not outcome. Nothing was handed out then.
enum Failure {
    /// The next source may do better.
    Source(Reason),
    /// No source can.
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

/// How a source answered: to the end, or why not.
type Outcome = Option<Reason>;

impl Fallback<'_> {
    fn listing(&mut self, listing: &Listing) -> Result<(), Error> {
        let mut used = listing.unanswered();
        for source in sources(listing, self.query) {
            let outcome = match source {
                SourceKind::Walk => self.walk(listing),
                SourceKind::Descriptors => Err(Reason::NoTable.into()), // see `held`: it is no source of one protocol
                SourceKind::OnePass | SourceKind::DiagV2 => self.netlink_rung(listing, source),
                SourceKind::Procfs => self.procfs(listing),
            };
            match outcome {
                Ok(ended_early) => {
                    (used.source, used.ended_early) = (Some(source), ended_early);
                    break;
                }
                Err(Failure::Source(reason)) => used.not_used.push((source, reason)),
                // What is not to be entered may still be read from outside.
                Err(Failure::Namespace(Error::Namespace(_, errno)))
                    if source != SourceKind::Procfs && self.process().is_some() =>
                {
                    used.not_used
                        .push((source, Reason::System("enter the namespace", errno)));
                }
                Err(Failure::Namespace(error)) => return Err(error),
            }
        }
        // Of all places at once it is no loss: whoever asked goes from place to place then.
        let is_lost =
            used.source.is_none() && !listing.optional && !matches!(self.query.scope, NetnsScope::All);
        self.outcome.losses.unlisted_protocols += u64::from(is_lost);
        self.outcome.used.push(used);
        Ok(())
    }

    /// Lists what the descriptors of all processes lead to: every protocol that has no walk in one pass.
    fn held(&mut self) {
        let query = self.query;
        let wanted: Vec<_> = LISTINGS
            .iter()
            .filter(|listing| query.protocols.intersects(listing.protocols) && listing.kind.walk().is_none())
            .collect();
        if wanted.is_empty() {
            return;
        }
        let mut walked = WalkStats::default();
        let take = &mut *self.take;
        let request = Selection {
            protocols: query
                .protocols
                .retain(|one| wanted.iter().any(|listing| listing.protocols.contains(one))),
            families: query.families,
            states: query.states,
            detail: query.detail,
            netns: None,
        };
        let outcome = self.engine.owned_sockets(&request, &mut walked, &mut |socket| {
            take(socket, DumpContext::only(SourceKind::Descriptors))
        });
        // One pass may break off, of however many protocols.
        let outcome = self.walked(&walked, outcome);
        for listing in wanted {
            let mut used = listing.unanswered();
            match &outcome {
                Ok(ended_early) => {
                    (used.source, used.ended_early) = (Some(SourceKind::Descriptors), ended_early.clone())
                }
                Err(reason) => used.not_used.push((SourceKind::Descriptors, reason.clone())),
            }
            self.outcome.used.push(used);
        }
    }

    /// A process in the place that is looked into.
    fn process(&self) -> Option<Pid> {
        match self.query.scope {
            NetnsScope::One(netns) => netns.process,
            NetnsScope::Own | NetnsScope::All => None,
        }
    }

    /// Walks over the tables of TCP or UDP, if that tells what is asked for.
    fn walk(&mut self, listing: &Listing) -> Result<Outcome, Failure> {
        let query = self.query;
        let walk = listing.kind.walk().ok_or(Reason::NoTable)?;
        let in_use = match walk {
            Walk::Tcp => split_dump::tcp_sockets_in_use,
            Walk::Udp => split_dump::udp_sockets_in_use,
        };
        if let Some(what) = walk::unsupported(query) {
            return Err(Reason::NotReported(what).into());
        }
        let is_auto = query.choice == Choice::Auto && !matches!(query.scope, NetnsScope::All);
        if is_auto && is_narrow(query) {
            return Err(Reason::NarrowQuery.into());
        }
        if is_auto && let Some(few) = query.inside(in_use)?.filter(|count| *count < WORTH_A_WALK) {
            return Err(Reason::FewSockets(few).into());
        }
        let mut walked = WalkStats::default();
        let take = &mut *self.take;
        let outcome = walk::walk(self.engine, walk, query, &mut walked, &mut |socket, message| {
            let context = DumpContext {
                message,
                ..DumpContext::only(SourceKind::Walk)
            };
            take(socket, context)
        })?;
        Ok(self.walked(&walked, outcome)?)
    }

    /// Takes note of what BPF said; whoever was told of sockets already can go to no other source.
    fn walked(
        &mut self,
        walked: &WalkStats,
        outcome: Result<(), bpf::Unavailable>,
    ) -> Result<Outcome, Reason> {
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

    fn netlink_rung(&mut self, listing: &Listing, source: SourceKind) -> Result<Outcome, Failure> {
        match source {
            SourceKind::OnePass => self.netlink(listing, source, AF_UNSPEC),
            _ => self.each_family(listing),
        }
    }

    /// `sock_diag` v2 is asked for one family of IP at a time.
    fn each_family(&mut self, listing: &Listing) -> Result<Outcome, Failure> {
        let families = match listing.kind {
            Kind::Inet(..) => {
                let Families { v4, v6 } = self.query.families;
                [v4.then_some(AF_INET), v6.then_some(AF_INET6)]
            }
            _ => [Some(AF_UNSPEC), None],
        };
        let (mut listed, mut ended_early) = (false, None);
        for family in families.into_iter().flatten() {
            match self.netlink(listing, SourceKind::DiagV2, family) {
                Ok(outcome) => ended_early = ended_early.or(outcome),
                // The first half is out and must not be listed twice. A kernel without IPv6 has no second
                // one; whatever else went wrong is a loss.
                Err(Failure::Source(reason)) if listed => {
                    if !reason.is_absence() {
                        self.outcome.losses.incomplete_dumps += 1;
                        ended_early = ended_early.or(Some(reason));
                    }
                }
                Err(unavailable) => return Err(unavailable),
            }
            if self.outcome.stopped {
                break;
            }
            listed = true;
        }
        Ok(ended_early)
    }

    /// Lists by netlink. What the kernel refuses is asked again more simply: not in halves, and without a
    /// program; then we judge each socket ourselves. Marks in a program need CAP_NET_ADMIN, old kernels
    /// know fewer instructions, and a program may be longer than a message can be.
    fn netlink(&mut self, listing: &Listing, source: SourceKind, family: u8) -> Result<Outcome, Failure> {
        let program = match listing.kind {
            Kind::Inet(..) => self.query.program,
            _ => &[],
        };
        // Where few are wanted, two walks of the kernel's would only stand in each other's way.
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
                .map(|program| request(listing.kind, source, family, self.query, program, self.sequence))
                .collect();
            let Some(requests) = requests else { continue };
            // Halves alone judge nothing.
            let kernel_verdict = if program.is_empty() || programs.iter().any(Vec::is_empty) {
                KernelVerdict::NotRun
            } else {
                KernelVerdict::Passed
            };
            match self.dump(listing, source, &requests, kernel_verdict) {
                Err(Failure::Source(reason @ Reason::Refused(..))) => refusal = Some(reason),
                outcome => return outcome,
            }
        }
        refusal.map_or(Ok(None), |reason| Err(reason.into()))
    }

    /// Puts the requests all at once, and again as long as the kernel interrupts the dump.
    fn dump(
        &mut self,
        listing: &Listing,
        source: SourceKind,
        requests: &[Vec<u8>],
        kernel_verdict: KernelVerdict,
    ) -> Result<Outcome, Failure> {
        let query = self.query;
        let netns = query.scope.inode();
        // The kernel tells of a NETLINK socket twice if it is a member of a group (seen on Linux 6.18).
        let mut seen = match listing.kind {
            Kind::Netlink if !query.detail.contains(Detail::REPEATS) => Seen::with_repeats(),
            _ => Seen::default(),
        };
        let heads_only = query.detail.is_in_heads();
        let mut broken = 0;
        let mut place = Socket::new(Protocol::Tcp, State::Close);
        let mut unreachable = None;
        let ending = repeat::until_complete(&mut seen, &mut self.outcome.losses, |seen| {
            let opened = query.inside(|| requests.iter().map(|_| DiagSocket::open()).collect());
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
                match decode(message, listing.kind, heads_only, &mut place) {
                    None => return ControlFlow::Continue(()),
                    Some(Ok(())) => {}
                    Some(Err(_)) => {
                        broken += 1;
                        return ControlFlow::Continue(());
                    }
                }
                if !wanted(&place, query) || !seen.insert(&place) {
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

    fn procfs(&mut self, listing: &Listing) -> Result<Outcome, Failure> {
        let query = self.query;
        let netns = query.scope.inode();
        let only_listeners = query.states == StateSet::EMPTY.with(State::Listen);
        let (mut listed, mut ended_early) = (false, None);
        for &table in tables(listing.kind, query)? {
            let opened = match (query.inside(|| procfs::open(table)), self.process()) {
                (Err(Error::Namespace(..)), Some(process)) => Ok(procfs::open_of(table, process)),
                (opened, _) => opened,
            };
            let file = match opened? {
                Ok(file) => file,
                // A kernel without IPv6 lacks its table; the other one stands.
                Err(Errno::NOENT) if listed => continue,
                Err(errno) => return Err(Reason::File("open", table.path(), errno).into()),
            };
            let take = &mut *self.take;
            let read = procfs::read(&file, table, only_listeners, &mut |mut socket| {
                if !wanted(&socket, query) {
                    return ControlFlow::Continue(());
                }
                listed = true;
                socket.netns = netns;
                take(&socket, DumpContext::only(SourceKind::Procfs))
            });
            match read {
                Ok(status) => {
                    self.outcome.losses.broken_records += status.broken;
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

/// The files of procfs that list these sockets.
fn tables(kind: Kind, query: &Query<'_>) -> Result<&'static [procfs::Table], Reason> {
    let tables = match kind {
        Kind::Inet(protocol, _) => procfs::Table::inet(protocol, query.families),
        Kind::Unix => &[procfs::Table::Unix],
        Kind::Packet => &[procfs::Table::Packet],
        Kind::Netlink => &[procfs::Table::Netlink],
    };
    if tables.is_empty() {
        Err(Reason::NoTable)
    } else {
        Ok(tables)
    }
}

/// The sources to try for `listing`, best first.
pub(crate) fn sources(listing: &Listing, query: &Query<'_>) -> impl Iterator<Item = SourceKind> + use<> {
    let is_tcp = matches!(listing.kind, Kind::Inet(Protocol::Tcp, _));
    let tcp_of_both = is_tcp && query.families == Families::BOTH;
    let is_walked = listing.kind.walk().is_some();
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

fn request(
    kind: Kind,
    source: SourceKind,
    family: u8,
    query: &Query<'_>,
    bytecode: &[u8],
    sequence: u32,
) -> Option<Vec<u8>> {
    let detail = query.detail;
    match kind {
        Kind::Inet(_, protocol) => {
            let request = inet_diag::Query {
                states: query.states.bits(),
                extensions: extensions(detail),
                ports: (only_port(query.ends.local), only_port(query.ends.peer)),
                bytecode,
            };
            match source {
                SourceKind::OnePass => request.one_pass(sequence),
                _ => request.v2(family, protocol, sequence),
            }
        }
        Kind::Unix => {
            use unix_diag::show::{ICONS, MEMINFO, NAME, PEER, RQLEN, UID, VFS};
            let memory = bits_if(detail.contains(Detail::MEMORY), MEMINFO);
            let diag_details = bits_if(detail.contains(Detail::DIAG_DETAILS), VFS | ICONS);
            let request = unix_diag::Query {
                states: query.states.bits(),
                show: NAME | PEER | RQLEN | UID | memory | diag_details,
            };
            Some(request.dump(sequence))
        }
        // The queues of these are told as part of their memory.
        Kind::Packet => {
            use packet_diag::show::{FANOUT, FILTER, INFO, MEMINFO, RING_CFG};
            let diag_details = bits_if(detail.contains(Detail::DIAG_DETAILS), RING_CFG | FANOUT | FILTER);
            Some(packet_diag::dump(INFO | MEMINFO | diag_details, sequence))
        }
        Kind::Netlink => {
            use netlink_diag::show::{GROUPS, MEMINFO};
            let show = MEMINFO | bits_if(detail.contains(Detail::DIAG_DETAILS), GROUPS);
            Some(netlink_diag::dump(netlink_diag::PROTOCOL_ALL, show, sequence))
        }
    }
}

fn bits_if(condition: bool, bits: u32) -> u32 {
    if condition { bits } else { 0 }
}

pub(crate) fn extensions(detail: Detail) -> u8 {
    let mut bits = 0;
    if detail.contains(Detail::TCP_INFO) {
        bits |= attribute::extension(attribute::INFO);
    }
    if detail.intersects(Detail::TCP_INFO | Detail::CONGESTION) {
        bits |= attribute::extension(attribute::CONG) | attribute::extension(attribute::VEGASINFO);
    }
    if detail.contains(Detail::MEMORY) {
        bits |= attribute::extension(attribute::MEMINFO) | attribute::extension(attribute::SKMEMINFO);
    }
    if detail.contains(Detail::SERVICE_CLASS) {
        bits |= attribute::extension(attribute::TOS) | attribute::extension(attribute::TCLASS);
    }
    bits
}

/// Reads the socket in `message` into `socket`; `None` if it holds none.
#[inline]
fn decode(
    message: &Message<'_>,
    kind: Kind,
    heads_only: bool,
    socket: &mut Socket,
) -> Option<Result<(), sockeye_wire::Error>> {
    if message.kind != TCPDIAG_GETSOCK && message.kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let payload = message.payload;
    let read = match kind {
        // In place: of these there may be very many.
        Kind::Inet(protocol, _) => {
            return Some(InetDiag::parse(payload).and_then(|wire| {
                socket.read_inet_diag_head(&wire, protocol);
                // Whether it takes IPv4 too is told behind the head.
                let is_v6_wildcard = socket.family == Family::Inet6
                    && matches!(socket.state, State::Listen | State::Close | State::BoundInactive);
                if heads_only && !is_v6_wildcard {
                    Ok(())
                } else {
                    socket.read_inet_diag_attributes(&wire)
                }
            }));
        }
        Kind::Unix => UnixDiag::parse(payload).and_then(|wire| Socket::from_unix_diag(&wire)),
        Kind::Packet => PacketDiag::parse(payload).and_then(|wire| Socket::from_packet_diag(&wire)),
        Kind::Netlink => NetlinkDiag::parse(payload).and_then(|wire| Socket::from_netlink_diag(&wire)),
    };
    Some(read.map(|read| *socket = read))
}

/// Whether the query wants it: some sources tell of more than they were asked for.
#[inline]
fn wanted(socket: &Socket, query: &Query<'_>) -> bool {
    query.states.contains(socket.state)
        // A type without a name can only be of a family that was asked for.
        && (query.protocols.contains(socket.protocol) || matches!(socket.protocol, Protocol::Unknown(_)))
        && match socket.family {
            Family::Inet => query.families.v4,
            Family::Inet6 => query.families.v6,
            _ => true,
        }
}

/// Whether few sockets are likely to be wanted of many: the kernel passes over the others by a program, by a port, or by
/// their states, in less time than our own programs take to load.
fn is_narrow(query: &Query<'_>) -> bool {
    !query.program.is_empty()
        || only_port(query.ends.local) != 0
        || only_port(query.ends.peer) != 0
        || !query.states.contains(State::Established)
}

/// The port of an end that can have but one; 0 where it may be any.
fn only_port(end: End) -> u16 {
    if end.port_min == end.port_max {
        end.port_min
    } else {
        0
    }
}

/// With fewer sockets a dump is over before the program is loaded.
const WORTH_A_WALK: u64 = 8_000;

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
