//! Samples as text, for `--once` and `--format`: the listings of `flows` and `sockets`, and those of drops and devices.

use crate::args::TopArgs;
use crate::observed::{ObservedNames, WithObserved};
use crate::sample::{About, Places, Rows, Sink, Source, Totals, context, pacing, require, words};
use crate::state::Plan;
use anyhow::Context;
use sockeye_console::args::FormatArg;
use sockeye_console::{envelope, notes, stdout};
use sockeye_output::flow::connections;
use sockeye_output::listing::{Column, Layout, ListingWriter, Record, SortKey, find_column};
use sockeye_output::{Format, Summary};
use sockeye_query::listing::{Listing, ListingReport};
use std::io::{self, Write};
use std::time::Instant;

/// Prints samples: with `--once` the second one, which has rates.
pub(crate) fn run(args: &TopArgs, plan: &Plan) -> anyhow::Result<()> {
    let context = context(args, plan)?;
    let mut listing = Listing::new(&args.common, &words(plan), None, &context)?;
    require(&mut listing, plan);
    let places = Places::open(&args.mmdb)?;
    let place_of = |ip| places.of(ip);
    let nothing = ObservedNames::default();
    let names = WithObserved {
        names: &context,
        observed: &nothing,
        place_of: &place_of,
    };
    if !plan.filter.is_empty() && !plan.view.has_filter() {
        notes::say(&format!(
            "sockeye: top: {} are not filtered: the filter selects sockets\n",
            plan.view.name()
        ));
    }
    let mut source = Source::new(&listing, plan, &places);
    for number in 1.. {
        let (begun, cpu) = (Instant::now(), pacing::cpu_time());
        let mut report = listing.begin();
        let is_printed = !args.once || number == 2;
        let mut sink = ScriptSink {
            args,
            plan,
            number,
            is_printed,
        };
        source
            .take(&listing, plan, &names, &mut report, &mut sink)
            .context(stdout::WRITING)?;
        if is_printed {
            listing.write_notes(&report, args.common.verbose);
        }
        let is_last = if args.once {
            number == 2
        } else {
            args.count == Some(number)
        };
        let interval = if args.once {
            args.watch
        } else {
            pacing::interval(args.watch, pacing::cpu_time().saturating_sub(cpu))
        };
        if is_last || !stdout::pause(interval.saturating_sub(begun.elapsed())) {
            break;
        }
    }
    Ok(())
}

/// Prints a sample, or only takes it.
struct ScriptSink<'a> {
    args: &'a TopArgs,
    plan: &'a Plan,
    number: u64,
    is_printed: bool,
}

impl ScriptSink<'_> {
    fn layout<R: Record>(&self, columns: Vec<&'static Column<R>>) -> Layout<R> {
        let format = Format::from(self.args.common.format);
        let mut layout = Layout::new(format, columns);
        let order = self.plan.order;
        layout.sort = find_column(order.column).ok().map(|column| SortKey {
            column,
            descending: order.descending,
        });
        layout.style = stdout::style(self.args.common.color);
        layout.width = stdout::width();
        // A file of many samples has one header.
        let has_header = self.args.once || self.number == 1 || format != Format::Csv;
        layout.no_header = self.args.common.no_header || !has_header;
        layout.sample = (!self.args.once).then_some(self.number);
        layout.envelope = envelope::now();
        layout
    }
}

impl Sink for ScriptSink<'_> {
    type Rows<R: Record> = Lines<R>;

    fn has_all_columns(&self) -> bool {
        self.args.common.format == FormatArg::Csv
    }

    fn begin<R: Record>(&mut self, columns: Vec<&'static Column<R>>) -> io::Result<Lines<R>> {
        let out: Box<dyn Write> = if self.is_printed {
            Box::new(stdout::open()?)
        } else {
            Box::new(io::sink())
        };
        let mut writer = ListingWriter::new(out, self.layout(columns));
        writer.begin()?;
        Ok(Lines(writer))
    }

    fn end<R: Record>(
        &mut self,
        mut lines: Lines<R>,
        totals: Totals,
        report: &ListingReport,
    ) -> io::Result<()> {
        let sources = report.sources();
        lines.0.finish(&Summary {
            connections: totals.connections,
            ..report.summary(&sources)
        })?;
        let is_table = Format::from(self.args.common.format) == Format::Table;
        if let (true, Some(totals)) = (is_table && self.is_printed, totals.connections) {
            let line = connections::line(&totals, !self.plan.filter.is_empty());
            stdout::open()?.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

/// Writes rows as they come.
struct Lines<R: Record>(ListingWriter<Box<dyn Write>, R>);

impl<R: Record> Rows<R> for Lines<R> {
    fn add(&mut self, row: &R::Row<'_>, _: &dyn Fn() -> About) -> io::Result<()> {
        self.0.row(row)
    }
}
