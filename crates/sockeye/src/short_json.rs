//! `--json`, short for `--format json` in every command that has that format.

use clap::builder::ArgPredicate;
use clap::{Arg, ArgAction, Command};

/// Adds `--json` to a command and its subcommands, where `--format json` is there and `--json` is not.
pub(crate) fn add(command: Command) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|subcommand| subcommand.get_name().to_owned())
        .collect();
    let command = names
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, add));
    let has_json = command.get_arguments().any(|arg| arg.get_id() == "json");
    let has_format = command.get_arguments().any(|arg| {
        arg.get_id() == "format"
            && arg
                .get_possible_values()
                .iter()
                .any(|value| value.get_name() == "json")
    });
    if has_json || !has_format {
        return command;
    }
    let json = Arg::new("json")
        .long("json")
        .help("Short for --format json")
        .action(ArgAction::SetTrue)
        .conflicts_with("format");
    command.arg(json).mut_arg("format", |format| {
        format.default_value_if("json", ArgPredicate::Equals("true".into()), "json")
    })
}
