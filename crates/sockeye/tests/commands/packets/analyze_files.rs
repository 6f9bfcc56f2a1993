//! `sockeye analyze` on capture files: the output follows its schema in each format, metadata of the capture is printed, and
//! invalid or hostile files are reported within bounded memory.

use super::schema;
use crate::fixtures::binary::{self, Outcome, SOCKEYE, clean, wait_for_sigint_handler};
use crate::fixtures::envelope::without_envelope;
use crate::fixtures::schema_file;
use crate::fixtures::terminal::Terminal;
use jsonschema::JSONSchema;
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sockeye_lab::wait_until;
use sockeye_wire::packet::{LinkType, pcap, pcapng};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Limit of the address space, in KiB.
const ADDRESS_SPACE_KIB: u32 = 500_000;

/// Runs `sockeye analyze` with limited memory.
#[track_caller]
fn analyze(arguments: &[&str]) -> Outcome {
    let script = format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" analyze \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, SOCKEYE]).args(arguments);
    clean(&mut command);
    binary::run(&mut command)
}

/// Returns the standard output of a successful `sockeye analyze`.
#[track_caller]
fn output_of(arguments: &[&str]) -> String {
    analyze(arguments).ok().to_owned()
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

/// A temporary folder, removed at the end of the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sockeye-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Parses a JSON text and validates it.
#[track_caller]
fn parse(schema: &JSONSchema, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap();
    // Parsing drops a duplicate key, which shortens the text.
    assert_eq!(
        value.to_string().len(),
        text.trim_end().len(),
        "a duplicate key: {text}"
    );
    schema::assert_valid(schema, &value);
    value
}

#[test]
fn each_format_follows_its_schema() {
    let text: Value = schema_file::load(schema::ANALYZE);
    let definition =
        |name: &str| schema::compile(&json!({"$ref": format!("#/$defs/{name}"), "$defs": text["$defs"]}));
    let (document_schema, connection) = (schema::compile(&text), definition("connection"));
    let (segment, direction, summary) = (
        definition("segment"),
        definition("path_direction"),
        definition("summary_line"),
    );
    for file in captures() {
        let file = file.to_str().unwrap();
        let document = parse(&document_schema, &output_of(&[file, "--format", "json"]));
        let lines = output_of(&[file, "--format", "jsonl"]);
        let mut lines: Vec<&str> = lines.lines().collect();
        let last_line = parse(&summary, lines.pop().unwrap());
        let rows: Vec<Value> = lines
            .into_iter()
            .map(|line| without_envelope(parse(&connection, line)))
            .collect();
        assert_eq!(document["connections"].as_array().unwrap(), &rows);
        assert_eq!(document["packets"], last_line["summary"]["packets"]);

        let flagged = parse(
            &document_schema,
            &output_of(&[file, "--flags", "--format", "json"]),
        );
        let lines = output_of(&[file, "--flags", "--format", "jsonl"]);
        let mut lines: Vec<&str> = lines.lines().collect();
        parse(&summary, lines.pop().unwrap());
        let segments: Vec<Value> = lines
            .into_iter()
            .map(|line| without_envelope(parse(&segment, line)))
            .collect();
        assert_eq!(flagged["flagged"].as_array().unwrap(), &segments);
        assert_eq!(flagged["segments"], document["segments"]);
        assert_counts_match(&rows, &segments);

        let both = parse(&document_schema, &output_of(&[file, file, "--format", "json"]));
        let lines = output_of(&[file, file, "--format", "jsonl"]);
        let mut lines: Vec<&str> = lines.lines().collect();
        parse(&summary, lines.pop().unwrap());
        let directions: Vec<Value> = lines
            .into_iter()
            .map(|line| without_envelope(parse(&direction, line)))
            .collect();
        assert_eq!(
            both["comparisons"][0]["directions"].as_array().unwrap(),
            &directions
        );
        for arguments in [&[file][..], &[file, "--flags"], &[file, file]] {
            let text = output_of(&[arguments, &["--format", "csv"]].concat());
            // Commas within quotes do not separate columns.
            let separators = |line: &str| {
                line.split('"')
                    .step_by(2)
                    .map(|part| part.matches(',').count())
                    .sum::<usize>()
            };
            let mut counts: Vec<usize> = text.lines().map(separators).collect();
            counts.dedup();
            assert_eq!(counts.len(), 1, "lines have different numbers of columns: {text}");
        }
    }
}

/// A SYN and its answer over raw IP.
fn handshake() -> [Vec<u8>; 2] {
    [(1, 2, 40_000_u16, 80_u16, 0x02), (2, 1, 80, 40_000, 0x12)].map(
        |(from, to, source, destination, flags)| {
            let mut packet = vec![
                0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to,
            ];
            packet.extend(source.to_be_bytes());
            packet.extend(destination.to_be_bytes());
            packet.extend([0, 0, 0, 7, 0, 0, 0, 8, 0x50, flags, 4, 0, 0, 0, 0, 0]);
            packet
        },
    )
}

#[test]
fn unsupported_link_type_is_named_and_counted() {
    let folder = Folder::new("links");
    let mut file = vec![];
    pcapng::section(&mut file, &pcapng::Section::default());
    for number in [LinkType::RAW.0, 189, 65_000] {
        pcapng::interface(&mut file, &pcapng::Interface::new(LinkType(number), 0));
    }
    for interface in [0, 1, 2, 1] {
        let packet = &handshake()[0];
        pcapng::packet(&mut file, &pcapng::Packet::new(interface, 1_000, packet));
    }
    let path = folder.join("links.pcapng");
    fs::write(&path, &file).unwrap();
    let path = path.to_str().unwrap();
    let outcome = analyze(&[path]);
    let notes = String::from_utf8_lossy(&outcome.stderr).into_owned();
    for note in [
        "2 packets have link type 189 (USB_LINUX), which is not supported",
        "1 packet has link type 65000, which is not supported",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
    assert!(!notes.contains("not of TCP"), "{notes}");
    let text: Value = schema_file::load(schema::ANALYZE);
    let document = parse(&schema::compile(&text), &output_of(&[path, "--format", "json"]));
    assert_eq!(
        document["unsupported_links"],
        json!([
            {"number": 189, "name": "USB_LINUX", "packets": 2},
            {"number": 65_000, "packets": 1},
        ])
    );
    assert_eq!(
        (&document["not_ip"], &document["segments"]),
        (&json!(0), &json!(1))
    );
}

#[test]
fn snoop_and_erf_files_are_analyzed() {
    let folder = Folder::new("formats");
    let mut snoop = b"snoop\0\0\0\0\0\0\x02\0\0\0\x04".to_vec();
    let mut erf = vec![];
    for (at, packet) in handshake().iter().enumerate() {
        let frame = [&[2; 12], &[8, 0][..], packet].concat();
        let len = frame.len() as u32;
        for word in [len, len, len + 24, 3, 1_700_000_000, at as u32] {
            snoop.extend(word.to_be_bytes());
        }
        snoop.extend(&frame);
        erf.extend([at as u8, 0, 0, 0]);
        erf.extend(1_700_000_000_u32.to_le_bytes());
        erf.extend([22, 4, 0, 56, 0, 0, 0, 40]);
        erf.extend(packet);
    }
    for (name, file, lost) in [("of.snoop", &snoop, json!(3)), ("of.erf", &erf, json!(0))] {
        let path = folder.join(name);
        fs::write(&path, file).unwrap();
        let output = output_of(&[path.to_str().unwrap(), "--format", "json"]);
        let document: Value = serde_json::from_str(&output).unwrap();
        assert_eq!(
            (&document["packets"], &document["segments"]),
            (&json!(2), &json!(2)),
            "{name}"
        );
        assert_eq!(document["dropped"], lost, "{name}");
        // Cut anywhere, it is read up to there, or refused.
        for len in 0..file.len() {
            fs::write(&path, &file[..len]).unwrap();
            let outcome = analyze(&[path.to_str().unwrap()]);
            assert!(
                matches!(outcome.code, Some(0..=2)),
                "{name}: {len}: {:?}",
                outcome.code
            );
        }
    }
}

/// Asserts that the flags of each connection are counted as often as segments have them, and that shares add up to 100 percent.
#[track_caller]
fn assert_counts_match(connections: &[Value], flagged: &[Value]) {
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

#[test]
fn json_of_all_captures_has_each_key() {
    let mut keys: Vec<String> = Vec::new();
    for file in captures() {
        let document = analyze(&[file.to_str().unwrap(), "--format", "json"]).json();
        collect_keys(&document, "", &mut keys);
    }
    let side = [
        "rtt/p50_ns",
        "rtt/p99_ns",
        "throughput_bit_per_s",
        "mss_bytes",
        "window_scale",
        "longest_segment_bytes",
        "in_flight_max_bytes",
        "shares_percent/application",
        "shares_ns/timeout",
        "flags/retransmission",
        "judgements/lost",
        "limited_by/limit",
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
    let expected = side
        .iter()
        .map(|key| format!("/connections/forward/{key}"))
        .chain(connection.iter().map(|key| format!("/connections/{key}")))
        .chain(event.iter().map(|key| format!("/connections/events/{key}")));
    for key in expected {
        assert!(keys.contains(&key), "no {key} in {keys:?}");
    }
}

/// Adds the path of each value to `keys`, without the indexes of arrays.
fn collect_keys(value: &Value, path: &str, keys: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                collect_keys(value, &format!("{path}/{key}"), keys);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect_keys(value, path, keys)),
        _ if keys.iter().any(|key| key == path) => {}
        _ => keys.push(path.to_owned()),
    }
}

/// A SYN from this port.
fn syn(port: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend(port.to_be_bytes());
    packet.extend([0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]);
    packet
}

#[test]
fn owners_interfaces_and_drops_of_a_pcapng_file_are_printed() {
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

    let outcome = analyze(&[file]);
    let text = outcome.ok();
    for expected in [
        "captured on tun0, eth\\x1b[31m1",
        "client: cu\\x1b[2Jrl(17)\n",
        "client: a(1)  server: b(2), c(3)\n",
    ] {
        assert!(text.contains(expected), "{expected}: {outcome}");
    }
    assert_eq!(text.matches("client: ").count(), 2, "{outcome}");
    assert!(
        outcome
            .error()
            .contains("7 packets were lost while it was captured"),
        "{outcome}"
    );
    assert!(!format!("{text}{}", outcome.error()).contains('\u{1b}'));
    let document = analyze(&[file, "--format", "json"]).json();
    schema::assert_valid(&schema::load(schema::ANALYZE), &document);
    assert_eq!(document["dropped"], 7);
    assert_eq!(document["interfaces"][0], "tun0");
    let connections = document["connections"].as_array().unwrap();
    let owners: Vec<_> = connections
        .iter()
        .map(|connection| &connection["client"]["owners"])
        .collect();
    let process = |comm, pid| serde_json::json!({ "comm": comm, "pid": pid });
    assert_eq!(*owners[0], serde_json::json!([process("cu\u{1b}[2Jrl", 17)]));
    assert!(owners[1].is_null() && owners[2].is_null());
    assert_eq!(*owners[3], serde_json::json!([process("a", 1)]));
    let server = serde_json::json!([process("b", 2), process("c", 3)]);
    assert_eq!(connections[3]["server"]["owners"], server);
}

#[test]
fn invalid_files_and_arguments_are_errors() {
    let folder = Folder::new("an_none");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let outcome = analyze(arguments);
        assert!(
            outcome.code == Some(code) && outcome.error().contains(expected),
            "{arguments:?}: {outcome}"
        );
        assert!(outcome.error().starts_with("sockeye: "), "{outcome}");
        outcome.no_panic();
    };
    let (empty, text) = (file("empty", b""), file("notes.txt", b"plain text"));
    let valid = file("one.pcap", &one_packet(40, 40));
    check(
        &["/nonexistent.pcap"],
        1,
        "cannot open /nonexistent.pcap: No such file",
    );
    check(&[folder.path().to_str().unwrap()], 1, "Is a directory");
    check(&[&empty], 1, "is empty: no capture");
    check(&[&text], 1, "no capture: it begins with 70 6c 61 69");
    check(&["/dev/zero"], 1, "no capture");
    check(&["/dev/null"], 1, "is empty");
    check(&["-"], 1, "the standard input is empty");
    check(&["-", "-"], 2, "only once");
    for name in ["analyze", "graph"] {
        let terminal = Terminal::new(80);
        let mut command = binary::command();
        let output = command
            .args([name, "-"])
            .stdin(terminal.stdio())
            .output()
            .unwrap();
        let outcome = Outcome::from(output);
        assert!(
            outcome.failed(2).contains(&format!("| sockeye {name} -\n")),
            "{outcome}"
        );
    }
    check(&["src", "10.0.0.1"], 2, "a capture is wanted before the filter");
    check(&[&valid, "frobnicate"], 2, "there is no file \"frobnicate\"");
    check(&[&valid, "dport"], 2, "^");
    check(&[&valid, "other.pcapng"], 1, "cannot open other.pcapng");
    check(&[&valid, "state", "established"], 2, "'state established'");
    check(&[&valid, &valid, "--flags"], 2, "for one capture");
    check(&[&valid, "--top", "x"], 2, "--top");
    check(
        &[&valid, "--connection", "7"],
        1,
        "there is no connection 7: the capture has one, 0",
    );
    check(&[], 2, "required");
    // A file with the name of a filter keyword.
    fs::copy(&valid, folder.join("src")).unwrap();
    assert_eq!(analyze(&[folder.join("src").to_str().unwrap()]).code, Some(0));
    let closed = format!("exec {SOCKEYE} analyze {valid} >&-");
    let status = Command::new("sh").args(["-c", &closed]).status().unwrap();
    assert!(status.code().is_some_and(|code| code < 2), "{status}");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = Command::new(SOCKEYE)
        .args(["analyze", &valid])
        .stdout(full)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

/// A pcap file with one SYN, and these lengths in its record header.
fn one_packet(captured_len: u32, original_len: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    pcap::header(&mut bytes, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    for number in [1, 0, captured_len, original_len] {
        bytes.extend(u32::to_le_bytes(number));
    }
    bytes.extend(syn(4_000));
    bytes
}

#[test]
fn hostile_captures_are_reported_within_the_memory_limit() {
    let folder = Folder::new("an_evil");
    let path = folder.join("evil");
    let run = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        analyze(&[path.to_str().unwrap()])
    };
    let outcome = run(&one_packet(u32::MAX, u32::MAX));
    assert!(
        outcome.code == Some(1) && outcome.error().contains("is damaged"),
        "{outcome}"
    );
    let outcome = run(&one_packet(300_000, 300_000));
    assert!(
        outcome.code == Some(0) && outcome.error().contains("ends in the middle"),
        "{outcome}"
    );
    let outcome = run(&one_packet(40, u32::MAX));
    assert!(outcome.ok().contains("1 connection"), "{outcome}");

    let mut section = Vec::new();
    pcapng::section(&mut section, &pcapng::Section::default());
    // A block of 4 GiB: with a packet, and of an unknown type.
    for (block_type, code) in [(6_u32, 1), (0x55, 0)] {
        let mut bytes = section.clone();
        pcapng::interface(&mut bytes, &pcapng::Interface::new(LinkType::RAW, 0));
        bytes.extend(block_type.to_le_bytes());
        bytes.extend(0xffff_fffc_u32.to_le_bytes());
        bytes.extend([0; 100]);
        let outcome = run(&bytes);
        assert!(
            outcome.code == Some(code) && !outcome.error().is_empty(),
            "{outcome}"
        );
    }
    // More interfaces than are stored, and a packet of the last one.
    let mut bytes = section;
    for _ in 0..200_000 {
        pcapng::interface(&mut bytes, &pcapng::Interface::new(LinkType::RAW, 0));
    }
    pcapng::packet(&mut bytes, &pcapng::Packet::new(199_999, 1, &syn(1)));
    let outcome = run(&bytes);
    assert!(
        outcome
            .error()
            .contains("interface that the file does not describe"),
        "{outcome}"
    );
    // Half a million connections with one SYN each.
    let mut bytes = Vec::new();
    pcap::header(&mut bytes, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    for number in 0..500_000_u32 {
        let mut packet = syn(number as u16);
        packet[15] = (number >> 16) as u8;
        let time_ns = u64::from(number) * 1_000;
        pcap::packet(&mut bytes, pcap::Resolution::Nanoseconds, time_ns, &packet, 40);
    }
    let outcome = run(&bytes);
    assert!(outcome.ok().contains("500000 connections"), "{outcome}");
    assert!(!outcome.error().contains("concluded early"), "{outcome}");
}

/// 20 MiB of zeros, compressed: as packets they would need much more memory.
#[test]
fn compression_bombs_are_reported_within_the_memory_limit() {
    let folder = Folder::new("an_bomb");
    let mut header = Vec::new();
    pcap::header(&mut header, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    for (compressor, code, expected) in [
        ("gzip -9", 0, "cut off before their TCP headers"),
        ("zstd -q -19", 0, "cut off before their TCP headers"),
        ("zstd -q --ultra -22 --long=31", 1, "zstd -dc --long=31"),
    ] {
        let path = folder.join("bomb");
        let mut words = compressor.split(' ');
        let program = words.next().unwrap();
        if sockeye_lab::program(program).is_err() {
            eprintln!("not tested: {compressor}");
            continue;
        }
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(fs::File::create(&path).unwrap())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&header).unwrap();
        // Empty packets: more bytes than the window, which zstd would otherwise reduce to the size of the input.
        let zeros = vec![0; 1 << 20];
        for _ in 0..20 {
            stdin.write_all(&zeros).unwrap();
        }
        drop(stdin);
        child.wait().unwrap();
        let outcome = analyze(&[path.to_str().unwrap()]);
        assert!(
            outcome.code == Some(code) && outcome.error().contains(expected),
            "{compressor}: {outcome}"
        );
    }
}

/// A terminal sends the SIGINT of ^C to each program of a pipeline.
#[test]
fn sigint_prints_what_was_read_and_whether_input_is_missing() {
    let bytes = one_packet(40, 40);
    for (writer_ends, code) in [(true, 0), (false, 130)] {
        let mut child = binary::command()
            .args(["analyze", "-", "--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&bytes).unwrap();
        // Earlier, the signal would end the program without output.
        wait_for_sigint_handler(child.id());
        wait_until("the program reads the bytes", || {
            ioctl_fionread(&stdin).unwrap() == 0
        });
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::INT).unwrap();
        // The writer of the pipeline writes its last packet; then it ends, or does not.
        let last = one_packet(40, 40);
        stdin.write_all(&last[24..]).unwrap();
        let open_stdin = (!writer_ends).then_some(stdin);
        let (mut stdout, mut stderr) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = child.wait().unwrap();
        drop(open_stdin);
        let document: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(status.code(), Some(code), "{stderr}");
        assert_eq!(document["packets"], 2, "{document}");
        assert_eq!(document["is_interrupted"], !writer_ends, "{document}");
        assert_eq!(
            stderr.contains("interrupted: only the first 2 packets"),
            !writer_ends,
            "{stderr}"
        );
    }
}
