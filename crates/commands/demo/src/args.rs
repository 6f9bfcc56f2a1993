//! Arguments of `sockeye demo`.

use clap::Args;
use sockeye_load::world::Role;
use std::ffi::OsString;

/// A small host with faults to try the other commands on, in network namespaces of its own
///
/// It has a web server with 120 clients, a backend that leaks connections, a program that accepts none, a tunnel with a short
/// queue, and a lossy link. It prints what to type in another terminal, and stays until ^C. Nothing of this host changes, and
/// nothing stays behind. Without root it runs in a user namespace, where users may have one.
#[derive(Debug, Args)]
#[command(override_usage = "sockeye demo\n       sockeye demo -- COMMAND...")]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Become a program of the world
    #[arg(long, hide = true, value_name = "NAME", value_parser = role, conflicts_with = "command")]
    pub(crate) role: Option<Role>,
    /// Run this in it when all faults show, after about seven seconds, and end with it
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// Parses the value of `--role`.
fn role(text: &str) -> Result<Role, String> {
    Role::from_name(text).ok_or_else(|| "no program has this name".to_owned())
}

const EXAMPLES: &str = "\
Examples:
  sockeye demo                       prints six commands to type in another terminal
  sockeye demo -- sockeye check -n   what is wrong with that host
  sockeye demo -- bash               a shell on that host, where commands need no --netns

Exit status: that of the command, or 128 and the number of the signal that killed it. Without a
command 0 after ^C. 1 if the host cannot be made or a part of it ends, 2 for a usage error.";
