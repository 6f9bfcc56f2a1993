//! `sockeye ss`, or a link of that name: what `ss` of iproute2 6.1 prints, from better sources.
//!
//! `options` reads the command line as it does, `tables` knows what it lists when little is said, `listing` asks and
//! hands rows to the renderer. docs/dropins/ss.md says of each option how far it is the same.

mod book;
mod events;
mod listing;
mod options;
mod summary;
mod tables;
mod threads;

use crate::output::SsLayout;
use listing::Listing;
use options::{Asked, End};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_filter::ss::{Context, Filter, Mistake};
use sockeye_model::{Family, NetnsInode};
use sockeye_source::{Error, OpenNetns, within};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use tables::Table;

pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let outcome = options::read(words).and_then(|asked| match asked.netns.clone() {
        None => show(asked, None),
        Some(name) => inside(&name, asked),
    });
    match outcome {
        Ok(status) => status,
        Err(End::Told(text)) => match stdout::write(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => sockeye_console::exit::report(&error),
        },
        Err(End::Wrong { text, usage, status }) => {
            say(&text);
            if usage {
                notes::say(options::USAGE);
            }
            ExitCode::from(status)
        }
    }
}

/// Writes to stderr what ss would, byte for byte; to a terminal nothing that was typed goes raw.
fn say(text: &[u8]) {
    if io::stderr().is_terminal() {
        notes::say(&String::from_utf8_lossy(text));
    } else {
        let _ = io::stderr().write_all(text);
    }
}

/// Does everything inside the namespace with this name.
fn inside(name: &str, asked: Asked) -> Result<ExitCode, End> {
    let failed = |text: String| End::wrong(text, 1);
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
    let place = OpenNetns {
        fd: file.as_fd(),
        inode,
        process: None,
    };
    match within(place, || show(asked, Some(place))) {
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

/// What is asked for, in the network namespace of this thread.
fn show(mut asked: Asked, place: Option<OpenNetns<'_>>) -> Result<ExitCode, End> {
    if asked.summary {
        summary::print().map_err(|error| End::wrong(format!("sockeye ss: {error:#}\n"), 1))?;
        if !asked.selection.is_chosen && asked.operands.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if let Some(word) = asked.operands.iter().find(|word| word.to_str().is_none()) {
        let text = format!("sockeye ss: a filter has to be UTF-8, and {word:?} is not\n");
        return Err(End::wrong(text, options::WRONG));
    }
    let mut words: VecDeque<_> = asked
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    states(&mut words, &mut asked.states)?;
    let selection = &mut asked.selection;
    if !selection.is_chosen {
        if asked.states == 0 {
            asked.states = tables::CONNECTED;
        }
        selection.take_named("all");
    }
    if asked.states != 0 {
        selection.states = asked.states;
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
    if asked.dump.is_some() && !selection.has(Table::Tcp) {
        notes::say("ss: tcpdiag dump requested and no tcp in filter.\n");
        return Ok(ExitCode::SUCCESS);
    }
    let book = book::Book::new(&asked);
    // A dump is made before the filter is read.
    let filter = if asked.dump.is_some() {
        Filter::default()
    } else {
        read_filter(&asked, words.make_contiguous(), &book)?
    };
    if let Some(family) = filter.family() {
        asked.selection.confine(family);
    }
    let listing = Listing::new(&asked, &filter, &book, place);
    let outcome = if let Some(path) = &asked.dump {
        listing.dump(path)
    } else if asked.events {
        events::follow(&listing)
    } else {
        listing.list()
    };
    Ok(outcome.unwrap_or_else(|error| sockeye_console::exit::report(&error)))
}

/// Takes `state S` and `exclude S` from the front.
fn states(words: &mut VecDeque<String>, states: &mut u32) -> Result<(), End> {
    let mut saw = false;
    while let Some(word) = words.front() {
        let excludes = match &**word {
            "state" => false,
            "exclude" | "excl" => true,
            _ => break,
        };
        words.pop_front();
        let Some(name) = words.pop_front() else {
            let text = "Command line is not complete. Try option \"help\"\n";
            return Err(End::wrong(text.to_owned(), options::WRONG));
        };
        if !saw {
            *states = if excludes { tables::ALL } else { 0 };
        }
        saw = true;
        let Some(named) = tables::states_named(&name) else {
            return Err(End::wrong(
                format!("ss: wrong state name: {name}\n"),
                options::WRONG,
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

fn read_filter(asked: &Asked, words: &[String], book: &book::Book) -> Result<Filter, End> {
    let context = Context {
        preferred: asked.selection.preferred,
        udp: asked.selection.has(Table::Udp),
        tcp: asked.selection.has(Table::Tcp),
    };
    let file = asked.filter_file.as_deref();
    sockeye_filter::ss::parse(words, file, &context, book).map_err(|mistake| wrong_filter(&mistake))
}

/// What ss says, and below it what it means.
fn wrong_filter(mistake: &Mistake) -> End {
    let mut text = mistake.to_string();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let explanation = mistake.explanation();
    if !explanation.is_empty() {
        text.push_str(&format!("sockeye ss: {explanation}\n"));
    }
    End::Wrong {
        text: text.into_bytes(),
        usage: mistake.shows_usage(),
        status: mistake.exit_code(),
    }
}

/// The columns of a row, and what is in them.
fn layout(asked: &Asked) -> SsLayout {
    SsLayout {
        netid: !asked.selection.is_one_table(),
        state: !asked.selection.is_one_state(),
        timers: asked.timers,
        extended: asked.extended,
        memory: asked.memory,
        info: asked.info,
        service_class: asked.service_class,
        cgroup: asked.cgroup,
        options: asked.options,
        bpf: asked.bpf,
        one_line: asked.one_line,
        numeric: asked.numeric,
        width: stdout::width(),
        terminal: io::stdout().is_terminal(),
    }
}

/// The words of the C library for it, without the number that the standard library adds.
fn errno_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// Whether sockets of this family are IP's.
const fn is_inet(family: Family) -> bool {
    matches!(family, Family::Inet | Family::Inet6)
}
