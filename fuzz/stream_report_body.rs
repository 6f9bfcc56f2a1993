//! Body of the fuzz target `stream_reports`, and of the test that replays its corpus: figures that the other end of a benchmark
//! sent, in the report. It is a module of `sockeye_bench::stream`.

use super::output::fill;
use sockeye_load::Transport;
use sockeye_load::session::Connector;
use sockeye_load::stream::{Direction, Plan, Until};
use sockeye_measure::{
    Datagrams, DeviceNumbers, DeviceWork, End, Interval, Report, Sender, Side, StreamTransfer, Transfer,
    TypedCommand, Work,
};
use sockeye_output::{Format, ReportLayout, Style, push_report};
use std::time::Duration;

/// The first byte chooses the plan; the others are figures, and a text.
pub fn stream_reports(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else {
        return;
    };
    let mut figures = Figures(bytes);
    let transport = if first & 1 == 0 {
        Transport::Tcp
    } else {
        Transport::Udp
    };
    let plan = Plan {
        direction: [Direction::Send, Direction::Receive, Direction::Both][usize::from(first / 2 % 3)],
        streams: 2,
        until: Until::Time(Duration::from_secs(1)),
        omit: Duration::ZERO,
        transport,
        length: (first & 64 != 0).then_some(1400),
        window: (first & 128 != 0).then_some(65_536),
        congestion: None,
        our_processor: None,
        their_processor: None,
        rate: (first & 32 != 0).then_some(1_000_000),
        skips_copy: false,
        interval: Duration::from_secs(1),
    };
    let outcomes = [
        transfer(&mut figures, transport),
        transfer(&mut figures, transport),
    ];
    let connector = Connector {
        host: "host".to_owned(),
        port: 5210,
        is_v6: None,
        timeout: Duration::from_secs(1),
        from: None,
        secret: None,
    };
    let again = TypedCommand::new("sockeye bench stream", "host");
    for (format, count) in [
        (Format::Table, 1),
        (Format::Json, 2),
        (Format::Jsonl, 1),
        (Format::Csv, 2),
    ] {
        let mut report = Report::new("stream");
        fill(
            &mut report,
            &plan,
            &connector,
            &again,
            &outcomes[..count],
            format == Format::Table,
        );
        let layout = ReportLayout {
            format,
            style: Style::Plain,
            width: (first & 8 != 0).then_some(60),
            no_header: first & 16 != 0,
            ..ReportLayout::default()
        };
        let mut out = Vec::new();
        push_report(&mut out, &report, layout);
        let text = std::str::from_utf8(&out).expect("text");
        let is_harmless = |c: char| !c.is_control() || c == '\n' || (format == Format::Csv && c == '\r');
        assert!(text.chars().all(is_harmless), "{text:?}");
        assert!(out.len() <= 64 << 10, "{}", out.len());
    }
}

fn transfer(figures: &mut Figures<'_>, transport: Transport) -> Transfer {
    let text = figures.text();
    let streams = (0..4).map(|number| StreamTransfer {
        number: number / 2,
        is_sent: number % 2 == 0,
        local: None,
        peer: None,
        sent: figures.has().then(|| Side::find(|_| figures.next())),
        received: figures.has().then(|| Side::find(|_| figures.next())),
        sender: (transport == Transport::Tcp).then(|| Sender::find(|_| figures.next())),
        datagrams: (transport == Transport::Udp).then(|| Datagrams::find(|_| figures.next())),
    });
    let streams = streams.collect();
    let mut end = || End {
        work: Work::find(|_| figures.next()),
        devices: vec![DeviceWork {
            name: text.clone(),
            queue: Some(text.clone()),
            numbers: DeviceNumbers::find(|_| figures.next()),
        }],
        congestion: Some(text.clone()),
        program: Some(text.clone()),
    };
    let (ours, theirs) = (end(), end());
    Transfer {
        local: None,
        peer: None,
        streams,
        intervals: (0..3)
            .map(|second| Interval {
                from_us: second * 1_000_000,
                until_us: (second + 1) * 1_000_000,
                is_sent: second != 1,
                bytes: figures.next().unwrap_or(0),
                retransmitted_segs: figures.next(),
                rtt_us: figures.next(),
                cwnd_bytes: figures.next(),
                lost_datagrams: figures.next(),
            })
            .collect(),
        ours,
        theirs: Some(theirs),
        partial: None,
    }
}

/// Bytes as figures: small ones, any, and those near the largest.
struct Figures<'a>(&'a [u8]);

impl Figures<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    fn has(&mut self) -> bool {
        !self.byte().is_multiple_of(4)
    }

    fn next(&mut self) -> Option<u64> {
        match self.byte() % 5 {
            0 => None,
            1 => Some(self.byte().into()),
            2 => Some(u64::MAX - u64::from(self.byte())),
            3 => Some(1 << (self.byte() % 64)),
            _ => {
                let (number, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                Some(u64::from_be_bytes(*number))
            }
        }
    }

    fn text(&mut self) -> String {
        let len = usize::from(self.byte() % 32).min(self.0.len());
        let (text, rest) = self.0.split_at(len);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}

#[cfg(test)]
#[path = "replay.rs"]
mod replay;

#[test]
fn corpus_is_reported_without_panics() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "stream_reports", stream_reports);
}

#[test]
fn figures_of_a_hostile_peer_add_up_without_overflow() {
    for first in 0..=u8::MAX {
        // No text; then figures near the largest.
        let figures = [2, 0].repeat(2000);
        stream_reports(&[&[first, 0, 1][..], &figures].concat());
        stream_reports(&[&[first, 0], &figures[1..]].concat());
    }
}
