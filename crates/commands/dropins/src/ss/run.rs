//! From the options of `ss` to its output. `Tool` calls [`run`] for `sockeye ss` and for a binary that is called `ss`. It reads
//! sockets and changes nothing, except that `-K` closes the sockets that it lists.

use super::listing::Listing;
use super::options::{self, EarlyExit, SsOptions};
use super::own_options::OwnOptions;
use super::resolver::Resolver;
use super::tables::{self, Table};
use super::{events, summary};
use crate::errno::errno_text;
use crate::output::SsLevel;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_filter::ss::{Context, Filter, ParseError};
use sockeye_model::NetnsInode;
use sockeye_source::{Error, OpenNetns, within};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

/// Runs `ss` with its arguments and returns the exit status.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let (words, own) = match OwnOptions::take(words) {
        Ok(taken) => taken,
        Err(text) => {
            report_error(text.as_bytes());
            return ExitCode::from(options::EXIT_USAGE);
        }
    };
    let level = own.level;
    let outcome = options::read(&words, own).and_then(|options| match options.netns.clone() {
        None => show(options, None),
        Some(name) => run_in_netns(&name, options),
    });
    match outcome {
        Ok(status) => status,
        Err(EarlyExit::Print(text)) => match stdout::write(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => sockeye_console::exit::report(&error),
        },
        Err(EarlyExit::Error { text, usage, status }) => {
            report_error(&text);
            if usage {
                notes::say(&options::usage(level));
            }
            ExitCode::from(status)
        }
    }
}

/// Writes an error of `ss` to stderr, byte for byte; to a terminal without control characters.
fn report_error(text: &[u8]) {
    if io::stderr().is_terminal() {
        notes::say(&String::from_utf8_lossy(text));
    } else {
        let _ = io::stderr().write_all(text);
    }
}

/// Lists the sockets of the network namespace with this name.
fn run_in_netns(name: &str, options: SsOptions) -> Result<ExitCode, EarlyExit> {
    let failed = |text: String| EarlyExit::error(text, 1);
    let opened = File::open(format!("/run/netns/{name}")).and_then(|file| {
        let inode = u32::try_from(file.metadata()?.ino()).map_err(io::Error::other)?;
        Ok((file, NetnsInode(inode)))
    });
    let (file, inode) = opened.map_err(|error| {
        failed(format!(
            "Cannot open network namespace \"{name}\": {}\n",
            errno_text(&error)
        ))
    })?;
    let netns = OpenNetns {
        fd: file.as_fd(),
        inode,
        process: None,
    };
    match within(netns, || show(options, Some(netns))) {
        Ok(shown) => shown,
        Err(error) => {
            let text = match error {
                Error::Namespace(_, errno) => errno_text(&errno.into()),
                error => error.to_string(),
            };
            Err(failed(format!(
                "setting the network namespace \"{name}\" failed: {text}\n"
            )))
        }
    }
}

/// Prints what the options ask for, in the network namespace of this thread.
fn show(mut options: SsOptions, netns: Option<OpenNetns<'_>>) -> Result<ExitCode, EarlyExit> {
    if options.summary {
        summary::print().map_err(|error| EarlyExit::error(format!("sockeye ss: {error:#}\n"), 1))?;
        if !options.selection.is_chosen && options.operands.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if let Some(word) = options.operands.iter().find(|word| word.to_str().is_none()) {
        let text = format!("sockeye ss: a filter has to be UTF-8, and {word:?} is not\n");
        return Err(EarlyExit::error(text, options::EXIT_USAGE));
    }
    let mut words: VecDeque<_> = options
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    read_states(&mut words, &mut options.states, options.level)?;
    let selection = &mut options.selection;
    if !selection.is_chosen {
        if options.states == 0 {
            options.states = tables::connected(options.level);
        }
        selection.set_named("all");
    }
    if options.states != 0 {
        selection.states = options.states;
    }
    selection.complete();
    for (is_empty, what) in [
        (selection.is_without_tables(), "socket tables"),
        (selection.is_without_families(), "families"),
        (selection.states == 0, "socket states"),
    ] {
        if is_empty {
            notes::say(&format!("ss: no {what} to show with such filter.\n"));
            return Ok(ExitCode::SUCCESS);
        }
    }
    if options.dump.is_some() && !selection.has(Table::Tcp) {
        notes::say("ss: tcpdiag dump requested and no tcp in filter.\n");
        return Ok(ExitCode::SUCCESS);
    }
    let resolver = Resolver::new(&options);
    // `-D` ignores the filter.
    let filter = if options.dump.is_some() {
        Filter::default()
    } else {
        read_filter(&options, words.make_contiguous(), &resolver)?
    };
    if let Some(family) = filter.family() {
        options.selection.restrict_to(family);
    }
    let listing = Listing::new(&options, &filter, &resolver, netns);
    let outcome = if let Some(path) = &options.dump {
        listing.dump(path)
    } else if options.events {
        events::follow(&listing)
    } else {
        listing.list()
    };
    Ok(outcome.unwrap_or_else(|error| sockeye_console::exit::report(&error)))
}

/// Reads `state S` and `exclude S` at the front of `words`, and removes them.
fn read_states(words: &mut VecDeque<String>, states: &mut u32, level: SsLevel) -> Result<(), EarlyExit> {
    let mut is_first = true;
    while let Some(word) = words.front() {
        let excludes = match &**word {
            "state" => false,
            "exclude" | "excl" => true,
            _ => break,
        };
        words.pop_front();
        let Some(name) = words.pop_front() else {
            let text = "Command line is not complete. Try option \"help\"\n";
            return Err(EarlyExit::error(text.to_owned(), options::EXIT_USAGE));
        };
        if is_first {
            *states = if excludes { tables::all(level) } else { 0 };
        }
        is_first = false;
        let Some(named) = tables::states_named(&name, level) else {
            return Err(EarlyExit::error(
                format!("ss: wrong state name: {name}\n"),
                options::EXIT_USAGE,
            ));
        };
        if excludes {
            *states &= !named;
        } else {
            *states |= named;
        }
    }
    Ok(())
}

fn read_filter(options: &SsOptions, words: &[String], resolver: &Resolver) -> Result<Filter, EarlyExit> {
    let context = Context {
        preferred: options.selection.preferred,
        udp: options.selection.has(Table::Udp),
        tcp: options.selection.has(Table::Tcp),
        since_6_15: options.level >= SsLevel::V6_15,
    };
    let file = options.filter_file.as_deref();
    sockeye_filter::ss::parse(words, file, &context, resolver).map_err(|error| wrong_filter(&error))
}

/// Returns the error message of `ss`, followed by an explanation of ours.
fn wrong_filter(error: &ParseError) -> EarlyExit {
    let mut text = error.to_string();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let explanation = error.explanation();
    if !explanation.is_empty() {
        text.push_str(&format!("sockeye ss: {explanation}\n"));
    }
    EarlyExit::Error {
        text: text.into_bytes(),
        usage: error.shows_usage(),
        status: error.exit_code(),
    }
}
