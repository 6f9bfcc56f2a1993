//! `sockeye bench serve` and `stream`: both ends in namespaces, bytes counted by interfaces, and what goes wrong between them.

use super::hostile_client::HostileClient;
use crate::fixtures::binary::serving::{Serving, apart, rx_bytes};
use crate::fixtures::binary::{Outcome, SOCKEYE, ended, run, start_in, words, words_in};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Impairment, Lab, Namespace, need, program, wait_for, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

fn codes(report: &Value) -> Vec<&str> {
    let all = report["sentences"].as_array().expect("sentences");
    all.iter()
        .filter_map(|sentence| sentence["code"].as_str())
        .collect()
}

#[test]
fn interfaces_count_the_same_bytes() {
    let (_lab, client, server, link, _serving) = need!(apart("bench_bytes"));
    let (here, there) = link.devices();
    let count = || (rx_bytes(&client, here), rx_bytes(&server, there));
    for (host, flags) in [
        (link.server_addresses().0, "-n 40M"),
        (link.server_addresses().1, "-n 40M -R -P 3"),
        (link.server_addresses().0, "-d 1 --bidir -P 2"),
    ] {
        let before = count();
        let outcome = words_in(&client, &format!("bench stream {host} {flags} --json"));
        let after = count();
        assert_eq!(outcome.code, Some(0), "{flags}: {outcome:?}");
        let report = outcome.report();
        for row in report["summary"].as_array().expect("rows") {
            let bytes = row["received_bytes"].as_u64().expect("bytes");
            let counted = if row["direction"] == "sent" {
                after.1 - before.1
            } else {
                after.0 - before.0
            };
            assert!(
                bytes > 1_000_000 && counted >= bytes,
                "{flags}: {counted} of {row}"
            );
            // Headers, and acknowledgements of the other direction.
            assert!(counted <= bytes + bytes / 5, "{flags}: {counted} of {row}");
            if flags.contains("-n") {
                assert_eq!(bytes, 40_000_000, "{flags}");
            }
            assert!(row["sender_cpu_ns_per_kib"].as_f64() > Some(0.0), "{row}");
            assert!(row["receiver_cpu_ns_per_kib"].as_f64() > Some(0.0), "{row}");
            assert!(row["rtt_us"].as_u64().is_some(), "{row}");
        }
        assert!(!report["limits"].as_array().expect("shares").is_empty());
        let streams = report["streams"].as_array().expect("streams");
        let sum: u64 = streams
            .iter()
            .filter_map(|row| row["received_bytes"].as_u64())
            .sum();
        let all = report["summary"].as_array().expect("rows").iter();
        assert_eq!(
            sum,
            all.filter_map(|row| row["received_bytes"].as_u64()).sum::<u64>()
        );
    }
}

#[test]
fn datagrams_are_counted() {
    let (_lab, client, _server, link, _serving) = need!(apart("bench_udp"));
    let host = link.server_addresses().0;
    for flags in ["", "-R", "--bidir -P 2"] {
        let outcome = words_in(
            &client,
            &format!("bench stream {host} -u -b 8M -d 1 {flags} --json"),
        );
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        for row in outcome.report()["streams"].as_array().expect("rows") {
            let of = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"));
            let (sent, received) = (of("sent_bytes"), of("received_bytes"));
            // 1 MB/s, on a machine that may stall.
            assert!((500_000..=1_100_000).contains(&sent), "{row}");
            assert!(received <= sent, "{row}");
            assert_eq!(received == sent, of("lost_datagrams") == 0, "{row}");
            assert!(row["jitter_us"].is_u64(), "{row}");
        }
    }
    let outcome = words_in(&client, &format!("bench stream {host} -u -d 1 -l 60000"));
    assert_eq!(outcome.code, Some(0), "fragments arrive too: {outcome:?}");
}

#[test]
fn receiver_window_is_named_as_the_limit() {
    let lab = need!(Lab::new("bench_window"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let middlebox = lab.middlebox(&client, &server, 8);
    middlebox.set_both(Impairment {
        delay: Duration::from_millis(10),
        ..Impairment::default()
    });
    let _serving = Serving::new(Some(&server), "");
    let host = middlebox.net_path().server_ip();
    // Only the receiver's buffer is short: what sends may hold as much as it wants.
    server.sysctl("ipv4/tcp_rmem", "4096 16384 16384");
    let outcome = words_in(&client, &format!("bench stream {host} -d 2 -C cubic --json"));
    let report = outcome.report();
    assert_eq!(codes(&report)[0], "receiver-limited", "{report:#}");
    let remedies = report["sentences"][0]["remedies"].to_string();
    assert!(remedies.contains("net.ipv4.tcp_rmem"), "{remedies}");
    assert!(
        report["summary"][0]["rtt_us"].as_u64() >= Some(15_000),
        "{report:#}"
    );
    // The other way round it is the server that says so.
    client.sysctl("ipv4/tcp_rmem", "4096 16384 16384");
    let outcome = words_in(&client, &format!("bench stream {host} -R -d 2 -C cubic --json"));
    let report = outcome.report();
    assert_eq!(codes(&report)[0], "receiver-limited", "{report:#}");
    assert!(
        report["sentences"][0]["remedies"].to_string().contains("# here"),
        "{report:#}"
    );
}

#[test]
fn dropping_queue_is_named_as_the_limit() {
    need!(program("tc"));
    let (_lab, client, _server, link, _serving) = need!(apart("bench_queue"));
    let device = link.devices().0;
    let queue = format!("qdisc add dev {device} root tbf rate 40mbit burst 10kb limit 12kb");
    client.output("tc", &queue.split(' ').collect::<Vec<_>>());
    let host = link.server_addresses().0;
    let outcome = words_in(&client, &format!("bench stream {host} -d 2 -C cubic --json"));
    let report = outcome.report();
    let drops = report["sentences"].as_array().expect("sentences").iter();
    let drops = drops.clone().find(|sentence| sentence["code"] == "device-drops");
    let drops = drops.unwrap_or_else(|| panic!("{report:#}"));
    let text = drops["text"].as_str().expect("text");
    assert!(
        text.starts_with(&format!("{device} here dropped packets")) && text.contains("(tbf)"),
        "{text}"
    );
    assert!(
        drops["remedies"]
            .to_string()
            .contains(&format!("tc -s qdisc show dev {device}"))
    );
    assert!(
        report["summary"][0]["retransmitted_segs"].as_u64() > Some(0),
        "{report:#}"
    );
    let rate = report["summary"][0]["bytes_per_s"].as_f64().expect("a rate");
    assert!(rate < 6_000_000.0, "{rate}");
}

#[test]
fn requested_rate_is_kept() {
    let (_lab, client, _server, link, _serving) = need!(apart("bench_rate"));
    let host = link.server_addresses().0;
    let outcome = words_in(&client, &format!("bench stream {host} -d 2 -b 20M --json"));
    let report = outcome.report();
    let rate = report["summary"][0]["bytes_per_s"].as_f64().expect("a rate");
    assert!((1_000_000.0..3_200_000.0).contains(&rate), "{report:#}");
}

#[test]
fn kinds_of_missing_answers_have_different_codes() {
    let (_lab, client, _server, link, mut serving) = need!(apart("bench_silent"));
    let host = link.server_addresses().0;
    let outcome = words_in(&client, &format!("bench stream {host} -p 9 -d 1"));
    assert_eq!((outcome.code, outcome.stdout.len()), (Some(1), 0), "{outcome:?}");
    assert!(
        outcome
            .error()
            .contains("connection refused; is `sockeye bench serve` running"),
        "{outcome:?}"
    );
    // No device has this hardware address.
    let device = link.devices().0;
    client.ip(&format!(
        "neigh replace 10.77.0.99 lladdr 02:00:00:00:00:99 dev {device}"
    ));
    let outcome = words_in(&client, "bench stream 10.77.0.99 --connect-timeout 0.5");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.error().contains("no answer within 500ms") && outcome.error().contains("firewall"),
        "{outcome:?}"
    );
    let outcome = words_in(&client, &format!("bench stream {host} -C nosuch"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(
        outcome.error().contains("\"nosuch\"") && outcome.error().contains("reno"),
        "{outcome:?}"
    );
    let outcome = words_in(&client, &format!("bench stream {host} -A 0,4000"));
    assert!(
        outcome
            .error()
            .contains("the other end refused: there is no processor 4000"),
        "{outcome:?}"
    );
    let limited = format!("ulimit -n 24; exec {SOCKEYE} bench stream {host} -P 64 -d 1");
    let mut shell = client.command("sh", &["-c", &limited]);
    let outcome = run(&mut shell);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.error().contains("ulimit -n"), "{outcome:?}");
    // And it still serves.
    let outcome = words_in(&client, &format!("bench stream {host} -n 1M"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let log = serving.end();
    assert!(log.contains("refused: there is no processor 4000"), "{log}");
}

#[test]
fn killed_end_leaves_a_partial_report() {
    let (_lab, client, server, link, mut serving) = need!(apart("bench_killed"));
    let host = link.server_addresses().0;
    for flags in ["", "-R"] {
        let child = start_in(&client, &format!("bench stream {host} -d 60 --json {flags}"));
        until_bytes_flow(&server, link.devices().1);
        serving.kill();
        let outcome = ended(child);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let report = outcome.report();
        assert_eq!(report["partial"]["code"], "peer-gone", "{report:#}");
        let row = &report["summary"][0];
        let bytes = row["received_bytes"].as_u64().or(row["sent_bytes"].as_u64());
        assert!(bytes > Some(0), "{report:#}");
        serving = Serving::new(Some(&server), "");
    }
}

#[test]
fn interrupt_leaves_a_partial_report() {
    let (_lab, client, server, link, _serving) = need!(apart("bench_interrupt"));
    let host = link.server_addresses().0;
    for flags in ["", "-R", "--repeats 3"] {
        let child = start_in(&client, &format!("bench stream {host} -d 60 --json {flags}"));
        until_bytes_flow(&server, link.devices().1);
        signal(&child, Signal::INT);
        let outcome = ended(child);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let report = outcome.report();
        assert_eq!(report["partial"]["code"], "interrupted", "{report:#}");
        assert!(
            report["summary"][0]["received_bytes"].as_u64() > Some(0),
            "{report:#}"
        );
    }
    // The server continues, and ends on a signal.
    let outcome = words_in(&client, &format!("bench stream {host} -n 1M"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn server_ends_on_sigint_and_sigterm() {
    let mut serving = Serving::new(None, "-p 0 -B 127.0.0.1 --once");
    let port = serving.port;
    let outcome = words(&format!("bench stream 127.0.0.1 -p {port} -n 1M"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(serving.child.wait().expect("its end").code(), Some(0));
    let log = serving.rest();
    assert!(log.contains("1000000 bytes moved"), "{log}");
    let mut serving = Serving::new(None, "-p 0 -B 127.0.0.1");
    signal(&serving.child, Signal::INT);
    assert_eq!(serving.child.wait().expect("its end").code(), Some(0));
    assert_eq!(serving.rest(), "");
}

#[test]
fn used_port_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let outcome = words(&format!("bench serve -B 127.0.0.1 -p {port}"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.error().contains("another port by -p"), "{outcome:?}");
}

#[test]
fn malformed_messages_do_not_stop_the_server() {
    let serving = Serving::new(None, "-p 0 -B 127.0.0.1");
    let port = serving.port;
    let connect = || TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    // Silent clients and incomplete messages do not block others.
    let mut silent = connect();
    silent.write_all(b"socke").unwrap();
    for bytes in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        &[0xff; 4096],
        &framed(2, 0, &[0xff; 64]),
        &framed(2, 0, b"\0\0\0\x02[]"),
        &framed(2, 0, b"\0\0\0\x04\xff\xff\xff\xff"),
        &framed(2, 1, b"unexpected data"),
        &framed(2, 77, b""),
    ] {
        let mut rude = connect();
        let _ = rude.write_all(bytes);
        let _ = rude.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = rude.read_to_end(&mut answer);
    }
    for wish in [
        r#"{"kind": "stream", "parameters": {"streams": 1e99, "length": -4}}"#,
        r#"{"kind": "stream", "parameters": 7}"#,
        r#"{"kind": "nosuch"}"#,
        "[]",
    ] {
        let mut hostile = HostileClient::greet(connect(), b"");
        hostile.request(wish);
        let answer = hostile.answer();
        assert!(answer["error"].is_string(), "{wish}: {answer}");
    }
    let outcome = words(&format!("bench stream 127.0.0.1 -p {port} -n 1M"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn different_versions_are_reported() {
    let serving = Serving::new(None, "-p 0 -B 127.0.0.1");
    let stream = TcpStream::connect(("127.0.0.1", serving.port)).expect("a connection");
    let answer = answer_to(stream, &framed(9, 0, b"whatever it says then"));
    assert!(
        answer.contains("version 2") && answer.contains("version 9"),
        "{answer}"
    );
    // The other way round: a server of another version.
    let text = br#"{"error": "no", "version": 9}"#;
    let len = u32::try_from(text.len()).unwrap().to_be_bytes();
    let outcome = against(&[&len[..], text].concat());
    assert!(
        outcome.error().contains("version 2") && outcome.error().contains("version 9"),
        "{outcome:?}"
    );
    assert_eq!(outcome.code, Some(1));
}

#[test]
fn other_servers_are_recognized() {
    let outcome = against(&[9]);
    assert!(outcome.error().contains("add --iperf3"), "{outcome:?}");
    let outcome = against(b"HTTP/1.1 400 Bad \x1b[31m\r\n\r\n");
    assert!(
        outcome.error().contains("does not speak this protocol"),
        "{outcome:?}"
    );
    assert!(!outcome.stderr.contains(&0x1b), "{outcome:?}");
    let outcome = against(b"");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    if program("iperf3").is_ok() {
        let lab = need!(Lab::new("bench_other"));
        let place = lab.namespace("one");
        let mut iperf3 = place.command("iperf3", &["-s", "-1"]);
        let mut iperf3 = iperf3
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("iperf3 to listen", || place.proc_net("tcp6").contains(":1451 "));
        let outcome = words_in(&place, "bench stream 127.0.0.1 -p 5201");
        let _ = iperf3.kill();
        let _ = iperf3.wait();
        assert!(outcome.error().contains("--iperf3"), "{outcome:?}");
    }
}

#[test]
fn wrong_options_are_reported_before_connecting() {
    for line in [
        "bench stream",
        "bench stream host -P 0",
        "bench stream host -P 129",
        "bench stream host -d 0",
        "bench stream host -d 1 -n 1M",
        "bench stream host -n 0",
        "bench stream host -l 2G",
        "bench stream host -u -l 7",
        "bench stream host -R --bidir",
        "bench stream host -4 -6",
        "bench stream host -u -C cubic",
        "bench stream host -b fast",
        "bench stream host -A x",
        "bench serve -B nonsense",
        "bench serve -4 -6",
    ] {
        let outcome = words(line);
        assert_eq!(outcome.code, Some(2), "{line}: {outcome:?}");
        assert!(!outcome.stderr.is_empty(), "{line}");
    }
    let outcome = words("bench stream no.such.host.invalid -d 1");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
}

#[test]
fn repeats_report_their_spread() {
    let serving = Serving::new(None, "-p 0 -B 127.0.0.1");
    let port = serving.port;
    let outcome = words(&format!(
        "bench stream 127.0.0.1 -p {port} -n 4M --repeats 3 --json"
    ));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let report = outcome.report();
    assert_eq!(report["repeats"].as_array().map(Vec::len), Some(3), "{report:#}");
    assert!(report["summary"][0]["spread_permille"].is_number(), "{report:#}");
    let outcome = words(&format!("bench stream 127.0.0.1 -p {port} -n 4M"));
    let text = String::from_utf8(outcome.stdout).expect("text");
    assert!(text.contains("throughput") && text.contains("bit/s"), "{text}");
}

/// A preamble of this version and role, and what comes after it.
fn framed(version: u8, role: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"sockeye\n".to_vec();
    bytes.extend([version, role]);
    bytes.resize(40, 0);
    bytes.extend_from_slice(rest);
    bytes
}

fn answer_to(mut stream: TcpStream, bytes: &[u8]) -> String {
    stream.write_all(bytes).expect("loopback works");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("loopback works");
    let mut answer = vec![0; 4096];
    let len = stream.read(&mut answer).unwrap_or(0);
    String::from_utf8_lossy(&answer[..len]).into_owned()
}

/// A client, and a server that says this and no more.
fn against(answer: &[u8]) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
    let port = listener.local_addr().expect("loopback works").port();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("loopback works");
            let mut greeting = [0; 40];
            stream.read_exact(&mut greeting).expect("loopback works");
            stream.write_all(answer).expect("loopback works");
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let _ = stream.read_to_end(&mut Vec::new());
        });
        words(&format!(
            "bench stream 127.0.0.1 -p {port} --connect-timeout 0.5 -d 1"
        ))
    })
}

/// Some megabytes in any direction, and enough time for a report each second.
fn until_bytes_flow(place: &Namespace, device: &str) {
    let before = rx_bytes(place, device);
    wait_for("bytes to flow", || {
        // Acknowledgements are enough of a sign.
        (rx_bytes(place, device) > before + 100_000).then_some(())
    });
    // Time is what is tested: more than the second after which something is printed.
    std::thread::sleep(Duration::from_millis(1300));
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("not 0");
    kill_process(pid, signal).expect("the process is there");
}
