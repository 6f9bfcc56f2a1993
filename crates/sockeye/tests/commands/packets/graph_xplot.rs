//! `sockeye graph --format xpl` compared with the graphs of tcptrace (`tcptrace -G -zxy`) for the same capture.
//!
//! Equal are the bars of data, the line of acknowledgements, the end of the window, the SACK blocks, and which segments are
//! marked. Known differences:
//!
//! - tcptrace draws SYN and FIN with signs of their own; sockeye draws them as bars of one sequence number.
//! - sockeye marks a segment with R (retransmission) or O (out of order) by tshark's rules, tcptrace by its own.
//! - tcptrace draws a tick for each acknowledgement of no new data, sockeye only for those that tshark flags as duplicate.
//! - tcptrace draws a tick for each unchanged window, sockeye only changes.
//! - tcptrace writes 2 or 3 above further SACK blocks of a segment, sockeye S.

use super::graph_folder::GraphFolder;
use sockeye_lab::{Skip, need, program};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn time_sequence_graph_matches_tcptrace() {
    let folder = need!(GraphFolder::new());
    let theirs = need!(tcptrace(&folder, "c2d_tsg.xpl"));
    let ours = XplotFile::read(&folder.graph_text(&["a.pcap", "--connection", "1", "--format", "xpl"]));
    assert!(ours.bars.len() > 1000 && ours.sacks.len() > 20 && ours.marked.len() > 5);
    // Without SYN and FIN.
    let data = |bars: &Lines| -> Lines {
        let longer = bars.iter().filter(|((_, from, to), _)| to - from > 1);
        longer.map(|(bar, count)| (bar.clone(), *count)).collect()
    };
    assert_same("bars", &data(&ours.bars), &data(&theirs.bars));
    assert_same("acknowledgements", &ours.acks, &theirs.acks);
    assert_same("windows", &ours.windows, &theirs.windows);
    assert_same("SACK blocks", &ours.sacks, &theirs.sacks);
    let of_data = |marks: &Marks| -> Marks {
        let is_above_data = |at: &(String, u64)| {
            ours.bars
                .keys()
                .any(|(time, from, to)| *time == at.0 && *to == at.1 && to - from > 1)
        };
        marks
            .iter()
            .filter(|(at, _)| is_above_data(at))
            .map(|(at, count)| (at.clone(), *count))
            .collect()
    };
    assert_same("marks", &of_data(&ours.marked), &of_data(&theirs.marked));
    assert_same("zero windows", &ours.zero_windows, &theirs.zero_windows);
    for at in ours.duplicates.keys() {
        assert!(theirs.duplicates.contains_key(at), "a duplicate at {at:?}");
    }
}

/// The commands are those that xplot(1) documents.
#[test]
fn each_panel_consists_of_valid_xplot_commands() {
    let folder = need!(GraphFolder::new());
    for panel in [
        "sequence",
        "in-flight",
        "rtt",
        "throughput",
        "window",
        "segment-size",
    ] {
        let text = folder.graph_text(&["a.pcap", "--format", "xpl", "--panels", panel]);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("dtime signed"), "{panel}");
        let (mut has_ended, mut commands) = (false, 0);
        while let Some(line) = lines.next() {
            assert!(!has_ended, "{panel}: after `go`: {line}");
            let words: Vec<&str> = line.split(' ').collect();
            let numbers = |words: &[&str]| words.iter().all(|word| word.parse::<f64>().is_ok());
            commands += 1;
            match &words[..] {
                ["title" | "xlabel" | "ylabel"] => assert!(lines.next().is_some()),
                ["go"] => has_ended = true,
                [color] => assert!(COLORS.contains(color), "{panel}: {line}"),
                ["atext" | "btext" | "ltext" | "rtext", at @ ..] if at.len() == 2 && numbers(at) => {
                    assert!(lines.next().is_some_and(|text| !text.is_empty()));
                }
                ["line", at @ ..] if at.len() == 4 && numbers(at) => {}
                ["dot" | "diamond", time, value, color]
                    if numbers(&[time, value]) && COLORS.contains(color) => {}
                [sign, at @ ..] if SIGNS.contains(sign) && at.len() == 2 && numbers(at) => {}
                _ => panic!("{panel}: {line}"),
            }
        }
        assert!(has_ended && commands > 50, "{panel}: {commands}");
    }
}

/// Runs tcptrace and reads one of the files that it writes.
fn tcptrace(folder: &GraphFolder, name: &str) -> Result<XplotFile, Skip> {
    let tcptrace: PathBuf = program("tcptrace")?;
    let output = Command::new(tcptrace)
        .args(["-n", "-G", "-zxy", "a.pcap"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert!(output.status.success());
    Ok(XplotFile::read(
        &std::fs::read_to_string(folder.path(name)).unwrap(),
    ))
}

/// Vertical lines by time and both ends, with their number.
type Lines = BTreeMap<(String, u64, u64), u32>;
/// Marks by time and value, with their number.
type Marks = BTreeMap<(String, u64), u32>;

/// The contents of an xplot file. Times are kept as text.
#[derive(Debug, Default)]
struct XplotFile {
    bars: Lines,
    acks: Lines,
    windows: Lines,
    sacks: Lines,
    marked: Marks,
    zero_windows: Marks,
    duplicates: Marks,
}

impl XplotFile {
    fn read(text: &str) -> Self {
        let mut file = Self::default();
        let mut color = "";
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().unwrap();
            match &words[..] {
                ["title" | "xlabel" | "ylabel"] => drop(lines.next()),
                [word] if COLORS.contains(word) => color = word,
                ["line", time, from, until, to] if time == until => {
                    let list = match color {
                        "white" | "red" | "pink" => &mut file.bars,
                        "green" => &mut file.acks,
                        "yellow" => &mut file.windows,
                        "purple" => &mut file.sacks,
                        _ => continue,
                    };
                    let (from, to) = (number(from), number(to));
                    *list
                        .entry(((*time).to_owned(), from.min(to), from.max(to)))
                        .or_default() += 1;
                }
                ["atext", time, value, ..] => {
                    let list = match lines.next() {
                        Some("R" | "O") => &mut file.marked,
                        Some("Z") => &mut file.zero_windows,
                        _ => continue,
                    };
                    *list.entry(((*time).to_owned(), number(value))).or_default() += 1;
                }
                ["dtick", time, value] if color == "green" => {
                    *file
                        .duplicates
                        .entry(((*time).to_owned(), number(value)))
                        .or_default() += 1;
                }
                _ => {}
            }
        }
        file
    }
}

#[track_caller]
fn assert_same<K: Ord + std::fmt::Debug>(what: &str, ours: &BTreeMap<K, u32>, theirs: &BTreeMap<K, u32>) {
    let missing: Vec<_> = theirs
        .iter()
        .filter(|(key, count)| ours.get(key) != Some(count))
        .take(5)
        .collect();
    let additional: Vec<_> = ours
        .iter()
        .filter(|(key, count)| theirs.get(key) != Some(count))
        .take(5)
        .collect();
    assert!(
        missing.is_empty() && additional.is_empty(),
        "{what}: {} ours, {} theirs; only theirs {missing:?}, only ours {additional:?}",
        ours.len(),
        theirs.len()
    );
}

const COLORS: [&str; 10] = [
    "white", "green", "red", "blue", "yellow", "purple", "orange", "magenta", "pink", "window",
];
const SIGNS: [&str; 15] = [
    "x", "dot", "plus", "box", "diamond", "utick", "dtick", "ltick", "rtick", "htick", "vtick", "uarrow",
    "darrow", "larrow", "rarrow",
];
