//! Several captures of one transfer: where segments were lost, and where the delay is.

use super::args::{AnalyzeArgs, TOP};
use crate::input::{CaptureItem, CaptureReader, ReportedSegments, Selection, skipped};
use crate::output::{AnalysisLayout, ComparedCapture, ComparedDirection, Comparison};
use anyhow::Context;
use sockeye_console::stdout;
use sockeye_trace::{Connection, Endpoint, Paired, PairedDirection, Pairing, Side};
use std::collections::HashMap;
use std::io::Write as _;
use std::process::ExitCode;

/// Reads each capture once, and compares it with the one before it.
pub(super) fn run(
    args: &AnalyzeArgs,
    selection: &Selection,
    layout: &AnalysisLayout,
) -> anyhow::Result<ExitCode> {
    let mut captures: Vec<(ComparedCapture, Directions)> = Vec::new();
    let mut pairs: Vec<Paired> = Vec::new();
    let mut before: Option<Pairing> = None;
    let mut interrupted = None;
    for file in &selection.files {
        let mut reader = CaptureReader::open(file, args.jobs)?;
        let mut directions = Directions::default();
        let mut next = Pairing::new();
        let outcome = reader.run(ReportedSegments::All, &mut |item| {
            match item {
                CaptureItem::Segment(found) => {
                    let (from, to) = Endpoint::both(found.segment);
                    if selection.matches(from, to) {
                        if let Some(before) = &mut before {
                            before.second(found.frame, found.time_ns, found.segment);
                        }
                        next.first(found.frame, found.time_ns, found.segment);
                    }
                }
                CaptureItem::Connection(finished, _) => directions.add(finished.connection),
            }
            Ok(())
        });
        let tally = reader.tally();
        skipped::report(&reader, &tally);
        outcome?;
        pairs.extend(before.replace(next).map(Pairing::finish));
        let name = reader.name().to_owned();
        let interfaces = reader.interfaces();
        let capture = ComparedCapture {
            name,
            tally,
            interfaces,
        };
        captures.push((capture, directions));
        interrupted = reader.interrupted();
        if interrupted.is_some() {
            // With two captures there is something to compare.
            if captures.len() < 2 {
                return Ok(interrupted.unwrap_or(ExitCode::FAILURE));
            }
            break;
        }
    }
    let top = args.top.unwrap_or(match layout.format {
        sockeye_output::Format::Table => TOP,
        _ => usize::MAX,
    });
    let mut comparisons = Vec::new();
    for (neighbours, paired) in captures.windows(2).zip(&pairs) {
        let [(_, first), (_, second)] = neighbours else {
            continue;
        };
        comparisons.push(Comparison {
            offset_ns: paired.offset_ns,
            is_offset_measured: paired.is_offset_measured,
            left_out: paired.left_out,
            have_common: paired.directions.iter().any(|pair| pair.both > 0),
            directions: paired
                .directions
                .iter()
                .take(top)
                .map(|pair| compared(pair, first, second))
                .collect(),
            more: paired.directions.len().saturating_sub(top),
        });
    }
    let captures: Vec<ComparedCapture> = captures.into_iter().map(|(capture, _)| capture).collect();
    let mut out = Vec::new();
    crate::output::push_comparisons(&mut out, &captures, &comparisons, layout);
    stdout::open()
        .and_then(|mut stdout| stdout.write_all(&out))
        .context(stdout::WRITING)?;
    Ok(interrupted.unwrap_or(ExitCode::SUCCESS))
}

/// Adds the figures of the capture nearer to the sender.
fn compared<'a>(pair: &'a PairedDirection, first: &Directions, second: &Directions) -> ComparedDirection<'a> {
    let key = (pair.source, pair.destination);
    let (nearer, key) = match pair.translated {
        _ if pair.is_first_nearer => (first, key),
        Some([source, destination]) => (second, (source, destination)),
        None => (second, key),
    };
    let sender = nearer.0.get(&key);
    ComparedDirection {
        pair,
        bytes: sender.map(|side| side.bytes),
        // Every loss that the nearer capture shows, wherever after it on the path it happened.
        lost_in_all: sender.map(|side| side.judgements.lost),
        lost_before: sender.map(|side| side.judgements.lost_before),
        rtt: sender.map(|side| side.rtt).filter(|rtt| rtt.count > 0),
    }
}

/// Directions of connections, by source and destination; of several with the same, the one with most packets.
#[derive(Debug, Default)]
struct Directions(HashMap<Key, Side>);

type Key = ((std::net::IpAddr, u16), (std::net::IpAddr, u16));

impl Directions {
    fn add(&mut self, connection: Connection) {
        let (client, server) = (key(connection.client), key(connection.server));
        for (key, side) in [
            ((client, server), connection.forward),
            ((server, client), connection.backward),
        ] {
            let fits = self.0.len() < DIRECTIONS_MAX || self.0.contains_key(&key);
            if fits && self.0.get(&key).is_none_or(|known| known.packets < side.packets) {
                self.0.insert(key, side);
            }
        }
    }
}

fn key(end: Endpoint) -> (std::net::IpAddr, u16) {
    (end.ip, end.port)
}

/// Limit for directions with figures; for others, only the comparison is shown.
const DIRECTIONS_MAX: usize = 100_000;
