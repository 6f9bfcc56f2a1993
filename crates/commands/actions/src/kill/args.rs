//! Arguments of `sockeye kill`: the filter that selects the sockets, and the confirmation.

use crate::action::ConfirmArgs;
use clap::Args;
use sockeye_query::args::{ListingArgs, SocketArgs};

/// Close sockets of any process
///
/// Their programs read ECONNABORTED, their peers get a reset.
/// It closes TCP connections, unless flags name other protocols or the filter names states. The kernel closes TCP, UDP
/// and RAW sockets; others are left out. So are those of the session that this command was started from, and the other
/// ends of its connections.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct KillArgs {
    #[command(flatten)]
    pub(super) which: SocketArgs,
    /// Also close what this session needs: the connection of its login, and the sockets of its processes
    #[arg(long)]
    pub(super) own_session: bool,
    #[command(flatten)]
    pub(super) confirm: ConfirmArgs,
    #[command(flatten)]
    pub(super) common: ListingArgs,
    /// Filter in ss's language, for example: dst 10.0.0.7 and dport = :5432
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  sockeye kill dst 10.0.0.7                        asks first
  sockeye kill sport = :8080 and state close-wait  not closed by the program
  sockeye kill owner = java and idle '>' 1h --yes  without asking
  sockeye kill -N web1 state listening and sport = :80
                                                   a listener
  sockeye kill state established -N all --dry-run  only list them";
