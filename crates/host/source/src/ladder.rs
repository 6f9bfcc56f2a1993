//! The ladder of sources: the best rung that works, and why not a better one.

use crate::answer::{Along, Answer, Error, Judged, Reason, Rung, Used};
use crate::bpf::{self, Engine, Walked, Wanted};
use crate::dump::{self, Course, Dump};
use crate::halves;
use crate::procfs;
use crate::question::{Choice, Detail, End, Families, Question, Where};
use crate::repeat::{self, Ending, Seen};
use crate::walk::{self, Walk};
use rustix::io::Errno;
use sockeye_model::{Family, Pid, Protocol, ProtocolSet, Socket, State, StateSet};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::inet_diag::{InetDiag, Query, SOCK_DIAG_BY_FAMILY, TCPDIAG_GETSOCK, attribute};
use sockeye_wire::netlink::Message;
use sockeye_wire::netlink_diag::{self, NetlinkDiag};
use sockeye_wire::packet_diag::{self, PacketDiag};
use sockeye_wire::unix_diag::{self, UnixDiag};
use std::ops::ControlFlow;

/// Hands every socket that `question` asks for to `take`, each once, with whether the kernel ran the
/// question's program over it, until `take` breaks off.
///
/// A protocol that no rung can list does not end the others' listing: its entry in [`Answer::used`] says
/// why, and it is counted as a loss, unless kernels may lack it (MPTCP, UDP-Lite).
///
/// # Errors
/// When the namespace cannot be entered, or nothing at all of what is asked for can be listed.
pub fn list(
    engine: &Engine,
    question: &Question<'_>,
    take: &mut dyn FnMut(&Socket, Judged) -> ControlFlow<()>,
) -> Result<Answer, Error> {
    list_along(engine, question, &mut |socket, along| take(socket, along.judged))
}

/// As [`list`], with what the kernel said of each socket beside it.
///
/// # Errors
/// As [`list`].
pub fn list_along(
    engine: &Engine,
    question: &Question<'_>,
    take: &mut dyn FnMut(&Socket, Along<'_>) -> ControlFlow<()>,
) -> Result<Answer, Error> {
    let everywhere = matches!(question.place, Where::Everywhere);
    let question = &hashed(question);
    let mut climb = Climb {
        engine,
        question,
        take,
        answer: Answer::default(),
        sequence: 0,
    };
    if everywhere {
        climb.held();
    }
    for listing in LISTINGS {
        // What one pass has told already, or not.
        if everywhere && listing.kind.walk().is_none() {
            continue;
        }
        if question.protocols.intersects(listing.protocols) && !climb.answer.stopped {
            climb.listing(listing)?;
        }
    }
    let Answer { used, losses, .. } = &climb.answer;
    if !everywhere && losses.unlisted_protocols > 0 && used.iter().all(|used| used.rung.is_none()) {
        return Err(Error::NoSource(climb.answer.used));
    }
    Ok(climb.answer)
}

/// The same question, without a state in which nothing is to be found: of TCP alone, unconnected sockets are in no table
/// of the kernel's, but a dump that asks for them goes through the table of all connections.
fn hashed<'a>(question: &Question<'a>) -> Question<'a> {
    let is_tcp_alone = question.protocols == ProtocolSet::of(&[Protocol::Tcp]);
    let states = question.states.without(State::Close);
    Question {
        states: if is_tcp_alone && !states.is_empty() {
            states
        } else {
            question.states
        },
        ..question.clone()
    }
}

/// Whether `rung` works, or why not.
pub(crate) fn try_rung(
    engine: &Engine,
    listing: &Listing,
    rung: Rung,
    question: &Question<'_>,
) -> Result<(), Reason> {
    if rung == Rung::Procfs {
        // Reading it to its end costs as much with many sockets as listing them.
        return tables(listing.kind, question)?
            .iter()
            .take(1)
            .try_for_each(|&table| {
                procfs::open(table)
                    .map(drop)
                    .map_err(|errno| Reason::File("open", table.path(), errno))
            });
    }
    let mut climb = Climb {
        engine,
        question,
        take: &mut |_, _| ControlFlow::Continue(()),
        answer: Answer::default(),
        sequence: 0,
    };
    let outcome = match rung {
        Rung::Walk => climb.walk(listing),
        _ => climb.netlink_rung(listing, rung),
    };
    match outcome {
        Ok(_) => Ok(()),
        Err(Obstacle::Rung(reason)) => Err(reason),
        Err(Obstacle::Place(Error::Namespace(_, errno))) => Err(Reason::System("enter the namespace", errno)),
        Err(Obstacle::Place(Error::NoSource(_))) => Err(Reason::NoTable),
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
    /// No rung has answered yet.
    const fn unanswered(&self) -> Used {
        Used {
            what: self.what,
            optional: self.optional,
            rung: None,
            fallen: Vec::new(),
            broke_off: None,
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

struct Climb<'a> {
    engine: &'a Engine,
    question: &'a Question<'a>,
    take: &'a mut dyn FnMut(&Socket, Along<'_>) -> ControlFlow<()>,
    answer: Answer,
    sequence: u32,
}

/// Why a rung did not answer. Nothing was handed out then.
enum Obstacle {
    /// The next rung may do better.
    Rung(Reason),
    /// No rung can.
    Place(Error),
}

impl From<Reason> for Obstacle {
    fn from(reason: Reason) -> Self {
        Self::Rung(reason)
    }
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self::Place(error)
    }
}

/// How a rung answered: to the end, or why not.
type Outcome = Option<Reason>;

impl Climb<'_> {
    fn listing(&mut self, listing: &Listing) -> Result<(), Error> {
        let mut used = listing.unanswered();
        for rung in rungs(listing, self.question) {
            let outcome = match rung {
                Rung::Walk => self.walk(listing),
                Rung::Held => Err(Reason::NoTable.into()), // see `held`: it is no rung of one protocol
                Rung::OnePass | Rung::DiagV2 => self.netlink_rung(listing, rung),
                Rung::Procfs => self.procfs(listing),
            };
            match outcome {
                Ok(broke_off) => {
                    (used.rung, used.broke_off) = (Some(rung), broke_off);
                    break;
                }
                Err(Obstacle::Rung(reason)) => used.fallen.push((rung, reason)),
                // What is not to be entered may still be read from outside.
                Err(Obstacle::Place(Error::Namespace(_, errno)))
                    if rung != Rung::Procfs && self.process().is_some() =>
                {
                    used.fallen
                        .push((rung, Reason::System("enter the namespace", errno)));
                }
                Err(Obstacle::Place(error)) => return Err(error),
            }
        }
        // Of all places at once it is no loss: whoever asked goes from place to place then.
        let is_lost =
            used.rung.is_none() && !listing.optional && !matches!(self.question.place, Where::Everywhere);
        self.answer.losses.unlisted_protocols += u64::from(is_lost);
        self.answer.used.push(used);
        Ok(())
    }

    /// Lists what the descriptors of all processes lead to: every protocol that has no walk in one pass.
    fn held(&mut self) {
        let question = self.question;
        let wanted: Vec<_> = LISTINGS
            .iter()
            .filter(|listing| {
                question.protocols.intersects(listing.protocols) && listing.kind.walk().is_none()
            })
            .collect();
        if wanted.is_empty() {
            return;
        }
        let mut walked = Walked::default();
        let take = &mut *self.take;
        let request = Wanted {
            protocols: question
                .protocols
                .retain(|one| wanted.iter().any(|listing| listing.protocols.contains(one))),
            families: question.families,
            states: question.states,
            detail: question.detail,
            netns: None,
        };
        let outcome = self.engine.held_sockets(&request, &mut walked, &mut |socket| {
            take(socket, Along::only(Rung::Held))
        });
        // One pass may break off, of however many protocols.
        let outcome = self.walked(&walked, outcome);
        for listing in wanted {
            let mut used = listing.unanswered();
            match &outcome {
                Ok(broke_off) => (used.rung, used.broke_off) = (Some(Rung::Held), broke_off.clone()),
                Err(reason) => used.fallen.push((Rung::Held, reason.clone())),
            }
            self.answer.used.push(used);
        }
    }

    /// A process in the place that is looked into.
    fn process(&self) -> Option<Pid> {
        match self.question.place {
            Where::In(place) => place.process,
            Where::Here | Where::Everywhere => None,
        }
    }

    /// Walks over the tables of TCP or UDP, if that tells what is asked for.
    fn walk(&mut self, listing: &Listing) -> Result<Outcome, Obstacle> {
        let question = self.question;
        let walk = listing.kind.walk().ok_or(Reason::NoTable)?;
        let in_use = match walk {
            Walk::Tcp => halves::tcp_sockets_in_use,
            Walk::Udp => halves::udp_sockets_in_use,
        };
        if let Some(what) = walk::untold(question) {
            return Err(Reason::DoesNotTell(what).into());
        }
        let is_auto = question.choice == Choice::Auto && !matches!(question.place, Where::Everywhere);
        if is_auto && is_narrow(question) {
            return Err(Reason::FewWanted.into());
        }
        if is_auto && let Some(few) = question.inside(in_use)?.filter(|count| *count < WORTH_A_WALK) {
            return Err(Reason::FewSockets(few).into());
        }
        let mut walked = Walked::default();
        let take = &mut *self.take;
        let outcome = walk::walk(
            self.engine,
            walk,
            question,
            &mut walked,
            &mut |socket, message| {
                let along = Along {
                    message,
                    ..Along::only(Rung::Walk)
                };
                take(socket, along)
            },
        )?;
        Ok(self.walked(&walked, outcome)?)
    }

    /// Takes note of what BPF said; whoever was told of sockets already can go to no other rung.
    fn walked(&mut self, walked: &Walked, outcome: Result<(), bpf::Obstacle>) -> Result<Outcome, Reason> {
        self.answer.losses += walked.losses;
        self.answer.walked_again += walked.again;
        self.answer.stopped |= walked.stopped;
        let Err(obstacle) = outcome else { return Ok(None) };
        let reason = Reason::Bpf(Box::new(obstacle));
        if walked.told == 0 {
            return Err(reason);
        }
        self.answer.losses.incomplete_dumps += 1;
        Ok(Some(reason))
    }

    fn netlink_rung(&mut self, listing: &Listing, rung: Rung) -> Result<Outcome, Obstacle> {
        match rung {
            Rung::OnePass => self.netlink(listing, rung, AF_UNSPEC),
            _ => self.each_family(listing),
        }
    }

    /// `sock_diag` v2 is asked for one family of IP at a time.
    fn each_family(&mut self, listing: &Listing) -> Result<Outcome, Obstacle> {
        let families = match listing.kind {
            Kind::Inet(..) => {
                let Families { v4, v6 } = self.question.families;
                [v4.then_some(AF_INET), v6.then_some(AF_INET6)]
            }
            _ => [Some(AF_UNSPEC), None],
        };
        let (mut listed, mut broke_off) = (false, None);
        for family in families.into_iter().flatten() {
            match self.netlink(listing, Rung::DiagV2, family) {
                Ok(outcome) => broke_off = broke_off.or(outcome),
                // The first half is out and must not be listed twice. A kernel without IPv6 has no second
                // one; whatever else went wrong is a loss.
                Err(Obstacle::Rung(reason)) if listed => {
                    if !reason.is_absence() {
                        self.answer.losses.incomplete_dumps += 1;
                        broke_off = broke_off.or(Some(reason));
                    }
                }
                Err(obstacle) => return Err(obstacle),
            }
            if self.answer.stopped {
                break;
            }
            listed = true;
        }
        Ok(broke_off)
    }

    /// Lists by netlink. What the kernel refuses is asked again more simply: not in halves, and without a
    /// program; then we judge each socket ourselves. Marks in a program need CAP_NET_ADMIN, old kernels
    /// know fewer instructions, and a program may be longer than a message can be.
    fn netlink(&mut self, listing: &Listing, rung: Rung, family: u8) -> Result<Outcome, Obstacle> {
        let program = match listing.kind {
            Kind::Inet(..) => self.question.program,
            _ => &[],
        };
        // Where few are wanted, two walks of the kernel's would only stand in each other's way.
        let halves = if rung == Rung::OnePass && !is_narrow(self.question) {
            halves::programs(self.question, program)
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
                .map(|program| request(listing.kind, rung, family, self.question, program, self.sequence))
                .collect();
            let Some(requests) = requests else { continue };
            // Halves alone judge nothing.
            let judged = if program.is_empty() || programs.iter().any(Vec::is_empty) {
                Judged::No
            } else {
                Judged::ByKernel
            };
            match self.dump(listing, rung, &requests, judged) {
                Err(Obstacle::Rung(reason @ Reason::Refused(..))) => refusal = Some(reason),
                outcome => return outcome,
            }
        }
        refusal.map_or(Ok(None), |reason| Err(reason.into()))
    }

    /// Puts the requests all at once, and again as long as the kernel interrupts the dump.
    fn dump(
        &mut self,
        listing: &Listing,
        rung: Rung,
        requests: &[Vec<u8>],
        judged: Judged,
    ) -> Result<Outcome, Obstacle> {
        let question = self.question;
        let netns = question.place.inode();
        // The kernel tells of a NETLINK socket twice if it is a member of a group (seen on Linux 6.18).
        let mut seen = match listing.kind {
            Kind::Netlink if !question.detail.repeats => Seen::with_repeats(),
            _ => Seen::default(),
        };
        let heads_only = question.detail.is_in_heads();
        let mut broken = 0;
        let mut place = Socket::new(Protocol::Tcp, State::Close);
        let mut unreachable = None;
        let ending = repeat::until_complete(&mut seen, &mut self.answer.losses, |seen| {
            let opened = question.inside(|| requests.iter().map(|_| NetlinkSocket::open()).collect());
            let sockets: Result<Vec<_>, Errno> = opened.unwrap_or_else(|error| {
                unreachable = Some(error);
                Err(Errno::PERM)
            });
            let sockets = match sockets {
                Ok(sockets) => sockets,
                Err(errno) => return Course::failed(Reason::System("open a sock_diag socket", errno)),
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
                if !wanted(&place, question) || !seen.first_sight(&place) {
                    return ControlFlow::Continue(());
                }
                place.netns = netns;
                let message = Some(message.payload);
                (self.take)(
                    &place,
                    Along {
                        judged,
                        rung,
                        message,
                    },
                )
            })
        });
        self.answer.losses.broken_records += broken;
        if let Some(error) = unreachable {
            return Err(error.into());
        }
        match ending? {
            Ending::Complete | Ending::Interrupted => Ok(None),
            Ending::BrokenOff(reason) => Ok(Some(reason)),
            Ending::Stopped => {
                self.answer.stopped = true;
                Ok(None)
            }
        }
    }

    fn procfs(&mut self, listing: &Listing) -> Result<Outcome, Obstacle> {
        let question = self.question;
        let netns = question.place.inode();
        let only_listeners = question.states == StateSet::EMPTY.with(State::Listen);
        let (mut listed, mut broke_off) = (false, None);
        for &table in tables(listing.kind, question)? {
            let opened = match (question.inside(|| procfs::open(table)), self.process()) {
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
                if !wanted(&socket, question) {
                    return ControlFlow::Continue(());
                }
                listed = true;
                socket.netns = netns;
                take(&socket, Along::only(Rung::Procfs))
            });
            match read {
                Ok(course) => {
                    self.answer.losses.broken_records += course.broken;
                    self.answer.stopped |= course.stopped;
                }
                Err(errno) => {
                    let reason = Reason::File("read", table.path(), errno);
                    if !listed {
                        return Err(reason.into());
                    }
                    self.answer.losses.incomplete_dumps += 1;
                    broke_off = broke_off.or(Some(reason));
                }
            }
            listed = true;
            if self.answer.stopped {
                break;
            }
        }
        Ok(broke_off)
    }
}

/// The files of procfs that list these sockets.
fn tables(kind: Kind, question: &Question<'_>) -> Result<&'static [procfs::Table], Reason> {
    let tables = match kind {
        Kind::Inet(protocol, _) => procfs::Table::inet(protocol, question.families),
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

/// The rungs to try for `listing`, best first.
pub(crate) fn rungs(listing: &Listing, question: &Question<'_>) -> impl Iterator<Item = Rung> + use<> {
    let is_tcp = matches!(listing.kind, Kind::Inet(Protocol::Tcp, _));
    let tcp_of_both = is_tcp && question.families == Families::BOTH;
    let is_walked = listing.kind.walk().is_some();
    let everywhere = matches!(question.place, Where::Everywhere);
    let (walk, one_pass, v2, procfs) = match question.choice {
        _ if everywhere => (is_walked, false, false, false),
        Choice::Auto => (is_walked, tcp_of_both, true, true),
        Choice::Bpf => (is_walked, false, false, false),
        Choice::Diag => (false, tcp_of_both, true, false),
        Choice::DiagV2 => (false, false, true, false),
        Choice::Procfs => (false, false, false, true),
    };
    [
        (walk, Rung::Walk),
        (one_pass, Rung::OnePass),
        (v2, Rung::DiagV2),
        (procfs, Rung::Procfs),
    ]
    .into_iter()
    .filter_map(|(allowed, rung)| allowed.then_some(rung))
}

fn request(
    kind: Kind,
    rung: Rung,
    family: u8,
    question: &Question<'_>,
    bytecode: &[u8],
    sequence: u32,
) -> Option<Vec<u8>> {
    let detail = question.detail;
    match kind {
        Kind::Inet(_, protocol) => {
            let query = Query {
                states: question.states.bits(),
                extensions: extensions(detail),
                ports: (only_port(question.ends.local), only_port(question.ends.peer)),
                bytecode,
            };
            match rung {
                Rung::OnePass => query.one_pass(sequence),
                _ => query.v2(family, protocol, sequence),
            }
        }
        Kind::Unix => {
            use unix_diag::show::{ICONS, MEMINFO, NAME, PEER, RQLEN, UID, VFS};
            let memory = if detail.memory { MEMINFO } else { 0 };
            let particulars = if detail.particulars { VFS | ICONS } else { 0 };
            let query = unix_diag::Query {
                states: question.states.bits(),
                show: NAME | PEER | RQLEN | UID | memory | particulars,
            };
            Some(query.dump(sequence))
        }
        // The queues of these are told as part of their memory.
        Kind::Packet => {
            use packet_diag::show::{FANOUT, FILTER, INFO, MEMINFO, RING_CFG};
            let particulars = if detail.particulars {
                RING_CFG | FANOUT | FILTER
            } else {
                0
            };
            Some(packet_diag::dump(INFO | MEMINFO | particulars, sequence))
        }
        Kind::Netlink => {
            use netlink_diag::show::{GROUPS, MEMINFO};
            let particulars = if detail.particulars { GROUPS } else { 0 };
            let show = MEMINFO | particulars;
            Some(netlink_diag::dump(netlink_diag::PROTOCOL_ALL, show, sequence))
        }
    }
}

pub(crate) fn extensions(detail: Detail) -> u8 {
    let mut bits = 0;
    if detail.tcp_info {
        bits |= attribute::extension(attribute::INFO);
    }
    if detail.tcp_info || detail.congestion {
        bits |= attribute::extension(attribute::CONG) | attribute::extension(attribute::VEGASINFO);
    }
    if detail.memory {
        bits |= attribute::extension(attribute::MEMINFO) | attribute::extension(attribute::SKMEMINFO);
    }
    if detail.service_class {
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

/// Whether the question wants it: some sources tell of more than they were asked for.
#[inline]
fn wanted(socket: &Socket, question: &Question<'_>) -> bool {
    question.states.contains(socket.state)
        // A type without a name can only be of a family that was asked for.
        && (question.protocols.contains(socket.protocol) || matches!(socket.protocol, Protocol::Unknown(_)))
        && match socket.family {
            Family::Inet => question.families.v4,
            Family::Inet6 => question.families.v6,
            _ => true,
        }
}

/// Whether few sockets are likely to be wanted of many: the kernel passes over the others by a program, by a port, or by
/// their states, in less time than our own programs take to load.
fn is_narrow(question: &Question<'_>) -> bool {
    !question.program.is_empty()
        || only_port(question.ends.local) != 0
        || only_port(question.ends.peer) != 0
        || !question.states.contains(State::Established)
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
