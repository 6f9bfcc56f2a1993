//! Arguments of `sockeye bench sources`.

use crate::output_args::OutputArgs;
use clap::Args;
use sockeye_console::usage::UsageError;
use sockeye_load::sources::descriptors_left;
use sockeye_model::ProtocolSet;
use sockeye_source::BpfEngine;
use std::path::PathBuf;

/// Compare the sources of the socket table
///
/// The sources take turns to read the whole table of this network namespace. The floor is the least that netlink costs: a
/// bare dump, received and discarded. A walk by BPF can be below it, since it does not use netlink.
#[derive(Debug, Args)]
pub(crate) struct SourcesArgs {
    /// Create this many TCP sockets in a private network namespace; a list measures each number [default: the host as it is]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    pub(super) sockets: Vec<u64>,
    /// Tables to read: tcp, udp, unix, raw, packet, netlink, mptcp, udplite or all, separated by commas [default: all; with --sockets: tcp]
    #[arg(short = 'A', long, value_name = "LIST", value_parser = sockeye_query::values::protocols)]
    pub(super) protocols: Option<ProtocolSet>,
    /// Reads by each source; the report shows the median [default: 10, fewer if that takes longer than 20 s]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) repeats: Option<u64>,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = BpfEngine::TYPES, hide = true)]
    pub(super) btf: PathBuf,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl SourcesArgs {
    /// Returns the numbers of sockets, ascending; empty: the host as it is.
    pub(super) fn sizes(&self) -> Result<Vec<u64>, UsageError> {
        let mut sizes = self.sockets.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let Some(most) = sizes.last() else {
            return Ok(sizes);
        };
        match descriptors_left() {
            Some(left) if *most > left => Err(UsageError(format!(
                "sockeye: --sockets {most}: this many descriptors are not allowed; at most {left} sockets, or `ulimit -n {}` \
                 first (as root)\n",
                most + 1000
            ))),
            _ => Ok(sizes),
        }
    }
}
