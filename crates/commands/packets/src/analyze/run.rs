//! Reads one capture or two, analyses their connections by `sockeye_trace`, and prints verdicts or segments. `sockeye::main` calls it.

use super::args::{AnalyzeArgs, TOP};
use super::comparison;
use super::largest::LargestConnections;
use crate::input::{CaptureItem, CaptureReader, ReportedSegments, Selection, skipped};
use crate::output::{AnalysisLayout, AnalysisWriter, CaptureTally, EndOwners, FlaggedSegment, Listed};
use anyhow::Context;
use sockeye_console::envelope;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_model::counted;
use sockeye_output::Format;
use sockeye_trace::{Endpoint, Finished};
use std::io::BufWriter;
use std::process::ExitCode;

/// Analyzes captured connections.
///
/// # Errors
/// If an option is wrong, the file cannot be read, or output failed.
pub fn run(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    let selection = Selection::parse("analyze", &args.words)?;
    let layout = AnalysisLayout {
        format: Format::from(args.format),
        style: stdout::style(args.color),
        width: stdout::width(),
        no_header: args.no_header,
        is_detailed: args.verbose,
        envelope: envelope::now(),
        lists: if args.flags {
            Listed::Segments
        } else {
            Listed::Connections
        },
    };
    let [file] = &selection.files[..] else {
        if args.flags || args.connection.is_some() {
            let text = "sockeye: analyze: --flags and --connection are for one capture\n";
            return Err(UsageError(text.to_owned()).into());
        }
        return comparison::run(args, &selection, &layout);
    };
    let mut reader = CaptureReader::open(file, args.jobs)?;
    let stdout = BufWriter::new(stdout::open().context(stdout::WRITING)?);
    let writer = AnalysisWriter::begin(stdout, layout).context(stdout::WRITING)?;
    let mut analysis = Analysis {
        args,
        selection: &selection,
        largest: LargestConnections::new(args.top.or((layout.format == Format::Table).then_some(TOP))),
        writer,
        has_flagged: false,
        tally: CaptureTally::default(),
    };
    let reported = if args.flags {
        ReportedSegments::Flagged
    } else {
        ReportedSegments::None
    };
    let outcome = reader.run(reported, &mut |item| analysis.add(item));
    analysis.finish(&mut reader)?;
    outcome.map(|()| reader.interrupted().unwrap_or(ExitCode::SUCCESS))
}

/// An analysis of one capture.
struct Analysis<'a, W> {
    args: &'a AnalyzeArgs,
    selection: &'a Selection,
    largest: LargestConnections,
    writer: AnalysisWriter<W>,
    has_flagged: bool,
    tally: CaptureTally,
}

impl<W: std::io::Write> Analysis<'_, W> {
    fn add(&mut self, item: CaptureItem<'_>) -> anyhow::Result<()> {
        match item {
            CaptureItem::Segment(found) => {
                let (from, to) = Endpoint::both(found.segment);
                let is_shown = self.args.flags
                    && !found.notes.flags.is_empty()
                    && self.is_selected(found.notes.connection)
                    && self.selection.matches(from, to);
                if is_shown {
                    self.has_flagged = true;
                    let flagged = FlaggedSegment {
                        frame: found.frame,
                        time_ns: found.since_ns,
                        from,
                        to,
                        bytes: found.segment.payload_len,
                        notes: found.notes,
                    };
                    self.writer.segment(&flagged).context(stdout::WRITING)?;
                }
            }
            CaptureItem::Connection(finished, owners) => self.add_connection(finished, owners)?,
        }
        Ok(())
    }

    fn add_connection(&mut self, finished: Box<Finished>, owners: EndOwners) -> anyhow::Result<()> {
        let connection = &finished.connection;
        if !self.is_selected(connection.number)
            || !self.selection.matches(connection.client, connection.server)
        {
            return Ok(());
        }
        self.tally.matching += 1;
        if self.args.flags {
            return Ok(());
        }
        if let Some((finished, owners)) = self.largest.add(finished, owners) {
            self.tally.listed += 1;
            self.writer
                .connection(&finished.connection, &owners)
                .context(stdout::WRITING)?;
        }
        Ok(())
    }

    fn is_selected(&self, number: u32) -> bool {
        self.args.connection.is_none_or(|selected| selected == number)
    }

    fn finish(mut self, reader: &mut CaptureReader) -> anyhow::Result<()> {
        for (finished, owners) in self.largest.largest_first() {
            self.tally.listed += 1;
            self.writer
                .connection(&finished.connection, &owners)
                .context(stdout::WRITING)?;
        }
        let tally = CaptureTally {
            matching: self.tally.matching,
            listed: self.tally.listed,
            ..reader.tally()
        };
        self.writer
            .finish(&tally, &reader.interfaces())
            .context(stdout::WRITING)?;
        skipped::report(reader, &tally);
        if self.args.flags && !self.has_flagged && tally.segments > 0 && tally.matching > 0 {
            notes::say(&format!(
                "sockeye: {}: nothing is flagged in {}\n",
                reader.name(),
                counted(tally.matching, "connection")
            ));
        }
        if let Some(number) = self.args.connection
            && tally.matching == 0
        {
            if u64::from(number) >= tally.connections {
                anyhow::bail!(
                    "there is no connection {number}: the capture has {}",
                    match tally.connections {
                        0 => "none".to_owned(),
                        1 => "one, 0".to_owned(),
                        many => format!("{many}, 0 to {}", many - 1),
                    }
                );
            }
            anyhow::bail!("connection {number} does not match the filter");
        }
        Ok(())
    }
}
