//! Runs `path`.

use crate::args::PathArgs;
use crate::output::{
    HopRow, Hops, fit_columns, netns_of, part_name, push_text, table_columns, write_picture,
};
use crate::watch::{Seen, follow};
use anyhow::Context as _;
use sockeye_console::notes::say;
use sockeye_console::output_file::OutputFile;
use sockeye_console::usage::UsageError;
use sockeye_console::{envelope, stdout};
use sockeye_measure::Sentence;
use sockeye_model::{Names as _, NetnsInode, counted, counted_were};
use sockeye_output::listing::{Column, Layout, ListingWriter, columns_help, parse_columns};
use sockeye_output::report::push_sentences;
use sockeye_output::wrap::push_wrapped;
use sockeye_output::{Format, Summary};
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::drops::reasons_of;
use sockeye_query::findings::inside;
use sockeye_query::listing::Listing;
use sockeye_sys::interrupts::Interrupts;
use std::io::{BufWriter, Write as _};

/// Follows packets, and prints where their time was spent.
///
/// # Errors
/// If an option is wrong, packets cannot be followed, or output failed.
pub fn run(args: &PathArgs) -> anyhow::Result<()> {
    if args.common.columns.as_deref() == Some("help") {
        return stdout::write_lines(columns_help::<Hops>());
    }
    let columns = args
        .common
        .columns
        .as_deref()
        .map(parse_columns::<Hops>)
        .transpose();
    let columns = columns.map_err(|error| UsageError::unknown_column("--columns", "path", &error))?;
    let interrupts = Interrupts::catch().context("handle SIGINT")?;
    let create = |path| OutputFile::create(path).map(|file| (path, file));
    let picture = args.svg.as_deref().map(create).transpose()?;
    let common = args.listing();
    let context = QueryContext::new(&common, false, true)?;
    let port = args.port_filter();
    let listing = Listing::new(&common, &args.filter, port.as_deref(), &context)?;
    // Those in handshakes, and those that no program has accepted, have no descriptor.
    let complete = ListingArgs {
        complete: true,
        ..args.listing()
    };
    let mut owned = Listing::new(&complete, &args.filter, port.as_deref(), &context)?;
    owned.require_owners();
    let reasons = reasons_of(&context.engine);
    let seen = follow(args, &listing, &owned, reasons, &interrupts)?;
    let rows: Vec<HopRow<'_>> = seen
        .report
        .hops
        .iter()
        .map(|hop| HopRow {
            hop,
            share_ppm: seen.report.share_ppm(hop),
            netns_name: netns_of(hop).and_then(|netns| context.netns(NetnsInode(netns)).map(str::to_owned)),
            part_name: hop.part.map(part_name),
        })
        .collect();
    let in_namespace = |netns, command: &str| {
        let access = context.access_to(NetnsInode(netns))?;
        Some(inside(&access, command))
    };
    let sentences = seen.report.sentences_with(&in_namespace);
    print(args, &seen, &rows, &sentences, columns)?;
    if let Some((path, mut file)) = picture {
        let mut out = BufWriter::new(&mut file);
        write_picture(&mut out, &rows, &seen.report)
            .and_then(|()| out.flush())
            .with_context(|| format!("write {}", path.display()))?;
        drop(out);
        file.finish()?;
    }
    say_losses(&seen);
    Ok(())
}

fn print(
    args: &PathArgs,
    seen: &Seen,
    rows: &[HopRow<'_>],
    sentences: &[Sentence],
    columns: Option<Vec<&'static Column<Hops>>>,
) -> anyhow::Result<()> {
    let format = Format::from(args.format);
    let (mut is_fitted, mut left_out) = (false, Vec::new());
    let columns = match format {
        Format::Table | Format::Csv if columns.is_some() => columns.unwrap_or_default(),
        Format::Table => {
            let (names, narrow) = fit_columns(rows, &table_columns(rows), stdout::width());
            (is_fitted, left_out) = (true, narrow);
            parse_columns::<Hops>(&names).unwrap_or_default()
        }
        _ => <Hops as sockeye_output::listing::Record>::columns()
            .iter()
            .collect(),
    };
    let mut layout = Layout::new(format, columns);
    layout.style = stdout::style(args.common.color);
    layout.width = stdout::width();
    // One line for each hop.
    (layout.live, layout.keeps_columns) = (is_fitted, true);
    // A reader counts with all its text.
    layout.has_whole_last = is_fitted;
    layout.no_header = args.common.no_header;
    layout.marks_last = true;
    layout.document_type = "path";
    layout.envelope = envelope::now();
    let mut out = Vec::new();
    if format == Format::Table && seen.report.followed() == 0 {
        out.extend_from_slice(b"No packet that matches was seen.\n");
    }
    if format != Format::Table || !rows.is_empty() {
        let mut writer = ListingWriter::new(&mut out, layout);
        writer.begin()?;
        for row in rows {
            writer.row(&row)?;
        }
        let summary = Summary {
            interrupted: seen.is_interrupted,
            ..Summary::default()
        };
        writer.finish_with(&summary, |object| {
            let report = &seen.report;
            object.number("duration_ns", Some(seen.elapsed_ns));
            object.number("sample_every", Some(report.sample_every));
            object.number("followed", Some(report.followed()));
            object.number("complete", Some(report.complete));
            object.number("dropped", Some(report.dropped));
            object.number("divided", Some(report.divided));
            object.number("merged", Some(report.merged));
            object.number("reassembled", Some(report.reassembled));
            object.number("lost", Some(report.lost));
            object.number("unfinished", Some(report.unfinished));
            object.number("matched_ppm", report.matched_ppm());
            object.number("left_out", Some(seen.counts.left_out));
            object.number("without_data", Some(seen.counts.without_data));
            object.number("no_space", Some(seen.counts.no_space));
            object.number("not_selected", Some(seen.not_selected));
            object.number("truncated", Some(seen.truncated));
            object.number("ring_lost", Some(seen.ring_lost()));
            object.number("missed", Some(seen.accounting.missed));
            object.number("received_unseen", Some(seen.received_unseen));
            object.boolean("accepts_measured", Some(seen.sees_accepts));
            object.number("unlisted_accepts", Some(seen.unlisted_accepts));
            object.number("accepts_no_space", Some(seen.counts.no_space_to_wait));
            object.number("sockets", report.sockets);
            object.number("stuck_unlisted", Some(report.stuck_unlisted));
            push_sentences(object, sentences);
        })?;
    }
    if format == Format::Table {
        push_text(
            &mut out,
            rows,
            &seen.report,
            sentences,
            stdout::width(),
            seen.sees_accepts,
        );
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            let note = format!("Not shown in so narrow a terminal: {names}. --columns shows what it names.");
            push_wrapped(&mut out, note.as_bytes(), "", stdout::width());
        }
    }
    match stdout::write(&out) {
        Err(error) if stdout::is_closed_pipe(&error) => Ok(()),
        written => written,
    }
}

/// Says which packets the numbers do not have.
fn say_losses(seen: &Seen) {
    let were = |count| counted_were(count, "packet");
    let notes = [
        (
            seen.counts.no_space,
            were(seen.counts.no_space),
            "not followed: another one that has not been seen to end had the slot of its address; --slots makes room",
        ),
        (
            seen.ring_lost(),
            format!("{} did", counted(seen.ring_lost(), "packet")),
            "not fit into the ring; --ring makes room, --sample follows fewer",
        ),
        (
            seen.accounting.missed,
            were(seen.accounting.missed),
            "not seen at a point: it was reached within another point, on the same processor",
        ),
        (
            seen.received_unseen,
            were(seen.received_unseen),
            "read or sent on, and not seen before, where the kernel received it: no program ran there",
        ),
        (
            seen.truncated,
            format!("{} went", counted(seen.truncated, "packet")),
            "through more points than are kept: the last ones are missing",
        ),
    ];
    for (count, packets, text) in notes {
        if count > 0 {
            say(&format!("sockeye: {packets} {text}\n"));
        }
    }
    let connections = seen.unlisted_accepts + seen.counts.no_space_to_wait;
    if connections > 0 {
        let connections = match connections {
            1 => "1 connection in an accept queue is".to_owned(),
            _ => format!("{connections} connections in accept queues are"),
        };
        say(&format!(
            "sockeye: {connections} not in the table: more were there than are kept\n"
        ));
    }
}
