//! `sockeye analyze` prints the same bytes with any number of threads, also of captures that are damaged, cut or made to confuse it.

use super::analyze_files::Folder;
use crate::fixtures::binary;
use sockeye_wire::packet::{LinkType, pcapng};
use std::fs;
use std::path::{Path, PathBuf};

/// Numbers that look random, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

fn ipv4(
    protocol: u8,
    source: [u8; 4],
    destination: [u8; 4],
    id: u16,
    fragment: u16,
    payload: &[u8],
) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(source);
    packet.extend(destination);
    packet.extend(payload);
    packet
}

fn ipv6(source: u8, destination: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([6, 64]);
    for host in [source, destination] {
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    packet.extend(payload);
    packet
}

fn tcp(ports: [u16; 2], sequence: u32, acknowledgement: u32, flags: u8, data_len: usize) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(ports[0].to_be_bytes());
    segment.extend(ports[1].to_be_bytes());
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledgement.to_be_bytes());
    segment.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    segment.resize(20 + data_len, 0);
    segment
}

/// A DNS answer: `web.example` is 10.0.0.`host`.
fn dns(client: [u8; 4], host: u8) -> Vec<u8> {
    let name = b"\x03web\x07example\x00";
    let mut message = vec![0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    message.extend(name);
    message.extend([
        0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, host,
    ]);
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(name);
    query.extend([0, 1, 0, 1]);
    let datagram = |ports: [u16; 2], payload: &[u8]| {
        let mut bytes = Vec::new();
        bytes.extend(ports[0].to_be_bytes());
        bytes.extend(ports[1].to_be_bytes());
        bytes.extend((8 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(payload);
        bytes
    };
    let server = [10, 0, 0, 53];
    let mut both = ipv4(17, client, server, 0, 0, &datagram([5_000, 53], &query));
    both.extend(ipv4(17, server, client, 0, 0, &datagram([53, 5_000], &message)));
    both
}

/// Whole connections, random segments, half-open connections, fragments, name lookups, ICMP errors and comments, in this order or any
/// other.
fn confusing(seed: u64, packets: usize) -> Vec<u8> {
    let mut chance = Chance(seed);
    let mut bytes = Vec::new();
    pcapng::section(&mut bytes, &pcapng::Section::default());
    pcapng::interface(
        &mut bytes,
        &pcapng::Interface {
            name: Some("any0"),
            ..pcapng::Interface::new(LinkType::RAW, 0)
        },
    );
    let mut time_ns = 1_700_000_000_000_000_000_u64;
    let mut written = 0;
    while written < packets {
        time_ns += chance.below(2_000_000);
        if chance.one_in(500) {
            time_ns -= 500_000_000;
        }
        let client = [10, 0, 1, chance.below(4) as u8];
        let server = [10, 0, 0, 1 + chance.below(3) as u8];
        let ports = [
            40_000 + chance.below(900) as u16,
            [80, 443, 5_000][chance.below(3) as usize],
        ];
        let back = [ports[1], ports[0]];
        let number = chance.below(5_000) as u32;
        let id = chance.below(1 << 16) as u16;
        let plain = |from, to, segment: &[u8]| ipv4(6, from, to, id, 0x4000, segment);
        let group: Vec<Vec<u8>> = match chance.below(12) {
            0..=3 => vec![
                plain(client, server, &tcp(ports, number, 0, 2, 0)),
                plain(server, client, &tcp(back, 900, number + 1, 0x12, 0)),
                plain(client, server, &tcp(ports, number + 1, 901, 0x18, 300)),
                plain(server, client, &tcp(back, 901, number + 301, 0x18, 1_000)),
                plain(client, server, &tcp(ports, number + 301, 1_901, 0x11, 0)),
                plain(server, client, &tcp(back, 1_901, number + 302, 0x11, 0)),
                plain(client, server, &tcp(ports, number + 302, 1_902, 0x10, 0)),
            ],
            4 => vec![plain(client, server, &tcp(ports, number, 0, 2, 0)); 1 + chance.below(3) as usize],
            5 => vec![
                plain(client, server, &tcp(ports, number, 0, 2, 0)),
                plain(server, client, &tcp(back, 900, number + 1, 0x12, 0)),
                plain(server, client, &tcp(back, 900, number + 1, 0x12, 0)),
            ],
            6 => {
                let whole = tcp(ports, number, 901, 0x18, 1_000);
                vec![
                    ipv4(6, client, server, id, 0x2000, &whole[..504]),
                    ipv4(6, client, server, id, 63, &whole[504..]),
                ]
            }
            7 => {
                let both = dns(client, server[3]);
                let query_len = 20 + 8 + 12 + 13 + 4;
                vec![both[..query_len].to_vec(), both[query_len..].to_vec()]
            }
            8 => {
                let mut error = vec![3, chance.below(4) as u8, 0, 0, 0, 0, 0, 0];
                error.extend(plain(client, server, &tcp(ports, number, 0, 2, 0)));
                vec![ipv4(1, [10, 0, 0, 254], client, 0, 0, &error)]
            }
            9 => vec![ipv6(1, 2, &tcp(ports, number, 5, chance.below(64) as u8, 40))],
            10 => vec![plain(
                server,
                client,
                &tcp(back, number, 7, chance.below(64) as u8, 100),
            )],
            _ => vec![vec![0x45, 1, 2], vec![0xff; 30]],
        };
        for packet in group {
            time_ns += chance.below(100_000);
            let comment = chance
                .one_in(40)
                .then(|| format!("sent by curl({})", chance.below(9)));
            let record = pcapng::Packet {
                comment: comment.as_deref(),
                ..pcapng::Packet::new(0, time_ns, &packet)
            };
            pcapng::packet(&mut bytes, &record);
            written += 1;
        }
    }
    bytes
}

/// The output without the times at which it was made: `2026-11-26T14:29:41.562821Z`.
fn without_clock(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let is_time = |word: &str| word.starts_with("20") && word.ends_with('Z') && word.contains('T');
    let words = text.split_inclusive([',', '"', '\n']);
    words
        .filter(|word| !is_time(word.trim_start().trim_end_matches([',', '"'])))
        .collect()
}

#[track_caller]
fn check(files: &[&Path], arguments: &[&str]) {
    let run = |threads: &str| {
        let mut command = binary::command();
        command
            .arg("analyze")
            .args(files)
            .args(arguments)
            .args(["--jobs", threads]);
        let outcome = binary::run(&mut command);
        outcome.no_panic();
        (
            outcome.code,
            without_clock(&outcome.stdout),
            without_clock(&outcome.stderr),
        )
    };
    let one = run("1");
    for threads in ["2", "3", "8"] {
        let more = run(threads);
        assert_eq!(one.0, more.0, "{files:?} {arguments:?}");
        assert!(
            one.1 == more.1 && one.2 == more.2,
            "{files:?} {arguments:?} with {threads} threads:\n{}\n{}",
            first_difference(&one.1, &more.1),
            first_difference(&one.2, &more.2)
        );
    }
    assert!(!one.1.is_empty() || !one.2.is_empty());
}

fn first_difference(one: &str, other: &str) -> String {
    let lines = one.lines().zip(other.lines());
    let different = lines.into_iter().find(|(one, other)| one != other);
    different.map_or_else(
        || format!("lengths {} and {}", one.len(), other.len()),
        |(one, other)| format!("{one}\n{other}"),
    )
}

const FORMATS: [&[&str]; 7] = [
    &[],
    &["-v", "--top", "0"],
    &["--format", "json"],
    &["--format", "jsonl"],
    &["--format", "csv"],
    &["--flags"],
    &["--flags", "--format", "jsonl"],
];

#[test]
fn generated_captures_give_the_same_bytes() {
    let folder = Folder::new("an_threads");
    let path = folder.join("confusing.pcapng");
    for seed in [3, 4] {
        fs::write(&path, confusing(seed, 12_000)).unwrap();
        for arguments in FORMATS {
            check(&[&path], arguments);
        }
        check(&[&path], &["--format", "json", "dport", "=", ":443"]);
        check(&[&path], &["-v", "--connection", "100"]);
    }
    let other = folder.join("other.pcapng");
    fs::write(&other, confusing(5, 12_000)).unwrap();
    check(&[&path, &other], &["--format", "json"]);
}

#[test]
fn damaged_captures_give_the_same_bytes() {
    let folder = Folder::new("an_damaged");
    let whole = confusing(6, 6_000);
    let path = folder.join("damaged.pcapng");
    let mut chance = Chance(9);
    for _ in 0..12 {
        let mut bytes = whole.clone();
        match chance.below(3) {
            0 => bytes.truncate(chance.below(whole.len() as u64) as usize),
            1 => {
                for _ in 0..1 + chance.below(40) {
                    let at = chance.below(whole.len() as u64) as usize;
                    bytes[at] = chance.below(256) as u8;
                }
            }
            _ => {
                let at = chance.below(whole.len() as u64) as usize;
                let len = bytes.len();
                bytes.copy_within(0..len - at, at);
            }
        }
        fs::write(&path, bytes).unwrap();
        check(&[&path], &["--format", "jsonl"]);
        check(&[&path], &["--flags"]);
    }
}

#[test]
fn captures_of_the_repository_give_the_same_bytes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files: Vec<PathBuf> = ["testdata/captures", "samples"]
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".pcap"))
        .collect();
    files.sort();
    assert!(files.len() > 10);
    for file in &files {
        for arguments in FORMATS {
            check(&[file], arguments);
        }
    }
    let sides = ["samples/sender.pcapng", "samples/receiver.pcapng"].map(|name| root.join(name));
    for arguments in &FORMATS[..5] {
        check(&[&sides[0], &sides[1]], arguments);
    }
}
