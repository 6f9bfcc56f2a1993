//! `sockeye analyze` where captures are taken as they are: in the middle of a path, begun too late, cut too short, of several
//! connections. It has to say what was done to a transfer and nothing else, and no more than the capture tells.

#[allow(dead_code, reason = "another test uses the rest")]
use super::road::{self, Plan, Road, Told, steadily};
use rustix::net::sockopt;
use sockeye_lab::{Impairment, Middlebox, Namespace, PathCounters, Skip, Toward, need};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// None of these happened.
const NOTHING: &[&str] = &[
    "lost",
    "reordered",
    "spurious",
    "unclear",
    "duplicated_by_network",
    "duplicated_by_capture",
    "missing_in_capture",
];

/// Under way for so long.
fn after(ms: u32) -> Impairment {
    Impairment {
        delay: ms * MS,
        ..Impairment::default()
    }
}

fn losing(permille: u16) -> Impairment {
    Impairment {
        loss_permille: permille,
        ..after(10)
    }
}

fn late(ms: u32) -> Impairment {
    Impairment {
        late: ms * MS,
        late_permille: 20,
        ..after(10)
    }
}

fn twice() -> Impairment {
    Impairment {
        duplicate_permille: 10,
        ..after(10)
    }
}

/// 5 segments at 4.8 Mbit/s.
fn queue() -> Impairment {
    Impairment {
        bytes_per_s: 600_000,
        queue_bytes: 5 * 1500,
        ..after(10)
    }
}

fn endless(bytes_per_s: u64) -> Impairment {
    Impairment {
        bytes_per_s,
        queue_bytes: 1 << 30,
        ..after(10)
    }
}

fn sending(bytes: usize) -> Plan {
    Plan {
        bytes,
        ..Plan::default()
    }
}

fn told_of(file: &str) -> Told {
    let json = road::json(&["analyze", file, "--format", "json"]);
    Told {
        connection: json["connections"][0].clone(),
        file: file.to_owned(),
        fate_there: PathCounters::default(),
        kernel: road::Kernel::default(),
    }
}

#[track_caller]
fn says(told: &Told, words: &str) {
    assert!(told.verdict().contains(words), "no {words:?} in {told:?}");
}

#[track_caller]
fn never_says(told: &Told, words: &str) {
    assert!(!told.verdict().contains(words), "{words:?} in {told:?}");
}

/// What precedes the records of a pcap file, and these, each with its header.
fn records(file: &str) -> (Vec<u8>, Vec<Vec<u8>>) {
    let bytes = std::fs::read(file).unwrap();
    let (head, mut rest) = bytes.split_at(24);
    let mut records = Vec::new();
    while rest.len() >= 16 {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (record, behind) = rest.split_at(16 + len);
        records.push(record.to_vec());
        rest = behind;
    }
    (head.to_vec(), records)
}

/// The same capture from its first to its second third, or so.
fn part(file: &str, from_third: usize, to_third: usize) -> Told {
    let (head, records) = records(file);
    let which = records.len() * from_third / 3..records.len() * to_third / 3;
    let path = format!("{file}.{from_third}-{to_third}");
    std::fs::write(&path, [head, records[which].concat()].concat()).unwrap();
    told_of(&path)
}

/// The same capture, with so much of each packet only.
fn shortened(file: &str, snaplen: usize) -> Told {
    let (mut all, records) = records(file);
    let path = format!("{file}.{snaplen}");
    for mut record in records {
        record.truncate(16 + snaplen);
        let len = (record.len() - 16) as u32;
        record[8..12].copy_from_slice(&len.to_le_bytes());
        all.extend(record);
    }
    std::fs::write(&path, all).unwrap();
    told_of(&path)
}

/// A transfer there, captured near the sender and near the receiver.
fn near_and_far(road: &Road, plan: &Plan) -> Result<(Told, Told), Skip> {
    let near = road.capture(Toward::Client)?;
    let distant = road.capture(Toward::Server)?;
    road.transfer(plan);
    Ok((near.finish(), distant.finish()))
}

fn road(purpose: &str, seed: u64, there: Impairment) -> Result<Road, Skip> {
    let road = Road::new(purpose, seed)?;
    road.set(Toward::Server, there);
    road.set(Toward::Client, after(10));
    Ok(road)
}

#[test]
fn over_ipv6() {
    steadily(|| {
        for (there, opinion, truth) in [
            (
                losing(15),
                "lost",
                (|path_counters| path_counters.lost) as fn(&PathCounters) -> u64,
            ),
            (queue(), "lost", |path_counters| path_counters.overflowed),
            (late(3), "reordered", |path_counters| path_counters.late),
            (twice(), "duplicated_by_network", |path_counters| {
                path_counters.twice
            }),
        ] {
            let road = need!(Road::over6("more_six", 100));
            road.set(Toward::Server, there);
            road.set(Toward::Client, after(10));
            let told = need!(road.told(&sending(2_000_000)));
            told.agrees_with_tshark();
            told.counts(opinion, truth(&told.fate_there), 30);
            let others: Vec<&str> = NOTHING
                .iter()
                .copied()
                .filter(|name| *name != opinion && *name != "spurious")
                .collect();
            told.says_nothing_of(&others);
            assert!(told.text("verdict").len() > 20, "{told:?}");
        }
    });
}

/// Client, router and server, with a middlebox between each two.
struct Chain {
    road: Road,
    beyond: Middlebox,
    router: Namespace,
}

impl Chain {
    fn new(purpose: &str, seed: u64, before: Impairment, behind: Impairment) -> Result<Self, Skip> {
        let mut road = road(purpose, seed, before)?;
        let router = road.server.clone();
        let server = road.lab.namespace("beyond");
        server.sysctl("ipv4/tcp_no_metrics_save", "1");
        let beyond = road.lab.middlebox(&router, &server, seed + 1);
        router.sysctl("ipv4/ip_forward", "1");
        road.client.ip("route add 10.78.1.0/24 via 10.78.0.2");
        server.ip("route add 10.78.0.0/24 via 10.78.1.1");
        road.server = server;
        road.address = beyond.net_path().server_ip();
        beyond.set(Toward::Server, behind);
        beyond.set(Toward::Client, after(10));
        Ok(Self { road, beyond, router })
    }
}

#[test]
fn captured_between() {
    steadily(|| {
        for (before, behind) in [
            (losing(10), after(10)),
            (after(10), losing(10)),
            (queue(), after(10)),
            (after(10), queue()),
            (twice(), after(10)),
            (after(10), twice()),
        ] {
            let chain = need!(Chain::new("more_mid", 110, before, behind));
            let capture = need!(chain.road.capture_on(&chain.router, "tun1c", 100));
            chain.road.transfer(&sending(1_500_000));
            let told = capture.finish();
            let fates = [
                chain.road.path_counters(Toward::Server),
                chain.beyond.path_counters(Toward::Server),
            ];
            let sum = |of: fn(&PathCounters) -> u64| fates.iter().map(of).sum::<u64>();
            told.counts(
                "lost",
                sum(|path_counters| path_counters.lost + path_counters.overflowed),
                20,
            );
            told.counts(
                "duplicated_by_network",
                sum(|path_counters| path_counters.twice),
                25,
            );
            told.says_nothing_of(&["reordered", "duplicated_by_capture", "missing_in_capture"]);
            if sum(|path_counters| path_counters.overflowed) > 0 {
                never_says(&told, "in no queue");
            } else {
                never_says(&told, "a queue of about");
            }
        }
    });
}

/// Without its beginning a capture tells neither who opened the connection nor the scale of windows.
#[test]
fn begun_or_ended_in_the_middle() {
    steadily(|| {
        let road = need!(road("more_part", 120, losing(10)));
        let (near, distant) = need!(near_and_far(&road, &sending(3_000_000)));
        let lost = road.path_counters(Toward::Server).lost;
        for whole in [near, distant] {
            whole.counts("lost", lost, 15);
            let mut sum = 0;
            for (from, to) in [(0, 1), (1, 2), (2, 3), (1, 3)] {
                let told = part(&whole.file, from, to);
                let of_client = if told.connection["client"]["ip"] == "10.78.0.1" {
                    "forward"
                } else {
                    "backward"
                };
                let count = |name: &str| told.number(&format!("/{of_client}/opinions/{name}"));
                sum += if to - from == 1 { count("lost") } else { 0 };
                // What was in flight when the capture began is not missing in it.
                let others = ["missing_in_capture", "duplicated_by_network", "reordered"];
                told.says_nothing_of(&others);
                says(&told, "losses");
                if from > 0 {
                    never_says(&told, "the client");
                    never_says(&told, "the peer's window would have held");
                }
            }
            // A few are lost at one side of a cut and sent again at the other.
            assert!(sum <= lost + 2 && sum + 12 >= lost, "{sum} of {lost}: {whole:?}");
        }
    });
}

#[test]
fn a_window_of_unknown_scale() {
    steadily(|| {
        let road = need!(road("more_scale", 121, after(10)));
        let plan = Plan {
            receive_buffer: Some(16_384),
            ..sending(600_000)
        };
        let (near, distant) = need!(near_and_far(&road, &plan));
        for whole in [near, distant] {
            assert_eq!(whole.limit(), "receiver_window", "{whole:?}");
            let segs = whole.number("/forward/verdict/window_segs");
            assert!((8..=16).contains(&segs), "{whole:?}");
            for told in [
                part(&whole.file, 1, 3),
                shortened(&whole.file, 54),
                shortened(&whole.file, 40),
            ] {
                never_says(&told, "would have held");
                never_says(&told, "the program there reads too slowly");
                says(&told, "whose scale was not captured");
                told.says_nothing_of(NOTHING);
            }
        }
    });
}

/// All that TCP's fixed header tells is told of what is cut short.
#[test]
fn cut_short() {
    steadily(|| {
        for there in [after(10), losing(15), queue()] {
            let road = need!(road("more_snap", 122, there));
            let (near, distant) = need!(near_and_far(&road, &sending(2_000_000)));
            let path_counters = road.path_counters(Toward::Server);
            for whole in [near, distant] {
                for snaplen in [64, 54, 40] {
                    let told = shortened(&whole.file, snaplen);
                    told.counts("lost", path_counters.lost + path_counters.overflowed, 20);
                    told.says_nothing_of(&["duplicated_by_network", "missing_in_capture"]);
                    assert_eq!(told.text("ending"), "closed", "{told:?}");
                    // The window of a SYN is none whose scale is not known.
                    never_says(&told, "would have held 45");
                    never_says(&told, "reads too slowly");
                }
            }
        }
    });
}

#[test]
fn bbr() {
    steadily(|| {
        let with = |there, plan: Plan| {
            let road = road("more_bbr", 130, there)?;
            road.told(&Plan {
                congestion: "bbr",
                ..plan
            })
        };
        let stalled = need!(with(
            after(10),
            Plan {
                receive_buffer: Some(65_536),
                stall: 1500 * MS,
                ..sending(600_000)
            }
        ));
        says(&stalled, "its window was closed");
        stalled.says_nothing_of(&["lost", "reordered"]);
        let paused = need!(with(
            after(10),
            Plan {
                write: Some((50_000, 300 * MS)),
                ..sending(500_000)
            }
        ));
        says(&paused, "the client had nothing to send");
        paused.says_nothing_of(NOTHING);
        let lossy = need!(with(losing(15), sending(2_000_000)));
        lossy.counts("lost", lossy.fate_there.lost, 15);
        never_says(&lossy, "a queue of about");
        lossy.says_nothing_of(&["reordered", "duplicated_by_network"]);
    });
}

#[test]
fn idle_with_keep_alives() {
    steadily(|| {
        let road = need!(road("more_idle", 140, after(10)));
        let capture = need!(road.capture(Toward::Client));
        let (mut client, mut server) = road.connected(&Plan::default());
        sockopt::set_socket_keepalive(&client, true).unwrap();
        sockopt::set_tcp_keepidle(&client, 1000 * MS).unwrap();
        sockopt::set_tcp_keepintvl(&client, 1000 * MS).unwrap();
        client.write_all(&[1; 300]).unwrap();
        server.read_exact(&mut [0; 300]).unwrap();
        // Time is what is tested: four keep-alives.
        std::thread::sleep(4500 * MS);
        let told = capture.finish();
        told.agrees_with_tshark();
        told.says_nothing_of(NOTHING);
        says(&told, "the client had nothing to send");
        assert_eq!(told.text("ending"), "open", "{told:?}");
        let keep_alives = part(&told.file, 2, 3);
        keep_alives.says_nothing_of(NOTHING);
        assert_eq!(keep_alives.verdict(), "No data was sent.", "{keep_alives:?}");
    });
}

#[test]
fn reset_in_the_middle() {
    steadily(|| {
        for (seed, by_client, loss_permille) in
            [(150, true, 0), (151, false, 0), (152, true, 20), (153, false, 20)]
        {
            let there = Impairment {
                loss_permille,
                ..endless(1_000_000)
            };
            let road = need!(road("more_reset", seed, there));
            let capture = need!(road.capture(Toward::Client));
            let (mut client, mut server) = road.connected(&Plan::default());
            std::thread::scope(|scope| {
                let mut writer = client.try_clone().unwrap();
                scope.spawn(move || while writer.write_all(&[7; 50_000]).is_ok() {});
                let mut buffer = vec![0; 65_536];
                let mut arrived = 0;
                while arrived < 500_000 {
                    arrived += server.read(&mut buffer).unwrap();
                }
                if by_client {
                    rustix::net::connect_unspec(&client).unwrap();
                    while server.read(&mut buffer).is_ok_and(|len| len > 0) {}
                } else {
                    drop(server);
                }
                let _ = client.read(&mut [0]);
            });
            let told = capture.finish();
            told.agrees_with_tshark();
            let (ending, words) = if by_client {
                ("reset_by_client", "Reset by the client.")
            } else {
                ("reset_by_server", "Reset by the server.")
            };
            assert_eq!(told.text("ending"), ending, "{told:?}");
            says(&told, words);
            // What was lost at the very end is not sent again.
            assert!(
                told.opinion("lost") <= road.path_counters(Toward::Server).lost,
                "{told:?}"
            );
            told.says_nothing_of(&["reordered", "duplicated_by_network"]);
        }
    });
}

#[test]
fn one_of_several_is_bad() {
    steadily(|| {
        // Those to the router pass the first middlebox only.
        let chain = need!(Chain::new("more_many", 160, after(5), losing(20)));
        let capture = need!(chain.road.capture(Toward::Client));
        let good: Vec<(TcpStream, TcpStream)> = (0..4)
            .map(|_| {
                let listener = chain.router.run(|| TcpListener::bind("10.78.0.2:0").unwrap());
                let address = listener.local_addr().unwrap();
                let client = chain.road.client.run(|| TcpStream::connect(address).unwrap());
                (client, listener.accept().unwrap().0)
            })
            .collect();
        std::thread::scope(|scope| {
            for (mut client, mut server) in good {
                scope.spawn(move || {
                    client.write_all(&vec![7; 400_000]).unwrap();
                    client.shutdown(std::net::Shutdown::Write).unwrap();
                    let _ = client.read(&mut [0]);
                });
                scope.spawn(move || while server.read(&mut [0; 65_536]).is_ok_and(|len| len > 0) {});
            }
            chain.road.transfer(&sending(1_000_000));
        });
        let lost = chain.beyond.path_counters(Toward::Server).lost;
        let json = road::json(&["analyze", &capture.stop(), "--format", "json"]);
        let connections = json["connections"].as_array().unwrap();
        assert_eq!(connections.len(), 5);
        for connection in connections {
            let found = connection["forward"]["opinions"]["lost"].as_u64().unwrap();
            let is_bad = connection["server"]["ip"] == "10.78.1.2";
            let expected = if is_bad { lost } else { 0 };
            assert!(found.abs_diff(expected) <= lost / 5, "{connection}");
            assert_eq!(found == 0, !is_bad, "{connection}");
        }
    });
}

#[test]
fn both_directions_carry_data() {
    steadily(|| {
        for (there, back, words) in [
            (losing(15), after(10), Some("From the client to the server: ")),
            (after(10), losing(15), Some("From the server to the client: ")),
            (after(10), queue(), Some("From the server to the client: ")),
            (after(10), after(10), None),
        ] {
            let road = need!(Road::new("more_both", 170));
            road.set(Toward::Server, there);
            road.set(Toward::Client, back);
            let near = need!(road.capture(Toward::Client));
            let distant = need!(road.capture(Toward::Server));
            let (client, server) = road.connected(&Plan::default());
            std::thread::scope(|scope| {
                for end in [&client, &server] {
                    scope.spawn(move || {
                        let mut end = end;
                        end.write_all(&vec![3; 1_500_000]).unwrap();
                    });
                    scope.spawn(move || {
                        let mut end = end;
                        let (mut buffer, mut arrived) = (vec![0; 65_536], 0);
                        while arrived < 1_500_000 {
                            arrived += end.read(&mut buffer).unwrap();
                        }
                    });
                }
            });
            drop((client, server));
            for told in [near.finish(), distant.finish()] {
                never_says(&told, "took turns");
                if let Some(words) = words {
                    says(&told, words);
                    says(&told, "losses");
                } else {
                    told.says_nothing_of(&["lost", "reordered", "duplicated_by_network"]);
                }
            }
        }
    });
}

/// What is so late that it is sent again came late all the same: nothing is lost, and nothing delivered twice.
#[test]
fn late_by_more_than_a_round_trip() {
    steadily(|| {
        for delay_ms in [1, 10] {
            let road = need!(road(
                "more_late",
                180,
                Impairment {
                    delay: delay_ms * MS,
                    ..late(30)
                }
            ));
            let (near, distant) = need!(near_and_far(&road, &sending(2_000_000)));
            let path_counters = road.path_counters(Toward::Server);
            for told in [near, distant] {
                told.agrees_with_tshark();
                told.counts("reordered", path_counters.late, 30);
                told.says_nothing_of(&["lost", "duplicated_by_network", "missing_in_capture"]);
                says(&told, "nothing was lost, but segments came late");
                never_says(&told, "the path loses packets");
            }
        }
    });
}

#[test]
fn late_by_little() {
    steadily(|| {
        let road = need!(road("more_little", 181, late(3)));
        let (near, distant) = need!(near_and_far(&road, &sending(2_000_000)));
        let path_counters = road.path_counters(Toward::Server);
        for told in [near, distant] {
            told.counts("reordered", path_counters.late, 35);
            assert!(told.opinion("reordered") <= path_counters.late, "{told:?}");
            told.says_nothing_of(&["lost", "duplicated_by_network", "missing_in_capture"]);
        }
    });
}

#[test]
fn a_window_changed_on_its_way() {
    steadily(|| {
        // Windows are shifted by 10 bits on machines with so much memory.
        let road = need!(Road::new("more_win", 190));
        road.set(Toward::Server, after(10));
        let back = Impairment {
            window_permille: 1000,
            window: 8,
            ..after(10)
        };
        road.set(Toward::Client, back);
        let (near, distant) = need!(near_and_far(&road, &sending(200_000)));
        assert_eq!(near.limit(), "receiver_window", "{near:?}");
        let scale = near.number("/backward/window_scale");
        let truth = (8 << scale) / 1448;
        let segs = near.number("/forward/verdict/window_segs");
        assert!(segs.abs_diff(truth) <= 1, "{segs} {truth} {near:?}");
        near.says_nothing_of(NOTHING);
        // There the window that the sender sees does not show.
        distant.says_nothing_of(NOTHING);
        says(&distant, "smaller than");
    });
}

#[test]
fn acknowledgements_are_lost() {
    steadily(|| {
        for there in [after(10), endless(1_000_000)] {
            let road = need!(road("more_acks", 191, there));
            road.set(Toward::Client, losing(200));
            let (near, distant) = need!(near_and_far(&road, &sending(2_000_000)));
            for told in [near, distant] {
                told.says_nothing_of(&["lost", "reordered", "duplicated_by_network", "missing_in_capture"]);
                never_says(&told, "queue");
            }
        }
    });
}

#[test]
fn an_outage() {
    steadily(|| {
        for (ms, is_long) in [(500, false), (2000, true)] {
            let road = need!(road("more_out", 200, endless(1_000_000)));
            let near = need!(road.capture(Toward::Client));
            let distant = need!(road.capture(Toward::Server));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Time is what is tested: when the outage begins and how long it lasts.
                    std::thread::sleep(700 * MS);
                    road.set_both(losing(1000));
                    std::thread::sleep(ms * MS);
                    road.set(Toward::Server, endless(1_000_000));
                    road.set(Toward::Client, after(10));
                });
                road.transfer(&sending(2_000_000));
            });
            let lost = road.path_counters(Toward::Server).lost;
            let (near, distant) = (near.finish(), distant.finish());
            near.agrees_with_tshark();
            near.says_nothing_of(&["reordered", "duplicated_by_network", "missing_in_capture"]);
            says(&near, "With data in flight nothing came back for ");
            assert!(near.opinion("timeouts") >= 1, "{near:?}");
            for told in [&near, &distant] {
                assert!(told.opinion("lost") <= lost, "{lost} {told:?}");
                never_says(told, "a queue of about");
            }
            assert!(!is_long || near.opinion("timeouts") >= 2, "{near:?}");
        }
    });
}

#[test]
fn programs_that_wait() {
    steadily(|| {
        let stall = Plan {
            stall: 2000 * MS,
            ..sending(3_000_000)
        };
        let road = need!(road("more_wait", 210, after(10)));
        let (near, distant) = need!(near_and_far(&road, &stall));
        for told in [near, distant] {
            assert_eq!(told.limit(), "receiver_window", "{told:?}");
            says(&told, "its window was closed once");
            told.says_nothing_of(&["lost", "reordered", "duplicated_by_network"]);
        }
        let pauses = Plan {
            write: Some((100_000, 1000 * MS)),
            ..sending(400_000)
        };
        let (near, distant) = need!(near_and_far(&road, &pauses));
        for told in [near, distant] {
            says(&told, "the client had nothing to send");
            told.says_nothing_of(NOTHING);
        }
    });
}

/// Through the kernel's own shaper, over a link that carries segments put together.
#[test]
fn bulk_through_a_shaper() {
    steadily(|| {
        let mut road = need!(Road::new("more_tbf", 220));
        let link = road.lab.link(&road.client, &road.server);
        road.address = link.server_addresses().0;
        let (near, distant) = link.devices();
        let shaper = "qdisc add dev DEV root tbf rate 16mbit burst 5000 limit 200000";
        let words: Vec<&str> = shaper
            .split(' ')
            .map(|word| if word == "DEV" { near } else { word })
            .collect();
        road.client.output("tc", &words);
        let captures = [(&road.client, near), (&road.server, distant)];
        let [near, distant] = captures.map(|(namespace, device)| road.capture_on(namespace, device, 100));
        let (near, distant) = (need!(near), need!(distant));
        road.transfer(&sending(4_000_000));
        for told in [near.finish(), distant.finish()] {
            told.agrees_with_tshark();
            // All of it had been written before most of it was sent.
            never_says(&told, "had nothing to send");
            told.says_nothing_of(&["reordered", "duplicated_by_network", "missing_in_capture"]);
        }
    });
}

#[test]
fn segments_put_together() {
    steadily(|| {
        let mut road = need!(Road::new("more_veth", 230));
        let link = road.lab.link(&road.client, &road.server);
        road.address = link.server_addresses().0;
        let (near, distant) = link.devices();
        for (plan, limit) in [
            (
                Plan {
                    receive_buffer: Some(65_536),
                    read: Some((20_000, 10 * MS)),
                    ..sending(2_000_000)
                },
                "receiver_window",
            ),
            (
                Plan {
                    write: Some((100_000, 100 * MS)),
                    ..sending(800_000)
                },
                "application",
            ),
        ] {
            let captures = [(&road.client, near), (&road.server, distant)];
            let [near, distant] = captures.map(|(namespace, device)| road.capture_on(namespace, device, 100));
            let (near, distant) = (need!(near), need!(distant));
            road.transfer(&plan);
            for told in [near.finish(), distant.finish()] {
                told.agrees_with_tshark();
                assert_eq!(told.limit(), limit, "{told:?}");
                assert!(told.number("/forward/longest_segment_bytes") > 1_500, "{told:?}");
                told.says_nothing_of(&["lost", "reordered", "duplicated_by_network", "missing_in_capture"]);
            }
        }
    });
}

#[test]
fn it_ends_before_an_answer_can_come() {
    steadily(|| {
        let road = need!(Road::new("more_syn", 240));
        road.set_both(losing(1000));
        let capture = need!(road.capture(Toward::Client));
        let (_listener, address) = road.listener();
        road.client
            .run(|| TcpStream::connect_timeout(&address, 100 * MS).unwrap_err());
        let told = capture.finish();
        assert_eq!(told.text("ending"), "unanswered", "{told:?}");
        says(&told, "or the capture ended before an answer could come");
    });
}

/// Between which two, how many, and how long it takes.
#[test]
fn both_ends_of_a_tiny_queue() {
    steadily(|| {
        let road = need!(road("more_ends", 250, queue()));
        let near = need!(road.capture(Toward::Client));
        let distant = need!(road.capture(Toward::Server));
        road.transfer(&sending(1_500_000));
        let (near, distant) = (near.stop(), distant.stop());
        let lost = road.path_counters(Toward::Server).overflowed;
        for pair in [[&near, &distant], [&distant, &near]] {
            let text = road::output(&["analyze", pair[0], pair[1]]).replace("\n    ", " ");
            let words = format!("{lost} segments lost between {near} and {distant}");
            assert!(text.contains(&words), "{words}: {text}");
            let words = format!("Nothing was lost between {distant} and {near}");
            assert!(text.contains(&words), "{words}: {text}");
            assert!(text.contains("are between them and"), "{text}");
        }
    });
}

/// Whatever the queue, the rate and the delay: its length, or that it cannot be told, but nothing else.
#[test]
fn queues() {
    steadily(|| {
        for (queue, mbit, ms) in [
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
            let road = need!(Road::new("more_queues", 300 + queue));
            let there = Impairment {
                bytes_per_s: mbit * 125_000,
                queue_bytes: queue * 1500,
                ..after(ms / 2)
            };
            road.set(Toward::Server, there);
            road.set(Toward::Client, after(ms - ms / 2));
            let bytes = (mbit as usize * 125_000 * 4).clamp(500_000, 4_000_000);
            let told = need!(road.told(&sending(bytes)));
            told.counts("lost", told.fate_there.overflowed, 10);
            told.says_nothing_of(&["reordered", "duplicated_by_network", "missing_in_capture"]);
            never_says(&told, "in no queue");
            let verdict = &told.connection["forward"]["verdict"];
            let bounds = ["queue_segs_min", "queue_segs_max"].map(|name| verdict[name].as_u64());
            if let [Some(least), Some(most)] = bounds {
                assert!(
                    least <= queue + 2 && (queue.saturating_sub(3)..=queue + 3).contains(&most),
                    "{queue}: {told:?}"
                );
            } else {
                assert!(
                    queue * mbit * u64::from(ms) > 1_000,
                    "{queue} {mbit} {ms}: {told:?}"
                );
            }
        }
    });
}
