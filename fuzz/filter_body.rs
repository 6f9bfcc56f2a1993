//! Body of the fuzz target `filter_expressions`, and of the test that replays its corpus.

use sockeye_filter::{KernelFeatures, NoResolve, parse};
use sockeye_model::{Endpoint, Entry, Family, InterfaceIndex, Port, Protocol, Socket, State};
use sockeye_wire::bytecode::{SocketEntry, audit, run};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parses an expression: the error can be printed; or the filter is printed, parsed again, compiled, evaluated as
/// the kernel would, and bounded.
pub(crate) fn filter_expressions(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let filter = match parse(&text, &NoResolve) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(text.get(error.span.clone()).is_some(), "{error:?}");
            let rendered = error.render(&text);
            assert_eq!(rendered.lines().count(), 3, "{rendered:?}");
            assert!(
                !rendered.contains(|c: char| c.is_control() && c != '\n'),
                "{rendered:?}"
            );
            return;
        }
    };
    let printed = filter.to_string();
    let again = parse(&printed, &NoResolve);
    assert!(again.as_ref() == Ok(&filter), "{printed:?} {again:?}");
    let bounds = filter.bounds();
    for kernel in [
        KernelFeatures::FULL,
        KernelFeatures::UNPRIVILEGED,
        KernelFeatures::OLDEST,
    ] {
        let program = filter.program(kernel);
        if !program.bytecode.is_empty() {
            assert_eq!(audit(&program.bytecode, kernel.net_admin), Ok(()), "{printed}");
        }
        for (socket, subject) in sockets() {
            let listed = filter.states().is_none_or(|states| states.contains(socket.state))
                && run(&program.bytecode, &subject);
            let matches = filter.matches(&Entry::new(&socket));
            assert!(listed || !matches, "{printed}: the program loses {socket:?}");
            assert!(
                !program.exact || listed == matches,
                "{printed}: not exact for {socket:?}"
            );
            let within = filter.states().is_none_or(|states| states.contains(socket.state))
                && bounds.contains(&socket);
            assert!(within || !matches, "{printed}: {bounds:?} exclude {socket:?}");
            assert!(
                !bounds.exact || within == matches,
                "{printed}: {bounds:?} not exact for {socket:?}"
            );
        }
    }
}

/// IPv4, IPv6 and v4-mapped; as a record and as the kernel sees it.
fn sockets() -> impl Iterator<Item = (Socket, SocketEntry)> {
    let v4 = |ip: [u8; 4]| IpAddr::V4(Ipv4Addr::from(ip));
    let v6 = |ip: Ipv6Addr| IpAddr::V6(ip);
    let mapped = |ip: [u8; 4]| v6(Ipv4Addr::from(ip).to_ipv6_mapped());
    [
        (
            v4([127, 0, 0, 1]),
            80,
            v4([10, 0, 0, 1]),
            40000,
            State::Established,
            0,
        ),
        (v4([0; 4]), 22, v4([0; 4]), 0, State::Listen, 1),
        (
            v6(Ipv6Addr::UNSPECIFIED),
            443,
            v6(Ipv6Addr::UNSPECIFIED),
            0,
            State::Listen,
            0,
        ),
        (
            v6(Ipv6Addr::LOCALHOST),
            40000,
            v6(Ipv6Addr::LOCALHOST),
            443,
            State::TimeWait,
            0,
        ),
        (
            mapped([127, 0, 0, 1]),
            80,
            mapped([8, 8, 8, 8]),
            65535,
            State::CloseWait,
            2,
        ),
    ]
    .into_iter()
    .map(
        |(source, source_port, destination, destination_port, state, interface)| {
            let mut socket = Socket::new(Protocol::Tcp, state);
            socket.family = if source.is_ipv6() {
                Family::Inet6
            } else {
                Family::Inet
            };
            socket.local = Endpoint::inet(source, Port(source_port));
            socket.peer = Endpoint::inet(destination, Port(destination_port));
            socket.interface = (interface != 0).then_some(InterfaceIndex(interface));
            let subject = SocketEntry {
                family: socket.family.number(),
                source: octets(source),
                destination: octets(destination),
                source_port,
                destination_port,
                interface,
                ..SocketEntry::default()
            };
            (socket, subject)
        },
    )
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
    }
}
