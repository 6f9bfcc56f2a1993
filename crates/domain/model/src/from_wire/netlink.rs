//! `netlink_diag` messages to `Socket`, for the `sock_diag` source; and the family's own state numbers.

use super::Socket;
use crate::{Endpoint, Family, Protocol, State};
use sockeye_wire::netlink_diag::{NetlinkDiag, attribute};

impl Socket {
    /// Creates a socket from a `netlink_diag` message, which has no user.
    ///
    /// One dump may report a socket twice, see [`sockeye_wire::netlink_diag`].
    ///
    /// # Errors
    /// When the header of an attribute is malformed.
    #[inline]
    pub fn from_netlink_diag(wire: &NetlinkDiag<'_>) -> Result<Self, sockeye_wire::Error> {
        let state = State::from_netlink_number(wire.state());
        let mut socket = Self::with_identity(
            Protocol::Netlink,
            Family::from_number(wire.family()),
            state,
            wire.inode(),
            wire.cookie(),
        );
        let protocol = wire.protocol();
        socket.local = Endpoint::Netlink {
            protocol,
            port: wire.port(),
            group: None,
        };
        // An unconnected socket has two zeros here, which would mean the kernel.
        if state != State::Close {
            socket.peer = Endpoint::Netlink {
                protocol,
                port: wire.destination_port(),
                group: (wire.destination_group() != 0).then_some(wire.destination_group()),
            };
        }
        for attribute in wire.attributes() {
            let attribute = attribute?;
            if attribute.kind == attribute::MEMINFO {
                socket.read_memory_and_queues(attribute.payload);
            }
        }
        Ok(socket)
    }
}

impl State {
    /// Converts netlink's own state numbers (`net/netlink/af_netlink.c`): 1 connected, 0 no longer connected, 7 never
    /// connected (the initial value of every socket).
    #[must_use]
    pub const fn from_netlink_number(number: u8) -> Self {
        match number {
            0 | 7 => Self::Close,
            1 => Self::Established,
            unknown => Self::Unknown(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::{Cookie, Inode, Queues};

    fn socket(state: u8, attributes: &[(u16, &[u8])]) -> Socket {
        let mut bytes = vec![16, 3, 4, state];
        bytes.extend(build::words(&[1234, 0, 3, 77, 5, 0]));
        let bytes = build::attributes(bytes, attributes);
        Socket::from_netlink_diag(&NetlinkDiag::parse(&bytes).unwrap()).unwrap()
    }

    #[test]
    fn connected_socket_has_a_peer() {
        let found = socket(
            1,
            &[(attribute::MEMINFO, &build::words(&[832, 9, 1, 9, 0, 0, 0, 0, 7]))],
        );
        assert_eq!(
            (found.protocol, found.family, found.state),
            (Protocol::Netlink, Family::Netlink, State::Established)
        );
        assert_eq!(
            (found.local, found.peer),
            (
                Endpoint::Netlink {
                    protocol: 4,
                    port: 1234,
                    group: None
                },
                Endpoint::Netlink {
                    protocol: 4,
                    port: 0,
                    group: Some(3)
                }
            )
        );
        assert_eq!(
            (found.inode, found.cookie, found.uid),
            (Some(Inode(77)), Some(Cookie(5)), None)
        );
        assert_eq!(
            found.queues,
            Queues::Data {
                receive_bytes: 832,
                send_bytes: 1
            }
        );
    }

    #[test]
    fn unconnected_socket_has_no_peer() {
        for number in [0, 7] {
            let found = socket(number, &[(attribute::MEMINFO, &[])]);
            assert_eq!((found.state, found.peer), (State::Close, Endpoint::None));
            assert_eq!(found.queues, Queues::Unknown);
        }
        assert_eq!(socket(9, &[]).state, State::Unknown(9));
    }
}
