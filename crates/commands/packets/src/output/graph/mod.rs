//! Graphs of one connection: time-sequence and other panels, as SVG, PNG, an interactive page, xplot's format, JSON, or in
//! a terminal.
//!
//! [`write_graph`] lays the chosen panels out once, into a [`Scene`](sockeye_output::picture::scene::Scene) of a few
//! thousand strokes whatever the number of segments; `svg`, `raster` and the formats based on it draw that. The page
//! (`html`), JSON and xplot's format have every point, and no scene. `terminal` has its own layout: cells are too coarse
//! for the scene.
//!
//! Down-sampling keeps each range of sequence numbers that was sent in a pixel column, the extremes of each line in it, and
//! every mark; marks too close together are merged into one with a count, which spans their columns.

mod axis;
mod caption;
mod derived;
mod downsample;
mod estimate;
mod event_rows;
mod html;
mod json;
mod kitty;
mod legend;
mod marks;
mod panels;
mod plot;
mod sequence;
mod shapes;
mod sixel;
mod terminal;
mod view;
#[cfg(test)]
mod visibility_tests;
mod xpl;

use sockeye_output::Envelope;
use sockeye_output::picture::{GraphTheme, png, raster, svg};
use sockeye_trace::{Connection, Direction, Series};
use std::io::{self, Write};

/// How a graph is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphLayout {
    /// Output format.
    pub format: GraphFormat,
    /// Panels from top to bottom; xplot's format has only the first.
    pub panels: Vec<GraphPanel>,
    /// Directions of data; xplot's format has only the first.
    pub directions: GraphDirections,
    /// Width in pixels, or in characters of a terminal.
    pub width: u32,
    /// Height in the same unit; `None`: as the panels need.
    pub height: Option<u32>,
    /// Light or dark theme.
    pub theme: GraphTheme,
    /// Pixels of a bitmap per pixel of `width`.
    pub scale: u32,
    /// Whether to use colours in a terminal.
    pub color: bool,
    /// Whether a terminal's locale is limited to ASCII.
    pub ascii: bool,
    /// Name of the capture file.
    pub source: String,
    /// Text below the title: what limited the transfer.
    pub verdict: String,
    /// Time and origin, for JSON.
    pub envelope: Envelope,
}

impl Default for GraphLayout {
    fn default() -> Self {
        Self {
            format: GraphFormat::Svg,
            panels: vec![
                GraphPanel::Sequence,
                GraphPanel::InFlight,
                GraphPanel::RoundTrip,
                GraphPanel::Throughput,
            ],
            directions: GraphDirections::Busier,
            width: 1200,
            height: None,
            theme: GraphTheme::Auto,
            scale: 2,
            color: false,
            ascii: false,
            source: String::new(),
            verdict: String::new(),
            envelope: Envelope::default(),
        }
    }
}

/// Output format of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFormat {
    /// A self-contained, scalable picture.
    Svg,
    /// A picture of pixels.
    Png,
    /// An interactive page in one file, with every point.
    Html,
    /// The format of xplot and jPlot, as tcptrace writes it.
    Xpl,
    /// Every point as JSON.
    Json,
    /// Braille characters, for a terminal.
    Text,
    /// Pixels for a terminal that supports DEC's sixels.
    Sixel,
    /// Pixels for a terminal that supports kitty's protocol.
    Kitty,
}

/// A panel; all panels have the same time axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GraphPanel {
    /// Segments, acknowledgements and the window's end over time (tcptrace's `tsg`).
    Sequence,
    /// Bytes in flight (`owin`).
    InFlight,
    /// Round-trip times.
    RoundTrip,
    /// Throughput sent and acknowledged, in bits per second.
    Throughput,
    /// The receive window.
    Window,
    /// Bytes of each segment (`ssize`).
    SegmentSize,
}

impl GraphPanel {
    /// All panels.
    pub const ALL: [Self; 6] = [
        Self::Sequence,
        Self::InFlight,
        Self::RoundTrip,
        Self::Throughput,
        Self::Window,
        Self::SegmentSize,
    ];

    /// Returns its name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequence => "sequence",
            Self::InFlight => "in-flight",
            Self::RoundTrip => "rtt",
            Self::Throughput => "throughput",
            Self::Window => "window",
            Self::SegmentSize => "segment-size",
        }
    }

    /// Returns its title.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Sequence => "sequence number",
            Self::InFlight => "in flight",
            Self::RoundTrip => "round trip",
            Self::Throughput => "throughput",
            Self::Window => "receive window",
            Self::SegmentSize => "segment size",
        }
    }
}

/// Directions of data in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphDirections {
    /// The direction with more data.
    Busier,
    /// Client to server.
    Forward,
    /// Server to client.
    Backward,
    /// Client to server, and below it server to client.
    Both,
}

impl GraphDirections {
    /// Returns the directions from top to bottom.
    fn of(self, series: &Series) -> Vec<Direction> {
        let sent = |side: &sockeye_trace::SideSeries| {
            let bytes = side
                .segments
                .iter()
                .map(|segment| segment.end.saturating_sub(segment.start))
                .fold(0, u64::saturating_add);
            (bytes, side.segments.len())
        };
        match self {
            Self::Forward => vec![Direction::Forward],
            Self::Backward => vec![Direction::Backward],
            Self::Both => vec![Direction::Forward, Direction::Backward],
            Self::Busier if sent(&series.backward) > sent(&series.forward) => vec![Direction::Backward],
            Self::Busier => vec![Direction::Forward],
        }
    }
}

/// Writes the graph of a connection.
///
/// # Errors
/// Those of `out`.
pub fn write_graph(
    out: &mut impl Write,
    series: &Series,
    connection: &Connection,
    layout: &GraphLayout,
) -> io::Result<()> {
    let view = view::View::new(series, connection, layout);
    match layout.format {
        GraphFormat::Svg => svg::write(out, &plot::lay_out(&view), layout.theme),
        GraphFormat::Png => png::write(out, &draw(&view, layout)),
        GraphFormat::Sixel => sixel::write(out, &draw(&view, layout)),
        GraphFormat::Kitty => kitty::write(out, &draw(&view, layout)),
        GraphFormat::Html => html::write(out, &view),
        GraphFormat::Xpl => xpl::write(out, &view),
        GraphFormat::Json => json::write(out, &view),
        GraphFormat::Text => terminal::write(out, &view),
    }
}

/// Draws a view as pixels.
fn draw(view: &view::View<'_>, layout: &GraphLayout) -> raster::Bitmap {
    raster::draw(&plot::lay_out(view), layout.theme, layout.scale)
}
