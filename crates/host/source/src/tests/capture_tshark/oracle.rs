//! What tshark says of each frame of a file, and the comparison.

use sockeye_source::capture::Capture;
use sockeye_wire::packet::{Decoded, Segment};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The fields of one frame; each with all its occurrences, the innermost last.
pub(crate) struct Row<'a>(HashMap<&'static str, &'a str>);

const FIELDS: &[&str] = &[
    "frame.number",
    "frame.time_epoch",
    "frame.len",
    "frame.cap_len",
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ip.id",
    "ip.ttl",
    "ip.dsfield.ecn",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.hlim",
    "ipv6.tclass.ecn",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.window_size_value",
    "tcp.len",
    "tcp.options.mss_val",
    "tcp.options.wscale.shift",
    "tcp.options.sack_perm",
    "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
    "tcp.checksum.status",
    "udp.srcport",
    "udp.dstport",
    "icmp.type",
    "icmpv6.type",
];

impl Row<'_> {
    fn all(&self, field: &str) -> Vec<&str> {
        self.0[field]
            .split(',')
            .filter(|value| !value.is_empty())
            .collect()
    }

    fn last(&self, field: &str) -> Option<&str> {
        self.all(field).last().copied()
    }

    fn number(&self, field: &str) -> Option<u64> {
        let text = self.last(field)?;
        Some(match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).expect(field),
            None => text.parse().expect(field),
        })
    }

    fn is_segment(&self) -> bool {
        self.number("tcp.window_size_value").is_some()
            && self.last("icmp.type").is_none()
            && self.last("icmpv6.type").is_none()
    }
}

/// How many frames there were, and how many of them are segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) frames: u64,
    pub(crate) segments: u64,
}

/// Compares our reading of a file with tshark's, frame by frame; panics with all differences. `ours` is the file that we
/// read, which holds the same as tshark's.
pub(crate) fn compare(ours: &Path, theirs: &Path) -> Agreed {
    let output = tshark(theirs);
    let mut rows = output
        .lines()
        .map(|line| Row(FIELDS.iter().copied().zip(line.split('\t')).collect()));
    let mut capture = Capture::open(ours).expect("a capture");
    let mut differences = String::new();
    let mut agreed = Agreed {
        frames: 0,
        segments: 0,
    };
    while let Some(packet) = capture.next().expect("a readable capture") {
        // Blocks that are no packets have a number there, and are skipped here.
        while agreed.frames + 1 < packet.frame {
            assert!(!rows.next().expect("a frame").is_segment());
            agreed.frames += 1;
        }
        let row = rows
            .next()
            .unwrap_or_else(|| panic!("tshark has only {} frames", agreed.frames));
        agreed.frames += 1;
        let mut differ = |field: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
            writeln!(
                differences,
                "frame {}: {field}: {ours:?}, tshark {theirs:?}",
                packet.frame
            )
            .expect("memory");
        };
        let mut equal = |field: &str, ours: u64, theirs: Option<u64>| {
            if Some(ours) != theirs {
                differ(field, &ours, &theirs);
            }
        };
        equal("frame.number", packet.frame, row.number("frame.number"));
        equal("frame.len", packet.original_len.into(), row.number("frame.len"));
        equal(
            "frame.cap_len",
            packet.captured.len() as u64,
            row.number("frame.cap_len"),
        );
        equal(
            "frame.time_epoch",
            packet.time_ns,
            row.last("frame.time_epoch").map(nanoseconds),
        );
        match packet.decode() {
            Ok(Decoded::Segment(segment)) => {
                agreed.segments += 1;
                compare_segment(&segment, &row, &mut differ);
            }
            Ok(Decoded::Fragment(fragment)) if fragment.segment.is_some() => {
                let mut segment = fragment.segment.expect("it was there");
                assert_eq!(
                    row.number("tcp.len"),
                    None,
                    "tshark prints no length of a fragment"
                );
                assert!(segment.payload_len < fragment.len);
                segment.payload_len = 0;
                compare_segment(&segment, &row, &mut differ);
            }
            Ok(Decoded::Datagram {
                source_port,
                destination_port,
                ..
            }) => {
                equal("udp.srcport", source_port.into(), row.number("udp.srcport"));
                equal("udp.dstport", destination_port.into(), row.number("udp.dstport"));
            }
            other => {
                if row.is_segment() {
                    differ("no segment", &other, &row.0["frame.protocols"]);
                }
            }
        }
    }
    assert!(
        rows.next().is_none(),
        "tshark has more than {} frames",
        agreed.frames
    );
    assert!(differences.is_empty(), "{}:\n{differences}", theirs.display());
    agreed
}

fn compare_segment(
    segment: &Segment,
    row: &Row<'_>,
    differ: &mut dyn FnMut(&str, &dyn std::fmt::Debug, &dyn std::fmt::Debug),
) {
    let innermost = row.0["frame.protocols"]
        .split(':')
        .rfind(|layer| matches!(*layer, "ip" | "ipv6"));
    let [source, destination, ttl, ecn] = match innermost {
        Some("ipv6") => ["ipv6.src", "ipv6.dst", "ipv6.hlim", "ipv6.tclass.ecn"],
        _ => ["ip.src", "ip.dst", "ip.ttl", "ip.dsfield.ecn"],
    };
    for (field, ours) in [(source, segment.source), (destination, segment.destination)] {
        if row.last(field) != Some(&*ours.to_string()) {
            differ(field, &ours, &row.last(field));
        }
    }
    let is_fragment = row.last("tcp.len").is_none();
    let options = &segment.options;
    let is_syn = segment.flags.0 & 2 != 0;
    let in_syn = |field| row.number(field).filter(|_| is_syn);
    let id = row.number("ip.id").filter(|_| innermost == Some("ip"));
    for (field, ours, theirs) in [
        (ttl, Some(segment.ttl.into()), row.number(ttl)),
        (ecn, Some(segment.ecn.into()), row.number(ecn)),
        ("ip.id", segment.ip_id.map(u64::from), id),
        (
            "tcp.srcport",
            Some(segment.source_port.into()),
            row.number("tcp.srcport"),
        ),
        (
            "tcp.dstport",
            Some(segment.destination_port.into()),
            row.number("tcp.dstport"),
        ),
        (
            "tcp.seq_raw",
            Some(segment.sequence.into()),
            row.number("tcp.seq_raw"),
        ),
        (
            "tcp.ack_raw",
            Some(segment.acknowledgement.into()),
            row.number("tcp.ack_raw"),
        ),
        ("tcp.flags", Some(segment.flags.0.into()), row.number("tcp.flags")),
        (
            "tcp.window_size_value",
            Some(segment.window.into()),
            row.number("tcp.window_size_value"),
        ),
        (
            "tcp.len",
            Some(segment.payload_len.into()),
            row.number("tcp.len").or(is_fragment.then_some(0)),
        ),
        ("mss", options.mss.map(u64::from), in_syn("tcp.options.mss_val")),
        (
            "wscale",
            options.window_scale.map(u64::from),
            in_syn("tcp.options.wscale.shift").map(|shift| shift.min(14)),
        ),
        (
            "tsval",
            options.timestamps.map(|stamps| stamps.value.into()),
            // Of half an option tshark prints the half.
            row.number("tcp.options.timestamp.tsval")
                .filter(|_| row.last("tcp.options.timestamp.tsecr").is_some()),
        ),
        (
            "tsecr",
            options.timestamps.map(|stamps| stamps.echo.into()),
            row.number("tcp.options.timestamp.tsecr"),
        ),
    ] {
        if ours != theirs {
            differ(field, &ours, &theirs);
        }
    }
    let permitted = is_syn && row.last("tcp.options.sack_perm").is_some();
    if options.sack_permitted != permitted {
        differ("sack_perm", &options.sack_permitted, &permitted);
    }
    let edges = |field| {
        row.all(field)
            .into_iter()
            .map(|edge| edge.parse().expect("a number"))
    };
    let theirs: Vec<(u32, u32)> = edges("tcp.options.sack_le")
        .zip(edges("tcp.options.sack_re"))
        .collect();
    if options.sack.as_slice() != theirs {
        differ("sack", &options.sack.as_slice(), &theirs);
    }
    // 0: bad, 1: good, 2: not verified. Of what it calls bad we leave out what offloading explains.
    match (segment.bad_checksum, row.number("tcp.checksum.status")) {
        (Some(true), Some(0)) | (Some(false), Some(1)) | (None, Some(0 | 2)) | (None, None) => {}
        (ours, theirs) => differ("bad checksum", &ours, &theirs),
    }
}

fn nanoseconds(text: &str) -> u64 {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let seconds: u64 = seconds.parse().expect("seconds");
    seconds * 1_000_000_000 + format!("{fraction:0<9}").parse::<u64>().expect("nanoseconds")
}

/// Its fields of each frame, a frame a line.
fn tshark(file: &Path) -> String {
    let mut command = Command::new("tshark");
    command
        .arg("-n")
        .arg("-r")
        .arg(file)
        .args(["-T", "fields", "-E", "occurrence=a", "-E", "separator=/t"]);
    for preference in [
        "tcp.relative_sequence_numbers:FALSE",
        "tcp.check_checksum:TRUE",
        "ip.defragment:FALSE",
        "ipv6.defragment:FALSE",
    ] {
        command.args(["-o", preference]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark");
    // It complains of files that are cut, and goes on.
    String::from_utf8(output.stdout).expect("text")
}
