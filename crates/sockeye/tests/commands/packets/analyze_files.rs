//! `sockeye analyze` on files: what it writes follows its schema and loses nothing, what the capture itself knows is told, and
//! what is no capture, or a hostile one, gets an answer within bounds.

use crate::fixtures::binary::{SOCKEYE, clean, wait_for_sigint_handler};
use jsonschema::{Draft, JSONSchema};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sockeye_lab::wait_until;
use sockeye_wire::packet::{LinkType, pcap, pcapng};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCHEMA: &str = include_str!("../../../../../docs/schema/analyze.schema.json");

#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    error: String,
}

/// At most this much address space, in KiB.
const ROOM: &str = "500000";

/// Runs it with little memory.
#[track_caller]
fn analyze(words: &[&str]) -> Said {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("ulimit -v {ROOM}; exec \"$0\" analyze \"$@\""),
        SOCKEYE,
    ]);
    clean(&mut command);
    let out = command.args(words).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Said {
        code: out.status.code(),
        out: text(&out.stdout),
        error: text(&out.stderr),
    }
}

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".pcap"))
        .collect();
    files.sort();
    assert!(files.len() > 5);
    files
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sockeye-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compiled(schema: &Value) -> JSONSchema {
    JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(schema)
        .unwrap()
}

#[track_caller]
fn check(schema: &JSONSchema, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap();
    // A key that is there twice would be lost here.
    assert_eq!(
        value.to_string().len(),
        text.trim_end().len(),
        "written twice: {text}"
    );
    if let Err(errors) = schema.validate(&value) {
        let errors: Vec<_> = errors
            .map(|error| format!("{error} at {}", error.instance_path))
            .collect();
        panic!("{}", errors.join("\n"));
    }
    value
}

#[test]
fn each_form_follows_its_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let of = |name: &str| compiled(&json!({"$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"]}));
    let (whole, connection, segment) = (compiled(&schema), of("connection"), of("segment"));
    let (way, last) = (of("way"), of("summary_line"));
    for file in captures() {
        let file = file.to_str().unwrap();
        let document = check(&whole, &analyze(&[file, "--format", "json"]).out);
        let rows = analyze(&[file, "--format", "jsonl"]).out;
        let mut rows: Vec<&str> = rows.lines().collect();
        let summary = check(&last, rows.pop().unwrap());
        let rows: Vec<Value> = rows.into_iter().map(|row| check(&connection, row)).collect();
        assert_eq!(document["connections"].as_array().unwrap(), &rows);
        assert_eq!(document["packets"], summary["summary"]["packets"]);

        let flagged = check(&whole, &analyze(&[file, "--flags", "--format", "json"]).out);
        let lines = analyze(&[file, "--flags", "--format", "jsonl"]).out;
        let mut lines: Vec<&str> = lines.lines().collect();
        check(&last, lines.pop().unwrap());
        let lines: Vec<Value> = lines.into_iter().map(|line| check(&segment, line)).collect();
        assert_eq!(flagged["flagged"].as_array().unwrap(), &lines);
        assert_eq!(flagged["segments"], document["segments"]);
        counts_agree(&rows, &lines);

        let both = check(&whole, &analyze(&[file, file, "--format", "json"]).out);
        let ways = analyze(&[file, file, "--format", "jsonl"]).out;
        let ways: Vec<Value> = ways.lines().map(|line| check(&way, line)).collect();
        assert_eq!(both["comparisons"][0]["ways"].as_array().unwrap(), &ways);
        for text in [
            analyze(&[file, "--format", "csv"]).out,
            analyze(&[file, "--flags", "--format", "csv"]).out,
            analyze(&[file, file, "--format", "csv"]).out,
        ] {
            // Verdicts are in quotes, and have commas.
            let columns = |line: &str| {
                line.split('"')
                    .step_by(2)
                    .map(|part| part.matches(',').count())
                    .sum::<usize>()
            };
            let mut counts: Vec<usize> = text.lines().map(columns).collect();
            counts.dedup();
            assert_eq!(counts.len(), 1, "as many columns in each line: {text}");
        }
    }
}

/// What is counted by connection is what is listed, and shares add up.
#[track_caller]
fn counts_agree(connections: &[Value], flagged: &[Value]) {
    for connection in connections {
        let number = &connection["number"];
        let sides = [&connection["forward"], &connection["backward"]];
        let counted =
            |flag: &str| -> u64 { sides.iter().filter_map(|side| side["flags"][flag].as_u64()).sum() };
        for flag in sockeye_trace::Flag::ALL {
            let name = flag.name();
            let listed = flagged
                .iter()
                .filter(|line| &line["connection"] == number)
                .filter(|line| line["flags"].as_array().unwrap().iter().any(|flag| flag == name));
            assert_eq!(counted(name), listed.count() as u64, "{name} of {connection}");
        }
        for side in sides {
            if let Some(shares) = side["shares_percent"].as_object() {
                let sum: u64 = shares.values().filter_map(Value::as_u64).sum();
                assert_eq!(sum, 100, "{connection}");
            }
        }
    }
}

/// Whatever the text says with -v is in the JSON: of a capture with everything in it, each key is somewhere.
#[test]
fn json_has_everything() {
    let mut keys: Vec<String> = Vec::new();
    for file in captures() {
        let document: Value =
            serde_json::from_str(&analyze(&[file.to_str().unwrap(), "--format", "json"]).out).unwrap();
        collect(&document, "", &mut keys);
    }
    let side = [
        "rtt/p50_ns",
        "rtt/p99_ns",
        "throughput_bit_per_s",
        "mss",
        "window_scale",
        "longest_segment_bytes",
        "in_flight_max_bytes",
        "shares_percent/application",
        "shares_ns/timeout",
        "flags/retransmission",
        "opinions/lost",
        "verdict/limit",
    ];
    let connection = [
        "handshake_ns",
        "sack",
        "timestamps",
        "ecn",
        "window_scaling",
        "completeness",
        "ending",
    ];
    let event = ["time_ns", "frame", "kind", "confidence", "evidence"];
    let wanted = side
        .iter()
        .map(|key| format!("/connections/forward/{key}"))
        .chain(connection.iter().map(|key| format!("/connections/{key}")))
        .chain(event.iter().map(|key| format!("/connections/events/{key}")));
    for key in wanted {
        assert!(keys.contains(&key), "no {key} in {keys:?}");
    }
}

fn collect(value: &Value, at: &str, keys: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                collect(value, &format!("{at}/{key}"), keys);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, at, keys)),
        _ if keys.iter().any(|key| key == at) => {}
        _ => keys.push(at.to_owned()),
    }
}

/// A SYN from this port, answered by nobody.
fn syn(port: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend(port.to_be_bytes());
    packet.extend([0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]);
    packet
}

#[test]
fn what_the_capture_knows() {
    let folder = Folder::new("an_knows");
    let file = folder.join("knows.pcapng");
    let mut bytes = Vec::new();
    pcapng::section(&mut bytes, &pcapng::Section::default());
    for name in ["tun0", "eth\u{1b}[31m1"] {
        let interface = pcapng::Interface {
            name: Some(name),
            ..pcapng::Interface::new(LinkType::RAW, 0)
        };
        pcapng::interface(&mut bytes, &interface);
    }
    for (nth, comment) in [
        Some("sent by cu\u{1b}[2Jrl(17)"),
        Some("for later reading"),
        None,
        Some("sent by a(1), for b(2), c(3)"),
    ]
    .into_iter()
    .enumerate()
    {
        let captured = syn(4_000 + nth as u16);
        let packet = pcapng::Packet {
            comment,
            ..pcapng::Packet::new(nth as u32 % 2, 1_000_000_000 + nth as u64, &captured)
        };
        pcapng::packet(&mut bytes, &packet);
    }
    let statistics = pcapng::Statistics {
        kernel_dropped: Some(5),
        interface_dropped: Some(2),
        ..pcapng::Statistics::default()
    };
    pcapng::statistics(&mut bytes, &statistics);
    fs::write(&file, &bytes).unwrap();
    let file = file.to_str().unwrap();

    let said = analyze(&[file]);
    assert!(
        said.out.contains("captured on tun0, eth\\x1b[31m1"),
        "{}",
        said.out
    );
    assert!(said.out.contains("client: cu\\x1b[2Jrl(17)\n"), "{}", said.out);
    assert!(
        said.out.contains("client: a(1)  server: b(2), c(3)\n"),
        "{}",
        said.out
    );
    assert_eq!(said.out.matches("client: ").count(), 2, "{}", said.out);
    assert!(
        said.error.contains("7 packets were lost while it was captured"),
        "{}",
        said.error
    );
    assert!(!format!("{}{}", said.out, said.error).contains('\u{1b}'));
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let out = analyze(&[file, "--format", "json"]).out;
    let document: Value = serde_json::from_str(&out).unwrap();
    assert!(compiled(&schema).is_valid(&document), "{document}");
    assert_eq!(document["dropped"], 7);
    assert_eq!(document["interfaces"][0], "tun0");
    let connections = document["connections"].as_array().unwrap();
    let owners: Vec<_> = connections
        .iter()
        .map(|one| one["client"]["owner"].as_str())
        .collect();
    assert_eq!(owners, [Some("cu\u{1b}[2Jrl(17)"), None, None, Some("a(1)")]);
    assert_eq!(connections[3]["server"]["owner"], "b(2), c(3)");
}

#[test]
fn no_captures() {
    let folder = Folder::new("an_none");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let check = |words: &[&str], code: i32, says: &str| {
        let said = analyze(words);
        assert!(
            said.code == Some(code) && said.error.contains(says),
            "{words:?}: {said:?}"
        );
        assert!(said.error.starts_with("sockeye: "), "{said:?}");
    };
    let (empty, text) = (file("empty", b""), file("notes.txt", b"dear diary"));
    let fine = file("one.pcap", &one_packet(40, 40));
    check(
        &["/nonexistent.pcap"],
        1,
        "cannot open /nonexistent.pcap: No such file",
    );
    check(&[folder.path().to_str().unwrap()], 1, "Is a directory");
    check(&[&empty], 1, "is empty: no capture");
    check(&[&text], 1, "no capture: it begins with 64 65 61 72");
    check(&["/dev/zero"], 1, "no capture");
    check(&["/dev/null"], 1, "is empty");
    check(&["-"], 1, "the standard input is empty");
    check(&["-", "-"], 2, "only once");
    check(&["src", "10.0.0.1"], 2, "a capture is wanted before the filter");
    check(&[&fine, "frobnicate"], 2, "there is no file \"frobnicate\"");
    check(&[&fine, "dport"], 2, "^");
    check(&[&fine, "other.pcapng"], 1, "cannot open other.pcapng");
    check(&[&fine, "state", "established"], 2, "no capture tells");
    check(&[&fine, &fine, "--flags"], 2, "for one capture");
    check(&[&fine, "--top", "x"], 2, "--top");
    check(
        &[&fine, "-c", "7"],
        1,
        "there is no connection 7: the capture has one, 0",
    );
    check(&[], 2, "required");
    // A file that is called like a word of filters.
    fs::copy(&fine, folder.join("src")).unwrap();
    assert_eq!(analyze(&[folder.join("src").to_str().unwrap()]).code, Some(0));
    let closed = format!("exec {SOCKEYE} analyze {fine} >&-");
    let status = Command::new("sh").args(["-c", &closed]).status().unwrap();
    assert!(status.code().is_some_and(|code| code < 2), "{status}");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = Command::new(SOCKEYE)
        .args(["analyze", &fine])
        .stdout(full)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

/// A pcap file with a SYN of which so much is claimed.
fn one_packet(captured: u32, original: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    pcap::header(&mut bytes, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    for number in [1, 0, captured, original] {
        bytes.extend(u32::to_le_bytes(number));
    }
    bytes.extend(syn(4_000));
    bytes
}

#[test]
fn hostile_captures() {
    let folder = Folder::new("an_evil");
    let path = folder.join("evil");
    let run = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        analyze(&[path.to_str().unwrap()])
    };
    let mut section = Vec::new();
    pcapng::section(&mut section, &pcapng::Section::default());

    let said = run(&one_packet(u32::MAX, u32::MAX));
    assert!(
        said.code == Some(1) && said.error.contains("is damaged"),
        "{said:?}"
    );
    let said = run(&one_packet(300_000, 300_000));
    assert!(
        said.code == Some(0) && said.error.contains("ends in the middle"),
        "{said:?}"
    );
    let said = run(&one_packet(40, u32::MAX));
    assert!(
        said.code == Some(0) && said.out.contains("1 connection"),
        "{said:?}"
    );
    // A block of 4 GiB: of packets, and of something that nobody knows.
    for (kind, code) in [(6_u32, 1), (0x55, 0)] {
        let mut bytes = section.clone();
        pcapng::interface(&mut bytes, &pcapng::Interface::new(LinkType::RAW, 0));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(0xffff_fffc_u32.to_le_bytes());
        bytes.extend([0; 100]);
        let said = run(&bytes);
        assert!(said.code == Some(code) && !said.error.is_empty(), "{said:?}");
    }
    // So many interfaces, and a packet of the last one.
    let mut bytes = section;
    for _ in 0..200_000 {
        pcapng::interface(&mut bytes, &pcapng::Interface::new(LinkType::RAW, 0));
    }
    pcapng::packet(&mut bytes, &pcapng::Packet::new(199_999, 1, &syn(1)));
    let said = run(&bytes);
    assert!(
        said.error.contains("interface that the file does not describe"),
        "{said:?}"
    );
    // Half a million connections of a SYN each.
    let mut bytes = Vec::new();
    pcap::header(&mut bytes, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    for number in 0..500_000_u32 {
        let mut packet = syn(number as u16);
        packet[15] = (number >> 16) as u8;
        let time_ns = u64::from(number) * 1_000;
        pcap::packet(&mut bytes, pcap::Resolution::Nanoseconds, time_ns, &packet, 40);
    }
    let said = run(&bytes);
    assert!(
        said.code == Some(0) && said.out.contains("500000 connections"),
        "{said:?}"
    );
    assert!(
        said.error
            .contains("concluded early, as there were too many at once"),
        "{said:?}"
    );
}

/// What is packed so tightly that it would fill any memory.
#[test]
fn packed_bombs() {
    let folder = Folder::new("an_bomb");
    let mut header = Vec::new();
    pcap::header(&mut header, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    for (packer, code, says) in [
        ("gzip -9", 0, "cut off before their TCP headers"),
        ("zstd -q -19", 0, "cut off before their TCP headers"),
        ("zstd -q --ultra -22 --long=31", 1, "zstd -dc --long=31"),
    ] {
        let path = folder.join("bomb");
        let Some(program) = packer
            .split(' ')
            .next()
            .filter(|name| sockeye_lab::program(name).is_ok())
        else {
            eprintln!("not tested: {packer}");
            continue;
        };
        let mut child = Command::new(program)
            .args(packer.split(' ').skip(1))
            .stdin(Stdio::piped())
            .stdout(fs::File::create(&path).unwrap())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&header).unwrap();
        // Packets of nothing; more than its window, or it would be cut to what there is.
        let zeros = vec![0; 1 << 20];
        for _ in 0..20 {
            stdin.write_all(&zeros).unwrap();
        }
        drop(stdin);
        child.wait().unwrap();
        let said = analyze(&[path.to_str().unwrap()]);
        assert!(
            said.code == Some(code) && said.error.contains(says),
            "{packer}: {said:?}"
        );
    }
}

/// ^C in a pipeline ends all of it; what was read is told, and what is missing is told too.
#[test]
fn interrupted() {
    let bytes = one_packet(40, 40);
    for (ends, code) in [(true, 0), (false, 130)] {
        let mut command = Command::new(SOCKEYE);
        clean(&mut command);
        let mut child = command
            .args(["analyze", "-", "--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&bytes).unwrap();
        // It is at work when it has the bytes; before that the signal would just end it.
        wait_for_sigint_handler(child.id());
        wait_until("the program reads the bytes", || {
            ioctl_fionread(&stdin).unwrap() == 0
        });
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::INT).unwrap();
        // The one before it writes its last packet and ends, or does not.
        let last = one_packet(40, 40);
        stdin.write_all(&last[24..]).unwrap();
        let kept = (!ends).then_some(stdin);
        let (mut out, mut error) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        let status = child.wait().unwrap();
        drop(kept);
        let document: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(status.code(), Some(code), "{error}");
        assert_eq!(document["packets"], 2, "{document}");
        assert_eq!(document["is_interrupted"], !ends, "{document}");
        assert_eq!(
            error.contains("interrupted: only the first 2 packets"),
            !ends,
            "{error}"
        );
    }
}
