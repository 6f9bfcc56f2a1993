//! `sockeye analyze` on transfers of the real kernel to which something known was done on the way: it has to say that, and
//! nothing else; and its flags are tshark's, frame by frame.

use super::road::{self, Capture, Plan, Road, Told, steadily};
use sockeye_lab::{Impairment, Toward, need};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// 20 ms there and back.
fn far() -> Impairment {
    Impairment {
        delay: 10 * MS,
        ..Impairment::default()
    }
}

#[test]
fn clean_and_fast() {
    steadily(|| {
        let road = need!(Road::new("an_clean", 1));
        let told = need!(road.told(&Plan::default()));
        told.agrees_with_tshark();
        told.says_nothing_of(&[
            "lost",
            "reordered",
            "spurious",
            "duplicated_by_network",
            "timeouts",
        ]);
        told.says_nothing_of(&["missing_in_capture", "duplicated_by_capture"]);
        assert_eq!(told.text("ending"), "closed", "{told:?}");
        assert!(!told.verdict().contains("lost between"), "{told:?}");
    });
}

#[test]
fn delay_only() {
    steadily(|| {
        for congestion in ["cubic", "bbr"] {
            let road = need!(Road::new("an_delay", 2));
            road.set(
                Toward::Server,
                Impairment {
                    bytes_per_s: 2_000_000,
                    queue_bytes: 1 << 30,
                    ..far()
                },
            );
            road.set(Toward::Client, far());
            let told = need!(road.told(&Plan {
                congestion,
                ..Plan::default()
            }));
            told.agrees_with_tshark();
            told.agrees_with_kernel();
            told.says_nothing_of(&["lost", "reordered", "duplicated_by_network", "timeouts"]);
            assert_eq!(told.limit(), "congestion_window", "{told:?}");
            assert!(told.verdict().contains("nothing was lost"), "{told:?}");
        }
    });
}

#[test]
fn losses_at_random() {
    steadily(|| {
        for congestion in ["cubic", "bbr"] {
            let road = need!(Road::new("an_loss", 3));
            road.set(
                Toward::Server,
                Impairment {
                    loss_permille: 15,
                    ..far()
                },
            );
            road.set(Toward::Client, far());
            let told = need!(road.told(&Plan {
                bytes: 2_000_000,
                congestion,
                ..Plan::default()
            }));
            told.agrees_with_tshark();
            told.counts("lost", told.fate_there.lost, 10);
            told.says_nothing_of(&["reordered", "duplicated_by_network"]);
            assert!(!told.verdict().contains("queue of about"), "{told:?}");
        }
    });
}

#[test]
fn losses_in_bursts() {
    steadily(|| {
        let road = need!(Road::new("an_burst", 4));
        road.set(
            Toward::Server,
            Impairment {
                loss_permille: 3,
                loss_run_packets: 4,
                ..far()
            },
        );
        road.set(Toward::Client, far());
        let told = need!(road.told(&Plan {
            bytes: 2_000_000,
            ..Plan::default()
        }));
        told.agrees_with_tshark();
        told.counts("lost", told.fate_there.lost, 10);
        assert!(told.opinion("loss_bursts") > 0, "{told:?}");
    });
}

#[test]
fn acknowledgements_lost() {
    steadily(|| {
        let road = need!(Road::new("an_acks", 5));
        road.set(
            Toward::Client,
            Impairment {
                loss_permille: 200,
                ..far()
            },
        );
        road.set(Toward::Server, far());
        let told = need!(road.told(&Plan::default()));
        told.agrees_with_tshark();
        assert_eq!(told.opinion("lost"), 0, "{told:?}");
        told.says_nothing_of(&["reordered", "duplicated_by_network"]);
    });
}

#[test]
fn a_tiny_queue_overflows() {
    steadily(|| {
        let road = need!(Road::new("an_queue", 6));
        // Bursts pass one by one, and of those that wait four have room.
        let tiny = Impairment {
            bytes_per_s: 400_000,
            queue_bytes: 4 * 1500,
            delay: 30 * MS,
            ..Impairment::default()
        };
        road.set(Toward::Server, tiny);
        road.set(
            Toward::Client,
            Impairment {
                delay: 30 * MS,
                ..Impairment::default()
            },
        );
        let told = need!(road.told(&Plan {
            bytes: 2_000_000,
            ..Plan::default()
        }));
        told.agrees_with_tshark();
        told.counts("lost", told.fate_there.overflowed, 10);
        assert!(told.verdict().contains("a queue of about"), "{told:?}");
        let most = told.number("/forward/verdict/queue_segs_max");
        let least = told.number("/forward/verdict/queue_segs_min");
        assert!(least <= 5 && (3..=12).contains(&most), "{told:?}");
    });
}

/// Whatever the rate and the delay are, it is told how long the queue is.
#[test]
fn tiny_queues_are_measured() {
    steadily(|| {
        for (number, queue, bytes_per_s, delay, congestion) in [
            (30, 3, 250_000, 10 * MS, "cubic"),
            (31, 5, 250_000, 30 * MS, "bbr"),
            (32, 4, 500_000, 2 * MS, "cubic"),
            (33, 10, 500_000, 15 * MS, "cubic"),
        ] {
            let road = need!(Road::new("an_queues", number));
            let there = Impairment {
                bytes_per_s,
                queue_bytes: queue * 1500,
                delay,
                ..Impairment::default()
            };
            road.set(Toward::Server, there);
            road.set(
                Toward::Client,
                Impairment {
                    delay,
                    ..Impairment::default()
                },
            );
            let told = need!(road.told(&Plan {
                bytes: 5 * bytes_per_s as usize,
                congestion,
                ..Plan::default()
            }));
            told.agrees_with_tshark();
            told.counts("lost", told.fate_there.overflowed, 10);
            told.says_nothing_of(&["reordered", "duplicated_by_network"]);
            assert!(told.verdict().contains("a queue of about"), "{told:?}");
            let most = told.number("/forward/verdict/queue_segs_max");
            let least = told.number("/forward/verdict/queue_segs_min");
            // One more is on its way out while these wait; and what was sent before the last one counts as well.
            assert!(
                least <= queue + 2 && (queue - 1..=queue + 3).contains(&most),
                "{told:?}"
            );
        }
    });
}

/// What is lost by chance on a path with a rate is not taken for a queue's.
#[test]
fn losses_beside_a_queue_without_end() {
    steadily(|| {
        let road = need!(Road::new("an_endless", 34));
        road.set(
            Toward::Server,
            Impairment {
                bytes_per_s: 1_000_000,
                queue_bytes: 1 << 30,
                loss_permille: 15,
                ..far()
            },
        );
        road.set(Toward::Client, far());
        let told = need!(road.told(&Plan::default()));
        told.agrees_with_tshark();
        told.counts("lost", told.fate_there.lost, 10);
        assert!(!told.verdict().contains("queue of about"), "{told:?}");
    });
}

/// At the other end it is known as well what was lost, delivered twice and late.
#[test]
fn captured_at_the_receiver() {
    steadily(|| {
        let road = need!(Road::new("an_there", 35));
        road.set(
            Toward::Server,
            Impairment {
                loss_permille: 10,
                duplicate_permille: 10,
                bytes_per_s: 2_000_000,
                queue_bytes: 1 << 30,
                ..far()
            },
        );
        road.set(Toward::Client, far());
        let capture = need!(road.capture(Toward::Server));
        let kernel = road.transfer(&Plan::default());
        let mut told = capture.finish();
        (told.kernel, told.fate_there) = (kernel, road.path_counters(Toward::Server));
        told.agrees_with_tshark();
        told.agrees_with_kernel();
        told.counts("lost", told.fate_there.lost, 15);
        told.counts("duplicated_by_network", told.fate_there.twice, 25);
        told.says_nothing_of(&["reordered", "duplicated_by_capture", "missing_in_capture"]);
    });
}

/// Acknowledgements that the network delivers twice are not the capture's fault.
#[test]
fn acknowledgements_come_twice() {
    steadily(|| {
        let road = need!(Road::new("an_acks_twice", 36));
        road.set(
            Toward::Client,
            Impairment {
                duplicate_permille: 50,
                ..far()
            },
        );
        road.set(Toward::Server, far());
        let told = need!(road.told(&Plan::default()));
        told.agrees_with_tshark();
        told.says_nothing_of(&["lost", "reordered", "duplicated_by_capture"]);
    });
}

/// The path takes its part of each question and answer.
#[test]
fn questions_and_answers() {
    steadily(|| {
        let road = need!(Road::new("an_turns", 37));
        road.set_both(far());
        let capture = need!(road.capture(Toward::Client));
        road.take_turns(20, 10 * MS);
        let told = capture.finish();
        told.agrees_with_tshark();
        told.says_nothing_of(&["lost", "reordered", "duplicated_by_network", "timeouts"]);
        assert!(told.verdict().contains("took turns 19 times"), "{told:?}");
        assert!(told.verdict().contains("a round trip of 2"), "{told:?}");
    });
}

#[test]
fn the_first_syn_is_lost() {
    steadily(|| {
        let road = need!(Road::new("an_syn", 38));
        road.set_both(Impairment {
            loss_permille: 1000,
            ..Impairment::default()
        });
        let capture = need!(road.capture(Toward::Client));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Time is what is tested: the first SYN is lost, the second, a second later, is not.
                std::thread::sleep(500 * MS);
                road.set_both(far());
            });
            road.transfer(&Plan {
                bytes: 100_000,
                ..Plan::default()
            });
        });
        let told = capture.finish();
        told.agrees_with_tshark();
        assert_eq!(told.limit(), "setup", "{told:?}");
        assert!(told.verdict().contains("2 SYNs were sent"), "{told:?}");
        told.says_nothing_of(&["lost", "reordered", "duplicated_by_network"]);
    });
}

/// As many are lost as a path of a steady rate cannot hold; that it is a queue may be told or not, but not denied.
#[test]
fn a_queue_overflows_at_a_low_rate() {
    steadily(|| {
        let road = need!(Road::new("an_slow_queue", 17));
        let slow = Impairment {
            bytes_per_s: 1_000_000,
            queue_bytes: 10 * 1500,
            ..far()
        };
        road.set(Toward::Server, slow);
        road.set(Toward::Client, far());
        let told = need!(road.told(&Plan {
            bytes: 2_000_000,
            ..Plan::default()
        }));
        told.agrees_with_tshark();
        told.counts("lost", told.fate_there.overflowed, 10);
        assert!(!told.verdict().contains("no queue overflows"), "{told:?}");
        told.says_nothing_of(&["reordered", "duplicated_by_network"]);
    });
}

#[test]
fn a_receiver_reads_slowly() {
    steadily(|| {
        let road = need!(Road::new("an_slow", 7));
        road.set_both(Impairment {
            delay: MS,
            ..Impairment::default()
        });
        let told = need!(road.told(&Plan {
            bytes: 1_500_000,
            receive_buffer: Some(65_536),
            read: Some((20_000, 10 * MS)),
            ..Plan::default()
        }));
        told.agrees_with_tshark();
        told.agrees_with_kernel();
        assert_eq!(told.limit(), "receiver_window", "{told:?}");
        assert!(told.verdict().contains("reads too slowly"), "{told:?}");
        told.says_nothing_of(&["lost", "reordered", "duplicated_by_network"]);
    });
}

#[test]
fn a_receiver_stalls() {
    steadily(|| {
        let road = need!(Road::new("an_stall", 8));
        road.set_both(Impairment {
            delay: MS,
            ..Impairment::default()
        });
        let told = need!(road.told(&Plan {
            bytes: 600_000,
            receive_buffer: Some(65_536),
            stall: 1500 * MS,
            ..Plan::default()
        }));
        told.agrees_with_tshark();
        told.agrees_with_kernel();
        assert_eq!(told.limit(), "receiver_window", "{told:?}");
        assert!(told.has_event("window_closed"), "{told:?}");
        assert!(told.verdict().contains("window was closed"), "{told:?}");
    });
}

#[test]
fn a_sender_pauses() {
    steadily(|| {
        let road = need!(Road::new("an_pause", 9));
        road.set_both(far());
        let told = need!(road.told(&Plan {
            bytes: 400_000,
            write: Some((50_000, 300 * MS)),
            ..Plan::default()
        }));
        told.agrees_with_tshark();
        told.agrees_with_kernel();
        assert_eq!(told.limit(), "application", "{told:?}");
        assert!(told.verdict().contains("had nothing to send"), "{told:?}");
        told.says_nothing_of(&["lost", "reordered", "duplicated_by_network", "spurious"]);
    });
}

#[test]
fn a_small_send_buffer() {
    steadily(|| {
        let road = need!(Road::new("an_sndbuf", 10));
        road.set_both(far());
        let told = need!(road.told(&Plan {
            bytes: 3_000_000,
            send_buffer: Some(8_192),
            ..Plan::default()
        }));
        told.agrees_with_tshark();
        told.agrees_with_kernel();
        assert_eq!(told.limit(), "send_buffer", "{told:?}");
        assert!(told.verdict().contains("send buffer"), "{told:?}");
    });
}

#[test]
fn reordering() {
    steadily(|| {
        let road = need!(Road::new("an_order", 11));
        road.set(
            Toward::Server,
            Impairment {
                late: 4 * MS,
                late_permille: 20,
                bytes_per_s: 4_000_000,
                queue_bytes: 1 << 30,
                ..far()
            },
        );
        road.set(Toward::Client, far());
        let told = need!(road.told(&Plan::default()));
        told.agrees_with_tshark();
        assert!(told.opinion("reordered") * 2 > told.fate_there.late, "{told:?}");
        assert!(told.opinion("reordered") <= told.fate_there.late, "{told:?}");
        told.says_nothing_of(&["lost", "duplicated_by_network"]);
        assert!(told.verdict().contains("came late"), "{told:?}");
    });
}

#[test]
fn duplication() {
    steadily(|| {
        let road = need!(Road::new("an_twice", 12));
        road.set(
            Toward::Server,
            Impairment {
                duplicate_permille: 20,
                ..far()
            },
        );
        road.set(Toward::Client, far());
        let told = need!(road.told(&Plan::default()));
        told.agrees_with_tshark();
        told.counts("duplicated_by_network", told.fate_there.twice, 25);
        told.says_nothing_of(&["lost", "reordered"]);
    });
}

#[test]
fn a_corrupted_window() {
    steadily(|| {
        let road = need!(Road::new("an_window", 13));
        road.set(
            Toward::Client,
            Impairment {
                window_permille: 1000,
                window: 4,
                ..far()
            },
        );
        road.set(Toward::Server, far());
        let told = need!(road.told(&Plan {
            bytes: 200_000,
            ..Plan::default()
        }));
        told.agrees_with_tshark();
        assert_eq!(told.limit(), "receiver_window", "{told:?}");
        told.says_nothing_of(&["lost", "reordered", "duplicated_by_network"]);
    });
}

#[test]
fn refused_reset_and_vanished() {
    steadily(|| {
        let road = need!(Road::new("an_ends", 14));
        let capture = need!(road.capture(Toward::Client));
        road.refused();
        let told = capture.finish();
        assert_eq!(told.text("ending"), "refused", "{told:?}");
        assert!(told.verdict().contains("Refused"), "{told:?}");
        told.agrees_with_tshark();

        let capture = need!(road.capture(Toward::Client));
        road.reset();
        let told = capture.finish();
        assert_eq!(told.text("ending"), "reset_by_client", "{told:?}");
        told.agrees_with_tshark();

        let capture = need!(road.capture(Toward::Client));
        road.vanished();
        let told = capture.finish();
        assert_eq!(told.text("ending"), "server_vanished", "{told:?}");
        assert!(told.verdict().contains("vanished"), "{told:?}");
        told.agrees_with_tshark();

        let capture = need!(road.capture(Toward::Client));
        road.unanswered();
        let told = capture.finish();
        assert_eq!(told.text("ending"), "unanswered", "{told:?}");
        assert!(told.verdict().contains("No answer"), "{told:?}");
    });
}

/// Two captures: what was lost between, and where the delay is.
#[test]
fn both_ends_together() {
    steadily(|| {
        let road = need!(Road::new("an_both", 15));
        road.set(
            Toward::Server,
            Impairment {
                loss_permille: 15,
                ..far()
            },
        );
        road.set(Toward::Client, far());
        let (near, far) = need!(near_and_far(&road));
        let told = road.transfer(&Plan {
            bytes: 1_000_000,
            ..Plan::default()
        });
        let (near, far) = (near.stop(), far.stop());
        let lost = road.path_counters(Toward::Server).lost;
        let json = road::json(&["analyze", &near, &far, "--format", "json", "src", "10.78.0.1"]);
        let ways = json["comparisons"][0]["ways"].as_array().unwrap();
        let there = ways
            .iter()
            .find(|way| way["source"]["ip"] == "10.78.0.1")
            .unwrap();
        assert_eq!(there["lost_segs"], lost, "{there} {told:?}");
        assert_eq!(there["nearer"].as_str(), Some(near.as_str()), "{there}");
        let delay_ms = there["delay"]["p50_ns"].as_f64().unwrap() / 1e6;
        assert!((8.0..15.0).contains(&delay_ms), "{there}");
        let text = road::output(&["analyze", &near, &far]);
        assert!(text.contains(&format!("{lost} segments lost between")), "{text}");
        assert!(text.contains("of a round trip of"), "{text}");
    });
}

fn near_and_far(road: &Road) -> Result<(Capture<'_>, Capture<'_>), sockeye_lab::Skip> {
    Ok((road.capture(Toward::Client)?, road.capture(Toward::Server)?))
}

#[test]
fn manners() {
    steadily(|| {
        let road = need!(Road::new("an_words", 16));
        let told: Told = need!(road.told(&Plan {
            bytes: 100_000,
            ..Plan::default()
        }));
        let file = told.file.as_str();
        let run = |words: &[&str]| {
            let all: Vec<&str> = ["analyze", file]
                .iter()
                .copied()
                .chain(words.iter().copied())
                .collect();
            let out = road::sockeye(&all);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (out.status.code(), text(&out.stdout), text(&out.stderr))
        };
        let found = |filter: &str| {
            let (code, out, _) = run(&["--format", "jsonl", filter]);
            assert_eq!(code, Some(0), "{filter}");
            out.lines().count() - 1
        };
        assert_eq!(found("dst 10.78.0.2"), 1);
        assert_eq!(found("src 10.78.0.2"), 1);
        assert_eq!(found("not dst 10.78.0.2"), 0);
        assert_eq!(found("dport = :1"), 0);
        let (code, _, error) = run(&["state", "established"]);
        assert_eq!(code, Some(2));
        assert!(error.contains("no capture tells"), "{error}");
        let (code, _, error) = run(&["dport", "="]);
        assert_eq!((code, error.contains('^')), (Some(2), true), "{error}");
        let (code, _, error) = run(&["-c", "1"]);
        assert_eq!(
            (code, error.contains("there is no connection 1")),
            (Some(1), true),
            "{error}"
        );
        let (code, out, _) = run(&["--top", "0"]);
        assert_eq!((code, out.lines().count()), (Some(0), 1), "{out}");
        // Time shares of the text add up.
        let (_, out, _) = run(&[]);
        let line = out
            .lines()
            .find(|line| line.trim_start().starts_with("time:"))
            .unwrap();
        let sum: u32 = line
            .split(['%', ' ', ','])
            .filter_map(|word| word.parse::<u32>().ok())
            .sum();
        assert_eq!(sum, 100, "{line}");
        // A file that ends in the middle of a packet is read up to there, from a pipe too.
        let bytes = std::fs::read(file).unwrap();
        let (code, out, error) =
            road::piped(&["analyze", "-", "--format", "json"], &bytes[..bytes.len() - 7]);
        assert_eq!(code, Some(0), "{error}");
        assert!(error.contains("ends in the middle of a packet"), "{error}");
        assert!(out.contains("\"is_cut\":true"), "{out}");
        let (code, _, error) = road::piped(&["analyze", "-"], b"no capture at all");
        assert_eq!((code, error.contains("no capture")), (Some(1), true), "{error}");
    });
}
