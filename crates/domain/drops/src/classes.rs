//! Classes of drops.

use sockeye_dictionary::{Dictionary, DropClass, Kind};

/// Returns the class of a drop; `None` if neither reason nor place says it.
///
/// `reason` is the name of an enumerator without `SKB_DROP_REASON_`, `place` a function of the kernel.
#[must_use]
pub fn class(reason: Option<&str>, place: Option<&str>) -> Option<DropClass> {
    let by_reason = reason.filter(|reason| !says_nothing(reason)).and_then(of_reason);
    by_reason.or_else(|| place.and_then(of_place)).or_else(|| {
        let is_end =
            reason == Some("NOT_SPECIFIED") && place.is_some_and(|place| TCP_ENTRIES.contains(&place));
        is_end.then_some(DropClass::Normal)
    })
}

/// Returns the class of a reason alone.
#[must_use]
pub fn of_reason(reason: &str) -> Option<DropClass> {
    let found = Dictionary::new().find(reason);
    let entry = found
        .entries
        .iter()
        .find(|entry| entry.kind == Kind::DropReason)?;
    entry.class
}

/// Returns the short name of an enumerator of `enum skb_drop_reason`, as the kernel prints it at the tracepoint.
#[must_use]
pub fn short_name(enumerator: &str) -> &str {
    let short = enumerator.strip_prefix("SKB_DROP_REASON_");
    short
        .or_else(|| enumerator.strip_prefix("SKB_"))
        .unwrap_or(enumerator)
}

fn says_nothing(reason: &str) -> bool {
    matches!(reason, "NOT_SPECIFIED" | "NOT_DROPPED_YET")
}

/// Returns the class of drops without a reason in a function of the kernel.
fn of_place(place: &str) -> Option<DropClass> {
    if PURGES.contains(&place) || place == OTHER_GROUP || CHECKS.contains(&place) {
        Some(DropClass::Normal)
    } else if PROGRAMS.contains(&place) {
        Some(DropClass::Policy)
    } else if DOWN.contains(&place) || LOSSES.contains(&place) {
        Some(DropClass::Loss)
    } else {
        None
    }
}

/// What waited in the queueing discipline of a device that was set down or whose discipline was replaced: qdisc_reset() leaves it to
/// net/core/rtnetlink.c, __rtnl_unlock(), which frees without a reason.
///
/// And what waited in a tun for its program, which has ended: drivers/net/tun.c.
const DOWN: [&str; 3] = ["__rtnl_unlock", "rtnl_unlock", "tun_queue_purge"];

/// Where the kernel frees an empty packet of its own, which tests its memory as a device is made: net/core/dev.c, napi_get_frags_check(), which is inlined.
const CHECKS: [&str; 3] = [
    "netif_napi_add_weight",
    "netif_napi_add_weight_locked",
    "napi_get_frags_check",
];

/// Where a program of XDP drops: net/core/dev.c, drivers/net/veth.c. Other drivers have no packet yet that the kernel could report.
const PROGRAMS: [&str; 3] = ["do_xdp_generic", "netif_receive_generic_xdp", "veth_xdp_rcv_skb"];

/// Functions that free without a reason what they could not send: neighbors that do not answer (net/ipv6/ndisc.c, ndisc_error_report(), which ends with a
/// jump, so that its caller is the place), those of a device that is gone, and packets that could not be fragmented; what was fragmented is consumed. And packets without a route that leads
/// somewhere: net/ipv4/route.c, ip_error(), of a packet to pass on, also where the route is one that forbids; net/ipv6/inet6_connection_sock.c;
/// net/core/dst.c, dst_discard_out(), where the route is a blackhole of IPv6, or its device is gone. And what the other end of a veth does not take, since it is down or
/// has a smaller MTU: net/core/dev.c, __dev_forward_skb2().
const LOSSES: [&str; 13] = [
    "__dev_forward_skb2",
    "__dev_forward_skb",
    "neigh_invalidate",
    "arp_error_report",
    "ndisc_error_report",
    "neigh_blackhole",
    "ip_do_fragment",
    "ip_fragment",
    "ip6_fragment",
    "ip_error",
    "inet6_csk_xmit",
    "dst_discard",
    "dst_discard_out",
];

/// Where a multicast packet ends that no program here has asked for: net/ipv6/ip6_input.c. On each network questions for other neighbors are such packets.
const OTHER_GROUP: &str = "ip6_mc_input";

/// Functions that empty the queue of a socket that is closed. Before Linux 6.6 these have no
/// reason of their own; the functions that `__skb_queue_purge()` is inlined into are the place then.
const PURGES: [&str; 14] = [
    "skb_queue_purge",
    "skb_queue_purge_reason",
    "skb_rbtree_purge",
    "skb_errqueue_purge",
    "inet_sock_destruct",
    "sk_stream_kill_queues",
    "tcp_write_queue_purge",
    "tcp_v4_destroy_sock",
    "inet_csk_destroy_sock",
    "udp_destruct_common",
    "udp_destruct_sock",
    "netlink_sock_destruct",
    "packet_sock_destruct",
    "unix_sock_destructor",
];

/// Where segments of TCP arrive. What is lost there has a reason; without one are those that a connection in TIME_WAIT has taken, as the FIN of the side that
/// closes last.
const TCP_ENTRIES: [&str; 2] = ["tcp_v4_rcv", "tcp_v6_rcv"];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reason: &str, place: &str, expected: Option<DropClass>) {
        assert_eq!(class(Some(reason), Some(place)), expected, "{reason} {place}");
    }

    #[test]
    fn reason_decides_and_place_where_it_says_nothing() {
        check("NO_SOCKET", "tcp_v4_rcv", Some(DropClass::Refusal));
        check("NETFILTER_DROP", "nft_do_chain", Some(DropClass::Policy));
        check("QUEUE_PURGE", "inet_sock_destruct", Some(DropClass::Normal));
        check("SOCKET_RCVBUFF", "skb_queue_purge", Some(DropClass::Loss));
        check("NOT_SPECIFIED", "inet_sock_destruct", Some(DropClass::Normal));
        check("NOT_SPECIFIED", "__rtnl_unlock", Some(DropClass::Loss));
        check("NOT_SPECIFIED", "neigh_invalidate", Some(DropClass::Loss));
        check("NEIGH_FAILED", "neigh_invalidate", Some(DropClass::Loss));
        check("NOT_SPECIFIED", "ip6_fragment", Some(DropClass::Loss));
        check("NOT_SPECIFIED", "ip6_mc_input", Some(DropClass::Normal));
        check(
            "NOT_SPECIFIED",
            "netif_napi_add_weight_locked",
            Some(DropClass::Normal),
        );
        check("NOT_SPECIFIED", "tun_queue_purge", Some(DropClass::Loss));
        check("NOT_SPECIFIED", "__dev_forward_skb2", Some(DropClass::Loss));
        check("NOT_SPECIFIED", "do_xdp_generic", Some(DropClass::Policy));
        check("NOT_SPECIFIED", "veth_xdp_rcv_skb", Some(DropClass::Policy));
        check("NOT_SPECIFIED", "ip_error", Some(DropClass::Loss));
        check("NOT_SPECIFIED", "inet6_csk_xmit", Some(DropClass::Loss));
        check("NOT_SPECIFIED", "dst_discard_out", Some(DropClass::Loss));
        check("NOT_SPECIFIED", "veth_xmit", None);
        check("NOT_SPECIFIED", "tcp_v4_rcv", Some(DropClass::Normal));
        check("TCP_CSUM", "tcp_v4_rcv", Some(DropClass::Loss));
        check("OF_A_LATER_KERNEL", "veth_xmit", None);
        // Before Linux 5.17 there are no reasons.
        assert_eq!(class(None, Some("skb_queue_purge")), Some(DropClass::Normal));
        assert_eq!(class(None, Some("tcp_v4_rcv")), None);
    }

    #[test]
    fn short_name_is_that_of_the_tracepoint() {
        assert_eq!(short_name("SKB_DROP_REASON_NO_SOCKET"), "NO_SOCKET");
        assert_eq!(short_name("SKB_CONSUMED"), "CONSUMED");
        assert_eq!(short_name("RX_DROP_U_DUP"), "RX_DROP_U_DUP");
    }
}
