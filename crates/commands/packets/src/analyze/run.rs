//! `sockeye analyze`: what held captured transfers back.

mod biggest;
pub(crate) mod gaps;
mod owners;
mod pairs;
mod reading;
mod words;

use crate::output::{AnalysisLayout, AnalysisWriter, CaptureTally, EndOwners, Listed};
use anyhow::Context;
use biggest::Biggest;
use clap::Args;
pub(crate) use reading::{Heard, Reading};
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::Usage;
use sockeye_output::Format;
use sockeye_trace::Connection;
use std::ffi::OsString;
use std::io::BufWriter;
use std::process::ExitCode;
pub(crate) use words::Words;

/// Why captured transfers are slow: what limited each, what was lost, what proves it
///
/// Reads pcap and pcapng files, also packed with gzip or zstd; `-` is the standard input. The biggest connections come
/// first, and of each what took most of its time. Of several captures of one transfer, each is compared with the one
/// before it: between which of them it was lost, and where the delay is.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AnalyzeArgs {
    /// Only the N biggest connections; tables show 10 unless told otherwise, other forms all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = sockeye_console::values::top)]
    top: Option<usize>,
    /// Only this connection, by its number: they are counted from 0 in the order of their first packets
    #[arg(short = 'c', long, value_name = "N")]
    connection: Option<u32>,
    /// List segments instead, frame by frame: those of which tshark says something, with its words and values
    #[arg(long)]
    flags: bool,
    /// All that is known of each connection: what was agreed upon, round trips, counts, and every event
    #[arg(short = 'v', long)]
    verbose: bool,
    /// In which form
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    format: FormatArg,
    /// Leave out the header line of CSV
    #[arg(short = 'H', long)]
    no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    color: ColorArg,
    /// A capture, or several of one transfer in the order of its way, and then which connections: an expression as ss takes it, for example: dport = :443 and dst 10.0.0.0/8
    #[arg(value_name = "FILE|-... [FILTER]", required = true)]
    words: Vec<OsString>,
}

/// Analyzes captured connections.
///
/// # Errors
/// If an option is wrong, the file cannot be read, or output failed.
pub fn run(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    let words = Words::read("analyze", &args.words)?;
    let layout = AnalysisLayout {
        format: Format::from(args.format),
        style: stdout::style(args.color),
        width: stdout::width(),
        no_header: args.no_header,
        is_detailed: args.verbose,
        lists: if args.flags {
            Listed::Segments
        } else {
            Listed::Connections
        },
    };
    let [file] = &words.files[..] else {
        if args.flags || args.connection.is_some() {
            let text = "sockeye: analyze: --flags and --connection are for one capture\n";
            return Err(Usage(text.to_owned()).into());
        }
        return pairs::run(args, &words, &layout);
    };
    let mut reading = Reading::open(file)?;
    let stdout = BufWriter::new(stdout::open().context(stdout::WRITING)?);
    let writer = AnalysisWriter::begin(stdout, layout).context(stdout::WRITING)?;
    let mut analysis = Analysis {
        args,
        words: &words,
        biggest: Biggest::new(args.top.or((layout.format == Format::Table).then_some(TOP))),
        writer,
        has_flagged: false,
        tally: CaptureTally::default(),
    };
    let outcome = reading.run(&mut |_, _, _, _| {}, &mut |heard| analysis.hear(heard));
    analysis.end(&mut reading)?;
    outcome.map(|()| reading.interrupted().unwrap_or(ExitCode::SUCCESS))
}

/// What was asked for, and what was found so far.
struct Analysis<'a, W> {
    args: &'a AnalyzeArgs,
    words: &'a Words,
    biggest: Biggest,
    writer: AnalysisWriter<W>,
    has_flagged: bool,
    tally: CaptureTally,
}

impl<W: std::io::Write> Analysis<'_, W> {
    fn hear(&mut self, heard: Heard<'_>) -> anyhow::Result<()> {
        match heard {
            Heard::Segment(segment) => {
                let is_wanted = self.args.flags
                    && !segment.notes.flags.is_empty()
                    && self.is_wanted(segment.notes.connection)
                    && self.words.want(segment.from, segment.to);
                if is_wanted {
                    self.has_flagged = true;
                    self.writer.segment(&segment).context(stdout::WRITING)?;
                }
            }
            Heard::Connection(finished, owners) => self.note(finished.connection, owners)?,
        }
        Ok(())
    }

    fn note(&mut self, connection: Connection, owners: EndOwners) -> anyhow::Result<()> {
        if !self.is_wanted(connection.number) || !self.words.want(connection.client, connection.server) {
            return Ok(());
        }
        self.tally.matching += 1;
        if self.args.flags {
            return Ok(());
        }
        if let Some((connection, owners)) = self.biggest.take(connection, owners) {
            self.tally.listed += 1;
            self.writer
                .connection(&connection, &owners)
                .context(stdout::WRITING)?;
        }
        Ok(())
    }

    fn is_wanted(&self, number: u32) -> bool {
        self.args.connection.is_none_or(|wanted| wanted == number)
    }

    fn end(mut self, reading: &mut Reading) -> anyhow::Result<()> {
        for (connection, owners) in self.biggest.largest_first() {
            self.tally.listed += 1;
            self.writer
                .connection(&connection, &owners)
                .context(stdout::WRITING)?;
        }
        let tally = CaptureTally {
            matching: self.tally.matching,
            listed: self.tally.listed,
            ..reading.tally()
        };
        self.writer
            .finish(&tally, &reading.interfaces())
            .context(stdout::WRITING)?;
        gaps::say(reading, &tally);
        if self.args.flags && !self.has_flagged && tally.segments > 0 && tally.matching > 0 {
            let s = if tally.matching == 1 { "" } else { "s" };
            notes::say(&format!(
                "sockeye: {}: nothing is flagged in {} connection{s}\n",
                reading.name(),
                tally.matching
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

/// Blocks that a table shows unless told otherwise.
const TOP: usize = 10;

const EXAMPLES: &str = "\
Examples:
  sockeye analyze slow.pcapng                the biggest connections, and what held each back
  sockeye analyze slow.pcapng -v -c 0        all that is known of the first connection
  sockeye analyze slow.pcapng dport = :443   only HTTPS
  sockeye analyze slow.pcapng --flags        retransmissions, duplicate ACKs, ..., frame by frame
  sockeye analyze sender.pcap receiver.pcap  where between both it was lost, where the delay is
  tcpdump -w - -c 10000 tcp | sockeye analyze - --format json

The filter is ss's language: src, dst, sport, dport, family, peers; and, or, not, parentheses. A
connection matches if it does in either direction; what is denied has to hold in neither.
Put it in quotes where it holds ( ) < > ! & or |.

^C ends the reading, and what was read is told; a pipe is read until it ends, for a second at most.

Exit status: 0 fine, 1 something failed, 2 a mistake on the command line;
128 + N: signal N ended the reading early.";
