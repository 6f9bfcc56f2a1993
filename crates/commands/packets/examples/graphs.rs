//! Draws made-up transfers in every format into a folder, to be looked at: `cargo run --example graphs -- FOLDER [NAME]`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the crate is pure, this is not
#![allow(
    clippy::unwrap_used,
    reason = "an example that panics has failed, as it should"
)]

#[path = "../src/tests/transfers.rs"]
mod transfers;

use sockeye_output::GraphTheme;
use sockeye_packets::output::{GraphDirections, GraphFormat, GraphLayout, GraphPanel, write_graph};
use std::time::Instant;
use transfers::Transfer;

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "graphs".to_owned());
    let only = std::env::args().nth(2);
    std::fs::create_dir_all(&folder).unwrap();
    let plain = Transfer::default();
    let all = [
        (
            "slow-start",
            Transfer {
                segments: 400,
                queue: 1000,
                ..plain.clone()
            },
        ),
        (
            "queue",
            Transfer {
                segments: 1500,
                queue: 3,
                gap_ns: 2_000_000,
                ..plain.clone()
            },
        ),
        (
            "loss",
            Transfer {
                segments: 3000,
                loss_ppm: 8000,
                queue: 300,
                ..plain.clone()
            },
        ),
        (
            "zero-window",
            Transfer {
                segments: 1500,
                queue: 300,
                closed: Some((600, 1_500_000_000)),
                ..plain.clone()
            },
        ),
        (
            "stall",
            Transfer {
                segments: 1500,
                queue: 300,
                stall: Some((700, 1_200_000_000)),
                ..plain.clone()
            },
        ),
        ("large", large(1_000_000)),
        ("huge", large(2_000_000)),
    ];
    for (name, transfer) in all {
        if only.as_deref().map_or(name == "huge", |only| only != name) {
            continue;
        }
        let (series, connection) = transfer.run();
        let layout = GraphLayout {
            source: "vpn.pcapng".to_owned(),
            verdict: "54 % waiting for acknowledgements with 4 segments in flight while the peer's window would have held 44: \
                the congestion window is held down by 31 losses, all in bursts right after it grew: a queue of about 3 to 5 \
                segments overflows on the path"
                .to_owned(),
            color: true,
            panels: if name == "zero-window" { GraphPanel::ALL.to_vec() } else { GraphLayout::default().panels },
            directions: if name == "stall" { GraphDirections::Both } else { GraphDirections::Busier },
            ..GraphLayout::default()
        };
        let formats = [
            ("svg", GraphFormat::Svg, GraphTheme::Auto, 1200),
            ("light.png", GraphFormat::Png, GraphTheme::Light, 1200),
            ("dark.png", GraphFormat::Png, GraphTheme::Dark, 1200),
            ("html", GraphFormat::Html, GraphTheme::Auto, 1200),
            ("json", GraphFormat::Json, GraphTheme::Auto, 1200),
            ("xpl", GraphFormat::Xpl, GraphTheme::Auto, 1200),
            ("txt", GraphFormat::Text, GraphTheme::Auto, 100),
            ("sixel", GraphFormat::Sixel, GraphTheme::Dark, 800),
            ("kitty", GraphFormat::Kitty, GraphTheme::Dark, 800),
        ];
        for (ending, format, theme, width) in formats {
            let layout = GraphLayout {
                format,
                theme,
                width,
                height: (width == 100).then_some(30),
                ..layout.clone()
            };
            let (mut out, start) = (Vec::new(), Instant::now());
            write_graph(&mut out, &series, &connection, &layout).unwrap();
            println!(
                "{name}.{ending}: {} bytes, {:?}, {} segments",
                out.len(),
                start.elapsed(),
                series.forward.segments.len()
            );
            std::fs::write(format!("{folder}/{name}.{ending}"), out).unwrap();
        }
    }
}

fn large(segments: u64) -> Transfer {
    Transfer {
        segments,
        gap_ns: 12_000,
        delay_ns: 2_000_000,
        queue: 400,
        window: 2_000,
        loss_ppm: 50,
        ..Transfer::default()
    }
}
