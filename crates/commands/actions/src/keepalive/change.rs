//! Changes keepalive of running sockets, for `keepalive set` and `keepalive unset`.

use super::borrow::{self, Borrowed};
use crate::action::{Action, ConfirmArgs};
use crate::outcome::Outcome;
use crate::targets::{self, Target, Targets};
use clap::Args;
use rustix::io::Errno;
use sockeye_act::{BorrowedSocket, SocketOptionError};
use sockeye_console::notes;
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{self, Listing};
use sockeye_sys::rights::{CheckedIn, remedy};
use std::borrow::Cow;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    common: ListingArgs,
    /// Filter in ss's language, for example: dport = :5432 and idle > 1h
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// Does `act` to the sockets that match the filter.
pub(super) fn run(
    args: &ChangeArgs,
    action: &Action,
    act: impl Fn(&BorrowedSocket) -> Result<(), SocketOptionError> + Sync,
) -> anyhow::Result<ExitCode> {
    targets::refuse_no_filter(action.command, &args.filter)?;
    let context = QueryContext::new(&args.common, false, listing::tests_netns(&args.filter))?;
    let mut listing = Listing::new(&args.common, &args.filter, None, &context)?;
    listing.require_owners();
    let options = super::query::options(&listing, false);
    let targets = Targets::find(&listing, &options)?;
    let sees_all = targets.see_every_owner();
    let outcomes = targets
        .all
        .iter()
        .map(|target| without_owner(target, &targets, sees_all));
    let outcomes = outcomes.collect();
    action.run(
        &args.confirm,
        &args.common,
        &listing,
        &targets,
        outcomes,
        |targets: &Targets, selected: &[usize]| {
            let all: Vec<&Target> = selected.iter().map(|&index| &targets.all[index]).collect();
            let mut borrowed = borrow::each(&all, &targets.owners, &act);
            // The owner may have moved the socket to another descriptor, or passed it to another process.
            let gone: Vec<usize> = (0..borrowed.len())
                .filter(|&nth| borrowed[nth] == Borrowed::Gone)
                .collect();
            // A failure here does not undo what was done.
            let new_owners = if gone.is_empty() {
                None
            } else {
                listing.owners(&mut listing.begin()).unwrap_or_else(|error| {
                    let command = action.command;
                    notes::say(&format!(
                        "sockeye: {command}: find the owners of sockets that had gone again: {error:#}\n"
                    ));
                    None
                })
            };
            if let Some(owners) = new_owners {
                let moved: Vec<&Target> = gone.iter().map(|&nth| all[nth]).collect();
                for (&nth, second) in gone.iter().zip(borrow::each(&moved, &owners, &act)) {
                    borrowed[nth] = match second {
                        Borrowed::Ownerless => Borrowed::Gone,
                        // The descriptor is in the table of a thread that does not share that of its process.
                        Borrowed::Gone => Borrowed::Refused(Errno::BADF),
                        second => second,
                    };
                }
            }
            Ok(borrowed.into_iter().map(outcome).collect())
        },
    )
}

/// Returns the outcome of sockets that cannot be borrowed, since they have no known owner.
fn without_owner(target: &Target, targets: &Targets, sees_all: bool) -> Outcome {
    if !targets.owners_of(target).is_empty() {
        Outcome::Untried
    } else if target.inode.is_none() || sees_all {
        Outcome::LeftOut(Cow::Borrowed(
            "no process holds it: it is not accepted yet, closed by its owner, or the kernel's own",
        ))
    } else {
        Outcome::Failed(Cow::Owned(format!(
            "no owner could be seen; {}",
            targets.owners_remedy()
        )))
    }
}

fn outcome(borrowed: Borrowed<()>) -> Outcome {
    match borrowed {
        Borrowed::Done(()) => Outcome::Done,
        Borrowed::Gone | Borrowed::Ownerless => Outcome::Gone,
        Borrowed::Refused(errno) => Outcome::Failed(refusal(errno)),
        Borrowed::Failed(SocketOptionError {
            option,
            errno: errno @ (Errno::OPNOTSUPP | Errno::NOPROTOOPT),
        }) => Outcome::Failed(Cow::Owned(format!(
            "{option}: {errno}: this kernel does not support it for sockets of this type (MPTCP)"
        ))),
        Borrowed::Failed(failure) => Outcome::Failed(Cow::Owned(format!("{failure}"))),
    }
}

/// Returns why a socket could not be borrowed, and what to do about it.
pub(super) fn refusal(errno: Errno) -> Cow<'static, str> {
    match errno {
        Errno::PERM | Errno::ACCESS => Cow::Owned(format!(
            "pidfd_getfd(2): {errno}: it needs CAP_SYS_PTRACE, or the user of the process if kernel.yama.ptrace_scope is \
             0; {}",
            remedy("CAP_SYS_PTRACE", CheckedIn::Initial)
        )),
        Errno::NOSYS => Cow::Borrowed("this kernel has no pidfd_getfd(2), which exists since Linux 5.6"),
        Errno::BADF => Cow::Borrowed(
            "the thread that holds it has a descriptor table of its own, which cannot be reached by the pid",
        ),
        Errno::MFILE | Errno::NFILE => Cow::Owned(format!("{errno}: raise the limit (ulimit -n)")),
        errno => Cow::Owned(format!("pidfd_getfd(2): {errno}")),
    }
}
