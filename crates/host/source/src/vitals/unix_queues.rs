//! Which connections wait to be accepted at UNIX listeners, from `unix_diag`. `check` compares two looks: a program that
//! accepts takes the first.

use crate::dump::run_here;
use sockeye_model::{Inode, State, StateSet};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::inet_diag::SOCK_DIAG_BY_FAMILY;
use sockeye_wire::unix_diag::{self, UnixDiag, attribute, show};

/// Returns the UNIX listeners of the calling thread's network namespace at which connections wait, and the inodes of their
/// clients in the order of the queue; 0 for a client that is gone. Empty if netlink is forbidden.
#[must_use]
pub fn unix_queues() -> Vec<(Inode, Vec<u32>)> {
    let mut found = Vec::new();
    let Ok(socket) = NetlinkSocket::open() else {
        return found;
    };
    let query = unix_diag::Query {
        states: StateSet::EMPTY.with(State::Listen).bits(),
        show: show::ICONS,
    };
    let mut buffer = Vec::new();
    run_here(
        &socket,
        &query.dump(SEQUENCE),
        SEQUENCE,
        &mut buffer,
        &mut |message| {
            if message.kind != SOCK_DIAG_BY_FAMILY || found.len() >= LISTENERS_MAX {
                return;
            }
            let Ok(listener) = UnixDiag::parse(message.payload) else {
                return;
            };
            let mut attributes = listener.attributes().flatten();
            let waiting = attributes.find(|attribute| attribute.kind == attribute::ICONS);
            if let Some(waiting) = waiting {
                let clients: Vec<u32> = unix_diag::waiting(waiting.payload).collect();
                if !clients.is_empty() {
                    found.push((Inode(listener.inode()), clients));
                }
            }
        },
    );
    found
}

const SEQUENCE: u32 = 1;
/// Listeners that are kept.
const LISTENERS_MAX: usize = 10_000;
