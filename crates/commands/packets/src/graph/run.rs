//! Reads a capture, selects a connection, and draws its graph into a file or the terminal. `sockeye::main` calls it.

use super::args::{DirectionArg, FormatArg, GraphArgs};
use super::terminal::Terminal;
use crate::input::{CaptureItem, CaptureReader, ReportedSegments, Selection, skipped};
use crate::output::{
    CaptureTally, GraphDirections, GraphFormat, GraphLayout, GraphPanel, connection_sentences, write_graph,
};
use anyhow::{Context, bail};
use clap::ValueEnum;
use sockeye_console::envelope;
use sockeye_console::notes;
use sockeye_console::output_file::{OutputFile, Readers};
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_output::{GraphTheme, Style};
use sockeye_trace::{Connection, Finished, Keep, Options};
use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

/// Draws graphs of captured connections.
///
/// # Errors
/// If an option is wrong, the file cannot be read, or output failed.
pub fn run(args: &GraphArgs) -> anyhow::Result<ExitCode> {
    let selection = Selection::parse("graph", &args.words)?;
    let [file] = &selection.files[..] else {
        return Err(UsageError("sockeye: graph: one capture is drawn at a time\n".to_owned()).into());
    };
    let mut layout = layout(args)?;
    let is_terminal = args.output == Path::new("-") && io::stdout().is_terminal();
    if is_terminal && matches!(layout.format, GraphFormat::Png | GraphFormat::Html) {
        let text = "sockeye: graph: a terminal cannot show this format; -o FILE writes it to a file\n";
        return Err(UsageError(text.to_owned()).into());
    }
    if OutputFile::is_same(&args.output, file) {
        let text = format!("sockeye: graph: {:?} is the capture itself\n", args.output);
        return Err(UsageError(text).into());
    }
    let (Finished { connection, series }, interrupted) = find(args, &selection, file)?;
    let Some(series) = series else {
        bail!(
            "connection {} has no points to draw: those of others filled the memory limit; -c {0} draws it alone",
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
        let mut file = OutputFile::create_for(path, readers_of(file))?;
        draw(&mut file).with_context(|| format!("write {path:?}"))?;
        file.finish()?;
    }
    if series.segments_left_out > 0 {
        notes::say(&format!(
            "sockeye: graph: {} later segments are not in the graph: their points exceed the memory limit; `editcap -i SECONDS` \
             splits the capture into smaller files\n",
            series.segments_left_out
        ));
    }
    if interrupted.is_some() {
        notes::say("sockeye: graph: interrupted: the part that was read is drawn\n");
    }
    Ok(interrupted.unwrap_or(ExitCode::SUCCESS))
}

/// Returns who may read the graph of a capture: only its owner, if that is so of the capture.
fn readers_of(capture: &Path) -> Readers {
    let is_private = fs::metadata(capture).is_ok_and(|file| file.is_file() && file.mode() & 0o004 == 0);
    if is_private { Readers::Owner } else { Readers::All }
}

/// Returns the selected connection with its points, and the exit status if a signal ended the reading.
///
/// The points of all connections are kept, up to a limit, so that the capture is usually read once. If the biggest connection
/// has too few points because of that limit, a file is read again for it alone; from a pipe, the biggest connection that has
/// points is drawn.
fn find(
    args: &GraphArgs,
    selection: &Selection,
    file: &Path,
) -> anyhow::Result<(Finished, Option<ExitCode>)> {
    let keep = args
        .connection
        .map_or(Keep::All, |number| Keep::Numbers(vec![number]));
    let Found {
        biggest,
        drawable,
        reader,
        tally,
    } = read(args, selection, file, keep)?;
    let Some(biggest) = biggest else {
        skipped::report(&reader, &tally);
        bail!("{}", nothing(args, file, &tally));
    };
    let interrupted = reader.interrupted();
    let is_whole = biggest
        .series
        .as_ref()
        .is_some_and(|series| series.segments_left_out == 0);
    if is_whole || args.connection.is_some() || tally.connections == 1 {
        skipped::report(&reader, &tally);
        return Ok((biggest, interrupted));
    }
    let number = biggest.connection.number;
    // After SIGINT the file is not read again.
    if file.is_file() && interrupted.is_none() {
        // Frees their memory.
        drop((biggest, drawable, reader));
        let again = read(args, selection, file, Keep::Numbers(vec![number]))?;
        let Some(found) = again.biggest else {
            bail!("{}", nothing(args, file, &again.tally));
        };
        skipped::report(&again.reader, &again.tally);
        return Ok((found, again.reader.interrupted()));
    }
    skipped::report(&reader, &tally);
    match drawable {
        Some(other) if biggest.series.is_none() => {
            notes::say(&format!(
                "sockeye: graph: connection {number} is bigger than {}, which is drawn, but its points exceed the memory limit; \
                 -c {number} draws it alone\n",
                other.connection.number
            ));
            Ok((other, interrupted))
        }
        _ => Ok((biggest, interrupted)),
    }
}

/// Connections of a capture that may be drawn.
struct Found {
    biggest: Option<Finished>,
    /// The biggest with points, if `biggest` has none.
    drawable: Option<Finished>,
    reader: CaptureReader,
    tally: CaptureTally,
}

fn read(args: &GraphArgs, selection: &Selection, file: &Path, series: Keep) -> anyhow::Result<Found> {
    let options = Options {
        series,
        ..Options::default()
    };
    let mut reader = CaptureReader::with(file, options, None)?;
    let (mut biggest, mut drawable): (Option<Finished>, Option<Finished>) = (None, None);
    let mut matching = 0;
    let is_bigger = |one: &Finished, other: &Option<Finished>| {
        other
            .as_ref()
            .is_none_or(|other| size(&one.connection) > size(&other.connection))
    };
    let outcome = reader.run(ReportedSegments::None, &mut |item| {
        let CaptureItem::Connection(found, _) = item else {
            return Ok(());
        };
        let found = *found;
        let is_selected = args
            .connection
            .is_none_or(|number| number == found.connection.number);
        if !is_selected || !selection.matches(found.connection.client, found.connection.server) {
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
    // The part of a damaged capture before the error can be drawn.
    match outcome {
        Err(error) if biggest.is_none() => return Err(error),
        Err(error) => notes::say(&format!("sockeye: graph: {error:#}; the part before is drawn\n")),
        Ok(()) => {}
    }
    let tally = CaptureTally {
        matching,
        // Packets that a graph of TCP cannot show need no note.
        datagrams: 0,
        other_ip: 0,
        not_ip: 0,
        ..reader.tally()
    };
    Ok(Found {
        biggest,
        drawable,
        reader,
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

/// Returns the message if there is nothing to draw.
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
            UsageError(format!(
                "sockeye: graph: unknown suffix .{name}; known are .svg, .png, .html, .xpl and .json, or use --format\n"
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
        envelope: envelope::now(),
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
        ascii: !sockeye_console::locale::has_unicode(),
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

fn panel(name: &str) -> Result<GraphPanel, UsageError> {
    let known = GraphPanel::ALL
        .iter()
        .find(|panel| panel.name().replace('_', "-") == name.replace('_', "-"));
    known.copied().ok_or_else(|| {
        let names: Vec<_> = GraphPanel::ALL
            .iter()
            .map(|panel| panel.name().replace('_', "-"))
            .collect();
        UsageError(format!(
            "sockeye: graph: no panel {name:?}; there are {}\n",
            names.join(", ")
        ))
    })
}

/// Returns the suffix of the file name; `None` for standard output.
fn extension(path: &Path) -> Option<String> {
    if path == Path::new("-") {
        return None;
    }
    Some(path.extension()?.to_string_lossy().into_owned())
}

/// Size of text where the size of the terminal is unknown.
const TEXT_WIDTH: u32 = 100;
const TEXT_HEIGHT: u32 = 40;
/// In terminals with fewer lines the picture is scrolled.
const TEXT_HEIGHT_MIN: u32 = 16;
