//! `packet_diag` messages to `Socket`, for the `sock_diag` source. Rings and filters are in `diag_details`.

use super::Socket;
use crate::{Endpoint, Family, InterfaceIndex, Protocol, State, Uid};
use sockeye_wire::packet_diag::{Info, PacketDiag, attribute};

impl Socket {
    /// Creates a socket from a `packet_diag` message. PACKET sockets have no state; it is [`State::Close`],
    /// neither connected nor listening.
    ///
    /// # Errors
    /// When the header of an attribute is malformed. An attribute too short for its type is `None`.
    #[inline]
    pub fn from_packet_diag(wire: &PacketDiag<'_>) -> Result<Self, sockeye_wire::Error> {
        let mut socket = Self::with_identity(
            Protocol::from_packet_type(wire.kind()),
            Family::from_number(wire.family()),
            State::Close,
            wire.inode(),
            wire.cookie(),
        );
        for attribute in wire.attributes() {
            let attribute = attribute?;
            match attribute.kind {
                attribute::INFO => {
                    let index = Info::parse(attribute.payload).map_or(0, |info| info.interface);
                    socket.interface = (index != 0).then_some(InterfaceIndex(index));
                }
                attribute::UID => socket.uid = attribute.u32().map(Uid),
                attribute::MEMINFO => socket.read_memory_and_queues(attribute.payload),
                _ => {}
            }
        }
        socket.local = Endpoint::Packet {
            ethertype: wire.ethertype(),
            interface: socket.interface,
        };
        Ok(socket)
    }
}

impl Protocol {
    /// Converts the `SOCK_*` type of a PACKET socket.
    #[must_use]
    pub const fn from_packet_type(number: u8) -> Self {
        match number {
            2 => Self::PacketDgram,
            3 => Self::PacketRaw,
            unknown => Self::Unknown(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::{Inode, Queues};

    fn socket(kind: u8, attributes: &[(u16, &[u8])]) -> Socket {
        let mut bytes = vec![17, kind];
        bytes.extend_from_slice(&0x0800_u16.to_ne_bytes());
        bytes.extend(build::words(&[77, 5, 0]));
        let bytes = build::attributes(bytes, attributes);
        Socket::from_packet_diag(&PacketDiag::parse(&bytes).unwrap()).unwrap()
    }

    #[test]
    fn bound_socket_has_interface_and_user() {
        let found = socket(
            3,
            &[
                (attribute::INFO, &build::words(&[2, 0, 0, 0, 0, 1])),
                (attribute::UID, &build::words(&[1000])),
                (attribute::MEMINFO, &build::words(&[832, 9, 1, 9, 0, 0, 0, 0, 7])),
            ],
        );
        assert_eq!((found.protocol, found.state), (Protocol::PacketRaw, State::Close));
        assert_eq!(
            found.local,
            Endpoint::Packet {
                ethertype: 0x0800,
                interface: Some(InterfaceIndex(2))
            }
        );
        assert_eq!(
            (found.interface, found.inode),
            (Some(InterfaceIndex(2)), Some(Inode(77)))
        );
        assert_eq!(found.uid, Some(Uid(1000)));
        assert_eq!(
            found.queues,
            Queues::Data {
                receive_bytes: 832,
                send_bytes: 1
            }
        );
        assert_eq!(found.memory.unwrap().drops, Some(7));
    }

    #[test]
    fn missing_attributes_are_none() {
        let found = socket(10, &[(attribute::INFO, &[1])]);
        assert_eq!(found.protocol, Protocol::Unknown(10));
        assert_eq!(
            (found.interface, found.uid, found.memory, found.queues),
            (None, None, None, Queues::Unknown)
        );
    }
}
