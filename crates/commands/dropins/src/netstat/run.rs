//! `sockeye netstat`: what net-tools 2.10 shows, in its bytes, from better sources.
//!
//! `args.rs` is what can be typed; each other module is one kind of output. Sockets come from `sockeye_source`
//! (netlink or a walk over the kernel's tables), the rest from `/proc/net` and rtnetlink. The layouts are
//! `crate::output::netstat`. What is the same and what is not is told in `docs/dropins/netstat.md`.

mod args;
mod groups;
mod help;
mod interfaces;
mod names;
mod page;
mod programs;
mod routes;
mod sockets;
mod statistics;

use args::Flags;
use page::Page;
use sockeye_console::notes;
use sockeye_console::stdout;
use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let flags = match Flags::read(words) {
        Ok(flags) => flags,
        Err(status) => return status,
    };
    match act(&flags) {
        Ok(status) => status,
        Err(error) => report(&error),
    }
}

fn act(flags: &Flags) -> anyhow::Result<ExitCode> {
    let mut page = Page::open()?;
    if flags.masquerade > 0 {
        // Linux has had no table of masqueraded connections since 2.4.
        notes::say("netstat: no support for `ip_masquerade' on this system.\n");
        return Ok(ExitCode::FAILURE);
    }
    if flags.statistics > 0 {
        let status = statistics::run(flags, &mut page);
        page.flush()?;
        return Ok(status);
    }
    if flags.routes > 0 {
        return routes::run(flags, &mut page);
    }
    if flags.interfaces > 0 {
        return interfaces::run(flags, &mut page);
    }
    sockets::run(flags, &mut page)
}

/// Says what failed and chooses the exit status.
fn report(error: &anyhow::Error) -> ExitCode {
    if stdout::is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    notes::say(&format!("netstat: {error:#}\n"));
    ExitCode::FAILURE
}

/// What `perror(3)` says of an error, without its number.
fn errno_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}
