//! `sockeye ns exec`: runs a program in a network namespace, or in many at once.

mod job;
mod many;
mod outcome;
mod report;

use crate::args::{ExecArgs, TextFormat};
use crate::names as typed;
use crate::output::names::clean_name;
use many::Many;
use outcome::{NOT_ENTERED, NOT_STARTED};
use sockeye_act::netns;
use sockeye_act::program::Program;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_model::NetnsName;
use std::process::ExitCode;

pub(crate) fn run(args: &ExecArgs) -> anyhow::Result<ExitCode> {
    let is_one = !args.all && args.prefix.is_none();
    let (names, words) = if is_one {
        let (name, words) = args.words.split_first().ok_or_else(|| {
            UsageError("sockeye: ns exec: no namespace: give a name, --all or --prefix TEXT\n".to_owned())
        })?;
        // Whether it exists shows when it is opened.
        (vec![typed::existing(name)?], words)
    } else {
        (typed::all(args.prefix.as_deref())?, &args.words[..])
    };
    if args.dry_run {
        return stdout::write_lines(names.iter().map(clean_name)).map(|()| ExitCode::SUCCESS);
    }
    let program = Program::new(words).ok_or_else(|| {
        UsageError("sockeye: ns exec: no command, as in: sockeye ns exec web1 ip addr\n".to_owned())
    })?;
    if let Err(error) = netns::leave_vrf() {
        notes::say(&format!(
            "sockeye: cannot leave the VRF of ip vrf exec: {error}; sockets stay bound to its interface\n"
        ));
    }
    if let ([name], true, TextFormat::Text) = (&names[..], is_one, args.format) {
        return Ok(exec(name, &program));
    }
    if names.is_empty() {
        let which = match &args.prefix {
            Some(prefix) => format!("has a name that begins with {prefix:?}"),
            None => "has a name".to_owned(),
        };
        notes::say(&format!(
            "sockeye: no network namespace {which}: nothing to run\n"
        ));
    }
    Many {
        names: &names,
        program: &program,
        is_one,
        jobs: args.jobs,
        format: args.format,
    }
    .run()
}

/// Replaces this process by the program in the namespace. Returns only on failure, with the exit status of `ip netns exec`.
fn exec(name: &NetnsName, program: &Program<'_>) -> ExitCode {
    match netns::enter(name) {
        Ok(entered) => {
            for failed in &entered.failed_binds {
                notes::say(&format!("sockeye: {failed}\n"));
            }
            notes::say(&format!("sockeye: {}\n", program.exec()));
            ExitCode::from(NOT_STARTED)
        }
        Err(error) => {
            notes::say(&format!("sockeye: {error}\n"));
            ExitCode::from(NOT_ENTERED)
        }
    }
}
