//! What `keepalive set` and `keepalive unset` have in common.

use super::reach::{self, Reached};
use crate::deed::{Deed, Manner, Outcome};
use crate::targets::{self, Target, Targets};
use clap::Args;
use rustix::io::Errno;
use sockeye_act::{BorrowedSocket, SocketOptionError};
use sockeye_console::notes;
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{self, Listing};
use std::borrow::Cow;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    common: ListingArgs,
    /// Which connections: an expression as ss takes it, for example: dport = :5432 and idle > 1h
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// Does `act` to the sockets that the filter names.
pub(super) fn run(
    args: &ChangeArgs,
    deed: &Deed,
    act: impl Fn(&BorrowedSocket) -> Result<(), SocketOptionError> + Sync,
) -> anyhow::Result<ExitCode> {
    targets::refuse_no_filter(deed.command, &args.filter)?;
    let context = QueryContext::new(&args.common, false, listing::tests_netns(&args.filter))?;
    let mut listing = Listing::new(&args.common, &args.filter, None, &context)?;
    listing.require_owners();
    let ask = super::ask(&listing, false);
    let targets = Targets::find(&listing, &ask)?;
    let sees_all = targets.see_every_owner();
    let outcomes = targets
        .all
        .iter()
        .map(|target| without_owner(target, &targets, sees_all));
    let outcomes = outcomes.collect();
    deed.run(
        &args.manner,
        &args.common,
        &listing,
        &targets,
        outcomes,
        |targets: &Targets, meant: &[usize]| {
            let all: Vec<&Target> = meant.iter().map(|&place| &targets.all[place]).collect();
            let mut reached = reach::each(&all, &targets.owners, &act);
            // Its owner may merely have moved it to another descriptor, or given it to somebody else.
            let again: Vec<usize> = (0..reached.len())
                .filter(|&nth| reached[nth] == Reached::Gone)
                .collect();
            // What is done is done, whether or not they can be found anew.
            let anew = if again.is_empty() {
                None
            } else {
                listing.owners(&mut listing.begin()).unwrap_or_else(|error| {
                    let command = deed.command;
                    notes::say(&format!(
                        "sockeye: {command}: look again for what had gone: {error:#}\n"
                    ));
                    None
                })
            };
            if let Some(owners) = anew {
                let moved: Vec<&Target> = again.iter().map(|&nth| all[nth]).collect();
                for (&nth, second) in again.iter().zip(reach::each(&moved, &owners, &act)) {
                    reached[nth] = match second {
                        Reached::Ownerless => Reached::Gone,
                        // Whoever holds it still does so in a table of descriptors that its pid does not lead to.
                        Reached::Gone => Reached::Refused(Errno::BADF),
                        second => second,
                    };
                }
            }
            Ok(reached.into_iter().map(outcome).collect())
        },
    )
}

/// Sockets that nobody holds have nobody who could be asked for them.
fn without_owner(target: &Target, targets: &Targets, sees_all: bool) -> Outcome {
    if !targets.owners_of(target).is_empty() {
        Outcome::Untried
    } else if target.inode.is_none() || sees_all {
        Outcome::LeftOut(Cow::Borrowed(
            "no process holds it: it is not accepted yet, closed by its owner already, or the kernel's own",
        ))
    } else {
        Outcome::Failed(Cow::Owned(format!(
            "no owner could be seen; {}",
            notes::remedy(RIGHTS)
        )))
    }
}

fn outcome(reached: Reached<()>) -> Outcome {
    match reached {
        Reached::Done(()) => Outcome::Done,
        Reached::Gone | Reached::Ownerless => Outcome::Gone,
        Reached::Refused(errno) => Outcome::Failed(refusal(errno)),
        Reached::Failed(SocketOptionError {
            option,
            errno: errno @ (Errno::OPNOTSUPP | Errno::NOPROTOOPT),
        }) => Outcome::Failed(Cow::Owned(format!(
            "{option}: {errno}: this kernel has it not for sockets of this kind (MPTCP)"
        ))),
        Reached::Failed(failure) => Outcome::Failed(Cow::Owned(format!("{failure}"))),
    }
}

/// Why a socket could not be borrowed, and what to do about it.
pub(super) fn refusal(errno: Errno) -> Cow<'static, str> {
    match errno {
        Errno::PERM | Errno::ACCESS => Cow::Owned(format!(
            "pidfd_getfd(2): {errno}: it needs CAP_SYS_PTRACE, or the process's own user where kernel.yama.ptrace_scope \
             is 0; {}",
            notes::remedy(RIGHTS)
        )),
        Errno::NOSYS => Cow::Borrowed("this kernel has no pidfd_getfd(2), which is there since Linux 5.6"),
        Errno::BADF => Cow::Borrowed(
            "the thread that holds it has a table of descriptors of its own, to which its process's number does not lead",
        ),
        Errno::MFILE | Errno::NFILE => Cow::Owned(format!("{errno}: raise the limit (ulimit -n)")),
        errno => Cow::Owned(format!("pidfd_getfd(2): {errno}")),
    }
}

/// What would help.
pub(super) const RIGHTS: &str = "run as root, or grant CAP_SYS_PTRACE";
