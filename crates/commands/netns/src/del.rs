//! `sockeye ns del`: network namespaces lose their names, and with the last that holds them they end.

use super::guard::Guard;
use super::spell;
use super::workers::{self, Outcome};
use anyhow::Context;
use clap::Args;
use sockeye_act::netns::{FreedWaiter, remove};
use sockeye_act::{Termination, end};
use sockeye_console::confirm;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::{NetnsInode, NetnsName, Pid};
use sockeye_output::harmless;
use sockeye_source::netns::{NetnsProcesses, is_in_netns, process_name};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Delete network namespaces, as ip netns del does, many at once
///
/// A namespace in which processes live keeps its name, and they are told; --kill ends them, --force takes the name
/// alone.
#[derive(Debug, Args)]
#[command(visible_alias = "delete", after_help = EXAMPLES)]
pub(crate) struct DelArgs {
    /// Their names
    #[arg(value_name = "NAME", required_unless_present_any = ["prefix", "all"])]
    names: Vec<OsString>,
    /// All whose names begin so
    #[arg(long, value_name = "P", conflicts_with_all = ["names", "all"])]
    prefix: Option<OsString>,
    /// All that have names
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Do not ask whether those of --prefix or --all are really meant
    #[arg(short = 'y', long)]
    yes: bool,
    /// End the processes that live there: SIGTERM, and SIGKILL two seconds later
    #[arg(long)]
    kill: bool,
    /// Delete names of namespaces in which processes live; they live on
    #[arg(long, conflicts_with = "kill")]
    force: bool,
    /// Wait until the kernel has really freed them, and say when that was
    #[arg(long)]
    wait: bool,
    /// With --wait: no longer than this
    #[arg(long, value_name = "SECS", default_value = "30", requires = "wait", allow_negative_numbers = true,
          value_parser = sockeye_console::values::seconds)]
    timeout: Duration,
    /// How many are deleted at the same time; 32 if not given, for they do nothing but wait
    #[arg(short = 'j', long, value_name = "N", allow_negative_numbers = true, value_parser = workers::threads)]
    threads: Option<usize>,
    /// Delete nothing; print the names
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &DelArgs) -> anyhow::Result<ExitCode> {
    let names = meant(args)?;
    if args.dry_run {
        let lines = names.iter().map(spell::name);
        return stdout::write_lines(lines).map(|()| ExitCode::SUCCESS);
    }
    let is_group = args.all || args.prefix.is_some();
    if names.is_empty() {
        notes::say("sockeye: ns del: there is no such network namespace; nothing was deleted\n");
        return Ok(ExitCode::SUCCESS);
    }
    if is_group && !args.yes && !is_confirmed(&names)? {
        notes::say("sockeye: nothing was deleted\n");
        return Ok(ExitCode::FAILURE);
    }
    let (names, busy) = if args.force {
        (names, 0)
    } else {
        let (free, busy) = without_residents(names, args.kill)?;
        tell_busy(&busy);
        (free, busy.len())
    };
    let begun = Instant::now();
    let farewell = args
        .wait
        .then(|| FreedWaiter::of_all(&names))
        .transpose()
        .map_err(|failure| workers::explained(&failure))?;
    let outcome = delete(&names, args.threads);
    outcome.tell_failures("ns del");
    if outcome.not_tried() > 0 {
        notes::say(&format!(
            "sockeye: ns del: {} of {} names were deleted: {}\n",
            outcome.done,
            names.len(),
            spell::names(outcome.places().map(|place| &names[place]))
        ));
    }
    let deleted = begun.elapsed();
    let mut freed = true;
    if let Some(farewell) = farewell {
        freed = await_end(farewell, &names, &outcome, args.timeout, begun, deleted)?;
    }
    Ok(if busy == 0 && freed {
        outcome.exit_code()
    } else {
        ExitCode::FAILURE
    })
}

fn delete(names: &[NetnsName], threads: Option<usize>) -> Outcome {
    let guard = Guard::start(false);
    let threads = workers::count(
        Some(threads.unwrap_or(THREADS)),
        names.len().div_ceil(WORTH_A_THREAD),
    );
    workers::run(names.len(), threads, true, "deleted", |thread| {
        let slot = guard.slot(thread);
        Ok(move |place: usize| remove(&names[place], &slot).map(|()| 0))
    })
}

/// Waits until what was deleted is freed, and tells; whether it is.
fn await_end(
    farewell: FreedWaiter,
    names: &[NetnsName],
    outcome: &Outcome,
    patience: Duration,
    begun: Instant,
    deleted: Duration,
) -> anyhow::Result<bool> {
    let removed: HashSet<&NetnsName> = outcome.places().map(|place| &names[place]).collect();
    let left = farewell
        .wait(patience, |name| removed.contains(name))
        .map_err(|failure| workers::explained(&failure))?;
    let freed = removed.len() - left.len();
    stdout::write_lines([format!(
        "{} deleted in {:.3} s; {freed} {} freed after {:.3} s",
        if outcome.done == 1 {
            "1 name".to_owned()
        } else {
            format!("{} names", outcome.done)
        },
        deleted.as_secs_f64(),
        if freed == 1 {
            "network namespace"
        } else {
            "network namespaces"
        },
        begun.elapsed().as_secs_f64(),
    )])?;
    for (name, netns) in left.iter().take(TOLD_MAX) {
        notes::say(&format!(
            "sockeye: ns del: something still holds {}: `sockeye ns list --columns inode,pids,threads,kept_by inode = {netns}` tells what\n",
            spell::name(name)
        ));
    }
    let more = left.len().saturating_sub(TOLD_MAX);
    if more > 0 {
        notes::say(&format!("sockeye: ns del: something still holds {more} more\n"));
    }
    Ok(left.is_empty())
}

/// A name, and the namespace it stands for, if it does.
type Named = (NetnsName, Option<NetnsInode>);

/// A namespace with processes in it.
#[derive(Debug)]
struct Busy {
    name: NetnsName,
    netns: NetnsInode,
    pids: Vec<Pid>,
    why: Why,
}

/// Why it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Nobody said that they shall be ended.
    NotAsked,
    /// They did not end.
    NotEnded,
    /// It is that of the first process, or our own.
    Host,
}

/// Those of the names whose namespaces nobody lives in (any more, if those who do shall be ended), and the rest.
fn without_residents(names: Vec<NetnsName>, kill: bool) -> anyhow::Result<(Vec<NetnsName>, Vec<Busy>)> {
    let named: Vec<Named> = names
        .into_iter()
        .map(|name| {
            let found = fs::metadata(name.path()).ok();
            let inode = found.and_then(|found| u32::try_from(found.st_ino()).ok());
            (name, inode.map(NetnsInode))
        })
        .collect();
    let wanted: HashSet<NetnsInode> = named.iter().filter_map(|(_, netns)| *netns).collect();
    let mut residents = find(&wanted)?;
    if kill {
        residents = end_all(residents, &wanted)?;
    }
    let mut all = (Vec::new(), Vec::new());
    for (name, netns) in named {
        let pids = netns.map_or(Vec::new(), |netns| others(residents.of(netns)).collect());
        match netns {
            Some(netns) if !pids.is_empty() => {
                let why = match kill {
                    _ if is_hosts(netns) => Why::Host,
                    true => Why::NotEnded,
                    false => Why::NotAsked,
                };
                all.1.push(Busy {
                    name,
                    netns,
                    pids,
                    why,
                });
            }
            _ => {
                tell_threads(&name, netns.map_or(&[], |netns| residents.by_thread(netns)));
                all.0.push(name);
            }
        }
    }
    Ok(all)
}

fn find(namespaces: &HashSet<NetnsInode>) -> anyhow::Result<NetnsProcesses> {
    NetnsProcesses::find(namespaces)
        .context("cannot see in /proc who lives there: is it mounted? --force deletes names all the same")
}

/// Ends all who live there: politely, and after a time by force, again and again, since they may leave others behind.
fn end_all(
    mut residents: NetnsProcesses,
    namespaces: &HashSet<NetnsInode>,
) -> anyhow::Result<NetnsProcesses> {
    let kept: HashSet<NetnsInode> = namespaces
        .iter()
        .copied()
        .filter(|netns| is_hosts(*netns))
        .collect();
    let begun = Instant::now();
    let mut asked = HashSet::new();
    let mut refused = HashSet::new();
    let mut quiet = 0;
    loop {
        let manner = if begun.elapsed() < GRACE {
            Termination::Request
        } else {
            Termination::Kill
        };
        let mut left = false;
        for &netns in namespaces.difference(&kept) {
            for pid in others(residents.of(netns)) {
                left = true;
                if manner == Termination::Request && !asked.insert(pid) {
                    continue;
                }
                if let Err(errno) = end(pid, manner, || is_in_netns(pid, netns))
                    && refused.insert(pid)
                {
                    notes::say(&format!(
                        "sockeye: ns del: process {} is not ended: {errno}\n",
                        told(pid)
                    ));
                }
            }
        }
        // Who forks, and ends, and whose child does the same, may be overlooked in one look at `/proc`, not in many.
        quiet = if left { 0 } else { quiet + 1 };
        let is_over = asked.is_empty() && refused.is_empty() && !left;
        if is_over || quiet >= QUIET_LOOKS || begun.elapsed() > GRACE + FORCE_TAKES {
            return Ok(residents);
        }
        sleep(if manner == Termination::Request && left {
            LOOK_INTERVAL
        } else {
            SHORT_INTERVAL
        });
        residents = find(namespaces)?;
    }
}

/// Whether the first process lives there, or we do: nobody means to end those.
fn is_hosts(netns: NetnsInode) -> bool {
    is_in_netns(Pid(1), netns) || is_in_netns(Pid(std::process::id()), netns)
}

/// All but us.
fn others(pids: &[Pid]) -> impl Iterator<Item = Pid> {
    let own = std::process::id();
    pids.iter().copied().filter(move |pid| pid.0 != own)
}

fn tell_busy(busy: &[Busy]) {
    for Busy {
        name,
        netns,
        pids,
        why,
    } in busy.iter().take(TOLD_MAX)
    {
        let remedy = match why {
            Why::NotAsked => "--kill ends them, --force deletes the name alone",
            Why::NotEnded => "they do not end; --force deletes the name alone",
            Why::Host => {
                "process 1 lives there, or this command does, so that they are not ended; --force deletes the name alone"
            }
        };
        notes::say(&format!(
            "sockeye: ns del: {} is kept: {} in net:[{netns}]: {}; {remedy}\n",
            spell::name(name),
            if pids.len() == 1 {
                "1 process lives".to_owned()
            } else {
                format!("{} processes live", pids.len())
            },
            told_some(pids),
        ));
    }
    let more = busy.len().saturating_sub(TOLD_MAX);
    if more > 0 {
        notes::say(&format!(
            "sockeye: ns del: {more} more are kept, since processes live in them\n"
        ));
    }
}

/// Threads come and go, and live no less without the name; but somebody may want to know.
fn tell_threads(name: &NetnsName, pids: &[Pid]) {
    if !pids.is_empty() {
        notes::say(&format!(
            "sockeye: ns del: in {} live threads of processes that live elsewhere, and live on: {}\n",
            spell::name(name),
            told_some(pids)
        ));
    }
}

fn told_some(pids: &[Pid]) -> String {
    let some: Vec<String> = pids.iter().take(PIDS_TOLD_MAX).map(|&pid| told(pid)).collect();
    let more = pids.len().saturating_sub(PIDS_TOLD_MAX);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    some.join(", ") + &more
}

/// `1234/nginx`
fn told(pid: Pid) -> String {
    match process_name(pid) {
        Some(name) => format!("{pid}/{}", harmless(&name)),
        None => pid.to_string(),
    }
}

/// The names that are meant.
fn meant(args: &DelArgs) -> anyhow::Result<Vec<NetnsName>> {
    if !args.all && args.prefix.is_none() {
        let mut seen = HashSet::new();
        let names = args.names.iter().map(|name| super::existing(name));
        let mut names: Vec<NetnsName> = names.collect::<Result<_, _>>()?;
        names.retain(|name| seen.insert(name.clone()));
        return Ok(names);
    }
    super::all_names(args.prefix.as_deref())
}

/// Shows what is meant, and asks; without anybody to ask it is a mistake.
fn is_confirmed(names: &[NetnsName]) -> anyhow::Result<bool> {
    let count = names.len();
    let what = if count == 1 {
        "network namespace"
    } else {
        "network namespaces"
    };
    let question = format!("Delete {count} {what}: {}?", spell::names(names));
    confirm::confirm(&question, || {
        format!(
            "sockeye: ns del: {count} {what} would be deleted ({}); --yes says that they are meant, --dry-run lists them\n",
            spell::names(names)
        )
    })
}

/// So long processes may take to end by themselves.
const GRACE: Duration = Duration::from_secs(2);
/// So long those who are ended by force may leave others behind.
const FORCE_TAKES: Duration = Duration::from_secs(3);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const SHORT_INTERVAL: Duration = Duration::from_millis(1);
const QUIET_LOOKS: usize = 10;
const TOLD_MAX: usize = 10;
const PIDS_TOLD_MAX: usize = 8;
/// Fewer deletions are not worth one more thread.
const WORTH_A_THREAD: usize = 16;
/// Each umount(2) waits for a grace period of RCU, which all who wait at the same time share.
const THREADS: usize = 32;

const EXAMPLES: &str = "\
Examples:
  sockeye ns del web1 web2
  sockeye ns del --prefix web --yes --wait
  sockeye ns del web1 --kill";
