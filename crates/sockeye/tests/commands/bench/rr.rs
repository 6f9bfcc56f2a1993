//! `sockeye bench rr` and `crr`: requests counted by interfaces, percentiles in order, and what goes wrong meanwhile.

use crate::fixtures::binary::serving::{Serving, apart, rx_bytes};
use crate::fixtures::binary::{ended, start_in, words, words_in};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Namespace, need, wait_until};

#[track_caller]
fn assert_in_order(row: &Value) {
    let names = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"];
    let values: Vec<u64> = names
        .iter()
        .map(|name| {
            row[format!("{name}_ns")]
                .as_u64()
                .unwrap_or_else(|| panic!("{name}: {row}"))
        })
        .collect();
    assert!(values[0] > 0 && values.is_sorted(), "{row}");
}

#[test]
fn interfaces_count_the_same_requests() {
    let (_lab, client, server, link, _serving) = need!(apart("rr_bytes"));
    let (here, there) = link.devices();
    let (v4, v6) = link.server_addresses();
    // What a request and its answer take in addition to their bytes: headers, and of TCP acknowledgements.
    for (host, flags, least) in [
        (v4, "-u", 14 + 20 + 8),
        (v6, "-u -P 3", 14 + 40 + 8),
        (v4, "", 14 + 20 + 20),
        (v6, "-P 2 --rate 2000", 0),
    ] {
        let before = (rx_bytes(&server, there), rx_bytes(&client, here));
        let line = format!("bench rr {host} -c 500 --request 1000 --response 300 {flags} --json");
        let outcome = words_in(&client, &line);
        let after = (rx_bytes(&server, there), rx_bytes(&client, here));
        assert_eq!(outcome.code, Some(0), "{flags}: {outcome:?}");
        let report = outcome.report();
        let row = &report["answers"][0];
        let of = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
        assert_eq!((of("sent"), of("count") + of("lost")), (500, 500), "{row}");
        for (size, bytes) in [(1000, after.0 - before.0), (300, after.1 - before.1)] {
            let least = 500 * (size + least);
            assert!(
                bytes >= least && bytes <= 500 * (size + 200) + 50_000,
                "{flags}: {bytes}"
            );
        }
        assert_in_order(row);
        assert!(
            report["ends"][1]["cpu_ns_per_request"].as_f64() > Some(0.0),
            "{report:#}"
        );
    }
}

#[test]
fn requested_rate_is_kept() {
    let (_lab, client, _server, link, _serving) = need!(apart("rr_rate"));
    let host = link.server_addresses().0;
    let outcome = words_in(
        &client,
        &format!("bench rr {host} --rate 300 -d 1 --repeats 2 --json"),
    );
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let report = outcome.report();
    let row = &report["answers"][0];
    assert_eq!(
        row["sent"].as_u64().unwrap() + row["unsent"].as_u64().unwrap(),
        600,
        "{row}"
    );
    assert_eq!(report["runs"].as_array().expect("runs").len(), 2, "{report:#}");
    let rate = row["rate_per_s"].as_f64().expect("a rate");
    assert!((100.0..=330.0).contains(&rate), "{row}");
    // More than there can be: reported, not hidden.
    let outcome = words_in(
        &client,
        &format!("bench crr {host} --rate 1M -d 0.5 --request 100 --json"),
    );
    let report = outcome.report();
    assert_eq!(report["sentences"][0]["code"], "rate-not-reached", "{report:#}");
    assert!(
        report["answers"][1]["unsent"].as_u64() > Some(100_000),
        "{report:#}"
    );
}

#[test]
fn crr_opens_a_connection_per_request() {
    let (_lab, client, server, link, _serving) = need!(apart("crr_each"));
    let (v4, v6) = link.server_addresses();
    for (host, flags) in [(v4, ""), (v6, "-P 4")] {
        let outcome = words_in(&client, &format!("bench crr {host} -c 200 {flags} --json"));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let report = outcome.report();
        let [connect, whole] = [0, 1].map(|row| &report["answers"][row]);
        for row in [connect, whole] {
            assert_eq!(row["count"], 200, "{report:#}");
            assert_in_order(row);
        }
        assert!(
            connect["p50_ns"].as_u64() < whole["p50_ns"].as_u64(),
            "{report:#}"
        );
    }
    // Who closes first keeps the port: that is the server.
    let waiting = |place: &Namespace| {
        let rows = place.proc_net("tcp") + &place.proc_net("tcp6");
        rows.lines()
            .filter(|line| line.split_whitespace().nth(3) == Some("06"))
            .count()
    };
    assert!(waiting(&server) >= 200, "{}", waiting(&server));
    assert!(waiting(&client) <= 2, "{}", waiting(&client));
}

#[test]
fn exhausted_ports_are_reported() {
    let (_lab, client, _server, link, _serving) = need!(apart("crr_ports"));
    let host = link.server_addresses().0;
    client.sysctl("ipv4/ip_local_port_range", "40000 40003");
    let outcome = words_in(&client, &format!("bench crr {host} -P 16 -d 20 --json"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let report = outcome.report();
    assert_eq!(report["partial"]["code"], "ports-exhausted", "{report:#}");
    let outcome = report["sentences"].to_string();
    assert!(
        outcome.contains("net.ipv4.ip_local_port_range") && outcome.contains("tcp_tw_reuse"),
        "{outcome}"
    );
}

#[test]
fn killed_end_leaves_a_partial_report() {
    let (_lab, client, server, link, mut serving) = need!(apart("rr_killed"));
    let host = link.server_addresses().0;
    for line in ["rr", "rr -u --rate 1000", "crr", "rr --rate 500 -P 2"] {
        let before = rx_bytes(&server, link.devices().1);
        let child = start_in(&client, &format!("bench {line} {host} -d 60 --json"));
        wait_until("requests", || {
            rx_bytes(&server, link.devices().1) > before + 20_000
        });
        serving.kill();
        let outcome = ended(child);
        let (code, report) = (outcome.code, outcome.report());
        assert_eq!(code, Some(1), "{line}: {report:#}");
        assert_eq!(report["partial"]["code"], "peer-gone", "{line}: {report:#}");
        let rows = report["answers"].as_array().expect("rows");
        assert!(
            rows[rows.len() - 1]["count"].as_u64() > Some(0),
            "{line}: {report:#}"
        );
        serving = Serving::new(Some(&server), "");
    }
}

#[test]
fn interrupt_leaves_a_partial_report() {
    let (_lab, client, server, link, _serving) = need!(apart("rr_interrupt"));
    let host = link.server_addresses().0;
    for line in ["rr --repeats 3", "rr -u", "crr -P 2", "rr --rate 500"] {
        let before = rx_bytes(&server, link.devices().1);
        let child = start_in(&client, &format!("bench {line} {host} -d 60 --json"));
        wait_until("requests", || {
            rx_bytes(&server, link.devices().1) > before + 20_000
        });
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).expect("it lives");
        let outcome = ended(child);
        let (code, report) = (outcome.code, outcome.report());
        assert_eq!(code, Some(1), "{line}: {report:#}");
        assert_eq!(report["partial"]["code"], "interrupted", "{line}: {report:#}");
        let rows = report["answers"].as_array().expect("rows");
        assert!(
            rows[rows.len() - 1]["count"].as_u64() > Some(0),
            "{line}: {report:#}"
        );
    }
    let outcome = words_in(&client, &format!("bench rr {host} -c 10"));
    assert_eq!(outcome.code, Some(0), "the server lives on: {outcome:?}");
}

/// The path drops everything, without an error.
#[test]
fn silent_path_times_out() {
    let (_lab, client, server, link, _serving) = need!(apart("rr_silence"));
    let (host, device) = (link.server_addresses().0, link.devices().1);
    let before = rx_bytes(&server, device);
    let child = start_in(&client, &format!("bench rr {host} -d 60 --timeout 1 --json"));
    wait_until("requests", || rx_bytes(&server, device) > before + 20_000);
    server.ip(&format!("link set {device} down"));
    let outcome = ended(child);
    let (code, report) = (outcome.code, outcome.report());
    assert_eq!(code, Some(1), "{report:#}");
    assert_eq!(report["partial"]["code"], "timeout", "{report:#}");
    assert!(report["answers"][0]["count"].as_u64() > Some(0), "{report:#}");
    let outcome = words_in(&client, &format!("bench rr {host} --timeout 0.5"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.error().contains("no answer"), "{outcome:?}");
}

#[test]
fn contradicting_options_are_refused() {
    let (_lab, client, _server, link, _serving) = need!(apart("rr_refused"));
    let host = link.server_addresses().0;
    let outcome = words_in(&client, &format!("bench rr {host} -p 9"));
    assert_eq!((outcome.code, outcome.stdout.len()), (Some(1), 0), "{outcome:?}");
    assert!(outcome.error().contains("connection refused"), "{outcome:?}");
    let outcome = words_in(&client, &format!("bench rr {host} --affinity ,4000"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.error().contains("no processor 4000"), "{outcome:?}");
    let outcome = words_in(&client, &format!("bench rr {host} --affinity 4000"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    for flags in [
        "-u --request 7",
        "-u --response 65508",
        "--request 0",
        "--rate 0",
        "-c 0",
        "-P 0",
        "-P 1001",
        "-d 0",
        "-4 -B ::1",
    ] {
        let outcome = words(&format!("bench rr 127.0.0.1 {flags}"));
        assert_eq!(outcome.code, Some(2), "{flags}: {outcome:?}");
    }
    let outcome = words("bench crr 127.0.0.1 -u");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
}

#[test]
fn link_local_addresses_keep_their_device() {
    let (_lab, client, _server, link, _serving) = need!(apart("bench_fe80"));
    let here = link.devices().0;
    let address = link.net_path_link_local().server_ip();
    for words in ["rr", "rr -u", "crr", "crr -P 3"] {
        let line = format!("bench {words} {address}%{here} -c 20 --json");
        let outcome = words_in(&client, &line);
        assert_eq!(outcome.code, Some(0), "{line}: {}", outcome.error());
        assert_eq!(outcome.report()["answers"][0]["count"], 20, "{line}");
    }
    let outcome = words_in(&client, &format!("bench rr {address} -c 20"));
    assert!(
        outcome.error().contains("needs its device"),
        "{}",
        outcome.error()
    );
}
