//! `sockeye lstf`: host flows as lstf 0.7.2 (`github.com/yuuki/lstf`) shows them. What is the same, what is not and why
//! stands in `docs/dropins/lstf.md`.

mod flags;

use crate::output::lstf::{Naming, Row, write_json, write_table};
use anyhow::Context;
use flags::{Flags, Stop, truth};
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_flow::{Fold, Listeners};
use sockeye_model::{Direction, Entry, Flow, GroupBy, Process, ProtocolSet, State, StateSet};
use sockeye_query::args::{ListingArgs, SourceArg};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, ListingReport, QueryOptions, Scope};
use sockeye_source::{BpfEngine, Detail, Families};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let plan = match plan(words) {
        Ok(plan) => plan,
        Err(code) => return code,
    };
    match plan.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if stdout::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            notes::say(&format!("{error:#}\n"));
            ExitCode::from(FAILED)
        }
    }
}

/// What was typed, understood.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    numeric: bool,
    processes: bool,
    json: bool,
    peers: Peers,
    every: Option<Duration>,
    debug: bool,
}

/// `--filter`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peers {
    All,
    Public,
    Private,
}

/// Understands the words in the order in which lstf does; or says what there is to say, and how to end.
fn plan(words: &[OsString]) -> Result<Plan, ExitCode> {
    let failed = |text: &str| {
        notes::say(text);
        Err(ExitCode::from(FAILED))
    };
    let flags = match Flags::read(words) {
        Ok(flags) => flags,
        Err(Stop::Help) => {
            show_help();
            return failed("");
        }
        Err(Stop::Mistake(text)) => {
            return failed(&format!("lstf: {text}; `lstf --help` lists the options\n"));
        }
    };
    let debug = std::env::var_os("LSTF_DEBUG").filter(|value| !value.is_empty());
    let debug = match debug.as_deref().map(|value| (value, truth(value.as_bytes()))) {
        None => flags.debug,
        Some((_, Some(debug))) => debug,
        Some((value, None)) => {
            let value = value.to_string_lossy();
            notes::say(&format!(
                "Error parsing boolean value from LSTF_DEBUG: strconv.ParseBool: parsing {value:?}: invalid syntax\n"
            ));
            return Err(ExitCode::FAILURE);
        }
    };
    if flags.version {
        notes::say(concat!(
            "lstf version 0.7.2, build sockeye-",
            env!("CARGO_PKG_VERSION"),
            ", date  \n"
        ));
        return Err(ExitCode::SUCCESS);
    }
    if flags.credits {
        return Err(match stdout::write(CREDITS) {
            Err(error) if !stdout::is_closed_pipe(&error) => ExitCode::from(FAILED),
            _ => ExitCode::SUCCESS,
        });
    }
    let peers = match flags.filter.as_deref().map(OsStr::as_bytes) {
        None | Some(b"all") => Peers::All,
        Some(b"public") => Peers::Public,
        Some(b"private") => Peers::Private,
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            show_help();
            return failed(&format!("\nlstf: --filter: {other:?} is not among them\n"));
        }
    };
    if flags.watch < 0 {
        notes::say("lstf: --watch: expected seconds, 1 or more\n");
        // With which a Go program panics, as lstf does here.
        return Err(ExitCode::from(2));
    }
    if let [first, ..] = &flags.operands[..] {
        let hint = if flags.watch == 3 {
            "; seconds stick to their option: -w=5, --watch=5"
        } else {
            ""
        };
        notes::say(&format!(
            "lstf: {:?} is no option and is ignored{hint}\n",
            first.to_string_lossy()
        ));
    }
    if flags.processes
        && std::env::var_os("PROC_ROOT").is_some_and(|root| !root.is_empty() && root != "/proc")
    {
        notes::say("lstf: PROC_ROOT is ignored: processes are those of this host\n");
    }
    Ok(Plan {
        numeric: flags.numeric,
        processes: flags.processes,
        json: flags.json,
        peers,
        every: (flags.watch > 0)
            .then(|| Duration::from_secs(flags.watch.unsigned_abs().min(WATCH_SECONDS_MAX))),
        debug,
    })
}

/// On stderr, with its tabs.
fn show_help() {
    let _ = std::io::stderr().write_all(HELP.as_bytes());
}

impl Plan {
    fn run(&self) -> anyhow::Result<()> {
        let common = self.common();
        let context = QueryContext::new(&common, !self.numeric, false).context(READING)?;
        let listing = Listing::new(&common, &[], None, &context).context(READING)?;
        let Some(every) = self.every else {
            return self.show(&listing);
        };
        // A tick that was missed because a listing took long is left out.
        let mut next = Instant::now();
        loop {
            let now = jiff::Zoned::now();
            let (hour, minute, second) = (now.hour(), now.minute(), now.second());
            stdout::write(format!("-- {hour:02}:{minute:02}:{second:02} -- \n").as_bytes())?;
            self.show(&listing)?;
            stdout::write(b"\n")?;
            let now = Instant::now();
            while next <= now {
                next += every;
            }
            if !stdout::pause(next - now) {
                return Ok(());
            }
        }
    }

    fn show(&self, listing: &Listing<'_>) -> anyhow::Result<()> {
        let mut report = listing.begin();
        let (flows, servers) = self.fold(listing, &mut report).context(READING)?;
        if !self.numeric {
            listing.context.hosts(
                flows
                    .iter()
                    .flat_map(|flow| [flow.key.local, flow.key.peer])
                    .flatten(),
            );
        }
        let rows: Vec<Row<'_>> = flows
            .iter()
            .map(|flow| Row {
                flow,
                process: flow.owners.last().copied().or_else(|| servers.of(flow)),
            })
            .collect();
        let naming = if self.numeric {
            Naming::Numeric
        } else {
            Naming::Named(listing.context)
        };
        let mut out = stdout::open().context(stdout::WRITING)?;
        let written = if self.json {
            write_json(&mut out, &rows, naming)
        } else {
            write_table(&mut out, &rows, self.processes, naming)
        };
        written.context(stdout::WRITING)?;
        // What ended meanwhile holds no socket any more.
        report.losses.vanished_processes = 0;
        listing.write_notes(&report, self.debug);
        Ok(())
    }

    /// Listeners first, since they decide the direction, and own what nobody holds any more; then the connections.
    fn fold(
        &self,
        listing: &Listing<'_>,
        report: &mut ListingReport,
    ) -> anyhow::Result<(Vec<Flow>, Servers)> {
        let owners = listing.owners(report)?;
        let mut listeners = Listeners::default();
        let mut servers = Servers::default();
        let ask = |states, inode, options| QueryOptions {
            protocols: ProtocolSet::of(&[sockeye_model::Protocol::Tcp]),
            families: Families::BOTH,
            states,
            detail: Detail::INODE.when(inode) | Detail::OPTIONS.when(options),
            scope: Scope::All,
        };
        let listening = ask(StateSet::EMPTY.with(State::Listen), self.processes, true);
        listing.run(&listening, owners.as_ref(), report, &mut |entry, _| {
            listeners.add(entry.socket);
            servers.add(entry);
            ControlFlow::Continue(())
        })?;
        let mut fold = Fold::new(GroupBy::Host, &listeners);
        let connected = ask(StateSet::FLOWS, self.processes, false);
        listing.run(&connected, owners.as_ref(), report, &mut |entry, _| {
            let peer = entry.socket.peer.ip();
            if peer.is_some_and(|peer| self.peers.include(peer))
                && StateSet::FLOWS.contains(entry.socket.state)
            {
                fold.add(entry);
            }
            ControlFlow::Continue(())
        })?;
        let mut flows = fold.finish().flows;
        flows.sort_unstable_by_key(|flow| flow.key);
        Ok((flows, servers))
    }

    fn common(&self) -> ListingArgs {
        ListingArgs {
            processes: self.processes,
            numeric: self.numeric,
            ipv4: false,
            ipv6: false,
            netns: None,
            complete: false,
            source: SourceArg::Auto,
            format: FormatArg::Table,
            no_header: false,
            color: ColorArg::Never,
            btf: BpfEngine::TYPES.into(),
            names_timeout: NAMES_PATIENCE,
            verbose: self.debug,
        }
    }
}

impl Peers {
    fn include(self, peer: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Public => !is_private(peer),
            Self::Private => is_private(peer),
        }
    }
}

/// What lstf calls private: loopback, RFC 1918, `fe80::/10`, `fc00::/7`. Not `169.254/16` and `100.64/10`, which our own
/// filters count as private.
fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unique_local(),
    }
}

/// Who holds listeners: to them belong connections that nobody holds, as in TIME_WAIT.
#[derive(Debug, Default)]
struct Servers(HashMap<u16, Vec<(IpAddr, Process)>>);

impl Servers {
    fn add(&mut self, entry: &Entry<'_>) {
        let last = entry.owners.unwrap_or_default().last();
        let end = &entry.socket.local;
        if let (Some(owner), Some(ip), Some(port)) = (last, end.ip(), end.port()) {
            self.0
                .entry(port.0)
                .or_default()
                .push((ip.to_canonical(), owner.process));
        }
    }

    /// Of several listeners on the port that one which is bound to the very address.
    fn of(&self, flow: &Flow) -> Option<Process> {
        let key = &flow.key;
        let (Direction::Passive, Some(port)) = (key.direction, key.port) else {
            return None;
        };
        let at_port = self.0.get(&port.0)?;
        let bound = at_port.iter().rfind(|(ip, _)| Some(*ip) == key.local);
        let wildcard = || at_port.iter().rfind(|(ip, _)| ip.is_unspecified());
        bound.or_else(wildcard).map(|(_, process)| *process)
    }
}

/// lstf's exit status for whatever goes wrong, help included.
const FAILED: u8 = 11;

/// What failed when no listing came, in lstf's words.
const READING: &str = "failed to get host flows";

/// Some thirty years, so that no clock overflows.
const WATCH_SECONDS_MAX: u64 = 1_000_000_000;

/// How long names of hosts may take, all together. lstf asks for one after the other, however long it takes.
const NAMES_PATIENCE: Duration = Duration::from_secs(5);

/// The text of lstf itself, for those who read it by script.
const HELP: &str = "\
Usage: lstf [options]

  Print TCP flows between localhost and other hosts

Options:
  --numeric, -n             \tshow numerical addresses instead of trying to determine symbolic host names.
  --processes, -p          \t \tshow process using socket
  --json                    \tprint results as json format
  --filter FILTER, -f FILTER\tfilter results by \"all\", \"public\" or \"private\" (default: \"all\")
  --watch=SECONDS, -w=SECONDS\tprint periodically (SECONDS should be an interger like '3s')

  --version, -v\t            \tprint version
  --help, -h                \tprint help
  --credits                 \tprint CREDITS
";

const CREDITS: &[u8] = b"This is sockeye, which stands in for lstf 0.7.2 and holds no code of it.
lstf: Copyright (c) yuuki, MIT licence, github.com/yuuki/lstf
sockeye: MIT or Apache-2.0, at your option
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_is_what_lstf_takes_for_it() {
        for ip in [
            "127.8.0.1",
            "10.0.0.1",
            "172.31.0.1",
            "192.168.1.1",
            "::1",
            "fe80::1",
            "febf::1",
            "fd77::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "169.254.1.1",
            "100.64.0.1",
            "172.32.0.1",
            "0.0.0.0",
            "::",
            "fec0::1",
            "2001:db8::1",
        ] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }
}
