//! Which end is the server, if the handshake was not captured.

/// Returns the index of the end that is the server by its port; `None` if the ports do not show it.
///
/// Clients take their ports from a range of the operating system; servers listen below it, mostly at ports that are
/// assigned to a service.
pub(crate) fn server_by_ports(ports: [u16; 2]) -> Option<usize> {
    let one_of = |is_server: fn(u16) -> bool| match ports.map(is_server) {
        [true, false] => Some(0),
        [false, true] => Some(1),
        _ => None,
    };
    one_of(|port| port < WELL_KNOWN_END)
        .or_else(|| one_of(|port| port < EPHEMERAL_BEGIN))
        .or_else(|| one_of(|port| SERVICES.binary_search(&port).is_ok()))
}

/// Ports below this need privileges.
const WELL_KNOWN_END: u16 = 1_024;

/// Linux takes ports of clients from here on; others from 49152 on.
const EPHEMERAL_BEGIN: u16 = 32_768;

/// Ports above the well-known ones at which servers often listen: needed where the client's port is not in the usual range,
/// as behind NAT.
const SERVICES: [u16; 33] = [
    1_433, 1_521, 1_883, 2_049, 2_181, 3_000, 3_128, 3_306, 3_389, 4_443, 5_000, 5_060, 5_201, 5_222, 5_432,
    5_672, 5_900, 6_379, 6_443, 8_000, 8_008, 8_080, 8_081, 8_443, 8_883, 8_888, 9_000, 9_042, 9_090, 9_092,
    9_200, 11_211, 27_017,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_has_the_assigned_port() {
        let check = |ports, server| {
            assert_eq!(server_by_ports(ports), server, "{ports:?}");
            let [one, other] = ports;
            assert_eq!(
                server_by_ports([other, one]),
                server.map(|end| 1 - end),
                "{ports:?}"
            );
        };
        check([443, 47_148], Some(0));
        check([8_000, 47_148], Some(0));
        check([22, 3_306], Some(0));
        check([8_443, 20_113], Some(0));
        check([40_000, 50_000], None);
        check([8_080, 8_080], None);
        assert!(SERVICES.is_sorted());
    }
}
