//! Flags and values of each TCP segment, compared with tshark's.
//!
//! The captures are of transfers over an impaired path, of random segments, and of real connections. With timestamps that go
//! backwards, tshark prints negative round trip times and sockeye none; docs/TSHARK.md lists the other differences.

mod compare;

use super::impaired_path::{MS, delay};
use compare::{Agreement, tshark_version};
use rustix::process::{Pid, Signal, kill_process};
use sockeye_lab::{Impairment, Lab, Skip, Toward, need, wait_until_steady, wait_within};
use sockeye_wire::packet::{LinkType, pcap};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    for (seed, backwards_percent) in [(1, 0), (2, 0), (3, 0), (4, 10), (5, 48), (6, 90)] {
        let file = lab.directory().join(format!("random{seed}.pcap"));
        std::fs::write(&file, random_segments(seed, backwards_percent)).expect("write a capture");
        compare(&file, &format!("random segments {seed}"));
    }
}

/// Compares the captures of the repository, and those in `SOCKEYE_CAPTURES`, a file or a directory.
#[test]
fn flags_match_for_existing_captures() {
    need!(tshark_version());
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    for file in captures_in(&repository) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.contains(".pcap") {
            compare(&file, &name);
        }
    }
    if let Some(location) = std::env::var_os("SOCKEYE_CAPTURES") {
        print_table(Path::new(&location));
    }
}

/// Prints a row for each capture in a directory and below, and writes a line for each frame that differs into the file
/// `SOCKEYE_DIFFERENCES`. Fails if too few are equal.
fn print_table(location: &Path) {
    let files = captures_in(location);
    let results: Mutex<BTreeMap<PathBuf, Agreement>> = Mutex::default();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let agreement = Agreement::of(file);
                    results.lock().expect("no panic").insert(file.clone(), agreement);
                }
            });
        }
    });
    let (mut sum, mut compared, mut different) = (Agreement::default(), 0, 0);
    let mut lines = String::new();
    println!("  frames    flags   values differ  capture  frames by flag: of tshark, ours, both");
    for (file, agreement) in &results.into_inner().expect("no panic") {
        let name = file.strip_prefix(location).unwrap_or(file).display().to_string();
        if agreement.frames > 0 || agreement.error.is_some() {
            println!("{}", agreement.row(&name));
            compared += usize::from(agreement.frames > 0);
        }
        different += usize::from(!agreement.differences.is_empty());
        for line in &agreement.differences {
            lines.push_str(&format!("{name}\t{line}\n"));
        }
        sum.merge(agreement);
    }
    println!("{}", sum.row("all"));
    println!(
        "{} captures, {compared} with TCP, {different} differ",
        files.len()
    );
    if let Some(path) = std::env::var_os("SOCKEYE_DIFFERENCES") {
        std::fs::write(path, lines).expect("write the differences");
    }
    let share = sum.equal_flags as f64 / sum.frames.max(1) as f64;
    assert!(
        share >= LEAST_EQUAL_FLAGS,
        "only {share} of the frames have equal flags"
    );
}

/// The files in a directory and below, or the file itself.
fn captures_in(location: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(location) else {
        return vec![location.to_owned()];
    };
    let mut files: Vec<PathBuf> = entries
        .flat_map(|entry| captures_in(&entry.expect("an entry of the directory").path()))
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
    let agreement = Agreement::of(file);
    eprintln!(
        "{}: {} frames truncated or malformed; by flag the frames of tshark, ours, both",
        tshark_version().unwrap_or_default(),
        agreement.unanalyzed
    );
    eprintln!("{}", agreement.row(name));
    assert_eq!(agreement.error, None, "{name} can be read");
    let differences = &agreement.differences;
    let first = &differences[..differences.len().min(10)];
    assert!(
        differences.len() * 1_000 <= agreement.frames,
        "{name}: {} of {} differ: {first:#?}",
        differences.len(),
        agreement.frames
    );
    agreement.frames
}

/// A capture of three connections with random segments: most continue the sequence, others are close to it.
/// Of so many of a hundred, the time is before that of the segment before.
fn random_segments(seed: u64, backwards_percent: u64) -> Vec<u8> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut file = Vec::new();
    pcap::header(&mut file, LinkType::RAW, 0, pcap::Resolution::Nanoseconds);
    let mut time_ns = 1_700_000_000_000_000_000;
    // The next sequence number of each direction of three connections.
    let mut next = [[0, 1], [u32::MAX - 2_000, 77], [1 << 31, 5_000]];
    let mut windows = [500_u16; 6];
    for number in 0..6_000_u16 {
        let step_ns = random.one_of(&[
            0,
            1_000,
            10_000,
            500_000,
            2_999_999,
            3_000_001,
            19_999_999,
            20_000_001,
            300_000_000,
        ]);
        let is_backwards = random.below(100) < backwards_percent;
        time_ns = if is_backwards {
            time_ns - step_ns
        } else {
            time_ns + step_ns
        };
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

const TRANSFER_BYTES: usize = 2_000_000;

/// The share of frames with tshark's flags that captures from elsewhere have at least, all together
const LEAST_EQUAL_FLAGS: f64 = 0.9995;
