//! Looks up how the host would send to peers now: the route, and whether the next hop answers ARP or neighbour
//! discovery. `check` asks for connections that cannot send.

use crate::dump::run_here;
use rustix::io::Errno;
use sockeye_model::{BridgePort, InterfaceIndex, NextHop, PathQuery, Route, SendPath};
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::netlink::{Messages, NLMSG_ERROR};
use sockeye_wire::rtnetlink::{FoundRoute, Neighbour, RTM_NEWNEIGH, RTM_NEWROUTE, RouteQuery};
use std::net::IpAddr;

/// Looks up the way of each query in the calling thread's network namespace.
#[must_use]
pub fn send_paths(queries: &[PathQuery]) -> Vec<SendPath> {
    let mut buffer = Vec::new();
    let socket = NetlinkSocket::open_route().ok();
    let found = queries.iter().zip(1..).map(|(&query, sequence)| SendPath {
        query,
        route: socket
            .as_ref()
            .and_then(|socket| look_up(socket, &query, sequence))
            .unwrap_or(Route::Unknown),
        next_hop: None,
        bridge_port: BridgePort::Unknown,
    });
    let mut found: Vec<SendPath> = found.collect();
    if found.iter().any(|path| matches!(path.route, Route::Via { .. })) {
        let neighbours = neighbours(&mut buffer);
        let ports = forwarding(&mut buffer);
        for path in &mut found {
            let Route::Via { device, gateway } = path.route else {
                continue;
            };
            let hop = gateway.unwrap_or_else(|| path.query.to.to_canonical());
            let mut entries = neighbours.iter();
            let entry = entries.find(|entry| (entry.index, entry.ip) == (device, hop));
            path.next_hop = entry.map(|entry| entry.state);
            if let Some(address) = entry.and_then(|entry| entry.link_address)
                && !ports.is_empty()
            {
                let port = ports.iter().find(|(learned, _)| *learned == address);
                path.bridge_port = port.map_or(BridgePort::NotLearned, |(_, port)| BridgePort::Port(*port));
            }
        }
    }
    found
}

fn look_up(socket: &NetlinkSocket, query: &PathQuery, sequence: u32) -> Option<Route> {
    let request = RouteQuery {
        to: query.to.to_canonical(),
        from: query.from.to_canonical(),
        mark: query.mark,
        uid: query.uid.map(|uid| uid.0),
        interface: query.interface.map_or(0, |interface| interface.0),
        ports: query.ports,
    };
    socket.send(&request.request(sequence)).ok()?;
    let mut buffer = [0; 4096];
    let received = socket.receive(&mut buffer).ok()?;
    let mut answers = Messages::new(buffer.get(..received.len)?)
        .flatten()
        .filter(|message| message.sequence == sequence);
    let answer = answers.next()?;
    if answer.kind == NLMSG_ERROR {
        let code = answer.outcome().ok()?.code;
        return (code < 0).then_some(Route::Refused(-code));
    }
    if answer.kind != RTM_NEWROUTE {
        return None;
    }
    let route = FoundRoute::parse(answer.payload).ok()?;
    Some(match route.kind {
        RTN_BLACKHOLE => Route::Refused(Errno::INVAL.raw_os_error()),
        RTN_UNREACHABLE => Route::Refused(Errno::HOSTUNREACH.raw_os_error()),
        RTN_PROHIBIT => Route::Refused(Errno::ACCESS.raw_os_error()),
        _ => Route::Via {
            device: InterfaceIndex(route.interface),
            gateway: route.gateway,
        },
    })
}

/// A neighbour.
#[derive(Debug)]
struct Entry {
    index: InterfaceIndex,
    ip: IpAddr,
    state: NextHop,
    link_address: Option<[u8; 6]>,
}

/// The link addresses that ports of bridges have learned.
fn forwarding(buffer: &mut Vec<u8>) -> Vec<([u8; 6], InterfaceIndex)> {
    let mut all = Vec::new();
    let Ok(socket) = NetlinkSocket::open_route() else {
        return all;
    };
    let request = Neighbour::forwarding_dump(SEQUENCE);
    run_here(&socket, &request, SEQUENCE, buffer, &mut |message| {
        // Permanent entries are the bridge's own addresses, or were set by hand.
        if message.kind == RTM_NEWNEIGH
            && let Ok(entry) = Neighbour::parse(message.payload)
            && let Some(address) = entry.link_address
            && !entry.is_permanent()
            && all.len() < NEIGHBOURS_MAX
        {
            all.push((address, InterfaceIndex(entry.index.cast_unsigned())));
        }
    });
    all
}

/// The neighbours with their interfaces.
fn neighbours(buffer: &mut Vec<u8>) -> Vec<Entry> {
    let mut all = Vec::new();
    // A socket of its own: answers to look-ups must not come in between.
    let Ok(socket) = NetlinkSocket::open_route() else {
        return all;
    };
    run_here(
        &socket,
        &Neighbour::dump(SEQUENCE),
        SEQUENCE,
        buffer,
        &mut |message| {
            if message.kind == RTM_NEWNEIGH
                && let Ok(neighbour) = Neighbour::parse(message.payload)
                && let Some(ip) = neighbour.ip
                && all.len() < NEIGHBOURS_MAX
            {
                let index = InterfaceIndex(neighbour.index.cast_unsigned());
                let state = if neighbour.is_unanswered() {
                    NextHop::Unanswered
                } else if neighbour.is_permanent() {
                    NextHop::Permanent
                } else {
                    NextHop::Known
                };
                all.push(Entry {
                    index,
                    ip,
                    state,
                    link_address: neighbour.link_address,
                });
            }
        },
    );
    all
}

const SEQUENCE: u32 = 1;
const RTN_BLACKHOLE: u8 = 6;
const RTN_UNREACHABLE: u8 = 7;
const RTN_PROHIBIT: u8 = 8;
/// Neighbours that are kept.
const NEIGHBOURS_MAX: usize = 100_000;
