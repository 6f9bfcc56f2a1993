//! Classes of drops.

use sockeye_dictionary::{Dictionary, DropClass, Kind};

/// Returns the class of a drop; `None` if neither reason nor place says it.
///
/// `reason` is the name of an enumerator without `SKB_DROP_REASON_`, `place` a function of the kernel.
#[must_use]
pub fn class(reason: Option<&str>, place: Option<&str>) -> Option<DropClass> {
    let by_reason = reason.filter(|reason| !says_nothing(reason)).and_then(of_reason);
    by_reason.or_else(|| place.filter(|place| is_purge(place)).map(|_| DropClass::Normal))
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

/// Whether a function empties the queue of a socket that is closed, or of a device that goes away. Before Linux 6.6 these have no
/// reason of their own; the functions that `__skb_queue_purge()` is inlined into are the place then.
fn is_purge(place: &str) -> bool {
    PURGES.contains(&place)
}

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
        check("NOT_SPECIFIED", "veth_xmit", None);
        check("OF_A_LATER_KERNEL", "veth_xmit", None);
        // Before Linux 5.17 there are no reasons.
        assert_eq!(class(None, Some("skb_queue_purge")), Some(DropClass::Normal));
    }

    #[test]
    fn short_name_is_that_of_the_tracepoint() {
        assert_eq!(short_name("SKB_DROP_REASON_NO_SOCKET"), "NO_SOCKET");
        assert_eq!(short_name("SKB_CONSUMED"), "CONSUMED");
        assert_eq!(short_name("RX_DROP_U_DUP"), "RX_DROP_U_DUP");
    }
}
