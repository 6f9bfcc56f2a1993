//! `sockeye ns add`: network namespaces, many at once.

use super::guard::Guard;
use super::spell;
use super::workers::{self, Outcome};
use anyhow::anyhow;
use clap::Args;
use sockeye_act::netns::{Addresses, Folder, LinkTarget, Maker, Subnet, TargetError};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_model::NetnsName;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Instant;

/// Make network namespaces with names, as ip netns add does, many at once
///
/// Each name is made whole or not at all, also if this is killed in the middle.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AddArgs {
    /// Their names
    #[arg(
        value_name = "NAME",
        required_unless_present = "prefix",
        conflicts_with = "prefix"
    )]
    names: Vec<OsString>,
    /// Instead of names: this and a number, from --start on
    #[arg(long, value_name = "P", requires = "count")]
    prefix: Option<OsString>,
    /// With --prefix: so many
    #[arg(long, value_name = "N", requires = "prefix", allow_negative_numbers = true,
          value_parser = count)]
    count: Option<u32>,
    /// With --prefix: the first number
    #[arg(long, value_name = "N", requires = "prefix", allow_negative_numbers = true, default_value = "0",
          value_parser = start)]
    start: u32,
    /// Bring lo up in each
    #[arg(long)]
    up: bool,
    /// Join each to this bridge, or to the network namespace of this name, by a veth pair: eth0 in it, v-NAME there
    #[arg(long, value_name = "BRIDGE|NAME")]
    veth_to: Option<String>,
    /// With --veth-to: give the pairs free addresses of this subnet, like 10.1.0.0/16; of a bridge's the first is left out
    #[arg(long, value_name = "SUBNET", requires = "veth_to", value_parser = subnet)]
    subnet: Option<Subnet>,
    /// How many are made at the same time; as many as there are processors if not given
    #[arg(short = 'j', long, value_name = "N", allow_negative_numbers = true, value_parser = workers::threads)]
    threads: Option<usize>,
    /// After a failure go on with the rest
    #[arg(long)]
    keep_going: bool,
    /// Make nothing; print the names
    #[arg(long)]
    dry_run: bool,
    /// Say on stderr how many were made in which time
    #[arg(short = 'v', long)]
    verbose: bool,
}

pub(super) fn run(args: &AddArgs) -> anyhow::Result<ExitCode> {
    let wanted = Wanted::new(args)?;
    if args.dry_run {
        return print(&wanted).map(|()| ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    let target = args.veth_to.as_deref().map(target).transpose()?;
    // As long as it is held nobody else of us chooses addresses there.
    let reserved = match (&target, args.subnet) {
        (Some(target), Some(subnet)) => Some(reserve(target, subnet, wanted.len())?),
        _ => None,
    };
    let addresses = reserved.as_ref().map(|(_lock, addresses)| addresses);
    let folder = Folder::prepare().map_err(|failure| workers::explained(&failure))?;
    let threads = workers::count(args.threads, wanted.len());
    let guard = Guard::start(args.verbose);
    let outcome = workers::run(wanted.len(), threads, args.keep_going, "made", |thread| {
        let link = target.as_ref().map(LinkTarget::open).transpose()?;
        let mut maker = Maker::new(&folder, guard.slot(thread))
            .loopback_up(args.up)
            .link(link);
        let wanted = &wanted;
        Ok(move |place: usize| {
            let addresses = addresses.and_then(|all| all.get(place).copied());
            let made = maker.make(&wanted.name(place), addresses)?;
            Ok(u64::from(made.replaced_leftover))
        })
    });
    if args.verbose {
        let elapsed = begun.elapsed();
        notes::say(&format!(
            "sockeye: made {} network namespaces in {:.3} s, {:.3} ms each, by {threads} threads\n",
            outcome.done,
            elapsed.as_secs_f64(),
            elapsed.as_secs_f64() * 1e3 / outcome.done.max(1) as f64,
        ));
    }
    Ok(report(&wanted, &outcome, args.keep_going))
}

/// What was made, and what not.
fn report(wanted: &Wanted, outcome: &Outcome, keep_going: bool) -> ExitCode {
    if outcome.noted > 0 {
        notes::say(&format!(
            "sockeye: {} {} of namespaces whose making or deletion was interrupted, and made anew\n",
            outcome.noted,
            if outcome.noted == 1 {
                "name was the remains"
            } else {
                "names were the remains"
            }
        ));
    }
    if outcome.is_whole() {
        return ExitCode::SUCCESS;
    }
    outcome.tell_failures("ns add");
    if wanted.len() > 1 {
        let made: Vec<NetnsName> = outcome.places().map(|place| wanted.name(place)).collect();
        let of = wanted.len();
        let told = if made.is_empty() {
            format!("sockeye: none of {of} network namespaces was made")
        } else {
            format!(
                "sockeye: {} of {of} network namespaces were made: {}",
                made.len(),
                spell::names(&made)
            )
        };
        let hint = if outcome.not_tried() > 0 && !keep_going {
            "; --keep-going makes the rest"
        } else {
            ""
        };
        notes::say(&format!("{told}{hint}\n"));
    }
    outcome.exit_code()
}

/// The names that were asked for.
#[derive(Debug)]
enum Wanted {
    Listed(Vec<NetnsName>),
    Series {
        prefix: OsString,
        start: u32,
        count: usize,
    },
}

impl Wanted {
    fn new(args: &AddArgs) -> Result<Self, UsageError> {
        let Some(prefix) = &args.prefix else {
            let names = args.names.iter().map(|name| super::new_name(name.clone()));
            let names: Vec<NetnsName> = names.collect::<Result<_, _>>()?;
            let mut seen = HashSet::new();
            if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
                return Err(UsageError(format!("sockeye: {twice} is named twice\n")));
            }
            return Ok(Self::Listed(names));
        };
        super::refuse_empty(prefix)?;
        let count = args.count.unwrap_or_default();
        let last = args
            .start
            .checked_add(count.saturating_sub(1))
            .ok_or_else(|| UsageError(format!("sockeye: the numbers of the names end at {}\n", u32::MAX)))?;
        // The last is the longest; what is wrong with another is wrong with it.
        super::new_name(numbered(prefix, last))?;
        Ok(Self::Series {
            prefix: prefix.clone(),
            start: args.start,
            count: count as usize,
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Listed(names) => names.len(),
            Self::Series { count, .. } => *count,
        }
    }

    fn name(&self, place: usize) -> NetnsName {
        match self {
            Self::Listed(names) => names[place].clone(),
            Self::Series { prefix, start, .. } => {
                let number = start.saturating_add(u32::try_from(place).unwrap_or(u32::MAX));
                NetnsName::new(numbered(prefix, number)).expect("a longer one was found good")
            }
        }
    }
}

fn numbered(prefix: &OsString, number: u32) -> OsString {
    let mut name = prefix.clone();
    name.push(number.to_string());
    name
}

fn print(wanted: &Wanted) -> anyhow::Result<()> {
    let mut text = Vec::new();
    for place in 0..wanted.len() {
        text.extend_from_slice(wanted.name(place).as_os_str().as_encoded_bytes());
        text.push(b'\n');
    }
    stdout::write(&text)
}

fn target(name: &str) -> anyhow::Result<LinkTarget> {
    LinkTarget::find(name).map_err(|error| match error {
        TargetError::NotFound => anyhow!(
            "--veth-to {name:?}: neither a bridge nor a network namespace is called so: `ip link add {name} type bridge`, or `sockeye ns add {name}`, makes one"
        ),
        TargetError::NotABridge => anyhow!("--veth-to {name:?}: that interface is no bridge, and no network namespace is called so"),
        TargetError::Refused(refusal) => anyhow::Error::new(refusal).context(format!("look for the bridge {name:?}")),
    })
}

/// Free addresses, for all that are wanted or for none, and the lock under which they are free.
fn reserve(target: &LinkTarget, subnet: Subnet, count: usize) -> anyhow::Result<(OwnedFd, Vec<Addresses>)> {
    let lock = target.lock().map_err(|failure| workers::explained(&failure))?;
    let taken = target.taken().map_err(|failure| workers::explained(&failure))?;
    let found = if target.has_addresses() {
        subnet.for_pairs(count, &taken)
    } else {
        subnet.for_ports(count, &taken)
    };
    let addresses = found.map_err(|full| {
        anyhow!(
            "--subnet has free addresses for {} network namespaces, not for {count}; nothing was made",
            full.available
        )
    })?;
    Ok((lock, addresses))
}

/// How many names; more than any kernel takes are a mistake.
fn count(text: &str) -> Result<u32, String> {
    let good = text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
    good.ok_or_else(|| format!("expected a whole number of 1 to {COUNT_MAX}"))
}

/// The number of the first name.
fn start(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("expected a whole number of 0 to {}", u32::MAX))
}

fn subnet(text: &str) -> Result<Subnet, String> {
    text.parse()
        .map_err(|bad: sockeye_act::netns::SubnetParseError| bad.to_string())
}

const COUNT_MAX: u32 = 10_000_000;

const EXAMPLES: &str = "\
Examples:
  sockeye ns add web1 web2
  sockeye ns add --prefix web --count 2000 --up
  sockeye ns add --prefix web --count 50 --up --veth-to br0 --subnet 10.1.0.0/16";
