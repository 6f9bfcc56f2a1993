//! Graphs for xplot beside those that tcptrace draws of the same capture (`tcptrace -G -zxy`).
//!
//! The same are: bars of data, the line of acknowledgements, the end of the window, SACK blocks, and which segments are marked.
//! Known differences:
//!
//! - tcptrace draws SYN and FIN in their own way; here they are bars of one sequence number.
//! - Which of the marked segments are R and which O: here tshark's opinion, there tcptrace's.
//! - tcptrace has a tick for every acknowledgement that says nothing new; here those are ticked that tshark calls duplicate.
//! - tcptrace ticks the window where it stays as it was; here only changes are drawn.
//! - tcptrace writes 2 or 3 instead of S above further SACK blocks of one segment.

use super::drawn::Folder;
use sockeye_lab::{Skip, need, program};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn the_time_sequence_graph_is_that_of_tcptrace() {
    let folder = need!(Folder::new());
    let theirs = need!(tcptrace(&folder, "c2d_tsg.xpl"));
    let ours = Picture::read(&folder.text(&["a.pcap", "-c", "1", "--format", "xpl"]));
    assert!(ours.bars.len() > 1000 && ours.sacks.len() > 20 && ours.marked.len() > 5);
    // SYN and FIN
    let data = |bars: &Lines| -> Lines {
        let long = bars.iter().filter(|((_, from, to), _)| to - from > 1);
        long.map(|(bar, count)| (bar.clone(), *count)).collect()
    };
    assert_same("bars", &data(&ours.bars), &data(&theirs.bars));
    assert_same("acknowledgements", &ours.acks, &theirs.acks);
    assert_same("windows", &ours.windows, &theirs.windows);
    assert_same("SACK blocks", &ours.sacks, &theirs.sacks);
    let is_data = |marks: &Marks| -> Marks {
        let starts = |at: &(String, u64)| {
            ours.bars
                .keys()
                .any(|(time, from, to)| *time == at.0 && *to == at.1 && to - from > 1)
        };
        marks
            .iter()
            .filter(|(at, _)| starts(at))
            .map(|(at, count)| (at.clone(), *count))
            .collect()
    };
    assert_same("marks", &is_data(&ours.marked), &is_data(&theirs.marked));
    assert_same("zero windows", &ours.zero_windows, &theirs.zero_windows);
    for at in ours.duplicates.keys() {
        assert!(theirs.duplicates.contains_key(at), "a duplicate at {at:?}");
    }
}

/// Each line is one that xplot knows.
#[test]
fn every_panel_is_as_xplot_reads_it() {
    let folder = need!(Folder::new());
    for panel in [
        "sequence",
        "in-flight",
        "rtt",
        "throughput",
        "window",
        "segment-size",
    ] {
        let text = folder.text(&["a.pcap", "--format", "xpl", "--panels", panel]);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("dtime signed"), "{panel}");
        let (mut ended, mut drawn) = (false, 0);
        while let Some(line) = lines.next() {
            assert!(!ended, "{panel}: behind its end: {line}");
            let words: Vec<&str> = line.split(' ').collect();
            let numbers = |words: &[&str]| words.iter().all(|word| word.parse::<f64>().is_ok());
            drawn += 1;
            match &words[..] {
                ["title" | "xlabel" | "ylabel"] => assert!(lines.next().is_some()),
                ["go"] => ended = true,
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
        assert!(ended && drawn > 50, "{panel}: {drawn}");
    }
}

/// A picture of tcptrace's.
fn tcptrace(folder: &Folder, name: &str) -> Result<Picture, Skip> {
    let tcptrace: PathBuf = program("tcptrace")?;
    let out = Command::new(tcptrace)
        .args(["-n", "-G", "-zxy", "a.pcap"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert!(out.status.success());
    Ok(Picture::read(
        &std::fs::read_to_string(folder.path(name)).unwrap(),
    ))
}

type Lines = BTreeMap<(String, u64, u64), u32>;
type Marks = BTreeMap<(String, u64), u32>;

/// What is drawn where: times as they are written, each with how often.
#[derive(Debug, Default)]
struct Picture {
    bars: Lines,
    acks: Lines,
    windows: Lines,
    sacks: Lines,
    marked: Marks,
    zero_windows: Marks,
    duplicates: Marks,
}

impl Picture {
    fn read(text: &str) -> Self {
        let mut picture = Self::default();
        let mut color = "";
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().unwrap();
            match &words[..] {
                ["title" | "xlabel" | "ylabel"] => drop(lines.next()),
                [one] if COLORS.contains(one) => color = one,
                ["line", time, from, until, to] if time == until => {
                    let list = match color {
                        "white" | "red" | "pink" => &mut picture.bars,
                        "green" => &mut picture.acks,
                        "yellow" => &mut picture.windows,
                        "purple" => &mut picture.sacks,
                        _ => continue,
                    };
                    let (from, to) = (number(from), number(to));
                    *list
                        .entry(((*time).to_owned(), from.min(to), from.max(to)))
                        .or_default() += 1;
                }
                ["atext", time, value, ..] => {
                    let list = match lines.next() {
                        Some("R" | "O") => &mut picture.marked,
                        Some("Z") => &mut picture.zero_windows,
                        _ => continue,
                    };
                    *list.entry(((*time).to_owned(), number(value))).or_default() += 1;
                }
                ["dtick", time, value] if color == "green" => {
                    *picture
                        .duplicates
                        .entry(((*time).to_owned(), number(value)))
                        .or_default() += 1;
                }
                _ => {}
            }
        }
        picture
    }
}

#[track_caller]
fn assert_same<K: Ord + std::fmt::Debug>(what: &str, ours: &BTreeMap<K, u32>, theirs: &BTreeMap<K, u32>) {
    let lacking: Vec<_> = theirs
        .iter()
        .filter(|(key, count)| ours.get(key) != Some(count))
        .take(5)
        .collect();
    let more: Vec<_> = ours
        .iter()
        .filter(|(key, count)| theirs.get(key) != Some(count))
        .take(5)
        .collect();
    assert!(
        lacking.is_empty() && more.is_empty(),
        "{what}: {} here, {} there; only there {lacking:?}, only here {more:?}",
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
