//! Rows of several sockets of one process as one row: a resolver has a socket for each question.

use super::rows::{DropRow, KnownBy};
use sockeye_drops::Family;
use sockeye_model::{Comm, DeviceName, FirewallRuleName, InterfaceIndex, NetnsInode, Pid};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Merges the rows of sockets of one process that differ by a local port that only the peer of one packet needs.
pub(super) fn by_process(rows: Vec<DropRow>) -> Vec<DropRow> {
    let mut merged: Vec<DropRow> = Vec::new();
    let mut places: HashMap<FoldKey, usize> = HashMap::new();
    for row in rows {
        let place = match FoldKey::of(&row) {
            Some(key) => *places.entry(key).or_insert(merged.len()),
            None => merged.len(),
        };
        match merged.get_mut(place) {
            Some(same) => {
                same.add(&row);
                same.sockets += row.sockets;
                same.inode = None;
                same.state = same.state.filter(|state| row.state == Some(*state));
                same.was_running |= row.was_running;
            }
            None => merged.push(row),
        }
    }
    merged
}

/// What rows of several sockets have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FoldKey {
    reason: Option<String>,
    place: Option<String>,
    netns: Option<NetnsInode>,
    ifindex: Option<InterfaceIndex>,
    device: Option<DeviceName>,
    family: Option<Family>,
    protocol: Option<u8>,
    pid: Pid,
    comm: Comm,
    others: usize,
    known_by: Option<KnownBy>,
    local: IpAddr,
    peer: Option<SocketAddr>,
    rule: Option<FirewallRuleName>,
    rules: Vec<FirewallRuleName>,
}

impl FoldKey {
    /// `None` for a row that stays as it is: without an owner, or where the local port is that of a service.
    fn of(row: &DropRow) -> Option<Self> {
        let (owner, local) = (row.owner?, row.local?);
        let service = row.peer.map(|peer| peer.port()).or_else(|| {
            let headers = row.samples.last()?;
            match headers.source_port == Some(local.port()) {
                true => headers.destination_port,
                false => headers.source_port,
            }
        })?;
        // Of both ports the lower one is that of the service, as in flows.
        (local.port() > service).then(|| Self {
            reason: row.reason.clone(),
            place: row.place.clone(),
            netns: row.netns,
            ifindex: row.ifindex,
            device: row.device,
            family: row.family,
            protocol: row.protocol,
            pid: owner.process.pid,
            comm: owner.process.comm,
            others: owner.others,
            known_by: row.known_by,
            local: local.ip(),
            peer: row.peer,
            rule: row.rule.clone(),
            rules: row.rules.clone(),
        })
    }
}
