//! Lists the sockets that a filter selects, asks, and closes them by `sock_diag`. `sockeye::main` calls it.

use super::args::KillArgs;
use super::session::Session;
use crate::action::Action;
use crate::outcome::Outcome;
use crate::targets::{self, Target, Targets};
use rustix::io::Errno;
use sockeye_act::{CloseTarget, SocketCloser};
use sockeye_console::notes;
use sockeye_model::{Cookie, Endpoint, NetnsInode, Protocol, ProtocolSet, Socket, StateSet};
use sockeye_query::args::SocketArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{self, Listing, QueryOptions, Scope};
use sockeye_source::{Detail, Error};
use sockeye_sys::proc_mount;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Closes sockets.
///
/// # Errors
/// If an option is wrong or nothing could be closed.
pub fn run(args: &KillArgs) -> anyhow::Result<ExitCode> {
    let action = Action {
        command: "kill",
        done: "closed",
        question: "Close".to_owned(),
        remark: String::new(),
    };
    targets::refuse_no_filter(action.command, &args.filter)?;
    let context = QueryContext::new(&args.common, false, listing::tests_netns(&args.filter))?;
    let mut listing = Listing::new(&args.common, &args.filter, None, &context)?;
    listing.require_owners();
    let filter = listing.filter();
    let protocols = args
        .which
        .protocols()
        .unwrap_or(ProtocolSet::of(&[Protocol::Tcp]));
    let options = QueryOptions {
        protocols: protocols.retain(|protocol| filter.may_match(protocol)),
        families: listing.families(),
        states: filter.states().unwrap_or(args.which.states()),
        // With the cookie, the kernel does not close another socket with the same addresses.
        detail: Detail::INODE | Detail::COOKIE,
        scope: Scope::Matching,
    };
    let targets = Targets::find(&listing, &options)?;
    let mut session = Session::default();
    if !args.own_session {
        session = Session::own();
        session.add_connections(&args.common, &context, &targets)?;
    }
    if let Some(problem) = proc_mount::problem().filter(|_| !args.own_session && !targets.all.is_empty()) {
        notes::say(&format!(
            "sockeye: kill: which connections this session needs is not known, so that one of them may be closed: {problem}\n"
        ));
    }
    let outcomes = targets.all.iter().map(|target| {
        if CloseTarget::new(&Socket::from(target)).is_none() {
            Outcome::LeftOut(Cow::Borrowed(not_closable(target)))
        } else if session.needs(target, &targets) {
            Outcome::LeftOut(Cow::Borrowed(
                "this session needs it; --own-session closes it nevertheless",
            ))
        } else {
            Outcome::Untried
        }
    });
    let outcomes: Vec<Outcome> = outcomes.collect();
    let has_unclosable = targets
        .all
        .iter()
        .any(|target| CloseTarget::new(&Socket::from(target)).is_none());
    let mut keeps_ports = false;
    let act = |targets: &Targets, selected: &[usize]| {
        let mut outcomes = close(&context, targets, selected);
        if outcomes.contains(&Outcome::Gone) {
            // A failure here does not undo what was closed.
            if let Err(error) = recheck_gone(&listing, &options, targets, selected, &mut outcomes) {
                notes::say(&format!(
                    "sockeye: kill: list the sockets that had gone again: {error:#}\n"
                ));
            }
        }
        keeps_ports = selected.iter().zip(&outcomes).any(|(&index, outcome)| {
            targets.all[index].protocol != Protocol::Tcp && *outcome == Outcome::Done
        });
        Ok(outcomes)
    };
    let status = action.run(&args.confirm, &args.common, &listing, &targets, outcomes, act)?;
    if keeps_ports {
        notes::say(
            "sockeye: kill: a closed socket other than TCP loses its peer and reads ECONNABORTED; its port stays bound until \
             the program closes the socket\n",
        );
    }
    if targets.all.is_empty() {
        hint_at_unconnected(&args.which, &listing, &options, &targets)?;
    }
    // Sockets that the user selected were not closed.
    Ok(if has_unclosable && !args.confirm.dry_run {
        ExitCode::FAILURE
    } else {
        status
    })
}

/// Hints at unconnected sockets that match: they are selected only by a flag or a state, easily forgotten for UDP.
fn hint_at_unconnected(
    which: &SocketArgs,
    listing: &Listing<'_>,
    options: &QueryOptions,
    targets: &Targets,
) -> anyhow::Result<()> {
    if listing.filter().states().is_some() || which.all || which.listening {
        return Ok(());
    }
    let options = QueryOptions {
        states: StateSet::ALL,
        ..*options
    };
    let mut count = 0_usize;
    listing.run(
        &options,
        Some(&targets.owners),
        &mut listing.begin(),
        &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        },
    )?;
    if count > 0 {
        let (sockets, are) = if count == 1 {
            ("socket", "is")
        } else {
            ("sockets", "are")
        };
        notes::say(&format!(
            "sockeye: kill: it matches {count} {sockets} that {are} not connected; -a includes them\n"
        ));
    }
    Ok(())
}

/// Corrects the outcome of sockets that still exist: the kernel looks them up by their addresses, and does not find one
/// that is only bound, for example.
fn recheck_gone(
    listing: &Listing<'_>,
    options: &QueryOptions,
    targets: &Targets,
    selected: &[usize],
    outcomes: &mut [Outcome],
) -> anyhow::Result<()> {
    let mut existing: HashSet<Cookie> = HashSet::new();
    let mut report = listing.begin();
    listing.run(options, Some(&targets.owners), &mut report, &mut |entry, _| {
        existing.extend(entry.socket.cookie);
        ControlFlow::Continue(())
    })?;
    for (&index, outcome) in selected.iter().zip(outcomes) {
        let exists = targets.all[index]
            .cookie
            .is_some_and(|cookie| existing.contains(&cookie));
        if *outcome == Outcome::Gone && exists {
            *outcome = Outcome::Failed(Cow::Borrowed(
                "the kernel does not find it by its addresses; ending the process closes it",
            ));
        }
    }
    Ok(())
}

/// Closes sockets, each in its network namespace.
fn close(context: &QueryContext, targets: &Targets, selected: &[usize]) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::Untried; selected.len()];
    let mut by_netns: BTreeMap<Option<NetnsInode>, Vec<(usize, CloseTarget)>> = BTreeMap::new();
    for (nth, &index) in selected.iter().enumerate() {
        let target = &targets.all[index];
        match CloseTarget::new(&Socket::from(target)) {
            Some(closable) => by_netns.entry(target.netns).or_default().push((nth, closable)),
            None => outcomes[nth] = Outcome::Failed(Cow::Borrowed(not_closable(target))),
        }
    }
    for (netns, closable) in by_netns {
        let all: Vec<CloseTarget> = closable.iter().map(|(_, one)| *one).collect();
        let closed = open_closer(context, netns).map(|mut closer| closer.close_all(&all));
        match closed {
            Ok(closed) => {
                for ((nth, _), closed) in closable.iter().zip(closed) {
                    outcomes[*nth] = outcome(closed, &targets.all[selected[*nth]]);
                }
            }
            Err(reason) => {
                for (nth, _) in &closable {
                    outcomes[*nth] = Outcome::Failed(Cow::Owned(reason.clone()));
                }
            }
        }
    }
    count_closed_by_peer(targets, selected, &mut outcomes);
    outcomes
}

/// Counts as closed a connection whose other end was closed before it: the reset of that end closed it.
fn count_closed_by_peer(targets: &Targets, selected: &[usize], outcomes: &mut [Outcome]) {
    let closed: HashSet<(Endpoint, Endpoint)> = selected
        .iter()
        .zip(&*outcomes)
        .filter(|(_, outcome)| **outcome == Outcome::Done)
        .map(|(&index, _)| (targets.all[index].local, targets.all[index].peer))
        .collect();
    for (&index, outcome) in selected.iter().zip(outcomes) {
        let target = &targets.all[index];
        if *outcome == Outcome::Gone && closed.contains(&(target.peer, target.local)) {
            *outcome = Outcome::Done;
        }
    }
}

/// Opens a netlink socket in a network namespace; the error is the reason of failure.
fn open_closer(context: &QueryContext, netns: Option<NetnsInode>) -> Result<SocketCloser, String> {
    let open = || SocketCloser::open().map_err(|errno| format!("open a sock_diag socket: {errno}"));
    let Some(netns) = netns else { return open() };
    let index = context.namespaces.with_inode(netns);
    let index = index.ok_or_else(|| format!("network namespace {netns} no longer exists"))?;
    let opened = context
        .namespaces
        .open(index, |index| sockeye_source::within(index, open))
        .map_err(|error| format!("open network namespace {netns}: {error}"))?;
    opened.map_err(|error: Error| error.to_string())?
}

fn outcome(closed: Result<(), Errno>, target: &Target) -> Outcome {
    let errno = match closed {
        Ok(()) => return Outcome::Done,
        // No such socket, or another one has its addresses now.
        Err(Errno::NOENT | Errno::STALE) => return Outcome::Gone,
        Err(errno) => errno,
    };
    Outcome::Failed(match errno {
        Errno::PERM | Errno::ACCESS => Cow::Owned(format!(
            "{errno}: closing it needs CAP_NET_ADMIN in its network namespace; {}",
            remedy("CAP_NET_ADMIN", CheckedIn::OwnerOfNetns)
        )),
        Errno::OPNOTSUPP => Cow::Owned(format!(
            "{errno}: this kernel closes no {} sockets in this state, or none at all (CONFIG_INET_DIAG_DESTROY)",
            target.protocol.name()
        )),
        errno => Cow::Owned(format!("SOCK_DESTROY: {errno}")),
    })
}

fn not_closable(target: &Target) -> &'static str {
    match target.protocol {
        Protocol::Tcp | Protocol::Udp | Protocol::UdpLite | Protocol::Raw => {
            "its source has no cookies, without which another socket could be closed: see `sockeye doctor`"
        }
        _ => "the kernel closes TCP, UDP and RAW sockets only; ending the process closes it",
    }
}
