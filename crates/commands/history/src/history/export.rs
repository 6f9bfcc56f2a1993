//! `sockeye history export`: sums of talkers, or a copy of the store.

use super::args::{ExportArgs, ExportFormat};
use crate::output::{SUM_COLUMNS, SumRow, SumRows, sum_values};
use anyhow::Context;
use sockeye_console::output_file::{OutputFile, Readers, database_path};
use sockeye_console::{envelope, stdout};
use sockeye_output::date::push_rfc3339_us;
use sockeye_output::listing::{Layout, ListingWriter, Record as _};
use sockeye_output::parquet::ParquetWriter;
use sockeye_output::{Format, Summary};
use sockeye_query::past;
use sockeye_store::{SIDE_FILES, StoreReader};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

/// Exports.
pub(super) fn run(args: &ExportArgs) -> anyhow::Result<()> {
    let (since, until) = args.range.times_ms()?;
    let store = past::open_store(args.store.as_deref())?;
    let times_s = (since / 1000, until.div_ceil(1000));
    let format = match args.format {
        ExportFormat::Csv => Format::Csv,
        ExportFormat::Jsonl => Format::Jsonl,
        ExportFormat::Parquet => {
            let path = args.output.as_deref().context("--output names the file")?;
            let mut file = OutputFile::create_for(path, Readers::Owner)?;
            write_parquet(&store, times_s, file.file())
                .with_context(|| format!("write {}", path.display()))?;
            return file.finish();
        }
        ExportFormat::Sqlite => {
            let path = args.output.as_deref().context("--output names the file")?;
            let path =
                database_path(path, SIDE_FILES).with_context(|| format!("create {}", path.display()))?;
            return Ok(store.copy_to(&path)?);
        }
    };
    match &args.output {
        None => {
            write(&store, times_s, format, stdout::open().context(stdout::WRITING)?).context(stdout::WRITING)
        }
        Some(path) => {
            let mut file = OutputFile::create_for(path, Readers::Owner)?;
            write(&store, times_s, format, file.file())
                .with_context(|| format!("write {}", path.display()))?;
            file.finish()
        }
    }
}

fn write(store: &StoreReader, times_s: (u64, u64), format: Format, out: impl Write) -> anyhow::Result<()> {
    let mut layout = Layout::new(format, SumRows::columns().iter().collect());
    layout.envelope = envelope::now();
    let mut writer = ListingWriter::new(out, layout);
    writer.begin()?;
    let mut written: io::Result<()> = Ok(());
    store.visit_sums(times_s, &mut |sums| {
        let mut start = String::new();
        push_rfc3339_us(&mut start, sums.start_s * 1_000_000);
        written = writer.row(&SumRow { start: &start, sums });
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    written?;
    Ok(writer.finish(&Summary::default())?)
}

fn write_parquet(store: &StoreReader, times_s: (u64, u64), out: impl Write) -> anyhow::Result<()> {
    let mut writer = ParquetWriter::begin(BufWriter::new(out), SUM_COLUMNS, &sockeye_store::compress)?;
    let mut written: io::Result<()> = Ok(());
    store.visit_sums(times_s, &mut |sums| {
        written = writer.row(&sum_values(sums));
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    written?;
    Ok(writer.finish()?.flush()?)
}
