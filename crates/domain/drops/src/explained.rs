//! Which drops a counter counts. Each line is a place in the kernel where counter and drop are next to each other.

use crate::event::{Event, Family};
use sockeye_model::Counter;

/// The drops that a counter counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Explained {
    pub(crate) counter: Counter,
    reasons: &'static [&'static str],
    transport: Option<u8>,
    family: Option<Family>,
    /// Functions in which these reasons are counted; empty: everywhere
    places: &'static [&'static str],
    /// Functions in which they are not
    elsewhere: &'static [&'static str],
    sender: Sender,
    /// Whether it counts what is answered: a RST is not.
    of_answered: bool,
    /// Whether all of these drops are counted. Of others only the kernel knows which.
    pub(crate) are_all: bool,
}

/// Whose packets a counter counts.
#[derive(Debug, Clone, Copy)]
enum Sender {
    Any,
    /// This host's
    Here,
    /// This host's that have a device
    AtDevice,
}

impl Explained {
    pub(crate) fn covers(&self, event: &Event) -> bool {
        let reason = event.reason.as_deref();
        let place = event.place.as_deref();
        reason.is_some_and(|reason| self.reasons.contains(&reason))
            && self
                .transport
                .is_none_or(|protocol| event.transport == Some(protocol))
            && self.family.is_none_or(|family| event.family == Some(family))
            && (self.places.is_empty() || place.is_some_and(|place| self.places.contains(&place)))
            && place.is_none_or(|place| !self.elsewhere.contains(&place))
            && match self.sender {
                Sender::Any => true,
                Sender::Here => event.is_sent,
                Sender::AtDevice => event.is_sent && event.device.is_some(),
            }
            && !(self.of_answered && event.are_resets == Some(true))
    }

    /// Whether it counts all of these drops.
    pub(crate) fn counts_all(&self, event: &Event) -> bool {
        self.are_all && !(self.of_answered && event.are_resets.is_none())
    }
}

/// Whether there is a counter that counts drops of a reason.
pub(crate) fn is_counted(reason: &str) -> bool {
    let of_protocols = EXPLAINED.iter().flat_map(|explained| explained.reasons);
    of_protocols
        .chain(&QDISC)
        .chain(&RECEIVED_BY_DEVICE)
        .chain(&SENT_BY_DEVICE)
        .any(|counted| *counted == reason)
}

/// Reasons for which a queueing discipline counts a drop.
pub(crate) const QDISC: [&str; 8] = [
    "QDISC_DROP",
    "QDISC_OVERLIMIT",
    "QDISC_CONGESTED",
    "CAKE_FLOOD",
    "FQ_BAND_LIMIT",
    "FQ_HORIZON_LIMIT",
    "FQ_FLOW_LIMIT",
    "DUALPI2_STEP_DROP",
];
/// net/core/dev.c: enqueue_to_backlog()
pub(crate) const BACKLOG: &str = "CPU_BACKLOG";
/// net/core/dev.c: __netif_receive_skb_core(), which counts some of them as `rx_nohandler`; ICMP of an unknown type has the same reason
pub(crate) const UNHANDLED: &str = "UNHANDLED_PROTO";
/// net/core/dev.c: __netif_receive_skb_core(), enqueue_to_backlog()
pub(crate) const RECEIVED_BY_DEVICE: [&str; 2] = [UNHANDLED, BACKLOG];
/// drivers/net/tun.c: tun_net_xmit()
pub(crate) const SENT_BY_DEVICE: [&str; 4] = ["FULL_RING", "DEV_READY", "TAP_FILTER", "TAP_TXFILTER"];

const TCP: Option<u8> = Some(6);
const UDP: Option<u8> = Some(17);
const V4: Option<Family> = Some(Family::V4);
const V6: Option<Family> = Some(Family::V6);

const fn line(
    counter: Counter,
    transport: Option<u8>,
    family: Option<Family>,
    reasons: &'static [&'static str],
) -> Explained {
    Explained {
        counter,
        reasons,
        transport,
        family,
        places: &[],
        elsewhere: &[],
        sender: Sender::Any,
        of_answered: false,
        are_all: true,
    }
}

const fn at(explained: Explained, places: &'static [&'static str]) -> Explained {
    Explained { places, ..explained }
}

const fn not_at(explained: Explained, elsewhere: &'static [&'static str]) -> Explained {
    Explained {
        elsewhere,
        ..explained
    }
}

const fn some(explained: Explained) -> Explained {
    Explained {
        are_all: false,
        ..explained
    }
}

const fn answered(explained: Explained) -> Explained {
    Explained {
        of_answered: true,
        ..explained
    }
}

/// The error that a protocol other than TCP gets for a packet that it sends and that is dropped at once.
const fn sent(counter: Counter, transport: u8, family: Option<Family>) -> Explained {
    Explained {
        sender: Sender::Here,
        ..some(line(counter, Some(transport), family, AT_ONCE))
    }
}

/// The same of a packet that a rule of the hooks `output`, `postrouting` or `egress` drops.
const fn sent_to_rules(counter: Counter, transport: u8, family: Option<Family>) -> Explained {
    Explained {
        sender: Sender::Here,
        ..some(line(counter, Some(transport), family, &["NETFILTER_DROP"]))
    }
}

/// The same of `egress` alone: only there the error is that of a full queue.
const fn sent_to_egress(counter: Counter, transport: u8, family: Option<Family>) -> Explained {
    Explained {
        sender: Sender::AtDevice,
        ..some(line(counter, Some(transport), family, &["NETFILTER_DROP"]))
    }
}

/// The same where the other end of a veth is down, or has a smaller MTU.
const fn sent_to_peer(counter: Counter, transport: u8, family: Option<Family>) -> Explained {
    Explained {
        sender: Sender::Here,
        places: &FORWARDS,
        ..some(line(counter, Some(transport), family, &["NOT_SPECIFIED"]))
    }
}

/// net/core/dev.c: __dev_forward_skb2(), for drivers/net/veth.c, veth_forward_skb(), which counts it as `tx_dropped`
pub(crate) const FORWARDS: [&str; 2] = ["__dev_forward_skb2", "__dev_forward_skb"];

/// Reasons for which dev_queue_xmit() returns an error to the sender.
const AT_ONCE: &[&str] = &[
    "QDISC_DROP",
    "QDISC_OVERLIMIT",
    "QDISC_CONGESTED",
    "CAKE_FLOOD",
    "FQ_BAND_LIMIT",
    "FQ_HORIZON_LIMIT",
    "FQ_FLOW_LIMIT",
    "TC_EGRESS",
];

/// net/ipv4/udp.c: udp_queue_rcv_one_skb(), __udp_queue_rcv_skb(); the same in net/ipv6/udp.c
const UDP_ERRORS: &[&str] = &[
    "SOCKET_RCVBUFF",
    "PROTO_MEM",
    "UDP_CSUM",
    "SOCKET_FILTER",
    "XFRM_POLICY",
];
/// Of a packet that is shorter than its header says, in the function of the protocol whose header it is.
const SHORT: &[&str] = &["PKT_TOO_SMALL"];

/// Of a packet that does not fit into the MTU of the next device, and must not be fragmented
const TOO_BIG: &[&str] = &["PKT_TOO_BIG"];
/// Of the first fragment of a datagram that was not complete in time
const REASSEMBLY: &[&str] = &["FRAG_REASM_TIMEOUT"];

pub(crate) const EXPLAINED: &[Explained] = &[
    line(Counter::UdpRcvbufErrors, UDP, V4, &["SOCKET_RCVBUFF"]),
    line(Counter::UdpMemErrors, UDP, V4, &["PROTO_MEM"]),
    line(Counter::UdpInCsumErrors, UDP, V4, &["UDP_CSUM"]),
    line(Counter::UdpInErrors, UDP, V4, UDP_ERRORS),
    at(
        line(Counter::UdpInErrors, UDP, V4, SHORT),
        &["__udp4_lib_rcv", "udp_rcv"],
    ),
    line(Counter::UdpNoPorts, UDP, V4, &["NO_SOCKET"]),
    line(Counter::Udp6RcvbufErrors, UDP, V6, &["SOCKET_RCVBUFF"]),
    line(Counter::Udp6MemErrors, UDP, V6, &["PROTO_MEM"]),
    line(Counter::Udp6InCsumErrors, UDP, V6, &["UDP_CSUM"]),
    line(Counter::Udp6InErrors, UDP, V6, UDP_ERRORS),
    at(
        line(Counter::Udp6InErrors, UDP, V6, SHORT),
        &["__udp6_lib_rcv", "udpv6_rcv"],
    ),
    line(Counter::Udp6NoPorts, UDP, V6, &["NO_SOCKET"]),
    // net/ipv4/tcp_ipv4.c: tcp_v4_rcv(), tcp_add_backlog(); net/ipv4/tcp_input.c
    // net/ipv4/syncookies.c: the last ACK of a handshake for which a listener has no room gets no RST
    answered(not_at(
        line(Counter::TcpOutRsts, TCP, None, &["NO_SOCKET"]),
        &["cookie_v4_check", "cookie_v6_check"],
    )),
    line(Counter::TcpInCsumErrors, TCP, None, &["TCP_CSUM"]),
    line(Counter::TcpInErrs, TCP, None, &["TCP_CSUM"]),
    at(
        line(Counter::TcpInErrs, TCP, None, SHORT),
        &["tcp_v4_rcv", "tcp_v6_rcv"],
    ),
    // net/ipv4/tcp_input.c: tcp_validate_incoming(), which counts those of established connections
    some(line(Counter::TcpInErrs, TCP, None, &["TCP_INVALID_SYN"])),
    line(Counter::TcpBacklogDrop, TCP, None, &["SOCKET_BACKLOG"]),
    line(Counter::TcpZeroWindowDrop, TCP, None, &["TCP_ZEROWINDOW"]),
    line(Counter::TcpMinTtlDrop, TCP, None, &["TCP_MINTTL"]),
    line(Counter::TcpMd5NotFound, TCP, None, &["TCP_MD5NOTFOUND"]),
    line(Counter::TcpMd5Unexpected, TCP, None, &["TCP_MD5UNEXPECTED"]),
    line(Counter::TcpMd5Failure, TCP, None, &["TCP_MD5FAILURE"]),
    line(Counter::PawsEstab, TCP, None, &["TCP_RFC7323_PAWS"]),
    at(
        line(Counter::TcpRcvQDrop, TCP, None, &["PROTO_MEM"]),
        &["tcp_data_queue", "tcp_rcv_established", "tcp_rcv_state_process"],
    ),
    at(
        line(Counter::TcpOfoDrop, TCP, None, &["PROTO_MEM"]),
        &["tcp_data_queue_ofo"],
    ),
    // net/ipv4/ip_input.c: ip_rcv_core(), ip_rcv_finish_core(), ip_protocol_deliver_rcu(); net/ipv4/ip_forward.c
    line(Counter::IpReversePathFilter, None, V4, &["IP_RPFILTER"]),
    line(Counter::IpInHdrErrors, None, V4, &["IP_CSUM", "IP_INHDR"]),
    line(Counter::IpInUnknownProtos, None, V4, &["IP_NOPROTO"]),
    at(
        line(Counter::IpInTruncatedPkts, None, V4, SHORT),
        &["ip_rcv_core"],
    ),
    // net/ipv4/ip_forward.c: ip_forward(); one for each datagram: net/ipv4/ip_fragment.c, ip_expire()
    at(line(Counter::IpFragFails, None, V4, TOO_BIG), &["ip_forward"]),
    at(line(Counter::IpReasmFails, None, V4, REASSEMBLY), &["ip_expire"]),
    // net/ipv4/route.c: ip_error()
    line(Counter::IpInAddrErrors, None, V4, &["IP_INADDRERRORS"]),
    line(Counter::IpInNoRoutes, None, V4, &["IP_INNOROUTES"]),
    // The same of a packet to pass on: without a reason; a route that forbids is not counted
    some(at(
        line(Counter::IpInNoRoutes, None, V4, &["NOT_SPECIFIED"]),
        &["ip_error"],
    )),
    // net/ipv4/ip_output.c: __ip_queue_xmit(); without a packet where an application gets ENETUNREACH
    line(Counter::IpOutNoRoutes, None, V4, &["IP_OUTNOROUTES"]),
    // net/ipv4/ip_output.c, ip_send_skb(), and net/ipv4/udp.c, udp_send_skb(), unless the process asks for errors (IP_RECVERR); ICMP sends so, too
    sent(Counter::UdpSndbufErrors, 17, V4),
    sent_to_egress(Counter::UdpSndbufErrors, 17, V4),
    sent_to_peer(Counter::UdpSndbufErrors, 17, V4),
    sent(Counter::Udp6SndbufErrors, 17, V6),
    sent_to_egress(Counter::Udp6SndbufErrors, 17, V6),
    sent_to_peer(Counter::Udp6SndbufErrors, 17, V6),
    sent(Counter::IpOutDiscards, 17, V4),
    sent(Counter::IpOutDiscards, 1, V4),
    sent_to_rules(Counter::IpOutDiscards, 17, V4),
    sent_to_rules(Counter::IpOutDiscards, 1, V4),
    sent_to_peer(Counter::IpOutDiscards, 17, V4),
    sent_to_peer(Counter::IpOutDiscards, 1, V4),
    sent(Counter::Ip6OutDiscards, 17, V6),
    sent(Counter::Ip6OutDiscards, 58, V6),
    sent_to_rules(Counter::Ip6OutDiscards, 17, V6),
    sent_to_rules(Counter::Ip6OutDiscards, 58, V6),
    sent_to_peer(Counter::Ip6OutDiscards, 17, V6),
    sent_to_peer(Counter::Ip6OutDiscards, 58, V6),
    // net/ipv6/ip6_input.c: ip6_rcv_core(); net/ipv6/ip6_output.c: ip6_forward(); include/net/ipv6_frag.h: ip6frag_expire_frag_queue()
    line(Counter::Ip6InHdrErrors, None, V6, &["IP_INHDR"]),
    at(
        line(Counter::Ip6InTooBigErrors, None, V6, TOO_BIG),
        &["ip6_forward"],
    ),
    at(line(Counter::Ip6FragFails, None, V6, TOO_BIG), &["ip6_forward"]),
    at(
        line(Counter::Ip6ReasmFails, None, V6, REASSEMBLY),
        &["ip6_frag_expire", "ip6frag_expire_frag_queue"],
    ),
    // net/ipv6/route.c: ip6_pkt_drop()
    line(Counter::Ip6InNoRoutes, None, V6, &["IP_INNOROUTES"]),
    line(Counter::Ip6OutNoRoutes, None, V6, &["IP_OUTNOROUTES"]),
    // net/ipv6/inet6_connection_sock.c: without a reason; the route can also be one that forbids
    some(at(
        line(Counter::Ip6OutNoRoutes, TCP, V6, &["NOT_SPECIFIED"]),
        &["inet6_csk_xmit"],
    )),
];
