//! Graphs of one connection: time-sequence and its companions, as SVG, PNG, a page to look around in, xplot's format,
//! JSON, or in a terminal.
//!
//! [`write_graph`] lays the chosen panels out once, into a [`Scene`](sockeye_output::picture::scene::Scene) of a few thousand strokes whatever the number of
//! segments; `svg`, `raster` and what is built upon it draw that. The page (`html`), JSON and xplot's format have
//! every point, and no scene. In a terminal, `terminal` lays out by itself: cells are too coarse for the scene.
//!
//! What down-sampling keeps: each stretch of sequence space that was sent in a pixel column, the extremes of each line
//! in it, and every mark: those too close together become one with a count, which spans their columns.

mod axis;
mod caption;
mod estimate;
mod html;
mod json;
mod kitty;
mod legend;
mod marks;
mod measure;
mod panels;
mod plot;
mod reduce;
mod sequence;
mod sixel;
mod strip;
mod terminal;
mod view;
#[cfg(test)]
mod visible;
mod xpl;

use sockeye_output::picture::{GraphTheme, png, raster, svg};
use sockeye_trace::{Connection, Direction, Series};
use std::io::{self, Write};

/// What is drawn, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphLayout {
    /// As what
    pub format: GraphFormat,
    /// Which panels, from top to bottom; of xplot's format, which has one panel a file, the first
    pub panels: Vec<GraphPanel>,
    /// Whose data; of xplot's format the first
    pub directions: GraphDirections,
    /// Columns of pixels, or of characters in a terminal
    pub width: u32,
    /// Rows of the same; `None`: what the panels need
    pub height: Option<u32>,
    /// Light or dark
    pub theme: GraphTheme,
    /// Pixels of a bitmap for each of `width`
    pub scale: u32,
    /// Whether a terminal understands colours
    pub color: bool,
    /// Where the connection was captured: the name of a file
    pub source: String,
    /// What is said below the title: what held the transfer back
    pub verdict: String,
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
            source: String::new(),
            verdict: String::new(),
        }
    }
}

/// As what a graph is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFormat {
    /// A picture that stands alone and scales
    Svg,
    /// A picture of pixels
    Png,
    /// A page to look around in, in one file, with every point
    Html,
    /// What xplot and jPlot read, as tcptrace writes it
    Xpl,
    /// Every point
    Json,
    /// Braille, for a terminal
    Text,
    /// Pixels for a terminal that understands DEC's sixels
    Sixel,
    /// Pixels for a terminal that understands kitty's protocol
    Kitty,
}

/// One of the graphs that share the time axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GraphPanel {
    /// Segments, acknowledgements and the window's end over time (tcptrace's `tsg`)
    Sequence,
    /// Bytes in flight (`owin`)
    InFlight,
    /// Round-trip times
    RoundTrip,
    /// Bits a second, sent and acknowledged
    Throughput,
    /// The window that the receiver announced
    Window,
    /// Bytes of each segment (`ssize`)
    SegmentSize,
}

impl GraphPanel {
    /// Each of them.
    pub const ALL: [Self; 6] = [
        Self::Sequence,
        Self::InFlight,
        Self::RoundTrip,
        Self::Throughput,
        Self::Window,
        Self::SegmentSize,
    ];

    /// Its name on the command line and in JSON.
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

    /// What stands above it.
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

/// Whose data is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphDirections {
    /// Of who sent more
    Busier,
    /// Client to server
    Forward,
    /// Server to client
    Backward,
    /// Client to server, and below it server to client
    Both,
}

impl GraphDirections {
    /// Which they are, in their order.
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

/// Writes one connection as `layout` says.
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

/// The pixels of a view.
fn draw(view: &view::View<'_>, layout: &GraphLayout) -> raster::Bitmap {
    raster::draw(&plot::lay_out(view), layout.theme, layout.scale)
}
