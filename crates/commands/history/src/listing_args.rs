//! The options of a listing whose rows are not printed by itself.

use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_query::args::{ListingArgs, SourceArg};
use std::path::PathBuf;
use std::time::Duration;

/// Returns the options of a listing with owners and without names of hosts, users and services.
pub(crate) fn listing_args(netns: Option<String>, source: SourceArg, btf: PathBuf) -> ListingArgs {
    ListingArgs {
        processes: true,
        numeric: true,
        ipv4: false,
        ipv6: false,
        netns,
        complete: false,
        source,
        format: FormatArg::Table,
        no_header: false,
        color: ColorArg::Never,
        btf,
        names_timeout: Duration::ZERO,
        verbose: false,
    }
}
