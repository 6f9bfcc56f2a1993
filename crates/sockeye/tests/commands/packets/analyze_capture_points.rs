//! `sockeye analyze` on captures of the sender, of the receiver and of a router between them, and on partial captures: started
//! late, ended early, with truncated packets, of several connections. It reports what was done to a transfer and nothing else, and
//! no more than the capture shows.

use super::analysis::{Analysis, analyze_json};
use super::impaired_path::{ImpairedPath, MS, TransferPlan, delay, with_retries};
use crate::fixtures::binary;
use rustix::net::sockopt;
use sockeye_lab::{Impairment, Link, Middlebox, Namespace, PathCounters, Skip, Toward, need};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Counters of `judgements` that are 0 on a path without impairment.
const ANOMALIES: &[&str] = &[
    "lost",
    "reordered",
    "spurious",
    "unclear",
    "duplicated_by_network",
    "duplicated_by_capture",
    "missing_in_capture",
];

fn loss(permille: u16) -> Impairment {
    Impairment {
        loss_permille: permille,
        ..delay(10)
    }
}

fn reordering(ms: u32) -> Impairment {
    Impairment {
        late: ms * MS,
        late_permille: 20,
        ..delay(10)
    }
}

fn duplication() -> Impairment {
    Impairment {
        duplicate_permille: 10,
        ..delay(10)
    }
}

/// A queue of 5 segments at 4.8 Mbit/s.
fn short_queue() -> Impairment {
    Impairment {
        bytes_per_s: 600_000,
        queue_bytes: 5 * 1500,
        ..delay(10)
    }
}

/// A queue that does not overflow.
fn unlimited_queue(bytes_per_s: u64) -> Impairment {
    Impairment {
        bytes_per_s,
        queue_bytes: 1 << 30,
        ..delay(10)
    }
}

/// A path with this impairment toward the server, and only a delay toward the client.
fn path_with(purpose: &str, seed: u64, forward: Impairment) -> Result<ImpairedPath, Skip> {
    ImpairedPath::with(purpose, seed, forward, delay(10))
}

/// Runs a transfer and analyzes its captures at the client and at the server.
fn analyze_both_ends(path: &ImpairedPath, plan: &TransferPlan) -> Result<[Analysis; 2], Skip> {
    let (at_client, at_server) = path.capture_both_ends()?;
    path.transfer(plan);
    Ok([at_client.analyze(), at_server.analyze()])
}

/// Runs a transfer over a veth pair without a middlebox, and analyzes its captures at both ends.
fn analyze_over_veth(path: &ImpairedPath, link: &Link, plan: &TransferPlan) -> Result<[Analysis; 2], Skip> {
    let (client_device, server_device) = link.devices();
    let at_client = path.capture_on(&path.client, client_device, 100)?;
    let at_server = path.capture_on(&path.server, server_device, 100)?;
    path.transfer(plan);
    Ok([at_client.analyze(), at_server.analyze()])
}

/// The file header of a pcap file, and its records with their headers.
fn records(file: &str) -> (Vec<u8>, Vec<Vec<u8>>) {
    let bytes = std::fs::read(file).unwrap();
    let (header, mut rest) = bytes.split_at(24);
    let mut records = Vec::new();
    while rest.len() >= 16 {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (record, next) = rest.split_at(16 + len);
        records.push(record.to_vec());
        rest = next;
    }
    (header.to_vec(), records)
}

/// Analyzes a part of a capture: the records between these thirds.
fn part(file: &str, from_third: usize, to_third: usize) -> Analysis {
    let (header, records) = records(file);
    let range = records.len() * from_third / 3..records.len() * to_third / 3;
    let path = format!("{file}.{from_third}-{to_third}");
    std::fs::write(&path, [header, records[range].concat()].concat()).unwrap();
    Analysis::of(&path)
}

/// Analyzes a capture with at most `snaplen` bytes of each packet.
fn truncated(file: &str, snaplen: usize) -> Analysis {
    let (mut bytes, records) = records(file);
    let path = format!("{file}.{snaplen}");
    for mut record in records {
        record.truncate(16 + snaplen);
        let len = (record.len() - 16) as u32;
        record[8..12].copy_from_slice(&len.to_le_bytes());
        bytes.extend(record);
    }
    std::fs::write(&path, bytes).unwrap();
    Analysis::of(&path)
}

#[test]
fn each_impairment_is_reported_over_ipv6() {
    type Counter = fn(&PathCounters) -> u64;
    with_retries(|| {
        for (forward, judgement, counter) in [
            (loss(15), "lost", (|counters| counters.lost) as Counter),
            (short_queue(), "lost", |counters| counters.overflowed),
            (reordering(3), "reordered", |counters| counters.late),
            (duplication(), "duplicated_by_network", |counters| {
                counters.duplicated
            }),
        ] {
            let path = need!(path_with("more_six", 100, forward)).over_ipv6();
            let analysis = need!(path.analyze_transfer(&TransferPlan::of(2_000_000)));
            analysis.assert_flags_match_tshark();
            analysis.assert_judgement(judgement, counter(&analysis.counters), 30);
            let others: Vec<&str> = ANOMALIES
                .iter()
                .copied()
                .filter(|name| *name != judgement && *name != "spurious")
                .collect();
            analysis.assert_none(&others);
            assert!(analysis.verdict().len() > 20, "{analysis:?}");
        }
    });
}

/// Client, router and server, with a middlebox on each side of the router.
struct RoutedPath {
    /// The path from the client to the router; its server is the one behind the router.
    path: ImpairedPath,
    /// The middlebox between router and server.
    second: Middlebox,
    router: Namespace,
}

impl RoutedPath {
    /// A path with these impairments toward the server: on the client's side of the router, and on the server's side.
    fn new(purpose: &str, seed: u64, client_side: Impairment, server_side: Impairment) -> Result<Self, Skip> {
        let mut path = path_with(purpose, seed, client_side)?;
        let router = path.server.clone();
        let server = path.lab.namespace("beyond");
        server.sysctl("ipv4/tcp_no_metrics_save", "1");
        let second = path.lab.middlebox(&router, &server, seed + 1);
        router.sysctl("ipv4/ip_forward", "1");
        path.client.ip("route add 10.78.1.0/24 via 10.78.0.2");
        server.ip("route add 10.78.0.0/24 via 10.78.1.1");
        path.server = server;
        path.address = second.net_path().server_ip();
        second.set(Toward::Server, server_side);
        second.set(Toward::Client, delay(10));
        Ok(Self { path, second, router })
    }
}

#[test]
fn capture_at_a_router_counts_losses_before_and_behind_it() {
    with_retries(|| {
        for (client_side, server_side) in [
            (loss(10), delay(10)),
            (delay(10), loss(10)),
            (short_queue(), delay(10)),
            (delay(10), short_queue()),
            (duplication(), delay(10)),
            (delay(10), duplication()),
        ] {
            let routed = need!(RoutedPath::new("more_mid", 110, client_side, server_side));
            let capture = need!(routed.path.capture_on(&routed.router, "tun1c", 100));
            routed.path.transfer(&TransferPlan::of(1_500_000));
            let analysis = capture.analyze();
            let counters = [
                routed.path.path_counters(Toward::Server),
                routed.second.path_counters(Toward::Server),
            ];
            let sum = |counter: fn(&PathCounters) -> u64| counters.iter().map(counter).sum::<u64>();
            let overflowed = sum(|counters| counters.overflowed);
            let lost = sum(|counters| counters.lost) + overflowed;
            analysis.assert_judgement("lost", lost, 20);
            let duplicated = sum(|counters| counters.duplicated);
            analysis.assert_judgement("duplicated_by_network", duplicated, 25);
            analysis.assert_none(&["reordered", "duplicated_by_capture", "missing_in_capture"]);
            analysis.assert_verdict_lacks(if overflowed > 0 {
                "Nothing waited in a queue"
            } else {
                "queue of about"
            });
        }
    });
}

/// Without its start, a capture shows neither which end opened the connection nor the window scale.
#[test]
fn parts_of_a_capture_report_the_losses_in_them() {
    with_retries(|| {
        let path = need!(path_with("more_part", 120, loss(10)));
        let ends = need!(analyze_both_ends(&path, &TransferPlan::of(3_000_000)));
        let lost = path.path_counters(Toward::Server).lost;
        for whole in ends {
            whole.assert_judgement("lost", lost, 15);
            let mut sum = 0;
            for (from, to) in [(0, 1), (1, 2), (2, 3), (1, 3)] {
                let analysis = part(&whole.file, from, to);
                let from_client = if analysis.connection["client"]["ip"] == "10.78.0.1" {
                    "forward"
                } else {
                    "backward"
                };
                let lost_in_part = analysis.number(&format!("/{from_client}/judgements/lost"));
                sum += if to - from == 1 { lost_in_part } else { 0 };
                // Data that was in flight at the start of the capture is not missing in it.
                analysis.assert_none(&["missing_in_capture", "duplicated_by_network", "reordered"]);
                analysis.assert_verdict_contains("losses");
                if from > 0 {
                    analysis.assert_verdict_lacks("the client");
                    analysis.assert_verdict_lacks("the peer's window would have held");
                }
            }
            // Some segments are lost in one part and retransmitted in the next.
            assert!(sum <= lost + 2 && sum + 12 >= lost, "{sum} of {lost}: {whole:?}");
        }
    });
}

#[test]
fn window_of_unknown_scale_has_no_size() {
    with_retries(|| {
        let path = need!(path_with("more_scale", 121, delay(10)));
        let plan = TransferPlan {
            receive_buffer: Some(16_384),
            ..TransferPlan::of(600_000)
        };
        for whole in need!(analyze_both_ends(&path, &plan)) {
            whole.assert_limit("receiver_window");
            let segs = whole.number("/forward/limited_by/window_segs");
            assert!((8..=16).contains(&segs), "{whole:?}");
            for analysis in [
                part(&whole.file, 1, 3),
                truncated(&whole.file, 54),
                truncated(&whole.file, 40),
            ] {
                analysis.assert_verdict_lacks("would have held");
                analysis.assert_verdict_lacks("the program there reads too slowly");
                analysis.assert_verdict_contains("whose scale was not captured");
                analysis.assert_none(ANOMALIES);
            }
        }
    });
}

/// With the fixed part of the TCP header alone, losses and the ending are known.
#[test]
fn truncated_packets_report_losses_and_ending() {
    with_retries(|| {
        for forward in [delay(10), loss(15), short_queue()] {
            let path = need!(path_with("more_snap", 122, forward));
            let ends = need!(analyze_both_ends(&path, &TransferPlan::of(2_000_000)));
            let counters = path.path_counters(Toward::Server);
            for whole in ends {
                for snaplen in [64, 54, 40] {
                    let analysis = truncated(&whole.file, snaplen);
                    analysis.assert_judgement("lost", counters.lost + counters.overflowed, 20);
                    analysis.assert_none(&["duplicated_by_network", "missing_in_capture"]);
                    analysis.assert_ending("closed");
                    // The unscaled window of a SYN says nothing about later windows, whose scale is unknown.
                    analysis.assert_verdict_lacks("would have held 45");
                    analysis.assert_verdict_lacks("reads too slowly");
                }
            }
        }
    });
}

#[test]
fn each_limit_of_a_bbr_sender_is_reported() {
    with_retries(|| {
        let analyze = |forward, plan: TransferPlan| {
            let path = path_with("more_bbr", 130, forward)?;
            path.analyze_transfer(&TransferPlan {
                congestion: "bbr",
                ..plan
            })
        };
        let stalled = need!(analyze(
            delay(10),
            TransferPlan {
                receive_buffer: Some(65_536),
                stall: 1500 * MS,
                ..TransferPlan::of(600_000)
            }
        ));
        stalled.assert_verdict_contains("its window was closed");
        stalled.assert_none(&["lost", "reordered"]);
        let paused = need!(analyze(
            delay(10),
            TransferPlan {
                write: Some((50_000, 300 * MS)),
                ..TransferPlan::of(500_000)
            }
        ));
        paused.assert_verdict_contains("The program of the client had nothing to send");
        paused.assert_none(ANOMALIES);
        let lossy = need!(analyze(loss(15), TransferPlan::of(2_000_000)));
        lossy.assert_judgement("lost", lossy.counters.lost, 15);
        lossy.assert_verdict_lacks("queue of about");
        lossy.assert_none(&["reordered", "duplicated_by_network"]);
    });
}

#[test]
fn keep_alives_of_an_idle_connection_are_not_data() {
    with_retries(|| {
        let path = need!(path_with("more_idle", 140, delay(10)));
        let capture = need!(path.capture(Toward::Client));
        let (mut client, mut server) = path.connect(&TransferPlan::default());
        sockopt::set_socket_keepalive(&client, true).unwrap();
        sockopt::set_tcp_keepidle(&client, 1000 * MS).unwrap();
        sockopt::set_tcp_keepintvl(&client, 1000 * MS).unwrap();
        client.write_all(&[1; 300]).unwrap();
        server.read_exact(&mut [0; 300]).unwrap();
        // Time is what is tested: four keep-alives.
        std::thread::sleep(4500 * MS);
        let analysis = capture.analyze();
        analysis.assert_flags_match_tshark();
        analysis.assert_none(ANOMALIES);
        analysis.assert_verdict_contains("nothing was sent for ");
        analysis.assert_ending("open");
        let keep_alives = part(&analysis.file, 2, 3);
        keep_alives.assert_none(ANOMALIES);
        keep_alives.assert_verdict_contains("Healthy, mostly idle: no end sent data");
    });
}

#[test]
fn reset_within_a_transfer_names_the_end_that_sent_it() {
    with_retries(|| {
        for (seed, by_client, loss_permille) in
            [(150, true, 0), (151, false, 0), (152, true, 20), (153, false, 20)]
        {
            let forward = Impairment {
                loss_permille,
                ..unlimited_queue(1_000_000)
            };
            let path = need!(path_with("more_reset", seed, forward));
            let capture = need!(path.capture(Toward::Client));
            let (mut client, mut server) = path.connect(&TransferPlan::default());
            std::thread::scope(|scope| {
                let mut writer = client.try_clone().unwrap();
                scope.spawn(move || while writer.write_all(&[7; 50_000]).is_ok() {});
                let mut buffer = vec![0; 65_536];
                let mut received = 0;
                while received < 500_000 {
                    received += server.read(&mut buffer).unwrap();
                }
                if by_client {
                    rustix::net::connect_unspec(&client).unwrap();
                    while server.read(&mut buffer).is_ok_and(|len| len > 0) {}
                } else {
                    drop(server);
                }
                let _ = client.read(&mut [0]);
            });
            let analysis = capture.analyze();
            analysis.assert_flags_match_tshark();
            let (ending, words) = if by_client {
                ("reset_by_client", "Reset by the client.")
            } else {
                ("reset_by_server", "Reset by the server.")
            };
            analysis.assert_ending(ending);
            analysis.assert_verdict_contains(words);
            // Segments lost right before the reset are not retransmitted.
            let lost = path.path_counters(Toward::Server).lost;
            assert!(analysis.judgement("lost") <= lost, "{analysis:?}");
            analysis.assert_none(&["reordered", "duplicated_by_network"]);
        }
    });
}

#[test]
fn losses_are_counted_for_the_impaired_one_of_five_connections() {
    with_retries(|| {
        // Connections to the router pass the first middlebox only.
        let routed = need!(RoutedPath::new("more_many", 160, delay(5), loss(20)));
        let capture = need!(routed.path.capture(Toward::Client));
        let to_router: Vec<(TcpStream, TcpStream)> = (0..4)
            .map(|_| {
                let listener = routed.router.run(|| TcpListener::bind("10.78.0.2:0").unwrap());
                let address = listener.local_addr().unwrap();
                let client = routed.path.client.run(|| TcpStream::connect(address).unwrap());
                (client, listener.accept().unwrap().0)
            })
            .collect();
        std::thread::scope(|scope| {
            for (mut client, mut server) in to_router {
                scope.spawn(move || {
                    client.write_all(&vec![7; 400_000]).unwrap();
                    client.shutdown(std::net::Shutdown::Write).unwrap();
                    let _ = client.read(&mut [0]);
                });
                scope.spawn(move || while server.read(&mut [0; 65_536]).is_ok_and(|len| len > 0) {});
            }
            routed.path.transfer(&TransferPlan::of(1_000_000));
        });
        let lost = routed.second.path_counters(Toward::Server).lost;
        let document = analyze_json(&[&capture.stop()]);
        let connections = document["connections"].as_array().unwrap();
        assert_eq!(connections.len(), 5);
        for connection in connections {
            let found = connection["forward"]["judgements"]["lost"].as_u64().unwrap();
            let is_impaired = connection["server"]["ip"] == "10.78.1.2";
            let expected = if is_impaired { lost } else { 0 };
            assert!(found.abs_diff(expected) <= lost / 5, "{connection}");
            assert_eq!(found == 0, !is_impaired, "{connection}");
        }
    });
}

#[test]
fn verdict_names_the_impaired_one_of_two_directions() {
    with_retries(|| {
        for (forward, backward, words) in [
            (
                loss(15),
                delay(10),
                Some(["path to the server", "of the client were lost"]),
            ),
            (
                delay(10),
                loss(15),
                Some(["path to the client", "of the server were lost"]),
            ),
            (
                delay(10),
                short_queue(),
                Some(["path to the client", "of the server were lost"]),
            ),
            (delay(10), delay(10), None),
        ] {
            let path = need!(ImpairedPath::with("more_both", 170, forward, backward));
            let (at_client, at_server) = need!(path.capture_both_ends());
            let (client, server) = path.connect(&TransferPlan::default());
            std::thread::scope(|scope| {
                for mut socket in [&client, &server] {
                    scope.spawn(move || socket.write_all(&vec![3; 1_500_000]).unwrap());
                    scope.spawn(move || {
                        let (mut buffer, mut received) = (vec![0; 65_536], 0);
                        while received < 1_500_000 {
                            received += socket.read(&mut buffer).unwrap();
                        }
                    });
                }
            });
            drop((client, server));
            for analysis in [at_client.analyze(), at_server.analyze()] {
                analysis.assert_verdict_lacks("answer");
                if let Some(words) = words {
                    let names = words.iter().any(|words| analysis.verdict().contains(words));
                    assert!(names, "{analysis:?}");
                    analysis.assert_verdict_contains("losses");
                } else {
                    analysis.assert_none(&["lost", "reordered", "duplicated_by_network"]);
                }
            }
        }
    });
}

/// A segment that is so late that it is retransmitted counts as reordered, not as lost or duplicated.
#[test]
fn segments_later_than_a_round_trip_are_reordered_not_lost() {
    with_retries(|| {
        for delay_ms in [1, 10] {
            let forward = Impairment {
                delay: delay_ms * MS,
                ..reordering(30)
            };
            let path = need!(path_with("more_late", 180, forward));
            let ends = need!(analyze_both_ends(&path, &TransferPlan::of(2_000_000)));
            let late = path.path_counters(Toward::Server).late;
            for analysis in ends {
                analysis.assert_flags_match_tshark();
                analysis.assert_judgement("reordered", late, 30);
                analysis.assert_none(&["lost", "duplicated_by_network", "missing_in_capture"]);
                analysis.assert_verdict_contains("came late");
                analysis.assert_verdict_lacks("the path loses packets");
            }
        }
    });
}

#[test]
fn slightly_late_segments_are_reordered_not_lost() {
    with_retries(|| {
        let path = need!(path_with("more_little", 181, reordering(3)));
        let ends = need!(analyze_both_ends(&path, &TransferPlan::of(2_000_000)));
        let late = path.path_counters(Toward::Server).late;
        for analysis in ends {
            analysis.assert_judgement("reordered", late, 35);
            assert!(analysis.judgement("reordered") <= late, "{analysis:?}");
            analysis.assert_none(&["lost", "duplicated_by_network", "missing_in_capture"]);
        }
    });
}

#[test]
fn window_changed_on_the_path_is_reported_at_the_sender_only() {
    with_retries(|| {
        // The window scale depends on the host's memory: 10 bits on a host with much.
        let backward = Impairment {
            window_permille: 1000,
            window: 8,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("more_win", 190, delay(10), backward));
        let [at_client, at_server] = need!(analyze_both_ends(&path, &TransferPlan::of(200_000)));
        at_client.assert_limit("receiver_window");
        let scale = at_client.number("/backward/window_scale");
        let expected = (8 << scale) / 1448;
        let segs = at_client.number("/forward/limited_by/window_segs");
        assert!(segs.abs_diff(expected) <= 1, "{segs} {expected} {at_client:?}");
        at_client.assert_none(ANOMALIES);
        // The capture at the server has the window from before the change.
        at_server.assert_none(ANOMALIES);
        at_server.assert_verdict_contains("smaller than");
    });
}

#[test]
fn lost_acknowledgements_are_not_lost_segments_at_either_end() {
    with_retries(|| {
        for forward in [delay(10), unlimited_queue(1_000_000)] {
            let path = need!(ImpairedPath::with("more_acks", 191, forward, loss(200)));
            for analysis in need!(analyze_both_ends(&path, &TransferPlan::of(2_000_000))) {
                analysis.assert_none(&["lost", "reordered", "duplicated_by_network", "missing_in_capture"]);
                analysis.assert_verdict_lacks("queue of about");
            }
        }
    });
}

#[test]
fn outage_is_a_timeout_and_not_a_queue() {
    with_retries(|| {
        for (ms, is_long) in [(500, false), (2000, true)] {
            let path = need!(path_with("more_out", 200, unlimited_queue(1_000_000)));
            let (at_client, at_server) = need!(path.capture_both_ends());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Time is what is tested: the start and the duration of the outage.
                    std::thread::sleep(700 * MS);
                    path.set_both(loss(1000));
                    std::thread::sleep(ms * MS);
                    path.set(Toward::Server, unlimited_queue(1_000_000));
                    path.set(Toward::Client, delay(10));
                });
                path.transfer(&TransferPlan::of(2_000_000));
            });
            let lost = path.path_counters(Toward::Server).lost;
            let (at_client, at_server) = (at_client.analyze(), at_server.analyze());
            at_client.assert_flags_match_tshark();
            at_client.assert_none(&["reordered", "duplicated_by_network", "missing_in_capture"]);
            at_client.assert_verdict_contains("nothing came back for ");
            assert!(at_client.judgement("timeouts") >= 1, "{at_client:?}");
            for analysis in [&at_client, &at_server] {
                assert!(analysis.judgement("lost") <= lost, "{lost} {analysis:?}");
                analysis.assert_verdict_lacks("queue of about");
            }
            assert!(!is_long || at_client.judgement("timeouts") >= 2, "{at_client:?}");
        }
    });
}

#[test]
fn stalled_reader_and_pausing_writer_are_reported_at_both_ends() {
    with_retries(|| {
        let path = need!(path_with("more_wait", 210, delay(10)));
        let stall = TransferPlan {
            stall: 2000 * MS,
            ..TransferPlan::of(3_000_000)
        };
        for analysis in need!(analyze_both_ends(&path, &stall)) {
            analysis.assert_limit("receiver_window");
            analysis.assert_verdict_contains("its window was closed once");
            analysis.assert_none(&["lost", "reordered", "duplicated_by_network"]);
        }
        let pauses = TransferPlan {
            write: Some((100_000, 1000 * MS)),
            ..TransferPlan::of(400_000)
        };
        for analysis in need!(analyze_both_ends(&path, &pauses)) {
            analysis.assert_verdict_contains("The program of the client had nothing to send");
            analysis.assert_none(ANOMALIES);
        }
    });
}

/// A qdisc of the kernel limits the rate of a link with segmentation offload.
#[test]
fn bulk_transfer_through_tbf_is_not_limited_by_the_application() {
    with_retries(|| {
        let mut path = need!(ImpairedPath::new("more_tbf", 220));
        let link = path.lab.link(&path.client, &path.server);
        path.address = link.server_addresses().0;
        let tbf = "root tbf rate 16mbit burst 5000 limit 200000";
        let arguments = format!("qdisc add dev {} {tbf}", link.devices().0);
        let arguments: Vec<&str> = arguments.split(' ').collect();
        path.client.output("tc", &arguments);
        for analysis in need!(analyze_over_veth(&path, &link, &TransferPlan::of(4_000_000))) {
            analysis.assert_flags_match_tshark();
            // The program wrote all data before most of it was sent.
            analysis.assert_verdict_lacks("had nothing to send");
            analysis.assert_none(&["reordered", "duplicated_by_network", "missing_in_capture"]);
        }
    });
}

#[test]
fn limits_are_reported_with_segmentation_offload() {
    with_retries(|| {
        let mut path = need!(ImpairedPath::new("more_veth", 230));
        let link = path.lab.link(&path.client, &path.server);
        path.address = link.server_addresses().0;
        let slow_reader = TransferPlan {
            receive_buffer: Some(65_536),
            read: Some((20_000, 10 * MS)),
            ..TransferPlan::of(2_000_000)
        };
        let pausing_writer = TransferPlan {
            write: Some((100_000, 100 * MS)),
            ..TransferPlan::of(800_000)
        };
        for (plan, limit) in [(slow_reader, "receiver_window"), (pausing_writer, "application")] {
            for analysis in need!(analyze_over_veth(&path, &link, &plan)) {
                analysis.assert_flags_match_tshark();
                analysis.assert_limit(limit);
                assert!(
                    analysis.number("/forward/longest_segment_bytes") > 1_500,
                    "{analysis:?}"
                );
                analysis.assert_none(&["lost", "reordered", "duplicated_by_network", "missing_in_capture"]);
            }
        }
    });
}

#[test]
fn capture_that_ends_after_the_syn_may_miss_the_answer() {
    with_retries(|| {
        let path = need!(ImpairedPath::with("more_syn", 240, loss(1000), loss(1000)));
        let capture = need!(path.capture(Toward::Client));
        path.connect_without_answer(100 * MS);
        let analysis = capture.analyze();
        analysis.assert_ending("unanswered");
        analysis.assert_verdict_contains("or the capture ended before an answer could come");
    });
}

#[test]
fn two_captures_report_losses_and_delay_in_either_order() {
    with_retries(|| {
        let path = need!(path_with("more_ends", 250, short_queue()));
        let (at_client, at_server) = need!(path.capture_both_ends());
        path.transfer(&TransferPlan::of(1_500_000));
        let (at_client, at_server) = (at_client.stop(), at_server.stop());
        let lost = path.path_counters(Toward::Server).overflowed;
        for [first, second] in [[&at_client, &at_server], [&at_server, &at_client]] {
            let outcome = binary::sockeye(&["analyze", first, second]);
            let text = outcome.ok().replace("\n    ", " ");
            for expected in [
                &*format!("{lost} segments lost between {at_client} and {at_server}"),
                &*format!("Nothing was lost between {at_server} and {at_client}"),
                "are between them and",
            ] {
                assert!(text.contains(expected), "{expected}: {text}");
            }
        }
    });
}

/// The length is reported or unknown, but the range is never wrong.
#[test]
fn length_of_a_queue_is_right_if_reported() {
    with_retries(|| {
        for (queue, mbit, round_trip_ms) in [
            (3, 1, 5),
            (3, 20, 5),
            (3, 50, 30),
            (5, 5, 30),
            (5, 20, 80),
            (8, 1, 30),
            (8, 20, 5),
            (16, 5, 80),
            (16, 20, 30),
        ] {
            let forward = Impairment {
                bytes_per_s: mbit * 125_000,
                queue_bytes: queue * 1500,
                ..delay(round_trip_ms / 2)
            };
            let backward = delay(round_trip_ms - round_trip_ms / 2);
            let path = need!(ImpairedPath::with("more_queues", 300 + queue, forward, backward));
            let bytes = (mbit as usize * 125_000 * 4).clamp(500_000, 4_000_000);
            let analysis = need!(path.analyze_transfer(&TransferPlan::of(bytes)));
            analysis.assert_judgement("lost", analysis.counters.overflowed, 10);
            analysis.assert_none(&["reordered", "duplicated_by_network", "missing_in_capture"]);
            analysis.assert_verdict_lacks("Nothing waited in a queue");
            let verdict = &analysis.connection["forward"]["limited_by"];
            let bounds = ["queue_segs_min", "queue_segs_max"].map(|name| verdict[name].as_u64());
            if let [Some(min), Some(max)] = bounds {
                // On a busy machine the packets come in bursts, and the range is wider.
                let most = (queue + 3).max(queue * 3 / 2);
                assert!(
                    min <= queue + 2 && (queue.saturating_sub(3)..=most).contains(&max),
                    "{queue}: {analysis:?}"
                );
            } else {
                // A full queue that delays by less cannot be distinguished from the pauses of a busy machine.
                let wait_ms = queue * 12 / mbit;
                assert!(
                    wait_ms < 12 || queue * mbit * u64::from(round_trip_ms) > 1_000,
                    "{queue} {mbit} {round_trip_ms}: {analysis:?}"
                );
            }
        }
    });
}
