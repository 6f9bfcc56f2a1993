//! The rung that walks over the kernel's own tables of TCP and UDP.

use crate::answer::Error;
use crate::bpf::{Engine, Obstacle, Of, Walked};
use crate::exact::Exact;
use crate::names;
use crate::question::{Families, Question, Where};
use rustix::io::Errno;
use sockeye_model::{Protocol, Socket, State, StateSet, WalkedKernel};
use sockeye_wire::walk::{Request, Table, detail};
use std::ops::ControlFlow;

/// What is asked for that a walk does not tell.
pub(crate) fn untold(question: &Question<'_>) -> Option<&'static str> {
    let wanted = question.detail;
    [
        (wanted.cookie, "the cookie of each socket"),
        (wanted.autobound, "which ports were chosen by the kernel"),
    ]
    .into_iter()
    .find_map(|(is_wanted, what)| is_wanted.then_some(what))
}

/// What there is a walk for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    Tcp,
    Udp,
}

/// Takes a socket, with the message that netlink said of it, if it was asked.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&Socket, Option<&[u8]>) -> ControlFlow<()>;

/// Hands every socket of the protocol that `question` asks for to `take`, with the message of those that netlink was asked for.
pub(crate) fn walk(
    engine: &Engine,
    walk: Walk,
    question: &Question<'_>,
    walked: &mut Walked,
    take: Take<'_>,
) -> Result<Result<(), Obstacle>, Error> {
    let wanted = question.detail;
    let of = match walk {
        Walk::Tcp if wanted.tcp_info || wanted.congestion => Of::TcpWithInfo,
        Walk::Tcp => Of::Tcp,
        Walk::Udp => Of::Udp,
    };
    let tables = match engine.tables(of) {
        Ok(tables) => tables,
        Err(obstacle) => return Ok(Err(obstacle)),
    };
    let found = match question.place {
        Where::Everywhere => tables.find_all(),
        _ => question.inside(|| tables.find())?.map(|found| vec![found]),
    };
    let found = match found {
        Ok(found) => found,
        Err(obstacle) => return Ok(Err(obstacle)),
    };
    let netns = match question.place {
        Where::Here => names::own_namespace().map(|inode| inode.0),
        Where::In(place) => Some(place.inode.0),
        Where::Everywhere => Some(0),
    };
    let Some(netns) = netns else {
        return Ok(Err(Obstacle::Nonsense("our own namespace has no inode")));
    };
    let kernel = WalkedKernel {
        service_class: wanted.service_class,
        netns: !matches!(question.place, Where::Here),
        ..tables.kernel()
    };
    let Families { v4, v6 } = question.families;
    let request = Request {
        detail: sections(question),
        v4,
        v6,
        netns,
        local: question.ends.local,
        peer: question.ends.peer,
        ..Request::ALL
    };
    let listeners = StateSet::EMPTY.with(State::Listen);
    let bound = StateSet::EMPTY.with(State::BoundInactive);
    let others = question.states.and(StateSet::ALL.without(State::Listen));
    let passes: &[_] = match walk {
        Walk::Tcp => &[
            (Table::Listening, question.states.and(listeners)),
            (Table::Bound, question.states.and(bound)),
            (Table::Established, others),
        ],
        Walk::Udp => &[(Table::Udp, question.states)],
    };
    let mut place = Socket::new(Protocol::Tcp, State::Close);
    let mut exact = Exact::new(question);
    for (nth, found) in found.iter().enumerate() {
        for &(table, states) in passes {
            // Of TCP's only connections are in a table of a namespace's own: inet_pernet_hashinfo_alloc() of
            // net/ipv4/inet_hashtables.c.
            let is_shared = matches!(table, Table::Listening | Table::Bound);
            if states.is_empty() || walked.stopped || (is_shared && nth > 0) {
                continue;
            }
            // An IPv6 wildcard takes IPv4 or not: without that its address cannot be shown. Of all namespaces at once there may be
            // more of these than of all others, and whoever wants to know asks for options.
            let is_everywhere = matches!(question.place, Where::Everywhere);
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
            let outcome = tables.walk(found, &request, walked, &mut |record, now| {
                match walk {
                    Walk::Tcp => place.read_walked(record, now, &kernel),
                    // It says of itself what it is, like one that a descriptor led to.
                    Walk::Udp => place.read_held(record, Some(now), &kernel),
                }
                let message = if record.needs_diag() {
                    exact.ask(record, &mut place)
                } else {
                    None
                };
                take(&place, message)
            });
            match outcome {
                Ok(()) => {}
                // The namespace whose table it was has ended, and its sockets with it.
                Err(Obstacle::Run(Errno::FAULT) | Obstacle::Lacks(_)) if nth > 0 => {}
                Err(_) => return Ok(outcome),
            }
        }
    }
    walked.losses.broken_records += exact.unanswered;
    Ok(Ok(()))
}

fn sections(question: &Question<'_>) -> u32 {
    let wanted = question.detail;
    [
        (wanted.queues, detail::QUEUES),
        (wanted.timer, detail::TIMER),
        // By the inode it is told whether it is the socket that sock_diag is asked for.
        (
            wanted.inode || wanted.user || wanted.tcp_info || wanted.congestion,
            detail::INODE,
        ),
        (wanted.user, detail::USER),
        (wanted.options || wanted.service_class, detail::OPTIONS),
        (wanted.memory, detail::MEMORY),
        (wanted.tcp_info, detail::TCP_INFO),
        (wanted.tcp_info || wanted.congestion, detail::CONGESTION),
    ]
    .into_iter()
    .fold(0, |all, (is_wanted, bit)| if is_wanted { all | bit } else { all })
}
