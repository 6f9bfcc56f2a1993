//! Lines that the server logs, and sends to clients that ask for its output.

use crate::outcome::{Interval, Outcome, StreamOutcome, total};
use crate::{Direction, Parameters};
use sockeye_load::Transport;

/// Returns the log line of a test that begins.
pub(crate) fn request_line(parameters: &Parameters) -> String {
    let protocol = match parameters.protocol {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
    };
    let direction = match parameters.direction {
        Direction::ToServer => "receiving",
        Direction::ToClient => "sending",
        Direction::Both => "both directions",
    };
    let until = match (parameters.bytes, parameters.blocks, parameters.time_s) {
        (0, 0, 0) => "until the client ends it".to_owned(),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, blocks, _) => format!("{blocks} blocks"),
        (bytes, ..) => format!("{bytes} bytes"),
    };
    let s = if parameters.streams == 1 { "" } else { "s" };
    let version = parameters.version.as_deref().unwrap_or("of unknown version");
    format!(
        "iperf3 client {version}: {protocol}, {direction}, {} stream{s}, {until}",
        parameters.streams
    )
}

/// Returns the log lines of a test that ended, one per direction.
pub(crate) fn result_lines(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    for sends in outcome.directions() {
        let (word, bytes) = if sends {
            ("sent", outcome.sent(sends))
        } else {
            ("received", outcome.received(sends))
        };
        let bytes = bytes.unwrap_or(0);
        let rate = bytes as f64 * 8e-6 / outcome.seconds.max(1e-9);
        let mut line = format!(
            "{word} {bytes} bytes in {:.2} s, {rate:.1} Mbit/s",
            outcome.seconds
        );
        if outcome.setup.parameters.protocol == Transport::Udp && !sends {
            let sum = |of: &dyn Fn(&StreamOutcome) -> u64| total(outcome.streams_of(false).map(of));
            let (missing, highest) = (sum(&|stream| stream.missing), sum(&|stream| stream.packets));
            line.push_str(&format!(", {missing} of {highest} datagrams lost"));
        }
        lines.push(line);
    }
    if let Some(error) = &outcome.error {
        lines.push(format!("not to its end: {error}"));
    }
    lines
}

/// Returns the text for clients that show the output of the server.
pub(crate) fn summary(intervals: &[Interval]) -> String {
    let mut text = format!("sockeye {}\n", env!("CARGO_PKG_VERSION"));
    for interval in intervals {
        for (sends, word) in [(true, "sent"), (false, "received")] {
            if interval.streams.iter().any(|stream| stream.sends == sends) {
                let bytes = interval.bytes(sends);
                let rate = bytes as f64 * 8e-6 / interval.seconds.max(1e-9);
                let (from, to) = (interval.start_s, interval.start_s + interval.seconds);
                text.push_str(&format!(
                    "{from:.2}-{to:.2} s: {word} {bytes} bytes, {rate:.1} Mbit/s\n"
                ));
            }
        }
    }
    text
}
