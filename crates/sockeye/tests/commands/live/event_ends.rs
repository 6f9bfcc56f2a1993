//! How opens fail, how connections end and whose they are, in less usual ways.

use super::events::{Running, connect, events, only, watched};
use serde_json::Value;
use sockeye_lab::{Lab, Skip, need, program};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Events of what a function of `connections.py` does to a port in a namespace with these rules of the packet filter.
fn watched_with_rules(
    purpose: &str,
    way: &str,
    port: u16,
    rules: &str,
    more: &str,
) -> Result<(Vec<Value>, Value, Value), Skip> {
    program("python3")?;
    program("nft")?;
    let lab = Lab::new(purpose)?;
    let namespace = lab.namespace("alone");
    // One skb is many segments then.
    namespace.ip("link set lo mtu 1500");
    namespace.output("nft", &[rules]);
    let running = Running::start(&format!("-n -N {} --format jsonl {more}", namespace.name()))?;
    let made = connect(&namespace, way, "127.0.0.1", port);
    let (outcome, _) = running.end();
    let (events, summary) = events(&outcome);
    Ok((events, made, summary))
}

/// The only event of a kind, protocol and direction.
#[track_caller]
fn only_of<'a>(events: &'a [Value], kind: &str, netid: &str, direction: &str) -> &'a Value {
    let is_it =
        |event: &&Value| event["event"] == kind && event["netid"] == netid && event["direction"] == direction;
    let found: Vec<&Value> = events.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{kind} {netid} {direction}: {events:#?}");
    found[0]
}

#[test]
fn second_connection_with_the_same_addresses_has_no_port() {
    let (events, made) = need!(watched("ev_same", "same_addresses", "127.0.0.1", ""));
    let fail = only(&events, "fail", "active");
    assert_eq!(
        (&fail["ended_how"], &fail["error"], &fail["errno"]),
        (&"no-port".into(), &"EADDRNOTAVAIL".into(), &made["errno"]),
        "{fail:#}"
    );
}

#[test]
fn open_that_a_rule_of_this_host_rejects_has_its_errno() {
    let rules = "add table ip t; add chain ip t out { type filter hook output priority 0; }; \
                 add rule ip t out tcp dport 77 reject";
    let (events, made, _) = need!(watched_with_rules("ev_rejected", "rejected", 77, rules, ""));
    let fail = only(&events, "fail", "active");
    assert_eq!(
        (&fail["ended_how"], &fail["errno"]),
        (&"error".into(), &made["errno"]),
        "{fail:#}"
    );
    assert_eq!(made["errno"], 111, "{made}");
}

#[test]
fn refused_mptcp_is_one_failure_with_its_errno() {
    let more = "-tM --kinds fail,connect-error";
    let (events, made) = need!(watched("ev_mp_refused", "mptcp_refused", "127.0.0.1", more));
    assert_eq!(events.len(), 2, "{events:#?}");
    for netid in ["tcp", "mptcp"] {
        let fail = only_of(&events, "fail", netid, "active");
        assert_eq!(
            (&fail["ended_how"], &fail["errno"]),
            (&"reset-received".into(), &made["errno"]),
            "{fail:#}"
        );
    }
}

#[test]
fn aborted_mptcp_has_its_process_and_its_reset() {
    let (events, made) = need!(watched("ev_mp_aborted", "mptcp_aborted", "127.0.0.1", "-tM"));
    for (direction, how, side) in [
        ("active", "reset-sent", "local"),
        ("passive", "reset-received", "peer"),
    ] {
        let close = only_of(&events, "close", "mptcp", direction);
        assert_eq!(
            (&close["ended_how"], &close["ended_by"], &close["owner"]["pid"]),
            (&how.into(), &side.into(), &made["pid"]),
            "{close:#}"
        );
    }
    // It ends in a thread of the kernel.
    let reset = only_of(&events, "close", "mptcp", "passive");
    assert_eq!(
        (reset.get("closer"), &reset["known_by"]),
        (None, &"accept".into())
    );
}

/// Processes use the connection; its subflows end in a thread of the kernel.
#[test]
fn worker_of_an_mptcp_server_is_the_owner_of_subflows() {
    let check = |event: &serde_json::Value, known_by: &str, made: &serde_json::Value| {
        assert_eq!(
            (&event["owner"]["pid"], &event["known_by"]),
            (&made["child"], &known_by.into()),
            "{event:#}"
        );
    };
    let (events, made) = need!(watched("ev_workers", "mptcp_prefork", "127.0.0.1", ""));
    check(only(&events, "close", "passive"), "closer", &made);
    let more = "-tM --kinds open,close";
    let (events, made) = need!(watched("ev_workers_m", "mptcp_prefork", "127.0.0.1", more));
    for protocol in ["tcp", "mptcp"] {
        check(only_of(&events, "close", protocol, "passive"), "accept", &made);
    }
}

/// A thread of the kernel opens it, and owns nothing.
#[test]
fn further_subflow_has_the_process_of_the_first_one() {
    for more in ["", "-tM"] {
        let more = format!("{more} --kinds open,close");
        let (events, made) = need!(watched("ev_joined", "mptcp_joined", "127.0.0.1", &more));
        for kind in ["open", "close"] {
            let is_it = |event: &&serde_json::Value| {
                event["event"] == kind && event["netid"] == "tcp" && event["direction"] == "active"
            };
            let of_kind: Vec<_> = events.iter().filter(is_it).collect();
            assert_eq!(of_kind.len(), 2, "{events:#?}");
            for event in of_kind {
                assert_eq!(
                    (&event["owner"]["pid"], &event["known_by"]),
                    (&made["pid"], &"connect".into()),
                    "{event:#}"
                );
            }
        }
    }
}

#[test]
fn reset_of_a_prefork_server_has_the_worker_that_closed() {
    let more = "--kinds close,reset-sent";
    let (events, made) = need!(watched("ev_unread", "prefork_unread", "127.0.0.1", more));
    for kind in ["close", "reset-sent"] {
        let event = only(&events, kind, "passive");
        assert_eq!(
            (&event["owner"]["pid"], &event["known_by"]),
            (&made["child"], &"closer".into()),
            "{event:#}"
        );
    }
}

#[test]
fn second_signal_at_once_is_the_same_request_to_end() {
    for _ in 0..5 {
        let running = need!(Running::start("-n --format jsonl sport = :1 and sport = :2"));
        running.signal(rustix::process::Signal::TERM);
        // As `timeout` sends it: to its child, and to the group.
        std::thread::sleep(Duration::from_millis(2));
        running.signal(rustix::process::Signal::TERM);
        let (outcome, _) = running.ended();
        super::events::events(&outcome);
    }
}

#[test]
fn worker_that_only_writes_is_the_owner() {
    let (events, made) = need!(watched("ev_speaks", "speaks_first", "127.0.0.1", ""));
    let close = only(&events, "close", "passive");
    assert_eq!(
        (&close["owner"]["pid"], &close["known_by"], &close["ended_how"]),
        (&made["child"], &"accept".into(), &"reset-received".into()),
        "{close:#}"
    );
}

#[test]
fn retransmissions_are_counted_by_their_segments() {
    let rules = "add table ip t; add chain ip t in { type filter hook input priority 0; }; \
                 add rule ip t in tcp dport 78 ct state established numgen inc mod 7 0 drop";
    let (events, _, summary) = need!(watched_with_rules("ev_resent", "resent", 78, rules, ""));
    let close = only(&events, "close", "active");
    let segments = |event: &Value| event["retrans_segs"].as_u64().expect("a number");
    let again: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "retransmit" && event["direction"] == "active")
        .collect();
    assert_eq!(
        again.iter().map(|event| segments(event)).sum::<u64>(),
        segments(close)
    );
    assert!(segments(close) > again.len() as u64, "{again:#?}");
    let counts = summary["by_owner"].as_array().expect("a list").iter();
    let counted: u64 = counts.filter_map(|group| group["retransmitted"].as_u64()).sum();
    let all = events.iter().filter(|event| event["event"] == "retransmit");
    assert_eq!(counted, all.map(segments).sum::<u64>());
}

/// The timer of a tail loss probe still runs when duplicate acknowledgements begin a recovery.
#[test]
fn reasons_of_retransmissions_are_those_of_the_kernels_counters() {
    need!(program("nft"));
    let lab = need!(Lab::new("ev_fast"));
    let namespace = lab.namespace("alone");
    namespace.ip("link set lo mtu 1500");
    namespace.output(
        "nft",
        &[
            "add table ip t; add chain ip t in { type filter hook input priority 0; }; \
           add rule ip t in tcp dport 79 meta length > 1000 numgen inc mod 40 == 3 drop",
        ],
    );
    let counters = || {
        let text = namespace.proc_net("netstat");
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let value = |wanted: &str| {
            let place = names.split(' ').position(|name| name == wanted).expect(wanted);
            values
                .split(' ')
                .nth(place)
                .expect("a value")
                .parse::<u64>()
                .expect("a number")
        };
        [value("TCPFastRetrans"), value("TCPLossProbes")]
    };
    let running = need!(Running::start(&format!(
        "-n -N {} --format jsonl",
        namespace.name()
    )));
    namespace.run(|| {
        let listener = TcpListener::bind("127.0.0.1:79").expect("a port");
        let mut client = TcpStream::connect("127.0.0.1:79").expect("a connection");
        client.set_nodelay(true).expect("an option");
        let (mut server, _) = listener.accept().expect("a connection");
        std::thread::spawn(move || std::io::copy(&mut server, &mut std::io::sink()));
        for _ in 0..200 {
            client.write_all(&[0; 1400]).expect("sent");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let [fast, probes] = counters();
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let segments = |why: &str| {
        let of = events
            .iter()
            .filter(|event| event["event"] == "retransmit" && event["retransmitted_by"] == why);
        of.filter_map(|event| event["retrans_segs"].as_u64()).sum::<u64>()
    };
    assert!(fast > 0, "{events:#?}");
    assert_eq!(segments("fast"), fast, "{events:#?}");
    // Some probes are new data.
    assert!(segments("tlp") <= probes, "{probes}: {events:#?}");
}

#[test]
fn owner_has_its_command_line() {
    let (events, made) = need!(watched("ev_command", "late_data", "127.0.0.1", ""));
    let open = only(&events, "open", "active");
    assert_eq!(open["owner"]["pid"], made["pid"], "{open:#}");
    let line = open["command_line"].as_str().expect("text");
    assert!(line.contains("connections.py late_data 127.0.0.1"), "{line}");
}
