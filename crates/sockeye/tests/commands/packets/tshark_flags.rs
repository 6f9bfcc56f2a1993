//! What is said of each segment, beside what tshark says of it, frame by frame.
//!
//! Captures are of the kernel's own TCP over a path that loses, delays and doubles, and of segments made up to be as odd as
//! they come. Where times go backwards, tshark tells negative round trips, and this none; no other difference is known.

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
fn of_a_plain_path() {
    need!(compare_weather("plain", Impairment::default()));
}

#[test]
fn of_losses() {
    need!(compare_weather(
        "losses",
        Impairment {
            loss_permille: 20,
            ..DELAYED
        }
    ));
}

#[test]
fn of_reordering() {
    let late = Duration::from_millis(4);
    need!(compare_weather(
        "late",
        Impairment {
            late,
            late_permille: 30,
            ..DELAYED
        }
    ));
}

#[test]
fn of_duplicates() {
    need!(compare_weather(
        "twice",
        Impairment {
            duplicate_permille: 30,
            ..DELAYED
        }
    ));
}

#[test]
fn of_a_tiny_queue() {
    need!(compare_weather(
        "queue",
        Impairment {
            bytes_per_s: 2_000_000,
            queue_bytes: 6_000,
            ..DELAYED
        }
    ));
}

#[test]
fn of_oddities() {
    let lab = need!(Lab::new("tshark_odd"));
    need!(tshark_version());
    for seed in 1..=3 {
        let file = lab.directory().join(format!("odd{seed}.pcap"));
        std::fs::write(&file, oddities(seed)).expect("write a capture");
        compare(&file, &format!("oddities {seed}"));
    }
}

/// Those of the repository, and those that `SOCKEYE_CAPTURES` names: a file, or a directory of them.
#[test]
fn of_given_captures() {
    need!(tshark_version());
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let given = std::env::var_os("SOCKEYE_CAPTURES").map(PathBuf::from);
    let mut wrong = Vec::new();
    let (mut frames, mut files) = (0, 0);
    for place in [Some(repository), given].into_iter().flatten() {
        for file in captures_in(&place) {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            match std::panic::catch_unwind(|| compare(&file, &name)) {
                Ok((of_file, _)) => (frames, files) = (frames + of_file, files + 1),
                Err(_) => wrong.push(name),
            }
        }
    }
    eprintln!("{frames} frames of {files} captures agree");
    assert!(wrong.is_empty(), "differ: {wrong:?}");
}

fn captures_in(place: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(place) else {
        return vec![place.to_owned()];
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry of the directory").path())
        .filter(|path| path.to_string_lossy().contains(".pcap"))
        .collect();
    files.sort();
    files
}

/// Both captures of a transfer through this.
fn compare_weather(name: &str, impairment: Impairment) -> Result<(), Skip> {
    tshark_version()?;
    let lab = Lab::new(&format!("tshark_{name}"))?;
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let road = lab.middlebox(&client, &server, 7);
    let captures = [(&client, "near"), (&server, "far")].map(|(namespace, end)| {
        let file = lab.directory().join(format!("{end}.pcap"));
        let mut command = namespace.command(
            "tshark",
            &["-q", "-i", "any", "-s", "128", "-F", "pcap", "-f", "tcp", "-w"],
        );
        let dumper = command
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start tshark");
        (file, dumper)
    });
    wait_within(Duration::from_secs(20), "tshark to begin its captures", || {
        let has_begun = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|file| file.len() >= 24);
        captures.iter().all(|(file, _)| has_begun(file)).then_some(())
    });
    road.set_both(Impairment {
        delay: impairment.delay,
        ..Impairment::default()
    });
    road.set(Toward::Server, impairment);
    let pair = road.net_path().established();
    let mut reader: TcpStream = pair.server.duplicate().into();
    let mut writer: TcpStream = pair.client.duplicate().into();
    std::thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&vec![b'x'; TRANSFER]).expect("send"));
        reader.read_exact(&mut vec![0; TRANSFER]).expect("receive");
    });
    drop((pair, reader, writer));
    // What was received is written a moment later.
    wait_until_steady("tshark's files", Duration::from_millis(500), || {
        captures
            .each_ref()
            .map(|(file, _)| std::fs::metadata(file).map_or(0, |file| file.len()))
    });
    for (file, mut dumper) in captures {
        let pid = Pid::from_raw(i32::try_from(dumper.id()).expect("a pid")).expect("a pid");
        kill_process(pid, Signal::INT).expect("end tshark");
        dumper.wait().expect("wait for tshark");
        compare(&file, name);
    }
    Ok(())
}

/// All frames of this file; at most one of a thousand may differ. Says how many there are, and how many differ.
#[track_caller]
fn compare(file: &Path, name: &str) -> (usize, usize) {
    let theirs = theirs(file);
    let ours = ours(file);
    let mut counts: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let mut differences = Vec::new();
    let told = theirs
        .iter()
        .filter_map(|(frame, told)| Some((frame, told.as_ref()?)));
    let mut frames = 0;
    for (frame, told) in told {
        frames += 1;
        for flag in told[1].split(',').filter(|flag| !flag.is_empty()) {
            counts.entry(flag.to_owned()).or_default()[0] += 1;
        }
        let here = ours.get(frame);
        if here.is_some_and(|here| here == told) {
            for flag in told[1].split(',').filter(|flag| !flag.is_empty()) {
                counts.entry(flag.to_owned()).or_default()[1] += 1;
            }
        } else {
            differences.push(format!("frame {frame}: tshark {told:?}, ours {here:?}"));
        }
    }
    for frame in ours.keys().filter(|frame| !theirs.contains_key(frame)) {
        differences.push(format!("frame {frame}: none of tshark's, ours {:?}", ours[frame]));
    }
    let version = tshark_version().unwrap_or_default();
    eprintln!(
        "{version}, {name}: {frames} frames, {} differ, {} cut off or broken; flags, and in how many frames all agrees: {counts:?}",
        differences.len(),
        theirs.len() - frames
    );
    let few = &differences[..differences.len().min(10)];
    assert!(
        differences.len() * 1_000 <= frames,
        "{name}: {} of {frames} differ: {few:#?}",
        differences.len()
    );
    (frames, differences.len())
}

/// Of each frame: connection, flags, values.
type Told = BTreeMap<u64, Vec<String>>;

fn ours(file: &Path) -> Told {
    let mut capture = Capture::open(file).expect("a capture");
    let mut trace = Trace::new(Options::default());
    let mut fragments = Fragments::default();
    let mut told = Told::new();
    while let Some(packet) = capture.next().expect("a capture that can be read") {
        let segment = match packet.decode() {
            Ok(Decoded::Segment(segment)) => Some(segment),
            Ok(Decoded::Fragment(fragment)) => fragments.add(&fragment),
            _ => None,
        };
        if let Some(segment) = segment {
            let notes = trace.segment(packet.frame, packet.time_ns, &segment);
            told.insert(packet.frame, columns(&notes));
        }
    }
    told
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

/// `None`: a header is cut off or broken, and it tells nothing.
fn theirs(file: &Path) -> BTreeMap<u64, Option<Vec<String>>> {
    let mut command = Command::new("tshark");
    command
        .args([
            "-n",
            "-Y",
            // What ICMP quotes is no segment.
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
            // Without a number it has found no connection either.
            if fields[1].is_empty() || fields[2].contains("TCP truncated") || fields[3].contains("TCP") {
                return (frame, None);
            }
            let (flags, values) = fields[4..].split_at(Flag::ALL.len());
            let has = |flag: Flag| !flags[flag as usize].is_empty();
            // It calls those retransmissions as well.
            let is_special = has(Flag::FastRetransmission) || has(Flag::SpuriousRetransmission);
            let told = Flag::ALL
                .into_iter()
                .filter(|flag| has(*flag) && !(is_special && *flag == Flag::Retransmission));
            let mut columns = vec![
                fields[1].to_owned(),
                told.map(Flag::name).collect::<Vec<_>>().join(","),
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

/// Seconds with nine places behind the point.
fn nanoseconds(seconds: &str) -> String {
    let Some((whole, part)) = seconds.split_once('.') else {
        return String::new();
    };
    if whole.starts_with('-') {
        // Where times go backwards: ours tells none.
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
            "the rules are those of tshark 4.0, this is: {version}"
        )))
    }
}

/// A capture of segments that hardly go together.
fn oddities(seed: u64) -> Vec<u8> {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut file = Vec::new();
    pcap::header(&mut file, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    let mut time_ns = 1_700_000_000_000_000_000;
    // Of three connections, both ways: what would come next.
    let mut next = [[0, 1], [u32::MAX - 2_000, 77], [1 << 31, 5_000]];
    let mut windows = [500_u16; 6];
    for number in 0..6_000_u16 {
        time_ns += chance.one_of(&[
            1_000,
            10_000,
            500_000,
            2_999_999,
            3_000_001,
            19_999_999,
            20_000_001,
            300_000_000,
        ]);
        let (connection, end) = (chance.below(3) as usize, chance.below(2) as usize);
        let (own, other) = (next[connection][end], next[connection][1 - end]);
        let is_next = chance.below(5) < 3;
        let sequence = if is_next { own } else { chance.near(own) };
        let acknowledgement = match chance.below(100) {
            0 => chance.0 as u32,
            1..60 => other,
            _ => chance.near(other),
        };
        let flags = match chance.below(100) {
            0 | 1 => 0x02,
            2 | 3 => 0x12,
            4 | 5 => 0x11,
            6 => 0x14,
            7 => chance.one_of(&[0, 1]) as u8,
            _ => 0x10,
        } | if chance.below(10) < 3 { 0x08 } else { 0 };
        let window = &mut windows[connection * 2 + end];
        if chance.below(10) < 3 {
            *window = chance.one_of(&[0, 500, 501, 1_000, 2_000, 65_535]) as u16;
        }
        let len = chance.one_of(&[0, 0, 1, 100, 500, 1_000, 1_460]) as u32;
        let mut options = Vec::new();
        if flags & 0x02 != 0 && chance.below(2) == 0 {
            options.extend([1, 3, 3, chance.below(16) as u8]);
        } else if chance.below(7) == 0 {
            let blocks = 1 + chance.below(3) as u8;
            options.extend([1, 1, 5, 2 + 8 * blocks]);
            for _ in 0..blocks * 2 {
                options.extend(chance.near(other).to_be_bytes());
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
        if is_next || chance.below(5) == 0 {
            let mark = u32::from(flags & 0x03 != 0);
            next[connection][end] = sequence.wrapping_add(len).wrapping_add(mark);
        }
    }
    file
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one_of(&mut self, all: &[u64]) -> u64 {
        all[self.below(all.len() as u64) as usize]
    }

    fn near(&mut self, place: u32) -> u32 {
        let distance = self.one_of(&[0, 0, 1, 100, 500, 1_000, 1_460]) as u32;
        if self.below(2) == 0 {
            place.wrapping_add(distance)
        } else {
            place.wrapping_sub(distance)
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

const DELAYED: Impairment = Impairment {
    delay: Duration::from_millis(10),
    late: Duration::ZERO,
    late_permille: 0,
    loss_permille: 0,
    duplicate_permille: 0,
    bytes_per_s: 0,
    queue_bytes: 0,
    loss_run_packets: 0,
    window_permille: 0,
    window: 0,
};

const TRANSFER: usize = 2_000_000;
