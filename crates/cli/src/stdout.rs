//! Standard output, as it is: a terminal with a width, or something that takes bytes.

use crate::args::ColorArg;
use sockeye_render::Style;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

/// Standard output without the line buffer of the standard library: renderers write large pieces.
///
/// # Errors
/// When it was closed before we began.
pub(crate) fn open() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// Columns of the terminal behind it; `None` if there is none.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col));
    // A terminal that does not know its width says 0.
    columns.filter(|&columns| columns > 0)
}

/// Colours or none, by the flag, the terminal, `NO_COLOR` and `TERM`.
pub(crate) fn style(color: ColorArg) -> Style {
    let colored = match color {
        ColorArg::Always => true,
        ColorArg::Never => false,
        ColorArg::Auto => {
            io::stdout().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        }
    };
    if colored { Style::Color } else { Style::Plain }
}

/// Whether `error` says no more than that the reader of our output went away.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
