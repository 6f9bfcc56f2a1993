//! Captures packets into files until a limit or a signal ends it. `sockeye::main` calls it. It judges nothing.

use super::args::CaptureArgs;
use super::interface::Interface;
use super::session;
use super::values::FileRing;
use sockeye_console::usage::UsageError;
use std::process::ExitCode;

/// Captures packets.
///
/// # Errors
/// If an option is wrong, capturing is not permitted, or the file cannot be written.
pub fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    if args.netns.as_deref() == Some("all") {
        let text = "sockeye: capture: one network namespace at a time; start one capture for each, or name one after --netns\n";
        return Err(UsageError(text.to_owned()).into());
    }
    let (ring, used) = match &args.ring {
        Some(text) => {
            let (ring, used) = FileRing::parse_words(text, &args.filter)
                .map_err(|expected| UsageError(format!("sockeye: capture: --ring {text:?}: {expected}\n")))?;
            (Some(ring), used)
        }
        None => (None, 0),
    };
    let filter = args.filter[used..].join(" ");
    let interface = Interface::find(args)?;
    session::run(args, &interface, &filter, ring)
}
