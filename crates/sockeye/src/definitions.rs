//! All options, columns and words of filters, one a line, for the test that compares them with `docs/guide/interface.md`.

use crate::args;
use clap::{Arg, Command};
use sockeye_console::stdout;
use sockeye_filter::words;

/// Prints the definitions: fields with tabs between them, the kind first.
pub(crate) fn print() -> anyhow::Result<()> {
    let mut root = args::command();
    root.build();
    let mut lines = Vec::new();
    for command in root.get_subcommands() {
        push_options(&mut lines, command);
    }
    for (command, columns) in [
        ("flows", sockeye_listing::flow_columns()),
        ("sockets", sockeye_listing::socket_columns()),
        ("ns list", sockeye_netns::namespace_columns()),
        ("events", sockeye_live::events::columns()),
        ("drops", sockeye_live::drops::columns()),
        ("path", sockeye_path_command::columns()),
    ] {
        lines.extend(columns.iter().map(|column| {
            let (aliases, fields) = (column.aliases.join(" "), column.fields.join(" "));
            format!(
                "column\t{command}\t{}\t{}\t{aliases}\t{fields}",
                column.name, column.heading
            )
        }));
    }
    lines.extend(words::conditions().map(|word| {
        let key = word.key.unwrap_or_default();
        format!("word\t{}\t{key}\t{}", word.name, word.aliases.join(" "))
    }));
    stdout::write_lines(lines)
}

/// Appends `option`, the command, short and long form, value, and what it does.
fn push_options(lines: &mut Vec<String>, command: &Command) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_display_name().unwrap_or_default();
    let name = name.trim_start_matches("sockeye-").replace('-', " ");
    let options = command.get_arguments().filter(|arg| {
        let is_own = !matches!(arg.get_id().as_str(), "help" | "version");
        is_own && !arg.is_positional() && !arg.is_hide_set()
    });
    for option in options {
        let long = option.get_long().unwrap_or_default();
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let value = value_name(option);
        let aliases = option.get_all_short_aliases().unwrap_or_default();
        let mut letters: Vec<String> = option
            .get_short()
            .into_iter()
            .chain(aliases)
            .map(String::from)
            .collect();
        if letters.is_empty() {
            letters.push(String::new());
        }
        for letter in letters {
            lines.push(format!("option\t{name}\t{letter}\t{long}\t{value}\t{help}"));
        }
    }
    for subcommand in command.get_subcommands() {
        push_options(lines, subcommand);
    }
}

fn value_name(option: &Arg) -> String {
    if !option.get_action().takes_values() {
        return String::new();
    }
    let names = option.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(clap::builder::Str::as_str).collect();
    names.join(" ")
}
