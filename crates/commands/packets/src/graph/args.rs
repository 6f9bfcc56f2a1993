//! Arguments of `sockeye graph`.

use clap::{Args, ValueEnum};
use sockeye_console::args::ColorArg;
use std::ffi::OsString;
use std::path::PathBuf;

/// Draw a captured connection: time-sequence, data in flight, round trips, throughput, window
///
/// Reads pcap, pcapng, snoop and ERF files, also packed with gzip or zstd; `-` is the standard input. Without --connection or a
/// filter that leaves one it is the biggest. The suffix of the output selects the format: .svg and .png are pictures,
/// .html is an interactive page, .xpl is for xplot, .json has every point, and `-` draws in the terminal: with pixels if
/// its name (TERM, TERM_PROGRAM) is known to support them (kitty, WezTerm, ghostty, foot, ...), else in braille.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GraphArgs {
    /// Output file, with the suffix .svg, .png, .html, .xpl or .json; `-` is the standard output
    #[arg(short = 'o', long, value_name = "FILE", default_value = "-")]
    pub(super) output: PathBuf,
    /// Output format, whatever the suffix of the output is
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(super) format: Option<FormatArg>,
    /// The connection of this number: they are counted from 0 in the order of their first packets
    #[arg(long, value_name = "N")]
    pub(super) connection: Option<u32>,
    /// Direction of the data: of the side that sent more, the client's, the server's, or both
    #[arg(long, value_name = "SIDE", value_enum, default_value_t = DirectionArg::Busier)]
    pub(super) direction: DirectionArg,
    /// Which panels, from top to bottom, separated by commas: sequence, in-flight, rtt, throughput, window, segment-size
    #[arg(long, value_name = "PANELS", value_delimiter = ',')]
    pub(super) panels: Vec<String>,
    /// Width in pixels, or in characters in a terminal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(40..=20_000))]
    pub(super) width: Option<u32>,
    /// For a dark background (pages and SVG follow the viewer's theme without it)
    #[arg(long)]
    pub(super) dark: bool,
    /// Colours in tables and in graphs in the terminal
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub(super) color: ColorArg,
    /// A capture, then a filter in the syntax of ss, for example: dport = :443
    #[arg(value_name = "FILE|- [FILTER]", required = true)]
    pub(super) words: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FormatArg {
    Svg,
    Png,
    Html,
    Xpl,
    Json,
    Text,
    Sixel,
    Kitty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DirectionArg {
    Busier,
    Client,
    Server,
    Both,
}

const EXAMPLES: &str = "\
Examples:
  sockeye graph vpn.pcapng                     the biggest, in the terminal
  sockeye graph vpn.pcapng -o vpn.html         a page with a list of events
  sockeye graph vpn.pcapng --connection 3    connection 3 of `analyze`
  sockeye graph vpn.pcapng dport = :1194 -o vpn.png --dark
  sockeye graph - --panels sequence,in-flight  from the standard input";
