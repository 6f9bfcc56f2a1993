//! The format of xplot, as tcptrace 6.6 writes it: one panel of one direction per file.
//!
//! Times are seconds since the connection's first packet, sequence numbers are relative, as with `tcptrace -zxy`. What
//! tcptrace does not have (our events and estimates) is in magenta; segments are marked as sent again (R) and as out of
//! order (O) by the rules of tshark.

use super::GraphPanel;
use super::caption::left_out;
use super::derived::{Rates, windows};
use super::estimate::estimates;
use super::shapes::{is_repeated, paint_of, sign_of};
use super::view::{DirectionView, View};
use crate::output::endpoint;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::Sign;
use sockeye_trace::{Direction, MarkKind};
use std::fmt;
use std::io::{self, Write};

pub(super) fn write(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    let (Some(panel), Some(direction)) = (view.panels().first().copied(), view.directions.first()) else {
        return Ok(());
    };
    let (title, y_label) = match panel {
        GraphPanel::Sequence => ("time sequence graph", "sequence offset"),
        GraphPanel::InFlight => ("outstanding data", "Outstanding Data (bytes)"),
        GraphPanel::RoundTrip => ("rtt samples", "rtt (ms)"),
        GraphPanel::Throughput => ("throughput", "thruput (bytes/sec)"),
        GraphPanel::Window => ("receive window", "window (bytes)"),
        GraphPanel::SegmentSize => ("segment size graph", "segment size (bytes)"),
    };
    let connection = view.connection;
    let (from, to) = match direction.orientation {
        Direction::Forward => (connection.client, connection.server),
        Direction::Backward => (connection.server, connection.client),
    };
    let (from, to) = (endpoint::text(from), endpoint::text(to));
    let left_out = left_out(view).map_or_else(String::new, |text| format!("; {text}"));
    write!(
        out,
        "dtime signed\ntitle\n{from}_==>_{to} ({title}){left_out}\nxlabel\nrelative time\nylabel\n{y_label}\n"
    )?;
    match panel {
        GraphPanel::Sequence => write_sequence(out, direction)?,
        GraphPanel::InFlight => {
            let window = windows(direction);
            writeln!(out, "yellow")?;
            write_line(out, window.into_iter())?;
            writeln!(out, "red")?;
            write_line(
                out,
                direction
                    .side
                    .in_flight
                    .iter()
                    .map(|point| (point.0, u64::from(point.1))),
            )?;
            let estimates = estimates(direction);
            if !estimates.is_empty() {
                writeln!(out, "magenta")?;
            }
            for one in estimates {
                let (from, until) = (Seconds(one.from_ns), Seconds(one.until_ns));
                writeln!(out, "line {from} {0} {until} {0}", one.bytes)?;
            }
        }
        GraphPanel::RoundTrip => {
            writeln!(out, "red")?;
            let mut before: Option<(u64, u64)> = None;
            for &(time, rtt) in &direction.side.rtt {
                writeln!(out, "dot {} {}", Seconds(time), Millis(rtt))?;
                if let Some((earlier, other)) = before {
                    let (at, was) = (Seconds(earlier), Millis(other));
                    writeln!(out, "line {} {} {at} {was}", Seconds(time), Millis(rtt))?;
                }
                before = Some((time, rtt));
            }
        }
        GraphPanel::Throughput => {
            let rates = Rates::of(direction, view.time);
            for (color, points) in [("blue", rates.acknowledged), ("red", rates.sent)] {
                writeln!(out, "{color}")?;
                write_line(
                    out,
                    points.into_iter().map(|(time, bits)| (time, (bits / 8.0) as u64)),
                )?;
            }
        }
        GraphPanel::Window => {
            writeln!(out, "yellow")?;
            write_line(out, windows(direction).into_iter())?;
        }
        GraphPanel::SegmentSize => {
            for segment in &direction.side.segments {
                let color = if is_repeated(segment) { "red" } else { "white" };
                let len = segment.end.saturating_sub(segment.start);
                writeln!(out, "dot {} {len} {color}", Seconds(segment.time_ns))?;
            }
        }
    }
    writeln!(out, "go")
}

fn write_sequence(out: &mut impl Write, direction: &DirectionView<'_>) -> io::Result<()> {
    let side = &*direction.side;
    for segment in &side.segments {
        let (at, start, end) = (Seconds(segment.time_ns), segment.start, segment.end);
        match paint_of(segment.flags) {
            Paint::Retransmitted | Paint::Spurious => write!(out, "red\natext {at} {end}\nR\n")?,
            Paint::Reordered => write!(out, "pink\natext {at} {end}\nO\n")?,
            _ => writeln!(out, "white")?,
        }
        writeln!(out, "darrow {at} {start}")?;
        if segment.is_pushed {
            write!(out, "diamond {at} {end} white\ndot {at} {end} white\n")?;
        } else {
            writeln!(out, "uarrow {at} {end}")?;
        }
        if end > start {
            writeln!(out, "line {at} {start} {at} {end}")?;
        }
    }
    let mut before: Option<(u64, u64)> = None;
    writeln!(out, "green")?;
    for ack in &side.acks {
        if let Some((earlier, sequence)) = before {
            let at = Seconds(ack.time_ns);
            writeln!(out, "line {} {sequence} {at} {sequence}", Seconds(earlier))?;
            if ack.is_duplicate || ack.sequence == sequence {
                writeln!(out, "dtick {at} {}", ack.sequence)?;
            } else {
                writeln!(out, "line {at} {sequence} {at} {}", ack.sequence)?;
            }
        }
        before = Some((ack.time_ns, ack.sequence));
    }
    let mut before: Option<(u64, u64)> = None;
    writeln!(out, "yellow")?;
    for window in &side.windows {
        if let Some((earlier, sequence)) = before {
            let at = Seconds(window.time_ns);
            writeln!(out, "line {} {sequence} {at} {sequence}", Seconds(earlier))?;
            if window.sequence == sequence {
                writeln!(out, "utick {at} {sequence}")?;
            } else {
                writeln!(out, "line {at} {sequence} {at} {}", window.sequence)?;
            }
        }
        before = Some((window.time_ns, window.sequence));
    }
    for mark in &side.marks {
        let (at, sequence, end) = (Seconds(mark.time_ns), mark.sequence, mark.end);
        match sign_of(mark.kind).1 {
            _ if mark.kind == MarkKind::Sack => {
                write!(
                    out,
                    "purple\nline {at} {sequence} {at} {end}\nhtick {at} {sequence}\nhtick {at} {end}\n"
                )?;
                write!(out, "atext {at} {end}\nS\n")?;
            }
            Sign::Letter(letter) => write!(
                out,
                "orange\ndiamond {at} {sequence}\natext {at} {end}\n{letter}\n"
            )?,
            Sign::Diamond | Sign::Bar => {}
        }
    }
    for event in &direction.events {
        let at = side
            .segments
            .partition_point(|segment| segment.time_ns < event.time_ns);
        let sequence = side
            .segments
            .get(at)
            .or(side.segments.last())
            .map_or(0, |segment| segment.start);
        write!(
            out,
            "magenta\nbtext {} {sequence}\n{}\n",
            Seconds(event.time_ns),
            event.kind.name()
        )?;
    }
    Ok(())
}

/// Writes a straight line through points, with a dot at each.
fn write_line(out: &mut impl Write, points: impl Iterator<Item = (u64, u64)>) -> io::Result<()> {
    let mut before: Option<(u64, u64)> = None;
    for (time, value) in points {
        writeln!(out, "dot {} {value}", Seconds(time))?;
        if let Some((earlier, other)) = before {
            writeln!(out, "line {} {other} {} {value}", Seconds(earlier), Seconds(time))?;
        }
        before = Some((time, value));
    }
    Ok(())
}

/// Nanoseconds, shown as seconds with six decimals, as tcptrace does.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}.{:06}",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000 / 1_000
        )
    }
}

/// Nanoseconds, shown as milliseconds.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{:03}", self.0 / 1_000_000, self.0 % 1_000_000 / 1_000)
    }
}
