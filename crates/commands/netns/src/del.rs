//! `sockeye ns del`: deletes names of network namespaces; the kernel frees a namespace when nothing holds it any more.

use crate::args::DelArgs;
use crate::guard::Guard;
use crate::names as typed;
use crate::output::names::{clean_name, count, join_names};
use crate::workers::{self, Outcome, explained};
use anyhow::Context;
use sockeye_act::netns::{FreedWaiter, remove};
use sockeye_act::{Termination, end};
use sockeye_console::confirm;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::{NetnsInode, NetnsName, Pid};
use sockeye_output::harmless;
use sockeye_source::netns::{NetnsProcesses, is_in_netns, process_name};
use std::collections::HashSet;
use std::fs;
use std::os::linux::fs::MetadataExt;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(crate) fn run(args: &DelArgs) -> anyhow::Result<ExitCode> {
    let names = selected(args)?;
    if args.dry_run {
        return stdout::write_lines(names.iter().map(clean_name)).map(|()| ExitCode::SUCCESS);
    }
    if names.is_empty() {
        notes::say("sockeye: ns del: no such network namespace; nothing was deleted\n");
        return Ok(ExitCode::SUCCESS);
    }
    let is_group = args.all || args.prefix.is_some();
    if is_group && !args.yes && !is_confirmed(&names)? {
        notes::say("sockeye: nothing was deleted\n");
        return Ok(ExitCode::FAILURE);
    }
    let (names, kept) = if args.force {
        (names, Vec::new())
    } else {
        split_busy(names, args.kill)?
    };
    print_busy(&kept);
    let began = Instant::now();
    let waiter = args
        .wait
        .then(|| FreedWaiter::of_all(&names))
        .transpose()
        .map_err(|error| explained(&error))?;
    let outcome = delete(&names, args.jobs);
    outcome.print_failures("ns del");
    if outcome.not_tried() > 0 {
        notes::say(&format!(
            "sockeye: ns del: {} of {} names were deleted: {}\n",
            outcome.done,
            names.len(),
            join_names(outcome.done_indices().map(|index| &names[index]))
        ));
    }
    let is_freed = match waiter {
        Some(waiter) => await_freed(waiter, &names, &outcome, args.timeout, began)?,
        None => true,
    };
    Ok(if kept.is_empty() && is_freed {
        outcome.exit_code()
    } else {
        ExitCode::FAILURE
    })
}

fn delete(names: &[NetnsName], threads: Option<usize>) -> Outcome {
    let guard = Guard::start(false);
    let threads = workers::thread_count(
        Some(threads.unwrap_or(THREADS)),
        names.len().div_ceil(NAMES_PER_THREAD),
    );
    workers::run(names.len(), threads, true, "deleted", |thread| {
        let slot = guard.slot(thread);
        Ok(move |index: usize| remove(&names[index], &slot).map(|()| false))
    })
}

/// Waits up to `timeout` until the kernel has freed the deleted namespaces, prints how long it took, and returns whether
/// all are freed.
fn await_freed(
    waiter: FreedWaiter,
    names: &[NetnsName],
    outcome: &Outcome,
    timeout: Duration,
    began: Instant,
) -> anyhow::Result<bool> {
    let deleted = began.elapsed();
    let removed: HashSet<&NetnsName> = outcome.done_indices().map(|index| &names[index]).collect();
    let left = waiter
        .wait(timeout, |name| removed.contains(name))
        .map_err(|error| explained(&error))?;
    stdout::write_lines([format!(
        "{} deleted in {:.3} s; {} freed after {:.3} s",
        count(outcome.done as u64, "name"),
        deleted.as_secs_f64(),
        count((removed.len() - left.len()) as u64, "network namespace"),
        began.elapsed().as_secs_f64(),
    )])?;
    for (name, netns) in left.iter().take(NAMESPACES_SHOWN_MAX) {
        notes::say(&format!(
            "sockeye: ns del: something still holds {}: `sockeye ns list --columns inode,pids,threads,holders inode = {netns}` shows what\n",
            clean_name(name)
        ));
    }
    let more = left.len().saturating_sub(NAMESPACES_SHOWN_MAX);
    if more > 0 {
        notes::say(&format!("sockeye: ns del: something still holds {more} more\n"));
    }
    Ok(left.is_empty())
}

/// A namespace that keeps its name because of the processes in it.
#[derive(Debug)]
struct Busy {
    name: NetnsName,
    netns: NetnsInode,
    pids: Vec<Pid>,
    /// What the user can do.
    remedy: &'static str,
}

/// Splits names into names to delete and names whose namespaces have processes. Ends the processes first if `kill`.
fn split_busy(names: Vec<NetnsName>, kill: bool) -> anyhow::Result<(Vec<NetnsName>, Vec<Busy>)> {
    let named: Vec<(NetnsName, Option<NetnsInode>)> = names
        .into_iter()
        .map(|name| {
            let found = fs::metadata(name.path()).ok();
            let inode = found.and_then(|found| u32::try_from(found.st_ino()).ok());
            (name, inode.map(NetnsInode))
        })
        .collect();
    let namespaces: HashSet<NetnsInode> = named.iter().filter_map(|(_, netns)| *netns).collect();
    let mut processes = find_processes(&namespaces)?;
    if kill {
        processes = end_all(processes, &namespaces)?;
    }
    let (mut free, mut busy) = (Vec::new(), Vec::new());
    for (name, netns) in named {
        let Some(netns) = netns else {
            free.push(name);
            continue;
        };
        let pids: Vec<Pid> = without_self(processes.of(netns)).collect();
        if pids.is_empty() {
            print_threads(&name, processes.by_thread(netns));
            free.push(name);
            continue;
        }
        busy.push(Busy {
            name,
            netns,
            pids,
            remedy: match kill {
                _ if is_protected(netns) => {
                    "process 1 or this command is in it, so that none is ended; --force deletes the name alone"
                }
                true => "they do not end; --force deletes the name alone",
                false => "--kill ends them, --force deletes the name alone",
            },
        });
    }
    Ok((free, busy))
}

fn find_processes(namespaces: &HashSet<NetnsInode>) -> anyhow::Result<NetnsProcesses> {
    NetnsProcesses::find(namespaces).context(
        "cannot read in /proc which processes are in them: is it mounted? --force deletes names without that",
    )
}

/// Ends all processes in the namespaces: by SIGTERM, after [`GRACE`] by SIGKILL. Repeats it, since processes may fork.
fn end_all(
    mut processes: NetnsProcesses,
    namespaces: &HashSet<NetnsInode>,
) -> anyhow::Result<NetnsProcesses> {
    let protected: HashSet<NetnsInode> = namespaces
        .iter()
        .copied()
        .filter(|netns| is_protected(*netns))
        .collect();
    let began = Instant::now();
    let mut requested = HashSet::new();
    let mut refused = HashSet::new();
    let mut empty_scans = 0;
    loop {
        let termination = if began.elapsed() < GRACE {
            Termination::Request
        } else {
            Termination::Kill
        };
        let mut is_any_left = false;
        for &netns in namespaces.difference(&protected) {
            for pid in without_self(processes.of(netns)) {
                is_any_left = true;
                if termination == Termination::Request && !requested.insert(pid) {
                    continue;
                }
                if let Err(errno) = end(pid, termination, || is_in_netns(pid, netns))
                    && refused.insert(pid)
                {
                    notes::say(&format!(
                        "sockeye: ns del: cannot end process {}: {errno}\n",
                        pid_and_name(pid)
                    ));
                }
            }
        }
        // One scan of /proc can miss a process that forks and ends, and whose child does the same; many do not.
        empty_scans = if is_any_left { 0 } else { empty_scans + 1 };
        let had_none = requested.is_empty() && refused.is_empty() && !is_any_left;
        if had_none || empty_scans >= EMPTY_SCANS || began.elapsed() > GRACE + KILL_TIMEOUT {
            return Ok(processes);
        }
        sleep(if termination == Termination::Request && is_any_left {
            SCAN_INTERVAL
        } else {
            SHORT_SCAN_INTERVAL
        });
        processes = find_processes(namespaces)?;
    }
}

/// Returns whether process 1 or this process is in the namespace: these are never ended.
fn is_protected(netns: NetnsInode) -> bool {
    is_in_netns(Pid(1), netns) || is_in_netns(Pid(std::process::id()), netns)
}

fn without_self(pids: &[Pid]) -> impl Iterator<Item = Pid> {
    let own = std::process::id();
    pids.iter().copied().filter(move |pid| pid.0 != own)
}

fn print_busy(busy: &[Busy]) {
    for one in busy.iter().take(NAMESPACES_SHOWN_MAX) {
        notes::say(&format!(
            "sockeye: ns del: {} is kept: {} in net:[{}]: {}; {}\n",
            clean_name(&one.name),
            match one.pids.len() {
                1 => "1 process is".to_owned(),
                number => format!("{number} processes are"),
            },
            one.netns,
            join_pids(&one.pids),
            one.remedy,
        ));
    }
    let more = busy.len().saturating_sub(NAMESPACES_SHOWN_MAX);
    if more > 0 {
        notes::say(&format!(
            "sockeye: ns del: {more} more are kept, since processes are in them\n"
        ));
    }
}

/// Prints a note on threads that are in the namespace while their processes are not. They do not keep the name.
fn print_threads(name: &NetnsName, pids: &[Pid]) {
    if !pids.is_empty() {
        notes::say(&format!(
            "sockeye: ns del: in {} live threads of processes that live elsewhere, and continue: {}\n",
            clean_name(name),
            join_pids(pids)
        ));
    }
}

fn join_pids(pids: &[Pid]) -> String {
    let shown: Vec<String> = pids
        .iter()
        .take(PIDS_SHOWN_MAX)
        .map(|&pid| pid_and_name(pid))
        .collect();
    let more = match pids.len().saturating_sub(PIDS_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}

/// Returns `1234/nginx`, or `1234` if the name is unknown.
fn pid_and_name(pid: Pid) -> String {
    match process_name(pid) {
        Some(name) => format!("{pid}/{}", harmless(&name)),
        None => pid.to_string(),
    }
}

/// Returns the names that the arguments select, each once.
fn selected(args: &DelArgs) -> anyhow::Result<Vec<NetnsName>> {
    if args.all || args.prefix.is_some() {
        return typed::all(args.prefix.as_deref());
    }
    let names = args.names.iter().map(|name| typed::existing(name));
    let mut names: Vec<NetnsName> = names.collect::<Result<_, _>>()?;
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// Asks for confirmation; without a terminal this is a usage error.
fn is_confirmed(names: &[NetnsName]) -> anyhow::Result<bool> {
    let (what, list) = (count(names.len() as u64, "network namespace"), join_names(names));
    confirm::confirm(&format!("Delete {what}: {list}?"), || {
        format!(
            "sockeye: ns del: {what} would be deleted ({list}); --yes confirms it, --dry-run lists them\n"
        )
    })
}

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Time after the first SIGKILL until remaining processes are given up.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);
const SCAN_INTERVAL: Duration = Duration::from_millis(20);
const SHORT_SCAN_INTERVAL: Duration = Duration::from_millis(1);
const EMPTY_SCANS: usize = 10;
const NAMESPACES_SHOWN_MAX: usize = 10;
const PIDS_SHOWN_MAX: usize = 8;
/// Fewer deletions are not worth another thread.
const NAMES_PER_THREAD: usize = 16;
/// Each umount(2) waits for an RCU grace period, which concurrent ones share.
const THREADS: usize = 32;
