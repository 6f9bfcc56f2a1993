//! What follows the table: the way with its times as widths, and the sentences.

use super::columns::HopRow;
use super::standing::{Standing, standing};
use sockeye_measure::Sentence;
use sockeye_model::counted_were;
use sockeye_output::report::push_sentence;
use sockeye_output::wrap::push_wrapped;
use sockeye_path::{HopKind, PathReport};

/// Appends the picture, which packets the numbers are of, and the sentences.
pub(crate) fn push_text(
    out: &mut Vec<u8>,
    rows: &[HopRow<'_>],
    report: &PathReport,
    sentences: &[Sentence],
    width: Option<usize>,
    sees_accepts: bool,
) {
    push_bars(out, rows, width.unwrap_or(WIDTH));
    push_standing(out, rows, width.unwrap_or(WIDTH));
    out.push(b'\n');
    if report.followed() > 0 {
        push_wrapped(out, packets(report).as_bytes(), "", width);
    }
    for sentence in sentences {
        push_sentence(out, sentence, width);
    }
    push_unmeasured(out, rows, width, sees_accepts);
}

/// Says what the kernel does not show of hops that are in the table.
fn push_unmeasured(out: &mut Vec<u8>, rows: &[HopRow<'_>], width: Option<usize>, sees_accepts: bool) {
    let has = |kinds: &[HopKind]| rows.iter().any(|row| kinds.contains(&row.hop.key.kind));
    if has(&[HopKind::Accept]) && !sees_accepts {
        push_wrapped(out, ACCEPT.as_bytes(), "", width);
    }
    if has(&[HopKind::Program]) {
        push_wrapped(out, CALLS.as_bytes(), "", width);
    }
    if has(&[HopKind::Forward]) {
        push_wrapped(out, NETFILTER.as_bytes(), "", width);
    }
}

const ACCEPT: &str = "Not measured: the time in accept queues. What the first request of a connection waits there is in 'socket'.";
const CALLS: &str = "Not measured apart: what the calls of a program take before the first and after the last point of a packet's way, which is in 'program'.";
const NETFILTER: &str = "Not measured apart: netfilter's hooks forward and postrouting, which are in 'forward': the kernel has no tracepoint between them.";

/// Appends a line for each hop, as long as its part of the time, where the one before ends.
fn push_bars(out: &mut Vec<u8>, rows: &[HopRow<'_>], width: usize) {
    let rows: Vec<_> = rows.iter().filter(|row| row.hop.part.is_none()).collect();
    let labels: Vec<_> = rows.iter().map(|row| row.label()).collect();
    let longest = labels.iter().map(String::len).max().unwrap_or(0);
    let columns = width.saturating_sub(longest + 3);
    if columns < COLUMNS_MIN || rows.len() < 2 {
        return;
    }
    out.push(b'\n');
    let mut before_ppm = 0;
    for (row, label) in rows.iter().zip(&labels) {
        let share_ppm = row.share_ppm.unwrap_or(0);
        let column = |ppm: u64| (ppm as usize * columns) / 1_000_000;
        let (from, to) = (column(before_ppm), column(before_ppm + share_ppm));
        let mark = if share_ppm == 0 { "" } else { "|" };
        let bar = if to > from {
            "=".repeat(to - from)
        } else {
            mark.to_owned()
        };
        out.extend_from_slice(format!("{label:longest$}  {}{bar}\n", " ".repeat(from)).as_bytes());
        before_ppm += share_ppm;
    }
}

/// Appends a line for each queue that stands still: how full it is, with how much, and for how long.
fn push_standing(out: &mut Vec<u8>, rows: &[HopRow<'_>], width: usize) {
    let standing: Vec<_> = rows.iter().filter_map(standing).collect();
    let longest = |of: fn(&Standing) -> usize| standing.iter().map(of).max().unwrap_or(0);
    let (labels, texts) = (longest(|one| one.label.len()), longest(|one| one.text.len()));
    let columns = width.saturating_sub(labels + texts + 6).min(BUFFER_COLUMNS);
    if standing.is_empty() || columns < BUFFER_COLUMNS_MIN {
        return;
    }
    out.push(b'\n');
    for one in &standing {
        let filled = match one.percent {
            Some(percent) => {
                let filled = "#".repeat((usize::from(percent) * columns).div_ceil(100));
                format!("[{filled:.<columns$}]")
            }
            // How much fits is not known.
            None => " ".repeat(columns + 2),
        };
        out.extend_from_slice(format!("{:labels$}  {filled}  {}\n", one.label, one.text).as_bytes());
    }
}

/// Says of how many packets the numbers are.
fn packets(report: &PathReport) -> String {
    let sample = match report.sample_every {
        1 => String::new(),
        every => format!(", one of {every}"),
    };
    let matched = report.matched_ppm().map_or(String::new(), |ppm| {
        format!(
            "; {}.{} % of those that have ended were followed to their end",
            ppm / 10_000,
            ppm / 1_000 % 10
        )
    });
    let parts = [
        (
            report.merged,
            [
                "not seen to be read: merged into another one in a receive queue, or thrown away with its socket",
                "not seen to be read: merged into others in a receive queue, or thrown away with their socket",
            ],
        ),
        (
            report.divided,
            match report.sample_every {
                1 => ["divided into segments, which are followed from there on"; 2],
                _ => ["divided into segments, of which those of UDP are not followed"; 2],
            },
        ),
        (
            report.reassembled,
            [
                "the first fragment of a packet, and followed only until its fragments were reassembled",
                "first fragments of packets, and followed only until their fragments were reassembled",
            ],
        ),
        (report.lost, ["lost sight of"; 2]),
        (
            report.unfinished,
            ["still on its way at the end", "still on their way at the end"],
        ),
    ];
    let parts: String = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, [one, many])| match count {
            1 => format!("; 1 was {one}"),
            _ => format!("; {count} were {many}"),
        })
        .collect();
    let followed = counted_were(report.followed(), "packet");
    format!("{followed} followed{sample}{matched}{parts}.")
}

/// Without a terminal.
const WIDTH: usize = 80;
const COLUMNS_MIN: usize = 20;
/// How wide the picture of a buffer is, and at least.
const BUFFER_COLUMNS: usize = 24;
const BUFFER_COLUMNS_MIN: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_path::{AcceptFold, Part, QueueFold};

    #[test]
    fn every_end_but_the_usual_one_is_counted() {
        let mut report = PathReport {
            complete: 97,
            sample_every: 1,
            ..PathReport::default()
        };
        let usual = "97 packets were followed; 100.0 % of those that have ended were followed to their end.";
        assert_eq!(packets(&report), usual);
        (report.lost, report.unfinished) = (3, 2);
        assert_eq!(
            packets(&report),
            "102 packets were followed; 97.0 % of those that have ended were followed to their end; \
             3 were lost sight of; 2 were still on their way at the end."
        );
    }

    #[test]
    fn one_packet_is_in_the_singular() {
        let report = PathReport {
            unfinished: 1,
            sample_every: 1,
            ..PathReport::default()
        };
        assert_eq!(
            packets(&report),
            "1 packet was followed; 1 was still on its way at the end."
        );
    }

    /// Whose packets no socket got, as far as was seen.
    #[test]
    fn first_fragments_are_not_followed_to_their_end() {
        let report = PathReport {
            complete: 1,
            reassembled: 999,
            sample_every: 1,
            ..PathReport::default()
        };
        let text = packets(&report);
        let expected =
            "; 0.1 % of those that have ended were followed to their end; 999 were first fragments";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn what_is_not_measured_is_said() {
        let mut queues = QueueFold::default();
        let listener = Part::Listener {
            local: ([127, 0, 0, 1], 80).into(),
            netns: None,
            limit: None,
        };
        queues.add_listener(listener, 3);
        let mut report = PathReport::default();
        let text = |report: &PathReport| {
            let rows: Vec<HopRow<'_>> = report.hops.iter().map(HopRow::alone).collect();
            let mut out = Vec::new();
            push_unmeasured(&mut out, &rows, None, false);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&report), "");
        report.add_queues(&queues, &AcceptFold::default());
        assert_eq!(text(&report), format!("{ACCEPT}\n"));
    }
}
