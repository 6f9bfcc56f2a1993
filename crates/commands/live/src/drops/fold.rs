//! Rows of several sockets of one process as one row: a resolver has a socket for each question.

use super::rows::{DropRow, RowKey, merge};
use sockeye_model::{Comm, DeviceName, FirewallRuleName, Pid};

/// Merges the rows of sockets of one process that differ by a local port that only the peer of one packet needs.
pub(super) fn by_process(rows: Vec<DropRow>) -> Vec<DropRow> {
    merge(rows, FoldKey::of, |same, row| {
        same.add(row);
        same.sockets += row.sockets;
        same.inode = None;
        same.state = same.state.filter(|state| row.state == Some(*state));
        same.was_running |= row.was_running;
    })
}

/// What rows of several sockets have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FoldKey {
    row: RowKey,
    device: Option<DeviceName>,
    pid: Pid,
    comm: Comm,
    others: usize,
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
            row: RowKey::of_any_socket(row, local.ip()),
            device: row.device,
            pid: owner.process.pid,
            comm: owner.process.comm,
            others: owner.others,
            rule: row.rule.clone(),
            rules: row.rules.clone(),
        })
    }
}
