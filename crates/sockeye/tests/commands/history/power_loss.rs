//! A loss of power at any moment of a recorder: of the writes that were not synced any part may be missing. The writes and syncs of a
//! recorder are observed with strace, and made again into files as a disk would have them afterwards.

use super::Store;
use crate::fixtures::binary::{SOCKEYE, run};
use sockeye_lab::{need, program};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A file of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum File {
    Database,
    Log,
    /// Of the first transactions, before the store writes to its log: it undoes what was not finished.
    Journal,
}

impl File {
    const ALL: [Self; 3] = [Self::Database, Self::Log, Self::Journal];

    const fn suffix(self) -> &'static str {
        match self {
            Self::Database => "",
            Self::Log => "-wal",
            Self::Journal => "-journal",
        }
    }
}

/// What the recorder did to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Remove,
    Sync,
}

type Acts = Vec<(File, Act)>;

/// What happens to acts that are not synced.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// All are lost.
    All,
    /// Some are lost, and some of what is written is only its first sector.
    Some,
    /// The first is lost.
    First,
}

#[test]
fn loss_of_power_loses_at_most_the_sample_in_hand() {
    let strace = need!(program("strace"));
    let store = Store::new("power");
    // Each empties the log of the one before, and adds a sample.
    let mut acts = Acts::new();
    for number in 0..5 {
        let log = store.folder.join(format!("strace-{number}"));
        let status = Command::new(&strace)
            .args(["-f", "-y", "-xx", "-s", "1000000", "-e"])
            .arg("trace=pwrite64,fdatasync,fsync,ftruncate,unlink")
            .args(
                File::ALL
                    .iter()
                    .flat_map(|file| ["-P".to_owned(), store.path() + file.suffix()]),
            )
            .arg("-o")
            .arg(&log)
            .args([SOCKEYE, "record", "--once", "--interval", "600", "--store"])
            .arg(store.path())
            .status();
        assert!(status.expect("strace starts").success());
        let text = std::fs::read_to_string(&log).expect("its log");
        acts.extend(text.lines().filter_map(parse));
    }
    let syncs = |file| acts.iter().filter(|act| **act == (file, Act::Sync)).count();
    assert!(syncs(File::Database) > 3 && syncs(File::Log) > 4, "too few syncs");

    let mut durable = BTreeMap::new();
    let step = acts.len().div_ceil(12);
    for end in (0..acts.len()).step_by(step).chain([acts.len()]) {
        let synced = acts[..end].iter().rposition(|act| *act == (File::Log, Act::Sync));
        let synced = synced.map_or(0, |index| index + 1);
        let kept = *durable
            .entry(synced)
            .or_insert_with(|| samples_of(&image(&acts[..synced], None, 0), "whole"));
        for (seed, loss) in [Loss::All, Loss::Some, Loss::First].into_iter().enumerate() {
            let name = format!("{end}-{loss:?}");
            let after = samples_of(&image(&acts[..end], Some(loss), (end + seed) as u64), &name);
            assert!(
                after >= kept,
                "{name} of {} acts: {after} of {kept} samples are left",
                acts.len()
            );
        }
    }
    assert_eq!(durable.values().max(), Some(&5), "{durable:?}");
}

/// Returns how many samples a store has, and checks that a recorder goes on with it.
#[track_caller]
fn samples_of(image: &BTreeMap<File, Vec<u8>>, name: &str) -> u64 {
    let store = Store::new(&format!("power-{name}"));
    for (file, bytes) in image {
        std::fs::write(store.path() + file.suffix(), bytes).expect("an image");
    }
    store.succeed("record --once --interval 600");
    store.succeed("flows --at now --format json");
    assert_is_sound(Path::new(&store.path()));
    // The one that was added now does not count.
    store.samples() - 1
}

/// All samples can be read.
#[track_caller]
fn assert_is_sound(path: &Path) {
    let timeline = run(Command::new(SOCKEYE)
        .args([
            "history", "timeline", "--since", "5m", "--points", "20", "--store",
        ])
        .arg(path));
    assert_eq!(timeline.code, Some(0), "{timeline:?}");
}

/// Returns the files after a loss of power; `None`: everything is there.
fn image(acts: &[(File, Act)], loss: Option<Loss>, seed: u64) -> BTreeMap<File, Vec<u8>> {
    let mut numbers = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move || {
        numbers ^= numbers << 13;
        numbers ^= numbers >> 7;
        numbers ^= numbers << 17;
        numbers
    };
    let mut files = BTreeMap::new();
    for file in File::ALL {
        // A file system writes that a file is gone with the next sync of any file.
        let removed = acts.iter().rposition(|act| *act == (file, Act::Remove));
        let removed = removed.filter(|&index| acts[index..].iter().any(|(_, act)| *act == Act::Sync));
        let of_file: Vec<&Act> = acts[removed.map_or(0, |index| index + 1)..]
            .iter()
            .filter(|(of, _)| *of == file)
            .map(|(_, act)| act)
            .collect();
        if of_file.is_empty() {
            continue;
        }
        let synced = of_file
            .iter()
            .rposition(|act| **act == Act::Sync)
            .map_or(0, |index| index + 1);
        let bytes: &mut Vec<u8> = files.entry(file).or_default();
        for (number, act) in of_file.into_iter().enumerate() {
            let late = number.checked_sub(synced);
            let is_lost = match (loss, late) {
                (None, _) | (_, None) => false,
                (Some(Loss::All), Some(_)) => true,
                (Some(Loss::First), Some(late)) => late == 0,
                (Some(Loss::Some), Some(_)) => random() % 2 == 0,
            };
            if is_lost {
                continue;
            }
            let is_torn = matches!(loss, Some(Loss::Some)) && late.is_some() && random() % 3 == 0;
            apply(bytes, act, is_torn);
        }
    }
    files
}

fn apply(bytes: &mut Vec<u8>, act: &Act, is_torn: bool) {
    match act {
        Act::Write(offset, data) => {
            let len = if is_torn { data.len().min(512) } else { data.len() };
            let end = offset + len;
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset..end].copy_from_slice(&data[..len]);
        }
        Act::SetLen(len) => bytes.resize(*len, 0),
        // An empty one is as none.
        Act::Remove => bytes.clear(),
        Act::Sync => {}
    }
}

/// Parses a line of strace: `PID pwrite64(36</path>, "\x53...", 100, 0) = 100`.
fn parse(line: &str) -> Option<(File, Act)> {
    let (_, call) = line.split_once(' ')?;
    let (name, arguments) = call.trim_start().split_once('(')?;
    let (arguments, result) = arguments.rsplit_once(") = ")?;
    if result.starts_with('-') {
        return None;
    }
    // The path is in hexadecimal; only those of log and journal have such an end.
    let (file, rest) = match name {
        "unlink" => (arguments, ""),
        _ => arguments.split_once(", ").unwrap_or((arguments, "")),
    };
    let file = if file.contains(r"\x2d\x77\x61\x6c") {
        File::Log
    } else if file.contains(r"\x2d\x6a\x6f\x75\x72\x6e\x61\x6c") {
        File::Journal
    } else {
        File::Database
    };
    let act = match name {
        "pwrite64" => {
            let (text, numbers) = rest.strip_prefix('"')?.split_once('"')?;
            let offset = numbers.rsplit_once(", ")?.1.parse().ok()?;
            Act::Write(offset, bytes(text)?)
        }
        "ftruncate" => Act::SetLen(rest.parse().ok()?),
        "unlink" => Act::Remove,
        "fsync" | "fdatasync" => Act::Sync,
        _ => return None,
    };
    Some((file, act))
}

/// Returns the bytes of `\x53\x51...`.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.split(r"\x").skip(1);
    digits.map(|digits| u8::from_str_radix(digits, 16).ok()).collect()
}

#[test]
fn lines_of_strace_are_parsed() {
    let path = r"36</tmp\x2f\x61\x2d\x77\x61\x6c>";
    let line = format!(r#"7 pwrite64({path}, "\x53\x51", 2, 4096) = 2"#);
    assert_eq!(
        parse(&line),
        Some((File::Log, Act::Write(4096, vec![0x53, 0x51])))
    );
    assert_eq!(
        parse(r"7 ftruncate(36<\x2f\x61>, 12) = 0"),
        Some((File::Database, Act::SetLen(12)))
    );
    assert_eq!(parse("7 fsync(36<x>) = -1 EIO"), None);
}
