//! `sockeye graph`: one captured connection, drawn.

mod terminal;

use crate::analyze::{Heard, Reading, Words, gaps};
use crate::output::{
    CaptureTally, GraphDirections, GraphFormat, GraphLayout, GraphPanel, connection_sentences, write_graph,
};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use sockeye_console::args::ColorArg;
use sockeye_console::notes;
use sockeye_console::replacement::Replacement;
use sockeye_console::stdout;
use sockeye_console::usage::Usage;
use sockeye_output::{GraphTheme, Style};
use sockeye_trace::{Connection, Finished, Keep, Options};
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use terminal::Terminal;

/// Draw a captured connection: time-sequence, data in flight, round trips, throughput, window
///
/// Reads pcap and pcapng files, also packed with gzip or zstd; `-` is the standard input. Without --connection or a
/// filter that leaves one it is the biggest. What is drawn goes by the name of the output: .svg and .png stand alone,
/// .html is a page to look around in, .xpl is for xplot, .json has every point, and `-` draws in the terminal: with pixels
/// if its name (TERM, TERM_PROGRAM) says that it takes them (kitty, WezTerm, ghostty, foot, ...), else in braille.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GraphArgs {
    /// Where to: a file called .svg, .png, .html, .xpl or .json; `-` is the standard output
    #[arg(short = 'o', long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
    /// As what, whatever the output is called
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<FormatArg>,
    /// Which connection, by its number: they are counted from 0 in the order of their first packets
    #[arg(short = 'c', long, value_name = "N")]
    connection: Option<u32>,
    /// Whose data: of the side that sent more, the client's, the server's, or both
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = DirectionArg::Busier)]
    direction: DirectionArg,
    /// Which panels, from top to bottom, separated by commas: sequence, in-flight, rtt, throughput, window, segment-size
    #[arg(long, value_name = "PANELS", value_delimiter = ',')]
    panels: Vec<String>,
    /// Columns: of pixels, or of characters in a terminal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(40..=20_000))]
    width: Option<u32>,
    /// For a dark background (pictures; a page and SVG go by their reader)
    #[arg(long)]
    dark: bool,
    /// Colours in a terminal
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    color: ColorArg,
    /// A capture, and then which connection: an expression as ss takes it, for example: dport = :443
    #[arg(value_name = "FILE|- [FILTER]", required = true)]
    words: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
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
enum DirectionArg {
    Busier,
    Client,
    Server,
    Both,
}

/// Draws graphs of captured connections.
///
/// # Errors
/// If an option is wrong, the file cannot be read, or output failed.
pub fn run(args: &GraphArgs) -> anyhow::Result<ExitCode> {
    let words = Words::read("graph", &args.words)?;
    let [file] = &words.files[..] else {
        return Err(Usage("sockeye: graph: one capture is drawn at a time\n".to_owned()).into());
    };
    let mut layout = layout(args)?;
    let is_terminal = args.output == Path::new("-") && io::stdout().is_terminal();
    if is_terminal && matches!(layout.format, GraphFormat::Png | GraphFormat::Html) {
        let text = "sockeye: graph: a terminal is no place for this format; -o FILE writes it to one\n";
        return Err(Usage(text.to_owned()).into());
    }
    if Replacement::is_same(&args.output, file) {
        let text = format!("sockeye: graph: {:?} is the capture itself\n", args.output);
        return Err(Usage(text).into());
    }
    let (Finished { connection, series }, interrupted) = find(args, &words, file)?;
    let Some(series) = series else {
        bail!(
            "connection {} left no points to draw: those of others took all the room; -c {0} draws it alone",
            connection.number
        );
    };
    layout.source = file
        .file_name()
        .unwrap_or(file.as_os_str())
        .to_string_lossy()
        .into_owned();
    layout.verdict = connection_sentences(&connection).join(" ");
    let draw = |out: &mut dyn Write| {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        write_graph(&mut out, &series, &connection, &layout).and_then(|()| out.flush())
    };
    if args.output == Path::new("-") {
        draw(&mut stdout::open().context(stdout::WRITING)?).context(stdout::WRITING)?;
    } else {
        let path = &args.output;
        let mut file = Replacement::create(path)?;
        draw(&mut file).with_context(|| format!("write {path:?}"))?;
        file.finish()?;
    }
    if series.segments_left_out > 0 {
        notes::say(&format!(
            "sockeye: graph: {} later segments are not in the graph: there was no room for their points; `editcap -i SECONDS` \
             cuts the capture into parts that have room\n",
            series.segments_left_out
        ));
    }
    if interrupted.is_some() {
        notes::say("sockeye: graph: interrupted: what came before is drawn\n");
    }
    Ok(interrupted.unwrap_or(ExitCode::SUCCESS))
}

/// The connection that is meant, with its points; and the exit status, if somebody ended the reading early.
///
/// Points of all are kept, as far as there is room, so that mostly one reading is enough. If others took the room of what
/// turned out to be the biggest, a file is read again for that one alone; of what can be read but once, the biggest that
/// kept its points is drawn.
fn find(args: &GraphArgs, words: &Words, file: &Path) -> anyhow::Result<(Finished, Option<ExitCode>)> {
    let keep = args
        .connection
        .map_or(Keep::All, |number| Keep::Numbers(vec![number]));
    let Found {
        biggest,
        drawable,
        reading,
        tally,
    } = read(args, words, file, keep)?;
    let Some(biggest) = biggest else {
        gaps::say(&reading, &tally);
        bail!("{}", nothing(args, file, &tally));
    };
    let interrupted = reading.interrupted();
    let is_whole = biggest
        .series
        .as_ref()
        .is_some_and(|series| series.segments_left_out == 0);
    if is_whole || args.connection.is_some() || tally.connections == 1 {
        gaps::say(&reading, &tally);
        return Ok((biggest, interrupted));
    }
    let number = biggest.connection.number;
    // Whoever ended it wants no second one.
    if file.is_file() && interrupted.is_none() {
        // Their room is needed.
        drop((biggest, drawable, reading));
        let again = read(args, words, file, Keep::Numbers(vec![number]))?;
        let Some(found) = again.biggest else {
            bail!("{}", nothing(args, file, &again.tally));
        };
        gaps::say(&again.reading, &again.tally);
        return Ok((found, again.reading.interrupted()));
    }
    gaps::say(&reading, &tally);
    match drawable {
        Some(other) if biggest.series.is_none() => {
            notes::say(&format!(
                "sockeye: graph: connection {number} is bigger than {}, which is drawn, but there was no room for its points; \
                 -c {number} keeps no others\n",
                other.connection.number
            ));
            Ok((other, interrupted))
        }
        _ => Ok((biggest, interrupted)),
    }
}

/// What a reading found.
struct Found {
    biggest: Option<Finished>,
    /// The biggest that kept its points, if the biggest did not
    drawable: Option<Finished>,
    reading: Reading,
    tally: CaptureTally,
}

fn read(args: &GraphArgs, words: &Words, file: &Path, series: Keep) -> anyhow::Result<Found> {
    let options = Options {
        series,
        ..Options::default()
    };
    let mut reading = Reading::with(file, options)?;
    let (mut biggest, mut drawable): (Option<Finished>, Option<Finished>) = (None, None);
    let mut matching = 0;
    let is_bigger = |one: &Finished, other: &Option<Finished>| {
        other
            .as_ref()
            .is_none_or(|other| size(&one.connection) > size(&other.connection))
    };
    let outcome = reading.run(&mut |_, _, _, _| {}, &mut |heard| {
        let Heard::Connection(found, _) = heard else {
            return Ok(());
        };
        let is_wanted = args
            .connection
            .is_none_or(|number| number == found.connection.number);
        if !is_wanted || !words.want(found.connection.client, found.connection.server) {
            return Ok(());
        }
        matching += 1;
        if is_bigger(&found, &biggest) {
            let before = biggest.replace(found);
            if biggest.as_ref().is_some_and(|biggest| biggest.series.is_some()) {
                drawable = None;
            } else if let Some(before) = before.filter(|before| before.series.is_some()) {
                drawable = Some(before);
            }
        } else if found.series.is_some()
            && biggest.as_ref().is_some_and(|biggest| biggest.series.is_none())
            && is_bigger(&found, &drawable)
        {
            drawable = Some(found);
        }
        Ok(())
    });
    // A capture that breaks off can be drawn as far as it goes.
    match outcome {
        Err(error) if biggest.is_none() => return Err(error),
        Err(error) => notes::say(&format!("sockeye: graph: {error:#}; what came before is drawn\n")),
        Ok(()) => {}
    }
    let tally = CaptureTally {
        matching,
        // Of these it is no wonder that they are not drawn.
        datagrams: 0,
        other_ip: 0,
        not_ip: 0,
        ..reading.tally()
    };
    Ok(Found {
        biggest,
        drawable,
        reading,
        tally,
    })
}

fn size(connection: &Connection) -> (u64, u64) {
    let (forward, backward) = (&connection.forward, &connection.backward);
    (
        forward.bytes.saturating_add(backward.bytes),
        forward.packets.saturating_add(backward.packets),
    )
}

/// Why there is nothing to draw.
fn nothing(args: &GraphArgs, file: &Path, tally: &CaptureTally) -> String {
    match (args.connection, tally.connections) {
        (None, 0) => format!("no connection to draw: no segment of TCP was read from {file:?}"),
        (Some(number), 0) => format!("there is no connection {number}: the capture has none"),
        (Some(number), 1) if number > 0 => format!("there is no connection {number}: the capture has one, 0"),
        (Some(number), all) if u64::from(number) >= all => {
            format!(
                "there is no connection {number}: the capture has {all}, 0 to {}",
                all - 1
            )
        }
        (Some(number), _) => format!("connection {number} does not match the filter"),
        (None, 1) => "the only connection of the capture does not match the filter".to_owned(),
        (None, all) => {
            format!(
                "none of the {all} connections of the capture matches the filter; `sockeye analyze` lists them"
            )
        }
    }
}

fn layout(args: &GraphArgs) -> anyhow::Result<GraphLayout> {
    let terminal = (args.output == Path::new("-")).then(Terminal::here).flatten();
    let format = match (args.format, extension(&args.output)) {
        (Some(format), _) => format,
        (None, Some(name)) => FormatArg::from_str(&name, true).map_err(|_| {
            Usage(format!(
                "sockeye: graph: nothing is known of .{name}; the output is called .svg, .png, .html, .xpl or .json, or --format \
                 says what it is\n"
            ))
        })?,
        (None, None) if args.output == Path::new("-") => {
            terminal.as_ref().map_or(FormatArg::Text, Terminal::format)
        }
        (None, None) => FormatArg::Svg,
    };
    let format = match format {
        FormatArg::Svg => GraphFormat::Svg,
        FormatArg::Png => GraphFormat::Png,
        FormatArg::Html => GraphFormat::Html,
        FormatArg::Xpl => GraphFormat::Xpl,
        FormatArg::Json => GraphFormat::Json,
        FormatArg::Text => GraphFormat::Text,
        FormatArg::Sixel => GraphFormat::Sixel,
        FormatArg::Kitty => GraphFormat::Kitty,
    };
    let in_terminal = matches!(
        format,
        GraphFormat::Text | GraphFormat::Sixel | GraphFormat::Kitty
    );
    let mut layout = GraphLayout {
        format,
        directions: match args.direction {
            DirectionArg::Busier => GraphDirections::Busier,
            DirectionArg::Client => GraphDirections::Forward,
            DirectionArg::Server => GraphDirections::Backward,
            DirectionArg::Both => GraphDirections::Both,
        },
        theme: match (args.dark, format) {
            (true, _) => GraphTheme::Dark,
            _ if in_terminal && terminal.as_ref().is_some_and(|terminal| terminal.is_dark) => {
                GraphTheme::Dark
            }
            (false, GraphFormat::Svg | GraphFormat::Html) => GraphTheme::Auto,
            (false, _) => GraphTheme::Light,
        },
        color: stdout::style(args.color) == Style::Color,
        scale: if in_terminal { 1 } else { 2 },
        ..GraphLayout::default()
    };
    let terminal = terminal.as_ref();
    if format == GraphFormat::Text {
        layout.width = terminal.and_then(Terminal::columns).unwrap_or(TEXT_WIDTH);
        let lines = terminal.and_then(Terminal::lines);
        layout.height = Some(lines.map_or(TEXT_HEIGHT, |lines| lines.max(TEXT_HEIGHT_MIN)));
    } else if let Some((width, height)) = terminal.and_then(Terminal::picture).filter(|_| in_terminal) {
        (layout.width, layout.height) = (width, height);
    }
    if let Some(width) = args.width {
        layout.width = width;
    }
    if !args.panels.is_empty() {
        layout.panels = args
            .panels
            .iter()
            .map(|name| panel(name))
            .collect::<Result<_, _>>()?;
    }
    Ok(layout)
}

fn panel(name: &str) -> Result<GraphPanel, Usage> {
    let known = GraphPanel::ALL
        .iter()
        .find(|panel| panel.name().replace('_', "-") == name.replace('_', "-"));
    known.copied().ok_or_else(|| {
        let names: Vec<_> = GraphPanel::ALL
            .iter()
            .map(|panel| panel.name().replace('_', "-"))
            .collect();
        Usage(format!(
            "sockeye: graph: no panel {name:?}; there are {}\n",
            names.join(", ")
        ))
    })
}

/// What comes behind the last dot of its name.
fn extension(path: &Path) -> Option<String> {
    if path == Path::new("-") {
        return None;
    }
    Some(path.extension()?.to_string_lossy().into_owned())
}

/// Where no terminal says how wide and how high it is.
const TEXT_WIDTH: u32 = 100;
const TEXT_HEIGHT: u32 = 40;
/// In lower ones the picture is scrolled.
const TEXT_HEIGHT_MIN: u32 = 16;

const EXAMPLES: &str = "\
Examples:
  sockeye graph vpn.pcapng                       the biggest connection, in this terminal
  sockeye graph vpn.pcapng -o vpn.html           a page to zoom in, with a list of what happened
  sockeye graph vpn.pcapng -c 3 -o vpn.svg       connection 3, as `sockeye analyze` counts them
  sockeye graph vpn.pcapng dport = :1194 -o vpn.png --dark
  sockeye graph - --panels sequence,in-flight    from the standard input";
