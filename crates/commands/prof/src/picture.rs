//! `-o`: the flame graph in a file.

use super::ProfArgs;
use super::args::mistake;
use crate::output::write_flame;
use anyhow::Context;
use sockeye_console::atomic_file::AtomicFile;
use sockeye_console::usage::UsageError;
use sockeye_output::{ChartFormat, harmless};
use sockeye_profile::Profile;
use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Fails early where it could not be written.
pub(super) fn prepare(args: &ProfArgs) -> anyhow::Result<Option<AtomicFile>> {
    format(args)?;
    args.output.as_deref().map(AtomicFile::create).transpose()
}

pub(super) fn draw(args: &ProfArgs, profile: &Profile, mut file: AtomicFile) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, &mut file);
    write_flame(&mut out, profile, args.stacks(), format(args)?)
        .and_then(|()| out.flush())
        .with_context(|| format!("write {:?}", args.output.as_deref().unwrap_or(Path::new(""))))?;
    drop(out);
    file.finish()
}

/// By the name of the file; one without an ending is SVG.
fn format(args: &ProfArgs) -> Result<ChartFormat, UsageError> {
    let Some(output) = args.output.as_deref() else {
        return Ok(ChartFormat::Svg);
    };
    if output == Path::new("-") {
        return Err(mistake(
            "-o -: the figures go to the standard output; the flame graph needs a file, called .svg or .png",
        ));
    }
    let ending = output.extension().map(OsStr::to_string_lossy);
    match ending.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("svg") => Ok(ChartFormat::Svg),
        Some("png") => Ok(ChartFormat::Png),
        Some(other) => Err(mistake(&format!(
            "nothing is known of .{}; what -o draws into is called .svg or .png",
            harmless(other.as_bytes())
        ))),
    }
}
