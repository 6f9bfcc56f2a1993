//! A connection as text: its ends and figures, what limited it, and on request every detail.

use super::counts::{completeness_words, judgements_of};
use super::exchanges::{details, turn_shares};
use super::quantity::{bytes, human, queries, time};
use super::sentence::{is_application_limited, is_forward_main, sentences, times_of};
use super::shares::percent;
use super::{AnalysisLayout, EndOwners};
use crate::output::endpoint;
use sockeye_model::counted;
use sockeye_output::format::Style;
use sockeye_output::text::harmless;
use sockeye_output::wrap::push_wrapped;
use sockeye_trace::{
    Confidence, Connection, Direction, Event, EventKind, FindingKind, Flag, Limit, Percentiles, Side,
    Vantage, findings, icmp_name,
};

pub(super) fn push(out: &mut Vec<u8>, connection: &Connection, owners: &EndOwners, layout: &AnalysisLayout) {
    push_heading(out, connection, layout);
    let known: Vec<String> = [("client", &owners.client), ("server", &owners.server)]
        .into_iter()
        .filter_map(|(end, owner)| Some(format!("{end}: {}", harmless(owner.as_deref()?.as_bytes()))))
        .collect();
    if !known.is_empty() {
        push_wrapped(out, known.join("  ").as_bytes(), "  ", layout.width);
    }
    for sentence in sentences(connection) {
        push_wrapped(out, sentence.as_bytes(), "  ", layout.width);
    }
    let main = connection.side(shown_direction(connection));
    if layout.is_detailed {
        push_details(out, connection, layout);
    } else if let Some(text) = shares(main) {
        push_wrapped(out, format!("time: {text}").as_bytes(), "  ", layout.width);
        if is_application_limited(main)
            && let Some(turns) = turn_shares(&connection.exchanges.times)
        {
            push_wrapped(out, format!("turns: {turns}").as_bytes(), "  ", layout.width);
        }
    }
    out.push(b'\n');
}

fn push_heading(out: &mut Vec<u8>, connection: &Connection, layout: &AnalysisLayout) {
    let mut line = format!(
        "{} -> {}  {}",
        endpoint::text(connection.client),
        endpoint::text(connection.server),
        time(connection.end_ns.saturating_sub(connection.begin_ns))
    );
    line.push_str(&format!(
        "  {} sent, {} received",
        bytes(connection.forward.bytes),
        bytes(connection.backward.bytes)
    ));
    let main = if is_forward_main(connection) {
        &connection.forward
    } else {
        &connection.backward
    };
    if let Some(rate) = main.throughput_bit_per_s {
        line.push_str(&format!("  {}bit/s", human(rate)));
    }
    line.push_str(&format!("  (connection {})", connection.number));
    let begin = out.len();
    push_wrapped(out, line.as_bytes(), "", layout.width);
    if layout.style == Style::Color {
        let end = out.len() - 1;
        out.splice(end..end, b"\x1b[0m".iter().copied());
        out.splice(begin..begin, b"\x1b[1m".iter().copied());
    }
}

/// Returns the direction of the most important finding if it is a fault, else the one with most data.
fn shown_direction(connection: &Connection) -> Direction {
    let all = findings(connection);
    let first = all.first().filter(|finding| !finding.is_minor);
    let opposite = |direction| match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    };
    match first {
        // What the other end sent to it waited.
        Some(finding) if finding.kind == FindingKind::PeerVanished => opposite(finding.direction),
        Some(finding) if connection.side(finding.direction).bytes > 0 => finding.direction,
        _ => connection.main_direction(),
    }
}

/// Returns `congestion window 54%, application 40%, setup 6%`.
fn shares(side: &Side) -> Option<String> {
    let percent = percent(&side.whole_shares())?;
    let mut parts: Vec<_> = Limit::ALL.into_iter().zip(percent).collect();
    parts.sort_by_key(|(_, share)| std::cmp::Reverse(*share));
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, share)| *share > 0)
        .map(|(limit, share)| format!("{share}% {}", words(limit)))
        .collect();
    Some(parts.join(", "))
}

fn words(limit: Limit) -> &'static str {
    match limit {
        Limit::Setup => "connection setup",
        Limit::Application => "nothing to send",
        Limit::ReceiverWindow => "receiver's window",
        Limit::SendBuffer => "send buffer",
        Limit::CongestionWindow => "congestion window or path",
        Limit::FastRecovery => "fast recovery",
        Limit::Timeout => "retransmission timeouts",
    }
}

fn push_details(out: &mut Vec<u8>, connection: &Connection, layout: &AnalysisLayout) {
    let mut line = |name: &str, text: String| {
        push_wrapped(out, format!("{name}: {text}").as_bytes(), "  ", layout.width);
    };
    let captured: Vec<_> = completeness_words(connection.completeness).collect();
    line(
        "captured",
        format!(
            "{} (completeness {}), from frame {} at {}, {}",
            if captured.is_empty() {
                "nothing of beginning or end".to_owned()
            } else {
                captured.join(", ")
            },
            connection.completeness.0,
            connection.first_frame,
            seconds(connection.begin_ns),
            connection.ending.name().replace('_', " ")
        ),
    );
    if let Some(ns) = connection.handshake_ns {
        line("handshake", time(ns));
    }
    let known = |what: &str, is: Option<bool>| match is {
        Some(true) => format!("{what} yes"),
        Some(false) => format!("{what} no"),
        None => format!("{what} not captured"),
    };
    let negotiated = &connection.negotiated;
    line(
        "negotiated",
        [
            known("window scaling", negotiated.window_scaling),
            known("SACK", negotiated.sack),
            known("timestamps", negotiated.timestamps),
            known("ECN", negotiated.ecn),
        ]
        .join(", "),
    );
    for (name, text) in details(connection) {
        line(name, text);
    }
    if let Some(lookup) = &connection.lookup {
        line(
            "name lookup",
            format!(
                "{}, {} in {}",
                harmless(lookup.name.as_bytes()),
                queries(lookup.queries),
                time(lookup.took_ns)
            ),
        );
    }
    for report in &connection.icmp {
        let mtu = report.mtu.map_or_else(String::new, |mtu| format!(", MTU {mtu}"));
        line(
            "ICMP",
            format!(
                "{} by {} at {}, {}{mtu}",
                icmp_name(report.kind).replace('_', " "),
                report.reporter,
                seconds(report.time_ns),
                times_of(report.count)
            ),
        );
    }
    for (name, side) in [
        ("client to server", &connection.forward),
        ("server to client", &connection.backward),
    ] {
        push_side(&mut line, name, side);
    }
    for event in &connection.events {
        line("event", event_text(event));
    }
    if connection.events_left_out > 0 {
        line(
            "events",
            format!("{} more that exceed the limit", connection.events_left_out),
        );
    }
}

fn push_side(line: &mut impl FnMut(&str, String), name: &str, side: &Side) {
    let mut parts = vec![counted(side.packets, "segment"), bytes(side.bytes)];
    if side.bytes_sent > side.bytes {
        parts.push(format!("{} sent again", bytes(side.bytes_sent - side.bytes)));
    }
    if let Some(rate) = side.throughput_bit_per_s {
        parts.push(format!("{}bit/s", human(rate)));
    }
    if let Some(mss) = side.mss {
        parts.push(format!("MSS {mss}"));
    }
    if let Some(scale) = side.window_scale {
        parts.push(format!("window scale {scale}"));
    }
    if side.in_flight_max_bytes > 0 {
        parts.push(format!(
            "at most {} in flight",
            bytes(side.in_flight_max_bytes.into())
        ));
    }
    if let Some(mss) = side.mss
        && side.longest_segment > u32::from(mss)
    {
        parts.push(format!(
            "segments of up to {} (captured before segmentation offload, or after receive offload)",
            bytes(side.longest_segment.into())
        ));
    }
    match side.vantage {
        Vantage::Sender => parts.push("captured near the sender".to_owned()),
        Vantage::Between => parts.push("captured between both ends".to_owned()),
        Vantage::Receiver => parts.push("captured near the receiver".to_owned()),
        Vantage::Unknown => {}
    }
    line(name, parts.join(", "));
    if let Some(text) = shares(side) {
        line("  time", text);
    }
    if side.rtt.count > 0 {
        line("  round trips", round_trips(&side.rtt));
    }
    let flags: Vec<_> = Flag::ALL
        .into_iter()
        .zip(side.flags)
        .filter(|(_, count)| *count > 0)
        .map(|(flag, count)| format!("{} {count}", flag.name()))
        .collect();
    if !flags.is_empty() {
        line("  flags", flags.join(", "));
    }
    let judgements: Vec<_> = judgements_of(side)
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{} {count}", name.replace('_', " ")))
        .collect();
    if !judgements.is_empty() {
        line("  our judgement", judgements.join(", "));
    }
}

fn round_trips(rtt: &Percentiles) -> String {
    format!(
        "{} measured, min {}, median {}, 90% {}, 99% {}, max {}",
        rtt.count,
        time(rtt.min_ns),
        time(rtt.p50_ns),
        time(rtt.p90_ns),
        time(rtt.p99_ns),
        time(rtt.max_ns)
    )
}

/// Returns `12.345678 s, frame 4711, client: lost (proven: never SACKed, ...)`.
fn event_text(event: &Event) -> String {
    let mut text = seconds(event.time_ns);
    if event.frame > 0 {
        text.push_str(&format!(", frame {}", event.frame));
    }
    text.push_str(if event.from_client {
        ", client: "
    } else {
        ", server: "
    });
    text.push_str(&event.kind.name().replace('_', " "));
    match event.kind {
        EventKind::LossBurst { segments } => text.push_str(&format!(" of {segments} segments")),
        EventKind::Stall { duration_ns } | EventKind::WindowClosed { duration_ns } => {
            text.push_str(&format!(" for {}", time(duration_ns)));
        }
        _ => {}
    }
    text.push_str(match event.confidence {
        Confidence::Likely => " (likely: ",
        Confidence::Proven => " (proven: ",
    });
    text.push_str(event.evidence);
    text.push(')');
    text
}

/// Returns a time since the beginning of the capture, in seconds.
fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}
