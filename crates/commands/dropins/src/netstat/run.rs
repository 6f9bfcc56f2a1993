//! From the options of `netstat` to its output. `Tool` calls [`run`] for `sockeye netstat` and for a binary that is
//! called `netstat`.

use super::buffered_stdout::BufferedStdout;
use super::options::Flags;
use super::{help, interfaces, routes, sockets, statistics};
use sockeye_console::notes;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs `netstat` with its arguments and returns the exit status.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let flags = match Flags::read(words) {
        Ok(flags) => flags,
        Err(status) => return status,
    };
    match print(&flags) {
        Ok(status) => status,
        Err(error) => help::report(&error),
    }
}

fn print(flags: &Flags) -> anyhow::Result<ExitCode> {
    let mut out = BufferedStdout::open()?;
    if flags.masquerade > 0 {
        // Linux has had no table of masqueraded connections since 2.4.
        notes::say("netstat: no support for `ip_masquerade' on this system.\n");
        return Ok(ExitCode::FAILURE);
    }
    if flags.statistics > 0 {
        let status = statistics::run(flags, &mut out);
        out.flush()?;
        return Ok(status);
    }
    if flags.routes > 0 {
        return routes::run(flags, &mut out);
    }
    if flags.interfaces > 0 {
        return interfaces::run(flags, &mut out);
    }
    sockets::run(flags, &mut out)
}
