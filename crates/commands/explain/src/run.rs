//! Looks up what was asked, or each line of a log, in `sockeye_dictionary`, and prints the entries. `sockeye::main` calls it.

use crate::args::{ExplainArgs, Kinds};
use crate::log;
use crate::output::{
    ExplainLayout, ExplainedLog, ExplainedUnknown, push_entries, push_explained, push_explained_log,
};
use anyhow::Context;
use sockeye_console::envelope;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_dictionary::{Dictionary, Found, Log};
use sockeye_output::Format;
use sockeye_output::text::harmless_start;
use sockeye_sys::interrupts::Interrupts;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

/// Explains names, or the lines of a log.
///
/// # Errors
/// If an option is wrong, a file cannot be read, or output failed.
pub fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let layout = ExplainLayout {
        format: Format::from(args.format),
        style: stdout::style(args.color),
        width: stdout::width(),
        no_header: args.no_header,
        is_detailed: args.verbose,
        envelope: envelope::now(),
    };
    let dictionary = Dictionary::new();
    if let Some(kinds) = args.list {
        list(&dictionary, kinds, &layout)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = args.text.join(" ");
    let file = match &args.file {
        Some(file) => Some(file.as_path()),
        None if args.text.is_empty() || args.text == ["-"] => Some(Path::new("-")),
        None => None,
    };
    let Some(file) = file else {
        let found = dictionary.find(&text);
        // The name of a log, without its flag.
        if found.entries.is_empty()
            && let [path] = &args.text[..]
            && Path::new(path).is_file()
        {
            explain_log(&dictionary, Path::new(path), args, &layout)?;
            return Ok(ExitCode::SUCCESS);
        }
        return show(&text, &found, &layout);
    };
    if file == Path::new("-") && args.file.is_none() && io::stdin().is_terminal() {
        let text = "sockeye: explain: missing argument: a name or a line of a log (sockeye explain CLOSE_WAIT), or a log: dmesg | sockeye explain\n";
        return Err(UsageError(text.to_owned()).into());
    }
    explain_log(&dictionary, file, args, &layout)?;
    Ok(ExitCode::SUCCESS)
}

fn list(dictionary: &Dictionary, kinds: Kinds, layout: &ExplainLayout) -> anyhow::Result<()> {
    let entries: Vec<_> = dictionary
        .entries()
        .filter(|entry| kinds == Kinds::All || kinds == Kinds::One(entry.kind))
        .collect();
    let mut out = Vec::new();
    push_entries(&mut out, &entries, layout);
    stdout::write(&out)
}

fn show(text: &str, found: &Found, layout: &ExplainLayout) -> anyhow::Result<ExitCode> {
    if let Some(meant) = found.meant {
        notes::say(&format!(
            "sockeye: explain: \"{}\" is not in the dictionary; {meant} comes nearest:\n",
            harmless_start(text.as_bytes(), SHOWN_TEXT_MAX)
        ));
    }
    let mut out = Vec::new();
    push_explained(&mut out, text, found, layout);
    stdout::write(&out)?;
    if !found.entries.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut note = format!(
        "sockeye: explain: \"{}\" is not in the dictionary",
        harmless_start(text.as_bytes(), SHOWN_TEXT_MAX)
    );
    if found.near.is_empty() {
        note.push_str("; `sockeye explain --list all` shows what is\n");
    } else {
        note.push_str("; similar entries:\n");
        for entry in &found.near {
            note.push_str(&format!(
                "  {}  {}: {}\n",
                entry.name,
                entry.kind,
                entry.first_sentence()
            ));
        }
    }
    notes::say(&note);
    Ok(ExitCode::FAILURE)
}

fn explain_log(
    dictionary: &Dictionary,
    path: &Path,
    args: &ExplainArgs,
    layout: &ExplainLayout,
) -> anyhow::Result<()> {
    let mut search = dictionary.log();
    if args.unknown {
        search.keep_unknown();
    }
    let catch = || Interrupts::catch().context("wait for signals");
    let is_whole = if path == Path::new("-") {
        log::read(io::stdin(), &mut search, &catch()?).context("read the standard input")?
    } else {
        // Opening a FIFO may block; SIGINT then ends the process.
        let file = File::open(path).with_context(|| format!("open {path:?}"))?;
        log::read(file, &mut search, &catch()?).with_context(|| format!("read {path:?}"))?
    };
    search.finish();
    let mut occurrences = search.met();
    let mut counters = search.counters();
    let all = occurrences.len() + counters.len();
    occurrences.retain(|occurrences| occurrences.severity >= args.severity);
    counters.retain(|counters| counters.severity() >= args.severity);
    let explained = ExplainedLog {
        count: search.count(),
        hidden: all - occurrences.len() - counters.len(),
        occurrences,
        counters,
        counters_zero: search.counters_zero(),
        counters_other: search.counters_other(),
        unknown: explained_unknown(dictionary, &search),
        unknown_left_out: search.unknown_left_out(),
        interrupted: !is_whole,
    };
    let mut out = Vec::new();
    push_explained_log(&mut out, &explained, layout);
    stdout::write(&out)
}

/// Adds what the dictionary has about lines that no entry matches.
fn explained_unknown<'a>(dictionary: &'a Dictionary, log: &'a Log) -> Vec<ExplainedUnknown<'a>> {
    let unknown = log.unknown();
    let searched = unknown.iter().take(NEAR_LINES_MAX).enumerate();
    let (places, searched): (Vec<usize>, Vec<&str>) = searched
        .filter(|(_, line)| line.is_trouble)
        .map(|(nth, line)| (nth, line.line.as_str()))
        .unzip();
    let near = dictionary.similar_messages(&searched);
    let mut explained: Vec<_> = unknown
        .into_iter()
        .map(|line| ExplainedUnknown {
            line,
            error: line.reading.errno.and_then(|number| dictionary.error(number)),
            near: None,
        })
        .collect();
    for (nth, near) in places.into_iter().zip(near) {
        explained[nth].near = near;
    }
    explained
}

/// Lines for which a similar message is searched: a search for one takes milliseconds.
const NEAR_LINES_MAX: usize = 20;
/// Limit for the text in a message, in characters.
const SHOWN_TEXT_MAX: usize = 80;
