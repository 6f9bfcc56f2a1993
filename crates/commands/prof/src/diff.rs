//! `prof --diff A B`: reads two saved profiles and prints what changed. Nothing is observed; `sockeye_profile::Difference`
//! compares.

use crate::args::ProfArgs;
use crate::layout::{layout, view};
use anyhow::{Context, bail};
use sockeye_console::stdout;
use sockeye_output::{Format, push_report};
use sockeye_profile::{Difference, Profile};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Prints what changed from the profile in file `a` to that in file `b`.
pub(super) fn run(args: &ProfArgs, a: &Path, b: &Path) -> anyhow::Result<ExitCode> {
    let (before, after) = (read(a)?, read(b)?);
    let (a_name, b_name) = (a.to_string_lossy(), b.to_string_lossy());
    let difference = Difference {
        a_name: &a_name,
        a: &before,
        b_name: &b_name,
        b: &after,
        rows: view(args).rows,
        for_eyes: args.output_format() == Format::Table,
    };
    let mut text = Vec::new();
    push_report(&mut text, &difference.report(), layout(args));
    stdout::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<Profile> {
    let file = File::open(path).with_context(|| format!("open {path:?}"))?;
    let mut text = Vec::new();
    let read = file.take(BYTES_MAX + 1).read_to_end(&mut text);
    read.with_context(|| format!("read {path:?}"))?;
    if text.len() as u64 > BYTES_MAX {
        bail!(
            "read {path:?}: it has more than {} MiB: not a profile",
            BYTES_MAX >> 20
        );
    }
    Profile::from_json(&text).with_context(|| format!("read {path:?}"))
}

/// The largest file that is read; profiles have a few megabytes.
const BYTES_MAX: u64 = 64 << 20;
