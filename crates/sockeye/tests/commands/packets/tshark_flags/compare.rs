//! The flags and values of each TCP frame of a capture, ours and tshark's, side by side.

use sockeye_lab::Skip;
use sockeye_source::capture::Capture;
use sockeye_trace::{Flag, Options, SegmentNotes, Trace};
use sockeye_wire::packet::{Decoded, Fragments};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// How far a capture's frames agree with tshark's.
#[derive(Default)]
pub(super) struct Agreement {
    /// Frames that tshark analyzed, and frames that only we did.
    pub(super) frames: usize,
    /// Frames that tshark did not analyze, as a header is truncated or malformed.
    pub(super) unanalyzed: usize,
    /// Frames with the same flags of the same connection.
    pub(super) equal_flags: usize,
    /// Frames of which all values are equal as well.
    pub(super) equal: usize,
    /// For each flag, the frames that have it: with tshark, with us, with both.
    pub(super) by_flag: BTreeMap<Flag, [usize; 3]>,
    /// A line for each frame that differs.
    pub(super) differences: Vec<String>,
    /// Why we stopped before the end of the file.
    pub(super) error: Option<String>,
}

impl Agreement {
    /// Compares all frames of a capture.
    pub(super) fn of(file: &Path) -> Self {
        let theirs = theirs(file);
        let (ours, error) = ours(file);
        let mut agreement = Self {
            error,
            ..Self::default()
        };
        let mut connections = Connections::default();
        for (frame, expected) in &theirs {
            let Some(expected) = expected else {
                agreement.unanalyzed += 1;
                continue;
            };
            agreement.add(*frame, Some(expected), ours.get(frame), &mut connections);
        }
        for (frame, found) in ours.iter().filter(|(frame, _)| !theirs.contains_key(frame)) {
            agreement.add(*frame, None, Some(found), &mut connections);
        }
        agreement
    }

    fn add(
        &mut self,
        frame: u64,
        expected: Option<&Columns>,
        found: Option<&Columns>,
        connections: &mut Connections,
    ) {
        self.frames += 1;
        for flag in Flag::ALL {
            let has =
                |columns: Option<&Columns>| columns.is_some_and(|columns| columns.flags.contains(&flag));
            let (theirs, ours) = (has(expected), has(found));
            if theirs || ours {
                let counts = self.by_flag.entry(flag).or_default();
                counts[0] += usize::from(theirs);
                counts[1] += usize::from(ours);
                counts[2] += usize::from(theirs && ours);
            }
        }
        let is_same_connection = match (expected, found) {
            (Some(expected), Some(found)) => connections.are_same(&expected.connection, &found.connection),
            _ => false,
        };
        let has_equal_flags = is_same_connection
            && expected.map(|columns| &columns.flags) == found.map(|columns| &columns.flags);
        let is_equal = has_equal_flags
            && expected.map(|columns| &columns.values) == found.map(|columns| &columns.values);
        self.equal_flags += usize::from(has_equal_flags);
        self.equal += usize::from(is_equal);
        if !is_equal {
            let kind = match (expected, found) {
                (_, None) => "only tshark",
                (None, _) => "only ours",
                _ if !is_same_connection => "connection",
                _ if !has_equal_flags => "flags",
                _ => "values",
            };
            let text = |columns: Option<&Columns>| columns.map_or("-".to_owned(), Columns::text);
            self.differences.push(format!(
                "{kind}\tframe {frame}\ttshark {}\tours {}",
                text(expected),
                text(found)
            ));
        }
    }

    /// Adds the counts of another capture.
    pub(super) fn merge(&mut self, other: &Self) {
        self.frames += other.frames;
        self.unanalyzed += other.unanalyzed;
        self.equal_flags += other.equal_flags;
        self.equal += other.equal;
        for (flag, counts) in &other.by_flag {
            let sums = self.by_flag.entry(*flag).or_default();
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
        }
    }

    /// The row of a table: frames, those with equal flags, those that are equal; each flag with a difference.
    pub(super) fn row(&self, name: &str) -> String {
        let percent = |count: usize| match self.frames {
            0 => "-".to_owned(),
            frames => format!("{:.3}%", 100.0 * count as f64 / frames as f64),
        };
        let flags: Vec<String> = self
            .by_flag
            .iter()
            .map(|(flag, [theirs, ours, both])| format!("{} {theirs}/{ours}/{both}", flag.name()))
            .collect();
        format!(
            "{:>8} {:>8} {:>8} {:>6}  {name}  {}{}",
            self.frames,
            percent(self.equal_flags),
            percent(self.equal),
            self.differences.len(),
            flags.join(", "),
            self.error
                .as_ref()
                .map_or(String::new(), |error| format!("  [{error}]"))
        )
    }
}

/// Which connection of tshark's is which of ours. Their numbers differ if only one of the two counts a connection.
#[derive(Default)]
struct Connections {
    ours: BTreeMap<String, String>,
    theirs: BTreeMap<String, String>,
}

impl Connections {
    /// Whether these frames are of the same connection as the ones before. Where only one of the two begins another connection, only
    /// its first frame differs.
    fn are_same(&mut self, theirs: &str, ours: &str) -> bool {
        let known_ours = self.ours.insert(theirs.to_owned(), ours.to_owned());
        let known_theirs = self.theirs.insert(ours.to_owned(), theirs.to_owned());
        known_ours.is_none_or(|known| known == ours) && known_theirs.is_none_or(|known| known == theirs)
    }
}

/// What is known of a frame.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    connection: String,
    flags: Vec<Flag>,
    /// In the order of `VALUES`
    values: Vec<String>,
}

impl Columns {
    fn text(&self) -> String {
        let flags: Vec<&str> = self.flags.iter().map(|flag| flag.name()).collect();
        let values = VALUES
            .iter()
            .zip(&self.values)
            .filter(|(_, value)| !value.is_empty());
        let values: Vec<String> = values.map(|(name, value)| format!("{name}={value}")).collect();
        format!("#{} {} {}", self.connection, flags.join(","), values.join(" "))
    }
}

/// Our columns of each frame, until the end or an error.
fn ours(file: &Path) -> (BTreeMap<u64, Columns>, Option<String>) {
    let mut frames = BTreeMap::new();
    let mut capture = match Capture::open(file) {
        Ok(capture) => capture,
        Err(error) => return (frames, Some(error.to_string())),
    };
    let mut trace = Trace::new(Options::default());
    let mut fragments = Fragments::default();
    loop {
        let packet = match capture.next() {
            Ok(Some(packet)) => packet,
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error.to_string())),
        };
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
}

fn columns(notes: &SegmentNotes) -> Columns {
    let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    Columns {
        connection: notes.connection.to_string(),
        flags: notes.flags.iter().collect(),
        values: vec![
            number(notes.acks_frame),
            number(notes.ack_rtt_ns),
            number(notes.rto_ns),
            number(notes.rto_frame),
            number(notes.bytes_in_flight.map(u64::from)),
            number(notes.push_bytes_sent.map(u64::from)),
            number(notes.duplicate_ack.map(|(number, _)| u64::from(number))),
            number(notes.duplicate_ack.map(|(_, frame)| frame)),
        ],
    }
}

/// tshark's columns; `None` for a frame with a truncated or malformed header, which tshark does not analyze.
fn theirs(file: &Path) -> BTreeMap<u64, Option<Columns>> {
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
    let text = String::from_utf8_lossy(&output.stdout);
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
            let columns = Columns {
                connection: fields[1].to_owned(),
                flags: flags.collect(),
                values: VALUES
                    .iter()
                    .zip(values)
                    .map(|(name, value)| match *name {
                        "ack_rtt" | "rto" => nanoseconds(value),
                        _ => (*value).to_owned(),
                    })
                    .collect(),
            };
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
    match format!("{whole}{part:0<9}").parse::<u64>() {
        Ok(number) => number.to_string(),
        Err(_) => seconds.to_owned(),
    }
}

pub(super) fn tshark_version() -> Result<String, Skip> {
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
