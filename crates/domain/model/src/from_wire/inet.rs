//! `inet_diag` messages (TCP, UDP, RAW, MPTCP) to `Socket`: `host/source` calls it for dumps,
//! single queries, destroy events and saved files. Head and attributes are separate steps, because a dump
//! that needs only the head skips the attributes.

use crate::{
    Algorithm, CgroupId, Cookie, Endpoint, Family, Inode, InterfaceIndex, Memory, MptcpInfo, Options,
    Protocol, Queues, Shutdown, Socket, State, TcpInfo, Timer, Ulp,
};
use sockeye_wire::inet_diag::{
    BbrInfo, DctcpInfo, InetDiag, MemoryInfo, MptcpInfo as WireMptcpInfo, SkMemInfo, SocketOptions,
    VegasInfo, attribute, ulp,
};
use sockeye_wire::netlink::{Attribute, Attributes};
use sockeye_wire::tcp_info::TcpInfo as WireTcpInfo;

impl Socket {
    /// Creates a socket from an `inet_diag` message. `protocol` is the one of the request.
    ///
    /// # Errors
    /// When the header of an attribute is malformed. An attribute too short for its type is `None`.
    pub fn from_inet_diag(wire: &InetDiag<'_>, protocol: Protocol) -> Result<Self, sockeye_wire::Error> {
        let mut socket = Self::new(protocol, State::Close);
        socket.read_inet_diag(wire, protocol)?;
        Ok(socket)
    }

    /// Reads an `inet_diag` message into an existing socket.
    ///
    /// # Errors
    /// As [`Socket::from_inet_diag`]; the fields before the error are set.
    #[inline]
    pub fn read_inet_diag(
        &mut self,
        wire: &InetDiag<'_>,
        protocol: Protocol,
    ) -> Result<(), sockeye_wire::Error> {
        self.read_inet_diag_head(wire, protocol);
        self.read_inet_diag_attributes(wire)
    }

    /// Reads the attributes, after [`Socket::read_inet_diag_head`].
    ///
    /// # Errors
    /// As [`Socket::read_inet_diag`].
    #[inline]
    pub fn read_inet_diag_attributes(&mut self, wire: &InetDiag<'_>) -> Result<(), sockeye_wire::Error> {
        for attribute in wire.attributes() {
            self.read_inet_attribute(&attribute?);
        }
        Ok(())
    }

    /// Reads the fixed part of the message: endpoints, state, queues, timer, inode, user and cookie.
    #[inline]
    pub fn read_inet_diag_head(&mut self, wire: &InetDiag<'_>, protocol: Protocol) {
        let state = match State::from_number(wire.state()) {
            // TCP's tables contain no closed sockets. A bound socket that neither listens nor connects is
            // reported in this state if requested (Linux 6.8, net/ipv4/inet_diag.c: TCPF_BOUND_INACTIVE).
            State::Close if protocol == Protocol::Tcp => State::BoundInactive,
            state => state,
        };
        let family = Family::from_number(wire.family());
        self.clear(protocol, state);
        self.family = family;
        self.inode = (wire.inode() != 0).then_some(Inode(wire.inode()));
        self.cookie = Some(Cookie(wire.cookie()));
        let is_v6 = family == Family::Inet6;
        self.local = Endpoint::from_wire(is_v6, wire.source(), wire.source_port());
        self.peer = Endpoint::from_wire(is_v6, wire.destination(), wire.destination_port());
        self.interface = (wire.interface() != 0).then_some(InterfaceIndex(wire.interface()));
        self.set_uid(wire.uid());
        self.timer = Timer::from_numbers(wire.timer(), wire.expires_ms(), u32::from(wire.retransmits()));
        self.queues = Queues::of(state, wire.receive_queue(), wire.send_queue());
    }

    #[inline]
    fn read_inet_attribute(&mut self, attribute: &Attribute<'_>) {
        let payload = attribute.payload;
        match attribute.kind {
            attribute::SHUTDOWN => self.shutdown = attribute.u8().map(Shutdown::from_bits),
            attribute::CGROUP_ID => self.cgroup = attribute.u64().map(CgroupId),
            attribute::SOCKOPT => self.options = SocketOptions::parse(payload).map(|o| Options(o.bits())),
            attribute::MARK => self.mark = attribute.u32(),
            attribute::INFO if self.protocol == Protocol::Mptcp => {
                self.mptcp_info = Some(MptcpInfo::from(WireMptcpInfo::new(payload)));
            }
            attribute::INFO if self.protocol == Protocol::Tcp => {
                self.tcp_info = Some(TcpInfo::from_wire(&WireTcpInfo::new(payload), self.state));
            }
            attribute::CONG => self.congestion = Some(Algorithm::from_c(payload)),
            attribute::SKMEMINFO => self.memory = Some(Memory::from(SkMemInfo::new(payload))),
            // Used only if SKMEMINFO is missing (before Linux 3.6).
            attribute::MEMINFO if self.memory.is_none() => {
                self.memory = MemoryInfo::parse(payload).map(Memory::from);
            }
            attribute::VEGASINFO => self.congestion_info = VegasInfo::parse(payload).map(Into::into),
            attribute::DCTCPINFO => self.congestion_info = DctcpInfo::parse(payload).map(Into::into),
            attribute::BBRINFO => self.congestion_info = BbrInfo::parse(payload).map(Into::into),
            attribute::TOS => self.tos = attribute.u8(),
            attribute::TCLASS => self.tclass = attribute.u8(),
            attribute::SKV6ONLY => self.v6only = attribute.u8().map(|flag| flag != 0),
            attribute::CLASS_ID => self.class_id = attribute.u32(),
            attribute::ULP_INFO => {
                let name = Attributes::new(payload)
                    .flatten()
                    .find(|nested| nested.kind == ulp::NAME);
                self.ulp = name.map(|name| Ulp::from_c(name.payload));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;
    use crate::{Port, TimerKind};

    /// Builds a `struct inet_diag_msg` with the given family and state, then attributes.
    fn message(family: u8, state: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![family, state, 1, 2, 0, 80, 0x9c, 0x40];
        bytes.extend_from_slice(&[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(build::words(&[0, 5, 0, 200, 3, 4, 0, 0]));
        build::attributes(bytes, attributes)
    }

    fn socket(bytes: &[u8], protocol: Protocol) -> Socket {
        Socket::from_inet_diag(&InetDiag::parse(bytes).unwrap(), protocol).unwrap()
    }

    #[test]
    fn closed_tcp_socket_is_bound_inactive() {
        let bytes = message(2, 7, &[]);
        assert_eq!(socket(&bytes, Protocol::Tcp).state, State::BoundInactive);
        assert_eq!(socket(&bytes, Protocol::Udp).state, State::Close);
    }

    #[test]
    fn connection_has_endpoints_queues_and_attributes() {
        let socket = socket(
            &message(2, 1, &[(8, &[3]), (21, &77_u64.to_ne_bytes()), (4, b"bbr\0")]),
            Protocol::Tcp,
        );
        assert_eq!(socket.local, Endpoint::inet([10, 0, 0, 1].into(), Port(80)));
        assert_eq!(socket.peer.port(), Some(Port(40000)));
        assert_eq!(
            socket.queues,
            Queues::Data {
                receive_bytes: 3,
                send_bytes: 4
            }
        );
        assert_eq!(
            socket.timer.map(|t| (t.kind, t.retransmits)),
            Some((TimerKind::Retransmission, 2))
        );
        assert_eq!(
            socket.shutdown,
            Some(Shutdown {
                receive: true,
                send: true
            })
        );
        assert_eq!(
            (socket.cgroup, socket.uid, socket.inode),
            (Some(CgroupId(77)), None, None)
        );
        assert_eq!(socket.congestion.unwrap().as_bytes(), b"bbr");
        assert_eq!((socket.interface, socket.mark), (None, None));
    }

    #[test]
    fn listener_has_accept_queue_and_time_wait_has_no_user() {
        let listener = socket(&message(10, 10, &[(11, &[1])]), Protocol::Tcp);
        assert_eq!(
            listener.queues,
            Queues::Accept {
                waiting: 3,
                backlog: Some(4)
            }
        );
        assert_eq!((listener.v6only, listener.family), (Some(true), Family::Inet6));
        assert_eq!(socket(&message(2, 6, &[]), Protocol::Tcp).uid, None);
    }

    #[test]
    fn unknown_numbers_are_kept() {
        let socket = socket(&message(99, 77, &[(4000, b"?")]), Protocol::Udp);
        assert_eq!(
            (socket.family, socket.state),
            (Family::Unknown(99), State::Unknown(77))
        );
    }

    #[test]
    fn short_attribute_is_none_and_malformed_one_is_error() {
        let short = message(2, 1, &[(15, &[1]), (7, &[]), (16, &[0; 19])]);
        let found = socket(&short, Protocol::Tcp);
        assert_eq!((found.mark, found.congestion_info), (None, None));
        assert_eq!(found.memory, Some(Memory::default()));
        let mut broken = message(2, 1, &[]);
        broken.extend_from_slice(&[200, 0, 8, 0]);
        if cfg!(target_endian = "little") {
            assert!(Socket::from_inet_diag(&InetDiag::parse(&broken).unwrap(), Protocol::Tcp).is_err());
        }
    }
}
