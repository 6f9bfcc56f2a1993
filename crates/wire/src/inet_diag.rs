//! `inet_diag`: TCP, UDP, UDP-Lite, RAW and MPTCP sockets over `NETLINK_SOCK_DIAG`.
//!
//! ```text
//! struct inet_diag_sockid { be16 sport, dport; be32 src[4], dst[4]; u32 if; u32 cookie[2]; }        48
//! struct inet_diag_req    { u8 family, src_len, dst_len, ext; sockid id; u32 states, dbs; }         60
//! struct inet_diag_req_v2 { u8 family, protocol, ext, pad; u32 states; sockid id; }                 56
//! struct inet_diag_msg    { u8 family, state, timer, retrans; sockid id;
//!                           u32 expires, rqueue, wqueue, uid, inode; }                              72
//! ```
//! Source: `include/uapi/linux/inet_diag.h`, `net/ipv4/inet_diag.c`.

use crate::bytes::{array, be_u16, byte, ne_halves, ne_u16, ne_u32, ne_u64};
use crate::netlink::Request;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

sock_diag! {
    /// An internet socket: `struct inet_diag_msg`.
    pub struct InetDiag: 72, InetDiag {
        /// `idiag_family`: `AF_INET` or `AF_INET6`
        family: u8 = byte @ 0;
        /// `idiag_state`: the kernel's TCP state number, also for UDP (1 connected, 7 not)
        state: u8 = byte @ 1;
        /// `idiag_timer`: 0 none, 1 retransmission, 2 keepalive (or another of `sk_timer`), 3 TIME_WAIT, 4 zero window
        /// probe
        timer: u8 = byte @ 2;
        /// `idiag_retrans`: retransmissions or probes of the running timer
        retransmits: u8 = byte @ 3;
        /// `idiag_sport`: local port
        source_port: u16 = be_u16 @ 4;
        /// `idiag_dport`: peer's port
        destination_port: u16 = be_u16 @ 6;
        /// `idiag_src`: 16 bytes in network order, of which IPv4 uses the first four
        source: [u8; 16] = array @ 8;
        /// `idiag_dst`: 16 bytes in network order, of which IPv4 uses the first four
        destination: [u8; 16] = array @ 24;
        /// `idiag_if`: index of the interface the socket is bound to, 0 for none
        interface: u32 = ne_u32 @ 40;
        /// `idiag_cookie`, the low half first: identifies the socket until the host is restarted
        cookie: u64 = ne_halves @ 44;
        /// `idiag_expires`: milliseconds until the timer fires; a timer just overdue wraps around
        expires_ms: u32 = ne_u32 @ 52;
        /// `idiag_rqueue`: bytes to read, or of a listener the connections waiting in its accept queue
        receive_queue: u32 = ne_u32 @ 56;
        /// `idiag_wqueue`: bytes not acknowledged, or of a listener its backlog
        send_queue: u32 = ne_u32 @ 60;
        /// `idiag_uid`, in the reader's user namespace
        uid: u32 = ne_u32 @ 64;
        /// `idiag_inode`: 0 where no file refers to the socket
        inode: u32 = ne_u32 @ 68;
    }
}

/// Parameters of an `inet_diag` request.
///
/// It can be encoded in two ways: [`Query::one_pass`] for TCP of all families at once, [`Query::v2`] for one family of
/// any protocol.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// States to return: bits `1 << state`.
    pub states: u32,
    /// Attributes to return, of those that must be requested: bits `1 << (attribute - 1)`.
    pub extensions: u8,
    /// Local port and peer's port to return; 0 for any. Dumps check them before anything that needs another cache line:
    /// `inet_diag_dump_icsk()`, `udp_dump()`.
    pub ports: (u16, u16),
    /// Bytecode that the kernel runs over each socket; empty for none.
    pub bytecode: &'a [u8],
}

/// Identifies the socket of [`Query::exact`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketId {
    /// `AF_INET` or `AF_INET6`
    pub family: u8,
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// Our address, IPv4 mapped into IPv6.
    pub local: Ipv6Addr,
    /// The peer's address, likewise.
    pub peer: Ipv6Addr,
    /// Index of the interface that it is bound to; 0 for none.
    pub interface: u32,
}

impl SocketId {
    /// Encodes a `struct inet_diag_sockid` without the cookie at its end.
    fn on_the_wire(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[0..2].copy_from_slice(&self.local_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.peer_port.to_be_bytes());
        for (at, address) in [(4, &self.local), (20, &self.peer)] {
            match address.to_ipv4_mapped() {
                Some(v4) if self.family == 2 => bytes[at..at + 4].copy_from_slice(&v4.octets()),
                _ => bytes[at..at + 16].copy_from_slice(&address.octets()),
            }
        }
        bytes[36..40].copy_from_slice(&self.interface.to_ne_bytes());
        bytes
    }
}

impl Query<'_> {
    /// Returns a `TCPDIAG_GETSOCK` request: the one of kernels before 3.3, which later ones still answer, with
    /// one walk over the hash table for IPv4 and IPv6 together (`inet_diag_dump_compat`).
    ///
    /// `None` if the bytecode is longer than an attribute can be.
    #[must_use]
    pub fn one_pass(&self, sequence: u32) -> Option<Vec<u8>> {
        let mut payload = [0; 60];
        payload[3] = self.extensions;
        payload[4..8].copy_from_slice(&self.ports_on_the_wire());
        payload[52..56].copy_from_slice(&self.states.to_ne_bytes());
        self.with_bytecode(Request::dump(TCPDIAG_GETSOCK, sequence).payload(&payload))
            .map(Request::finish)
    }

    /// Returns a `SOCK_DIAG_BY_FAMILY` request for one family and protocol, since Linux 3.3.
    ///
    /// `None` if the bytecode is longer than an attribute can be.
    #[must_use]
    pub fn v2(&self, family: u8, protocol: u16, sequence: u32) -> Option<Vec<u8>> {
        let mut payload = [0; 56];
        payload[0] = family;
        // A protocol over 255 (MPTCP is 262) is sent in an attribute, which takes precedence.
        payload[1] = u8::try_from(protocol).unwrap_or(u8::MAX);
        payload[2] = self.extensions;
        payload[4..8].copy_from_slice(&self.states.to_ne_bytes());
        payload[8..12].copy_from_slice(&self.ports_on_the_wire());
        let mut request = Request::dump(SOCK_DIAG_BY_FAMILY, sequence).payload(&payload);
        if protocol > u16::from(u8::MAX) {
            request = request.attribute(INET_DIAG_REQ_PROTOCOL, &u32::from(protocol).to_ne_bytes())?;
        }
        self.with_bytecode(request).map(Request::finish)
    }

    /// Returns a `SOCK_DIAG_BY_FAMILY` request for one socket. States and bytecode are ignored.
    #[must_use]
    pub fn exact(&self, id: &SocketId, protocol: u8, sequence: u32) -> Vec<u8> {
        let mut payload = [0; 56];
        payload[0] = id.family;
        payload[1] = protocol;
        payload[2] = self.extensions;
        payload[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        payload[8..48].copy_from_slice(&id.on_the_wire());
        // INET_DIAG_NOCOOKIE: any cookie.
        payload[48..56].fill(0xff);
        Request::one(SOCK_DIAG_BY_FAMILY, sequence)
            .payload(&payload)
            .finish()
    }

    /// Encodes the ports at the start of `struct inet_diag_sockid`.
    fn ports_on_the_wire(&self) -> [u8; 4] {
        let (local, peer) = self.ports;
        let ([a, b], [c, d]) = (local.to_be_bytes(), peer.to_be_bytes());
        [a, b, c, d]
    }

    fn with_bytecode(&self, request: Request) -> Option<Request> {
        match self.bytecode {
            [] => Some(request),
            bytecode => request.attribute(INET_DIAG_REQ_BYTECODE, bytecode),
        }
    }
}

/// Returns a `SOCK_DESTROY` request for the socket that this message describes, of any process (Linux 4.5, with
/// `CONFIG_INET_DIAG_DESTROY`; needs CAP_NET_ADMIN). `raw_protocol` is the protocol of a RAW socket, else 0.
///
/// `None` if the message is too short.
#[must_use]
pub fn destroy(message: &[u8], protocol: u8, raw_protocol: u8, sequence: u32) -> Option<Vec<u8>> {
    let mut payload = [0; 56];
    payload[0] = *message.first()?;
    payload[1] = protocol;
    payload[3] = raw_protocol;
    // struct inet_diag_sockid, with the cookie that distinguishes it from a later socket with the same addresses.
    payload[8..56].copy_from_slice(message.get(4..52)?);
    Some(Request::act(SOCK_DESTROY, sequence).payload(&payload).finish())
}

/// Returns a `SOCK_DESTROY` request as [`destroy`], for the socket with these addresses and this cookie.
#[must_use]
pub fn destroy_exact(id: &SocketId, cookie: u64, protocol: u8, raw_protocol: u8, sequence: u32) -> Vec<u8> {
    let mut payload = [0; 56];
    payload[0] = id.family;
    payload[1] = protocol;
    payload[3] = raw_protocol;
    payload[8..48].copy_from_slice(&id.on_the_wire());
    // u32 cookie[2], the low half first.
    let (low, high) = (cookie as u32, (cookie >> 32) as u32);
    payload[48..52].copy_from_slice(&low.to_ne_bytes());
    payload[52..56].copy_from_slice(&high.to_ne_bytes());
    Request::act(SOCK_DESTROY, sequence).payload(&payload).finish()
}

/// `struct inet_diag_sockopt`: socket options as bits (since Linux 5.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptions(u16);

impl SocketOptions {
    /// Parses the attribute's payload; `None` if it is too short.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        // Two bytes of bit fields. The compiler of a big-endian kernel fills each byte from its top.
        let [low, high] = array(payload, 0)?;
        let (low, high): (u8, u8) = if cfg!(target_endian = "big") {
            (low.reverse_bits(), high.reverse_bits())
        } else {
            (low, high)
        };
        Some(Self(u16::from_le_bytes([low, high])))
    }

    /// Returns the bits, the first member of the struct lowest.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }
}

attribute! {
    /// `struct inet_diag_meminfo`: bytes of socket memory, the older and shorter form.
    pub struct MemoryInfo {
        /// `idiag_rmem`: receive memory in use
        rmem: u32 = ne_u32 @ 0;
        /// `idiag_wmem`: send memory queued
        wmem: u32 = ne_u32 @ 4;
        /// `idiag_fmem`: forward allocation
        fmem: u32 = ne_u32 @ 8;
        /// `idiag_tmem`: send memory in use by the layers below
        tmem: u32 = ne_u32 @ 12;
    }
}

/// `SK_MEMINFO_*`: up to nine numbers of a socket's memory, as many as this kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkMemInfo<'a>(&'a [u8]);

impl<'a> SkMemInfo<'a> {
    /// Wraps the attribute's payload.
    #[must_use]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// Returns the value with this index (`SK_MEMINFO_RMEM_ALLOC` is 0); `None` if the kernel does not have it.
    #[must_use]
    pub fn value(&self, number: usize) -> Option<u32> {
        ne_u32(self.0, number.checked_mul(4)?)
    }
}

attribute! {
    /// `struct tcpvegas_info`
    pub struct VegasInfo {
        /// `tcpv_enabled`
        enabled: u32 = ne_u32 @ 0;
        /// `tcpv_rttcnt`
        rtt_count: u32 = ne_u32 @ 4;
        /// `tcpv_rtt`, microseconds
        rtt: u32 = ne_u32 @ 8;
        /// `tcpv_minrtt`, microseconds
        min_rtt: u32 = ne_u32 @ 12;
    }
}

attribute! {
    /// `struct tcp_dctcp_info`
    pub struct DctcpInfo {
        /// `dctcp_enabled`
        enabled: u16 = ne_u16 @ 0;
        /// `dctcp_ce_state`
        ce_state: u16 = ne_u16 @ 2;
        /// `dctcp_alpha`, in 1/1024
        alpha: u32 = ne_u32 @ 4;
        /// `dctcp_ab_ecn`, bytes
        ab_ecn: u32 = ne_u32 @ 8;
        /// `dctcp_ab_tot`, bytes
        ab_tot: u32 = ne_u32 @ 12;
    }
}

attribute! {
    /// `struct tcp_bbr_info`
    pub struct BbrInfo {
        /// `bbr_bw_lo` and `bbr_bw_hi`: bytes per second
        bandwidth: u64 = ne_halves @ 0;
        /// `bbr_min_rtt`, microseconds
        min_rtt: u32 = ne_u32 @ 8;
        /// `bbr_pacing_gain`, in 1/256
        pacing_gain: u32 = ne_u32 @ 12;
        /// `bbr_cwnd_gain`, in 1/256
        cwnd_gain: u32 = ne_u32 @ 16;
    }
}

/// `struct mptcp_info`, with the length of this kernel's. Source: `include/uapi/linux/mptcp.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MptcpInfo<'a>(&'a [u8]);

impl<'a> MptcpInfo<'a> {
    /// Wraps the attribute's payload.
    #[must_use]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    optional_accessors! {
        /// `mptcpi_subflows`: additional subflows
        subflows: u8 = byte @ 0;
        /// `mptcpi_add_addr_signal`
        add_addr_signal: u8 = byte @ 1;
        /// `mptcpi_add_addr_accepted`
        add_addr_accepted: u8 = byte @ 2;
        /// `mptcpi_subflows_max`
        subflows_max: u8 = byte @ 3;
        /// `mptcpi_add_addr_signal_max`
        add_addr_signal_max: u8 = byte @ 4;
        /// `mptcpi_add_addr_accepted_max`
        add_addr_accepted_max: u8 = byte @ 5;
        /// `mptcpi_flags`: bit 0 fallback to TCP, bit 1 remote key received
        flags: u32 = ne_u32 @ 8;
        /// `mptcpi_token`
        token: u32 = ne_u32 @ 12;
        /// `mptcpi_write_seq`
        write_seq: u64 = ne_u64 @ 16;
        /// `mptcpi_snd_una`
        snd_una: u64 = ne_u64 @ 24;
        /// `mptcpi_rcv_nxt`
        rcv_nxt: u64 = ne_u64 @ 32;
        /// `mptcpi_local_addr_used` (5.16)
        local_addr_used: u8 = byte @ 40;
        /// `mptcpi_local_addr_max` (5.16)
        local_addr_max: u8 = byte @ 41;
        /// `mptcpi_csum_enabled` (5.16)
        csum_enabled: u8 = byte @ 42;
        /// `mptcpi_retransmits` (6.5)
        retransmits: u32 = ne_u32 @ 44;
        /// `mptcpi_bytes_retrans` (6.5)
        bytes_retrans: u64 = ne_u64 @ 48;
        /// `mptcpi_bytes_sent` (6.5)
        bytes_sent: u64 = ne_u64 @ 56;
        /// `mptcpi_bytes_received` (6.5)
        bytes_received: u64 = ne_u64 @ 64;
        /// `mptcpi_bytes_acked` (6.5)
        bytes_acked: u64 = ne_u64 @ 72;
        /// `mptcpi_subflows_total` (6.7)
        subflows_total: u8 = byte @ 80;
        /// `mptcpi_endp_laminar_max` (6.18); before, it is 0
        laminar_endpoints_max: u8 = byte @ 81;
        /// `mptcpi_last_data_sent`, milliseconds ago (6.10)
        last_data_sent: u32 = ne_u32 @ 84;
        /// `mptcpi_last_data_recv`, milliseconds ago (6.10)
        last_data_recv: u32 = ne_u32 @ 88;
        /// `mptcpi_last_ack_recv`, milliseconds ago (6.10)
        last_ack_recv: u32 = ne_u32 @ 92;
    }
}

/// Types of the attributes that follow `struct inet_diag_msg`.
///
/// The first eight are requested by their bits in [`Query::extensions`].
pub mod attribute {
    /// [`super::MemoryInfo`]
    pub const MEMINFO: u16 = 1;
    /// [`crate::tcp_info::TcpInfo`]; of an MPTCP socket [`super::MptcpInfo`]
    pub const INFO: u16 = 2;
    /// [`super::VegasInfo`]; requesting it also returns DCTCPINFO or BBRINFO
    pub const VEGASINFO: u16 = 3;
    /// Name of the congestion control, terminated by NUL
    pub const CONG: u16 = 4;
    /// `u8`: the IPv4 type of service
    pub const TOS: u16 = 5;
    /// `u8`: the IPv6 traffic class
    pub const TCLASS: u16 = 6;
    /// [`super::SkMemInfo`]
    pub const SKMEMINFO: u16 = 7;
    /// `u8`: bit 0 receiving is shut down, bit 1 sending is shut down; always present for full sockets
    pub const SHUTDOWN: u16 = 8;
    /// [`super::DctcpInfo`]
    pub const DCTCPINFO: u16 = 9;
    /// `u8`: the protocol number of a RAW socket
    pub const PROTOCOL: u16 = 10;
    /// `u8`: IPV6_V6ONLY, of listening and unconnected sockets
    pub const SKV6ONLY: u16 = 11;
    /// `u32`: SO_MARK, for readers with CAP_NET_ADMIN
    pub const MARK: u16 = 15;
    /// [`super::BbrInfo`]
    pub const BBRINFO: u16 = 16;
    /// `u32`: the net_cls class, or the socket's priority without one
    pub const CLASS_ID: u16 = 17;
    /// [`crate::upper_layer::md5_keys`]; for readers with CAP_NET_ADMIN that request [`INFO`] (Linux 4.14)
    pub const MD5SIG: u16 = 18;
    /// Nested: [`super::ulp`]; for readers with CAP_NET_ADMIN
    pub const ULP_INFO: u16 = 19;
    /// `u64`: inode of the cgroup v2
    pub const CGROUP_ID: u16 = 21;
    /// [`super::SocketOptions`]
    pub const SOCKOPT: u16 = 22;

    /// Returns the bit in [`super::Query::extensions`] that requests `attribute` (1 to 8).
    #[must_use]
    pub const fn extension(attribute: u16) -> u8 {
        1 << (attribute - 1)
    }
}

/// Attributes nested in [`attribute::ULP_INFO`]: the protocol on top of TCP.
pub mod ulp {
    /// Its name: `tls`, `mptcp`, `espintcp`, `smc`
    pub const NAME: u16 = 1;
    /// Nested: [`crate::upper_layer::Tls`]
    pub const TLS: u16 = 2;
    /// Nested: [`crate::upper_layer::Subflow`]
    pub const MPTCP: u16 = 3;
}

/// `TCPDIAG_GETSOCK`
pub const TCPDIAG_GETSOCK: u16 = 18;
/// `SOCK_DIAG_BY_FAMILY`
pub const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `SOCK_DESTROY`
const SOCK_DESTROY: u16 = 21;
/// `INET_DIAG_REQ_BYTECODE`
pub const INET_DIAG_REQ_BYTECODE: u16 = 1;
const INET_DIAG_REQ_PROTOCOL: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layer;
    use crate::netlink::{Attributes, Messages};

    #[test]
    fn destroy_request_has_addresses_and_cookie() {
        let message = message();
        let request = destroy(&message, 6, 0, 7).unwrap();
        let kind_and_flags = [21_u16.to_ne_bytes(), 5_u16.to_ne_bytes()].concat();
        assert_eq!(
            request[4..8],
            kind_and_flags,
            "SOCK_DESTROY with NLM_F_REQUEST | NLM_F_ACK"
        );
        assert_eq!((request[16], request[17]), (2, 6));
        assert_eq!(request[24..72], message[4..52]);
        assert_eq!(destroy(&message[..40], 6, 0, 7), None);
    }

    #[test]
    fn destroy_by_id_equals_destroy_by_message() {
        for (family, local, peer) in [
            (2, "::ffff:10.0.0.1", "::ffff:10.0.0.2"),
            (10, "fd00::1", "fd00::2"),
            (10, "::ffff:10.0.0.1", "::ffff:10.0.0.2"),
        ] {
            let id = SocketId {
                family,
                local_port: 0x1234,
                peer_port: 443,
                local: local.parse().unwrap(),
                peer: peer.parse().unwrap(),
                interface: 7,
            };
            // struct inet_diag_msg: four bytes, then struct inet_diag_sockid.
            let mut message = alloc::vec![family, 1, 0, 0];
            message.extend_from_slice(&id.on_the_wire());
            message.extend_from_slice(&1_u32.to_ne_bytes());
            message.extend_from_slice(&2_u32.to_ne_bytes());
            let by_name = destroy_exact(&id, 0x2_0000_0001, 6, 0, 9);
            assert_eq!(Some(by_name), destroy(&message, 6, 0, 9));
            let ports = &message[4..8];
            assert_eq!(ports, [0x12, 0x34, 1, 187]);
            let first = if family == 2 {
                &message[8..12]
            } else {
                &message[20..24]
            };
            assert!(first == [10, 0, 0, 1] || local == "fd00::1", "{message:?}");
        }
    }

    /// An established connection 127.0.0.1:8080 <- 10.1.2.3:40000, as the kernel lays it out.
    fn message() -> Vec<u8> {
        let mut bytes = alloc::vec![2, 1, 1, 3];
        bytes.extend_from_slice(&[0x1f, 0x90, 0x9c, 0x40]);
        bytes.extend_from_slice(&[127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for word in [4_u32, 0x1111_2222, 0x3333_4444, 200, 5, 6, 1000, 77] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn each_field_is_read() {
        let bytes = message();
        let socket = InetDiag::parse(&bytes).unwrap();
        assert_eq!(
            (
                socket.family(),
                socket.state(),
                socket.timer(),
                socket.retransmits()
            ),
            (2, 1, 1, 3)
        );
        assert_eq!((socket.source_port(), socket.destination_port()), (8080, 40000));
        assert_eq!(socket.source()[..4], [127, 0, 0, 1]);
        assert_eq!(socket.destination()[..4], [10, 1, 2, 3]);
        assert_eq!((socket.interface(), socket.cookie()), (4, 0x3333_4444_1111_2222));
        assert_eq!(
            (socket.expires_ms(), socket.receive_queue(), socket.send_queue()),
            (200, 5, 6)
        );
        assert_eq!((socket.uid(), socket.inode()), (1000, 77));
        assert!(socket.attributes().next().is_none());
    }

    #[test]
    fn truncated_message_is_an_error() {
        let bytes = message();
        for len in 0..bytes.len() {
            let error = InetDiag::parse(&bytes[..len]).unwrap_err();
            assert_eq!((error.layer, error.needed, error.got), (Layer::InetDiag, 72, len));
        }
    }

    #[test]
    fn requests_have_the_kernels_layout() {
        let query = Query {
            states: 0xfff,
            extensions: attribute::extension(attribute::INFO),
            ports: (0, 0),
            bytecode: &[],
        };
        let bytes = query.one_pass(1).unwrap();
        let request = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!(
            (request.kind, request.payload.len(), request.payload[3]),
            (18, 60, 2)
        );
        assert_eq!(request.payload[52..56], 0xfff_u32.to_ne_bytes());

        let query = Query {
            bytecode: &[1, 2, 3, 4],
            ..query
        };
        let bytes = query.v2(10, 262, 1).unwrap();
        let request = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!((request.kind, &request.payload[..4]), (20, &[10, 255, 2, 0][..]));
        let attributes: Vec<_> = Attributes::new(&request.payload[56..])
            .map(Result::unwrap)
            .collect();
        assert_eq!((attributes[0].kind, attributes[0].u32()), (3, Some(262)));
        assert_eq!(
            (attributes[1].kind, attributes[1].payload),
            (1, &[1, 2, 3, 4][..])
        );
    }

    #[test]
    fn too_long_bytecode_is_refused() {
        let bytecode = alloc::vec![0; 70_000];
        let query = Query {
            states: 1,
            extensions: 0,
            ports: (0, 0),
            bytecode: &bytecode,
        };
        assert!(query.one_pass(1).is_none() && query.v2(2, 6, 1).is_none());
    }

    #[test]
    fn bbr_bandwidth_is_joined_from_halves() {
        let mut bytes = Vec::new();
        for word in [0x9_u32, 0x1, 30, 739, 512] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        assert_eq!(
            BbrInfo::parse(&bytes).unwrap(),
            BbrInfo {
                bandwidth: 0x1_0000_0009,
                min_rtt: 30,
                pacing_gain: 739,
                cwnd_gain: 512
            }
        );
        assert_eq!(BbrInfo::parse(&bytes[..19]), None);
    }

    #[test]
    fn missing_values_are_none() {
        let eight = [0_u8; 32];
        assert_eq!(
            (SkMemInfo::new(&eight).value(7), SkMemInfo::new(&eight).value(8)),
            (Some(0), None)
        );
        assert_eq!(MptcpInfo::new(&[3]).subflows(), Some(3));
        assert_eq!(MptcpInfo::new(&[3]).token(), None);
    }
}
