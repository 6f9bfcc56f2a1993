//! Completion scripts: what clap knows of commands and options, and values that are looked up while completing.
//!
//! A script passes the words of the line to the hidden command `sockeye complete`, which finds out as clap would what the last one is. If
//! it is a value of which there is a list, the command prints the words that may replace it; otherwise nothing, and the script completes what clap
//! knows. So all shells know the same.

use crate::args;
use clap::{Arg, Command};
use clap_complete::Shell;
use sockeye_console::stdout;
use sockeye_output::text::harmless;
use std::fmt::Write as _;
use std::fs;

/// Prints a completion script.
pub(crate) fn script(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "sockeye", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let script = match shell {
        Shell::Bash => script + BASH,
        Shell::Zsh => zsh(&script),
        Shell::Fish => script + &fish(&args::command()),
        // Other shells complete commands and options only.
        _ => script,
    };
    stdout::write(script.as_bytes())
}

/// Prints the words that may replace the last one of a command line, one a line; none if there is no list of them. A description follows
/// after a tab, if it is asked for and there is one.
pub(crate) fn words(line: &[String], described: bool) -> anyhow::Result<()> {
    let mut root = args::command();
    root.build();
    stdout::write_lines(
        candidates(&root, line)
            .into_iter()
            .map(|candidate| match candidate.about {
                Some(about) if described => format!("{}\t{about}", candidate.word),
                _ => candidate.word,
            }),
    )
}

/// A word that may be typed.
struct Candidate {
    word: String,
    /// What it is; `None` if the word says it.
    about: Option<String>,
}

impl From<String> for Candidate {
    fn from(word: String) -> Self {
        Self { word, about: None }
    }
}

fn candidates(root: &Command, line: &[String]) -> Vec<Candidate> {
    let Some((current, before)) = line.split_last() else {
        return Vec::new();
    };
    let mut command = root;
    let (mut position, mut option, mut has_ended) = (0, None, false);
    for word in before {
        if option.take().is_some() {
            // The value of the option before it.
        } else if has_ended || !is_option(word) {
            match command
                .find_subcommand(word)
                .filter(|_| position == 0 && !has_ended)
            {
                Some(subcommand) => command = subcommand,
                None => position += 1,
            }
        } else if word == "--" {
            has_ended = true;
        } else {
            option =
                value_of_option(command, word).and_then(|(option, value)| value.is_none().then_some(option));
        }
    }
    let (arg, value) = if let Some(option) = option {
        (option, current.as_str())
    } else if is_option(current) && !has_ended {
        match value_of_option(command, current) {
            Some((option, Some(value))) => (option, value),
            _ => return Vec::new(),
        }
    } else {
        let mut positional = command.get_positionals();
        match positional
            .nth(position)
            .or_else(|| command.get_positionals().last())
        {
            Some(arg) => (arg, current.as_str()),
            None => return Vec::new(),
        }
    };
    let list = match List::of(command, arg, position) {
        Some(List::Filter) => Some(List::after_words(before)),
        list => list,
    };
    let known: Vec<Candidate> = match list {
        Some(List::Processes) => processes(),
        Some(List::NamespacesOrProcesses) => namespaces_and_processes(None, value),
        Some(List::NamespacesOrAll) => namespaces_and_processes(Some("all"), value),
        Some(List::ProcessNames) => process_names(),
        // There are thousands.
        Some(List::Entries) if value.len() < 2 => Vec::new(),
        Some(list) => list.values().into_iter().map(Candidate::from).collect(),
        None if arg.get_action().takes_values() => {
            let values = arg.get_possible_values();
            let names = values.iter().map(|value| value.get_name().to_owned());
            names.map(Candidate::from).collect()
        }
        None => return Vec::new(),
    };
    // In a list with commas the last one; after the '-' of a reversed order the rest.
    let start = match list {
        _ if arg.get_id() == "sort" => usize::from(value.starts_with('-')),
        Some(list) if list.is_separated_by_commas() => value.rfind(',').map_or(0, |comma| comma + 1),
        _ => 0,
    };
    let (first, last) = (&current[..current.len() - value.len() + start], &value[start..]);
    // Names from the kernel have capitals in different places.
    let ignores_case = list == Some(List::Entries);
    let fits = |word: &str| match word.get(..last.len()) {
        Some(begin) if ignores_case => begin.eq_ignore_ascii_case(last),
        begin => begin == Some(last),
    };
    let fitting = known.into_iter().filter(|known| fits(&known.word));
    let whole = fitting.map(|known| Candidate {
        word: format!("{first}{}", known.word),
        about: known.about,
    });
    whole.collect()
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// Returns the option with a value that a word has, and the value if it is in the same word: `--columns=VALUE`, `-tnNVALUE`. `None`
/// if the word has flags only.
fn value_of_option<'a, 'w>(command: &'a Command, word: &'w str) -> Option<(&'a Arg, Option<&'w str>)> {
    let takes_value = |arg: &&Arg| arg.get_action().takes_values() && !arg.is_positional();
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let is_meant = |arg: &&Arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
        };
        let option = command.get_arguments().filter(takes_value).find(is_meant)?;
        return Some((option, value));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    while let Some(letter) = letters.next() {
        let is_meant = |arg: &&Arg| {
            arg.get_short() == Some(letter)
                || arg
                    .get_all_short_aliases()
                    .is_some_and(|all| all.contains(&letter))
        };
        if let Some(option) = command.get_arguments().filter(takes_value).find(is_meant) {
            let rest = letters.as_str();
            let value = rest.strip_prefix('=').unwrap_or(rest);
            return Some((option, (!rest.is_empty()).then_some(value)));
        }
    }
    None
}

/// A list that values are looked up in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// Columns of `sockets`, which are its sort keys too
    SocketColumns,
    /// Columns of `flows`, which are its sort keys too
    FlowColumns,
    /// Columns of `ns list`, which are its sort keys too
    NamespaceColumns,
    /// Columns of `events`
    EventColumns,
    DropColumns,
    PathColumns,
    /// Rules of `check`
    Rules,
    /// Thresholds of rules, with their default values
    Thresholds,
    /// Names of network namespaces
    Namespaces,
    /// Names of network namespaces, `all`, and processes
    NamespacesOrAll,
    /// Names of network namespaces, and processes
    NamespacesOrProcesses,
    /// Numbers of processes
    Processes,
    /// Names of processes
    ProcessNames,
    Interfaces,
    /// Interfaces, and `any`
    InterfacesOrAny,
    /// Words of filters
    Filter,
    /// Words of filters of `ns list`
    NamespaceFilter,
    Severities,
    /// Names that `explain` knows
    Entries,
    /// What flows are grouped by
    Groups,
}

impl List {
    /// Returns the list for an argument; `None` if there is none.
    fn of(command: &Command, arg: &Arg, position: usize) -> Option<Self> {
        let command = command.get_display_name().unwrap_or_default();
        Some(
            match (
                command.trim_start_matches("sockeye").trim_start_matches('-'),
                arg.get_id().as_str(),
            ) {
                ("sockets", "columns" | "sort") => Self::SocketColumns,
                ("" | "flows", "columns" | "sort") => Self::FlowColumns,
                ("ns-list", "columns" | "sort") => Self::NamespaceColumns,
                ("events", "columns") => Self::EventColumns,
                ("drops", "columns" | "sort") => Self::DropColumns,
                ("path", "columns") => Self::PathColumns,
                ("" | "flows", "group_by") => Self::Groups,
                ("check", "only" | "skip") => Self::Rules,
                ("check", "settings") => Self::Thresholds,
                ("ns-del", "names") | ("ns-pids" | "ns-set", "name") => Self::Namespaces,
                ("capture", "netns") => Self::NamespacesOrProcesses,
                ("prof", "pids")
                | ("ns-attach" | "ns-identify", "pid")
                | ("keepalive-attach" | "keepalive-detach", "cgroup") => Self::Processes,
                ("ns-exec", "words") if position == 0 => Self::Namespaces,
                ("check", "fail_on" | "severity") | ("explain", "severity") => Self::Severities,
                ("explain", "text") if position == 0 => Self::Entries,
                ("ns-list", "filter") => Self::NamespaceFilter,
                (_, "netns") => Self::NamespacesOrAll,
                ("capture", "interface") => Self::InterfacesOrAny,
                ("bench-tun", "device") => Self::Interfaces,
                ("flows" | "sockets" | "events" | "drops" | "path" | "check" | "kill" | "top", "filter") => {
                    Self::Filter
                }
                ("keepalive-list" | "keepalive-set" | "keepalive-unset", "filter") => Self::Filter,
                ("history-diff" | "history-timeline" | "history-replay", "filter") => Self::Filter,
                // After the name of the capture.
                ("analyze" | "graph", "words") if position > 0 => Self::Filter,
                _ => return None,
            },
        )
    }

    /// Returns the list for a word of a filter: behind `owner =` and `pid =` processes.
    fn after_words(before: &[String]) -> Self {
        let word = |nth: usize| before.len().checked_sub(nth).and_then(|at| before.get(at));
        let is_comparison = word(1).is_some_and(|word| matches!(&**word, "=" | "==" | "!=" | "~" | "!~"));
        match word(2).map(String::as_str) {
            Some("owner" | "owners" | "process") if is_comparison => Self::ProcessNames,
            Some("pid") if is_comparison => Self::Processes,
            _ => Self::Filter,
        }
    }

    /// Returns its values; none where they cannot be looked up.
    fn values(self) -> Vec<String> {
        let owned =
            |names: &mut dyn Iterator<Item = &'static str>| names.map(str::to_owned).collect::<Vec<_>>();
        let and = |mut names: Vec<String>, more: &str| {
            names.push(more.to_owned());
            names
        };
        match self {
            Self::SocketColumns => {
                owned(&mut sockeye_listing::socket_columns().iter().map(|column| column.name))
            }
            Self::FlowColumns => owned(&mut sockeye_listing::flow_columns().iter().map(|column| column.name)),
            Self::NamespaceColumns => owned(
                &mut sockeye_netns::namespace_columns()
                    .iter()
                    .map(|column| column.name),
            ),
            Self::EventColumns => {
                owned(&mut sockeye_live::events::columns().iter().map(|column| column.name))
            }
            Self::DropColumns => owned(&mut sockeye_live::drops::columns().iter().map(|column| column.name)),
            Self::PathColumns => owned(&mut sockeye_path_command::columns().iter().map(|column| column.name)),
            Self::Rules => owned(&mut sockeye_check::rule_names()),
            Self::Thresholds => sockeye_check::default_thresholds().collect(),
            Self::Namespaces => entries(NETNS),
            // With descriptions, in `candidates`.
            Self::NamespacesOrAll | Self::NamespacesOrProcesses | Self::Processes | Self::ProcessNames => {
                Vec::new()
            }
            Self::Interfaces => entries(INTERFACES),
            Self::InterfacesOrAny => and(entries(INTERFACES), "any"),
            Self::Filter => {
                let conditions = sockeye_filter::words::conditions().map(|word| word.name);
                let states = sockeye_filter::words::states();
                let operators = sockeye_filter::words::operators().iter().copied();
                owned(&mut conditions.chain(states).chain(operators))
            }
            Self::NamespaceFilter => owned(&mut sockeye_filter::netns::words()),
            Self::Entries => {
                let names = sockeye_explain::names().into_iter();
                names.filter(|name| is_plain(name)).collect()
            }
            Self::Groups => owned(&mut GROUPS.into_iter()),
            Self::Severities => owned(&mut sockeye_check::severity_names()),
        }
    }

    /// Returns whether an argument takes several values, with commas between them.
    fn is_separated_by_commas(self) -> bool {
        matches!(
            self,
            Self::SocketColumns
                | Self::FlowColumns
                | Self::NamespaceColumns
                | Self::EventColumns
                | Self::DropColumns
                | Self::PathColumns
                | Self::Rules
                | Self::Processes
        )
    }
}

/// Words of `--group-by`, without those that need a number.
const GROUPS: [&str; 9] = [
    "host",
    "port",
    "process",
    "user",
    "container",
    "unit",
    "cgroup",
    "exe",
    "netns",
];
const NETNS: &str = "/run/netns";
const INTERFACES: &str = "/sys/class/net";

fn entries(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_plain(name)).collect();
    names.sort_unstable();
    names
}

/// A name may hold anything; one that a shell could take for more than a word is left out.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-@:".contains(c))
}

/// Returns the names of namespaces, and, once a digit is typed, the processes: before it there would be thousands of them between few
/// names.
fn namespaces_and_processes(more: Option<&str>, typed: &str) -> Vec<Candidate> {
    let names = entries(NETNS).into_iter().chain(more.map(str::to_owned));
    let mut all: Vec<Candidate> = names.map(Candidate::from).collect();
    if typed.starts_with(|first: char| first.is_ascii_digit()) {
        all.extend(processes());
    }
    all
}

/// Returns the processes that `/proc` shows, but not this one, by number and with their names.
fn processes() -> Vec<Candidate> {
    let own = std::process::id();
    let numbers = entries("/proc").into_iter().filter_map(|name| name.parse().ok());
    let mut pids: Vec<u32> = numbers.filter(|pid| *pid != own).collect();
    pids.sort_unstable();
    pids.into_iter()
        .filter_map(|pid| {
            // It may have ended.
            let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
            Some(Candidate {
                word: pid.to_string(),
                about: Some(harmless(name.trim_ascii_end())),
            })
        })
        .collect()
}

/// Returns the names of processes that are plain words, each once.
fn process_names() -> Vec<Candidate> {
    let names = processes().into_iter().filter_map(|process| process.about);
    let mut names: Vec<String> = names.filter(|name| is_plain(name)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(Candidate::from).collect()
}

const BASH: &str = r#"
# Values that sockeye looks up now; otherwise what is above.
_sockeye_with_values() {
    local line=$COMP_LINE word part strip value i
    local -a words=()
    # Bash takes '=' and ':' for words: without a blank before it, a part belongs to the word before.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        if ((i == 0)) || [[ $line == [[:blank:]]* ]]; then
            words+=("$part")
        else
            words[${#words[@]}-1]+=$part
        fi
        line=${line#"${line%%[![:blank:]]*}"}
        line=${line#"$part"}
    done
    # Bash replaces the last part only.
    word=${words[${#words[@]}-1]}
    [[ $part == [=:] ]] && part=
    strip=${word%"$part"}
    COMPREPLY=()
    # Not by compgen -W, which would expand what a name from outside contains.
    while IFS= read -r value; do
        COMPREPLY+=("${value#"$strip"}")
    done < <(sockeye complete -- "${words[@]:1}" 2>/dev/null)
    ((${#COMPREPLY[@]} > 0)) && return
    _sockeye "$@"
    # Without a '-' no option is meant: bash completes the names of files where there is no other word.
    [[ $word == -* ]] && return
    local -a offered=("${COMPREPLY[@]}")
    COMPREPLY=()
    for value in "${offered[@]}"; do
        [[ $value == [-\[\<]* ]] || COMPREPLY+=("$value")
    done
}
complete -F _sockeye_with_values -o nosort -o bashdefault -o default sockeye 2>/dev/null ||
    complete -F _sockeye_with_values -o bashdefault -o default sockeye
"#;

/// Returns the generated script with its function `_sockeye` under another name and ours in its place: zsh loads the file for the name
/// `_sockeye`, runs that function at once, and calls it ever after.
fn zsh(generated: &str) -> String {
    let renamed = generated.replacen("\n_sockeye() {\n", "\n_sockeye_options() {\n", 1);
    let end = renamed.rfind("if [ \"$funcstack[1]\"").unwrap_or(renamed.len());
    let (functions, call) = renamed.split_at(end);
    format!("{functions}{ZSH}\n{call}")
}

const ZSH: &str = r#"# Values that sockeye looks up now; otherwise what is above.
_sockeye() {
    local -a found shown
    # (Q) takes off quotes. Of the last word counts what is before the cursor.
    found=(${(f)"$(sockeye complete --described -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"})
    if (( $#found )); then
        # A description is behind a tab.
        if [[ "$found" == *$'\t'* ]]; then
            shown=("${found[@]/$'\t'/  }")
            compadd -l -d shown -- "${found[@]%%$'\t'*}"
        else
            compadd -- "${found[@]}"
        fi
    else
        _sockeye_options "$@"
    fi
}
"#;

/// Returns what fish needs besides: the function that looks values up, and the options that have such values.
fn fish(root: &Command) -> String {
    let mut root = root.clone();
    root.build();
    let mut out = FISH.to_owned();
    fish_options(&root, "__fish_sockeye_needs_command", &mut out);
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        let names: Vec<&str> = command.get_name_and_visible_aliases();
        let condition = format!("__fish_sockeye_using_subcommand {}", names.join(" "));
        fish_options(command, &condition, &mut out);
        for inner in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let names = inner.get_name_and_visible_aliases().join(" ");
            let condition = format!("{condition}; and __fish_seen_subcommand_from {names}");
            fish_options(inner, &condition, &mut out);
        }
    }
    out
}

fn fish_options(command: &Command, condition: &str, out: &mut String) {
    let options = command.get_arguments().filter(|arg| !arg.is_positional());
    for option in options.filter(|option| List::of(command, option, 0).is_some()) {
        let _ = write!(out, "complete -c sockeye -n \"{condition}\"");
        if let Some(letter) = option.get_short() {
            let _ = write!(out, " -s {letter}");
        }
        if let Some(name) = option.get_long() {
            let _ = write!(out, " -l {name}");
        }
        out.push_str(" -x -a \"(__sockeye_values)\"\n");
    }
}

const FISH: &str = r#"
# Values that sockeye looks up now.
function __sockeye_values
    set -l words (commandline -opc) (commandline -ct)
    # Of --option=value, fish completes the value only.
    set -l option (string match -r -- '^--[^=]*=' $words[-1])
    for word in (sockeye complete --described -- $words[2..] 2>/dev/null)
        string sub -s (math 1 + (string length -- "$option")) -- $word
    end
end
complete -c sockeye -n "count (__sockeye_values) >/dev/null" -f -a "(__sockeye_values)"
"#;
