//! `sockeye explain`: names in every spelling, logs of every kind, and what is in neither.

use crate::fixtures::binary::{Outcome, assert_harmless, command, run, sockeye, words};
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FLOOD: &str = "TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies.";

/// What it says of a log on its standard input.
fn of_log(flags: &[&str], log: &[u8]) -> Outcome {
    let mut command = command();
    command.arg("explain").args(flags);
    fed(&mut command, log)
}

fn fed(command: &mut Command, log: &[u8]) -> Outcome {
    let mut file = tempfile();
    file.write_all(log).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let input = std::fs::File::open(path).unwrap();
    command.stdin(Stdio::from(input)).output().unwrap().into()
}

/// A file without a name.
fn tempfile() -> std::fs::File {
    let fd = rustix::fs::memfd_create("log", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    fd.into()
}

fn json_of_log(log: &str) -> Value {
    let outcome = of_log(&["--format", "json"], log.as_bytes());
    let document: Value = serde_json::from_str(outcome.ok()).unwrap();
    follows(&document);
    document
}

fn follows(document: &Value) {
    let schema = schema_file::load(include_str!("../../../../docs/schema/explain.schema.json"));
    let schema = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema)
        .unwrap();
    let errors: Vec<_> = schema
        .validate(document)
        .err()
        .into_iter()
        .flatten()
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[track_caller]
fn check(query: &str, kind: &str, name: &str) {
    let outcome = sockeye(&["explain", "--format", "json", "--", query]);
    let document: Value = serde_json::from_str(outcome.ok()).unwrap();
    follows(&document);
    let found = document["entries"].as_array().unwrap();
    let is_it = |entry: &&Value| entry["kind"] == kind && entry["name"] == name;
    assert!(found.iter().any(|entry| is_it(&entry)), "{query}: {found:?}");
    // People get the same.
    let outcome = sockeye(&["explain", "--", query]);
    assert!(outcome.ok().contains(name), "{outcome:?}");
    assert!(
        outcome.ok().contains("Check:") && outcome.ok().contains("Remedy:"),
        "{outcome:?}"
    );
}

#[test]
fn names_are_found_in_any_spelling() {
    check("TcpExtListenOverflows", "counter", "TcpExtListenOverflows");
    check("ListenOverflows", "counter", "TcpExtListenOverflows");
    check("tcpextlistenoverflows", "counter", "TcpExtListenOverflows");
    check("TcpExt: ListenOverflows", "counter", "TcpExtListenOverflows");
    check(
        "TcpExtListenOverflows           12                 0.0",
        "counter",
        "TcpExtListenOverflows",
    );
    check("net.ipv4.tcp_tw_reuse", "setting", "net.ipv4.tcp_tw_reuse");
    check("tcp_tw_reuse", "setting", "net.ipv4.tcp_tw_reuse");
    check("net.ipv4.tcp_tw_reuse = 2", "setting", "net.ipv4.tcp_tw_reuse");
    check(
        "/proc/sys/net/ipv4/tcp_tw_reuse",
        "setting",
        "net.ipv4.tcp_tw_reuse",
    );
    check(
        "net.ipv4.conf.eth0.rp_filter",
        "setting",
        "net.ipv4.conf.*.rp_filter",
    );
    check(
        "net.ipv4.conf.eth0.100.rp_filter",
        "setting",
        "net.ipv4.conf.*.rp_filter",
    );
    check(
        "SKB_DROP_REASON_TCP_OFOMERGE",
        "drop-reason",
        "SKB_DROP_REASON_TCP_OFOMERGE",
    );
    check("TCP_OFOMERGE", "drop-reason", "SKB_DROP_REASON_TCP_OFOMERGE");
    check("CLOSE_WAIT", "state", "CLOSE-WAIT");
    check("close-wait", "state", "CLOSE-WAIT");
    check("ENOBUFS", "error", "ENOBUFS");
    check("Connection reset by peer", "error", "ECONNRESET");
    check("errno 104", "error", "ECONNRESET");
    check("error -104", "error", "ECONNRESET");
    check("tcpi_rto", "tcp-info", "tcpi_rto");
    check("Recv-Q", "column", "ss: Recv-Q");
    check("rto:204", "column", "ss: rto");
    check(
        "cubic wscale:7,7 rto:204 rtt:3.5/1.2 mss:1448 cwnd:10 retrans:0/3",
        "column",
        "ss: retrans",
    );
    check("CLOSE WAIT", "state", "CLOSE-WAIT");
    check("FIN WAIT 2", "state", "FIN-WAIT-2");
    check(
        "2: eth0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 state DOWN",
        "state",
        "NO-CARRIER",
    );
}

#[test]
fn ends_of_connections_are_explained() {
    for how in ["abandoned", "no-port", "reset-sent", "reset-received"] {
        check(how, "term", how);
    }
}

#[test]
fn messages_are_found_after_any_prefix() {
    for front in [
        "",
        "[12345.678901] ",
        "<4>[12345.678901] ",
        "Nov 20 12:00:00 web-1 kernel: ",
        "2026-11-20T12:00:00.123456+00:00 web-1 kernel: [12.3] ",
    ] {
        check(&format!("{front}{FLOOD}"), "message", "syn-flooding");
    }
    let outcome = sockeye(&["explain", FLOOD]);
    assert!(outcome.ok().contains("port 80"), "{outcome:?}");
}

#[test]
fn unknown_text_is_reported_with_similar_entries() {
    let outcome = words("explain TcpExtTCPAbort");
    assert!(outcome.failed(1).contains("TcpExtTCPAbortOn"), "{outcome:?}");
    let outcome = sockeye(&["explain", "possible syn floods on some port"]);
    assert!(outcome.failed(1).contains("syn-flooding"), "{outcome:?}");
    let outcome = words("explain qqqqqqqqqqqq");
    assert!(outcome.failed(1).contains("--list"), "{outcome:?}");
    let outcome = sockeye(&["explain", "\x1b[31mred\x07"]);
    assert_harmless(outcome.failed(1).as_bytes());
    let long = "x ".repeat(60_000);
    assert!(sockeye(&["explain", &long]).failed(1).len() < 4_000);
}

/// Numbers behind words that are not about errors are no errors.
#[test]
fn numbers_in_texts_are_no_error_codes() {
    for line in ["rx_crc_errors: 12", "port 22", "VLAN 100", "eth0: 12", "lost 2"] {
        let outcome = sockeye(&["explain", "--format", "json", "--", line]);
        let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        let entries = document["entries"].as_array().unwrap();
        assert!(
            entries.iter().all(|entry| entry["kind"] != "error"),
            "{line}: {entries:?}"
        );
    }
}

/// Anybody may write to the system's log.
#[test]
fn messages_of_programs_are_not_taken_for_the_kernels() {
    let log = "Nov 20 12:00:00 h app[9]: nf_conntrack: nf_conntrack: table full, dropping packet\n\
               Nov 20 12:00:00 h app[9]: message repeated 0 times: [ eth0: link down]\n\
               Nov 20 12:00:00 h kernel: TCP: out of memory -- consider tuning tcp_mem\n\
               Nov 20 12:00:00 h last message repeated 18446744073709551615 times\n\
               Nov 20 12:00:00 h last message repeated 18446744073709551615 times\n\
               Nov 20 12:00:00 h systemd-networkd[3]: eth0: Lost carrier\n";
    let document = json_of_log(log);
    let names: Vec<_> = document["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["entry"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"networkd-lost-carrier"), "{names:?}");
}

#[test]
fn log_entries_are_sorted_by_severity() {
    let log = format!(
        "[1.0] e1000e 0000:00:1f.6 eth0: NIC Link is Up 1000 Mbps Full Duplex, Flow Control: Rx/Tx\n\
         [2.0] {FLOOD}\n\
         [2.5] nothing of the kind\n\
         [3.0] unregister_netdevice: waiting for eth0 to become free. Usage count = 2\n\
         [4.0] {}\n\
         [5.0] nf_conntrack: nf_conntrack: table full, dropping packet\n\n",
        FLOOD.replace("80", "443")
    );
    let document = json_of_log(&log);
    let messages = document["messages"].as_array().unwrap();
    let rank = |message: &Value| {
        ["critical", "warning", "notice", "info"]
            .iter()
            .position(|severity| message["entry"]["severity"] == *severity)
            .unwrap()
    };
    assert!(messages.is_sorted_by_key(rank), "{messages:?}");
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert_eq!(document["lines"], 7);
    assert_eq!(document["lines_known"], 5);
    assert_eq!(document["lines_empty"], 1);
    let flood = messages
        .iter()
        .find(|message| message["entry"]["name"] == "syn-flooding")
        .unwrap();
    assert_eq!(flood["times"], 2);
    assert_eq!((&flood["first"], &flood["last"]), (&"2.0".into(), &"4.0".into()));
    let ports: Vec<_> = flood["values"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|value| value["place"] == "port")
        .map(|value| value["text"].as_str().unwrap())
        .collect();
    assert_eq!(ports, ["80", "443"]);
    let up = messages.last().unwrap();
    assert!(
        up["values"]
            .as_array()
            .unwrap()
            .iter()
            .any(|value| value["text"] == "eth0"),
        "{up:?}"
    );
    let text = of_log(&[], log.as_bytes());
    assert!(text.ok().contains("port 80, port 443"), "{text:?}");
    let bad = of_log(&["--severity", "warning"], log.as_bytes());
    assert!(
        !bad.ok().contains("Link is Up") && bad.ok().contains("not shown"),
        "{bad:?}"
    );
}

/// The same message in every kind of log.
#[test]
fn every_log_format_is_parsed() {
    let fronts = [
        "",
        "[12345.678901] ",
        "[Fri Nov 20 12:00:00 2026] ",
        "<4>[    5.678901] ",
        "<4>[    5.678901] [ T1234] ",
        "kern  :warn  : [12345.678901] ",
        "2026-11-20T12:00:00,123456+00:00 ",
        "Nov 20 12:00:00 web-1 kernel: ",
        "Nov  3 12:00:00 web-1 kernel: [ 12.345678] ",
        "2026-11-20T12:00:00.123456+00:00 web-1 kernel: ",
        "<4>1 2026-11-20T12:00:00Z web-1 kernel - - - ",
        "4,1234,5678901,-;",
        "MESSAGE=",
        "kernel: ",
    ];
    for front in fronts {
        let document = json_of_log(&format!("{front}{FLOOD}\n{front}{FLOOD}\r\n{front}{FLOOD}"));
        assert_eq!(document["messages"][0]["times"], 3, "{front:?}: {document:?}");
        assert_eq!(
            document["messages"][0]["entry"]["name"], "syn-flooding",
            "{front:?}"
        );
    }
    let journal = format!(r#"{{"PRIORITY":"4","MESSAGE":"{FLOOD}","__REALTIME_TIMESTAMP":"17"}}"#);
    let document = json_of_log(&journal);
    assert_eq!(document["messages"][0]["last"], "17", "{document:?}");
}

#[test]
fn unknown_lines_that_look_like_trouble_are_listed() {
    let log = "[1.0] thunderbolt-net 0000:03:00.0 ens1f0: Frobnication of queue 1 failed (-110)\n\
               [2.0] thunderbolt-net 0000:03:00.0 ens1f0: Frobnication of queue 2 failed (-110)\n\
               [3.0] frob: all is well\n\
               Nov 20 12:00:00 h app[9]: frob failed\n";
    let document = json_of_log(log);
    let unknown = document["unknown_lines"].as_array().unwrap();
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    let line = &unknown[0];
    assert_eq!(
        (&line["times"], &line["errno"]),
        (&2.into(), &110.into()),
        "{line}"
    );
    assert_eq!(line["driver"], "thunderbolt-net");
    assert_eq!(line["device"], "0000:03:00.0");
    assert_eq!(line["interface"], "ens1f0");
    assert_eq!(line["error"], "ETIMEDOUT");
    assert_eq!(document["lines_trouble"], 2);
    let text = of_log(&[], log.as_bytes());
    assert!(
        text.ok().contains("UNKNOWN") && text.ok().contains("-110 is ETIMEDOUT"),
        "{text:?}"
    );
    assert!(!text.ok().contains("all is well"), "{text:?}");
    assert!(
        text.ok().contains("2 others do not look like trouble (--unknown"),
        "{text:?}"
    );
    let all = of_log(&["--unknown"], log.as_bytes());
    assert!(
        all.ok().contains("> frob: all is well") && all.ok().contains("> frob failed"),
        "{all:?}"
    );
}

#[test]
fn counters_of_tools_are_explained() {
    let ethtool = "NIC statistics:\n     rx_packets: 12\n     rx_queue_0_drops: 3\n     rx_queue_1_drops: 4\n     \
                   tx_timeout_count: 1\n     rx_crc_errors: 0\n     frob_lost: 9\n";
    let document = json_of_log(ethtool);
    let counters = document["counters"].as_array().unwrap();
    let found: Vec<_> = counters
        .iter()
        .map(|counter| {
            (
                counter["entry"]["name"].as_str().unwrap_or(""),
                counter["total"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("ethtool.tx_timeout_count", 1),
            ("ethtool.rx_dropped", 7),
            ("", 9)
        ]
    );
    assert_eq!(document["counters_zero"], 1);
    assert_eq!(document["lines_counters"], 7);
    let text = of_log(&[], ethtool.as_bytes());
    let place = |what: &str| text.ok().find(what).unwrap_or_else(|| panic!("{what}: {text:?}"));
    assert!(
        place("tx_timeout_count 1") < place("rx_queue_0_drops 3, rx_queue_1_drops 4"),
        "{text:?}"
    );
    assert!(place("7 in total") < place("frob_lost 9"), "{text:?}");
    for (tool, expected) in [
        (
            "cpu=0 \tfound=0 invalid=0 insert=0 insert_failed=5 drop=0",
            "nf_conntrack.insert_failed",
        ),
        (
            "TcpExtListenOverflows           12                 0.0",
            "TcpExtListenOverflows",
        ),
        (
            "Ethernet Channel Bonding Driver: v6.18\n\nSlave Interface: eth1\nMII Status: down",
            "bonding.MII Status",
        ),
    ] {
        let text = of_log(&[], tool.as_bytes());
        assert!(text.ok().contains(expected), "{text:?}");
    }
    // A host's own counters.
    let own = std::fs::read("/proc/net/netstat").unwrap();
    let document = json_of_log(std::str::from_utf8(&own).unwrap());
    assert_eq!(document["lines"], document["lines_counters"], "{document}");
}

#[test]
fn trace_and_register_lines_belong_to_their_message() {
    let log = "[1.0] NETDEV WATCHDOG: eth0 (e1000e): transmit queue 0 timed out\n\
               [1.0] Call Trace:\n\
               [1.0]  <IRQ>\n\
               [1.0]  dump_stack+0x1/0x2\n\
               [1.0]  tcp_v4_rcv+0x12/0x340\n\
               [1.0] RAX: 0000000000000000 RBX: ffff888103a4c000\n\
               [2.0] e1000e 0000:00:1f.6 eth0: NIC Link is Down\n\
               [90.0] e1000e 0000:00:1f.6 eth1: NIC Link is Down\n";
    let document = json_of_log(log);
    assert_eq!(document["lines_parts"], 5, "{document}");
    let messages = document["messages"].as_array().unwrap();
    assert_eq!(messages[0]["trace"]["function"], "tcp_v4_rcv");
    assert_eq!(messages[0]["trace"]["subsystem"], "TCP");
    assert_eq!(
        messages[0]["followed_by"][0]["name"], "nic-link-down",
        "{messages:?}"
    );
    assert_eq!(messages[1]["times_in_events"], 1, "{messages:?}");
    let text = of_log(&[], log.as_bytes());
    assert!(
        text.ok().contains("part of the same event: nic-link-down"),
        "{text:?}"
    );
}

#[test]
fn words_and_error_numbers_are_found() {
    check("fq_codel", "term", "fq_codel");
    check("GRO", "term", "GRO");
    check("EAI_AGAIN", "error", "EAI_AGAIN");
    check("-110", "error", "ETIMEDOUT");
    // The same without its sign, as some drivers print it.
    check("4294967186", "error", "ETIMEDOUT");
    check("error 4294967291", "error", "EIO");
    check("111", "error", "ECONNREFUSED");
    check("rx_queue_3_drops", "counter", "ethtool.rx_dropped");
    check("tx3_xdp_full", "counter", "ethtool.xdp_tx_err");
}

#[test]
fn single_near_hit_is_shown_in_full() {
    for (asked, meant) in [
        ("closewait", "CLOSE-WAIT"),
        ("tw_reuse", "net.ipv4.tcp_tw_reuse"),
        ("somaxcon", "net.core.somaxconn"),
    ] {
        let outcome = sockeye(&["explain", asked]);
        assert!(
            outcome.ok().contains(meant) && outcome.ok().contains("Remedy:"),
            "{outcome:?}"
        );
        assert!(
            outcome.error().contains("is not in the dictionary") && outcome.error().contains(meant),
            "{outcome:?}"
        );
        let document: Value =
            serde_json::from_slice(&sockeye(&["explain", "--format", "json", asked]).stdout).unwrap();
        follows(&document);
        assert_eq!(document["meant"], meant);
    }
}

#[test]
fn suppressed_log_lines_are_counted() {
    let log = format!(
        "Nov 20 12:00:00 a kernel: {FLOOD}\n\
         Nov 20 12:00:01 a last message repeated 4 times\n\
         Nov 20 12:00:02 a kernel: message repeated 5 times: [ {FLOOD}]\n\
         Nov 20 12:00:03 a kernel: net_ratelimit: 12 callbacks suppressed\n"
    );
    let document = json_of_log(&log);
    assert_eq!(document["messages"][0]["times"], 10, "{document:?}");
    assert_eq!(document["messages"][0]["times_left_out"], 8, "{document:?}");
}

#[test]
fn malformed_logs_are_harmless() {
    let mut logs: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"\n\n\n".to_vec(),
        vec![0; 100_000],
        vec![0xff; 100_000],
        b"{\"MESSAGE\":\"".to_vec(),
        b"{\"MESSAGE\":\"\\ud83d\\u\\".to_vec(),
        "[".repeat(100_000).into_bytes(),
        ": ".repeat(100_000).into_bytes(),
        FLOOD.repeat(10_000).into_bytes(),
        format!("eth0\x1b[31m: {FLOOD}\n").into_bytes(),
    ];
    let mut flood = FLOOD.as_bytes().to_vec();
    flood.insert(5, 0xff);
    logs.push(flood);
    for log in logs {
        let outcome = of_log(&[], &log);
        outcome.ok();
        outcome.no_panic();
        assert_harmless(outcome.ok().as_bytes());
        outcome.ok();
        let document: Value = serde_json::from_str(of_log(&["--format", "json"], &log).ok()).unwrap();
        follows(&document);
    }
}

/// Unoptimised, each takes a fraction of a second; a word that was compared with every entry took seven.
#[test]
fn long_words_and_lines_take_no_longer_than_their_length() {
    let long = |piece: &str, len: usize| piece.repeat(len / piece.len());
    // The kernel's limit for an argument is 128 KiB.
    let word = long("a", 120_000);
    let words: Vec<String> = ('a'..='m')
        .map(|letter| long(&letter.to_string(), 120_000))
        .collect();
    for arguments in [
        vec![word],
        words,
        vec![long("ab ", 120_000)],
        vec![long("7", 120_000)],
    ] {
        let begun = Instant::now();
        let outcome = run(command().arg("explain").args(&arguments));
        let took = begun.elapsed();
        assert!(
            outcome.failed(1).contains("is not in the dictionary"),
            "{outcome:?}"
        );
        assert!(
            took < Duration::from_secs(5),
            "{took:?} for {:.20}...",
            arguments[0]
        );
    }
    for log in [
        long("x", 10_000_000),
        long("7", 10_000_000),
        long("a b: c: ", 10_000_000),
        long("\n", 10_000_000),
        long("eth0: no such text\n", 10_000_000),
        long(&format!("{FLOOD} "), 10_000_000),
    ] {
        let begun = Instant::now();
        of_log(&[], log.as_bytes()).ok();
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?} for {log:.20}...");
    }
}

/// The text decides, not the entry: one entry has "is now down" and "is now up".
#[test]
fn severity_is_that_of_what_was_said() {
    let up = "[1.5] bond0: (slave eth1): interface is now up\n";
    let down = "[2.5] bond0: (slave eth1): interface is now down\n";
    for (log, severity) in [(up.to_owned(), "info"), (format!("{up}{down}{up}"), "warning")] {
        let document = json_of_log(&log);
        assert_eq!(document["messages"][0]["severity"], severity, "{log}");
        assert_eq!(document["messages"][0]["entry"]["severity"], "warning");
    }
    let shown = of_log(&[], up.as_bytes());
    assert!(
        shown.ok().starts_with("INFO  bonding-interface-now-down"),
        "{}",
        shown.ok()
    );
    let hidden = of_log(&["--severity", "warning"], up.as_bytes());
    assert!(
        !hidden.ok().contains("bonding-interface-now-down"),
        "{}",
        hidden.ok()
    );
    let query = sockeye(&["explain", "--format", "json", "--", up.trim()]);
    let document: Value = serde_json::from_str(query.ok()).unwrap();
    follows(&document);
    assert_eq!(document["severity"], "info");
}

/// Two threads read the pieces of a long log; what is said of its lines depends on the lines before them.
#[test]
fn hang_with_its_reset_and_link_is_one_event() {
    let log = "[9.0] igb 0000:02:00.1: Detected Tx Unit Hang\n\
               [9.0]   TDH                  <0>\n\
               [11.0] igb 0000:02:00.1 eth1: Reset adapter\n\
               [11.1] igb 0000:02:00.1 eth1: igb: eth1 NIC Link is Down\n\
               [15.0] igb 0000:02:00.1 eth1: igb: eth1 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX/TX\n";
    let document = json_of_log(log);
    let messages = document["messages"].as_array().unwrap();
    let alone: Vec<_> = messages
        .iter()
        .filter(|message| message["times_in_events"] != message["times"])
        .collect();
    assert_eq!(alone.len(), 1, "{messages:?}");
    assert_eq!(
        alone[0]["followed_by"].as_array().map(Vec::len),
        Some(3),
        "{alone:?}"
    );
    let text = of_log(&[], log.as_bytes());
    assert_eq!(
        text.ok().matches("as part of the same event").count(),
        1,
        "{text:?}"
    );
}

/// Old and new wordings are one entry, with the kernel versions of each.
#[test]
fn wordings_have_their_kernel_versions() {
    let old = "NETDEV WATCHDOG: eth0 (e1000e): transmit queue 0 timed out";
    let new = "e1000e 0000:00:1f.6 eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5376 ms";
    for (line, key, word) in [(old, "wording_until", "until"), (new, "wording_since", "since")] {
        let outcome = sockeye(&["explain", "--format", "json", "--", line]);
        let found: Value = serde_json::from_str(outcome.ok()).unwrap();
        follows(&found);
        assert_eq!(found["entries"][0]["name"], "netdev-watchdog");
        assert_eq!(found[key], "5.15-6.1.192", "{found}");
        assert_eq!(found["entries"][0]["wordings"].as_array().map(Vec::len), Some(2));
        let document = json_of_log(&format!("[1.0] {line}\n"));
        assert_eq!(document["messages"][0][key], "5.15-6.1.192", "{document}");
        let text = of_log(&[], format!("[1.0] {line}\n").as_bytes());
        let expected = format!("This wording: {word} a kernel after 5.15, at the latest 6.1.192");
        assert!(text.ok().contains(&expected), "{text:?}");
    }
}

/// 15 messages that only the family explains, the first of them three times, another one twice.
#[test]
fn each_different_message_of_a_family_is_shown() {
    let letters: Vec<char> = ('a'..='o').collect();
    let mut log = String::new();
    for (nth, letter) in letters.iter().enumerate() {
        log += &format!("[{nth}.5] ceph: frob{letter} failed 1{nth} from nas{nth}\n");
    }
    log += "[20.5] ceph: froba failed 77 from nas9\n[21.5] ceph: froba failed 78 from nas8\n";
    log += "[22.5] ceph: frobn failed 79 from nas7\n";
    let outcome = of_log(&[], log.as_bytes());
    let text = outcome.ok();
    let shown: Vec<&str> = text.lines().filter(|line| line.starts_with("  > ")).collect();
    assert_eq!(shown.len(), 12, "{text}");
    assert_eq!(
        shown[0],
        "  > ceph: froba failed 10 from nas0  (3 times, 0.5 to 21.5)"
    );
    assert_eq!(shown[1], "  > ceph: frobb failed 11 from nas1  (1.5)");
    let more = "\n  and 3 more wordings, 4 lines; -v shows all\n";
    assert!(text.contains(more), "{text}");
    let outcome = of_log(&["-v"], log.as_bytes());
    let text = outcome.ok();
    for letter in &letters {
        let line = format!("  > ceph: frob{letter} failed");
        assert_eq!(text.matches(&line).count(), 1, "{line}: {text}");
    }
    assert!(!text.contains("more wording"), "{text}");
    let document = json_of_log(&log);
    let message = &document["messages"][0];
    assert_eq!(message["entry"]["name"], "network-storage-error", "{document}");
    assert_eq!(
        (&message["times"], &message["times_unread"]),
        (&18.into(), &18.into())
    );
    let wordings = message["wordings"].as_array().unwrap();
    assert_eq!(wordings.len(), 15, "{document}");
    assert_eq!(wordings[13]["times"], 2);
    assert_eq!(
        (&wordings[13]["first"], &wordings[13]["last"]),
        (&"13.5".into(), &"22.5".into())
    );
    let csv = of_log(&["--format", "csv"], log.as_bytes());
    assert!(
        csv.ok()
            .contains("ceph: frobn failed 113 from nas13 | ceph: frobo"),
        "{csv:?}"
    );
}

/// A log of nothing but different lines does not stay in memory.
#[test]
fn wordings_have_a_limit_and_are_counted_beyond_it() {
    let words: Vec<String> = (0..250)
        .map(|nth: u32| {
            let letters = [nth / 26 % 26, nth % 26].map(|letter| char::from_digit(letter + 10, 36).unwrap());
            letters.iter().collect()
        })
        .collect();
    let log: String = words
        .iter()
        .map(|word| format!("ceph: frob {word} failed\n"))
        .collect();
    let document = json_of_log(&log);
    let message = &document["messages"][0];
    assert_eq!(message["times"], 250, "{message}");
    assert_eq!(message["wordings"].as_array().map(Vec::len), Some(100));
    assert_eq!(message["times_wordings_left_out"], 150);
    let text = of_log(&["-v"], log.as_bytes());
    assert!(
        text.ok()
            .contains("and 150 lines of further wordings that were not kept"),
        "{text:?}"
    );
}

/// Different texts of an entry that is no family's, and lines that the log has only counted.
#[test]
fn different_texts_of_an_entry_are_shown() {
    let log = "[1.0] sd 2:0:0:0: rejecting I/O to offline device\n\
               [2.0] last message repeated 4 times\n\
               [3.0] sd 7:0:1:0: rejecting I/O to offline device\n\
               [4.0] sd 2:0:0:0: Device offlined - not ready after error recovery\n";
    let text = of_log(&[], log.as_bytes());
    let expected = "  > sd 2:0:0:0: rejecting I/O to offline device  (6 times, 1.0 to 3.0)\n  > sd 2:0:0:0: Device offlined - not ready after error recovery  (4.0)\n";
    assert!(text.ok().contains(expected), "{text:?}");
    assert!(!text.ok().contains("general reading"), "{text:?}");
    let document = json_of_log(log);
    let times = |nth: usize| document["messages"][0]["wordings"][nth]["times"].as_u64();
    assert_eq!((times(0), times(1)), (Some(6), Some(1)), "{document}");
    assert!(document["messages"][0]["entry"].get("is_family").is_none());
}

/// What a family says is less certain than what an entry says, and names what was not read.
#[test]
fn family_says_that_it_is_a_general_reading() {
    let unread = "carl9170 1-4:1.0: the frob failed (fffffff5)";
    let known = "ath11k_pci 0000:03:00.0: failed to send frob: -28";
    for (line, said) in [
        (unread, "No text of the dictionary has the message"),
        (known, "without an explanation of its own"),
    ] {
        for outcome in [
            sockeye(&["explain", line]),
            of_log(&[], format!("[1.0] {line}\n").as_bytes()),
        ] {
            let text = outcome.ok();
            assert!(text.contains("message of a family"), "{text}");
            assert!(text.contains("  A general reading of this family"), "{text}");
            assert!(text.contains(said), "{text}");
            assert!(text.contains("Causes that such messages often have:"), "{text}");
            assert!(
                text.contains("What often helps:") && !text.contains("Remedy:"),
                "{text}"
            );
        }
    }
    let text = sockeye(&["explain", unread]);
    assert!(text.ok().contains("If -11 is an errno, it is EAGAIN"), "{text:?}");
    // The words are those of a driver, not of system calls; a number of the firmware has none.
    for (line, said) in [
        ("r8152 2-2:1.0: frob fail -71", "EPROTO: the transfer was garbled"),
        (
            "ath10k_pci 0000:04:00.0: failed to frob: -16",
            "EBUSY: the device or a part of it",
        ),
    ] {
        let text = sockeye(&["explain", line]);
        assert!(text.ok().contains(said), "{text:?}");
    }
    let text = sockeye(&["explain", "brcmfmac: brcmf_frob: failed to frob err:-23"]);
    assert!(!text.ok().contains("is an errno"), "{text:?}");
    let found = sockeye(&["explain", "--format", "json", unread]);
    let found: Value = serde_json::from_str(found.ok()).unwrap();
    follows(&found);
    assert_eq!(
        (&found["unread"], &found["entries"][0]["is_family"]),
        (&true.into(), &true.into())
    );
    let both = of_log(
        &[],
        format!("[1.0] {unread}\n[2.0] carl9170 1-4:1.0: no command feedback\n[3.0] {known}\n").as_bytes(),
    );
    assert!(both.ok().contains("A general reading"), "{both:?}");
    let own = sockeye(&["explain", FLOOD]);
    assert!(
        own.ok().contains("Likely causes:") && own.ok().contains("Remedy:"),
        "{own:?}"
    );
    assert!(!own.ok().contains("general reading"), "{own:?}");
}

#[test]
fn long_log_has_the_result_of_its_parts() {
    let hang = "e1000e 0000:00:1f.6 eth0: Detected Hardware Unit Hang:";
    let mut log = Vec::new();
    for nth in 0..30_000 {
        let line = match nth % 6 {
            0 => format!("[{nth}.5] {hang}"),
            1 => format!("[{nth}.6] e1000e 0000:00:1f.6 eth0: Reset adapter"),
            2 => "Nov 20 12:00:00 web-1 kernel: last message repeated 2 times".to_owned(),
            3 => format!("{{\"MESSAGE\":\"TCP: out of memory -- consider tuning tcp_mem\",\"x\":{nth}}}"),
            4 => format!("[{nth}.7] frob{nth}: failed to frob (-110)"),
            _ => format!("Nov 20 12:00:00 web-1 app[{nth}]: {hang}"),
        };
        log.extend_from_slice(line.as_bytes());
        log.push(b'\n');
    }
    let document: Value = serde_json::from_str(of_log(&["--format", "json"], &log).ok()).unwrap();
    assert_eq!(document["lines"], 30_000);
    assert_eq!(document["lines_known"], 15_000);
    assert_eq!(document["lines_empty"], 5_000);
    assert_eq!(document["lines_trouble"], 5_000);
    let message = |name: &str| {
        let messages = document["messages"].as_array().unwrap();
        let found = messages.iter().find(|message| message["entry"]["name"] == name);
        found.unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(message("e1000e-hardware-unit-hang")["times"], 5_000);
    let reset = message("intel-reset-adapter");
    assert_eq!(
        (&reset["times"], &reset["times_left_out"]),
        (&15_000.into(), &10_000.into())
    );
    assert_eq!(reset["times_in_events"], 5_000);
}

#[test]
fn log_of_100000_lines_is_fast() {
    let mut log = String::new();
    for nth in 0..100_000 {
        let line = match nth % 5 {
            0 => format!("[{nth}.5] {FLOOD}\n"),
            1 => format!(
                "[{nth}.5] audit: type=1400 audit(1700000000.{nth}:17): apparmor=\"ALLOWED\" operation=\"open\"\n"
            ),
            2 => format!("[{nth}.5] e1000e 0000:00:1f.6 eth{}: NIC Link is Down\n", nth % 7),
            3 => format!("Nov 20 12:00:00 web-1 systemd[1]: Started session {nth} of user root.\n"),
            _ => format!(
                "[{nth}.5] IPv4: martian source 10.0.0.{} from 192.0.2.1, on dev eth0\n",
                nth % 250
            ),
        };
        log.push_str(&line);
    }
    let begun = Instant::now();
    let document = json_of_log(&log);
    let took = begun.elapsed();
    assert_eq!(document["lines"], 100_000);
    assert!(
        document["lines_known"].as_u64().unwrap() >= 40_000,
        "{document:?}"
    );
    // An unoptimised build on a busy machine; `make bench` has the figure.
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn a_log_may_be_a_file() {
    let folder = std::env::temp_dir().join(format!("sockeye-explain-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("kern.log");
    std::fs::write(&path, format!("{FLOOD}\n")).unwrap();
    let by_flag = run(command().args(["explain", "-f"]).arg(&path));
    let by_name = run(command().arg("explain").arg(&path));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(by_flag.ok().contains("syn-flooding"), "{by_flag:?}");
    assert_eq!(by_flag.ok(), by_name.ok());
    let missing = run(command().args(["explain", "-f"]).arg(&path));
    assert!(missing.failed(1).contains("open"), "{missing:?}");
}

#[test]
fn kinds_are_listed() {
    for kind in [
        "message",
        "counter",
        "drop-reason",
        "setting",
        "state",
        "timer",
        "column",
        "tcp-info",
        "error",
        "term",
    ] {
        let outcome = sockeye(&["explain", "--list", kind]);
        assert!(outcome.ok().lines().count() > 5, "{outcome:?}");
        let document: Value =
            serde_json::from_str(sockeye(&["explain", "--list", kind, "--format", "json"]).ok()).unwrap();
        follows(&document);
        assert!(
            document["entries"]
                .as_array()
                .unwrap()
                .iter()
                .all(|entry| entry["kind"] == kind)
        );
    }
    assert!(
        words("explain --list drop_reasons")
            .ok()
            .contains("SKB_DROP_REASON_TCP_OFOMERGE")
    );
    assert!(words("explain --list nonsense").failed(2).contains("drop-reason"));
    let csv = words("explain CLOSE_WAIT --format csv");
    assert!(csv.ok().starts_with("time,host,kind,name,meaning"), "{csv:?}");
    let lines = words("explain CLOSE_WAIT --format jsonl");
    let _: Value = serde_json::from_str(lines.ok().lines().next().unwrap()).unwrap();
}
