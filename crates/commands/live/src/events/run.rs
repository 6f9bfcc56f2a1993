//! Runs `events`.

use super::args::EventsArgs;

/// Prints events until ^C.
///
/// # Errors
/// If they cannot be watched.
pub fn run(args: &EventsArgs) -> anyhow::Result<()> {
    let _ = (args.format, &args.btf, &args.filter);
    anyhow::bail!("events: not built yet")
}
