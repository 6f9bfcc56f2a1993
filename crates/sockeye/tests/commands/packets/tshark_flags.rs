//! Flags and values of each TCP segment, compared with tshark's.
//!
//! The captures are of transfers over an impaired path, of random segments, and of real connections. With timestamps that go
//! backwards, tshark prints negative round trip times and sockeye none; no other difference is known.

use super::impaired_path::{MS, delay};
use rustix::process::{Pid, Signal, kill_process};
use sockeye_lab::{Impairment, Lab, Skip, Toward, need, wait_until_steady, wait_within};
use sockeye_source::capture::Capture;
use sockeye_trace::{Flag, Options, SegmentNotes, Trace};
use sockeye_wire::packet::{Decoded, Fragments, LinkType, pcap};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn flags_match_on_an_unimpaired_path() {
    need!(compare_transfer("plain", Impairment::default()));
}

#[test]
fn flags_match_with_losses() {
    let forward = Impairment {
        loss_permille: 20,
        ..delay(10)
    };
    need!(compare_transfer("losses", forward));
}

#[test]
fn flags_match_with_reordering() {
    let forward = Impairment {
        late: 4 * MS,
        late_permille: 30,
        ..delay(10)
    };
    need!(compare_transfer("late", forward));
}

#[test]
fn flags_match_with_duplicates() {
    let forward = Impairment {
        duplicate_permille: 30,
        ..delay(10)
    };
    need!(compare_transfer("twice", forward));
}

#[test]
fn flags_match_with_a_short_queue() {
    let forward = Impairment {
        bytes_per_s: 2_000_000,
        queue_bytes: 6_000,
        ..delay(10)
    };
    need!(compare_transfer("queue", forward));
}

#[test]
fn flags_match_for_random_segments() {
    let lab = need!(Lab::new("tshark_odd"));
    need!(tshark_version());
    for seed in 1..=3 {
        let file = lab.directory().join(format!("random{seed}.pcap"));
        std::fs::write(&file, random_segments(seed)).expect("write a capture");
        compare(&file, &format!("random segments {seed}"));
    }
}

/// Compares the captures of the repository and of `SOCKEYE_CAPTURES`, a file or a directory.
#[test]
fn flags_match_for_existing_captures() {
    need!(tshark_version());
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let additional = std::env::var_os("SOCKEYE_CAPTURES").map(PathBuf::from);
    let mut different = Vec::new();
    let (mut frames, mut files) = (0, 0);
    for location in [Some(repository), additional].into_iter().flatten() {
        for file in captures_in(&location) {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            match std::panic::catch_unwind(|| compare(&file, &name)) {
                Ok(frames_of_file) => (frames, files) = (frames + frames_of_file, files + 1),
                Err(_) => different.push(name),
            }
        }
    }
    eprintln!("{frames} frames of {files} captures agree");
    assert!(different.is_empty(), "differ: {different:?}");
}

/// The captures in a directory, or the file itself.
fn captures_in(location: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(location) else {
        return vec![location.to_owned()];
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry of the directory").path())
        .filter(|path| path.to_string_lossy().contains(".pcap"))
        .collect();
    files.sort();
    files
}

/// Compares the captures of both ends of a transfer with this impairment toward the server.
fn compare_transfer(name: &str, forward: Impairment) -> Result<(), Skip> {
    tshark_version()?;
    let lab = Lab::new(&format!("tshark_{name}"))?;
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let middlebox = lab.middlebox(&client, &server, 7);
    let captures = [(&client, "near"), (&server, "far")].map(|(namespace, end)| {
        let file = lab.directory().join(format!("{end}.pcap"));
        let mut command = namespace.command(
            "tshark",
            &["-q", "-i", "any", "-s", "128", "-F", "pcap", "-f", "tcp", "-w"],
        );
        let tshark = command
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start tshark");
        (file, tshark)
    });
    wait_within(Duration::from_secs(20), "tshark to start its captures", || {
        let has_header = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|file| file.len() >= 24);
        captures.iter().all(|(file, _)| has_header(file)).then_some(())
    });
    middlebox.set_both(Impairment {
        delay: forward.delay,
        ..Impairment::default()
    });
    middlebox.set(Toward::Server, forward);
    let pair = middlebox.net_path().established();
    let mut reader: TcpStream = pair.server.duplicate().into();
    let mut writer: TcpStream = pair.client.duplicate().into();
    std::thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&vec![b'x'; TRANSFER_BYTES]).expect("send"));
        reader.read_exact(&mut vec![0; TRANSFER_BYTES]).expect("receive");
    });
    drop((pair, reader, writer));
    // tshark writes packets some time after they are received.
    wait_until_steady("tshark's files", Duration::from_millis(500), || {
        captures
            .each_ref()
            .map(|(file, _)| std::fs::metadata(file).map_or(0, |file| file.len()))
    });
    for (file, mut tshark) in captures {
        let pid = Pid::from_raw(i32::try_from(tshark.id()).expect("a pid")).expect("a pid");
        kill_process(pid, Signal::INT).expect("end tshark");
        tshark.wait().expect("wait for tshark");
        compare(&file, name);
    }
    Ok(())
}

/// Compares all frames of a capture; at most one of a thousand may differ. Returns the number of compared frames.
#[track_caller]
fn compare(file: &Path, name: &str) -> usize {
    let theirs = theirs(file);
    let ours = ours(file);
    // For each flag, the frames that have it, and those of them that are equal.
    let mut counts: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let mut differences = Vec::new();
    let complete = theirs
        .iter()
        .filter_map(|(frame, columns)| Some((frame, columns.as_ref()?)));
    let mut frames = 0;
    for (frame, expected) in complete {
        frames += 1;
        let found = ours.get(frame);
        let is_equal = found == Some(expected);
        for flag in expected[1].split(',').filter(|flag| !flag.is_empty()) {
            let [all, equal] = counts.entry(flag.to_owned()).or_default();
            *all += 1;
            *equal += u64::from(is_equal);
        }
        if !is_equal {
            differences.push(format!("frame {frame}: tshark {expected:?}, ours {found:?}"));
        }
    }
    for frame in ours.keys().filter(|frame| !theirs.contains_key(frame)) {
        differences.push(format!("frame {frame}: not in tshark's, ours {:?}", ours[frame]));
    }
    let version = tshark_version().unwrap_or_default();
    eprintln!(
        "{version}, {name}: {frames} frames, {} differ, {} truncated or malformed; frames by flag, all and equal: {counts:?}",
        differences.len(),
        theirs.len() - frames
    );
    let first = &differences[..differences.len().min(10)];
    assert!(
        differences.len() * 1_000 <= frames,
        "{name}: {} of {frames} differ: {first:#?}",
        differences.len()
    );
    frames
}

/// Columns of each frame: connection, flags, values in the order of `VALUES`.
type FrameColumns = BTreeMap<u64, Vec<String>>;

fn ours(file: &Path) -> FrameColumns {
    let mut capture = Capture::open(file).expect("a capture");
    let mut trace = Trace::new(Options::default());
    let mut fragments = Fragments::default();
    let mut frames = FrameColumns::new();
    while let Some(packet) = capture.next().expect("a capture that can be read") {
        let segment = match packet.decode() {
            Ok(Decoded::Segment(segment)) => Some(segment),
            Ok(Decoded::Fragment(fragment)) => fragments.add(&fragment),
            _ => None,
        };
        if let Some(segment) = segment {
            let notes = trace.segment(packet.frame, packet.time_ns, &segment);
            frames.insert(packet.frame, columns(&notes));
        }
    }
    frames
}

fn columns(notes: &SegmentNotes) -> Vec<String> {
    let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    vec![
        notes.connection.to_string(),
        notes.flags.iter().map(Flag::name).collect::<Vec<_>>().join(","),
        number(notes.acks_frame),
        number(notes.ack_rtt_ns),
        number(notes.rto_ns),
        number(notes.rto_frame),
        number(notes.bytes_in_flight.map(u64::from)),
        number(notes.push_bytes_sent.map(u64::from)),
        number(notes.duplicate_ack.map(|(number, _)| u64::from(number))),
        number(notes.duplicate_ack.map(|(_, frame)| frame)),
    ]
}

/// tshark's columns; `None` for a frame with a truncated or malformed header, which tshark does not analyze.
fn theirs(file: &Path) -> BTreeMap<u64, Option<Vec<String>>> {
    let mut command = Command::new("tshark");
    command
        .args([
            "-n",
            "-Y",
            // Without the segments that ICMP errors quote.
            "tcp && !icmp && !icmpv6",
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-e",
            "tcp.stream",
            "-e",
            "_ws.short",
            "-e",
            "_ws.malformed",
            "-r",
        ])
        .arg(file);
    for flag in Flag::ALL {
        command.arg("-e").arg(format!("tcp.analysis.{}", flag.name()));
    }
    for value in VALUES {
        command.arg("-e").arg(format!("tcp.analysis.{value}"));
    }
    let output = command.stderr(Stdio::null()).output().expect("run tshark");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let frame = fields[0].parse().expect("a frame number");
            // Without a stream number tshark did not decode the segment.
            if fields[1].is_empty() || fields[2].contains("TCP truncated") || fields[3].contains("TCP") {
                return (frame, None);
            }
            let (flags, values) = fields[4..].split_at(Flag::ALL.len());
            let has = |flag: Flag| !flags[flag as usize].is_empty();
            // tshark flags these as retransmissions too.
            let is_special = has(Flag::FastRetransmission) || has(Flag::SpuriousRetransmission);
            let flags = Flag::ALL
                .into_iter()
                .filter(|flag| has(*flag) && !(is_special && *flag == Flag::Retransmission));
            let mut columns = vec![
                fields[1].to_owned(),
                flags.map(Flag::name).collect::<Vec<_>>().join(","),
            ];
            for (name, value) in VALUES.iter().zip(values) {
                columns.push(if matches!(*name, "ack_rtt" | "rto") {
                    nanoseconds(value)
                } else {
                    (*value).to_owned()
                });
            }
            (frame, Some(columns))
        })
        .collect()
}

/// Converts seconds with decimal places to nanoseconds. Empty for a negative time, and for no time.
fn nanoseconds(seconds: &str) -> String {
    let Some((whole, part)) = seconds.split_once('.') else {
        return String::new();
    };
    if whole.starts_with('-') {
        // Timestamps go backwards: sockeye reports no time.
        return String::new();
    }
    let number: u64 = format!("{whole}{part:0<9}").parse().expect("seconds");
    number.to_string()
}

fn tshark_version() -> Result<String, Skip> {
    let output = Command::new("tshark")
        .arg("--version")
        .stderr(Stdio::null())
        .output();
    let output = output.map_err(|_| Skip::new("tshark is not installed (apt install tshark)"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().next().unwrap_or_default().to_owned();
    if version.contains(" 4.0.") {
        Ok(version)
    } else {
        Err(Skip::new(format!(
            "sockeye follows the rules of tshark 4.0; installed is: {version}"
        )))
    }
}

/// A capture of three connections with random segments: most continue the sequence, others are close to it.
fn random_segments(seed: u64) -> Vec<u8> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut file = Vec::new();
    pcap::header(&mut file, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    let mut time_ns = 1_700_000_000_000_000_000;
    // The next sequence number of each direction of three connections.
    let mut next = [[0, 1], [u32::MAX - 2_000, 77], [1 << 31, 5_000]];
    let mut windows = [500_u16; 6];
    for number in 0..6_000_u16 {
        time_ns += random.one_of(&[
            1_000,
            10_000,
            500_000,
            2_999_999,
            3_000_001,
            19_999_999,
            20_000_001,
            300_000_000,
        ]);
        let (connection, end) = (random.below(3) as usize, random.below(2) as usize);
        let (own, other) = (next[connection][end], next[connection][1 - end]);
        let is_next = random.below(5) < 3;
        let sequence = if is_next { own } else { random.near(own) };
        let acknowledgement = match random.below(100) {
            0 => random.0 as u32,
            1..60 => other,
            _ => random.near(other),
        };
        let flags = match random.below(100) {
            0 | 1 => 0x02,
            2 | 3 => 0x12,
            4 | 5 => 0x11,
            6 => 0x14,
            7 => random.one_of(&[0, 1]) as u8,
            _ => 0x10,
        } | if random.below(10) < 3 { 0x08 } else { 0 };
        let window = &mut windows[connection * 2 + end];
        if random.below(10) < 3 {
            *window = random.one_of(&[0, 500, 501, 1_000, 2_000, 65_535]) as u16;
        }
        let len = random.one_of(&[0, 0, 1, 100, 500, 1_000, 1_460]) as u32;
        let mut options = Vec::new();
        if flags & 0x02 != 0 && random.below(2) == 0 {
            options.extend([1, 3, 3, random.below(16) as u8]);
        } else if random.below(7) == 0 {
            let blocks = 1 + random.below(3) as u8;
            options.extend([1, 1, 5, 2 + 8 * blocks]);
            for _ in 0..blocks * 2 {
                options.extend(random.near(other).to_be_bytes());
            }
        }
        let ports = if end == 0 {
            [4_000 + connection as u16, 80]
        } else {
            [80, 4_000 + connection as u16]
        };
        let hosts = if end == 0 { [1, 2] } else { [2, 1] };
        let header_len = 40 + options.len();
        let mut packet = vec![0x45, 0];
        packet.extend((header_len as u16 + len as u16).to_be_bytes());
        packet.extend(number.to_be_bytes());
        packet.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, hosts[0], 10, 0, 0, hosts[1]]);
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet.extend(sequence.to_be_bytes());
        packet.extend(acknowledgement.to_be_bytes());
        packet.extend([(5 + options.len() as u8 / 4) << 4, flags]);
        packet.extend(window.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(options);
        pcap::packet(
            &mut file,
            pcap::Resolution::Nanoseconds,
            time_ns,
            &packet,
            header_len as u32 + len,
        );
        if is_next || random.below(5) == 0 {
            let syn_or_fin = u32::from(flags & 0x03 != 0);
            next[connection][end] = sequence.wrapping_add(len).wrapping_add(syn_or_fin);
        }
    }
    file
}

/// A generator of pseudorandom numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one_of(&mut self, all: &[u64]) -> u64 {
        all[self.below(all.len() as u64) as usize]
    }

    /// A sequence number at a typical distance from this one.
    fn near(&mut self, number: u32) -> u32 {
        let distance = self.one_of(&[0, 0, 1, 100, 500, 1_000, 1_460]) as u32;
        if self.below(2) == 0 {
            number.wrapping_add(distance)
        } else {
            number.wrapping_sub(distance)
        }
    }
}

const VALUES: [&str; 8] = [
    "acks_frame",
    "ack_rtt",
    "rto",
    "rto_frame",
    "bytes_in_flight",
    "push_bytes_sent",
    "duplicate_ack_num",
    "duplicate_ack_frame",
];

const TRANSFER_BYTES: usize = 2_000_000;
