//! `unix_diag` messages to `Socket`, for the `sock_diag` source; UNIX names and socket types.

use super::Socket;
use crate::{Endpoint, Family, Inode, Memory, Protocol, Queues, Shutdown, State, Uid, UnixName};
use sockeye_wire::inet_diag::SkMemInfo;
use sockeye_wire::netlink::Attribute;
use sockeye_wire::unix_diag::{Name, Queues as WireQueues, UnixDiag, attribute};

impl Socket {
    /// Creates a socket from a `unix_diag` message.
    ///
    /// The message has only the inode of the peer, not its name. A peer without an inode is not accepted yet.
    ///
    /// # Errors
    /// When the header of an attribute is malformed. An attribute too short for its type is `None`.
    #[inline]
    pub fn from_unix_diag(wire: &UnixDiag<'_>) -> Result<Self, sockeye_wire::Error> {
        let mut socket = Self::with_identity(
            Protocol::from_unix_type(wire.kind()),
            Family::from_number(wire.family()),
            State::from_number(wire.state()),
            wire.inode(),
            wire.cookie(),
        );
        socket.local = Endpoint::Unix {
            name: None,
            inode: socket.inode,
        };
        for attribute in wire.attributes() {
            socket.read_unix_attribute(&attribute?);
        }
        Ok(socket)
    }

    #[inline]
    fn read_unix_attribute(&mut self, attribute: &Attribute<'_>) {
        let payload = attribute.payload;
        match attribute.kind {
            attribute::NAME => {
                self.local = Endpoint::Unix {
                    name: Name::parse(payload).map(UnixName::from),
                    inode: self.inode,
                };
            }
            attribute::PEER => {
                if let Some(inode) = attribute.u32() {
                    self.peer = Endpoint::Unix {
                        name: None,
                        inode: (inode != 0).then_some(Inode(inode)),
                    };
                }
            }
            attribute::RQLEN => {
                if let Some(WireQueues { receive, send }) = WireQueues::parse(payload) {
                    self.queues = Queues::of(self.state, receive, send);
                }
            }
            attribute::MEMINFO => self.memory = Some(Memory::from(SkMemInfo::new(payload))),
            attribute::SHUTDOWN => self.shutdown = attribute.u8().map(Shutdown::from_bits),
            attribute::UID => self.uid = attribute.u32().map(Uid),
            _ => {}
        }
    }
}

impl From<Name<'_>> for UnixName {
    fn from(name: Name<'_>) -> Self {
        match name {
            Name::Path(path) => Self::new(path),
            Name::Abstract(name) => Self::joined(&[0], name),
        }
    }
}

impl Protocol {
    /// Converts the `SOCK_*` type of a UNIX socket.
    #[must_use]
    pub const fn from_unix_type(number: u8) -> Self {
        match number {
            1 => Self::UnixStream,
            2 => Self::UnixDgram,
            5 => Self::UnixSeqpacket,
            unknown => Self::Unknown(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::Cookie;

    fn socket(kind: u8, state: u8, attributes: &[(u16, &[u8])]) -> Socket {
        let mut bytes = vec![1, kind, state, 0];
        bytes.extend(build::words(&[77, 5, 0]));
        let bytes = build::attributes(bytes, attributes);
        Socket::from_unix_diag(&UnixDiag::parse(&bytes).unwrap()).unwrap()
    }

    #[test]
    fn listener_has_path_and_accept_queue() {
        let found = socket(
            1,
            10,
            &[
                (attribute::NAME, b"/run/x y\0"),
                (attribute::RQLEN, &build::words(&[1, 5])),
                (attribute::UID, &build::words(&[0])),
                (attribute::SHUTDOWN, &[0]),
            ],
        );
        assert_eq!(
            (found.protocol, found.state),
            (Protocol::UnixStream, State::Listen)
        );
        assert_eq!((found.family, found.cookie), (Family::Unix, Some(Cookie(5))));
        assert_eq!(
            found.local,
            Endpoint::Unix {
                name: Some(UnixName::new(b"/run/x y")),
                inode: Some(Inode(77))
            }
        );
        assert_eq!(found.peer, Endpoint::None);
        assert_eq!(
            found.queues,
            Queues::Accept {
                waiting: 1,
                backlog: Some(5)
            }
        );
        assert_eq!(
            (found.uid, found.shutdown),
            (Some(Uid(0)), Some(Shutdown::from_bits(0)))
        );
        assert!(found.is_listener());
    }

    #[test]
    fn peer_that_is_not_accepted_has_no_inode() {
        let found = socket(
            5,
            1,
            &[
                (attribute::NAME, b"\0a\0b\0"),
                (attribute::PEER, &build::words(&[0])),
                (attribute::RQLEN, &build::words(&[3, 768])),
            ],
        );
        assert_eq!(found.protocol, Protocol::UnixSeqpacket);
        assert_eq!(
            found.local,
            Endpoint::Unix {
                name: Some(UnixName::new(b"\0a\0b\0")),
                inode: Some(Inode(77))
            }
        );
        assert_eq!(
            found.peer,
            Endpoint::Unix {
                name: None,
                inode: None
            }
        );
        assert_eq!(
            found.queues,
            Queues::Data {
                receive_bytes: 3,
                send_bytes: 768
            }
        );
    }

    #[test]
    fn missing_attributes_are_none_and_unknown_numbers_are_kept() {
        let found = socket(9, 77, &[(attribute::PEER, &[1]), (4000, b"?")]);
        assert_eq!(
            (found.protocol, found.state),
            (Protocol::Unknown(9), State::Unknown(77))
        );
        assert_eq!(
            (found.peer, found.queues, found.uid),
            (Endpoint::None, Queues::Unknown, None)
        );
        assert_eq!((found.memory, found.shutdown), (None, None));
    }
}
