//! The session that we were started from, which should not be closed by accident.

use crate::targets::{Target, Targets};
use sockeye_model::{Endpoint, Pid, Protocol, ProtocolSet, StateSet};
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_source::{Detail, Families};
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

/// Processes and connections of the session.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Our process and its ancestors, without process 1.
    processes: BTreeSet<Pid>,
    /// Connections of the login, and those that the processes hold.
    connections: HashSet<[End; 2]>,
}

type End = (IpAddr, u16);

impl Session {
    /// Finds the session in our environment and that of our ancestors, since sudo(8) clears the environment.
    pub(super) fn own() -> Self {
        let mut session = Self::default();
        session
            .connections
            .extend(std::env::var_os(VARIABLE).and_then(|value| login(value.as_bytes())));
        let mut next = Some(Pid(std::process::id()));
        while let Some(pid) = next.filter(|pid| pid.0 > 1) {
            // A child of a process that ended belongs to process 1 or a subreaper: the loop ends in any case.
            if !session.processes.insert(pid) {
                break;
            }
            session.connections.extend(login_of(pid));
            next = parent(pid);
        }
        session
    }

    /// Adds the connections that its processes hold: if the other end is on this host too (a proxy, a tunnel, a local
    /// login), closing that end also cuts off the session.
    pub(super) fn add_connections(
        &mut self,
        common: &ListingArgs,
        context: &QueryContext,
        targets: &Targets,
    ) -> anyhow::Result<()> {
        let words: Vec<String> = self.processes.iter().map(|pid| format!("pid = {pid}")).collect();
        if words.is_empty() || targets.all.is_empty() {
            return Ok(());
        }
        let listing = Listing::new(common, &[words.join(" or ")], None, context)?;
        let options = QueryOptions {
            protocols: ProtocolSet::of(&[Protocol::Tcp]),
            // Either end of a v4 connection may be a v6 socket.
            families: Families::BOTH,
            states: StateSet::ALL,
            detail: Detail::INODE,
            scope: Scope::Matching,
        };
        let mut report = listing.begin();
        listing.run(&options, Some(&targets.owners), &mut report, &mut |entry, _| {
            let ends = ends(&entry.socket.local, &entry.socket.peer);
            self.connections.extend(ends.filter(|[_, peer]| peer.1 != 0));
            ControlFlow::Continue(())
        })
    }

    /// Returns whether closing a target would cut off the session.
    pub(super) fn needs(&self, target: &Target, targets: &Targets) -> bool {
        let owners = targets.owners_of(target);
        owners
            .iter()
            .any(|owner| self.processes.contains(&owner.process.pid))
            || self.has_connection(target)
    }

    fn has_connection(&self, target: &Target) -> bool {
        // If both ends are on this host, either is part of the connection.
        ends(&target.local, &target.peer).is_some_and(|[local, peer]| {
            self.connections.contains(&[local, peer]) || self.connections.contains(&[peer, local])
        })
    }
}

/// Returns both ends, v4-mapped addresses as IPv4; `None` without addresses.
fn ends(local: &Endpoint, peer: &Endpoint) -> Option<[End; 2]> {
    let end = |endpoint: &Endpoint| Some((endpoint.ip()?.to_canonical(), endpoint.port()?.0));
    Some([end(local)?, end(peer)?])
}

/// Parses `SSH_CONNECTION`: client, its port, server, its port.
fn login(value: &[u8]) -> Option<[End; 2]> {
    let text = std::str::from_utf8(value).ok()?;
    let mut words = text.split_ascii_whitespace();
    let mut end = || {
        // `fe80::1%eth0`
        let address = words.next()?;
        let address = address.split_once('%').map_or(address, |(address, _)| address);
        let ip: IpAddr = address.parse().ok()?;
        Some((ip.to_canonical(), words.next()?.parse().ok()?))
    };
    Some([end()?, end()?])
}

fn login_of(pid: Pid) -> Option<[End; 2]> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let prefix = [VARIABLE.as_bytes(), b"="].concat();
    variables.find_map(|variable| login(variable.strip_prefix(&prefix[..])?))
}

fn parent(pid: Pid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok().map(Pid)
}

const VARIABLE: &str = "SSH_CONNECTION";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_connection_is_parsed_and_bad_values_are_none() {
        let end = |ip: &str, port| (ip.parse::<IpAddr>().unwrap(), port);
        assert_eq!(
            login(b"10.0.0.9 50001 10.0.0.1 22"),
            Some([end("10.0.0.9", 50001), end("10.0.0.1", 22)])
        );
        assert_eq!(
            login(b"fe80::1%eth0 50001 ::ffff:10.0.0.1 22"),
            Some([end("fe80::1", 50001), end("10.0.0.1", 22)])
        );
        for bad in [
            &b""[..],
            b"10.0.0.9 50001 10.0.0.1",
            b"a b c d",
            b"10.0.0.9 99999 10.0.0.1 22",
            b"\xff",
        ] {
            assert_eq!(login(bad), None);
        }
    }

    #[test]
    fn own_session_has_us_and_our_parent() {
        let session = Session::own();
        assert!(session.processes.contains(&Pid(std::process::id())));
        assert!(!session.processes.contains(&Pid(1)));
        assert_eq!(
            parent(Pid(std::process::id())),
            Some(Pid(std::os::unix::process::parent_id()))
        );
    }
}
