//! The session that we were started from: whoever sits at it should not cut it off by chance.

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

/// Who and what leads to us.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Our process and those that it descends from, but the first of all.
    processes: BTreeSet<Pid>,
    /// Connections that lead to us: those that a login came by, and those that our processes hold.
    connections: HashSet<[End; 2]>,
}

type End = (IpAddr, u16);

impl Session {
    /// Looks at our environment, and at that of our ancestors: sudo(8) takes it away.
    pub(super) fn own() -> Self {
        let mut session = Self::default();
        session
            .connections
            .extend(std::env::var_os(VARIABLE).and_then(|value| login(value.as_bytes())));
        let mut next = Some(Pid(std::process::id()));
        while let Some(pid) = next.filter(|pid| pid.0 > 1) {
            // A parent that ended meanwhile has left its child to the first process: this ends in any case.
            if !session.processes.insert(pid) {
                break;
            }
            session.connections.extend(login_of(pid));
            next = parent(pid);
        }
        session
    }

    /// Learns which connections its processes hold: where the other end of one is on this host as well (a proxy, a tunnel,
    /// a login from here to here), closing that one cuts us off just the same.
    pub(super) fn learn(
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
        let ask = QueryOptions {
            protocols: ProtocolSet::of(&[Protocol::Tcp]),
            // Of a v4 connection either end may be a v6 socket.
            families: Families::BOTH,
            states: StateSet::ALL,
            detail: Detail::INODE,
            scope: Scope::Matching,
        };
        let mut report = listing.begin();
        listing.run(&ask, Some(&targets.owners), &mut report, &mut |entry, _| {
            let ends = ends(&entry.socket.local, &entry.socket.peer);
            self.connections.extend(ends.filter(|[_, peer]| peer.1 != 0));
            ControlFlow::Continue(())
        })
    }

    /// Whether closing it would cut us off.
    pub(super) fn needs(&self, target: &Target, targets: &Targets) -> bool {
        let owners = targets.owners_of(target);
        owners
            .iter()
            .any(|owner| self.processes.contains(&owner.process.pid))
            || self.came_by(target)
    }

    fn came_by(&self, target: &Target) -> bool {
        // Where both ends are on this host, either is ours.
        ends(&target.local, &target.peer).is_some_and(|[local, peer]| {
            self.connections.contains(&[local, peer]) || self.connections.contains(&[peer, local])
        })
    }
}

/// Both ends, v4-mapped addresses as what they stand for.
fn ends(local: &Endpoint, peer: &Endpoint) -> Option<[End; 2]> {
    let end = |endpoint: &Endpoint| Some((endpoint.ip()?.to_canonical(), endpoint.port()?.0));
    Some([end(local)?, end(peer)?])
}

/// What `SSH_CONNECTION` says: client, its port, server, its port.
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
    fn logins() {
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
    fn the_own_session_has_us_and_our_parent() {
        let session = Session::own();
        assert!(session.processes.contains(&Pid(std::process::id())));
        assert!(!session.processes.contains(&Pid(1)));
        assert_eq!(
            parent(Pid(std::process::id())),
            Some(Pid(std::os::unix::process::parent_id()))
        );
    }
}
