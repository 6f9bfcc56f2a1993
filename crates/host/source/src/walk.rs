//! The source that walks over the kernel's hash tables of TCP and UDP.

use crate::bpf::{BpfEngine, RecordThreads, Start, TableKind, TakeRecord, WalkStats};
use crate::exact_query::ExactQuery;
use crate::outcome::{DumpContext, Error, SourceKind};
use crate::process_netns::own_namespace;
use crate::query::{Ends, Families, NetnsScope, Query};
use crate::quiet::QuietWalk;
use crate::request_bits;
use crate::socket_threads::SocketThreads;
use crate::unavailable::Unavailable;
use rustix::io::Errno;
use sockeye_model::{Detail, Losses, Protocol, Socket, State, StateSet, WalkLayout};
use sockeye_wire::walk::{KernelClock, Record, Request, Table, detail};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns what the query asks for and a walk cannot report; `None` if there is nothing.
///
/// The kernel creates the cookie of a socket when it is first asked for. A walk reads those that are there, and asks for the others one
/// by one: after a dump, which has created those of all, they are few.
pub(crate) fn unsupported(engine: &BpfEngine, walk: Walk, query: &Query<'_>) -> Option<&'static str> {
    let can_ask = walk == Walk::Tcp && !matches!(query.scope, NetnsScope::All);
    if query.detail.contains(Detail::COOKIE) && !(can_ask && engine.has_cookies()) {
        return Some("the cookie of each socket");
    }
    query
        .detail
        .contains(Detail::AUTOBOUND)
        .then_some("which ports were chosen by the kernel")
}

/// A protocol with a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    Tcp,
    Udp,
}

/// Returns the tables, and the program, of a walk.
pub(crate) fn table_kind(walk: Walk, query: &Query<'_>) -> TableKind {
    match walk {
        Walk::Tcp if query.detail.intersects(request_bits::TCP_DETAILS) => TableKind::TcpWithInfo,
        Walk::Tcp => TableKind::Tcp,
        Walk::Udp => TableKind::Udp,
    }
}

/// Takes a socket, with the payload of its netlink message if netlink was queried for it.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&Socket, Option<&[u8]>) -> ControlFlow<()>;

/// Passes every socket of the protocol that `query` selects to `take`.
pub(crate) fn walk(
    engine: &BpfEngine,
    walk: Walk,
    start: Start,
    query: &Query<'_>,
    walked: &mut WalkStats,
    take: Take<'_>,
    threads: Option<&dyn SocketThreads>,
) -> Result<Result<(), Unavailable>, Error> {
    let tables = match engine.tables(table_kind(walk, query), start) {
        Ok(tables) => tables,
        Err(unavailable) => return Ok(Err(unavailable)),
    };
    let found = match query.scope {
        NetnsScope::All => tables.find_all(),
        _ => query.inside(|| tables.find())?.map(|found| vec![found]),
    };
    let found = match found {
        Ok(found) => found,
        Err(unavailable) => return Ok(Err(unavailable)),
    };
    let netns = match query.scope {
        NetnsScope::Own => own_namespace().map(|inode| inode.0),
        NetnsScope::One(netns) => Some(netns.inode.0),
        NetnsScope::All => Some(0),
    };
    let Some(netns) = netns else {
        return Ok(Err(Unavailable::UnexpectedReply(
            "our own namespace has no inode",
        )));
    };
    let kernel = WalkLayout {
        service_class: query.detail.contains(Detail::SERVICE_CLASS),
        netns: !matches!(query.scope, NetnsScope::Own),
        ..tables.kernel()
    };
    let Families { v4, v6 } = query.families;
    let quiet = query.quiet.filter(|_| {
        let has_info = table_kind(walk, query) == TableKind::TcpWithInfo;
        let is_one = !matches!(query.scope, NetnsScope::All) && found.len() == 1;
        has_info && is_one && query.ends == Ends::ANYWHERE && threads.is_none()
    });
    let request = Request {
        quiet_since_us: quiet.map_or(0, QuietWalk::since_us),
        detail: request_bits::sections(query.detail),
        v4,
        v6,
        netns,
        local: query.ends.local,
        peer: query.ends.peer,
        ..Request::ALL
    };
    let listeners = StateSet::EMPTY.with(State::Listen);
    let bound = StateSet::EMPTY.with(State::BoundInactive);
    let others = query.states.and(StateSet::ALL.without(State::Listen));
    let passes: &[_] = match walk {
        Walk::Tcp => &[
            (Table::Listening, query.states.and(listeners)),
            (Table::Bound, query.states.and(bound)),
            (Table::Established, others),
        ],
        Walk::Udp => &[(Table::Udp, query.states)],
    };
    let mut reader = RecordReader::new(walk, query, kernel);
    let threads = threads.map(|threads| Threads {
        threads,
        walk,
        query,
        kernel,
        unanswered: AtomicU64::new(0),
        without_cookie: AtomicU64::new(0),
    });
    for (nth, found) in found.iter().enumerate() {
        for &(table, states) in passes {
            // A namespace can have its own table of TCP connections only, not of listeners: inet_pernet_hashinfo_alloc() of
            // net/ipv4/inet_hashtables.c.
            let is_shared = matches!(table, Table::Listening | Table::Bound);
            if states.is_empty() || walked.stopped || (is_shared && nth > 0) {
                continue;
            }
            // Without the options it is unknown whether an IPv6 wildcard accepts IPv4, and its address cannot be shown. With
            // all namespaces there may be more of these sockets than of all others; the query asks for options if it needs them.
            let is_everywhere = matches!(query.scope, NetnsScope::All);
            let options = if v6 && table != Table::Established && !is_everywhere {
                detail::OPTIONS
            } else {
                0
            };
            let request = Request {
                table,
                states: states.bits(),
                detail: request.detail | options,
                ..request
            };
            let threads = threads.as_ref().map(|threads| threads as &dyn RecordThreads);
            let read = &mut |record: &Record<'_>, now| {
                let (socket, message) = reader.read(record, now);
                take(socket, message)
            };
            let outcome = match quiet.and_then(QuietWalk::buckets) {
                None => tables.walk(found, &request, walked, query.announce, read, threads),
                Some(buckets) => buckets
                    .iter()
                    .filter(|_| table == Table::Established)
                    .try_for_each(|bucket| {
                        let request = Request {
                            first: *bucket,
                            end: bucket.saturating_add(1),
                            ..request
                        };
                        tables.walk(found, &request, walked, query.announce, read, None)
                    }),
            };
            match outcome {
                Ok(()) => {}
                // The namespace of this table is gone, and its sockets with it.
                Err(Unavailable::Run(Errno::FAULT) | Unavailable::Lacks(_)) if nth > 0 => {}
                // Netlink does not report them there either, so that nothing is missing.
                Err(Unavailable::Lacks(_))
                    if table == Table::Bound && query.states != bound && !engine.reports_bound_sockets() => {}
                Err(_) => return Ok(outcome),
            }
        }
    }
    let of_threads = threads.map_or((0, 0), |threads| {
        (
            threads.unanswered.into_inner(),
            threads.without_cookie.into_inner(),
        )
    });
    walked.losses.broken_records += reader.exact.unanswered + of_threads.0;
    let without_cookie = reader.without_cookie + of_threads.1;
    if without_cookie > WITHOUT_COOKIE_MAX && without_cookie > walked.delivered / 4 {
        engine.set_has_cookies(false);
    }
    if let Some(quiet) = quiet {
        let is_complete = walked.losses == Losses::default() && !walked.stopped;
        let began_ns = found.first().filter(|_| is_complete).map(|found| found.ktime_ns);
        quiet.note(began_ns, std::mem::take(&mut walked.quiet));
    }
    Ok(Ok(()))
}

/// If more sockets, and more than a quarter of all, have no cookie yet, a dump is faster the next time.
const WITHOUT_COOKIE_MAX: u64 = 1000;

/// Reads the records of one thread.
struct RecordReader<'a> {
    walk: Walk,
    kernel: WalkLayout,
    place: Socket,
    exact: ExactQuery<'a>,
    wants_cookies: bool,
    /// Sockets that netlink was queried for because they had no cookie yet.
    without_cookie: u64,
}

impl<'a> RecordReader<'a> {
    fn new(walk: Walk, query: &'a Query<'a>, kernel: WalkLayout) -> Self {
        Self {
            walk,
            kernel,
            place: Socket::new(Protocol::Tcp, State::Close),
            exact: ExactQuery::new(query),
            wants_cookies: query.detail.contains(Detail::COOKIE),
            without_cookie: 0,
        }
    }

    /// Returns the socket of a record, with the payload of its netlink message if netlink was queried for it.
    #[inline]
    fn read(&mut self, record: &Record<'_>, now: KernelClock) -> (&Socket, Option<&[u8]>) {
        match self.walk {
            Walk::Tcp => self.place.read_walk_record(record, now, &self.kernel),
            // The record itself has the protocol, as one of a pass over descriptors does.
            Walk::Udp => self.place.read_by_descriptor(record, Some(now), &self.kernel),
        }
        let lacks_cookie = self.wants_cookies && self.place.cookie.is_none();
        self.without_cookie += u64::from(lacks_cookie);
        let message = if record.needs_diag() || lacks_cookie {
            self.exact.ask(record, &mut self.place)
        } else {
            None
        };
        (&self.place, message)
    }
}

/// What takes sockets on several threads at once, as what takes their records.
struct Threads<'a> {
    threads: &'a dyn SocketThreads,
    walk: Walk,
    query: &'a Query<'a>,
    kernel: WalkLayout,
    /// Queries of single sockets without a reply.
    unanswered: AtomicU64,
    without_cookie: AtomicU64,
}

impl RecordThreads for Threads<'_> {
    fn may_begin(&self) -> bool {
        self.threads.may_begin()
    }

    fn on_thread(&self, read: &mut dyn FnMut(TakeRecord<'_>)) {
        let mut reader = RecordReader::new(self.walk, self.query, self.kernel);
        self.threads.on_thread(&mut |take| {
            read(&mut |record, now| {
                let (socket, message) = reader.read(record, now);
                let context = DumpContext {
                    message,
                    ..DumpContext::only(SourceKind::Walk)
                };
                take(socket, context)
            });
        });
        self.unanswered
            .fetch_add(reader.exact.unanswered, Ordering::Relaxed);
        self.without_cookie
            .fetch_add(reader.without_cookie, Ordering::Relaxed);
    }
}
