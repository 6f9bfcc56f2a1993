//! `sockeye keepalive set`.

use super::change::{self, ChangeArgs};
use super::text;
use super::times::Times;
use crate::action::Action;
use clap::Args;
use sockeye_console::notes;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Turn on keepalive for connections of running processes
///
/// Each socket is borrowed from its owner for a moment (pidfd_getfd): no restart, and nothing else changes. Times that are
/// not given get their defaults; if some are given and keepalive is already on, the others stay as they are. Connected
/// sockets are changed, unless the filter names states; connections that a listener accepts inherit its keepalive (state
/// listening).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) fn run(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let times = args.times.keepalive();
    let words = text::times(&times);
    let action = Action {
        command: "keepalive set",
        done: "set",
        question: if args.times.are_partial() {
            format!(
                "Set keepalive ({words}; if it is already on, times that were not given stay as they are) on"
            )
        } else {
            format!("Set keepalive ({words}) on")
        },
        remark: format!(": {words}"),
    };
    let kept = AtomicUsize::new(0);
    let status = change::run(&args.change, &action, |socket| {
        let before = socket.set_keepalive(|before| args.times.change(before))?;
        if before.is_on && args.times.keep_some_of(&before) {
            kept.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    // Also if the result could not be written.
    let kept = kept.into_inner();
    if kept > 0 {
        let have = if kept == 1 { "has" } else { "have" };
        notes::say(&format!(
            "sockeye: keepalive set: {kept} of them had keepalive on already, and {have} kept other times that were not \
             given; {} sets those too\n",
            text::options(&times)
        ));
    }
    status
}

const EXAMPLES: &str = "\
Examples:
  sockeye keepalive set 'dport = :5432'                     asks first
  sockeye keepalive set owner = java --time 2m --yes        without asking
  sockeye keepalive set state listening and sport = :8080   what it accepts
  sockeye keepalive set state established -N all --dry-run  only list them";
