//! Completions and manual pages, from the definitions of `args.rs`.

use crate::args::Cli;
use anyhow::Context;
use clap::CommandFactory;
use std::path::Path;

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sockeye", &mut script);
    sockeye_console::stdout::write(&script)
}

/// Writes a page for `sockeye` and one for each of its commands.
pub(crate) fn manual(folder: &Path) -> anyhow::Result<()> {
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("write manual pages into {}", folder.display()))
}
