//! Completion scripts: what clap knows of commands and options, and values that are looked up while completing.

use crate::args::Cli;
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use sockeye_console::stdout;
use std::fs;

/// A kind of value that is looked up while completing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Columns of `sockets`
    SocketColumns,
    /// Columns of `flows`
    FlowColumns,
    /// Sort keys of `flows`
    FlowSort,
    /// Columns of `ns list`
    NamespaceColumns,
    /// Rules of `check`
    Rules,
    /// Names of network namespaces
    Namespaces,
    /// Network interfaces
    Interfaces,
    /// Words of filters
    Filter,
}

/// Prints a completion script.
pub(crate) fn script(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sockeye", &mut script);
    script.extend_from_slice(match shell {
        Shell::Bash => BASH.as_bytes(),
        Shell::Zsh => ZSH.as_bytes(),
        Shell::Fish => FISH.as_bytes(),
        // Other shells complete commands and options only.
        _ => b"",
    });
    stdout::write(&script)
}

/// Prints the values of a kind, one a line; none where they cannot be looked up.
pub(crate) fn values(kind: Kind) -> anyhow::Result<()> {
    let owned = |names: &mut dyn Iterator<Item = &'static str>| names.map(str::to_owned).collect::<Vec<_>>();
    let words = match kind {
        Kind::SocketColumns => owned(&mut sockeye_listing::socket_columns()),
        Kind::FlowColumns => owned(&mut sockeye_listing::flow_columns()),
        Kind::FlowSort => owned(&mut sockeye_listing::flow_sort_keys()),
        Kind::NamespaceColumns => owned(&mut sockeye_netns::namespace_columns()),
        Kind::Rules => owned(&mut sockeye_check::rule_names()),
        Kind::Namespaces => [entries("/run/netns"), vec!["all".to_owned()]].concat(),
        Kind::Interfaces => [entries("/sys/class/net"), vec!["any".to_owned()]].concat(),
        Kind::Filter => {
            let conditions = sockeye_filter::words::conditions().map(|word| word.name);
            let states = sockeye_filter::words::states();
            let operators = sockeye_filter::words::operators().iter().copied();
            owned(&mut conditions.chain(states).chain(operators))
        }
    };
    stdout::write_lines(words)
}

fn entries(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    // A name may hold anything; one that a shell could take for more than a word is left out.
    let is_plain = |name: &String| {
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-@:".contains(c))
    };
    let mut names: Vec<String> = names.filter(is_plain).collect();
    names.sort_unstable();
    names
}

const BASH: &str = r#"
# Values that are looked up now; in a list with commas the last one.
_sockeye_values() {
    local kind=$1 word=$2 before= value
    case $word in *,*) before=${word%,*},; word=${word##*,};; esac
    # Not by compgen -W, which would expand what a name from outside contains.
    while IFS= read -r value; do
        case $value in "$word"*) COMPREPLY+=("$before$value") ;; esac
    done < <(sockeye complete "$kind" 2>/dev/null)
}

_sockeye_with_values() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} kind=
    case $command:$previous in
        ns:--columns | ns:--sort) kind=namespace-columns ;;
        sockets:--columns | s:--columns | sockets:--sort | s:--sort) kind=socket-columns ;;
        *:--columns) kind=flow-columns ;;
        *:--sort) kind=flow-sort ;;
        check:--only | check:--skip | check:--set) kind=rules ;;
        *:-N | *:--netns) kind=namespaces ;;
        capture:-i | capture:--interface) kind=interfaces ;;
        ns:exec | ns:del | ns:pids | ns:set) kind=namespaces ;;
    esac
    if [ -n "$kind" ]; then
        COMPREPLY=()
        _sockeye_values "$kind" "$word"
        return
    fi
    _sockeye "$@"
    case $command:$word in
        *:-*) ;;
        flows:* | sockets:* | s:* | check:* | kill:* | keepalive:*)
            [ "$COMP_CWORD" -gt 1 ] && _sockeye_values filter "$word"
            ;;
    esac
}
complete -F _sockeye_with_values -o nosort -o bashdefault -o default sockeye 2>/dev/null ||
    complete -F _sockeye_with_values -o bashdefault -o default sockeye
"#;

const ZSH: &str = r#"
# Values that are looked up now; in a list with commas the last one.
_sockeye_with_values() {
    local kind= previous=${words[CURRENT-1]} command=${words[2]}
    case $command:$previous in
        ns:--columns | ns:--sort) kind=namespace-columns ;;
        sockets:--columns | s:--columns | sockets:--sort | s:--sort) kind=socket-columns ;;
        *:--columns) kind=flow-columns ;;
        *:--sort) kind=flow-sort ;;
        check:--only | check:--skip | check:--set) kind=rules ;;
        *:-N | *:--netns) kind=namespaces ;;
        capture:-i | capture:--interface) kind=interfaces ;;
        ns:exec | ns:del | ns:pids | ns:set) kind=namespaces ;;
    esac
    if [[ -n $kind ]]; then
        compset -P '*,'
        compadd -- ${(f)"$(sockeye complete $kind 2>/dev/null)"}
        return
    fi
    _sockeye "$@"
    case $command in
        flows | sockets | s | check | kill | keepalive)
            (( CURRENT > 2 )) && compadd -- ${(f)"$(sockeye complete filter 2>/dev/null)"} ;;
    esac
}
(( $+functions[compdef] )) && compdef _sockeye_with_values sockeye
"#;

const FISH: &str = r#"
# Values that are looked up now.
complete -c sockeye -n "__fish_seen_subcommand_from sockets s" -l columns -xa "(__fish_complete_list , 'sockeye complete socket-columns')"
complete -c sockeye -n "__fish_seen_subcommand_from sockets s" -l sort -xa "(sockeye complete socket-columns)"
complete -c sockeye -n "__fish_seen_subcommand_from flows" -l columns -xa "(__fish_complete_list , 'sockeye complete flow-columns')"
complete -c sockeye -n "__fish_seen_subcommand_from flows" -l sort -xa "(sockeye complete flow-sort)"
complete -c sockeye -n "__fish_seen_subcommand_from ns" -l columns -xa "(__fish_complete_list , 'sockeye complete namespace-columns')"
complete -c sockeye -n "__fish_seen_subcommand_from ns" -l sort -xa "(sockeye complete namespace-columns)"
complete -c sockeye -n "__fish_seen_subcommand_from check" -l only -xa "(__fish_complete_list , 'sockeye complete rules')"
complete -c sockeye -n "__fish_seen_subcommand_from check" -l skip -xa "(__fish_complete_list , 'sockeye complete rules')"
complete -c sockeye -n "__fish_seen_subcommand_from capture" -s i -l interface -xa "(sockeye complete interfaces)"
complete -c sockeye -s N -l netns -xa "(sockeye complete namespaces)"
complete -c sockeye -n "__fish_seen_subcommand_from flows sockets s check kill keepalive" -a "(sockeye complete filter)"
"#;
