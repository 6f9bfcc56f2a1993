//! The settings that files and the environment may have: which options they are the default values of, and aliases.
//!
//! A command line is parsed twice if there are settings: first as it was typed, to know the command and what was typed, then with the
//! settings as default values. So an option on the command line always counts more, and help never depends on a file.

use crate::args::{self, Cli};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};
use sockeye_config::{Configuration, Schema, Setting};
use sockeye_console::notes;
use sockeye_console::usage::UsageError;
use std::ffi::{OsStr, OsString};

/// A command line, with the settings that hold for it.
pub(crate) struct Parsed {
    pub(crate) cli: Cli,
    pub(crate) configuration: Configuration,
}

/// What parsing ends with, if not with a command to run.
pub(crate) enum Stop {
    /// Help, or a usage error; with the words that were parsed
    Message(Box<clap::Error>, Vec<OsString>),
    Error(anyhow::Error),
}

/// Parses the words of a command line; the first is the program.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Parsed, Stop> {
    let (mut words, mut without_files) = take_no_config(words);
    let root = args::command_for(&words);
    let mut loaded = None;
    if let Some(name) = words.get(1).and_then(|word| word.to_str())
        && !name.starts_with('-')
        && root.find_subcommand(name).is_none()
        && name != "help"
    {
        let configuration = load(without_files)?;
        // What it means is not looked up again.
        if let Some(alias) = configuration.alias(name) {
            words.splice(1..2, alias.words.iter().map(OsString::from));
            let is_there;
            (words, is_there) = take_no_config(words);
            without_files |= is_there;
        }
        loaded = Some(configuration);
    }
    if let [_, help, name, ..] = &words[..]
        && help == "help"
        && let Some(name) = name.to_str()
        && root.find_subcommand(name).is_none()
    {
        let configuration = load(without_files)?;
        if let Some(alias) = configuration.alias(name) {
            notes::say(&format!(
                "sockeye: '{name}' is short for '{}' ({})\n",
                alias.words.join(" "),
                alias.origin
            ));
            // What follows, its help, is that of its command.
            let command = alias
                .words
                .first()
                .filter(|word| root.find_subcommand(word).is_some());
            words.truncate(2);
            words.extend(command.map(OsString::from));
        }
        loaded = Some(configuration);
    }
    words = args::watch_words(words);
    let matches = match root.try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => return Err(Stop::Message(Box::new(error), words)),
    };
    let line = Line::of(&matches);
    if matches.get_flag("no_config") && !without_files {
        (without_files, loaded) = (true, None);
    }
    if line.needs_no_settings() {
        return finish(&matches, words, Configuration::default());
    }
    let configuration = match loaded {
        Some(configuration) => configuration,
        None if line.path == ["config"] => Configuration::load(schema(), without_files),
        None => load(without_files)?,
    };
    for note in configuration.notes() {
        notes::say(&format!("sockeye: {note}\n"));
    }
    let defaults = line.defaults(&configuration);
    if defaults.iter().any(|(id, _)| *id == "skip")
        && let Some(skip) = configuration.value("check.skip")
    {
        notes::say(&format!(
            "sockeye: check.skip leaves out {} ({})\n",
            skip.text, skip.origin
        ));
    }
    if defaults.is_empty() {
        return finish(&matches, words, configuration);
    }
    let command = with_defaults(args::command(), &line.path, defaults);
    match command.try_get_matches_from(&words) {
        Ok(matches) => finish(&matches, words, configuration),
        Err(error) => Err(Stop::Message(Box::new(error), words)),
    }
}

fn finish(matches: &ArgMatches, words: Vec<OsString>, configuration: Configuration) -> Result<Parsed, Stop> {
    match Cli::from_arg_matches(matches) {
        Ok(cli) => Ok(Parsed { cli, configuration }),
        Err(error) => Err(Stop::Message(Box::new(error.format(&mut args::command())), words)),
    }
}

/// Removes `--no-config` from the options before the command; returns whether it was there.
fn take_no_config(mut words: Vec<OsString>) -> (Vec<OsString>, bool) {
    let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    let options = words.iter().skip(1).take_while(is_option);
    let place = options.clone().position(|word| word == NO_CONFIG);
    if let Some(place) = place {
        words.remove(place + 1);
    }
    (words, place.is_some())
}

fn load(without_files: bool) -> Result<Configuration, Stop> {
    if Configuration::is_absent(without_files) {
        return Ok(Configuration::default());
    }
    let configuration = Configuration::load(schema(), without_files);
    match configuration.error() {
        Some(error) => Err(Stop::Error(UsageError(error).into())),
        None => Ok(configuration),
    }
}

/// The command of a line and its options.
struct Line<'a> {
    /// Names of the command and its subcommand; empty without a command.
    path: Vec<&'a str>,
    matches: &'a ArgMatches,
}

impl<'a> Line<'a> {
    fn of(matches: &'a ArgMatches) -> Self {
        let mut line = Self {
            path: Vec::new(),
            matches,
        };
        while let Some((name, matches)) = line.matches.subcommand() {
            line.path.push(name);
            line.matches = matches;
        }
        // `sockeye ns` is `sockeye ns list`, without options.
        line
    }

    /// Whether it is a drop-in, a part of another command that runs by itself, or a text that is the same for all.
    fn needs_no_settings(&self) -> bool {
        let is_role = self.path == ["demo"] && self.typed("role");
        is_role
            || self.path.iter().any(|name| {
                matches!(
                    *name,
                    "ss" | "netstat" | "lstf" | "completions" | "complete" | "definitions" | "man" | "guard"
                )
            })
    }

    /// Whether an option was typed.
    fn typed(&self, id: &str) -> bool {
        self.has(id) && self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    fn has(&self, id: &str) -> bool {
        self.matches.try_contains_id(id).is_ok()
    }

    fn raw(&self, id: &str) -> Option<&OsStr> {
        if !self.has(id) {
            return None;
        }
        self.matches.get_raw(id)?.next_back()
    }

    /// Returns the options that get another default value.
    fn defaults(&self, configuration: &Configuration) -> Vec<(&'static str, String)> {
        let mut defaults = Vec::new();
        for option in OPTIONS {
            let Some(value) = configuration.value(option.key) else {
                continue;
            };
            let is_here = option
                .commands
                .is_none_or(|commands| commands.contains(&&*self.path.join(" ")));
            if is_here && self.has(option.id) && !self.typed(option.id) && self.leaves(option, &value.text) {
                defaults.push((option.id, value.text.clone()));
            }
        }
        defaults
    }

    /// Whether what was typed leaves a setting in force.
    fn leaves(&self, option: &OptionSetting, value: &str) -> bool {
        // Formats for scripts are the same on every host.
        let is_table = self.raw("format").is_none_or(|format| format == "table");
        if option.is_for_tables && !is_table {
            return false;
        }
        match option.id {
            // What was typed asks for other columns.
            "columns" => {
                let shows_owners = value
                    .split(',')
                    .any(|name| matches!(name.trim(), "owners" | "process" | "all"));
                let asks = |id: &&str| match *id {
                    "processes" => self.typed("processes") && !shows_owners,
                    "netns" => self.raw("netns").is_some_and(|netns| netns == "all"),
                    id => self.typed(id),
                };
                !COLUMN_OPTIONS.iter().any(asks)
            }
            // A rule that was named is judged.
            "skip" => !self.typed("only"),
            _ => true,
        }
    }
}

/// Returns the definitions with other default values in one command.
fn with_defaults(command: Command, path: &[&str], defaults: Vec<(&'static str, String)>) -> Command {
    if let Some((name, rest)) = path.split_first() {
        return command.mut_subcommand(name, |command| with_defaults(command, rest, defaults));
    }
    defaults.into_iter().fold(command, |command, (id, value)| {
        // Without debug assertions clap takes each id for one that the matches may contain.
        if command.get_arguments().all(|argument| argument.get_id() != id) {
            return command;
        }
        // For the rest of the process, as the definitions.
        let value: &'static str = value.leak();
        command.mut_arg(id, |arg| arg.default_value(value))
    })
}

/// A setting that is the default value of an option.
struct OptionSetting {
    key: &'static str,
    /// The commands with the option; `None`: all that have it.
    commands: Option<&'static [&'static str]>,
    /// The option, as clap knows it.
    id: &'static str,
    default: Option<&'static str>,
    about: &'static str,
    /// Whether JSON and CSV do not depend on it.
    is_for_tables: bool,
}

const fn for_tables(
    key: &'static str,
    commands: &'static [&'static str],
    id: &'static str,
    default: Option<&'static str>,
    about: &'static str,
) -> OptionSetting {
    OptionSetting {
        key,
        commands: Some(commands),
        id,
        default,
        about,
        is_for_tables: true,
    }
}

const fn for_all(
    key: &'static str,
    commands: Option<&'static [&'static str]>,
    default: Option<&'static str>,
    about: &'static str,
) -> OptionSetting {
    OptionSetting {
        key,
        commands,
        id: match key.as_bytes() {
            b"color" => "color",
            b"names_timeout" => "names_timeout",
            b"check.severity" => "severity",
            _ => "skip",
        },
        default,
        about,
        is_for_tables: false,
    }
}

const FLOWS: &[&str] = &["", "flows"];
const SOCKETS: &[&str] = &["sockets"];
const NAMESPACES: &[&str] = &["ns list"];
const CHECK: &[&str] = &["check"];
const TOP: &[&str] = &["top"];
const PATH: &[&str] = &["path"];

const OPTIONS: &[OptionSetting] = &[
    for_all("color", None, Some("auto"), "Colours: auto, always or never"),
    for_all(
        "names_timeout",
        None,
        Some("0.5"),
        "How long to wait for the names of hosts, in seconds",
    ),
    for_tables(
        "flows.columns",
        FLOWS,
        "columns",
        None,
        "Columns of the table of flows",
    ),
    for_tables(
        "flows.sort",
        FLOWS,
        "sort",
        Some("-connections"),
        "Order of flows",
    ),
    for_tables(
        "flows.group_by",
        FLOWS,
        "group_by",
        Some("host"),
        "What flows are folded by",
    ),
    for_tables(
        "flows.top",
        FLOWS,
        "top",
        Some("0"),
        "How many flows are shown; 0: all",
    ),
    for_tables(
        "sockets.columns",
        SOCKETS,
        "columns",
        None,
        "Columns of the table of sockets",
    ),
    for_tables("sockets.sort", SOCKETS, "sort", None, "Order of sockets"),
    for_tables(
        "ns.list.columns",
        NAMESPACES,
        "columns",
        None,
        "Columns of the table of network namespaces",
    ),
    for_tables(
        "ns.list.sort",
        NAMESPACES,
        "sort",
        None,
        "Order of network namespaces",
    ),
    for_tables(
        "top.view",
        TOP,
        "view",
        Some("flows"),
        "View that top begins with",
    ),
    for_tables(
        "top.group_by",
        TOP,
        "group_by",
        Some("container"),
        "What the view of groups of top folds by",
    ),
    for_tables(
        "top.watch",
        TOP,
        "watch",
        Some("2"),
        "Seconds between samples of top",
    ),
    for_tables(
        "path.columns",
        PATH,
        "columns",
        None,
        "Columns of the table of hops",
    ),
    for_tables(
        "path.duration",
        PATH,
        "duration",
        Some("10"),
        "For how many seconds path follows packets",
    ),
    for_all(
        "check.severity",
        Some(CHECK),
        Some("notice"),
        "Lowest severity of findings that are shown",
    ),
    for_all(
        "check.skip",
        Some(CHECK),
        None,
        "Rules of check that are not judged",
    ),
];

/// Options that change the columns of a table.
const COLUMN_OPTIONS: &[&str] = &[
    "states",
    "info",
    "watch",
    "group_by",
    "extended",
    "timers",
    "memory",
    "names",
    "leaked",
    "processes",
    "netns",
];

fn schema() -> Schema<'static> {
    let options = OPTIONS.iter().map(|option| Setting {
        key: option.key.to_owned(),
        default: option.default.map(str::to_owned),
        about: option.about.to_owned(),
    });
    let thresholds = sockeye_check::thresholds().map(|threshold| Setting {
        key: format!("{THRESHOLDS}{}", threshold.name),
        default: Some(threshold.default),
        about: threshold.help.to_owned(),
    });
    let root = args::command();
    let names = root.get_subcommands().flat_map(|command| {
        let names = command.get_name_and_visible_aliases();
        names.into_iter().map(str::to_owned).collect::<Vec<_>>()
    });
    Schema {
        settings: options.chain(thresholds).collect(),
        commands: names.chain(["help".to_owned()]).collect(),
        check: &check_value,
    }
}

/// Checks the value of a setting as the command line would.
fn check_value(key: &str, value: &str) -> Result<(), String> {
    if let Some(name) = key.strip_prefix(THRESHOLDS) {
        return sockeye_check::check_threshold(name, value);
    }
    match key {
        "flows.columns" => return sockeye_listing::check_flow_columns(value),
        "flows.sort" => return sockeye_listing::check_flow_columns(key_of_sort(value)?),
        "sockets.columns" => return sockeye_listing::check_socket_columns(value),
        "sockets.sort" => return sockeye_listing::check_socket_columns(key_of_sort(value)?),
        "path.columns" => return sockeye_path_command::check_columns(value),
        "ns.list.columns" => return sockeye_netns::check_columns(value),
        "ns.list.sort" => return sockeye_netns::check_columns(key_of_sort(value)?),
        _ => {}
    }
    let Some(option) = OPTIONS.iter().find(|option| option.key == key) else {
        return Ok(());
    };
    let command = option
        .commands
        .and_then(|commands| commands.last())
        .unwrap_or(&"flows");
    let word = format!("--{}={value}", option.id.replace('_', "-"));
    let words = ["sockeye"].into_iter().chain(command.split(' ')).chain([&*word]);
    let Err(error) = args::command().try_get_matches_from(words) else {
        return Ok(());
    };
    // Of the message: what is wrong, and what is possible.
    let text = error.to_string();
    let lines = text.lines().map(str::trim);
    let mut message_lines = lines.take_while(|line| !line.is_empty());
    let first = message_lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned();
    Err(match message_lines.find(|line| line.starts_with("[possible")) {
        Some(possible) => format!("{first} {possible}"),
        None => first,
    })
}

/// Returns the column of an order; an order has one.
fn key_of_sort(value: &str) -> Result<&str, String> {
    let column = value.strip_prefix('-').unwrap_or(value);
    if column.contains(',') {
        return Err(format!("expected one column, found '{value}'"));
    }
    Ok(column)
}

/// Returns the thresholds that are set, by their names.
pub(crate) fn thresholds(configuration: &Configuration) -> Vec<(&str, &str)> {
    let values = configuration.values();
    values
        .filter_map(|(key, value)| Some((key.strip_prefix(THRESHOLDS)?, &*value.text)))
        .collect()
}

const NO_CONFIG: &str = "--no-config";
const THRESHOLDS: &str = "check.thresholds.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_of_an_option_that_a_command_lacks_is_left_out() {
        let lacks = with_defaults(Command::new("config"), &[], vec![("color", "always".to_owned())]);
        assert_eq!(lacks.get_arguments().count(), 0);
    }
}
