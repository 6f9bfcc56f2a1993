//! The ladder of sources: finds the best source that works, and records why a better one does not.

use crate::Detail;
use crate::bpf::{self, BpfEngine, Selection, WalkStats};
use crate::dump::{self, Dump, DumpStatus};
use crate::outcome::{DumpContext, Error, KernelVerdict, ProtocolSource, QueryOutcome, Reason, SourceKind};
use crate::procfs;
use crate::query::{Choice, End, Families, NetnsScope, Query};
use crate::repeat::{self, Ending, Seen};
use crate::split_dump;
use crate::walk::{self, Walk};
use rustix::io::Errno;
use sockeye_model::{Family, Pid, Protocol, ProtocolSet, Socket, State, StateSet};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::inet_diag::{self, InetDiag, SOCK_DIAG_BY_FAMILY, TCPDIAG_GETSOCK, attribute};
use sockeye_wire::netlink::Message;
use sockeye_wire::netlink_diag::{self, NetlinkDiag};
use sockeye_wire::packet_diag::{self, PacketDiag};
use sockeye_wire::unix_diag::{self, UnixDiag};
use std::ops::ControlFlow;

/// Passes every socket that `query` selects to `take`, each once, until `take` breaks.
///
/// A protocol that no source can list does not end the listing: its entry in [`QueryOutcome::used`] has the reason,
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
    let everywhere = matches!(query.scope, NetnsScope::All);
    let query = &without_unhashed(query);
    let mut fallback = Fallback {
        engine,
        query,
        take,
        outcome: QueryOutcome::default(),
        sequence: 0,
    };
    if everywhere {
        fallback.owned_sockets();
    }
    for listing in LISTINGS {
        // The pass over descriptors covers them.
        if everywhere && listing.kind.walk().is_none() {
            continue;
        }
        if query.protocols.intersects(listing.protocols) && !fallback.outcome.stopped {
            fallback.list_protocols(listing)?;
        }
    }
    let QueryOutcome { used, losses, .. } = &fallback.outcome;
    if !everywhere && losses.unlisted_protocols > 0 && used.iter().all(|used| used.source.is_none()) {
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

/// Tests whether `source` works, without listing.
pub(crate) fn try_source(
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
        _ => fallback.by_netlink(listing, source),
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

/// A group of protocols that the kernel lists together.
pub(crate) struct Listing {
    pub(crate) what: &'static str,
    protocols: ProtocolSet,
    kind: Kind,
    /// Whether a kernel may lack it.
    optional: bool,
}

impl Listing {
    /// The report of a protocol before any source was tried.
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
    /// The BPF walk over its tables; `None` if there is none.
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
    fn list_protocols(&mut self, listing: &Listing) -> Result<(), Error> {
        let mut used = listing.unanswered();
        for source in sources(listing, self.query) {
            let outcome = match source {
                SourceKind::Walk => self.walk(listing),
                SourceKind::Descriptors => Err(Reason::NoTable.into()), // it covers several protocols: see `owned_sockets`
                SourceKind::OnePass | SourceKind::DiagV2 => self.by_netlink(listing, source),
                SourceKind::Procfs => self.procfs(listing),
            };
            match outcome {
                Ok(ended_early) => {
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
            used.source.is_none() && !listing.optional && !matches!(self.query.scope, NetnsScope::All);
        self.outcome.losses.unlisted_protocols += u64::from(is_lost);
        self.outcome.used.push(used);
        Ok(())
    }

    /// Lists the sockets that processes have descriptors of: every protocol without a walk, in one pass.
    fn owned_sockets(&mut self) {
        let query = self.query;
        let listings: Vec<_> = LISTINGS
            .iter()
            .filter(|listing| query.protocols.intersects(listing.protocols) && listing.kind.walk().is_none())
            .collect();
        if listings.is_empty() {
            return;
        }
        let mut walked = WalkStats::default();
        let take = &mut *self.take;
        let selection = Selection {
            protocols: query
                .protocols
                .retain(|one| listings.iter().any(|listing| listing.protocols.contains(one))),
            families: query.families,
            states: query.states,
            detail: query.detail,
            netns: None,
        };
        let outcome = self.engine.owned_sockets(&selection, &mut walked, &mut |socket| {
            take(socket, DumpContext::only(SourceKind::Descriptors))
        });
        // An incomplete pass counts once, for all its protocols.
        let outcome = self.add_walk(&walked, outcome);
        for listing in listings {
            let mut used = listing.unanswered();
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
    fn walk(&mut self, listing: &Listing) -> Result<EndedEarly, Failure> {
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
        Ok(self.add_walk(&walked, outcome)?)
    }

    /// Adds up the result of a BPF source. After the first socket there is no fallback to another source.
    fn add_walk(
        &mut self,
        walked: &WalkStats,
        outcome: Result<(), bpf::Unavailable>,
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

    fn by_netlink(&mut self, listing: &Listing, source: SourceKind) -> Result<EndedEarly, Failure> {
        match source {
            SourceKind::OnePass => self.netlink(listing, source, AF_UNSPEC),
            _ => self.each_family(listing),
        }
    }

    /// Lists by `sock_diag` v2, one address family at a time.
    fn each_family(&mut self, listing: &Listing) -> Result<EndedEarly, Failure> {
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
    fn netlink(&mut self, listing: &Listing, source: SourceKind, family: u8) -> Result<EndedEarly, Failure> {
        let program = match listing.kind {
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
                .map(|program| request(listing.kind, source, family, self.query, program, self.sequence))
                .collect();
            let Some(requests) = requests else { continue };
            // The programs of the halves filter nothing.
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

    /// Sends all requests at once, and again while the kernel reports the dump as interrupted.
    fn dump(
        &mut self,
        listing: &Listing,
        source: SourceKind,
        requests: &[Vec<u8>],
        kernel_verdict: KernelVerdict,
    ) -> Result<EndedEarly, Failure> {
        let query = self.query;
        let netns = query.scope.inode();
        // The kernel reports a NETLINK socket twice if it is a member of a group (seen on Linux 6.18).
        let mut seen = match listing.kind {
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
                match decode(message, listing.kind, heads_only, &mut place) {
                    None => return ControlFlow::Continue(()),
                    Some(Ok(())) => {}
                    Some(Err(_)) => {
                        broken += 1;
                        return ControlFlow::Continue(());
                    }
                }
                if !matches(&place, query) || !seen.insert(&place) {
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

    fn procfs(&mut self, listing: &Listing) -> Result<EndedEarly, Failure> {
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
                // A kernel without IPv6 lacks the second table.
                Err(Errno::NOENT) if listed => continue,
                Err(errno) => return Err(Reason::File("open", table.path(), errno).into()),
            };
            let take = &mut *self.take;
            let read = procfs::read(&file, table, only_listeners, &mut |mut socket| {
                if !matches(&socket, query) {
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

/// The files of `/proc/net` that list these sockets.
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

/// Returns the sources to try for `listing`, best first.
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
        // The queues of PACKET and NETLINK sockets are part of their memory.
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

/// Reads the socket in `message` into `socket`; `None` if the message is not about a socket.
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
        // In place: there may be very many of these.
        Kind::Inet(protocol, _) => {
            return Some(InetDiag::parse(payload).and_then(|wire| {
                socket.read_inet_diag_head(&wire, protocol);
                // Whether it accepts IPv4 too is in the attributes.
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

/// Whether the query selects the socket: some sources return more than was asked for.
#[inline]
fn matches(socket: &Socket, query: &Query<'_>) -> bool {
    query.states.contains(socket.state)
        // A type without a name can only belong to a family of the query.
        && (query.protocols.contains(socket.protocol) || matches!(socket.protocol, Protocol::Unknown(_)))
        && match socket.family {
            Family::Inet => query.families.v4,
            Family::Inet6 => query.families.v6,
            _ => true,
        }
}

/// Whether the query probably selects few of many sockets: the kernel skips the others by a program, a port or their
/// states in less time than our BPF programs take to load.
fn is_narrow(query: &Query<'_>) -> bool {
    !query.program.is_empty()
        || only_port(query.ends.local) != 0
        || only_port(query.ends.peer) != 0
        || !query.states.contains(State::Established)
}

/// The port of an endpoint that allows one port only; 0 if it allows several.
fn only_port(end: End) -> u16 {
    if end.port_min == end.port_max {
        end.port_min
    } else {
        0
    }
}

/// With fewer sockets a dump ends before the program is loaded.
const WORTH_A_WALK: u64 = 8_000;

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
