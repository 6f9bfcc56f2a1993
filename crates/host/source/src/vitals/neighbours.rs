//! Neighbour (ARP and NDP) tables from rtnetlink: the fill of the tables that all namespaces share, for
//! `host.rs`, and the entries of one namespace that the limits do not count, for `reader.rs`, which counts them
//! only if a table is at least half full.

use crate::dump::run_here;
use sockeye_model::{InterfaceIndex, NeighbourTable, Neighbours};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::rtnetlink::{self, Neighbour, RTM_NEWNEIGH, RTM_NEWNEIGHTBL};

/// Reads the neighbour tables that all namespaces share; empty if netlink is forbidden.
pub(super) fn tables(buffer: &mut Vec<u8>) -> Vec<NeighbourTable> {
    let mut tables = Vec::new();
    let Ok(route) = NetlinkSocket::open_route() else {
        return tables;
    };
    let request = rtnetlink::NeighbourTable::dump(SEQUENCE);
    run_here(&route, &request, SEQUENCE, buffer, &mut |message| {
        if message.kind == RTM_NEWNEIGHTBL
            && let Ok(table) = rtnetlink::NeighbourTable::parse(message.payload)
        {
            tables.extend(NeighbourTable::from_wire(&table));
        }
    });
    tables
}

/// Whether a neighbour table is so full that the entries of each namespace should be counted. It does not report how many
/// entries its limit applies to.
pub(super) fn are_crowded(buffer: &mut Vec<u8>) -> bool {
    tables(buffer)
        .iter()
        .any(|table| table.fill.used.saturating_mul(2) >= table.fill.max)
}

/// Counts the neighbours of the calling thread's namespace. No limit applies to those of `loopback`, permanent and learned
/// ones.
pub(super) fn count(loopback: InterfaceIndex, buffer: &mut Vec<u8>) -> Option<Neighbours> {
    let route = NetlinkSocket::open_route().ok()?;
    let mut neighbours = Neighbours::default();
    run_here(
        &route,
        &Neighbour::dump(SEQUENCE),
        SEQUENCE,
        buffer,
        &mut |message| {
            if message.kind != RTM_NEWNEIGH {
                return;
            }
            let Ok(neighbour) = Neighbour::parse(message.payload) else {
                return;
            };
            let is_limited = neighbour.is_limited() && neighbour.index.cast_unsigned() != loopback.0;
            match (neighbour.family, is_limited) {
                (AF_INET, false) => neighbours.exempt_ipv4 += 1,
                (AF_INET6, false) => neighbours.exempt_ipv6 += 1,
                (AF_INET, true) => neighbours.limited_ipv4 += 1,
                (AF_INET6, true) => neighbours.limited_ipv6 += 1,
                _ => {}
            }
        },
    );
    Some(neighbours)
}

const SEQUENCE: u32 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
