//! `sockeye ns add`: creates network namespaces.

use crate::args::AddArgs;
use crate::guard::Guard;
use crate::names as typed;
use crate::output::names::{count, join_names};
use crate::workers::{self, Outcome, explained};
use anyhow::anyhow;
use sockeye_act::netns::{Addresses, Folder, LinkTarget, Maker, Subnet, TargetError};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_model::NetnsName;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Instant;

pub(crate) fn run(args: &AddArgs) -> anyhow::Result<ExitCode> {
    let names = NewNames::new(args)?;
    if args.dry_run {
        return print(&names).map(|()| ExitCode::SUCCESS);
    }
    let began = Instant::now();
    let target = args.veth_to.as_deref().map(find_target).transpose()?;
    // Until the lock is dropped, other sockeyes do not choose addresses there.
    let reserved = match (&target, args.subnet) {
        (Some(target), Some(subnet)) => Some(reserve(target, subnet, names.len())?),
        _ => None,
    };
    let addresses = reserved.as_ref().map(|(_lock, addresses)| addresses);
    let folder = Folder::prepare().map_err(|error| explained(&error))?;
    let threads = workers::thread_count(args.jobs, names.len());
    let guard = Guard::start(args.verbose);
    let outcome = workers::run(names.len(), threads, args.keep_going, "created", |thread| {
        let link = target.as_ref().map(LinkTarget::open).transpose()?;
        let mut maker = Maker::new(&folder, guard.slot(thread))
            .loopback_up(args.up)
            .link(link);
        let names = &names;
        Ok(move |index: usize| {
            let addresses = addresses.and_then(|all| all.get(index).copied());
            let made = maker.make(&names.name(index), addresses)?;
            Ok(made.replaced_leftover)
        })
    });
    if args.verbose {
        let elapsed_s = began.elapsed().as_secs_f64();
        notes::say(&format!(
            "sockeye: created {} in {elapsed_s:.3} s, {:.3} ms each, on {threads} threads\n",
            count(outcome.done as u64, "network namespace"),
            elapsed_s * 1e3 / outcome.done.max(1) as f64,
        ));
    }
    Ok(report(&names, &outcome, args.keep_going))
}

/// Prints what was created and what was not, and returns the exit status.
fn report(names: &NewNames, outcome: &Outcome, keep_going: bool) -> ExitCode {
    if outcome.replaced_leftovers > 0 {
        notes::say(&format!(
            "sockeye: replaced {} of interrupted creations or deletions\n",
            count(outcome.replaced_leftovers as u64, "leftover"),
        ));
    }
    if outcome.is_complete() {
        return ExitCode::SUCCESS;
    }
    outcome.print_failures("ns add");
    if names.len() > 1 {
        let created: Vec<NetnsName> = outcome.done_indices().map(|index| names.name(index)).collect();
        let list = if created.is_empty() {
            String::new()
        } else {
            format!(": {}", join_names(&created))
        };
        let hint = if outcome.not_tried() > 0 && !keep_going {
            "; --keep-going continues after a failure"
        } else {
            ""
        };
        notes::say(&format!(
            "sockeye: {} of {} network namespaces were created{list}{hint}\n",
            created.len(),
            names.len(),
        ));
    }
    outcome.exit_code()
}

/// The names on the command line.
#[derive(Debug)]
enum NewNames {
    List(Vec<NetnsName>),
    Series {
        prefix: OsString,
        start: u32,
        count: usize,
    },
}

impl NewNames {
    fn new(args: &AddArgs) -> Result<Self, UsageError> {
        let Some(prefix) = &args.prefix else {
            let names = args.names.iter().map(|name| typed::new(name.clone()));
            let names: Vec<NetnsName> = names.collect::<Result<_, _>>()?;
            let mut seen = HashSet::new();
            if let Some(duplicate) = names.iter().find(|name| !seen.insert(*name)) {
                return Err(UsageError(format!("sockeye: {duplicate} occurs twice\n")));
            }
            return Ok(Self::List(names));
        };
        typed::refuse_empty(prefix)?;
        let count = args.count.unwrap_or_default();
        let last = args
            .start
            .checked_add(count.saturating_sub(1))
            .ok_or_else(|| UsageError(format!("sockeye: the numbers of the names end at {}\n", u32::MAX)))?;
        // The last name is the longest; if it is valid, all are.
        typed::new(numbered(prefix, last))?;
        Ok(Self::Series {
            prefix: prefix.clone(),
            start: args.start,
            count: count as usize,
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::List(names) => names.len(),
            Self::Series { count, .. } => *count,
        }
    }

    fn name(&self, index: usize) -> NetnsName {
        match self {
            Self::List(names) => names[index].clone(),
            Self::Series { prefix, start, .. } => {
                let number = start.saturating_add(u32::try_from(index).unwrap_or(u32::MAX));
                NetnsName::new(numbered(prefix, number)).expect("a longer one is valid")
            }
        }
    }
}

fn numbered(prefix: &OsStr, number: u32) -> OsString {
    let mut name = prefix.to_owned();
    name.push(number.to_string());
    name
}

fn print(names: &NewNames) -> anyhow::Result<()> {
    let mut text = Vec::new();
    for index in 0..names.len() {
        text.extend_from_slice(names.name(index).as_os_str().as_encoded_bytes());
        text.push(b'\n');
    }
    stdout::write(&text)
}

fn find_target(name: &str) -> anyhow::Result<LinkTarget> {
    LinkTarget::find(name).map_err(|error| match error {
        TargetError::NotFound => anyhow!(
            "--veth-to {name:?}: neither a bridge nor a network namespace has this name; create one with `ip link add {name} type bridge` or `sockeye ns add {name}`"
        ),
        TargetError::NotABridge => anyhow!(
            "--veth-to {name:?}: this interface is not a bridge, and no network namespace has this name"
        ),
        TargetError::Refused(refusal) => anyhow::Error::new(refusal).context(format!("find the bridge {name:?}")),
    })
}

/// Returns free addresses for all `count` namespaces, and the lock that keeps them free.
fn reserve(target: &LinkTarget, subnet: Subnet, count: usize) -> anyhow::Result<(OwnedFd, Vec<Addresses>)> {
    let lock = target.lock().map_err(|error| explained(&error))?;
    let taken = target.taken().map_err(|error| explained(&error))?;
    let found = if target.has_addresses() {
        subnet.for_pairs(count, &taken)
    } else {
        subnet.for_ports(count, &taken)
    };
    let addresses = found.map_err(|full| {
        anyhow!(
            "--subnet has free addresses for {} network namespaces, not for {count}; nothing was created",
            full.available
        )
    })?;
    Ok((lock, addresses))
}
