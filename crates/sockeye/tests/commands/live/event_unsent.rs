//! What leaves this host late or not at all: segments that it drops itself, retransmitted SYN-ACKs, no neighbor, no route.

use super::events::{Running, connect, events, only};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, program};

/// A namespace and a watch over it.
fn watch(purpose: &str, more: &str) -> Result<(Lab, Namespace, Running), Skip> {
    program("python3")?;
    let lab = Lab::new(purpose)?;
    let namespace = lab.namespace("alone");
    let running = Running::start(&format!("-n -N {} --format jsonl {more}", namespace.name()))?;
    Ok((lab, namespace, running))
}

#[test]
fn segments_that_a_full_queue_of_this_host_drops_are_no_data() {
    need!(program("tc"));
    let (_lab, namespace, running) = need!(watch("ev_shaped", "--kinds close,retransmit"));
    // One skb is one segment then, and few of them fit.
    namespace.ip("link set lo mtu 1500");
    let line = "qdisc add dev lo root tbf rate 80mbit burst 10kb limit 12kb";
    namespace.output("tc", &line.split(' ').collect::<Vec<_>>());
    let made = connect(&namespace, "upload", "127.0.0.1", 0);
    let dropped = namespace.output("tc", &["-s", "qdisc", "show", "dev", "lo"]);
    let (outcome, _) = running.end();
    assert!(!dropped.contains("(dropped 0,"), "{dropped}");
    let (events, _) = events(&outcome);
    let (client, server) = (
        only(&events, "close", "active"),
        only(&events, "close", "passive"),
    );
    assert_eq!(client["local"]["port"], made["client_port"], "{client:#}");
    assert_eq!(
        (&client["sent_bytes"], &server["received_bytes"]),
        (&2_000_000.into(), &2_000_000.into()),
        "{dropped}: {client:#}"
    );
    // Since Linux 6.17 the tracepoint also reports what could not be sent again. The counter of the socket has these, too.
    let segments = |event: &Value| event["retrans_segs"].as_u64().expect("a number");
    let again = events
        .iter()
        .filter(|event| event["event"] == "retransmit" && event["direction"] == "active");
    assert!(again.map(segments).sum::<u64>() <= segments(client), "{client:#}");
}

#[test]
fn syn_acks_that_are_sent_again_are_retransmissions_of_the_listener() {
    need!(program("nft"));
    let (_lab, namespace, running) = need!(watch("ev_synack", "--kinds retransmit"));
    let rules = "add table ip t; add chain ip t in { type filter hook input priority 0; }; \
                 add rule ip t in tcp dport 79 tcp flags & (syn | ack) == ack drop";
    namespace.output("nft", &[rules]);
    let made = connect(&namespace, "unfinished", "127.0.0.1", 79);
    let (outcome, _) = running.end();
    let (events, summary) = events(&outcome);
    assert_eq!(
        events.len() as u64,
        made["retransmissions"].as_u64().expect("a number"),
        "{events:#?}"
    );
    let event = events.first().expect("an event");
    assert_eq!(
        (
            &event["direction"],
            &event["local"]["port"],
            &event["peer"]["port"]
        ),
        (&"passive".into(), &79.into(), &made["client_port"])
    );
    assert_eq!(
        (
            &event["owner"]["pid"],
            &event["known_by"],
            &event["retransmitted_by"],
            &event["retrans_segs"]
        ),
        (&made["pid"], &"listener".into(), &"syn".into(), &1.into())
    );
    assert_eq!(summary["by_port"][0]["port"], 79, "{summary:#}");
}

#[test]
fn packets_without_a_neighbor_are_errors_of_their_sockets() {
    for (family, ours, peer) in [
        ("ipv4", "192.0.2.1/24", "192.0.2.7"),
        ("ipv6", "fd00::1/64", "fd00::7"),
    ] {
        need!(packets_without_a_neighbor(family, ours, peer));
    }
}

fn packets_without_a_neighbor(family: &str, ours: &str, peer: &str) -> Result<(), Skip> {
    let (_lab, namespace, running) = watch("ev_neighbor", "-tu --kinds error")?;
    namespace.ip("link add n0 type veth peer name n1");
    for line in ["link set n0 up", "link set n1 up"] {
        namespace.ip(line);
    }
    let nodad = if family == "ipv6" { " nodad" } else { "" };
    namespace.ip(&format!("addr add {ours} dev n0{nodad}"));
    // Otherwise it takes three seconds.
    namespace.sysctl(&format!("{family}/neigh/n0/mcast_solicit"), "1");
    namespace.sysctl(&format!("{family}/neigh/n0/retrans_time_ms"), "100");
    let made = connect(&namespace, "no_neighbor", peer, 9);
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    for (netid, port) in [("tcp", &made["tcp_port"]), ("udp", &made["udp_port"])] {
        let event = events.iter().find(|event| event["netid"] == netid);
        let event = event.unwrap_or_else(|| panic!("{netid}: {events:#?}"));
        assert_eq!(
            (&event["cause"], &event["local"]["port"], &event["owner"]["pid"]),
            (&"no-neighbor".into(), port, &made["pid"]),
            "{event:#}"
        );
        assert_eq!(
            (&event["peer"]["ip"], &event["peer"]["port"]),
            (&peer.into(), &9.into()),
            "{event:#}"
        );
    }
    Ok(())
}

#[test]
fn mptcp_without_a_route_is_a_connect_error() {
    let (_lab, namespace, running) = need!(watch("ev_mp_route", "-tM --kinds fail,connect-error"));
    let made = connect(&namespace, "mptcp_without_route", "192.0.2.7", 9);
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    assert_eq!(events.len(), 1, "{events:#?}");
    let error = only(&events, "connect-error", "active");
    assert_eq!(
        (&error["netid"], &error["errno"], &error["peer"]["ip"]),
        (&"mptcp".into(), &made["errno"], &"192.0.2.7".into()),
        "{error:#}"
    );
}

#[test]
fn reset_that_follows_a_close_has_its_owner() {
    let (_lab, namespace, running) = need!(watch("ev_late", "--kinds close,reset-sent"));
    let made = connect(&namespace, "late_data", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let reset = only(&events, "reset-sent", "active");
    assert_eq!(
        (
            &reset["owner"]["pid"],
            &reset["known_by"],
            &reset["local"]["port"]
        ),
        (&made["pid"], &"connect".into(), &made["client_port"]),
        "{events:#?}"
    );
}

#[test]
fn reset_for_data_after_fin_wait_2_is_shown_with_what_its_close_had() {
    let (_lab, namespace, running) = need!(watch("ev_later", "--kinds close,reset-sent"));
    let made = connect(&namespace, "later_data", "127.0.0.1", 0);
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let (close, reset) = (
        only(&events, "close", "active"),
        only(&events, "reset-sent", "active"),
    );
    for event in [close, reset] {
        assert_eq!(
            (
                &event["local"]["port"],
                &event["owner"]["pid"],
                &event["ended_how"],
                &event["ended_by"]
            ),
            (&made["client_port"], &made["pid"], &"fin".into(), &"local".into()),
            "{events:#?}"
        );
    }
    // Each has its own time.
    assert_ne!(close["time"], reset["time"]);
}
