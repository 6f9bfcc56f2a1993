//! Several captures of one transfer: between which of them it was lost, and where the delay is.

use super::gaps;
use super::reading::{Heard, Reading};
use super::{AnalyzeArgs, Words};
use crate::output::{AnalysisLayout, ComparedWay, Comparison, Place};
use anyhow::Context;
use sockeye_console::stdout;
use sockeye_trace::{Connection, Endpoint, Paired, PairedDirection, Pairing, Side};
use std::collections::HashMap;
use std::io::Write as _;
use std::process::ExitCode;

/// Each capture is read once, and compared with the one before it.
pub(super) fn run(args: &AnalyzeArgs, words: &Words, layout: &AnalysisLayout) -> anyhow::Result<ExitCode> {
    let mut places: Vec<(Place, Directions)> = Vec::new();
    let mut compared: Vec<Paired> = Vec::new();
    let mut before: Option<Pairing> = None;
    for file in &words.files {
        let mut reading = Reading::open(file)?;
        let mut sides = Directions::default();
        let mut next = Pairing::new();
        let outcome = reading.run(
            &mut |frame, time_ns, segment, ends| {
                if words.want(ends.0, ends.1) {
                    if let Some(before) = &mut before {
                        before.second(frame, time_ns, segment);
                    }
                    next.first(frame, time_ns, segment);
                }
            },
            &mut |heard| {
                if let Heard::Connection(finished, _) = heard {
                    let connection = finished.connection;
                    sides.note(connection);
                }
                Ok(())
            },
        );
        let tally = reading.tally();
        gaps::say(&reading, &tally);
        outcome?;
        if let Some(status) = reading.interrupted() {
            return Ok(status);
        }
        compared.extend(before.replace(next).map(Pairing::finish));
        let name = reading.name().to_owned();
        let interfaces = reading.interfaces();
        let place = Place {
            name,
            tally,
            interfaces,
        };
        places.push((place, sides));
    }
    let top = args.top.unwrap_or(match layout.format {
        sockeye_output::Format::Table => super::TOP,
        _ => usize::MAX,
    });
    let mut comparisons = Vec::new();
    for (pair, paired) in places.windows(2).zip(&compared) {
        let [(_, first), (_, second)] = pair else { continue };
        comparisons.push(Comparison {
            offset_ns: paired.offset_ns,
            is_offset_measured: paired.is_offset_measured,
            left_out: paired.left_out,
            have_common: paired.ways.iter().any(|way| way.both > 0),
            ways: paired
                .ways
                .iter()
                .take(top)
                .map(|way| told(way, first, second))
                .collect(),
            more: paired.ways.len().saturating_sub(top),
        });
    }
    let names: Vec<Place> = places.into_iter().map(|(place, _)| place).collect();
    let mut out = Vec::new();
    crate::output::push_comparisons(&mut out, &names, &comparisons, layout);
    stdout::open()
        .and_then(|mut stdout| stdout.write_all(&out))
        .context(stdout::WRITING)?;
    Ok(ExitCode::SUCCESS)
}

fn told<'a>(way: &'a PairedDirection, first: &Directions, second: &Directions) -> ComparedWay<'a> {
    let key = (way.source, way.destination);
    let (nearer, key) = match way.translated {
        _ if way.is_first_nearer => (first, key),
        Some([source, destination]) => (second, (source, destination)),
        None => (second, key),
    };
    let sender = nearer.0.get(&key);
    ComparedWay {
        way,
        bytes: sender.map(|side| side.bytes),
        // What the nearer capture knows of, wherever behind it that happened.
        lost_in_all: sender.map(|side| side.opinions.lost),
        lost_before: sender.map(|side| side.opinions.lost_before),
        rtt: sender.map(|side| side.rtt).filter(|rtt| rtt.count > 0),
    }
}

/// Directions of connections, by who sent to whom; of several between the same ports the one with most data.
#[derive(Debug, Default)]
struct Directions(HashMap<Key, Side>);

type Key = ((std::net::IpAddr, u16), (std::net::IpAddr, u16));

impl Directions {
    fn note(&mut self, connection: Connection) {
        let (client, server) = (key(connection.client), key(connection.server));
        for (key, side) in [
            ((client, server), connection.forward),
            ((server, client), connection.backward),
        ] {
            let is_room = self.0.len() < DIRECTIONS_MAX || self.0.contains_key(&key);
            if is_room && self.0.get(&key).is_none_or(|known| known.packets < side.packets) {
                self.0.insert(key, side);
            }
        }
    }
}

fn key(end: Endpoint) -> (std::net::IpAddr, u16) {
    (end.ip, end.port)
}

/// Directions whose figures are kept; of others only the comparison is told.
const DIRECTIONS_MAX: usize = 100_000;
