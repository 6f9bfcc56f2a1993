//! `sockeye keepalive set`.

use super::change::{self, ChangeArgs};
use super::spell;
use super::times::Times;
use crate::deed::Deed;
use clap::Args;
use sockeye_console::notes;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Have connections of running processes ask silent peers whether they are still there
///
/// Each socket is borrowed from its owner for a moment (pidfd_getfd), which takes no restart and changes nothing else.
/// Times that are not given are the defaults; where others are given and keepalive is on already, they stay as they are.
/// Connected sockets are meant, unless the filter names states; connections that a listener accepts inherit what it has
/// (state listening).
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
    let words = spell::times(&times);
    let deed = Deed {
        command: "keepalive set",
        done: "set",
        question: if args.times.are_partial() {
            format!("Set keepalive ({words}; where it is on already, what was not given stays as it is) on")
        } else {
            format!("Set keepalive ({words}) on")
        },
        remark: format!(": {words}"),
    };
    let kept = AtomicUsize::new(0);
    let status = change::run(&args.change, &deed, |socket| {
        let before = socket.set_keepalive(|before| args.times.change(before))?;
        if before.is_on && args.times.keep_some_of(&before) {
            kept.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    // Told also if what was done could not be written.
    let kept = kept.into_inner();
    if kept > 0 {
        let have = if kept == 1 { "has" } else { "have" };
        notes::say(&format!(
            "sockeye: keepalive set: {kept} of them had keepalive on already, and {have} kept other times where none were \
             given; {} sets those too\n",
            spell::options(&times)
        ));
    }
    status
}

const EXAMPLES: &str = "\
Examples:
  sockeye keepalive set 'dport = :5432'                      after asking you
  sockeye keepalive set owner = java --time 2m --yes         without asking
  sockeye keepalive set state listening and sport = :8080    what it will accept
  sockeye keepalive set state established -N all --dry-run   which that would be";
