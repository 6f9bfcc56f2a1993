//! The URLs that open the page.

use crate::access::Gate;
use anyhow::Context;
use sockeye_console::stdout;

/// Prints a URL that opens the page once.
pub(crate) fn print_url(gate: &Gate) -> anyhow::Result<()> {
    let url = gate.new_url().context("make a token")?;
    stdout::write(format!("{url}\n").as_bytes())
}
