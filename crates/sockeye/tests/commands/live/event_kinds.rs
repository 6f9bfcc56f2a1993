//! Faults, made with real sockets, and the kinds of events that they are.

use super::events::{Running, connect, events, only, script, watched};
use crate::fixtures::binary::command;
use serde_json::Value;
use sockeye_lab::{Impairment, Lab, Namespace, Skip, Toward, need, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

/// The events of a kind.
fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

/// The events that programs for kernels before 6.2 see.
fn watched_by_old_programs(purpose: &str, way: &str, more: &str) -> Result<(Vec<Value>, Value), Skip> {
    sockeye_lab::program("python3")?;
    let lab = Lab::new(purpose)?;
    let namespace = lab.namespace("alone");
    let mut old = command();
    old.env("SOCKEYE_BPF", "5.10");
    let line = format!("-n -N {} --format jsonl {more}", namespace.name());
    let running = Running::start_by(old, &line)?;
    let made = connect(&namespace, way, "127.0.0.1", 0);
    let (outcome, notes) = running.end();
    assert!(!notes.contains("lost"), "{notes}");
    let (events, _) = events(&outcome);
    Ok((events, made))
}

/// Both ends of `datagrams`.
#[track_caller]
fn datagrams_are_counted(events: &[Value], made: &Value, address: &str) {
    for (direction, known_by, ports, sent, received) in [
        ("active", "send", ("client_port", "server_port"), (20, 2), (4, 1)),
        (
            "passive",
            "receive",
            ("server_port", "client_port"),
            (4, 1),
            (20, 2),
        ),
    ] {
        let open = only(events, "open", direction);
        let close = only(events, "close", direction);
        for event in [open, close] {
            assert_eq!(event["netid"], "udp");
            assert_eq!(
                (&event["owner"]["pid"], &event["known_by"]),
                (&made["pid"], &known_by.into()),
                "{event:#}"
            );
            assert_eq!(
                (&event["local"]["port"], &event["peer"]["port"]),
                (&made[ports.0], &made[ports.1]),
                "{event:#}"
            );
            assert_eq!(
                (&event["local"]["ip"], &event["peer"]["ip"]),
                (&address.into(), &address.into())
            );
        }
        assert_eq!(
            (&close["sent_bytes"], &close["sent_datagrams"]),
            (&sent.0.into(), &sent.1.into()),
            "{close:#}"
        );
        assert_eq!(
            (&close["received_bytes"], &close["received_datagrams"]),
            (&received.0.into(), &received.1.into()),
            "{close:#}"
        );
        assert_eq!(close["closer"]["pid"], made["pid"]);
        assert!(close["duration_us"].as_u64().is_some(), "{close:#}");
    }
}

#[test]
fn udp_has_owner_peer_and_counters() {
    for address in ["127.0.0.1", "::1"] {
        let (events, made) = need!(watched("ev_udp", "datagrams", address, "-u"));
        datagrams_are_counted(&events, &made, address);
        assert_eq!(events.len(), 4, "{events:#?}");
    }
}

#[test]
fn udp_programs_before_6_2_show_the_same() {
    let (events, made) = need!(watched_by_old_programs("ev_udp_old", "datagrams", "-u"));
    datagrams_are_counted(&events, &made, "127.0.0.1");
}

#[test]
fn udp_without_a_connection_has_the_peer_that_it_sends_to() {
    for address in ["127.0.0.1", "::1"] {
        let (events, made) = need!(watched("ev_udp_peer", "unconnected", address, "-u --kinds open"));
        let open = only(&events, "open", "active");
        assert_eq!(
            (&open["peer"]["ip"], &open["peer"]["port"], &open["local"]["port"]),
            (&address.into(), &9.into(), &made["client_port"]),
            "{open:#}"
        );
    }
}

#[test]
fn udp_is_shown_only_when_it_is_chosen() {
    let (events, _) = need!(watched("ev_udp_off", "datagrams", "127.0.0.1", ""));
    assert!(events.is_empty(), "{events:#?}");
    let (events, _) = need!(watched("ev_tcp_off", "transfer", "127.0.0.1", "-u"));
    assert!(events.is_empty(), "{events:#?}");
    let (events, _) = need!(watched("ev_tcp_and_udp", "transfer", "127.0.0.1", "-tu"));
    only(&events, "open", "active");
    let (events, _) = need!(watched(
        "ev_udp_filter",
        "datagrams",
        "127.0.0.1",
        "-u dport = :1"
    ));
    assert!(events.is_empty(), "{events:#?}");
}

#[test]
fn udp_error_of_icmp_is_one_event_with_owner() {
    let (events, made) = need!(watched("ev_udp_icmp", "unreachable", "127.0.0.1", "-u"));
    let errors = of_kind(&events, "error");
    assert_eq!(errors.len(), 1, "{events:#?}");
    assert_eq!(
        (
            &errors[0]["cause"],
            &errors[0]["error"],
            &errors[0]["peer"]["port"]
        ),
        (&"icmp".into(), &"ECONNREFUSED".into(), &9.into()),
        "{:#}",
        errors[0]
    );
    assert_eq!(errors[0]["owner"]["pid"], made["pid"], "{:#}", errors[0]);
}

#[test]
fn udp_receive_buffer_that_is_full_counts_every_datagram() {
    let (events, made) = need!(watched("ev_udp_full", "full", "127.0.0.1", "-u"));
    let failed = |event: &Value| event["failed_datagrams"].as_u64().unwrap_or(0);
    let errors = of_kind(&events, "error");
    assert!(!errors.is_empty(), "{events:#?}");
    for error in &errors {
        assert_eq!(
            (&error["cause"], &error["local"]["port"]),
            (&"buffer-full".into(), &made["server_port"]),
            "{error:#}"
        );
    }
    let close = only(&events, "close", "passive");
    let lost = errors.iter().map(|error| failed(error)).sum::<u64>() + failed(close);
    assert_eq!(lost + made["received"].as_u64().unwrap(), 100, "{events:#?}");
    assert_eq!(close["received_datagrams"], made["received"]);
}

#[test]
fn udp_checksum_that_is_wrong_is_an_error() {
    let (events, made) = need!(watched("ev_udp_checksum", "checksum", "127.0.0.1", "-u"));
    let errors = of_kind(&events, "error");
    assert_eq!(errors.len(), 1, "{events:#?}");
    assert_eq!(
        (
            &errors[0]["cause"],
            &errors[0]["local"]["port"],
            &errors[0]["peer"]["port"]
        ),
        (&"checksum".into(), &made["server_port"], &5555.into()),
        "{:#}",
        errors[0]
    );
}

#[test]
fn udp_send_without_a_route_is_an_error() {
    let (events, made) = need!(watched("ev_udp_route", "send_errors", "127.0.0.1", "-u"));
    let errors = of_kind(&events, "error");
    assert_eq!(errors.len(), 1, "{events:#?}");
    assert_eq!(
        (
            &errors[0]["cause"],
            &errors[0]["errno"],
            &errors[0]["owner"]["pid"]
        ),
        (&"send".into(), &made["errno"], &made["pid"])
    );
    assert_eq!(errors[0]["peer"]["ip"], "192.0.2.7");
}

#[test]
fn connect_without_a_route_is_an_error_and_a_refused_one_is_not() {
    for old in [false, true] {
        let more = "-tu --kinds connect-error,fail";
        let (events, made) = need!(if old {
            watched_by_old_programs("ev_connect_old", "connect_errors", more)
        } else {
            watched("ev_connect", "connect_errors", "127.0.0.1", more)
        });
        let errors = of_kind(&events, "connect-error");
        let found: Vec<_> = errors
            .iter()
            .map(|event| {
                (
                    event["netid"].as_str().unwrap(),
                    event["peer"]["ip"].as_str().unwrap(),
                )
            })
            .collect();
        let (v4, v6) = ("192.0.2.7", "2001:db8::7");
        assert_eq!(
            found,
            [("tcp", v4), ("udp", v4), ("tcp", v6), ("udp", v6), ("tcp", v4)]
        );
        for (error, errno) in errors.iter().zip(made["errors"].as_array().unwrap()) {
            assert_eq!(
                (&error["errno"], &error["owner"]["pid"], &error["known_by"]),
                (errno, &made["pid"], &"connect".into()),
                "{error:#}"
            );
            assert_eq!(error["peer"]["port"], 9);
        }
        assert_eq!(of_kind(&events, "fail").len(), 1, "{events:#?}");
    }
}

#[test]
fn full_accept_queue_is_as_many_events_as_the_kernel_counts() {
    for old in [false, true] {
        let more = "--kinds accept-overflow,syn-overflow";
        let (events, made) = need!(if old {
            watched_by_old_programs("ev_accept_old", "accept_overflow", more)
        } else {
            watched("ev_accept", "accept_overflow", "127.0.0.1", more)
        });
        let overflows = of_kind(&events, "accept-overflow");
        assert_eq!(
            Some(overflows.len() as u64),
            made["overflows"].as_u64(),
            "{events:#?}"
        );
        for overflow in &overflows {
            assert_eq!(
                (&overflow["refusal"], &overflow["local"]["port"]),
                (&"syn-dropped".into(), &made["server_port"]),
                "{overflow:#}"
            );
            if !old {
                assert_eq!(
                    (&overflow["owner"]["pid"], &overflow["known_by"]),
                    (&made["pid"], &"listener".into())
                );
            }
        }
        assert_eq!(overflows.last().unwrap()["peer"]["port"], made["last_port"]);
    }
}

#[test]
fn full_syn_queue_drops_or_sends_cookies() {
    need!(sockeye_lab::program("python3"));
    for (cookies, refusal, counter) in [
        ("0", "syn-dropped", "TCPReqQFullDrop"),
        ("1", "cookie", "TCPReqQFullDoCookies"),
        // Each request gets one.
        ("2", "cookie", "TCPReqQFullDoCookies"),
    ] {
        let lab = need!(Lab::new("ev_syn"));
        let namespace = lab.namespace("alone");
        // SYN-ACKs must have a route, or no request is queued.
        namespace.ip("route add 192.0.2.7 dev lo");
        namespace.sysctl("ipv4/tcp_syncookies", cookies);
        // A SYN that is repeated needs no space again.
        for way in ["syn_overflow", "repeated_syns"] {
            let (events, made) = overflows_of(&namespace, way, false);
            let counted = made["moved"][counter].as_u64().expect("a number");
            assert!(counted > 0, "no overflow with tcp_syncookies {cookies}");
            assert_eq!(
                events.len() as u64,
                counted,
                "{way}, {cookies}: {made:#}: {events:#?}"
            );
            for event in &events {
                assert_eq!(
                    (&event["event"], &event["refusal"], &event["peer"]["ip"]),
                    (&"syn-overflow".into(), &refusal.into(), &"192.0.2.7".into()),
                    "{event:#}"
                );
                assert_eq!(event["local"]["port"], made["server_port"]);
                assert_eq!(event["owner"]["pid"], made["pid"]);
            }
        }
    }
}

/// Overflows of a way to make some, as the newest programs see them or those for kernels before 6.2.
fn overflows_of(namespace: &Namespace, way: &str, old: bool) -> (Vec<Value>, Value) {
    let mut sockeye = command();
    if old {
        sockeye.env("SOCKEYE_BPF", "5.10");
    }
    let line = format!(
        "-n -N {} --format jsonl --kinds accept-overflow,syn-overflow",
        namespace.name()
    );
    let running = Running::start_by(sockeye, &line).expect("events starts");
    let made = connect(namespace, way, "127.0.0.1", 0);
    let (outcome, _) = running.end();
    (events(&outcome).0, made)
}

#[test]
fn what_needs_no_space_in_a_full_accept_queue_is_no_overflow() {
    need!(sockeye_lab::program("python3"));
    for (old, cookies) in [(false, "0"), (false, "1"), (true, "0"), (true, "1")] {
        let lab = need!(Lab::new("ev_queued"));
        let namespace = lab.namespace("alone");
        namespace.ip("route add 192.0.2.7 dev lo");
        namespace.sysctl("ipv4/tcp_syncookies", cookies);
        let (events, made) = overflows_of(&namespace, "full_of_repeated", old);
        let counted = made["moved"]["ListenOverflows"].as_u64().expect("a number");
        assert!(counted > 0, "{made:#}");
        assert_eq!(events.len() as u64, counted, "{cookies}: {made:#}: {events:#?}");
        assert!(
            events.iter().all(|event| event["peer"]["ip"] == "127.0.0.1"),
            "{events:#?}"
        );
    }
}

#[test]
fn zero_window_begins_and_ends_on_both_sides() {
    for old in [false, true] {
        let more = "--kinds zero-window,window-open";
        let (events, made) = need!(if old {
            watched_by_old_programs("ev_window_old", "zero_window", more)
        } else {
            watched("ev_window", "zero_window", "127.0.0.1", more)
        });
        for (direction, side) in [("passive", "local"), ("active", "peer")] {
            let of = |kind: &str| {
                let mut found = of_kind(&events, kind);
                found.retain(|event| event["direction"] == direction);
                found
            };
            let (zero, open) = (of("zero-window"), of("window-open"));
            assert_eq!(zero.len(), open.len(), "{events:#?}");
            assert!(!zero.is_empty(), "{events:#?}");
            for event in zero.iter().chain(&open) {
                assert_eq!(event["window_of"], side, "{event:#}");
                assert_eq!(event["owner"]["pid"], made["pid"], "{event:#}");
            }
            let longest = open
                .iter()
                .filter_map(|event| event["duration_us"].as_u64())
                .max();
            assert!(longest.is_some_and(|us| us > 400_000), "{events:#?}");
        }
    }
}

#[test]
fn mptcp_is_a_connection_with_subflows() {
    for old in [false, true] {
        let more = "-tM --kinds open,close";
        let (events, made) = need!(if old {
            watched_by_old_programs("ev_mptcp_old", "mptcp", more)
        } else {
            watched("ev_mptcp", "mptcp", "127.0.0.1", more)
        });
        for direction in ["active", "passive"] {
            let of = |kind: &str, netid: &str| {
                let is_it = |event: &&Value| {
                    event["event"] == kind && event["direction"] == direction && event["netid"] == netid
                };
                let found: Vec<&Value> = events.iter().filter(is_it).collect();
                assert_eq!(found.len(), 1, "{kind} {netid} {direction}: {events:#?}");
                found[0].clone()
            };
            let open = of("open", "mptcp");
            let token = &open["mptcp_token"];
            assert!(token.as_u64().is_some(), "{open:#}");
            for event in [of("open", "tcp"), of("close", "tcp"), of("close", "mptcp")] {
                assert_eq!(&event["mptcp_token"], token, "{event:#}");
            }
            let ports = [&open["local"]["port"], &open["peer"]["port"]];
            let expected = [&made["client_port"], &made["server_port"]];
            let is_active = direction == "active";
            assert_eq!(
                ports,
                if is_active {
                    expected
                } else {
                    [expected[1], expected[0]]
                }
            );
            let close = of("close", "mptcp");
            let key = if is_active { "sent_bytes" } else { "received_bytes" };
            assert_eq!(close[key], 5, "{close:#}");
            if is_active || !old {
                assert_eq!(close["owner"]["pid"], made["pid"], "{close:#}");
            }
        }
    }
}

#[test]
fn subflow_is_a_tcp_connection_with_a_token() {
    let (events, _) = need!(watched("ev_subflow", "mptcp", "127.0.0.1", ""));
    assert!(events.iter().all(|event| event["netid"] == "tcp"), "{events:#?}");
    assert!(only(&events, "open", "active")["mptcp_token"].as_u64().is_some());
    let (events, _) = need!(watched("ev_no_token", "transfer", "127.0.0.1", ""));
    assert!(only(&events, "open", "active").get("mptcp_token").is_none());
}

#[test]
fn segments_sent_again_without_need_are_undone() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_undo"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let middlebox = lab.middlebox(&client, &server, 7);
    let address = middlebox.net_path().server_ip();
    let running = need!(Running::start(&format!(
        "-n -N {} --format jsonl --kinds retransmit,undo,close",
        client.name()
    )));
    let start = |namespace: &Namespace, way: &str, port: &str| {
        namespace
            .command(
                "python3",
                &[script().to_str().unwrap(), way, &address.to_string(), port],
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let line = |child: &mut Child| {
        let mut text = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut text)
            .unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let mut echo = start(&server, "echo", "0");
    let port = line(&mut echo)["port"].to_string();
    let mut slow = start(&client, "spurious", &port);
    line(&mut slow);
    // Longer than the least retransmission timeout, 200 ms.
    middlebox.set(
        Toward::Client,
        Impairment {
            delay: Duration::from_millis(700),
            ..Impairment::default()
        },
    );
    slow.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert!(slow.wait().unwrap().success() && echo.wait().unwrap().success());
    wait_until("the connection is closed", || {
        let rows = client.proc_net("tcp");
        let mut states = rows.lines().skip(1).map(|row| row.split_whitespace().nth(3));
        states.all(|state| state == Some("06"))
    });
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let again = of_kind(&events, "retransmit");
    assert!(
        again.iter().any(|event| event["retransmitted_by"] == "rto"),
        "{events:#?}"
    );
    let undone = of_kind(&events, "undo");
    assert_eq!(undone.len(), 1, "{events:#?}");
    assert_eq!(undone[0]["retransmitted_by"], "rto", "{:#}", undone[0]);
    let close = of_kind(&events, "close");
    assert!(
        close[0]["dsack_dups"].as_u64().is_some_and(|segs| segs > 0),
        "{:#}",
        close[0]
    );
}

#[test]
fn container_that_starts_later_has_its_name() {
    need!(sockeye_lab::program("python3"));
    let lab = need!(Lab::new("ev_late"));
    let namespace = lab.namespace("alone");
    let running = need!(Running::start(&format!(
        "-n -N {} --format jsonl --kinds open",
        namespace.name()
    )));
    // Names are read at the first event.
    connect(&namespace, "transfer", "127.0.0.1", 0);
    let id = "5ea".repeat(21) + "5";
    let cgroup = need!(lab.cgroup()).join(format!("docker-{id}.scope"));
    std::fs::create_dir(&cgroup).unwrap();
    let shell = format!(
        "echo $$ > {}/cgroup.procs && python3 {} transfer 127.0.0.1 0 > /dev/null",
        cgroup.display(),
        script().display()
    );
    namespace.output("sh", &["-c", &shell]);
    let (outcome, _) = running.end();
    let (events, _) = events(&outcome);
    let _ = std::fs::remove_dir(&cgroup);
    let last = events.last().unwrap();
    assert!(
        last["container"]
            .as_str()
            .and_then(|name| name.strip_prefix("docker:"))
            .is_some_and(|name| id.starts_with(name)),
        "{last:#}"
    );
}
