//! A report as a table, JSON or CSV.

use super::interval::Report;
use super::output::{Drops, NamedLine, push_counter_lines, push_sums, table_columns};
use super::session::Session;
use sockeye_console::stdout;
use sockeye_drops::CounterSubject;
use sockeye_model::{Counter, counted_were};
use sockeye_output::listing::{Column, Layout, ListingWriter, Record, parse_columns};
use sockeye_output::{Format, Summary};
use sockeye_query::listing::ListingReport;

/// Returns how many SYNs and last ACKs of handshakes listeners have dropped, by the counter.
fn turned_away(lines: &[NamedLine]) -> u64 {
    let is_it = |line: &&NamedLine| line.line.moved.subject == CounterSubject::Protocol(Counter::ListenDrops);
    let moved = lines.iter().filter(is_it);
    moved.filter_map(|line| line.line.moved.delta).sum()
}

impl Session<'_> {
    pub(super) fn text(
        &self,
        result: &Report,
        report: &ListingReport,
        is_later: bool,
    ) -> anyhow::Result<Vec<u8>> {
        let mut out = Vec::new();
        let sources = report.sources();
        let summary = Summary {
            interrupted: self.interrupts.caught().is_some(),
            ..report.summary(&sources)
        };
        if self.args.counters {
            self.push_counters(&mut out, result, &summary, is_later, true)?;
        } else {
            self.push_report(&mut out, result, &summary, is_later)?;
        }
        Ok(out)
    }

    pub(super) fn push_report(
        &self,
        out: &mut Vec<u8>,
        result: &Report,
        summary: &Summary<'_>,
        is_later: bool,
    ) -> anyhow::Result<()> {
        let format = Format::from(self.args.format);
        let is_table = format == Format::Table;
        let netns = result
            .rows
            .iter()
            .any(|row| row.netns != sockeye_source::own_namespace());
        let rule = result
            .rows
            .iter()
            .any(|row| row.rule.is_some() || !row.rules.is_empty());
        let estimated = result.rows.iter().any(|row| row.estimated > 0);
        let sockets = result.rows.iter().any(|row| row.sockets > 1);
        let columns = table_columns(netns, rule, estimated, sockets);
        let layout = self.layout(
            self.shown.drops.as_deref(),
            &columns,
            result,
            is_later && !is_table,
        );
        if is_table && is_later {
            out.push(b'\n');
        }
        if is_table && result.rows.is_empty() {
            let seconds = result.interval.as_secs_f64();
            let shown = if self.args.filter.is_empty() {
                ""
            } else {
                " that matches"
            };
            let text = match result.is_watched {
                true => match turned_away(&result.counters) {
                    0 => format!("No packet{shown} was dropped in {seconds:.1} s.\n"),
                    // Drops without an event of the kernel.
                    requests => format!(
                        "In {seconds:.1} s {} refused by listeners, which the kernel reports by counters only. No other packet was dropped.\n",
                        counted_were(requests, "connection request")
                    ),
                },
                false => "Dropped packets were not watched.\n".to_owned(),
            };
            out.extend_from_slice(text.as_bytes());
        }
        if is_table {
            if !result.rows.is_empty() {
                let mut writer = ListingWriter::new(&mut *out, layout);
                for row in &result.rows {
                    writer.row(&row)?;
                }
                writer.finish(summary)?;
            }
            if !result.counters.is_empty() {
                out.push(b'\n');
                self.push_counters(out, result, summary, false, false)?;
            }
            return Ok(());
        }
        let mut writer = ListingWriter::new(&mut *out, layout);
        writer.begin()?;
        for row in &result.rows {
            writer.row(&row)?;
        }
        if format == Format::Jsonl {
            writer.flush()?;
            drop(writer);
            self.push_counters(out, result, summary, is_later, false)?;
            writer = ListingWriter::new(&mut *out, self.layout::<Drops>(None, "class", result, true));
        }
        writer.finish_with(summary, |object| {
            if format == Format::Json {
                push_counter_lines(object, &result.counters);
            }
            push_sums(object, &result.by_reason);
            object.number("interval_ms", u64::try_from(result.interval.as_millis()).ok());
            object.boolean("drops_watched", Some(result.is_watched));
            object.number("normal_not_shown", result.normal);
            object.number("evicted_keys", Some(result.evicted_keys));
            object.number("missed", Some(result.missed));
            object.number("owner_unknown", result.undecided);
            object.number(
                "sampled_every",
                Some(result.sampled_every).filter(|every| *every > 1),
            );
        })?;
        Ok(())
    }

    /// Appends the counters; as a whole document with its end, or only their rows.
    pub(super) fn push_counters(
        &self,
        out: &mut Vec<u8>,
        result: &Report,
        summary: &Summary<'_>,
        is_later: bool,
        is_document: bool,
    ) -> anyhow::Result<()> {
        let netns = result
            .counters
            .iter()
            .any(|line| line.line.moved.netns != sockeye_source::own_namespace());
        let of = result.counters.iter().any(|line| line.of.is_some());
        let columns = format!(
            "counter,moved,explained,remainder{}{},advice",
            if of { ",of" } else { "" },
            if netns { ",netns" } else { "" }
        );
        let mut layout = self.layout(self.shown.counters.as_deref(), &columns, result, is_later);
        layout.document_type = Drops::KEY;
        let format = layout.format;
        let mut writer = ListingWriter::new(&mut *out, layout);
        if is_document || format != Format::Json {
            writer.begin()?;
        }
        for line in &result.counters {
            writer.row(&line)?;
        }
        if is_document || format == Format::Table {
            writer.finish(summary)?;
        } else {
            writer.flush()?;
        }
        Ok(())
    }

    /// Returns how records are written: in these columns, if there are any, else in those of a `table`, and all of them in CSV and JSON.
    pub(super) fn layout<R: Record>(
        &self,
        columns: Option<&[&'static Column<R>]>,
        table: &str,
        result: &Report,
        no_header: bool,
    ) -> Layout<R> {
        let format = Format::from(self.args.format);
        let columns = match format {
            Format::Table | Format::Csv if columns.is_some() => columns.unwrap_or_default().to_vec(),
            Format::Table => parse_columns::<R>(table).unwrap_or_default(),
            _ => R::columns().iter().collect(),
        };
        let mut layout = Layout::new(format, columns);
        layout.style = stdout::style(self.args.common.color);
        layout.width = stdout::width();
        layout.no_header = self.args.common.no_header || no_header;
        layout.marks_last = true;
        layout.sample = result.sample;
        layout.envelope = result.envelope;
        layout
    }
}
