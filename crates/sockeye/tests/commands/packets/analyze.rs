//! `sockeye analyze` on transfers with one known cause of delay or loss, captured at one end: it reports this cause and no other,
//! and its flags are those of tshark.

use super::analysis::{Analysis, analyze_json};
use super::impaired_path::{ImpairedPath, MS, TransferPlan, delay, with_retries};
use super::stdin::run_with_input;
use crate::fixtures::binary;
use sockeye_lab::{Impairment, Skip, Toward, need};

#[test]
fn unimpaired_transfer_has_no_anomaly() {
    with_retries(|| {
        let path = need!(ImpairedPath::new("an_clean", 1));
        let analysis = need!(path.analyze_transfer(&TransferPlan::default()));
        analysis.assert_flags_match_tshark();
        analysis.assert_none(&[
            "lost",
            "reordered",
            "spurious",
            "duplicated_by_network",
            "timeouts",
            "missing_in_capture",
            "duplicated_by_capture",
        ]);
        analysis.assert_ending("closed");
        analysis.assert_verdict_lacks("lost between");
    });
}

#[test]
fn rate_limit_without_loss_is_limit_of_congestion_window() {
    with_retries(|| {
        for congestion in ["cubic", "bbr"] {
            let forward = Impairment {
                bytes_per_s: 2_000_000,
                queue_bytes: 1 << 30,
                ..delay(10)
            };
            let path = need!(ImpairedPath::with("an_delay", 2, forward, delay(10)));
            let analysis = need!(path.analyze_transfer(&TransferPlan {
                congestion,
                ..TransferPlan::default()
            }));
            analysis.assert_flags_match_tshark();
            analysis.assert_shares_match_kernel();
            analysis.assert_none(&["lost", "reordered", "duplicated_by_network", "timeouts"]);
            analysis.assert_limit("congestion_window");
            // A congestion window that grows fills the queue, until its delay is the finding.
            let is_queue = analysis.verdict().contains("A long queue");
            assert!(
                is_queue || analysis.verdict().contains("nothing was lost"),
                "{analysis:?}"
            );
        }
    });
}

#[test]
fn random_losses_are_counted() {
    with_retries(|| {
        for congestion in ["cubic", "bbr"] {
            let forward = Impairment {
                loss_permille: 15,
                ..delay(10)
            };
            let path = need!(ImpairedPath::with("an_loss", 3, forward, delay(10)));
            let analysis = need!(path.analyze_transfer(&TransferPlan {
                congestion,
                ..TransferPlan::of(2_000_000)
            }));
            analysis.assert_flags_match_tshark();
            analysis.assert_judgement("lost", analysis.counters.lost, 10);
            analysis.assert_none(&["reordered", "duplicated_by_network"]);
            analysis.assert_verdict_lacks("queue of about");
        }
    });
}

#[test]
fn losses_in_bursts_are_counted_as_bursts() {
    with_retries(|| {
        let forward = Impairment {
            loss_permille: 3,
            loss_run_packets: 4,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_burst", 4, forward, delay(10)));
        let analysis = need!(path.analyze_transfer(&TransferPlan::of(2_000_000)));
        analysis.assert_flags_match_tshark();
        analysis.assert_judgement("lost", analysis.counters.lost, 10);
        assert!(analysis.judgement("loss_bursts") > 0, "{analysis:?}");
    });
}

#[test]
fn lost_acknowledgements_are_not_lost_segments() {
    with_retries(|| {
        let backward = Impairment {
            loss_permille: 200,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_acks", 5, delay(10), backward));
        let analysis = need!(path.analyze_transfer(&TransferPlan::default()));
        analysis.assert_flags_match_tshark();
        assert_eq!(analysis.judgement("lost"), 0, "{analysis:?}");
        analysis.assert_none(&["reordered", "duplicated_by_network"]);
    });
}

#[test]
fn overflow_of_a_short_queue_reports_its_length() {
    with_retries(|| {
        // The middlebox takes the packets of a burst one by one; four fit into the queue.
        let forward = Impairment {
            bytes_per_s: 400_000,
            queue_bytes: 4 * 1500,
            ..delay(30)
        };
        let path = need!(ImpairedPath::with("an_queue", 6, forward, delay(30)));
        let analysis = need!(path.analyze_transfer(&TransferPlan::of(2_000_000)));
        analysis.assert_flags_match_tshark();
        analysis.assert_judgement("lost", analysis.counters.overflowed, 10);
        analysis.assert_verdict_contains("queue of about");
        let max = analysis.number("/forward/limited_by/queue_segs_max");
        let min = analysis.number("/forward/limited_by/queue_segs_min");
        assert!(min <= 5 && (3..=12).contains(&max), "{analysis:?}");
    });
}

#[test]
fn length_of_a_short_queue_is_reported_at_each_rate_and_delay() {
    for (seed, queue, bytes_per_s, delay_ms, congestion) in [
        (30, 3, 250_000, 10, "cubic"),
        (31, 5, 250_000, 30, "bbr"),
        (32, 4, 500_000, 2, "cubic"),
        (33, 10, 500_000, 15, "cubic"),
    ] {
        with_retries(|| {
            let forward = Impairment {
                bytes_per_s,
                queue_bytes: queue * 1500,
                ..delay(delay_ms)
            };
            let path = need!(ImpairedPath::with("an_queues", seed, forward, delay(delay_ms)));
            let analysis = need!(path.analyze_transfer(&TransferPlan {
                congestion,
                ..TransferPlan::of(5 * bytes_per_s as usize)
            }));
            analysis.assert_flags_match_tshark();
            analysis.assert_judgement("lost", analysis.counters.overflowed, 10);
            analysis.assert_none(&["reordered", "duplicated_by_network"]);
            analysis.assert_verdict_contains("queue of about");
            let max = analysis.number("/forward/limited_by/queue_segs_max");
            let min = analysis.number("/forward/limited_by/queue_segs_min");
            // One more segment is being sent while these wait, and segments sent before the last one count too.
            assert!(
                min <= queue + 2 && (queue - 1..=queue + 3).contains(&max),
                "{analysis:?}"
            );
        });
    }
}

#[test]
fn random_losses_with_an_unlimited_queue_are_not_overflows() {
    with_retries(|| {
        let forward = Impairment {
            bytes_per_s: 1_000_000,
            queue_bytes: 1 << 30,
            loss_permille: 15,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_endless", 34, forward, delay(10)));
        let analysis = need!(path.analyze_transfer(&TransferPlan::default()));
        analysis.assert_flags_match_tshark();
        analysis.assert_judgement("lost", analysis.counters.lost, 10);
        analysis.assert_verdict_lacks("queue of about");
    });
}

#[test]
fn capture_at_the_receiver_counts_losses_and_duplicates() {
    with_retries(|| {
        let forward = Impairment {
            loss_permille: 10,
            duplicate_permille: 10,
            bytes_per_s: 2_000_000,
            queue_bytes: 1 << 30,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_there", 35, forward, delay(10)));
        let capture = need!(path.capture(Toward::Server));
        let sender_times = path.transfer(&TransferPlan::default());
        let mut analysis = capture.analyze();
        analysis.sender_times = sender_times;
        let counters = path.path_counters(Toward::Server);
        analysis.assert_flags_match_tshark();
        analysis.assert_shares_match_kernel();
        analysis.assert_judgement("lost", counters.lost, 15);
        analysis.assert_judgement("duplicated_by_network", counters.duplicated, 25);
        analysis.assert_none(&["reordered", "duplicated_by_capture", "missing_in_capture"]);
    });
}

#[test]
fn acknowledgements_duplicated_by_the_network_are_not_duplicated_by_the_capture() {
    with_retries(|| {
        let backward = Impairment {
            duplicate_permille: 50,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_acks_twice", 36, delay(10), backward));
        let analysis = need!(path.analyze_transfer(&TransferPlan::default()));
        analysis.assert_flags_match_tshark();
        analysis.assert_none(&["lost", "reordered", "duplicated_by_capture"]);
    });
}

#[test]
fn requests_and_responses_report_turns_and_round_trip() {
    with_retries(|| {
        let path = need!(ImpairedPath::with("an_turns", 37, delay(10), delay(10)));
        let capture = need!(path.capture(Toward::Client));
        path.requests_and_responses(20, 10 * MS);
        let analysis = capture.analyze();
        analysis.assert_flags_match_tshark();
        analysis.assert_none(&["lost", "reordered", "duplicated_by_network", "timeouts"]);
        analysis.assert_verdict_contains("each of 20 answers");
        analysis.assert_verdict_contains("the round trip is 2");
        assert_eq!(analysis.number("/exchanges/server/count"), 20);
        assert_eq!(analysis.number("/exchanges/client/count"), 19);
    });
}

#[test]
fn lost_first_syn_is_limit_of_setup() {
    with_retries(|| {
        let lossy = Impairment {
            loss_permille: 1000,
            ..Impairment::default()
        };
        let path = need!(ImpairedPath::with("an_syn", 38, lossy, lossy));
        let capture = need!(path.capture(Toward::Client));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Time is what is tested: the first SYN is lost, the second one, a second later, is not.
                std::thread::sleep(500 * MS);
                path.set_both(delay(10));
            });
            path.transfer(&TransferPlan::of(100_000));
        });
        let analysis = capture.analyze();
        analysis.assert_flags_match_tshark();
        analysis.assert_limit("setup");
        analysis.assert_verdict_contains("2 SYNs were sent");
        analysis.assert_none(&["lost", "reordered", "duplicated_by_network"]);
    });
}

/// The verdict may or may not name the queue, but it does not exclude one.
#[test]
fn overflow_at_a_low_rate_counts_losses() {
    with_retries(|| {
        let forward = Impairment {
            bytes_per_s: 1_000_000,
            queue_bytes: 10 * 1500,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_slow_queue", 17, forward, delay(10)));
        let analysis = need!(path.analyze_transfer(&TransferPlan::of(2_000_000)));
        analysis.assert_flags_match_tshark();
        analysis.assert_judgement("lost", analysis.counters.overflowed, 10);
        analysis.assert_verdict_lacks("Nothing waited in a queue");
        analysis.assert_none(&["reordered", "duplicated_by_network"]);
    });
}

#[test]
fn slow_reader_is_limit_of_receiver_window() {
    with_retries(|| {
        let path = need!(ImpairedPath::with("an_slow", 7, delay(1), delay(1)));
        let analysis = need!(path.analyze_transfer(&TransferPlan {
            receive_buffer: Some(65_536),
            read: Some((20_000, 10 * MS)),
            ..TransferPlan::of(1_500_000)
        }));
        analysis.assert_flags_match_tshark();
        analysis.assert_shares_match_kernel();
        analysis.assert_limit("receiver_window");
        analysis.assert_verdict_contains("reads too slowly");
        analysis.assert_none(&["lost", "reordered", "duplicated_by_network"]);
    });
}

#[test]
fn stalled_reader_is_a_closed_window() {
    with_retries(|| {
        let path = need!(ImpairedPath::with("an_stall", 8, delay(1), delay(1)));
        let analysis = need!(path.analyze_transfer(&TransferPlan {
            receive_buffer: Some(65_536),
            stall: 1500 * MS,
            ..TransferPlan::of(600_000)
        }));
        analysis.assert_flags_match_tshark();
        analysis.assert_shares_match_kernel();
        analysis.assert_limit("receiver_window");
        assert!(analysis.has_event("window_closed"), "{analysis:?}");
        analysis.assert_verdict_contains("window was closed");
    });
}

#[test]
fn pausing_sender_is_limit_of_application() {
    with_retries(|| {
        let path = need!(ImpairedPath::with("an_pause", 9, delay(10), delay(10)));
        let analysis = need!(path.analyze_transfer(&TransferPlan {
            write: Some((50_000, 300 * MS)),
            ..TransferPlan::of(400_000)
        }));
        analysis.assert_flags_match_tshark();
        analysis.assert_shares_match_kernel();
        analysis.assert_limit("application");
        analysis.assert_verdict_contains("had nothing to send");
        analysis.assert_none(&["lost", "reordered", "duplicated_by_network", "spurious"]);
    });
}

#[test]
fn small_send_buffer_is_limit_of_send_buffer() {
    with_retries(|| {
        let path = need!(ImpairedPath::with("an_sndbuf", 10, delay(10), delay(10)));
        let analysis = need!(path.analyze_transfer(&TransferPlan {
            send_buffer: Some(8_192),
            ..TransferPlan::of(3_000_000)
        }));
        analysis.assert_flags_match_tshark();
        analysis.assert_shares_match_kernel();
        analysis.assert_limit("send_buffer");
        analysis.assert_verdict_contains("send buffer");
    });
}

#[test]
fn reordered_segments_are_counted() {
    with_retries(|| {
        let forward = Impairment {
            late: 4 * MS,
            late_permille: 20,
            bytes_per_s: 4_000_000,
            queue_bytes: 1 << 30,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_order", 11, forward, delay(10)));
        let analysis = need!(path.analyze_transfer(&TransferPlan::default()));
        analysis.assert_flags_match_tshark();
        let (reordered, late) = (analysis.judgement("reordered"), analysis.counters.late);
        assert!(reordered * 2 > late && reordered <= late, "{analysis:?}");
        analysis.assert_none(&["lost", "duplicated_by_network"]);
        analysis.assert_verdict_contains("came late");
    });
}

#[test]
fn duplicated_segments_are_counted() {
    with_retries(|| {
        let forward = Impairment {
            duplicate_permille: 20,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_twice", 12, forward, delay(10)));
        let analysis = need!(path.analyze_transfer(&TransferPlan::default()));
        analysis.assert_flags_match_tshark();
        analysis.assert_judgement("duplicated_by_network", analysis.counters.duplicated, 25);
        analysis.assert_none(&["lost", "reordered"]);
    });
}

#[test]
fn window_changed_on_the_path_is_limit_of_receiver_window() {
    with_retries(|| {
        let backward = Impairment {
            window_permille: 1000,
            window: 4,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_window", 13, delay(10), backward));
        let analysis = need!(path.analyze_transfer(&TransferPlan::of(200_000)));
        analysis.assert_flags_match_tshark();
        analysis.assert_limit("receiver_window");
        analysis.assert_none(&["lost", "reordered", "duplicated_by_network"]);
    });
}

#[test]
fn each_ending_is_reported() {
    with_retries(|| {
        let path = need!(ImpairedPath::new("an_ends", 14));
        let analyze = |run: &dyn Fn()| -> Result<Analysis, Skip> {
            let capture = path.capture(Toward::Client)?;
            run();
            Ok(capture.analyze())
        };
        let refused = need!(analyze(&|| path.connect_to_closed_port()));
        refused.assert_ending("refused");
        refused.assert_verdict_contains("Refused");
        refused.assert_flags_match_tshark();

        let reset = need!(analyze(&|| path.close_with_unread_data()));
        reset.assert_ending("reset_by_client");
        reset.assert_flags_match_tshark();

        let vanished = need!(analyze(&|| path.lose_all_packets_after_data()));
        vanished.assert_ending("server_vanished");
        vanished.assert_verdict_contains("vanished");
        vanished.assert_flags_match_tshark();

        // All packets are still lost.
        let unanswered = need!(analyze(&|| path.connect_without_answer(2500 * MS)));
        unanswered.assert_ending("unanswered");
        unanswered.assert_verdict_contains("No answer");
    });
}

#[test]
fn captures_of_both_ends_report_loss_and_delay_between_them() {
    with_retries(|| {
        let forward = Impairment {
            loss_permille: 15,
            ..delay(10)
        };
        let path = need!(ImpairedPath::with("an_both", 15, forward, delay(10)));
        let (at_client, at_server) = need!(path.capture_both_ends());
        let sender_times = path.transfer(&TransferPlan::of(1_000_000));
        let (at_client, at_server) = (at_client.stop(), at_server.stop());
        let lost = path.path_counters(Toward::Server).lost;
        let document = analyze_json(&[&at_client, &at_server, "src", "10.78.0.1"]);
        let directions = document["comparisons"][0]["directions"].as_array().unwrap();
        let forward = directions
            .iter()
            .find(|direction| direction["source"]["ip"] == "10.78.0.1")
            .unwrap();
        assert_eq!(forward["lost_segs"], lost, "{forward} {sender_times:?}");
        assert_eq!(forward["nearer"].as_str(), Some(at_client.as_str()), "{forward}");
        let delay_ms = forward["delay"]["p50_ns"].as_f64().unwrap() / 1e6;
        assert!((8.0..15.0).contains(&delay_ms), "{forward}");
        let outcome = binary::sockeye(&["analyze", &at_client, &at_server]);
        let text = outcome.ok();
        assert!(text.contains(&format!("{lost} segments lost between")), "{text}");
        assert!(text.contains("of a round trip of"), "{text}");
    });
}

/// Analyzes one small transfer with different arguments.
#[test]
fn filters_options_and_truncated_input() {
    with_retries(|| {
        let path = need!(ImpairedPath::new("an_words", 16));
        let analysis = need!(path.analyze_transfer(&TransferPlan::of(100_000)));
        let file = analysis.file.as_str();
        let run = |arguments: &[&str]| binary::sockeye(&[&["analyze", file], arguments].concat());
        let connections = |filter: &str| run(&["--format", "jsonl", filter]).ok().lines().count() - 1;
        assert_eq!(connections("dst 10.78.0.2"), 1);
        assert_eq!(connections("src 10.78.0.2"), 1);
        assert_eq!(connections("not dst 10.78.0.2"), 0);
        assert_eq!(connections("dport = :1"), 0);
        for (arguments, code, expected) in [
            (&["state", "established"][..], 2, "'state established'"),
            (&["dport", "="], 2, "^"),
            (&["--connection", "1"], 1, "there is no connection 1"),
        ] {
            let outcome = run(arguments);
            assert_eq!(outcome.code, Some(code), "{outcome}");
            assert!(outcome.error().contains(expected), "{outcome}");
        }
        assert_eq!(run(&["--top", "0"]).ok(), run(&[]).ok());
        // The shares of time in the text add up to 100 percent.
        let outcome = run(&[]);
        let line = outcome
            .ok()
            .lines()
            .find(|line| line.trim_start().starts_with("time:"))
            .unwrap();
        let sum: u32 = line
            .split(['%', ' ', ','])
            .filter_map(|word| word.parse::<u32>().ok())
            .sum();
        assert_eq!(sum, 100, "{line}");
        // A capture that ends within a packet is analyzed up to this packet, also from a pipe.
        let bytes = std::fs::read(file).unwrap();
        let outcome = run_with_input(&["analyze", "-", "--format", "json"], &bytes[..bytes.len() - 7]);
        assert!(outcome.ok().contains("\"is_cut\":true"), "{outcome}");
        assert!(
            outcome.error().contains("ends in the middle of a packet"),
            "{outcome}"
        );
        let outcome = run_with_input(&["analyze", "-"], b"no capture at all");
        assert!(outcome.failed(1).contains("no capture"), "{outcome}");
    });
}
