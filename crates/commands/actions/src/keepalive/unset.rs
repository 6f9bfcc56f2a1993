//! `sockeye keepalive unset`.

use super::change::{self, ChangeArgs};
use crate::deed::Deed;
use clap::Args;
use sockeye_console::notes;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Have connections of running processes ask their peers no more
///
/// The times stay as they are, without effect. A user timeout stays too, and goes on ending connections whose data is not
/// acknowledged, unless --user-timeout takes it away.
#[derive(Debug, Args)]
pub(crate) struct UnsetArgs {
    /// The user timeout too: as the system has it (0)
    #[arg(long)]
    user_timeout: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) fn run(args: &UnsetArgs) -> anyhow::Result<ExitCode> {
    let deed = Deed {
        command: "keepalive unset",
        done: "unset",
        question: if args.user_timeout {
            "Take keepalive and the user timeout from".to_owned()
        } else {
            "Take keepalive from".to_owned()
        },
        remark: if args.user_timeout {
            ", user timeout 0".to_owned()
        } else {
            String::new()
        },
    };
    let kept = AtomicUsize::new(0);
    let status = change::run(&args.change, &deed, |socket| {
        if socket.unset_keepalive(args.user_timeout)? {
            kept.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    // Told also if what was done could not be written.
    let kept = kept.into_inner();
    if kept > 0 {
        let keep = if kept == 1 { "keeps its" } else { "keep their" };
        notes::say(&format!(
            "sockeye: keepalive unset: {kept} of them {keep} user timeout; the same with --user-timeout takes it away\n"
        ));
    }
    status
}
