//! `sockeye keepalive unset`.

use super::change::{self, ChangeArgs};
use crate::action::Action;
use clap::Args;
use sockeye_console::notes;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Turn off keepalive for connections of running processes
///
/// The times stay as they are, without effect. A user timeout stays too, and still ends connections whose data is not
/// acknowledged, unless --user-timeout removes it.
#[derive(Debug, Args)]
pub(crate) struct UnsetArgs {
    /// Also remove the user timeout (set it to 0, the system's default)
    #[arg(long)]
    user_timeout: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) fn run(args: &UnsetArgs) -> anyhow::Result<ExitCode> {
    let action = Action {
        command: "keepalive unset",
        done: "unset",
        question: if args.user_timeout {
            "Remove keepalive and the user timeout from".to_owned()
        } else {
            "Remove keepalive from".to_owned()
        },
        remark: if args.user_timeout {
            ", user timeout 0".to_owned()
        } else {
            String::new()
        },
    };
    let kept = AtomicUsize::new(0);
    let status = change::run(&args.change, &action, |socket| {
        if socket.unset_keepalive(args.user_timeout)? {
            kept.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    // Also if the result could not be written.
    let kept = kept.into_inner();
    if kept > 0 {
        let keep = if kept == 1 { "keeps its" } else { "keep their" };
        notes::say(&format!(
            "sockeye: keepalive unset: {kept} of them {keep} user timeout; --user-timeout removes it too\n"
        ));
    }
    status
}
