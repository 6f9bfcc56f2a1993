//! Manual pages, from the definitions of `args.rs`: what clap knows, examples as they are, and what a page says besides.

mod notes;

use crate::args;
use anyhow::Context;
use clap::Command;
use notes::{Item, Notes};
use sockeye_console::output_file::OutputFile;
use sockeye_filter::words;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Writes a page for `sockeye`, one for each of its commands, and one for its filters.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    let mut root = args::command().disable_help_subcommand(true);
    root.build();
    let pages =
        std::iter::once(("sockeye-filter.7".to_owned(), filter_page().into_bytes())).chain(pages(&root));
    for (number, (name, page)) in pages.enumerate() {
        let path = folder.join(&name);
        let written = OutputFile::create(&path).and_then(|mut file| {
            file.write_all(&page)?;
            file.finish()
        });
        written.with_context(|| {
            let folder = folder.display();
            format!("write manual pages into {folder}: {number} written, then {name}")
        })?;
    }
    Ok(())
}

fn pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    let mut all = vec![page(command)];
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    all.extend(shown.flat_map(pages));
    all
}

fn page(command: &Command) -> (String, Vec<u8>) {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let after = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut text = title(&name, 1);
    let usage = command.clone().render_usage().to_string();
    let man = clap_mangen::Man::new(command.clone());
    let mut generated = Vec::new();
    // Writing into a Vec cannot fail.
    let _ = man.render_name_section(&mut generated);
    unfilled_after(&mut generated, "SYNOPSIS", usage.trim_start_matches("Usage:"));
    let _ = man
        .render_description_section(&mut generated)
        .and_then(|()| man.render_options_section(&mut generated));
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        let _ = man.render_subcommands_section(&mut generated);
    }
    text.push_str(&tidy(&String::from_utf8_lossy(&generated)));
    text.push_str(&tidy(&sections(command, &name, &after)));
    (format!("{name}.1"), text.into_bytes())
}

fn title(name: &str, section: u8) -> String {
    format!(
        ".TH \"{}\" \"{section}\" \"{DATE}\" \"sockeye {}\" \"Sockeye\"\n",
        escaped(&name.to_uppercase()),
        env!("CARGO_PKG_VERSION")
    )
}

fn unfilled_after(out: &mut Vec<u8>, heading: &str, text: &str) {
    let mut section = String::new();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    unfilled(&mut section, heading, &lines.join("\n"));
    out.extend_from_slice(section.as_bytes());
}

/// The sections after the options.
fn sections(command: &Command, name: &str, after: &str) -> String {
    let notes = Notes::of(name, command);
    let mut text = String::new();
    let mut remarks = String::new();
    let (mut own_status, mut has_examples) = (None, false);
    for block in after.split("\n\n") {
        let block = block.trim_matches('\n');
        if let Some(examples) = block.strip_prefix("Examples:\n") {
            unfilled(&mut text, "EXAMPLES", examples);
            has_examples = true;
        } else if let Some(status) = block.strip_prefix("Exit status:") {
            own_status = Some(status.trim());
        } else if !block.is_empty() {
            remarks.push_str(block);
            remarks.push_str("\n\n");
        }
    }
    if !has_examples && !notes.examples.is_empty() {
        let indented: Vec<String> = notes.examples.iter().map(|line| format!("  {line}")).collect();
        unfilled(&mut text, "EXAMPLES", &indented.join("\n"));
    }
    if !remarks.is_empty() {
        section(&mut text, "NOTES", &remarks);
    }
    listed(&mut text, "FILES", &notes.files);
    listed(&mut text, "ENVIRONMENT", &notes.environment);
    match own_status {
        Some(status) => section(&mut text, "EXIT STATUS", status),
        None => listed(&mut text, "EXIT STATUS", EXIT_STATUS),
    }
    let mut see = if name == "sockeye" {
        Vec::new()
    } else {
        vec!["sockeye(1)"]
    };
    see.extend(notes.see_also);
    section(&mut text, "SEE ALSO", &see.join(", "));
    text
}

fn section(out: &mut String, heading: &str, text: &str) {
    let _ = writeln!(out, ".SH {}", quoted(heading));
    for (place, paragraph) in text.trim_end().split("\n\n").enumerate() {
        if place > 0 {
            let _ = writeln!(out, ".PP");
        }
        for line in paragraph.lines() {
            let _ = writeln!(out, "{}", escaped(line));
        }
    }
}

fn unfilled(out: &mut String, heading: &str, text: &str) {
    let _ = writeln!(out, ".SH {}\n.nf", quoted(heading));
    for line in text.lines() {
        let _ = writeln!(out, "{}", escaped(line));
    }
    let _ = writeln!(out, ".fi");
}

fn listed(out: &mut String, heading: &str, items: &[Item]) {
    let _ = writeln!(out, ".SH {}", quoted(heading));
    if items.is_empty() {
        out.push_str("None.\n");
    }
    for (term, text) in items {
        let _ = writeln!(out, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(text));
    }
}

fn quoted(heading: &str) -> String {
    if heading.contains(' ') {
        format!("\"{heading}\"")
    } else {
        heading.to_owned()
    }
}

/// Text that roff takes for text: no requests, no escapes, plain hyphens.
fn escaped(line: &str) -> String {
    let text = line
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('`', "\\(ga")
        .replace('^', "\\(ha")
        .replace('~', "\\(ti");
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text
    }
}

fn filter_page() -> String {
    let mut text = title("sockeye-filter", 7);
    text.push_str(".SH NAME\nsockeye\\-filter \\- expressions that select sockets and connections\n");
    section(
        &mut text,
        "DESCRIPTION",
        "A filter is an expression of conditions. It has the language of ss(8), with further words.\n\n\
         Conditions are joined by 'and' (also '&', '&&' or nothing), 'or' ('|', '||') and 'not' ('!'), and grouped by \
         parentheses. 'and' and 'or' have the same precedence, from left to right. States at the beginning apply to \
         all that follows.\n\n\
         Comparisons: = != < <= > >= and, for text, ~ and !~ with a pattern of '*' and '?'. A condition on a value that is \
         not known is false.\n\n\
         Put a filter in quotes where it has one of ( ) < > ! & |.",
    );
    let _ = writeln!(text, ".SH CONDITIONS");
    for word in words::conditions() {
        let others: Vec<&str> = word
            .key
            .into_iter()
            .filter(|key| *key != word.name)
            .chain(word.aliases.iter().copied())
            .collect();
        let also = if others.is_empty() {
            String::new()
        } else {
            format!(" (also: {})", others.join(", "))
        };
        let value = if word.value.is_empty() {
            String::new()
        } else {
            format!("; {}", word.value)
        };
        let _ = writeln!(
            text,
            ".TP\n\\fB{}\\fR\n{}{}",
            escaped(word.name),
            escaped(word.about),
            escaped(&format!("{value}{also}"))
        );
    }
    let states: Vec<&str> = words::states().collect();
    section(&mut text, "STATES", &states.join(", "));
    unfilled(
        &mut text,
        "EXAMPLES",
        "sockeye sockets -tan 'sport = :8080'\n\
         sockeye sockets -tn state close-wait\n\
         sockeye sockets -tn 'state established and ( dport = :443 or dst 10.0.0.0/8 )'\n\
         sockeye sockets -tn 'rtt > 50ms or retrans > 0'\n\
         sockeye flows -np 'owner ~ nginx* and peers = public'\n\
         sockeye kill 'state close-wait and idle > 1h' --dry-run",
    );
    listed(
        &mut text,
        "FILES",
        &[
            ("/etc/services", "names of ports."),
            ("/etc/passwd", "names of users, after 'uid'."),
            ("/run/netns/", "names of network namespaces, after 'netns'."),
        ],
    );
    listed(&mut text, "ENVIRONMENT", &[]);
    section(
        &mut text,
        "EXIT STATUS",
        "A command whose filter cannot be parsed prints the place of the error and ends with 2.",
    );
    section(
        &mut text,
        "SEE ALSO",
        "sockeye(1), sockeye-sockets(1), sockeye-flows(1), ss(8)",
    );
    tidy(&text)
}

/// Makes of generated roff what man(7) asks for: no empty lines, no blanks at ends of lines, and lines of text that are not longer than
/// [`LINE_BYTES_MAX`].
fn tidy(roff: &str) -> String {
    let mut out = String::new();
    let (mut is_filled, mut is_tag) = (true, false);
    for line in roff
        .replace("\n.br\n\n.br\n", "\n.sp\n")
        .lines()
        .map(str::trim_end)
    {
        match line {
            ".nf" => is_filled = false,
            ".fi" => is_filled = true,
            // Our text has none of the quotes that clap_mangen defines these for: `escaped` and `groff_char(7)` have \(aq.
            "" | ".ie \\n(.g .ds Aq \\(aq" | ".el .ds Aq '" => continue,
            _ => {}
        }
        if is_filled && !is_tag && !line.starts_with('.') {
            wrap(&mut out, line);
        } else {
            out.push_str(line);
            out.push('\n');
        }
        // The line after .TP is the tag, and has to be one.
        is_tag = line == ".TP";
    }
    out.replace("\\*(Aq", "\\(aq")
}

/// Appends a line of filled text in pieces.
fn wrap(out: &mut String, line: &str) {
    let mut length = 0;
    for word in line.split(' ') {
        if length > 0 && length + 1 + word.len() > LINE_BYTES_MAX {
            out.push('\n');
            // At the beginning of a line these would be requests.
            out.push_str(if word.starts_with(['.', '\'']) { "\\&" } else { "" });
            length = 0;
        } else if length > 0 {
            out.push(' ');
            length += 1;
        }
        out.push_str(word);
        length += word.len();
    }
    out.push('\n');
}

/// mandoc(1) asks for 80.
const LINE_BYTES_MAX: usize = 78;
/// Of the last release; before the first, of the last change. Not of the build, which is to be reproducible.
const DATE: &str = "2026-11-25";
const EXIT_STATUS: &[Item] = &[
    ("0", "Success; also if the reader of the output has gone."),
    (
        "1",
        "Something failed, or there is a finding that the options name.",
    ),
    ("2", "Usage error."),
];
