//! `-o`: writes the flame graph into a file.

use crate::args::{ProfArgs, usage_error};
use crate::output::write_flame;
use anyhow::Context;
use sockeye_console::output_file::OutputFile;
use sockeye_console::usage::UsageError;
use sockeye_output::{ChartFormat, harmless};
use sockeye_profile::Profile;
use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Creates the file, if one was asked for.
///
/// # Errors
/// If the name has no known ending or the file cannot be created.
pub(super) fn create(args: &ProfArgs) -> anyhow::Result<Option<OutputFile>> {
    format(args)?;
    args.output.as_deref().map(OutputFile::create).transpose()
}

/// Draws the profile's stacks into the file and replaces the old one.
pub(super) fn draw(args: &ProfArgs, profile: &Profile, mut file: OutputFile) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, &mut file);
    write_flame(&mut out, profile, args.stacks(), format(args)?)
        .and_then(|()| out.flush())
        .with_context(|| format!("write {:?}", args.output.as_deref().unwrap_or(Path::new(""))))?;
    drop(out);
    file.finish()
}

/// Returns the format that the file name's ending means; SVG without an ending.
fn format(args: &ProfArgs) -> Result<ChartFormat, UsageError> {
    let Some(output) = args.output.as_deref() else {
        return Ok(ChartFormat::Svg);
    };
    if output == Path::new("-") {
        return Err(usage_error(
            "-o -: the report goes to the standard output; the flame graph needs a file whose name ends in .svg or .png",
        ));
    }
    let ending = output.extension().map(OsStr::to_string_lossy);
    match ending.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("svg") => Ok(ChartFormat::Svg),
        Some("png") => Ok(ChartFormat::Png),
        Some(other) => Err(usage_error(&format!(
            "-o: unknown ending .{}; the file name must end in .svg or .png",
            harmless(other.as_bytes())
        ))),
    }
}
