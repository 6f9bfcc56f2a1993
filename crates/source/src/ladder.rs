//! The ladder of sources: the best rung that works, and why not a better one.

use crate::dump::{self, Course, Dump, Failure};
use crate::halves;
use crate::procfs;
use crate::question::{Answer, Choice, Detail, Error, Families, ProtocolSet, Question, Rung, Used};
use rustix::io::Errno;
use sockeye_model::{Endpoint, Family, Losses, Protocol, Socket, State, StateSet};
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::inet_diag::{InetDiag, Query, SOCK_DIAG_BY_FAMILY, TCPDIAG_GETSOCK, attribute};
use sockeye_wire::netlink::Message;
use sockeye_wire::netlink_diag::{self, NetlinkDiag};
use sockeye_wire::packet_diag::{self, PacketDiag};
use sockeye_wire::unix_diag::{self, UnixDiag};
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;

/// Hands every socket that `question` asks for to `take`, each once, until `take` breaks off.
///
/// An optional protocol that this kernel lacks (MPTCP, UDP-Lite) is no error: its entry in
/// [`Answer::used`] says so.
///
/// # Errors
/// When the namespace cannot be entered, or a protocol cannot be listed by any rung allowed.
pub fn list(
    question: &Question<'_>,
    take: &mut dyn FnMut(&Socket) -> ControlFlow<()>,
) -> Result<Answer, Error> {
    let mut climb = Climb {
        question,
        take,
        answer: Answer::default(),
        sequence: 0,
    };
    for listing in LISTINGS {
        if question.protocols.intersects(listing.protocols) && !climb.answer.stopped {
            climb.listing(listing)?;
        }
    }
    Ok(climb.answer)
}

/// Whether `rung` can list, or why not.
pub(crate) fn try_rung(
    listing: &Listing,
    rung: Rung,
    question: &Question<'_>,
    take: &mut dyn FnMut(&Socket) -> ControlFlow<()>,
) -> Result<(), String> {
    let mut climb = Climb {
        question,
        take,
        answer: Answer::default(),
        sequence: 0,
    };
    climb.rung(listing, rung).map_err(|error| error.to_string())?
}

/// Protocols that the kernel lists together.
pub(crate) struct Listing {
    pub(crate) what: &'static str,
    protocols: ProtocolSet,
    kind: Kind,
    /// Kernels may lack it.
    optional: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Protocol number for `sock_diag`
    Inet(Protocol, u16),
    Unix,
    Packet,
    Netlink,
}

pub(crate) const LISTINGS: &[Listing] = &[
    Listing {
        what: "netlink",
        protocols: ProtocolSet::NETLINK,
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
        protocols: ProtocolSet::RAW,
        kind: Kind::Inet(Protocol::Raw, 255),
        optional: false,
    },
    Listing {
        what: "udp",
        protocols: ProtocolSet::UDP,
        kind: Kind::Inet(Protocol::Udp, 17),
        optional: false,
    },
    Listing {
        what: "udplite",
        protocols: ProtocolSet::UDPLITE,
        kind: Kind::Inet(Protocol::UdpLite, 136),
        optional: true,
    },
    Listing {
        what: "mptcp",
        protocols: ProtocolSet::MPTCP,
        kind: Kind::Inet(Protocol::Mptcp, 262),
        optional: true,
    },
    Listing {
        what: "tcp",
        protocols: ProtocolSet::TCP,
        kind: Kind::Inet(Protocol::Tcp, 6),
        optional: false,
    },
];

struct Climb<'a> {
    question: &'a Question<'a>,
    take: &'a mut dyn FnMut(&Socket) -> ControlFlow<()>,
    answer: Answer,
    sequence: u32,
}

impl Climb<'_> {
    fn listing(&mut self, listing: &Listing) -> Result<(), Error> {
        let mut used = Used {
            what: listing.what,
            rung: None,
            fallen: Vec::new(),
        };
        for rung in rungs(listing, self.question) {
            match self.rung(listing, rung)? {
                Ok(()) => {
                    used.rung = Some(rung);
                    break;
                }
                Err(reason) => used.fallen.push((rung, reason)),
            }
        }
        if used.rung.is_none() && !listing.optional {
            return Err(Error::NoSource(used));
        }
        self.answer.used.push(used);
        Ok(())
    }

    /// Lists by one rung. The inner error is a reason to try the next one; nothing was handed out then.
    fn rung(&mut self, listing: &Listing, rung: Rung) -> Result<Result<(), String>, Error> {
        match rung {
            Rung::OnePass | Rung::DiagV2 => self.netlink(listing, rung),
            Rung::Procfs => self.procfs(listing),
        }
    }

    fn netlink(&mut self, listing: &Listing, rung: Rung) -> Result<Result<(), String>, Error> {
        let families: &[u8] = match (rung, listing.kind) {
            (Rung::OnePass, _) => &[AF_UNSPEC],
            (_, Kind::Inet(..)) => match self.question.families {
                Families { v4: true, v6: true } => &[AF_INET, AF_INET6],
                Families { v4: true, v6: false } => &[AF_INET],
                Families { v6: true, .. } => &[AF_INET6],
                Families { .. } => &[],
            },
            _ => &[AF_UNSPEC],
        };
        for (already_listed, &family) in families.iter().enumerate() {
            match self.repeated(listing, rung, family)? {
                Ok(()) => {}
                // A kernel without IPv6 refuses its half; the other half stands.
                Err(Failure::Refused(..)) if already_listed > 0 => {}
                Err(failure) => return Ok(Err(failure.to_string())),
            }
            if self.answer.stopped {
                break;
            }
        }
        Ok(Ok(()))
    }

    /// One dump, and again while the kernel says that it was interrupted. A repeated dump hands out only
    /// what the ones before it missed.
    fn repeated(&mut self, listing: &Listing, rung: Rung, family: u8) -> Result<Result<(), Failure>, Error> {
        let question = self.question;
        let mut may_halve = true;
        let mut program = question.program;
        // The kernel tells of a NETLINK socket twice if it is a member of a group (seen on Linux 6.18).
        let mut seen = Seen {
            repeats: matches!(listing.kind, Kind::Netlink),
            ..Seen::default()
        };
        let mut losses = Losses::default();
        let mut tries = 0;
        let outcome = loop {
            self.sequence += 1;
            let bytecode = program.map_or(&[][..], |program| program.bytes);
            let halves = (rung == Rung::OnePass && tries == 0 && may_halve)
                .then(|| halves::programs(question, bytecode))
                .flatten();
            let programs: &[&[u8]] = match &halves {
                Some([upper, lower]) => &[upper, lower],
                None => &[bytecode],
            };
            let mut dumps = Vec::with_capacity(programs.len());
            for bytecode in programs {
                let Some(request) = request(listing.kind, rung, family, question, bytecode, self.sequence)
                else {
                    break;
                };
                match self.open()? {
                    Ok(socket) => dumps.push(Dump { socket, request }),
                    Err(errno) => return Ok(Err(Failure::System("open a sock_diag socket", errno))),
                }
            }
            if dumps.len() < programs.len() {
                // Longer than an attribute can be: we judge each socket ourselves.
                (program, may_halve) = (None, false);
                continue;
            }
            let mut broken = 0;
            let mut place = Socket::new(Protocol::Tcp, State::Close);
            let mut deliver = |message: &Message<'_>| {
                match decode(message, listing.kind, &mut place) {
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
                place.netns = question.netns.map(|place| place.inode);
                (self.take)(&place)
            };
            let course = dump::run(&dumps, self.sequence, &mut deliver);
            losses.broken_records += broken;
            let course = match course {
                // A program may be refused where the request is not: marks need CAP_NET_ADMIN, and old
                // kernels know fewer instructions. Then we judge each socket ourselves.
                Err(Failure::Refused(..)) if seen.is_empty() && halves.is_some() => {
                    may_halve = false;
                    continue;
                }
                Err(Failure::Refused(..)) if program.is_some_and(|p| !p.required) && seen.is_empty() => {
                    program = None;
                    continue;
                }
                Err(failure) if seen.is_empty() => break Err(failure),
                // Sockets are out already; what is missing is counted, not listed twice.
                Err(_) => {
                    losses.incomplete_dumps += 1;
                    break Ok(());
                }
                Ok(course) => course,
            };
            count(&mut losses, course);
            if course.stopped {
                self.answer.stopped = true;
            } else if course.interrupted {
                tries += 1;
                if tries < TRIES {
                    losses.repeated_dumps += 1;
                    seen.remember();
                    continue;
                }
                losses.incomplete_dumps += 1;
            }
            break Ok(());
        };
        self.answer.losses += losses;
        Ok(outcome)
    }

    /// A socket to `sock_diag` where the question is asked.
    fn open(&self) -> Result<Result<DiagSocket, Errno>, Error> {
        match self.question.netns {
            None => Ok(DiagSocket::open()),
            Some(place) => sockeye_sys::netns::within(place.fd, DiagSocket::open)
                .map_err(|errno| Error::Namespace(place.inode, errno)),
        }
    }

    fn procfs(&mut self, listing: &Listing) -> Result<Result<(), String>, Error> {
        let question = self.question;
        let tables = match listing.kind {
            Kind::Inet(protocol, _) => procfs::Table::inet(protocol, question.families),
            Kind::Unix => &[procfs::Table::Unix],
            Kind::Packet => &[procfs::Table::Packet],
            Kind::Netlink => &[procfs::Table::Netlink],
        };
        if tables.is_empty() {
            return Ok(Err("has no table for it".to_owned()));
        }
        if question.program.is_some_and(|program| program.required) {
            return Ok(Err("only the kernel can decide this filter".to_owned()));
        }
        let only_listeners = question.states == StateSet::EMPTY.with(State::Listen);
        let mut listed = false;
        for &table in tables {
            let file = match question.netns {
                None => procfs::open(table),
                Some(place) => sockeye_sys::netns::within(place.fd, || procfs::open(table))
                    .map_err(|errno| Error::Namespace(place.inode, errno))?,
            };
            let file = match file {
                Ok(file) => file,
                // A kernel without IPv6 lacks its table; the other one stands.
                Err(Errno::NOENT) if listed => continue,
                Err(errno) => return Ok(Err(format!("open {}: {errno}", table.path()))),
            };
            let take = &mut *self.take;
            let read = procfs::read(&file, table, only_listeners, &mut |mut socket| {
                if !wanted(&socket, question) {
                    return ControlFlow::Continue(());
                }
                socket.netns = question.netns.map(|place| place.inode);
                take(&socket)
            });
            match read {
                Ok(read) => {
                    self.answer.losses.broken_records += read.broken;
                    self.answer.stopped |= read.stopped;
                }
                Err(errno) if !listed => return Ok(Err(format!("read {}: {errno}", table.path()))),
                Err(_) => self.answer.losses.incomplete_dumps += 1,
            }
            listed = true;
            if self.answer.stopped {
                break;
            }
        }
        Ok(Ok(()))
    }
}

/// The rungs to try for `listing`, best first.
pub(crate) fn rungs(listing: &Listing, question: &Question<'_>) -> impl Iterator<Item = Rung> + use<> {
    let tcp_of_both =
        matches!(listing.kind, Kind::Inet(Protocol::Tcp, _)) && question.families == Families::BOTH;
    let (one_pass, v2, procfs) = match question.choice {
        Choice::Auto => (tcp_of_both, true, true),
        Choice::Diag => (tcp_of_both, true, false),
        Choice::DiagV2 => (false, true, false),
        Choice::Procfs => (false, false, true),
    };
    [
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
    match kind {
        Kind::Inet(_, protocol) => {
            let query = Query {
                states: question.states.bits(),
                extensions: extensions(question.detail),
                bytecode,
            };
            match rung {
                Rung::OnePass => query.one_pass(sequence),
                _ => query.v2(family, protocol, sequence),
            }
        }
        Kind::Unix => {
            use unix_diag::show::{MEMINFO, NAME, PEER, RQLEN, UID};
            let memory = if question.detail.memory { MEMINFO } else { 0 };
            let query = unix_diag::Query {
                states: question.states.bits(),
                show: NAME | PEER | RQLEN | UID | memory,
            };
            Some(query.dump(sequence))
        }
        // The queues of these are told as part of their memory.
        Kind::Packet => Some(packet_diag::dump(
            packet_diag::show::INFO | packet_diag::show::MEMINFO,
            sequence,
        )),
        Kind::Netlink => Some(netlink_diag::dump(
            netlink_diag::PROTOCOL_ALL,
            netlink_diag::show::MEMINFO | netlink_diag::show::GROUPS,
            sequence,
        )),
    }
}

fn extensions(detail: Detail) -> u8 {
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
fn decode(message: &Message<'_>, kind: Kind, socket: &mut Socket) -> Option<Result<(), sockeye_wire::Error>> {
    if message.kind != TCPDIAG_GETSOCK && message.kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let payload = message.payload;
    let read = match kind {
        // In place: of these there may be very many.
        Kind::Inet(protocol, _) => {
            return Some(InetDiag::parse(payload).and_then(|wire| socket.read_inet_diag(&wire, protocol)));
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
        && question.protocols.contains(socket.protocol)
        && match socket.family {
            Family::Inet => question.families.v4,
            Family::Inet6 => question.families.v6,
            _ => true,
        }
}

fn count(losses: &mut Losses, course: Course) {
    losses.overruns += course.overruns;
    losses.truncated_messages += course.truncated;
    losses.broken_records += course.broken;
}

/// Which sockets were handed out, so that a repeated dump does not list one twice: 8 bytes a socket, and
/// a hash table only when there is something to repeat.
#[derive(Default)]
struct Seen {
    /// Whether what comes may have come before.
    repeats: bool,
    order: Vec<u64>,
    set: HashSet<u64>,
}

impl Seen {
    #[inline]
    fn first_sight(&mut self, socket: &Socket) -> bool {
        let identity = identity(socket);
        if self.repeats && !self.set.insert(identity) {
            return false;
        }
        self.order.push(identity);
        true
    }

    /// The next dump may repeat all that came so far.
    fn remember(&mut self) {
        self.repeats = true;
        self.set.extend(self.order.iter().copied());
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// The cookie where there is one; it is never reused.
#[inline]
fn identity(socket: &Socket) -> u64 {
    match socket.cookie {
        Some(cookie) => cookie.0,
        None => {
            let mut hasher = DefaultHasher::new();
            let ends: [&Endpoint; 2] = [&socket.local, &socket.peer];
            (ends, socket.inode).hash(&mut hasher);
            hasher.finish()
        }
    }
}

/// How often a dump is tried before it is told as incomplete.
const TRIES: u32 = 4;
const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
