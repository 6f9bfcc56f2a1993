//! From a plan to the listing of host flows.

use super::plan::{FAILED, Plan, plan};
use crate::output::lstf::{Naming, Row, write_json, write_table};
use anyhow::Context;
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_flow::{Fold, Listeners};
use sockeye_model::{Direction, Entry, Flow, GroupBy, Process, ProtocolSet, State, StateSet};
use sockeye_query::args::{ListingArgs, SourceArg};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, ListingReport, QueryOptions, Scope};
use sockeye_source::{BpfEngine, Detail, Families};
use sockeye_sys::local_time::LocalTime;
use std::collections::HashMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs `lstf` with its arguments and returns the exit status.
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

impl Plan {
    fn run(&self) -> anyhow::Result<()> {
        let common = self.common();
        let lookup = QueryContext::new(&common, !self.numeric, false).context(READING)?;
        let listing = Listing::new(&common, &[], None, &lookup).context(READING)?;
        let Some(interval) = self.interval else {
            return self.show(&listing);
        };
        // Ticks that were missed because a listing took long are skipped.
        let mut next = Instant::now();
        loop {
            let LocalTime {
                hour, minute, second, ..
            } = LocalTime::now();
            stdout::write(format!("-- {hour:02}:{minute:02}:{second:02} -- \n").as_bytes())?;
            self.show(&listing)?;
            stdout::write(b"\n")?;
            let now = Instant::now();
            while next <= now {
                next += interval;
            }
            if !stdout::pause(next - now) {
                return Ok(());
            }
        }
    }

    /// Prints one listing.
    fn show(&self, listing: &Listing<'_>) -> anyhow::Result<()> {
        let mut report = listing.begin();
        let (flows, listener_owners) = self.fold(listing, &mut report).context(READING)?;
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
                process: flow.owners.last().copied().or_else(|| listener_owners.of(flow)),
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
        // Processes that ended meanwhile own no sockets any more.
        report.losses.vanished_processes = 0;
        listing.write_notes(&report, self.debug);
        Ok(())
    }

    /// Lists listeners, which decide the direction and own connections without an owner; then folds the connections.
    fn fold(
        &self,
        listing: &Listing<'_>,
        report: &mut ListingReport,
    ) -> anyhow::Result<(Vec<Flow>, ListenerOwners)> {
        let owners = listing.owners(report)?;
        let mut listeners = Listeners::default();
        let mut listener_owners = ListenerOwners::default();
        let query_options = |states, inode, options| QueryOptions {
            protocols: ProtocolSet::of(&[sockeye_model::Protocol::Tcp]),
            families: Families::BOTH,
            states,
            detail: Detail::INODE.when(inode) | Detail::OPTIONS.when(options),
            scope: Scope::All,
        };
        let listening = query_options(StateSet::EMPTY.with(State::Listen), self.processes, true);
        listing.run(&listening, owners.as_ref(), report, &mut |entry, _| {
            listeners.add(entry.socket);
            listener_owners.add(entry);
            ControlFlow::Continue(())
        })?;
        let mut fold = Fold::new(GroupBy::Host, &listeners);
        let connected = query_options(StateSet::FLOWS, self.processes, false);
        listing.run(&connected, owners.as_ref(), report, &mut |entry, _| {
            let peer = entry.socket.peer.ip();
            if peer.is_some_and(|peer| self.peers.includes(peer))
                && StateSet::FLOWS.contains(entry.socket.state)
            {
                fold.add(entry);
            }
            ControlFlow::Continue(())
        })?;
        let mut flows = fold.finish().flows;
        flows.sort(|_| None);
        Ok((flows.iter().collect(), listener_owners))
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
            names_timeout: NAMES_TIMEOUT,
            verbose: self.debug,
        }
    }
}

/// Owners of listeners by port. They are shown for connections without an owner, as in TIME_WAIT.
#[derive(Debug, Default)]
struct ListenerOwners(HashMap<u16, Vec<(IpAddr, Process)>>);

impl ListenerOwners {
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

    /// Returns the owner of the listener on the local port: of one bound to the local address, else of one bound to all.
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

/// lstf's message when listing failed.
const READING: &str = "failed to get host flows";

/// Time limit for all host names together. lstf resolves one after the other, without a limit.
const NAMES_TIMEOUT: Duration = Duration::from_secs(5);
