//! `sockeye kill`: sockets closed, whoever holds them.

mod session;

use crate::deed::{Deed, Manner, Outcome};
use crate::targets::{self, Target, Targets};
use clap::Args;
use rustix::io::Errno;
use session::Session;
use sockeye_act::{CloseTarget, SocketCloser};
use sockeye_console::notes;
use sockeye_model::{Cookie, Endpoint, NetnsInode, Protocol, ProtocolSet, Socket, StateSet};
use sockeye_query::args::{ListingArgs, SocketArgs};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{self, Listing, QueryOptions, Scope};
use sockeye_source::{Detail, Error};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Close sockets, whoever holds them
///
/// Their programs read ECONNABORTED, their peers a reset.
/// TCP connections are meant, unless flags name other protocols or the filter names states. The kernel closes TCP, UDP
/// and RAW sockets, others are left out. So are those of the session that this command was started from, and the other
/// ends of its connections.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct KillArgs {
    #[command(flatten)]
    which: SocketArgs,
    /// Also what this session needs: the connection it came by, and what the processes hold that led to it
    #[arg(long)]
    own_session: bool,
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    common: ListingArgs,
    /// Which sockets: an expression as ss takes it, for example: dst 10.0.0.7 and dport = :5432
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// Closes sockets.
///
/// # Errors
/// If an option is wrong or nothing could be closed.
pub fn run(args: &KillArgs) -> anyhow::Result<ExitCode> {
    let deed = Deed {
        command: "kill",
        done: "closed",
        question: "Close".to_owned(),
        remark: String::new(),
    };
    targets::refuse_no_filter(deed.command, &args.filter)?;
    let context = QueryContext::new(&args.common, false, listing::tests_netns(&args.filter))?;
    let mut listing = Listing::new(&args.common, &args.filter, None, &context)?;
    listing.require_owners();
    let filter = listing.filter();
    let asked = args
        .which
        .protocols()
        .unwrap_or(ProtocolSet::of(&[Protocol::Tcp]));
    let ask = QueryOptions {
        protocols: asked.retain(|protocol| filter.may_match(protocol)),
        families: listing.families(),
        states: filter.states().unwrap_or(args.which.states()),
        // By its cookie the kernel knows that it is no other by then.
        detail: Detail::INODE | Detail::COOKIE,
        scope: Scope::Matching,
    };
    let targets = Targets::find(&listing, &ask)?;
    let mut session = Session::default();
    if !args.own_session {
        session = Session::own();
        session.learn(&args.common, &context, &targets)?;
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
    let is_short = targets
        .all
        .iter()
        .any(|target| CloseTarget::new(&Socket::from(target)).is_none());
    let mut has_kept_ports = false;
    let act = |targets: &Targets, meant: &[usize]| {
        let mut outcomes = close(&context, targets, meant);
        if outcomes.contains(&Outcome::Gone) {
            // What is closed is closed, whether or not this works.
            if let Err(error) = look_again(&listing, &ask, targets, meant, &mut outcomes) {
                notes::say(&format!(
                    "sockeye: kill: look again for what had gone: {error:#}\n"
                ));
            }
        }
        has_kept_ports = meant.iter().zip(&outcomes).any(|(&place, outcome)| {
            targets.all[place].protocol != Protocol::Tcp && *outcome == Outcome::Done
        });
        Ok(outcomes)
    };
    let status = deed.run(&args.manner, &args.common, &listing, &targets, outcomes, act)?;
    if has_kept_ports {
        notes::say(
            "sockeye: kill: without TCP to be closed is to lose the peer, and to read ECONNABORTED: a port that was bound \
             stays so until the program closes its socket\n",
        );
    }
    if targets.all.is_empty() {
        hint_at_all(&args.which, &listing, &ask, &targets)?;
    }
    // They were named, and they are there still.
    Ok(if is_short && !args.manner.dry_run {
        ExitCode::FAILURE
    } else {
        status
    })
}

/// Unconnected sockets are not meant without a flag or a state, which is easily forgotten of UDP.
fn hint_at_all(
    which: &SocketArgs,
    listing: &Listing<'_>,
    ask: &QueryOptions,
    targets: &Targets,
) -> anyhow::Result<()> {
    if listing.filter().states().is_some() || which.all || which.listening {
        return Ok(());
    }
    let ask = QueryOptions {
        states: StateSet::ALL,
        ..*ask
    };
    let mut count = 0_usize;
    listing.run(&ask, Some(&targets.owners), &mut listing.begin(), &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    if count > 0 {
        let (sockets, are) = if count == 1 {
            ("socket", "is")
        } else {
            ("sockets", "are")
        };
        notes::say(&format!(
            "sockeye: kill: it matches {count} {sockets} that {are} not connected; -a takes those too\n"
        ));
    }
    Ok(())
}

/// The kernel looks sockets up by their addresses, by which it may not find one that is there (merely bound, for one):
/// that has not gone.
fn look_again(
    listing: &Listing<'_>,
    ask: &QueryOptions,
    targets: &Targets,
    meant: &[usize],
    outcomes: &mut [Outcome],
) -> anyhow::Result<()> {
    let mut there: HashSet<Cookie> = HashSet::new();
    let mut report = listing.begin();
    listing.run(ask, Some(&targets.owners), &mut report, &mut |entry, _| {
        there.extend(entry.socket.cookie);
        ControlFlow::Continue(())
    })?;
    for (&place, outcome) in meant.iter().zip(outcomes) {
        let is_there = targets.all[place]
            .cookie
            .is_some_and(|cookie| there.contains(&cookie));
        if *outcome == Outcome::Gone && is_there {
            *outcome = Outcome::Failed(Cow::Borrowed(
                "the kernel does not find it by its addresses; ending the process closes it",
            ));
        }
    }
    Ok(())
}

/// Closes them, each in its own network namespace.
fn close(context: &QueryContext, targets: &Targets, meant: &[usize]) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::Untried; meant.len()];
    let mut rooms: BTreeMap<Option<NetnsInode>, Vec<(usize, CloseTarget)>> = BTreeMap::new();
    for (nth, &place) in meant.iter().enumerate() {
        let target = &targets.all[place];
        match CloseTarget::new(&Socket::from(target)) {
            Some(condemned) => rooms.entry(target.netns).or_default().push((nth, condemned)),
            None => outcomes[nth] = Outcome::Failed(Cow::Borrowed(not_closable(target))),
        }
    }
    for (netns, condemned) in rooms {
        let all: Vec<CloseTarget> = condemned.iter().map(|(_, one)| *one).collect();
        let closed = opened(context, netns).map(|mut closer| closer.close_all(&all));
        match closed {
            Ok(closed) => {
                for ((nth, _), closed) in condemned.iter().zip(closed) {
                    outcomes[*nth] = outcome(closed, &targets.all[meant[*nth]]);
                }
            }
            Err(reason) => {
                for (nth, _) in &condemned {
                    outcomes[*nth] = Outcome::Failed(Cow::Owned(reason.clone()));
                }
            }
        }
    }
    count_other_ends(targets, meant, &mut outcomes);
    outcomes
}

/// A connection whose other end was closed before its turn came is closed too: by the reset that this sent.
fn count_other_ends(targets: &Targets, meant: &[usize], outcomes: &mut [Outcome]) {
    let closed: HashSet<(Endpoint, Endpoint)> = meant
        .iter()
        .zip(&*outcomes)
        .filter(|(_, outcome)| **outcome == Outcome::Done)
        .map(|(&place, _)| (targets.all[place].local, targets.all[place].peer))
        .collect();
    for (&place, outcome) in meant.iter().zip(outcomes) {
        let target = &targets.all[place];
        if *outcome == Outcome::Gone && closed.contains(&(target.peer, target.local)) {
            *outcome = Outcome::Done;
        }
    }
}

/// A way to the kernel in this network namespace, or why there is none.
fn opened(context: &QueryContext, netns: Option<NetnsInode>) -> Result<SocketCloser, String> {
    let open = || SocketCloser::open().map_err(|errno| format!("open a sock_diag socket: {errno}"));
    let Some(netns) = netns else { return open() };
    let place = context.namespaces.with_inode(netns);
    let place = place.ok_or_else(|| format!("network namespace {netns} is not to be found any more"))?;
    let opened = context
        .namespaces
        .open(place, |place| sockeye_source::within(place, open))
        .map_err(|error| format!("open network namespace {netns}: {error}"))?;
    opened.map_err(|error: Error| error.to_string())?
}

fn outcome(closed: Result<(), Errno>, target: &Target) -> Outcome {
    let errno = match closed {
        Ok(()) => return Outcome::Done,
        // Another has its addresses by now.
        Err(Errno::NOENT | Errno::STALE) => return Outcome::Gone,
        Err(errno) => errno,
    };
    Outcome::Failed(match errno {
        Errno::PERM | Errno::ACCESS => Cow::Owned(format!(
            "{errno}: it needs CAP_NET_ADMIN in its network namespace; {}",
            notes::remedy("run as root, or grant it")
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
            "its cookie is not known from where it was read, so that it could be mistaken for another: see `sockeye doctor`"
        }
        _ => "the kernel closes TCP, UDP and RAW sockets only; ending the process closes it",
    }
}

const EXAMPLES: &str = "\
Examples:
  sockeye kill dst 10.0.0.7                               after asking you
  sockeye kill sport = :8080 and state close-wait         what was forgotten
  sockeye kill owner = java and idle '>' 1h --yes         without asking
  sockeye kill -N web1 state listening and sport = :80    a listener
  sockeye kill state established -N all --dry-run         which that would be";
